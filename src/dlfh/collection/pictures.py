"""Draw a search result as a contact sheet, with an HTML page beside it."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from dlfh._persistence.outputs import write_output
from dlfh.collection.collection import Collection
from dlfh.collection.query import SearchResult
from dlfh.errors import InputError
from dlfh.features.images import read_image

#: Margin and line height of a contact sheet in pixels, and number of lines of a caption.
_GAP, _LINE, _MAX_LINES = 8, 14, 3
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


class _Tile(NamedTuple):
    image: Any  # None if it is missing
    heading: str
    name: str = ""
    text: str = ""
    facts: str = ""


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
    """Draw the items of a result and write an HTML page beside the picture; return the number of missing images.

    The title is the query, such as ``text: red shoes``, and ``image`` is its image, if any. The page embeds all images
    and loads nothing from other hosts. Without ``overwrite``, existing files raise InputError.
    """
    paths = [collection.image_path(item.metadata) for item in result]
    if not any(paths):
        raise InputError("nothing to draw: none of the results has an image")
    hidden = collection.encoder.image_modalities()
    tiles = [] if image is None else [_Tile(_thumbnail(image), "query")]
    for item, path in zip(result, paths, strict=True):
        facts = " · ".join(filter(None, [item.percentage, ", ".join(item.labels)]))
        thumbnail = None if path is None else _thumbnail(path)
        tiles.append(_Tile(thumbnail, str(item.rank), item.id, item.text(hidden), facts))
    # If an id is a path, the sheet shows only the file name, and the page shows the full path.
    short = [re.split(r"[/\\]", tile.name.rstrip("/\\"))[-1] or tile.name for tile in tiles]
    captions = [f"{t.heading}. {name}\n{t.text}" if name else t.heading for t, name in zip(tiles, short, strict=True)]
    images = [b"" if tile.image is None else tile.image for tile in tiles]  # empty bytes are drawn as a crossed box
    sheet = contact_sheet(images, captions, columns=_COLUMNS, size=_SHEET_SIZE, title=title)
    _write_picture(sheet, picture, overwrite=overwrite)
    page = html_page(title, "<main>\n" + "\n".join(map(_figure, tiles)) + "\n</main>")
    write_output(page_path(picture), [page.encode()], overwrite=overwrite)
    return sum(tile.image is None for tile in tiles[image is not None :])


def _thumbnail(source: Path) -> Any:
    """Return an image reduced to its size on the page; None if it cannot be read."""
    from PIL import Image

    try:
        image = Image.fromarray(read_image(source))
    except InputError:
        return None
    image.thumbnail((_PAGE_SIZE, _PAGE_SIZE))
    return image


def _figure(tile: _Tile) -> str:
    frame = "no image"
    if tile.image is not None:
        content = BytesIO()
        tile.image.convert("RGB").save(content, "JPEG", quality=85)
        source = "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode()
        frame = f'<img alt="{escape(tile.name or tile.heading)}" src="{source}">'
    name = f" <code>{escape(tile.name)}</code>" if tile.name else ""
    text = f"<p>{escape(tile.text)}</p>" if tile.text else ""
    facts = f'<p class="soft">{escape(tile.facts)}</p>' if tile.facts else ""
    kind = "" if tile.name else ' class="query"'
    return (
        f'<figure{kind}><div class="frame">{frame}</div>'
        f"<figcaption><p><strong>{escape(tile.heading)}</strong>{name}</p>{text}{facts}</figcaption></figure>"
    )


def html_page(title: str, body: str) -> str:
    """Return a complete page around HTML that is already escaped."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def contact_sheet(
    images: Sequence[Any], captions: Sequence[str] | None = None, *, columns: int = 8, size: int = 96, title: str = ""
) -> Any:
    """Arrange images, scaled to squares of ``size`` pixels, in rows on one sheet, a PIL image.

    An image that cannot be read is drawn as a crossed box. Captions have up to three lines, cut to the width of the
    square; characters that the font lacks are drawn as "?".
    """
    from PIL import Image, ImageDraw

    words = None if captions is None else [str(caption).split("\n")[:_MAX_LINES] for caption in captions]
    cell_height = size + _GAP + _LINE * max(map(len, words or []), default=0)
    top = _GAP + (_LINE if title else 0)
    n_rows = -(-len(images) // columns)
    n_columns = max(min(columns, len(images)), 1)
    sheet = Image.new("RGB", (_GAP + n_columns * (size + _GAP), top + max(n_rows, 1) * cell_height), "white")
    draw = ImageDraw.Draw(sheet)
    if title:
        _write(draw, (_GAP, _GAP // 2), title, sheet.width - 2 * _GAP)
    for number, image in enumerate(images):
        left = _GAP + number % columns * (size + _GAP)
        upper = top + number // columns * cell_height
        _place(sheet, draw, image, (left, upper), size)
        for line, text in enumerate(words[number] if words is not None else []):
            _write(draw, (left, upper + size + 1 + _LINE * line), text, size)
    return sheet


def _write_picture(picture: Any, target: Path, *, overwrite: bool) -> None:
    formats = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
    if target.suffix.lower() not in formats:
        raise InputError(f"cannot write an image to {target}: its name must end in .png, .jpg or .webp")
    content = BytesIO()
    picture.save(content, formats[target.suffix.lower()])
    write_output(target, [content.getbuffer()], overwrite=overwrite)


def _place(sheet: Any, draw: Any, source: Any, corner: tuple[int, int], size: int) -> None:
    from PIL import Image

    left, upper = corner
    try:
        image = Image.fromarray(read_image(source))
    except InputError:
        box = (left, upper, left + size - 1, upper + size - 1)
        draw.rectangle(box, outline="grey")
        draw.line(box, fill="grey")
        return
    scale = size / max(image.size)
    fitted = image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))))
    sheet.paste(fitted, (left + (size - fitted.width) // 2, upper + (size - fitted.height) // 2))


def _write(draw: Any, corner: tuple[int, int], text: str, width: int) -> None:
    line = _drawable(draw, " ".join(str(text).split()))
    if draw.textlength(line) > width:
        while line and draw.textlength(line + "...") > width:
            line = line[:-1]
        line += "..."
    draw.text(corner, line, fill="black")


def _drawable(draw: Any, line: str) -> str:
    """Replace characters that the font cannot draw.

    Pillow's built-in outline font has Latin letters; without FreeType, Pillow has a bitmap font of 256 characters and
    raises UnicodeEncodeError for all others.
    """
    shown = "".join(letter if letter.isprintable() and ord(letter) < 0x250 else "?" for letter in line)
    try:
        draw.textlength(shown)
    except UnicodeEncodeError:
        return line.encode("ascii", "replace").decode("ascii")
    return shown
