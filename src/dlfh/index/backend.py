"""The protocol between an `Index` and the storage of its items: memory, a folder or a database.

`Index` checks all arguments, so backends receive valid values.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from dlfh._arrays import Array, Codes, Integers, Mask
from dlfh._validation import check_integer, shown
from dlfh.errors import InputError, StorageError
from dlfh.index.items import Hits, Item
from dlfh.index.segment import Segment
from dlfh.index.where import Where, has_surrogates
from dlfh.index.words import Strings


class Request(NamedTuple):
    """A search: a modality's column, queries and, optionally, distinct positions and a filter to restrict the items.

    Codes (uint8) are compared by Hamming distance, projections (float) asymmetrically, with all items or with a
    shortlist of the nearest by Hamming distance, and score tables (float, three-dimensional) by negated score.
    """

    column: int
    queries: Array
    positions: Integers | None = None
    where: Where | None = None
    shortlist: int | None = None
    n_jobs: int | None = None


class ApproximateIndex(Protocol):
    """An approximate search structure over one modality. ``options`` include the defaults."""

    options: dict[str, int]

    def search(self, codes: Codes, k: int, where: Where | None, n_jobs: int | None) -> Hits: ...
    def sample(self, n: int, rng: np.random.Generator) -> Codes: ...
    def __len__(self) -> int: ...


class Reader(Protocol):
    """Read access to the items of an index: a snapshot of a local index, or a database.

    The *column* of a modality is its index in ``modalities``. The *position* of an item is an integer that increases
    in the order in which items were added: 0, 1, 2, ... in a `Snapshot`, and in a database a number that stays with
    the item.
    """

    def nearest(self, request: Request, k: int) -> Hits: ...
    def within(self, request: Request, radius: int) -> list[Hits]: ...
    def approximate(self, column: int, kind: str, options: dict[str, int], n_jobs: int | None) -> ApproximateIndex: ...
    def find(self, ids: Strings) -> Integers: ...  # -1 for unknown ids
    def items(self, positions: Sequence[int] | None) -> Iterator[tuple[int, Item]]: ...  # existing ones; all by default
    def ids(self) -> list[str]: ...
    def positions(self) -> Integers: ...
    def states(self, column: int) -> Codes: ...
    def count(self, column: int, states: tuple[int, ...]) -> int: ...
    def matches(self, where: Where, positions: Sequence[int] | None) -> Mask: ...
    def __len__(self) -> int: ...


class Backend(Protocol):
    """Storage for items."""

    n_bits: int
    modalities: tuple[str, ...]
    texts: tuple[str, ...] = ()
    folder: Path | None = None
    address: str | None = None

    @property
    def identity(self) -> str | None: ...
    @property
    def state(self) -> str | None: ...
    @property
    def writable(self) -> bool: ...
    @property
    def closed(self) -> bool: ...

    def check_open(self) -> None:
        if self.closed:
            raise StorageError("the index is closed")

    def reader(self) -> Reader: ...
    def close(self) -> None: ...
    def refresh(self) -> bool: ...
    def verify(self) -> None: ...
    def compact(self) -> None: ...
    def drop(self) -> None: ...
    def remove(self, ids: Strings) -> None: ...
    def write(self, segment: Segment, *, replace: bool) -> None:
        """Write all items or none; existing ids are replaced or, without ``replace``, raise `InputError`."""


#: The search kernels add at most 3 per bit to 16-bit sums.
_MAX_BITS = 16_384


def check_layout(n_bits: Any, modalities: Any) -> tuple[int, tuple[str, ...]]:
    """Return the code length and the names of modalities, which must be distinct, non-empty strings."""
    n_bits = check_integer(n_bits, "n_bits", 1, _MAX_BITS)
    if not isinstance(modalities, Iterable):
        raise InputError(f"modalities must be a list of strings, got {shown(modalities)}")
    names = (modalities,) if isinstance(modalities, str) else tuple(modalities)
    for name in names:
        if not isinstance(name, str) or not name or has_surrogates(name):
            raise InputError(f"modalities must be non-empty strings, got {shown(name)}")
    if not names:
        raise InputError("an index needs at least one modality")
    if len(set(names)) < len(names):
        raise InputError(f"modalities must be distinct, got {list(names)}")
    return n_bits, names


def check_known(ids: Strings | Sequence[str], known: Mask | list[bool], *, expected: bool = True) -> None:
    """Raise `InputError` unless all ids are known or, if ``expected`` is False, none is."""
    wrong = np.flatnonzero(np.asarray(known) != expected)
    if len(wrong):
        name = ids[int(wrong[0])]
        problem = "is not in the index" if expected else "is already in the index: use put to replace it"
        raise InputError(f"id {(name if isinstance(name, str) else name.decode())!r} {problem}")


def list_defaults(n_items: int) -> dict[str, int]:
    """Return the default options of inverted lists."""
    n_lists = max(1, math.isqrt(n_items))
    return {"n_lists": n_lists, "n_probe": max(1, n_lists // 32)}


def check_options(kind: str, options: dict[str, int], defaults: dict[str, int]) -> dict[str, int]:
    """Return the options of an approximate index, with defaults filled in."""
    for name, value in options.items():
        if name not in defaults:
            raise InputError(f"kind {kind!r} has the options {', '.join(defaults)}, got {name!r}")
        check_integer(value, name, 0 if name == "n_flips" else 1)
    return defaults | options
