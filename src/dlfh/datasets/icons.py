"""Icons with search terms and categories: a real data set that installs from the package index.

The free icons of Font Awesome (package ``fontawesomefree``) are licensed under CC BY 4.0, their code under the MIT
licence: https://fontawesome.com/license/free. They are drawn by ``resvg_py``.
"""

from __future__ import annotations

import csv
import importlib.util
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._optional import missing, require
from dlfh._progress import progress
from dlfh._validation import check_integer, check_random_state
from dlfh.errors import InputError

__all__ = ["Icons", "load_icons"]

_STYLES = ("solid", "regular", "brands")  # the style that is drawn is the first that an icon has

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Icons:
    """Icons as pictures, words and categories.

    Attributes
    ----------
    ids : tuple of str
        Unique names, such as ``"dog"`` or ``"arrow-left"``.
    images : ndarray of uint8 (n, size, size)
        Grey, dark on white.
    texts : tuple of str
        The name and the search terms of each, such as ``"Dog, animal, canine, fauna, mammal, pet, ..."``.
    labels : tuple of tuple of str
        The names of its categories, such as ``("Animals",)``; empty where it has none.

    Examples
    --------
    >>> icons = load_icons(size=32)
    >>> dog = icons.ids.index("dog")
    >>> icons.labels[dog]
    ('Animals',)
    >>> train, test = icons.labelled().split(test_size=300)
    >>> len(train), len(test)
    (1146, 300)
    """

    ids: tuple[str, ...]
    images: Pixels
    texts: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: Sequence[int] | npt.NDArray[np.int64]) -> Icons:
        """Return the icons in ``rows``."""
        return Icons(
            tuple(self.ids[row] for row in rows),
            self.images[np.asarray(rows, np.int64)],
            tuple(self.texts[row] for row in rows),
            tuple(self.labels[row] for row in rows),
        )

    def labelled(self) -> Icons:
        """Return the icons with at least one category."""
        return self.take([row for row, labels in enumerate(self.labels) if labels])

    def unlabelled(self) -> Icons:
        """Return the icons without a category, most of them brands."""
        return self.take([row for row, labels in enumerate(self.labels) if not labels])

    def write(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the icons as a user would have them: image files, and a table ``items.csv`` that describes them.

        Its columns are ``name``, ``file``, ``words`` and ``categories`` (separated by semicolons).

        Parameters
        ----------
        folder : path
            Made if it is not there.
        overwrite : bool, default False
            Whether files of these names that are there are replaced; if not, they are a reason to raise InputError.

        Returns
        -------
        Path
            The table.
        """
        from PIL import Image

        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        rows = [
            (name, f"{name}.png", words, ";".join(labels))
            for name, words, labels in zip(self.ids, self.texts, self.labels, strict=True)
        ]
        for name in ("items.csv", *(file for _, file, _, _ in rows)):
            if not overwrite and os.path.lexists(path / name):
                raise InputError(f"cannot write {path / name}: it is there already, and overwrite would replace it")
        mode = "w" if overwrite else "x"
        for (_, name, _, _), image in zip(rows, self.images, strict=True):
            with open(path / name, f"{mode}b") as file:
                Image.fromarray(image).save(file, "PNG")
        with open(path / "items.csv", mode, encoding="utf-8", newline="") as table:
            csv.writer(table).writerows([("name", "file", "words", "categories"), *rows])
        return path / "items.csv"

    def split(self, test_size: int, random_state: int | None = 0) -> tuple[Icons, Icons]:
        """Return a random split into training icons and ``test_size`` test icons."""
        check_integer(test_size, "test_size", 1)
        if test_size >= len(self):
            raise InputError(f"test_size is {test_size} but there are only {len(self)} icons")
        order = check_random_state(random_state).permutation(len(self))
        return self.take(np.sort(order[test_size:])), self.take(np.sort(order[:test_size]))


def load_icons(size: int = 96, *, verbose: bool = False) -> Icons:
    """Load and draw the free icons of Font Awesome, which ``pip install "dlfh[icons]"`` brings.

    1,446 of its icons have one or more of 68 categories; the others, most of them brands, have none. An icon's
    text is its name and its search terms: never its categories, though some terms are the same words. Icons:
    CC BY 4.0 by Fonticons, Inc.

    Parameters
    ----------
    size : int, default 96
        Side of the pictures in pixels, 8 to 1024. Drawing them takes about 3 seconds, and as many times more as
        there are more pixels.
    verbose : bool, default False
        Show a progress bar.

    Returns
    -------
    Icons

    Examples
    --------
    >>> icons = load_icons(size=32)
    >>> len(icons.labelled()), len({label for labels in icons.labels for label in labels})
    (1446, 68)
    """
    check_integer(size, "size", 8, 1024)
    folder = _folder()
    icons = _read_icons(folder / "metadata" / "icons.json")
    labels = _labels_by_icon(_read_categories(folder / "metadata" / "categories.yml"))
    ids = tuple(icons)
    images = _draw([folder / "svgs" / icons[name].style / f"{name}.svg" for name in ids], size, verbose)
    return Icons(
        ids, images, tuple(icons[name].text for name in ids), tuple(tuple(labels.get(name, ())) for name in ids)
    )


def _folder() -> Path:
    """Return where the package keeps its files, without importing it: importing needs Django's settings."""
    found = importlib.util.find_spec("fontawesomefree")
    if found is None or not found.submodule_search_locations:
        raise missing("fontawesomefree", "loading the icons", "icons")
    return Path(found.submodule_search_locations[0]) / "static" / "fontawesomefree"


@dataclass(frozen=True)
class _Icon:
    style: str
    text: str


def _read_icons(file: Path) -> dict[str, _Icon]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))
        return {
            name: _Icon(
                style=next(style for style in _STYLES if style in entry["free"]),
                text=_joined([entry["label"], *map(str, entry["search"]["terms"])]),
            )
            for name, entry in sorted(entries.items())
            if entry["free"]
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StopIteration) as error:
        raise InputError(f"fontawesomefree has another format than expected in {file.name}: {error!r}") from None


def _joined(terms: list[str]) -> str:
    """Return terms as one text, each but once."""
    found: dict[str, str] = {}
    for term in (" ".join(term.split()) for term in terms):
        found.setdefault(term.casefold(), term)
    return ", ".join(term for term in found.values() if term)


def _read_categories(file: Path) -> dict[str, list[str]]:
    """Return the icons of each category, by its label.

    The file is YAML of one simple shape, which a few lines read strictly; that saves a dependency.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError(f"fontawesomefree has no {file.name}: {error.strerror}") from None
    categories: dict[str, list[str]] = {}
    members: list[str] = []
    for number, line in enumerate(lines, 1):
        if re.fullmatch(r"[\w-]+:", line):
            members = []
        elif match := re.fullmatch(r"    - (.+)", line):
            members.append(_unquoted(match[1]))
        elif match := re.fullmatch(r"  label: (.+)", line):
            categories[_unquoted(match[1])] = members
        elif line != "  icons:":
            raise InputError(f"fontawesomefree has another format than expected in {file.name}, line {number}: {line}")
    return categories


def _unquoted(value: str) -> str:
    match = re.fullmatch(r"'(.*)'|\"(.*)\"", value)
    return value if match is None else (match[1] or match[2] or "").replace("''", "'")


def _labels_by_icon(categories: dict[str, list[str]]) -> dict[str, list[str]]:
    labels: dict[str, list[str]] = {}
    for category, members in categories.items():
        for member in members:
            labels.setdefault(member, []).append(category)
    return labels


def _draw(files: list[Path], size: int, verbose: bool) -> Pixels:
    """Return the pictures, each as large as fits and in the middle of a white square."""
    renderer = require("resvg_py", "drawing icons", "icons")
    with progress(verbose) as bar:  # one thread: the renderer lets no other Python code run
        return np.stack([_draw_one(renderer, file, size) for file in bar.track(files, "icons")])


def _draw_one(renderer: Any, file: Path, size: int) -> Pixels:
    from io import BytesIO

    from PIL import Image

    svg = file.read_text(encoding="utf-8")
    match = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    if match is None:
        raise InputError(f"fontawesomefree has another format than expected: {file.name} has no size")
    wide = float(match[1]) >= float(match[2])
    side = {"width": size} if wide else {"height": size}
    png = renderer.svg_to_bytes(svg_string=svg, background="white", skip_system_fonts=True, **side)
    with Image.open(BytesIO(png)) as drawn:
        square = Image.new("L", (size, size), 255)
        square.paste(drawn.convert("L"), ((size - drawn.width) // 2, (size - drawn.height) // 2))
    return np.asarray(square)
