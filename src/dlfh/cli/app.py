"""The commands together, and what becomes of their errors: one sentence, and an exit code."""

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
from dlfh.cli.printing import start_clock

__all__ = ["COMMANDS", "main", "make_app"]

#: Exit codes: wrong input or usage, and an interrupt (as shells have it).
_WRONG_INPUT, _INTERRUPTED = 2, 130

#: By name: the module of each command, or of each group of commands, and what it is called there.
COMMANDS = {
    "build": "dlfh.cli.building:build",
    "fit": "dlfh.cli.building:fit",
    "encode": "dlfh.cli.encoding:encode",
    "search": "dlfh.cli.searching:search",
    "sync": "dlfh.cli.syncing:sync",
    "serve": "dlfh.cli.serving:serve",
    "evaluate": "dlfh.cli.evaluating:evaluate",
    "measure": "dlfh.cli.measuring:measure",
    "info": "dlfh.cli.informing:info",
    "methods": "dlfh.cli.informing:methods",
    "cite": "dlfh.cli.citing:cite",
    "index": "dlfh.cli.indexing:app",
    "export": "dlfh.cli.exporting:export",
    "bench": "dlfh.bench.commands:bench",
    "tune": "dlfh.cli.tuning:tune",
}


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """Return the command line, or a part of it: who searches need not wait for the options of all other commands."""
    app = typer.Typer(
        name="dlfh",
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog="Three commands from a folder of images to answers: [b]dlfh build[/b], [b]dlfh search[/b], and "
        "[b]dlfh evaluate[/b]. Try [b]dlfh build --help[/b].",
    )
    app.callback()(root)
    for name in names:
        module, _, called = COMMANDS[name].partition(":")
        command = getattr(import_module(module), called)
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name)(command)
    return app


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dlfh {__version__}")
        raise typer.Exit


def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Cross-modal hashing: find images by texts, and texts by images, with codes of a few bytes."""


def main(arguments: list[str] | None = None) -> int:
    """Run a command; return its exit code."""
    start_clock()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal may lack letters that data have
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
        # The reader of our output has gone; nothing is left to say, not even while Python shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _fail("interrupted", _INTERRUPTED)


def _exit_code(error: Exception) -> int:
    """Say what went wrong in a sentence, if it is of a kind that has one, or raise it again; return the exit code."""
    from dlfh.errors import DLFHError

    if isinstance(error, typer.Abort):
        return _fail("interrupted", _INTERRUPTED)
    if isinstance(error, typer.Exit):
        return int(error.exit_code)
    usage: Any = getattr(error, "format_message", None)  # of the command line's parser
    if usage is not None:
        return _fail(str(usage()), _WRONG_INPUT)
    if isinstance(error, DLFHError):
        return _fail(str(error), _WRONG_INPUT)
    if isinstance(error, OSError):
        return _fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), _WRONG_INPUT)
    if isinstance(error, MemoryError):
        return _fail("there is not enough memory for this", _WRONG_INPUT)
    raise error


@contextmanager
def _termination_as_interrupt() -> Iterator[None]:
    """Let a request to terminate end a command as an interrupt does: nothing half written stays."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, interrupt)
    except ValueError:  # in a thread, which gets no signals
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    print(plain(f"dlfh: warning: {message}"), file=sys.stderr)


def _fail(sentence: str, code: int) -> int:
    """Say in a sentence why a command ends; return its exit code."""
    print(plain(f"dlfh: {' '.join(sentence.split())}"), file=sys.stderr)
    return code
