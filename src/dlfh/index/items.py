"""Single items, as users get them back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dlfh.index.segment import ABSENT, STATES, Segment

__all__ = ["Item", "read_item", "read_items"]

#: So many items are read one by one; for more, it is worth finding the places of all codes at once.
_FEW = 30


class Item(NamedTuple):
    """An item of an index.

    ``codes`` holds its packed code in each modality where it has one, and ``states`` says of every modality
    whether its code there is ``"learned"`` or ``"hashed"``, or ``"absent"``.

    Examples
    --------
    >>> Item("a", {"price": 3}, {}, {"image": "absent"}).metadata["price"]
    3
    """

    id: str
    metadata: dict[str, Any] | None
    codes: dict[str, npt.NDArray[np.uint8]]
    states: dict[str, str]


def read_item(segment: Segment, row: int, modalities: tuple[str, ...]) -> Item:
    """Return an item of a segment; its metadata are checked against their checksum."""
    codes = {}
    for name, states, values in zip(modalities, segment.states, segment.codes, strict=True):
        if states[row] != ABSENT:
            place = row if len(values) == len(states) else np.count_nonzero(states[:row])  # often, all have one
            codes[name] = values[place].copy()
    states_by_name = {name: STATES[segment.states[m, row]] for m, name in enumerate(modalities)}
    return Item(segment.ids[row].decode(), segment.metadata_of(row), codes, states_by_name)


def read_items(segment: Segment, rows: Sequence[int], modalities: tuple[str, ...]) -> Iterator[Item]:
    """Yield several items of a segment."""
    if len(rows) < _FEW:
        yield from (read_item(segment, row, modalities) for row in rows)
        return
    present = segment.states != ABSENT
    places = np.cumsum(present, axis=1) - 1
    for row in rows:
        codes = {name: segment.codes[m][places[m, row]].copy() for m, name in enumerate(modalities) if present[m, row]}
        states = {name: STATES[segment.states[m, row]] for m, name in enumerate(modalities)}
        yield Item(segment.ids[row].decode(), segment.metadata_of(row), codes, states)
