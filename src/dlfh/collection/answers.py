"""Answers to look at: a picture of the items found, and a page beside it with their names in full."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlfh._persistence.outputs import write_output
from dlfh.collection.html import html_page
from dlfh.collection.pictures import contact_sheet, write_picture
from dlfh.collection.result import ResultItem, SearchResult
from dlfh.errors import InputError
from dlfh.features.images import read_image

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection

__all__ = ["Question", "page_beside", "write_answers"]

#: The sides of a picture on the sheet, and of one on the page, in pixels; and how many stand side by side.
_SHEET_SIZE, _PAGE_SIZE, _COLUMNS = 192, 320, 5


@dataclass(frozen=True)
class Question:
    """What was asked, to be shown above its answers.

    Attributes
    ----------
    words : str
        The question in words, such as ``text: red shoes``.
    image : path or None
        The picture that asked, if one did.
    """

    words: str
    image: Path | None = None


@dataclass(frozen=True)
class _Tile:
    """A picture, and what stands under it."""

    heading: str
    name: str
    about: str
    facts: str
    image: Any  # a PIL image, or None if there is none that can be read
    is_query: bool = False


def page_beside(picture: Path) -> Path:
    """Return where the page of a picture goes: ``found.html`` beside ``found.png``.

    Examples
    --------
    >>> page_beside(Path("out", "found.png")).as_posix()
    'out/found.html'
    """
    return picture.with_suffix(".html")


def write_answers(
    collection: Collection, found: SearchResult, question: Question, picture: Path, *, overwrite: bool = True
) -> int:
    """Draw the items found under their question, and write a page beside the picture; return how many lack theirs.

    The page holds its pictures itself, small ones, and asks no other host for anything.

    Parameters
    ----------
    collection : Collection
    found : SearchResult
    question : Question
    picture : path
        Its name ends in ``.png``, ``.jpg`` or ``.webp``.
    overwrite : bool
        Whether files that are there are replaced; if not, they are a reason to raise InputError.
    """
    paths = [collection.image_path(item.metadata) for item in found]
    if not any(paths):
        raise InputError("there is no picture to draw: none of the items found has an image")
    texts = [name for name in collection.encoder.modalities_ if name not in collection.encoder.image_modalities()]
    tiles = [_tile(item, path, texts) for item, path in zip(found, paths, strict=True)]
    asked = [] if question.image is None else [_Tile("asked with", "", "", "", _small(question.image), is_query=True)]
    write_picture(_sheet([*asked, *tiles], question.words), picture, overwrite=overwrite)
    write_output(page_beside(picture), [_page([*asked, *tiles], question.words).encode()], overwrite=overwrite)
    return sum(tile.image is None for tile in tiles)


def _tile(item: ResultItem, path: Path | None, texts: Sequence[str]) -> _Tile:
    labels = item.metadata.get("labels")
    facts = [", ".join(map(str, labels))] if isinstance(labels, list) else []
    facts.append(f"{item.hamming_distance} bits apart")
    about = " | ".join(str(item.metadata[name]) for name in texts if name in item.metadata)
    return _Tile(str(item.rank), item.id, about, " · ".join(facts), None if path is None else _small(path))


def _small(source: Path) -> Any:
    """Return a picture no larger than the page shows it; None if it cannot be read."""
    from PIL import Image

    try:
        image = Image.fromarray(read_image(source))
    except InputError:
        return None
    image.thumbnail((_PAGE_SIZE, _PAGE_SIZE))
    return image


def _sheet(tiles: Sequence[_Tile], title: str) -> Any:
    captions = [
        tile.heading if tile.is_query else f"{tile.heading}. {_end_of(tile.name)}\n{tile.about}" for tile in tiles
    ]
    images = [b"" if tile.image is None else tile.image for tile in tiles]  # no bytes are no image: a crossed box
    return contact_sheet(images, captions, columns=_COLUMNS, size=_SHEET_SIZE, title=title)


def _end_of(name: str) -> str:
    """Return the end of a name that is a path: folders stand on the page."""
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2] or name


def _page(tiles: Sequence[_Tile], title: str) -> str:
    return html_page(title, "<main>\n" + "\n".join(map(_figure, tiles)) + "\n</main>")


def _figure(tile: _Tile) -> str:
    shown = tile.name or tile.heading
    frame = "no picture" if tile.image is None else f'<img alt="{escape(shown)}" src="{_as_address(tile.image)}">'
    name = f" <code>{escape(tile.name)}</code>" if tile.name else ""
    about = f"<p>{escape(tile.about)}</p>" if tile.about else ""
    facts = f'<p class="soft">{escape(tile.facts)}</p>' if tile.facts else ""
    kind = ' class="query"' if tile.is_query else ""
    return (
        f'<figure{kind}><div class="frame">{frame}</div>'
        f"<figcaption><p><strong>{escape(tile.heading)}</strong>{name}</p>{about}{facts}</figcaption></figure>"
    )


def _as_address(image: Any) -> str:
    content = BytesIO()
    image.convert("RGB").save(content, "JPEG", quality=85)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode()
