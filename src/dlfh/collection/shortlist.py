"""Search items that are stored in a database: fetch a shortlist and rank it in memory.

The database returns the nearest codes by Hamming distance in each searched column, and the local word index the texts
with the best matching words. All of these items are fetched and ranked like a small local collection, so results equal
those of a local collection as far as the shortlist contains them; docs/engines.md reports how far that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dlfh._arrays import Floats
from dlfh.codes import pack
from dlfh.collection.item_codes import columnar, hashed_column
from dlfh.collection.ranking import EncodedQuery, SearchSpace
from dlfh.index import Index
from dlfh.index.items import Item

if TYPE_CHECKING:
    from dlfh.collection.query import SearchOptions
    from dlfh.collection.words import WordIndexFile

#: A shortlist has ``_FACTOR * k`` items of each column, and at least ``_MIN_LENGTH``.
_FACTOR, _MIN_LENGTH = 20, 500


def fetch_shortlist(index: Index, words: WordIndexFile, query: EncodedQuery, options: SearchOptions) -> SearchSpace:
    """Fetch the shortlist of a query."""
    stored = index.existing_items(sorted(_positions(index, words, query, options)))
    items = in_memory((item for _, item in stored), index.n_bits, index.modalities)
    positions = np.array([position for position, _ in stored], np.int64)

    def coverage(text: str, columns: Sequence[int]) -> Floats:
        """Return `WordIndex.coverage` of the shortlist, with word weights of the whole collection."""
        covered, known = words.coverage(text, columns), words.positions()
        if not len(known):
            return np.zeros(len(positions))
        rows = np.minimum(np.searchsorted(known, positions), len(known) - 1)
        return np.where(known[rows] == positions, covered[rows], 0.0)

    # Items may have changed after the search.
    candidates = None if options.where is None else items.matches(options.where)
    if options.ids is not None:
        allowed = {*options.ids}
        listed = np.array([name in allowed for name in items.ids()], bool)
        candidates = listed if candidates is None else candidates & listed
    return SearchSpace(items, coverage, candidates)


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
