"""Font Awesome's free icons: a real data set with pictures, words and categories, installed by pip.

The icons (package ``fontawesomefree``) are licensed under CC BY 4.0, their code under the MIT licence:
https://fontawesome.com/license/free. ``resvg_py`` draws them.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Integers
from dlfh._imports import missing, require
from dlfh._progress import progress
from dlfh._validation import check_integer
from dlfh.datasets.paired import draw_rows
from dlfh.errors import InputError

_STYLES = ("solid", "regular", "brands")  # in order of preference
Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Icons:
    """Icons with pictures, words and categories."""

    ids: tuple[str, ...]  # unique names, such as "dog" or "arrow-left"
    images: Pixels  # (n, size, size), greyscale, dark on white
    texts: tuple[str, ...]  # name and search terms, such as "Dog, animal, canine, fauna, mammal, pet, ..."
    labels: tuple[tuple[str, ...], ...]  # categories, such as ("Animals",); empty if an icon has none

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int] | Integers) -> Icons:
        """Return the icons in ``rows``."""
        ids, texts = tuple(self.ids[row] for row in rows), tuple(self.texts[row] for row in rows)
        return Icons(ids, self.images[np.asarray(rows, np.int64)], texts, tuple(self.labels[row] for row in rows))

    def labelled(self) -> Icons:
        """Return the icons with at least one category."""
        return self.take([row for row, labels in enumerate(self.labels) if labels])

    def unlabelled(self) -> Icons:
        """Return the icons without a category, most of them brands."""
        return self.take([row for row, labels in enumerate(self.labels) if not labels])

    def write(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write image files and a table, ``items.csv``, with the columns name, file, title, words and categories.

        Return the path of the table. Unless ``overwrite`` is set, existing files raise InputError.
        """
        from PIL import Image

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        files = [f"{name}.png" for name in self.ids]
        for name in ("items.csv", *files):
            if not overwrite and os.path.lexists(path / name):
                raise InputError(f"cannot write {path / name}: it exists; pass overwrite=True to replace it")
        mode = "w" if overwrite else "x"
        for name, image in zip(files, self.images, strict=True):
            with open(path / name, f"{mode}b") as file:
                Image.fromarray(image).save(file, "PNG")
        titles = (text.partition(",")[0] for text in self.texts)
        rows = zip(self.ids, files, titles, self.texts, map(";".join, self.labels), strict=True)
        with open(path / "items.csv", mode, encoding="utf-8", newline="") as table:
            csv.writer(table).writerows([("name", "file", "title", "words", "categories"), *rows])
        return path / "items.csv"

    def split(self, test_size: int, random_state: int | None = 0) -> tuple[Icons, Icons]:
        """Return a random split into training icons and ``test_size`` test icons."""
        test, train = draw_rows(len(self), test_size, "test_size", random_state, "icons")
        return self.take(train), self.take(test)


def load_icons(size: int = 96, *, verbose: bool = False) -> Icons:
    """Draw Font Awesome's free icons, which ``pip install "dlfh[icons]"`` installs.

    1,446 icons have one or more of 68 categories; the others, most of them brands, have none. The text of an icon is
    its name and search terms; its categories are not included, but may occur among the terms. Drawing takes about 3
    seconds at the default size, in proportion to the number of pixels. Icons: CC BY 4.0 by Fonticons, Inc.
    """
    check_integer(size, "size", 8, 1024)
    found = importlib.util.find_spec("fontawesomefree")  # importing it would require Django settings
    if found is None or not found.submodule_search_locations:
        raise missing("fontawesomefree", "loading the icons", "icons")
    renderer = require("resvg_py", "drawing icons", "icons")
    folder = Path(found.submodule_search_locations[0]) / "static" / "fontawesomefree"
    icons = _read_icons(folder / "metadata" / "icons.json")
    labels = _read_labels(folder / "metadata" / "categories.yml")
    files = [folder / "svgs" / style / f"{name}.svg" for name, (style, _) in icons.items()]
    with progress(verbose) as bar:  # in one thread: the renderer holds Python's global lock
        images = np.stack([_draw(renderer, file, size) for file in bar.track(files, "Drawing icons")])
    texts = tuple(text for _, text in icons.values())
    return Icons(tuple(icons), images, texts, tuple(tuple(labels.get(name, ())) for name in icons))


def _read_icons(file: Path) -> dict[str, tuple[str, str]]:
    """Return the style and the text of each icon."""
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        icons = {}
        for name, entry in sorted(entries.items()):
            if entry["free"]:
                distinct: dict[str, str] = {}
                for written in (entry["label"], *map(str, entry["search"]["terms"])):
                    term = " ".join(written.split())
                    distinct.setdefault(term.casefold(), term)
                style = next(style for style in _STYLES if style in entry["free"])
                icons[name] = style, ", ".join(term for term in distinct.values() if term)
        return icons
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise InputError(f"unexpected format of {file.name} in fontawesomefree: {error!r}") from None


def _read_labels(file: Path) -> dict[str, list[str]]:
    """Return the categories of each icon; the file uses too little of YAML to need a YAML parser."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"fontawesomefree has no {file.name}: {error.strerror}") from None
    labels: dict[str, list[str]] = {}
    members: list[str] = []
    for number, line in enumerate(lines, 1):
        if re.fullmatch(r"[\w-]+:", line):
            members = []
        elif match := re.fullmatch(r"    - (.+)", line):
            members.append(_unquote(match[1]))
        elif match := re.fullmatch(r"  label: (.+)", line):  # follows the members
            for member in members:
                labels.setdefault(member, []).append(_unquote(match[1]))
        elif line != "  icons:":
            raise InputError(f"unexpected format of {file.name} in fontawesomefree, line {number}: {line}")
    return labels


def _unquote(value: str) -> str:
    match = re.fullmatch(r"'(.*)'|\"(.*)\"", value)
    return value if match is None else (match[1] or match[2] or "").replace("''", "'")


def _draw(renderer: Any, file: Path, size: int) -> Pixels:
    """Draw an icon as large as possible in the centre of a white square."""
    from PIL import Image

    svg = file.read_text(encoding="utf-8")
    match = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if match is None:
        raise InputError(f"unexpected format of {file.name} in fontawesomefree: it has no viewBox")
    side = {"width": size} if float(match[1]) >= float(match[2]) else {"height": size}
    png = renderer.svg_to_bytes(svg_string=svg, background="white", skip_system_fonts=True, **side)
    with Image.open(BytesIO(png)) as drawn:
        square = Image.new("L", (size, size), 255)
        square.paste(drawn.convert("L"), ((size - drawn.width) // 2, (size - drawn.height) // 2))
    return np.asarray(square)
