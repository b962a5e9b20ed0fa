"""The commands together, and what becomes of their errors: one sentence, and an exit code."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from typing import Annotated, Any

import typer

from dlfh._terminal import plain
from dlfh._version import __version__
from dlfh.bench.commands import bench, tune
from dlfh.cli import building, encoding, evaluating, indexing, informing, searching, serving, syncing
from dlfh.cli.printing import start_clock

__all__ = ["app", "main"]

#: Exit codes: wrong input or usage, and an interrupt (as shells have it).
_WRONG_INPUT, _INTERRUPTED = 2, 130

app = typer.Typer(
    name="dlfh",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Three commands from a folder of images to answers: [b]dlfh build[/b], [b]dlfh search[/b], and "
    "[b]dlfh evaluate[/b]. Try [b]dlfh build --help[/b].",
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"dlfh {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and leave.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Cross-modal hashing: find images by texts, and texts by images, with codes of a few bytes."""


app.command("build")(building.build)
app.command("fit")(building.fit)
app.command("encode")(encoding.encode)
app.command("search")(searching.search)
app.command("sync")(syncing.sync)
app.command("serve")(serving.serve)
app.command("evaluate")(evaluating.evaluate)
app.command("info")(informing.info)
app.command("methods")(informing.methods)
app.add_typer(indexing.app, name="index")
app.add_typer(bench, name="bench")
app.command("tune")(tune)


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
            return int(app(arguments, standalone_mode=False) or 0)
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
