"""Labels as people write them into the cells of a table: what stands between them, and what looks wrong."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dlfh.errors import DataWarning

__all__ = ["labels_in", "labels_in_cells"]

#: What may stand between labels, the first where as many cells have several.
_SEPARATORS = (";", "|", ",", "\t")

#: What may have been meant to stand between labels, though it is not taken for that: words have it in them, too.
_SUSPECTS = ("/", "+", "#", ":", " ", "_")

#: What stands around lists as Python, JSON and SQL write them; and a part of one: in quotes of either kind, or bare.
_BRACKETS = ("[]", "{}", "()")
_PART = re.compile(r"""\s*+(?:'((?:[^'\\]|\\.)*+)'|"((?:[^"\\]|\\.)*+)"|([^,'"\[\](){}]*+))\s*+(?:,|$)""", re.DOTALL)


def labels_in_cells(cells: Sequence[Any], separator: str | None, path: Path) -> list[list[str]]:
    """Return the labels of each cell, and warn of what looks as if something else was meant.

    Parameters
    ----------
    cells : sequence
        Texts with labels in them, lists of labels, or None.
    separator : str, optional
        What stands between labels in a text; by default what most cells have.
    path : Path
        The table, for messages.
    """
    texts = [cell for cell in cells if isinstance(cell, str) and cell.strip()]
    if separator is None:
        lists = [text for text in texts if _looks_like_a_list(text)]
        if len(lists) > len(texts) / 2:
            _warn(
                f"labels of {path} look like lists of Python or JSON, such as {lists[0][:40]!r}, and are read as such: "
                "name the separator if that is wrong"
            )
            return [labels_in(_as_list(cell), None) for cell in cells]
        separator = _most_common(texts, path)
    labels = [labels_in(cell, separator) for cell in cells]
    _warn_if_unsplit(texts, separator, path)
    return labels


def labels_in(cell: Any, separator: str | None) -> list[str]:
    """Return the labels of a cell, each once: those of a list, or the parts of a text.

    Examples
    --------
    >>> labels_in("car; red;car", ";"), labels_in(["a, b", 3], ";"), labels_in("car", None), labels_in(None, ";")
    (['car', 'red'], ['a, b', '3'], ['car'], [])
    """
    if cell is None:
        return []
    if isinstance(cell, (str, bytes, dict)) or not hasattr(cell, "__iter__"):
        parts = [cell] if separator is None else str(cell).split(separator)
    else:
        parts = list(cell)
    return list(dict.fromkeys(label for part in parts if part is not None and (label := str(part).strip())))


def _most_common(texts: Sequence[str], path: Path) -> str:
    counts = {mark: sum(mark in text for text in texts) for mark in _SEPARATORS}
    chosen = max(_SEPARATORS, key=lambda mark: counts[mark])
    others = [mark for mark in _SEPARATORS if mark != chosen and counts[mark]]
    if not counts[chosen]:
        return ","
    if others:
        _warn(
            f"labels of {path} are taken to be separated by {chosen!r}, and some have {others[0]!r} in them: "
            "name the separator if that is wrong"
        )
    return chosen


def _looks_like_a_list(text: str) -> bool:
    bare = text.strip()
    return len(bare) > 1 and bare[0] + bare[-1] in _BRACKETS


def _as_list(cell: Any) -> Any:
    """Return a list for a text that looks like one, and everything else as it is.

    Examples
    --------
    >>> _as_list("['car', 'red', 3]"), _as_list("[]"), _as_list("car")
    (['car', 'red', '3'], [], 'car')
    """
    if not isinstance(cell, str) or not _looks_like_a_list(cell):
        return cell
    inside = cell.strip()[1:-1]
    parts, place = [], 0
    while place < len(inside):
        match = _PART.match(inside, place)
        if match is None or match.end() == place:
            return inside.split(",")  # no list of plain words: as good as any text
        parts.append(next((part for part in match.groups() if part is not None), ""))
        place = match.end()
    return [re.sub(r"\\(.)", r"\1", part) for part in parts]


def _warn_if_unsplit(texts: Sequence[str], separator: str, path: Path) -> None:
    """Warn if most cells have something else in them by which far fewer labels would come out."""
    cells = {*texts}
    if len(cells) < 4:
        return
    n_labels = len({label for text in cells for label in labels_in(text, separator)})
    for mark in (*_SEPARATORS, *_SUSPECTS):
        having = sum(mark in text for text in cells)
        if mark == separator or having < len(cells) / 2:
            continue
        # Cells that a separator would take apart into words that come again and again.
        n_parts = len(
            {part for text in cells for label in labels_in(text, separator) for part in labels_in(label, mark)}
        )
        if n_parts <= n_labels / 2:
            _warn(
                f"most labels of {path} have {mark!r} in them: between labels it would make {n_parts} of these "
                f"{n_labels}; if that is meant, name it as the separator (--separator)"
            )
            return


def _warn(sentence: str) -> None:
    warnings.warn(sentence, DataWarning, stacklevel=4)
