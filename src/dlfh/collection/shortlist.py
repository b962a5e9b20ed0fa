"""Search items that are stored in a database: fetch a shortlist and rank it in memory.

The database returns the nearest codes by Hamming distance in each searched column, and the local word index the texts
with the best matching words. All of these items are fetched and ranked like a small local collection, so results equal
those of a local collection as far as the shortlist contains them; docs/engines.md reports how far that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dlfh._arrays import Floats, Integers, Mask
from dlfh.codes import pack
from dlfh.collection.item_codes import columnar, hashed_column
from dlfh.index import Index
from dlfh.index.items import Item

if TYPE_CHECKING:
    from dlfh.collection.query import SearchOptions
    from dlfh.collection.ranking import EncodedQuery
    from dlfh.collection.words import WordIndexFile

#: A shortlist has ``_FACTOR * k`` items of each column, and at least ``_MIN_LENGTH``.
_FACTOR, _MIN_LENGTH = 20, 500


class Shortlist(NamedTuple):
    """The items on a shortlist, and how many of a query's words they contain."""

    items: Index
    positions: Integers
    words: WordIndexFile

    @classmethod
    def fetch(cls, index: Index, words: WordIndexFile, query: EncodedQuery, options: SearchOptions) -> Shortlist:
        """Fetch the shortlist of a query."""
        positions = sorted(_positions(index, words, query, options))
        stored = index.existing_items(positions)
        items = in_memory((item for _, item in stored), index.n_bits, index.modalities)
        return cls(items, np.array([position for position, _ in stored], np.int64), words)

    def coverage(self, text: str, columns: Sequence[int]) -> Floats:
        """Return `WordIndex.coverage` of the items on the shortlist, with word weights of the whole collection."""
        coverage, known = self.words.coverage(text, columns), self.words.positions()
        if not len(known):
            return np.zeros(len(self.positions))
        rows = np.minimum(np.searchsorted(known, self.positions), len(known) - 1)
        return np.where(known[rows] == self.positions, coverage[rows], 0.0)

    def candidates(self, options: SearchOptions) -> Mask | None:
        """Return which items still match the options: others may have changed them after the search."""
        if options.ids is None and options.where is None:
            return None
        candidates = np.ones(len(self.items), bool) if options.where is None else self.items.matches(options.where)
        if options.ids is not None:
            allowed = {*options.ids}
            candidates &= np.array([name in allowed for name in self.items.ids()], bool)
        return candidates


def _positions(index: Index, words: WordIndexFile, query: EncodedQuery, options: SearchOptions) -> set[int]:
    """Return the positions of the items on the shortlist."""
    length = max(_FACTOR * options.k, _MIN_LENGTH)
    scope: dict[str, Any] = {"ids": options.ids, "where": options.where}
    found: set[int] = set()
    searched = tuple(options.modalities or ())
    columns = [column for name in searched for column in (name, hashed_column(name))]
    for column in columns if options.match != "words" else ():
        if options.radius is not None:
            (hits,) = index.search_radius(column, query.code[None], options.radius, **scope)
        else:
            hits = index.search(column, pack(query.values[None]), length, **scope)
        found.update(hits.positions[0].tolist())
    if options.match != "codes" and query.text is not None:
        texts = [column for column, name in enumerate(words.modalities) if name in searched]
        coverage = words.coverage(query.text, texts)
        best = np.argsort(-coverage, kind="stable")
        matching = words.positions()[best[: np.count_nonzero(coverage > 0)]].tolist()
        found.update(index.first_matching(matching, length, **scope))
    return found


def in_memory(items: Iterable[Item], n_bits: int, modalities: tuple[str, ...]) -> Index:
    """Return an index of items in memory."""
    index = Index(n_bits, modalities)
    index.add(**columnar(list(items), n_bits, modalities))
    return index
