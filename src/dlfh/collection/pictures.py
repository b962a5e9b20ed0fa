"""Contact sheets: several images in one, with captions."""

from __future__ import annotations

import os
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from dlfh._persistence.outputs import write_output
from dlfh._validation import check_integer
from dlfh.errors import InputError
from dlfh.features.images import read_image

_GAP = 8
_LINE = 14

#: Lines of a caption.
_MAX_LINES = 3


def contact_sheet(
    images: Sequence[Any],
    captions: Sequence[str] | None = None,
    *,
    columns: int = 8,
    size: int = 96,
    title: str | None = None,
) -> Any:
    """Arrange images, scaled to squares of ``size`` pixels, in rows on one sheet, a PIL image.

    An image that cannot be read is drawn as a crossed box. Captions have up to three lines, cut to the width of the
    square; characters that the font lacks are drawn as "?".
    """
    from PIL import Image, ImageDraw

    check_integer(columns, "columns", 1)
    check_integer(size, "size", 8, 2048)
    if captions is not None and len(captions) != len(images):
        raise InputError(f"captions has {len(captions)} entries but images has {len(images)}")
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


def write_picture(picture: Any, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
    """Write an image to a .png, .jpg or .webp file atomically; an existing file is an error without ``overwrite``."""
    target = Path(path)
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
    """Draw one line of text, cut to a width."""
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
