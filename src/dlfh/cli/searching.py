"""`dlfh search`: ask a collection with a text, an image, or an item of its own."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dlfh.cli.options import AsJson, check_parent, parse_pairs
from dlfh.cli.printing import print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dlfh.collection._collection import Collection, Found

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
        str | None, typer.Option(help="asymmetric (default), rerank, or hamming.", show_default=False)
    ] = None,
    specific: Annotated[
        bool, typer.Option("--specific", help="Prefer items near to this query alone to those near to most.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="Search among these ids alone; repeated.", show_default=False)
    ] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Draw the images found into this file (.png, .jpg).", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Find items by a text, an image, or an item of the collection.

    [b]Examples[/b]

    $ dlfh search shop/ --text "red running shoes"

    $ dlfh search shop/ --image photo.jpg --in text -k 5 --json

    $ dlfh search shop/ --id sku-17 --picture similar.png
    """
    from dlfh.cli.models import open_collection
    from dlfh.errors import InputError

    given: dict[str, Any] = {"text": text, "image": image, "id": id, **parse_pairs([ask] if ask else None, "--ask")}
    query = {name: value for name, value in given.items() if value is not None}
    if len(query) != 1:
        raise InputError(f"ask one question, with --text, --image, --id or --ask; got {len(query)}")
    check_parent(picture)
    with open_collection(collection) as opened:
        found = opened.search(k=k, radius=radius, among=among, ranking=ranking, specific=specific, only=only, **query)
        if picture is not None:
            missing = _draw(opened, found, picture)
        if as_json:
            print_json([asdict(item) for item in found])
            return
        _print_found(opened, found)
    if picture is not None:
        typer.echo(f"{picture}: the images found" + (f", {missing} of them missing" if missing else ""))


def _print_found(collection: Collection, found: Sequence[Found]) -> None:
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
                _said_of(item.metadata, texts),
            )
            for item in found
        ],
    )


def _said_of(metadata: dict[str, Any], modalities: Sequence[str]) -> str:
    """Return what is known of an item in a line: its texts first, then its labels."""
    texts = [str(metadata[name]) for name in modalities if name in metadata]
    labels = metadata.get("labels")
    line = " | ".join([*texts, *([", ".join(map(str, labels))] if isinstance(labels, list) else [])])
    return line if len(line) <= _WIDTH else line[: _WIDTH - 1] + "…"


def _draw(collection: Collection, found: Sequence[Found], picture: Path) -> int:
    """Draw the images of the items found; return how many are missing."""
    from dlfh.collection._pictures import contact_sheet, write_picture
    from dlfh.errors import InputError

    paths = [collection.image_path(item.metadata) for item in found]
    if not any(paths):
        raise InputError("there is no picture to draw: none of the items found has an image")
    write_picture(contact_sheet(paths, [item.id for item in found]), picture)
    return sum(path is None or not path.is_file() for path in paths)
