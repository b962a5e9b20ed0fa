"""The `dlfh` command: its subcommands, one-line error messages and exit codes."""

from __future__ import annotations

import gc
import os
import re
import signal
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import typer

from dlfh._terminal import plain
from dlfh._version import __version__
from dlfh.cli.options import convert_without_pydantic, option, with_options
from dlfh.cli.output import print_error, start_clock
from dlfh.errors import DLFHError

#: Exit codes for invalid input or usage, and for an interrupt (128 + SIGINT, as in shells).
_INVALID_INPUT, _INTERRUPTED = 2, 130
#: Commands, in the order of the help.
COMMANDS = (
    *(
        "build",
        "search",
        "suggest",
        "label",
        "relearn",
        "serve",
        "key",
        "add",
        "remove",
        "sync",
        "meaning",
        "copy",
        "export",
    ),
    *("info", "evaluate", "fit", "encode", "tune", "bench", "methods", "cite"),
)
#: Modules of the commands that are not in a module of the same name.
_MODULES = {
    **{"fit": "build", "add": "update", "remove": "update", "sync": "update", "meaning": "update", "export": "copy"},
    **{"methods": "info", "cite": "info", "label": "suggest", "relearn": "suggest", "key": "serve"},
}
#: Breaks in the help of a command: between paragraphs, and before each example and each bold term.
_BREAK = re.compile(r"\n\n|\n *(?=\$ |\[b\])")


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the application with the named commands; importing only the requested one speeds up start-up."""
    convert_without_pydantic()
    app = typer.Typer(
        name="dlfh",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="To get started, run [b]dlfh build[/b] on a folder of images, then [b]dlfh search[/b]. "
        "[b]dlfh build --help[/b] has examples.",
    )
    app.callback()(with_options(root))
    for name in names:
        command = getattr(import_module(f"dlfh.cli.{_MODULES.get(name, name)}"), name)
        paragraphs = _BREAK.split(command.__doc__)  # lines are joined, because the terminal wraps them
        app.command(name, help="\n\n".join(" ".join(text.split()) for text in paragraphs))(with_options(command))
    return app


def _show_version(requested: bool) -> None:
    if requested:
        typer.echo(f"dlfh {__version__}")
        raise typer.Exit


def root(
    version: bool = option("Show the version and exit.", default=False, callback=_show_version, is_eager=True),
) -> None:
    """Cross-modal search with short binary codes: find images by text, and text by images."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command and return its exit code."""
    start_clock()
    gc.set_threshold(100_000, *gc.get_threshold()[1:])  # imports leave little garbage, and many collections find none
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
    except typer.Exit as exit:
        return int(exit.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        return _fail("interrupted", _INTERRUPTED)
    except BrokenPipeError:
        # The reader has closed the pipe. Discard the rest, including the flush at interpreter shutdown.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except DLFHError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error))
    except MemoryError:
        return _fail("out of memory")
    except Exception as error:
        usage: Any = getattr(error, "format_message", None)  # an error of the command-line parser
        if usage is None:
            raise
        return _fail(str(usage()))


class _Terminated(KeyboardInterrupt):
    """SIGTERM. After a plain KeyboardInterrupt in `eval`, even if caught, Python exits by signal, without a code."""


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Treat SIGTERM as an interrupt, so that a terminated command removes its partial output."""

    def interrupt(*_: Any) -> None:
        raise _Terminated

    try:
        previous = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # only the main thread can set signal handlers
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(plain(f"dlfh: warning: {message}"), file=sys.stderr)


def _fail(message: str, code: int = _INVALID_INPUT) -> int:
    print_error(message)
    return code
