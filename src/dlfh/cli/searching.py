"""`dlfh search`: ask a collection with a text, an image, or an item of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlfh.cli.options import AsJson, Overwrite, parse_pairs
from dlfh.cli.printing import plain, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dlfh.collection import Collection, Found

__all__ = ["search"]

#: How much of a text or of other metadata a table shows.
_WIDTH = 60


def search(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.", show_default=False)],
    text: Annotated[str | None, typer.Option(help="Ask with a text.", show_default=False)] = None,
    image: Annotated[Path | None, typer.Option(help="Ask with an image file.", show_default=False)] = None,
    id: Annotated[
        str | None, typer.Option(help="Ask for items like one of the collection.", show_default=False)
    ] = None,
    ask: Annotated[
        str | None, typer.Option(help="Ask in a modality of another name: NAME=VALUE.", show_default=False)
    ] = None,
    among: Annotated[
        str | None,
        typer.Option("--in", help="Modality to search. Default: another than the query's.", show_default=False),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="How many items to find.")] = 10,
    radius: Annotated[
        int | None, typer.Option(help="Find all items within so many bits instead.", show_default=False)
    ] = None,
    ranking: Annotated[
        str | None,
        typer.Option(help="asymmetric (default), hamming, rerank, or specific.", show_default=False),
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="Search among these ids alone; repeated.", show_default=False)
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the images found into this file (.png, .jpg).", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Find items by a text, an image, or an item of the collection.

    [b]Examples[/b]

    $ dlfh search shop/ --text "red running shoes"

    $ dlfh search shop/ --image photo.jpg --in text -k 5 --json

    $ dlfh search shop/ --text shoes --ranking specific

    $ dlfh search shop/ --id sku-17 --picture similar.png
    """
    if "numpy" not in sys.modules:
        # One question gives BLAS threads nothing to do but to start and to wait.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from dlfh.cli.models import open_collection
    from dlfh.errors import InputError
    from dlfh.persistence._outputs import check_not_read, check_outputs

    asked = parse_pairs([ask] if ask else None, "--ask")
    given: list[tuple[str, Any]] = [("text", text), ("image", image), *asked.items()]
    query = [(modality, value) for modality, value in given if value is not None]
    n_questions = len(query) + (id is not None)
    if n_questions != 1:
        raise InputError(f"ask one question, with --text, --image, --id or --ask; got {n_questions}")
    if id is not None and ranking not in (None, "hamming"):
        raise InputError(f"an item of the collection cannot ask by ranking {ranking!r}: only its code is kept")
    check_outputs([picture], [collection, image], overwrite=overwrite)
    with open_collection(collection) as opened:
        if picture is not None and picture.exists():
            check_not_read(picture, _image_files(opened))
        if id is not None:
            found = opened.similar(id, k, among=among, radius=radius, only=only)
        else:
            ((modality, value),) = query
            found = opened.search(modality, value, k, among=among, ranking=ranking, radius=radius, only=only)
        if picture is not None:
            missing = _draw(opened, found, picture)
        if as_json:
            print_json(found.to_dicts())
            return
        _print_found(opened, found)
    if picture is not None:
        typer.echo(plain(f"{picture}: the images found") + (f", {missing} of them missing" if missing else ""))


def _print_found(collection: Collection, found: Found) -> None:
    if not found:
        typer.echo("nothing found")
        return
    images = collection.encoder.image_modalities()
    texts = [name for name in collection.encoder.modalities_ if name not in images]
    print_table(
        "",
        ("", "id", "bits apart", "distance", "code", "what it is"),
        [
            (
                item.rank,
                item.id,
                item.bits_apart,
                f"{item.distance:.2f}",
                "learned" if item.learned else "hashed",
                _item_line(item.metadata, texts),
            )
            for item in found
        ],
    )


def _item_line(metadata: dict[str, Any], modalities: Sequence[str]) -> str:
    """Return what is known of an item in a line: its texts first, then its labels."""
    texts = [str(metadata[name]) for name in modalities if name in metadata]
    labels = metadata.get("labels")
    line = " | ".join([*texts, *([", ".join(map(str, labels))] if isinstance(labels, list) else [])])
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def _image_files(collection: Collection) -> Iterator[Path]:
    """Yield the image files of all items."""
    for item in collection:
        for name in collection.encoder.image_modalities():
            if item.metadata is not None and isinstance(item.metadata.get(name), str):
                yield collection.path.resolve() / item.metadata[name]


def _draw(collection: Collection, found: Found, picture: Path) -> int:
    """Draw the images of the items found; return how many are missing."""
    from dlfh.collection._pictures import contact_sheet, write_picture
    from dlfh.errors import InputError

    paths = [collection.image_path(item.metadata) for item in found]
    if not any(paths):
        raise InputError("there is no picture to draw: none of the items found has an image")
    write_picture(contact_sheet(paths, [item.id for item in found]), picture)
    return sum(path is None or not path.is_file() for path in paths)
