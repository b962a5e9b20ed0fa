"""The protocol between an `Index` and the place where its items live: memory, a folder or a database.

`Index` checks all arguments once. Backends receive checked values and hold the items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dlfh._validation import check_integer
from dlfh.errors import InputError
from dlfh.index.hits import Hits
from dlfh.index.items import Item
from dlfh.index.segment import Segment
from dlfh.index.strings import Strings
from dlfh.index.where import Where

__all__ = ["ApproximateIndex", "Backend", "Mode", "Scope", "check_known", "check_options"]

Codes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: How ids that are already in the index are treated: refused, required, or replaced.
Mode = Literal["add", "update", "put"]


class Scope(NamedTuple):
    """The items that a search may find: those with the given ids that match the filter. None means no restriction."""

    ids: Strings | None = None
    where: Where | None = None


class ApproximateIndex(Protocol):
    """An approximate search structure over one modality. ``options`` has the defaults filled in."""

    @property
    def options(self) -> Mapping[str, int]: ...
    def search(self, codes: Codes, k: int, where: Where | None, n_jobs: int | None) -> Hits: ...
    def sample(self, n: int, rng: np.random.Generator) -> Codes:
        """Return the codes of ``n`` random items."""

    def __len__(self) -> int: ...


class Backend(Protocol):
    """A place where items live.

    Modalities are given by their column, the index in ``modalities``. A *position* is an integer that identifies an
    item and increases in the order in which items were added: 0, 1, 2, ... in a `LocalBackend`, a number that stays
    with the item in a database.
    """

    n_bits: int
    modalities: tuple[str, ...]

    @property
    def folder(self) -> Path | None:
        """The folder of the index, if it is in one."""

    @property
    def address(self) -> str | None:
        """The address of the database without passwords, if the index is in one."""

    @property
    def identity(self) -> str | None:
        """An identifier drawn when the index was created; None in memory."""

    @property
    def state(self) -> str | None:
        """An identifier of the current content that no other content ever has; None in memory."""

    @property
    def writable(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    def close(self) -> None: ...
    def refresh(self) -> bool:
        """Load the changes of other processes; return whether there were any."""

    def verify(self) -> None:
        """Check all stored data; raise `StorageError` if any is damaged."""

    def compact(self) -> None: ...
    def drop(self) -> None:
        """Delete all items from a database and close it; a folder is left to its owner."""

    def write(self, segment: Segment, mode: Mode) -> None:
        """Write items, all or none."""

    def remove(self, ids: Strings) -> None:
        """Remove items, all or, if an id is unknown, none."""

    def nearest(self, column: int, codes: Codes, k: int, scope: Scope, n_jobs: int | None) -> Hits:
        """Find the ``k`` nearest items to each code by Hamming distance."""

    def nearest_asymmetric(
        self,
        column: int,
        projections: npt.NDArray[Any],
        k: int,
        shortlist: int | None,
        scope: Scope,
        n_jobs: int | None,
    ) -> Hits:
        """Find the ``k`` nearest items to each projection, of a shortlist by Hamming distance if a length is given."""

    def within(self, column: int, codes: Codes, radius: int, scope: Scope, n_jobs: int | None) -> list[Hits]:
        """Find all items within a Hamming distance of each code."""

    def distances(self, column: int, queries: npt.NDArray[Any], positions: Positions | None) -> npt.NDArray[np.float64]:
        """Return the distances of items from each query; infinity for items without a code."""

    def approximate(self, column: int, kind: str, options: dict[str, int], n_jobs: int | None) -> ApproximateIndex:
        """Build an approximate search structure."""

    def find(self, ids: Strings) -> Positions:
        """Return the position of each id, or -1."""

    def get(self, identifier: Strings) -> Item | None:
        """Return the item with a single id, or None."""

    def positions(self) -> Positions:
        """Return all positions, in increasing order."""

    def items(self, positions: Sequence[int] | None) -> Iterator[tuple[int, Item]]:
        """Yield the items at the given positions with these, in that order, without unknown ones; or all items."""

    def ids(self) -> list[str]: ...
    def codes(self, column: int) -> tuple[list[str], Codes]: ...
    def states(self, column: int) -> npt.NDArray[np.uint8]:
        """Return the state of every item in a modality, in order of position."""

    def count(self, column: int, states: tuple[int, ...]) -> int:
        """Return the number of items in one of the given states."""

    def matches(self, where: Where, positions: Sequence[int] | None) -> Mask:
        """Return which of the items at the given positions, or of all items, match a filter."""

    def __len__(self) -> int: ...


def check_known(ids: Strings | Sequence[str], known: Mask, mode: Mode) -> None:
    """Raise for the first id that is in the index and must be new, or that is unknown and must exist."""
    if mode == "add" and known.any():
        raise InputError(f"id {_text(ids[int(np.argmax(known))])!r} is already in the index: use put to replace it")
    if mode == "update" and not known.all():
        raise InputError(f"id {_text(ids[int(np.argmin(known))])!r} is not in the index")


def _text(identifier: str | bytes) -> str:
    return identifier if isinstance(identifier, str) else identifier.decode()


def check_options(kind: str, options: dict[str, int], defaults: dict[str, int]) -> dict[str, int]:
    """Return the options of an approximate index with defaults filled in."""
    for name, value in options.items():
        if name not in defaults:
            raise InputError(f"kind {kind!r} has the options {', '.join(defaults)}, got {name!r}")
        check_integer(value, name, 0 if name == "n_flips" else 1)
    return defaults | options
