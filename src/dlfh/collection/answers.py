"""Write a search result as a contact sheet, with an HTML page beside it."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlfh._persistence.outputs import write_output
from dlfh.collection.pictures import contact_sheet, write_picture
from dlfh.collection.query import ResultItem, SearchResult
from dlfh.errors import InputError
from dlfh.features.images import read_image

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection

#: Side of an image on the sheet and on the page, in pixels; and images per row of the sheet.
_SHEET_SIZE, _PAGE_SIZE, _COLUMNS = 192, 320, 5

#: The page loads nothing from other hosts, runs no scripts, and sends nothing.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2126; --soft: #5b6470; --line: #d9dde2; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --soft: #9aa4b0; --line: #363d46; --paper: #14171a; } }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 80rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 1.2rem; overflow-wrap: anywhere; }
main { display: grid; gap: 1.2rem; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); }
figure { margin: 0; padding: .7rem; border: 1px solid var(--line); border-radius: .5rem; }
figure.query { border: 2px solid var(--ink); }
figure .frame { height: 15rem; display: grid; place-items: center; color: var(--soft); background: #fff; }
figure img { max-width: 100%; max-height: 15rem; }
figcaption p { margin: .25rem 0; overflow-wrap: anywhere; }
code { user-select: all; overflow-wrap: anywhere; }
.soft { color: var(--soft); font-size: .875rem; }
"""


@dataclass(frozen=True)
class _Tile:
    """An image and its caption."""

    heading: str
    name: str
    text: str
    facts: str
    image: Any  # a PIL image, or None if it is missing
    is_query: bool = False


def page_path(picture: Path) -> Path:
    """Return the path of the HTML page that accompanies a picture."""
    return picture.with_suffix(".html")


def write_answers(
    collection: Collection,
    result: SearchResult,
    title: str,
    picture: Path,
    *,
    image: Path | None = None,
    overwrite: bool = True,
) -> int:
    """Draw the items of a result, and write a page beside the picture; return the number of missing images.

    The title is the query, such as ``text: red shoes``, and ``image`` its image. The page contains its images and loads
    nothing from other hosts. Without ``overwrite``, existing files raise InputError.
    """
    paths = [collection.image_path(item.metadata) for item in result]
    if not any(paths):
        raise InputError("nothing to draw: none of the results has an image")
    images = collection.encoder.image_modalities()
    tiles = [_tile(item, path, images) for item, path in zip(result, paths, strict=True)]
    query = [] if image is None else [_Tile("query", "", "", "", _thumbnail(image), is_query=True)]
    write_picture(_sheet([*query, *tiles], title), picture, overwrite=overwrite)
    write_output(page_path(picture), [_page([*query, *tiles], title).encode()], overwrite=overwrite)
    return sum(tile.image is None for tile in tiles)


def _tile(item: ResultItem, path: Path | None, images: Sequence[str]) -> _Tile:
    facts = " · ".join(filter(None, [item.percentage, ", ".join(item.labels)]))
    return _Tile(str(item.rank), item.id, item.text(images), facts, None if path is None else _thumbnail(path))


def _thumbnail(source: Path) -> Any:
    """Return an image reduced to its size on the page; None if it cannot be read."""
    from PIL import Image

    try:
        image = Image.fromarray(read_image(source))
    except InputError:
        return None
    image.thumbnail((_PAGE_SIZE, _PAGE_SIZE))
    return image


def _sheet(tiles: Sequence[_Tile], title: str) -> Any:
    captions = [
        tile.heading if tile.is_query else f"{tile.heading}. {_file_name(tile.name)}\n{tile.text}" for tile in tiles
    ]
    images = [b"" if tile.image is None else tile.image for tile in tiles]  # empty bytes are drawn as a crossed box
    return contact_sheet(images, captions, columns=_COLUMNS, size=_SHEET_SIZE, title=title)


def _file_name(name: str) -> str:
    """Return the last part of an id that is a path; the page shows all of it."""
    return name.replace("\\", "/").rstrip("/").rpartition("/")[2] or name


def _page(tiles: Sequence[_Tile], title: str) -> str:
    return html_page(title, "<main>\n" + "\n".join(map(_figure, tiles)) + "\n</main>")


def _figure(tile: _Tile) -> str:
    alt = tile.name or tile.heading
    frame = "no image" if tile.image is None else f'<img alt="{escape(alt)}" src="{_data_url(tile.image)}">'
    name = f" <code>{escape(tile.name)}</code>" if tile.name else ""
    text = f"<p>{escape(tile.text)}</p>" if tile.text else ""
    facts = f'<p class="soft">{escape(tile.facts)}</p>' if tile.facts else ""
    kind = ' class="query"' if tile.is_query else ""
    return (
        f'<figure{kind}><div class="frame">{frame}</div>'
        f"<figcaption><p><strong>{escape(tile.heading)}</strong>{name}</p>{text}{facts}</figcaption></figure>"
    )


def _data_url(image: Any) -> str:
    content = BytesIO()
    image.convert("RGB").save(content, "JPEG", quality=85)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode()


def html_page(title: str, body: str) -> str:
    """Return a complete page around HTML that is already escaped."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )
