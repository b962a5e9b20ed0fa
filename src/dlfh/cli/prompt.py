"""The prompt of `dlfh search`: a collection stays open and answers one query per line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import typer

from dlfh._terminal import plain
from dlfh.cli.search import named_query
from dlfh.errors import DLFHError, InputError

if TYPE_CHECKING:
    from dlfh.cli.search import SearchSession
    from dlfh.collection.query import Query

_HELP = """\
Type a text to search for it, or a command:
  :image FILE         search by an image
  :similar ID         find items similar to one of the collection
  :query NAME=VALUE   search by a value of the modality NAME
  :k N                number of items to return
  :modalities NAME    modality to search, or all; alone, the default
  :match NAME         codes, words or both; alone, the default
  :ranking NAME       all, any, asymmetric or hamming; alone, the default
  :details            show or hide Hamming distances, kinds of codes and ties
  :quit               exit, as Ctrl-D does"""


def run_prompt(session: SearchSession) -> None:
    """Answer one query per line, from a prompt in a terminal or from a pipe, until the input ends.

    An error is reported and the next line is read; after a pipe with errors, the exit code is 2. With ``--json`` each
    line gets one line of output: a list of items, or an object with an error.
    """
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and not session.as_json
    if terminal:
        collection = session.collection
        typer.echo(
            plain(f"{collection.path}: {len(collection):,} items. Type a text to search for; :help, or Ctrl-D to exit.")
        )
    n_errors = 0
    for line in _lines(terminal):
        if line == ":quit":
            break
        n_errors += not _run(session, line, terminal)
    if n_errors and not terminal:
        raise typer.Exit(2)


def _lines(terminal: bool) -> Iterator[str]:
    """Yield the lines of a terminal or a pipe that are not blank."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    if not terminal:
        yield from filter(None, map(str.strip, sys.stdin))
        return
    with suppress(ImportError):  # adds line editing and history to input, where it is available
        import readline  # noqa: F401
    while True:
        try:
            line = input("? ").strip()
        except EOFError:  # Ctrl-D
            typer.echo()
            return
        if line:
            yield line


def _run(session: SearchSession, line: str, terminal: bool) -> bool:
    """Answer a query or run a command; return whether it succeeded."""
    try:
        query = _parse(session, line)
        if query is None:
            return True
        began = time.perf_counter()
        if session.as_json:
            _print_line(session.search(query).to_dicts())
        else:
            session.answer(query)
        if terminal:
            typer.echo(f"{1000 * (time.perf_counter() - began):.0f} ms")
    except BrokenPipeError:
        raise
    except (DLFHError, OSError) as error:
        if session.as_json:
            _print_line({"error": " ".join(str(error).split())})
        else:
            print(plain(f"dlfh: {' '.join(str(error).split())}"), file=sys.stderr)
        return False
    finally:
        sys.stdout.flush()  # a program may wait for this result before it sends the next query
    return True


def _parse(session: SearchSession, line: str) -> Query | None:
    """Return the query in a line; None if the line is a command, which is run."""
    from dlfh.collection.query import Query

    if not line.startswith(":"):
        return Query("text", line)
    command, _, value = line.partition(" ")
    value = value.strip()
    if command == ":image" and value:
        return Query("image", value)
    if command == ":similar" and value:
        return Query("id", value)
    if command == ":query" and value:
        return named_query(session.collection, value, ":query")
    if command == ":help":
        typer.echo(_HELP)
    elif command == ":details":
        session.details = not session.details
    elif command == ":k":
        number: Any = int(value) if value.isdecimal() and len(value) < 10 else value
        session.options = replace(session.options, k=number)
    elif command in (":modalities", ":match", ":ranking"):
        session.options = replace(session.options, **{command[1:]: value or None})  # type: ignore[arg-type]
    else:
        raise InputError(f"unknown command {line!r}: :help lists all commands")
    return None


def _print_line(value: Any) -> None:
    print(json.dumps(value))
