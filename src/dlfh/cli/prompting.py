"""The prompt of `dlfh search`: a collection that stays open, and takes a question a line."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import typer

from dlfh._terminal import plain

if TYPE_CHECKING:
    from dlfh.cli.searching import Asking
    from dlfh.collection import Collection

__all__ = ["stay_open"]

_HELP = """\
A line is a text to ask with. What begins with a colon is something else:
  :image FILE        ask with an image
  :id ID             ask for items like one of the collection
  :ask NAME=VALUE    ask in a modality of another name
  :modalities NAME   search this modality, or all; :modalities alone, what measured best
  :match NAME        match codes, words or both; :match alone, what measured best
  :k N               find so many items
  :ranking NAME      compare codes by asymmetric, specific or hamming
  :quit              leave, as Ctrl-D does"""

#: Commands that set how the next questions are asked.
_SETTINGS = {":modalities": "modalities", ":match": "match", ":ranking": "ranking"}

#: Commands that ask, by their modality: an item has none, and :ask names its own.
_QUESTIONS = {":image": "image", ":id": None, ":ask": None}


def stay_open(collection: Collection, asking: Asking) -> None:
    """Answer a question a line until there are no more: at a prompt if there is a terminal, or from a pipe.

    What is wrong with one question is said, and the next is taken. If questions come from a pipe and one was wrong, the
    exit code says so in the end. With ``--json`` each line has one answer: a list of items, or an object with an error.
    """
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and not asking.as_json
    if terminal:
        typer.echo(plain(f"{collection.path}: {len(collection):,} items. A line asks; :help, or Ctrl-D to leave."))
    n_wrong = 0
    for line in _lines(terminal):
        if line == ":quit":
            break
        n_wrong += not _take(collection, asking, line, terminal)
    if n_wrong and not terminal:
        raise typer.Exit(2)


def _lines(terminal: bool) -> Iterator[str]:
    """Yield the lines that are no blanks, as a reader of terminals or pipes gets them."""
    if isinstance(sys.stdin, TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    if not terminal:
        yield from filter(None, map(str.strip, sys.stdin))
        return
    with suppress(ImportError):  # lets input edit its line, and go back to former ones; it is not everywhere
        import readline  # noqa: F401
    while True:
        try:
            line = input("? ").strip()
        except EOFError:  # Ctrl-D
            typer.echo()
            return
        if line:
            yield line


def _take(collection: Collection, asking: Asking, line: str, terminal: bool) -> bool:
    """Answer a line, or do what it says; return whether nothing was wrong with it."""
    from dlfh.errors import DLFHError

    try:
        question = _question(collection, asking, line)
        if question is None:
            return True
        began = time.perf_counter()
        if asking.as_json:
            _print_line(asking.ask(collection, *question).to_dicts())
        else:
            asking.answer(collection, *question)
        if terminal:
            typer.echo(f"{1000 * (time.perf_counter() - began):.0f} ms")
    except BrokenPipeError:
        raise  # nobody reads the answers any more
    except (DLFHError, OSError) as error:
        if asking.as_json:
            _print_line({"error": " ".join(str(error).split())})
        else:
            print(plain(f"dlfh: {' '.join(str(error).split())}"), file=sys.stderr)
        return False
    finally:
        sys.stdout.flush()  # who pipes questions waits for their answers
    return True


def _question(collection: Collection, asking: Asking, line: str) -> tuple[str | None, Any] | None:
    """Return the modality and the value that a line asks with, or None for a setting; an item's id has no modality."""
    from dlfh._validation import check_integer
    from dlfh.cli.options import parse_pairs
    from dlfh.errors import InputError

    if not line.startswith(":"):
        return _text_modality(collection), line
    command, _, rest = line.partition(" ")
    rest = rest.strip()
    if command == ":help":
        typer.echo(_HELP)
    elif command in _SETTINGS:
        asking.how[_SETTINGS[command]] = rest or None
    elif command == ":k":
        asking.k = check_integer(int(rest) if rest.isdecimal() and len(rest) < 10 else rest, "k", 1)
    elif command in _QUESTIONS and rest:
        return next(iter(parse_pairs([rest], ":ask").items())) if command == ":ask" else (_QUESTIONS[command], rest)
    else:
        raise InputError(f"{line!r} is no question and no command: :help lists them")
    return None


def _text_modality(collection: Collection) -> str:
    """Return the modality that a line of words asks in."""
    from dlfh.errors import InputError

    featurizers = collection.encoder.featurizers_
    for name, featurizer in featurizers.items():
        if featurizer.takes == "texts":
            return name
    raise InputError(f"this collection takes no texts: ask with :id ID, or :ask NAME=VALUE ({', '.join(featurizers)})")


def _print_line(value: Any) -> None:
    print(json.dumps(value))
