"""Labels in table cells: finding the separator, and warning about columns that look wrong."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dlfh.errors import DataWarning

#: Recognised separators; of equally frequent ones, the first in this list is chosen.
_SEPARATORS = (";", "|", ",", "\t")
#: Characters that may have been meant as separators, but also occur inside labels.
_SUSPECTS = ("/", "+", "#", ":", " ", "_")
#: Brackets of lists written by Python, JSON and SQL, and an element of such a list: quoted or bare.
_BRACKETS = ("[]", "{}", "()")
_ELEMENT = re.compile(r"""\s*+(?:'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)"|([^,'"\[\](){}]*+))\s*+(?:,|$)""", re.DOTALL)


def parse_label_column(cells: Sequence[Any], separator: str | None, path: Path) -> list[list[str]]:
    """Return the labels in each cell (a string, a list or None), and warn if the column looks misread."""
    texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    if separator is None:
        lists = [text for text in texts if _is_list(text)]
        if len(lists) > len(texts) / 2:
            _warn(
                f"labels in {path} look like Python or JSON lists, such as {lists[0][:40]!r}, and are read as lists: "
                "if this is wrong, set the separator (--separator)"
            )
            return [parse_labels(_parse_list(cell), None) for cell in cells]
        counts = {mark: sum(mark in text for text in texts) for mark in _SEPARATORS}
        separator = max(_SEPARATORS, key=lambda mark: counts[mark]) if any(counts.values()) else ","
        if others := [mark for mark in _SEPARATORS if mark != separator and counts[mark]]:
            _warn(
                f"labels in {path} are split at {separator!r}, but some contain {others[0]!r}: "
                "if this is wrong, set the separator (--separator)"
            )
    labels = [parse_labels(cell, separator) for cell in cells]
    _warn_if_unsplit(texts, separator, path)
    return labels


def parse_labels(cell: Any, separator: str | None) -> list[str]:
    """Return the distinct labels in a cell: the elements of a list, or the parts of a string."""
    if cell is None:
        return []
    if isinstance(cell, (str, bytes, dict)) or not hasattr(cell, "__iter__"):
        parts = [cell] if separator is None else str(cell).split(separator)
    else:
        parts = list(cell)
    return list(dict.fromkeys(label for part in parts if part is not None and (label := str(part).strip())))


def _is_list(text: str) -> bool:
    stripped = text.strip()
    return len(stripped) > 1 and stripped[0] + stripped[-1] in _BRACKETS


def _parse_list(cell: Any) -> Any:
    """Parse a string that looks like a list; return anything else unchanged."""
    if not isinstance(cell, str) or not _is_list(cell):
        return cell
    inside = cell.strip()[1:-1]
    elements, place = [], 0
    while place < len(inside):
        match = _ELEMENT.match(inside, place)
        if match is None or match.end() == place:
            return inside.split(",")  # not a flat list
        elements.append(next((part for part in match.groups() if part is not None), ""))
        place = match.end()
    return [re.sub(r"\\(.)", r"\1", element) for element in elements]


def _warn_if_unsplit(texts: Sequence[str], separator: str, path: Path) -> None:
    """Warn if splitting at another character would yield far fewer distinct labels."""
    cells = {*texts}
    if len(cells) < 4:
        return
    labels = {label for text in cells for label in parse_labels(text, separator)}
    for mark in (*_SEPARATORS, *_SUSPECTS):
        if mark == separator or sum(mark in text for text in cells) < len(cells) / 2:
            continue
        n_parts = len({part for label in labels for part in parse_labels(label, mark)})
        if n_parts <= len(labels) / 2:
            _warn(
                f"most labels in {path} contain {mark!r}: splitting there would turn {len(labels)} labels into "
                f"{n_parts}; if this is intended, set the separator (--separator)"
            )
            return


def _warn(message: str) -> None:
    warnings.warn(message, DataWarning, stacklevel=4)
