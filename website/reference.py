"""Reference pages generated from the help of the commands and the docstrings of the public names."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from dlfh.cli.app import make_app

__all__ = ["command_line", "reference_pages"]

#: Classes whose pages include inherited members.
SHOWN_WHOLE = {"DLFH", "CrossModalHasher", "Featurizer", "HashLearner"}
API = Path(__file__).parent.parent / "docs" / "api.md"


def command_line() -> str:
    """Return a page of all commands, made from their help."""
    app: Any = typer.main.get_command(make_app())
    lines = [
        "# Command line",
        "",
        "This page has the text of `dlfh --help` and `dlfh COMMAND --help`. A command that fails prints one sentence "
        "and exits with code 2; an interrupted command exits with code 130 ([errors](errors.md)).",
        "",
    ]
    for name, command in app.commands.items():
        lines += _command(f"dlfh {name}", command)
    return "\n".join(lines) + "\n"


def _command(name: str, command: Any) -> list[str]:
    lines = [f"## `{name}`", "", *_prose(inspect.cleandoc(command.help or "")), ""]
    arguments = [parameter for parameter in command.params if not parameter.opts[0].startswith("-")]
    options = [parameter for parameter in command.params if parameter.opts[0].startswith("-") and not parameter.hidden]
    for title, parameters in (("argument", arguments), ("option", options)):
        rows = [_row(parameter) for parameter in parameters]
        if rows:
            lines += [f"| {title} | description | default |", "|---|---|---|", *rows, ""]
    return lines


def _prose(text: str) -> Iterator[str]:
    """Yield help as Markdown, with examples in a code block and Rich's bold as Markdown bold."""
    shown = [line.removeprefix("$ ") for line in text.splitlines() if line.startswith("$ ")]
    for line in text.splitlines():
        if re.fullmatch(r"\[b\]Examples?\[/b\]", line.strip()):
            if shown:
                yield from ["```sh", *shown, "```"]
            shown = []
        elif not line.startswith("$ "):
            yield re.sub(r"\[/?b\]", "**", line)


def _row(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    if not parameter.opts[0].startswith("-"):
        names = f"`{parameter.metavar or parameter.opts[0].upper()}`" + (" ..." if parameter.nargs == -1 else "")
    said = re.sub(r"\[/?b\]", "**", " ".join((parameter.help or "").split())).replace("|", "\\|")
    default = parameter.default
    if parameter.required:
        shown = "required"
    elif parameter.show_default is False or default in (None, False, ()) or callable(default):
        shown = ""
    else:
        shown = f"`{getattr(default, 'value', default)}`"
    return f"| {names} | {said}{' Repeated.' if _is_list(parameter, said) else ''} | {shown} |"


def _is_list(parameter: Any, said: str) -> bool:
    return bool(parameter.multiple) and "repeat" not in said.lower()


def reference_pages() -> dict[str, str]:
    """Return a page for each public module, by name, with directives for mkdocstrings."""
    pages = {}
    for door in re.findall(r"^## `(dlfh[\w.]*)`", API.read_text(encoding="utf-8"), re.MULTILINE):
        module = importlib.import_module(door)
        names = [name for name in module.__all__ if name != "__version__"]
        documented = [name for name in names if callable(getattr(module, name))]
        known = [f"[`{name}`](#{door}.{name})" for name in documented]
        lines = [f"# `{door}`", "", *_summary(module), "", " · ".join(known), ""]
        for name in documented:
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isroutine(value):
                inherits = "true" if name in SHOWN_WHOLE else "false"
                lines += [f"::: {door}.{name}", "    options:", f"      inherited_members: {inherits}", ""]
            else:  # a callable object
                lines += [f"## `{name}` {{ #{door}.{name} }}", "", *_plain(inspect.getdoc(value) or ""), ""]
        pages[door] = "\n".join(lines)
    return pages


def _summary(module: Any) -> list[str]:
    """Return the docstring of a module without its examples."""
    return _plain(inspect.cleandoc(module.__doc__ or "").partition("\n>>>")[0].rstrip())


def _plain(said: str) -> list[str]:
    """Return a docstring as Markdown, with code in single backquotes."""
    return re.sub(r"``([^`]+)``", r"`\1`", said).splitlines()
