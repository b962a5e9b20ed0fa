"""Items and search results, as an index returns them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from dlfh._arrays import Array, Codes, Integers, Mask


class Item(NamedTuple):
    """An item of an index.

    ``codes`` has the packed code of each modality that the item has. ``states`` has ``"learned"``, ``"hashed"`` or
    ``"absent"`` for every modality of the index.
    """

    id: str
    metadata: dict[str, Any] | None
    codes: dict[str, Codes]
    states: dict[str, str]


class Hit(NamedTuple):
    """A search result: an item's id, its distance from the query, and whether its code is learned."""

    id: str
    distance: int | float
    learned: bool


@dataclass(frozen=True)
class Hits:
    """The items found for each query, nearest first; items at the same distance in the order they were added.

    Attributes
    ----------
    distances : ndarray of shape (n_queries, n_found)
        Hamming distances (int32). For asymmetric ranking by a projection z, the sums of ``|z_j|`` over the bits j in
        which a code differs from the sign of z (float64). The inner product of z with the +-1 code is
        ``sum(|z_j|) - 2 * distance``, so both give the same ranking. For score tables, the negated scores (float64).
    positions : ndarray of int64, shape (n_queries, n_found)
        Positions of the items, for `Index.items`. Except in a database, they are indices into `Index.ids` at the time
        of the search.
    learned : ndarray of bool, shape (n_queries, n_found)
        Whether the code of an item is learned; otherwise it is hashed.
    ids : list of lists of str

    Examples
    --------
    >>> import numpy as np
    >>> from dlfh.index import Index
    >>> index = Index(n_bits=8, modalities=["image"])
    >>> index.add(["a", "b"], {"image": np.array([[7], [0]], np.uint8)})
    >>> hits = index.search("image", np.array([[1], [0]], np.uint8), k=2)
    >>> hits.ids
    [['b', 'a'], ['b', 'a']]
    >>> hits[0]
    [Hit(id='b', distance=1, learned=False), Hit(id='a', distance=2, learned=False)]
    """

    distances: Array
    positions: Integers
    learned: Mask
    _ids_at: Callable[[Integers], list[str]]

    @cached_property
    def ids(self) -> list[list[str]]:
        return [self._ids_at(row) for row in self.positions]

    def __len__(self) -> int:
        return len(self.positions)

    def __getitem__(self, query: int) -> list[Hit]:
        """Return the items found for one query."""
        ids = self._ids_at(self.positions[query])
        values = zip(ids, self.distances[query].tolist(), self.learned[query].tolist(), strict=True)
        return [Hit(name, distance, learned) for name, distance, learned in values]

    def __iter__(self) -> Iterator[list[Hit]]:
        return (self[query] for query in range(len(self)))

    def __repr__(self) -> str:
        return f"Hits({len(self)} queries, {self.positions.shape[1]} items each)"
