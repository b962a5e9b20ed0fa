"""`dlfh search`: search a collection by a text, an image, a vector or an item, once or at a prompt."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlfh._lazy import postpone_numpy_submodules
from dlfh._terminal import plain
from dlfh.cli.options import AsJson, Overwrite, parse_filters, parse_pairs
from dlfh.cli.output import print_json, print_table
from dlfh.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dlfh.collection import Collection, SearchOptions
    from dlfh.collection.query import Query, SearchResult

#: Characters of a text in a table.
_WIDTH = 60


@dataclass
class SearchSession:
    """Answers queries, and prints and draws the results; each picture replaces the one before."""

    collection: Collection
    options: SearchOptions
    output: Path | None = None
    overwrite: bool = False
    as_json: bool = False
    details: bool = False

    def search(self, query: Query) -> SearchResult:
        """Return the result of a query."""
        from dlfh.collection.query import issue_warnings

        results = self.collection.searcher.search([query], self.options)
        issue_warnings(results)
        return results[0]

    def answer(self, query: Query) -> None:
        """Search, and print and draw the result."""
        result = self.search(query)
        n_missing = 0
        if self.output is not None:
            n_missing = self._draw(query, result, self.output)
            self.overwrite = True
        if self.as_json:
            print_json(result.to_dicts())
            return
        self._print(result)
        if self.output is not None:
            _report_output(self.output, n_missing)

    def _print(self, result: SearchResult) -> None:
        for note in result.notes:
            typer.echo(plain(note if note.endswith("?") else f"{note}."))
        if not result:
            typer.echo("nothing found")
            return
        names, rows = result.table(details=self.details, hidden=self.collection.encoder.image_modalities())
        shown = [
            [_shortened(cell) if name == "text" else cell for name, cell in zip(names, row, strict=True)]
            for row in rows
        ]
        print_table("", names, shown, whole=("id",))

    def _draw(self, query: Query, result: SearchResult, output: Path) -> int:
        """Draw the images of the query and of the items found; return the number of missing ones."""
        from dlfh.collection.pictures import write_answers

        image, title = None, f"{query.kind}: {query.value}"
        if query.kind == "id":
            image = self.collection.image_path(self.collection.get(query.value).metadata or {})
            title = f"similar to {query.value}"
        elif query.kind == "image":
            image = Path(query.value)
        return write_answers(self.collection, result, title, output, image=image, overwrite=self.overwrite)


def search(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.", show_default=False)],
    words: Annotated[
        list[str] | None,
        typer.Argument(help="Text to search for. Without a query, a prompt opens.", show_default=False),
    ] = None,
    image: Annotated[Path | None, typer.Option(help="Search by an image file.", show_default=False)] = None,
    similar: Annotated[
        str | None, typer.Option(metavar="ID", help="Find items similar to one of the collection.", show_default=False)
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=VALUE",
            help="Search by a value of the modality NAME: a text, an image file, or a vector as FILE or FILE:VARIABLE.",
            show_default=False,
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Number of items to return.")] = 10,
    modalities: Annotated[
        list[str] | None,
        typer.Option(
            help="Modality to search, or all; repeat for several. Default: the best on held-out items.",
            show_default=False,
        ),
    ] = None,
    match: Annotated[
        str | None, typer.Option(help="codes, words or both. Default: the best on held-out items.", show_default=False)
    ] = None,
    ranking: Annotated[
        str | None, typer.Option(help="all, any (by labels), asymmetric or hamming (by codes).", show_default=False)
    ] = None,
    literal: Annotated[
        bool, typer.Option("--literal", help="Search for the text as it is: correct, replace and exclude nothing.")
    ] = False,
    hashed_only: Annotated[
        bool, typer.Option("--hashed-only", help="Compare hashed codes only, so labelled items are not favoured.")
    ] = False,
    min_probability: Annotated[
        float | None, typer.Option(help="Return only items that are at least this probable.", show_default=False)
    ] = None,
    radius: Annotated[
        int | None,
        typer.Option(help="Return all items within this Hamming distance instead of -k.", show_default=False),
    ] = None,
    ids: Annotated[
        list[str] | None,
        typer.Option(help="Search only the item with this id; repeat for several.", show_default=False),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            help="Filter by labels and columns: NAME=VALUE, 'price<20', or JSON; repeat to combine.", show_default=False
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Draw the images found into this file (.png, .jpg), with a page (.html) beside it.",
            show_default=False,
        ),
    ] = None,
    overwrite: Overwrite = False,
    details: Annotated[
        bool, typer.Option("--details", help="Show Hamming distances, kinds of codes and ties.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Search a collection by a text, an image, a vector, or one of its items.

    Without a query the collection stays open and answers one query per line, from a prompt or a pipe.

    [b]Examples[/b]

    $ dlfh search shop/ red running shoes

    $ dlfh search shop/ shoes not black

    $ dlfh search shop/ --image photo.jpg --modalities text -k 5 --json

    $ dlfh search shop/ shoes --where brand=Acme --where 'price<20'

    $ dlfh search shop/ --similar sku-17 -o similar.png

    $ dlfh search shop/     [dim](a prompt; Ctrl-D exits)[/dim]
    """
    if "numpy" not in sys.modules:
        # One query is too small for several BLAS threads, which take time to start.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        postpone_numpy_submodules()
    from dlfh._persistence.outputs import check_not_input, check_outputs
    from dlfh.cli.models import open_collection
    from dlfh.collection import SearchOptions
    from dlfh.collection.query import Query

    text = " ".join(words) if words else None
    n_queries = sum(value is not None for value in (text, image, similar, query))
    if n_queries > 1:
        raise InputError(f"expected one query (a text, --image, --similar or --query), got {n_queries}")
    outputs = _outputs(output)
    check_outputs(outputs, [collection, image], overwrite=overwrite)
    options = SearchOptions(
        k=k,
        modalities=modalities,
        match=match,
        ranking=ranking,
        hashed_only=hashed_only,
        min_probability=min_probability,
        radius=radius,
        ids=ids,
        where=parse_filters(where),
    )
    with open_collection(collection) as opened:
        for path in outputs:
            if path.exists():
                check_not_input(path, _image_files(opened))
        session = SearchSession(opened, options, output, overwrite, as_json, details)
        if text is not None:
            session.answer(Query("text", text, literal=literal))
        elif image is not None:
            session.answer(Query("image", image))
        elif similar is not None:
            session.answer(Query("id", similar))
        elif query is not None:
            session.answer(named_query(opened, query, "--query"))
        else:
            from dlfh.cli.prompt import run_prompt

            run_prompt(session)


def named_query(collection: Collection, pair: str, option: str) -> Query:
    """Return the query of NAME=VALUE: a text, the path of an image, or the vector in a file."""
    from dlfh.collection.query import Query

    ((modality, value),) = parse_pairs([pair], option).items()
    kind: Any = collection.encoder.featurizer(modality).takes.removesuffix("s")
    return Query(kind, _read_vector(value) if kind == "vector" else value, modality)


def _read_vector(value: str) -> Any:
    from dlfh.datasets.reading import find_array

    vectors = find_array({}, value)
    if vectors.ndim == 2 and vectors.shape[0] == 1:
        return vectors[0] if not hasattr(vectors, "toarray") else vectors.toarray()[0]
    if vectors.ndim != 1:
        raise InputError(f"{value} has an array of shape {vectors.shape}, expected one vector")
    return vectors


def _shortened(text: str) -> str:
    return text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…"


def _outputs(output: Path | None) -> list[Path]:
    if output is None:
        return []
    from dlfh.collection.pictures import page_path

    return [output, page_path(output)]


def _image_files(collection: Collection) -> Iterator[Path]:
    """Yield the image files of all items."""
    for item in collection:
        yield from collection.image_paths(item.metadata or {})


def _report_output(output: Path, n_missing: int) -> None:
    from dlfh.collection.pictures import page_path

    typer.echo(plain(f"images written to {output} and {page_path(output)}"))
    if n_missing:
        typer.echo(
            f"{n_missing} images are missing: their paths are relative to the collection, so move them together with it"
        )
