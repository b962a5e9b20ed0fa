"""`dlfh search`: search a collection by a text, an image, a vector or an item, once or at a prompt."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from dlfh._imports import postpone_numpy_submodules
from dlfh._terminal import plain
from dlfh.cli.options import AsJson, Overwrite, argument, open_collection, option, parse_filters, parse_pairs
from dlfh.cli.output import print_error, print_json, print_table
from dlfh.errors import DLFHError, InputError

if TYPE_CHECKING:
    from dlfh.collection import Collection, SearchOptions
    from dlfh.collection.query import Query, SearchResult

_WIDTH = 60  # maximum length of a text in a table

_HELP = """\
Type a text to search for it, or a command:
  :image FILE         search by an image
  :similar ID         find items similar to the item with this id
  :query NAME=VALUE   search by a text, an image or a vector of the modality NAME
  :k N                number of items to return
  :modalities NAME    modality to search, or all; without NAME, the default
  :match NAME         match codes, words or both; without NAME, the default
  :ranking NAME       rank by all or any labels of the query; `dlfh search --help` lists further rankings
  :details            show or hide codes and distances
  :quit               exit, as Ctrl-D does"""


@dataclass
class SearchSession:
    """Answers queries, and prints and draws the results; each picture replaces the previous one."""

    collection: Collection
    options: SearchOptions
    output: Path | None = None
    overwrite: bool = False
    as_json: bool = False
    details: bool = False

    def search(self, query: Query) -> SearchResult:
        from dlfh.collection.query import issue_warnings

        results = self.collection.searcher.search([query], self.options)
        issue_warnings(results)
        return results[0]

    def answer(self, query: Query) -> None:
        """Search, and print and draw the result."""
        result = self.search(query)
        drawn = "" if self.output is None else self._draw(query, result, self.output)
        if self.as_json:
            print_json(result.to_dicts())
            return
        for note in result.notes:
            typer.echo(plain(note if note.endswith("?") else f"{note}."))
        if result:
            names, rows = result.table(details=self.details, hidden=self.collection.encoder.image_modalities())
            titles = [self.collection.titles(item.id, item.metadata) for item in result]
            if not all(_has_title(row, title) for title, row in zip(titles, rows, strict=True)):
                names.insert(1, "title")
                rows = [[row[0], title, *row[1:]] for row, title in zip(rows, titles, strict=True)]
            for row in rows:
                for place, name in enumerate(names):
                    if name in ("title", "text") and len(row[place]) > _WIDTH:
                        row[place] = row[place][: _WIDTH - 1] + "…"
            print_table("", names, rows, whole=("id",))
        else:
            typer.echo("nothing found")
        if drawn:
            typer.echo(drawn)

    def _draw(self, query: Query, result: SearchResult, output: Path) -> str:
        from dlfh.collection.pictures import page_path, write_answers

        image, title = None, f"{query.kind}: {query.value}"
        if query.kind == "id":
            image = self.collection.image_path(self.collection.get(query.value).metadata or {})
            title = f"similar to {query.value}"
        elif query.kind == "image":
            image = Path(query.value)
        n_missing = write_answers(self.collection, result, title, output, image=image, overwrite=self.overwrite)
        self.overwrite = True
        message = plain(f"images written to {output} and {page_path(output)}")
        missing = "images are missing: their paths are relative to the collection, so move them together with it"
        return message + (f"\n{n_missing} {missing}" if n_missing else "")


def _has_title(row: Sequence[Any], title: str) -> bool:
    """Return whether a cell begins with a title, as the text of an item without a column of titles does."""
    return any(" ".join(str(cell).split()).startswith(title.removesuffix("…")) for cell in row)


def search(
    collection: Path = argument("Folder of a collection.", "COLLECTION"),
    words: list[str] | None = argument("Text to search for. Without a query, a prompt opens.", "TEXT", None),
    image: Path | None = option("Search by an image file."),
    similar: str | None = option("Find items similar to the item with this id.", metavar="ID"),
    query: str | None = option(
        "Search by modality NAME: a text, an image file, or a vector as FILE or FILE:VARIABLE.", metavar="NAME=VALUE"
    ),
    k: int = option("Number of items to return.", "-k", default=10),
    modalities: list[str] | None = option(
        "Modality to search, or all; repeat for several. Default: the best on held-out items.", metavar="NAME"
    ),
    match: str | None = option("Match codes, words or both. Default: the best on held-out items."),
    ranking: str | None = option("Rank by labels (all, any) or by codes (asymmetric, hamming).", panel="Advanced"),
    literal: bool = option("Search for the exact text: no spelling correction, synonyms or exclusions.", default=False),
    hashed_only: bool = option("Rank all items by hashed code, even labelled ones.", default=False, panel="Advanced"),
    min_probability: float | None = option("Return only items with at least this probability."),
    radius: int | None = option(
        "Return all items within this Hamming distance, instead of the -k best.", panel="Advanced"
    ),
    ids: list[str] | None = option("Search only the item with this id; repeat for several.", metavar="ID"),
    relevant: list[str] | None = option(
        "Rank items like this one higher: the id of a right result; repeatable.", metavar="ID"
    ),
    irrelevant: list[str] | None = option(
        "Leave this item out and rank items like it lower: the id of a wrong result; repeatable.", metavar="ID"
    ),
    keep: bool = option("Keep the query and the results marked as right or wrong.", default=False),
    where: list[str] | None = option(
        "Filter by labels and columns: brand=Acme, 'price<20' or JSON; all filters must match.", metavar="FILTER"
    ),
    output: Path | None = option(
        "Write a picture of the results to this file (.png, .jpg), and a web page (.html) beside it.", "--output", "-o"
    ),
    overwrite: Overwrite = False,
    details: bool = option("Show codes and distances.", default=False),
    as_json: AsJson = False,
) -> None:
    """Search a collection by a text, an image, a vector, or one of its items; or by one of these and a text.

    Without a query, the command opens a prompt, or reads one query per line from a pipe.

    [b]Examples[/b]
    $ dlfh search shop/ red running shoes
    $ dlfh search shop/ shoes not black
    $ dlfh search shop/ --image photo.jpg --modalities text -k 5 --json
    $ dlfh search shop/ red --image shoe.jpg     [dim](like the picture, but red)[/dim]
    $ dlfh search shop/ shoes --where brand=Acme --where 'price<20'
    $ dlfh search shop/ --similar sku-17 -o similar.png
    $ dlfh search shop/ shoes --relevant sku-17 --irrelevant sku-20     [dim](ranked again)[/dim]
    $ dlfh search shop/ shoes --relevant sku-17 --keep     [dim](and kept)[/dim]
    $ dlfh search shop/     [dim](a prompt; Ctrl-D exits)[/dim]
    """
    if "numpy" not in sys.modules:
        # One query is too small for several BLAS threads, which take time to start.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        postpone_numpy_submodules()
    from dlfh._persistence.outputs import check_not_input, check_outputs
    from dlfh.collection import SearchOptions

    text = " ".join(words) if words else None
    options = {"text": text, "--image": image, "--similar": similar, "--query": query}
    queries = {name: value for name, value in options.items() if value is not None}
    n_given = len(queries.keys() - {"text"})
    if n_given > 1:
        raise InputError(f"expected one of --image, --similar and --query, with or without a text, got {n_given}")
    if keep and (similar is not None or len(queries) != 1 or not (relevant or irrelevant)):
        raise InputError("--keep needs a text, --image or --query alone, with --relevant or --irrelevant")
    outputs = []
    if output is not None:
        from dlfh.collection.pictures import page_path

        outputs = [output, page_path(output)]
    check_outputs(outputs, [collection, image], overwrite=overwrite)
    ranked: dict[str, Any] = {"match": match, "ranking": ranking, "hashed_only": hashed_only, "radius": radius}
    filters: dict[str, Any] = {"modalities": modalities, "ids": ids, "where": parse_filters(where)}
    filters |= {"relevant": relevant, "irrelevant": irrelevant}
    search_options = SearchOptions(k=k, min_probability=min_probability, **ranked, **filters)
    with open_collection(collection) as opened:
        for path in outputs:
            if path.exists():
                check_not_input(path, (file for item in opened for file in opened.image_paths(item.metadata or {})))
        session = SearchSession(opened, search_options, output, overwrite, as_json, details)
        if queries:
            *texts, (name, value) = queries.items()
            asked = _query(opened, name, value, literal)
            if texts:
                asked.also = _query(opened, *texts[0], literal)
            session.answer(asked)
        else:
            _run_prompt(session)
    if keep:
        with open_collection(collection, writable=True) as opened:
            modality = opened.searcher.modality_of(asked)
            opened.mark(modality, asked.value, relevant=relevant or (), irrelevant=irrelevant or ())


def _query(collection: Collection, option: str, value: Any, literal: bool = False) -> Query:
    """Return the query of an option or a command of the prompt: ``--query`` and ``:query`` take NAME=VALUE."""
    from dlfh.collection.query import Query

    kind: Any = option.lstrip(":-").replace("similar", "id")
    if kind != "query":
        return Query(kind, value, literal=literal)
    ((modality, value),) = parse_pairs([value], option).items()
    takes: Any = collection.encoder.featurizer(modality).takes.removesuffix("s")
    return Query(takes, _read_vector(value) if takes == "vector" else value, modality)


def _read_vector(value: str) -> Any:
    from dlfh.datasets.reading import find_array

    vectors = find_array({}, value)
    if vectors.ndim == 2 and vectors.shape[0] == 1:
        return vectors[0] if not hasattr(vectors, "toarray") else vectors.toarray()[0]
    if vectors.ndim != 1:
        raise InputError(f"{value} has an array of shape {vectors.shape}, expected one vector")
    return vectors


def _run_prompt(session: SearchSession) -> None:
    """Answer one query per line, from a prompt in a terminal or from a pipe, until the input ends.

    An error is reported and the next line is read; after a pipe with errors, the exit code is 2. With ``--json`` each
    line gets one line of output: a list of items, or an object with an error.
    """
    terminal = sys.stdin.isatty() and sys.stdout.isatty() and not session.as_json
    if terminal:
        size = f"{session.collection.path}: {len(session.collection):,} items"
        typer.echo(plain(f"{size}. Type a text to search for; :help, or Ctrl-D to exit."))
    n_errors = 0
    for line in _lines(terminal):
        if line == ":quit":
            break
        n_errors += not _run_line(session, line, terminal)
    if n_errors and not terminal:
        raise typer.Exit(2)


def _lines(terminal: bool) -> Iterator[str]:
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


def _run_line(session: SearchSession, line: str, terminal: bool) -> bool:
    """Answer a query or run a command; return whether it succeeded."""
    try:
        query = _parse_line(session, line)
        if query is None:
            return True
        began = time.perf_counter()
        if session.as_json:
            print(json.dumps(session.search(query).to_dicts()))
        else:
            session.answer(query)
        if terminal:
            typer.echo(f"{1000 * (time.perf_counter() - began):.0f} ms")
    except BrokenPipeError:
        raise
    except (DLFHError, OSError) as error:
        if session.as_json:
            print(json.dumps({"error": " ".join(str(error).split())}))
        else:
            print_error(error)
        return False
    finally:
        sys.stdout.flush()  # a program may wait for this result before it sends the next query
    return True


def _parse_line(session: SearchSession, line: str) -> Query | None:
    """Return the query in a line; None if the line is a command, which is run."""
    if not line.startswith(":"):
        return _query(session.collection, "text", line)
    command, _, value = line.partition(" ")
    value = value.strip()
    if command in (":image", ":similar", ":query") and value:
        return _query(session.collection, command, value)
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
