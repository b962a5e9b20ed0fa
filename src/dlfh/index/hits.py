"""What a search finds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Hit", "Hits"]


class Names(Protocol):
    """What knows the ids of items by their positions."""

    def ids_at(self, positions: npt.ArrayLike) -> list[str]: ...


class Hit(NamedTuple):
    """One item found: its id, how far it is from the query, and whether its code was learned (or hashed).

    Examples
    --------
    >>> Hit("cat.jpg", 3, True).distance
    3
    """

    id: str
    distance: int | float
    learned: bool


@dataclass(frozen=True)
class Hits:
    """Items found for each query, the nearest first; equally near ones in the order in which they were added.

    Attributes
    ----------
    distances : ndarray of shape (n_queries, n_found)
        Hamming distances (int32); from a real-valued query z, the sums of ``|z_j|`` over the bits j in which
        a code differs from the sign of z (float64). The latter is the Hamming distance where all ``|z_j|``
        are 1, and orders items as the inner product of z with the +-1 code does, which is
        ``sum(|z_j|) - 2 * distance``.
    positions : ndarray of int64, shape (n_queries, n_found)
        The items' places in `Index.ids`, at the time of the search; in an engine their numbers, which grow in that
        order.
    learned : ndarray of bool, shape (n_queries, n_found)
        Whether an item's code was learned; otherwise it was hashed.
    ids : list of lists of str

    Examples
    --------
    >>> from dlfh.index import Index
    >>> index = Index(n_bits=8, modalities=["image"])
    >>> index.add(["a", "b"], {"image": np.array([[7], [0]], np.uint8)})
    >>> hits = index.search("image", np.array([[1], [0]], np.uint8), k=2)
    >>> hits.ids
    [['b', 'a'], ['b', 'a']]
    >>> hits[0]
    [Hit(id='b', distance=1, learned=False), Hit(id='a', distance=2, learned=False)]
    """

    distances: npt.NDArray[Any]
    positions: npt.NDArray[np.int64]
    learned: npt.NDArray[np.bool_]
    _names: Names

    @cached_property
    def ids(self) -> list[list[str]]:
        return [self._names.ids_at(row) for row in self.positions]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, query: int) -> list[Hit]:
        """Return what was found for one query."""
        ids = self._names.ids_at(self.positions[query])
        values = zip(ids, self.distances[query].tolist(), self.learned[query].tolist(), strict=True)
        return [Hit(name, distance, learned) for name, distance, learned in values]

    def __iter__(self) -> Iterator[list[Hit]]:
        return (self[query] for query in range(len(self)))

    def __repr__(self) -> str:
        return f"Hits({len(self)} queries, {self.positions.shape[1]} items each)"
