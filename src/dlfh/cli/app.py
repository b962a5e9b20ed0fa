"""The `dlfh` command: its subcommands, one-line error messages and exit codes."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from dlfh._terminal import plain
from dlfh._version import __version__
from dlfh.cli.output import start_clock
from dlfh.errors import DLFHError

#: Exit codes for invalid input or usage, and for an interrupt (128 + SIGINT, as in shells).
_INVALID_INPUT, _INTERRUPTED = 2, 130

#: Module and function of each command.
COMMANDS = {
    "build": "dlfh.cli.build:build",
    "search": "dlfh.cli.search:search",
    "suggest": "dlfh.cli.suggest:suggest",
    "serve": "dlfh.cli.serve:serve",
    "add": "dlfh.cli.add:add",
    "remove": "dlfh.cli.remove:remove",
    "sync": "dlfh.cli.sync:sync",
    "copy": "dlfh.cli.copy:copy",
    "export": "dlfh.cli.export:export",
    "info": "dlfh.cli.info:info",
    "evaluate": "dlfh.cli.evaluate:evaluate",
    "fit": "dlfh.cli.fit:fit",
    "encode": "dlfh.cli.encode:encode",
    "tune": "dlfh.cli.tune:tune",
    "bench": "dlfh.cli.bench:bench",
    "methods": "dlfh.cli.methods:methods",
    "cite": "dlfh.cli.cite:cite",
}


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the application with the named commands; importing only the requested one speeds up start-up."""
    app = typer.Typer(
        name="dlfh",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="To get started, run [b]dlfh build[/b] on a folder of images, then [b]dlfh search[/b]. "
        "[b]dlfh build --help[/b] has examples.",
    )
    app.callback()(root)
    for name in names:
        module, _, function = COMMANDS[name].partition(":")
        command = getattr(import_module(module), function)
        app.command(name, help=_unwrapped(command.__doc__))(command)
    return app


def _unwrapped(text: str) -> str:
    """Join the lines of each paragraph, so that help is wrapped to the width of the terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"dlfh {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Cross-modal search with short binary codes: find images by text, and text by images."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    start_clock()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack characters of the data
    try:
        with warnings.catch_warnings(), _termination_as_interrupt():
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = _show_warning
            given = sys.argv[1:] if arguments is None else arguments
            app = make_app(given[:1] if given[:1] and given[0] in COMMANDS else COMMANDS)
            return int(app(given, standalone_mode=False) or 0)
    except Exception as error:
        if not isinstance(error, BrokenPipeError):
            return _exit_code(error)
        # The reader has closed the pipe. Discard the rest, including the flush at interpreter shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _fail("interrupted", _INTERRUPTED)


def _exit_code(error: Exception) -> int:
    """Print an expected error as one line and return the exit code; re-raise any other error."""
    if isinstance(error, typer.Abort):
        return _fail("interrupted", _INTERRUPTED)
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    usage: Any = getattr(error, "format_message", None)  # an error of the command-line parser
    if usage is not None:
        return _fail(str(usage()), _INVALID_INPUT)
    if isinstance(error, DLFHError):
        return _fail(str(error), _INVALID_INPUT)
    if isinstance(error, OSError):
        return _fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), _INVALID_INPUT)
    if isinstance(error, MemoryError):
        return _fail("out of memory", _INVALID_INPUT)
    raise error


class _Terminated(KeyboardInterrupt):
    """SIGTERM. After a plain KeyboardInterrupt inside `eval`, Python would exit by a signal instead of a code."""


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM as an interrupt, so that a terminated command removes its partial output."""

    def interrupt(*_: Any) -> None:
        raise _Terminated

    try:
        previous = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # not the main thread, which alone receives signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(plain(f"dlfh: warning: {message}"), file=sys.stderr)


def _fail(message: str, code: int) -> int:
    """Print an error message as one line and return the exit code."""
    print(plain(f"dlfh: {' '.join(message.split())}"), file=sys.stderr)
    return code
