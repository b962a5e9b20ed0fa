"""Asking items that live in an engine: a shortlist is found there, and ranked here by all that is known.

An engine finds the nearest codes by Hamming distance, in each column that is searched, and the file of words, which is
kept beside the model, the texts that answer best. What is found by any of these is fetched and ranked as the items of a
small collection are. So answers are those of a collection in a folder as far as the shortlist has them; docs/engines.md
says how far that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from dlfh.codes import n_bytes, pack
from dlfh.collection.columns import hashed_column
from dlfh.collection.encoder import Encoder
from dlfh.collection.ranking import Options, Query, Ranker
from dlfh.collection.result import SearchResult
from dlfh.collection.searcher import How, Searcher
from dlfh.collection.words import Words, WordsOfItems
from dlfh.index import Index
from dlfh.index.items import Item

__all__ = ["ShortlistSearcher", "arguments_of", "in_memory", "searcher_of"]

#: How long a shortlist is in each column: so many times what is wanted, and at least so many.
_TIMES, _LEAST = 20, 500


class ShortlistSearcher(Searcher):
    """Asks the items of an engine. Parameters are those of `Searcher`."""

    def exact(self) -> Searcher:
        """Return what asks all items, copied into memory: to measure, not to search."""
        index = in_memory(self.index.items(), self.index.n_bits, self.index.modalities)
        return Searcher(self.encoder, index, WordsOfItems(index, self.encoder.text_modalities(), self.words.folder))

    def ranker(self, options: Options) -> Ranker:
        """Return a ranker of nothing: each query has its own, of its shortlist."""
        return super().ranker(replace(options, match="codes"))

    def answer(self, ranker: Ranker, query: Query, options: Options) -> SearchResult:
        """Return what a query finds."""
        stored = self.index.existing_items(sorted(self._numbers(query, options)))
        near = in_memory((item for _, item in stored), self.index.n_bits, self.index.modalities)
        words = cast(WordsOfItems, _WordsOfSome(self.words, np.array([number for number, _ in stored], np.int64)))
        searcher = Searcher(self.encoder, near, words)
        options = replace(options, candidates=_candidates(near, options))
        return searcher.answer(searcher.ranker(options), query, options)

    def _candidates(self, how: How) -> npt.NDArray[np.bool_] | None:
        return None  # the engine looks at what may be found

    def _without(self, options: Options, identifier: str) -> Options:
        return replace(options, without=identifier)

    def _numbers(self, query: Query, options: Options) -> set[int]:
        """Return the numbers of the items on the shortlist."""
        length = max(_TIMES * options.k, _LEAST)
        scope: dict[str, Any] = {"ids": options.ids, "where": options.where}
        found: set[int] = set()
        columns = [column for name in options.modalities for column in (name, hashed_column(name))]
        for column in columns if options.match != "words" else ():
            if options.radius is not None:
                (hits,) = self.index.search_radius(column, query.code[None], options.radius, **scope)
            else:
                hits = self.index.search(column, pack(query.asked[None]), length, **scope)
            found.update(hits.positions[0].tolist())
        if options.match != "codes" and query.text is not None:
            texts = [place for place, name in enumerate(self.encoder.text_modalities()) if name in options.modalities]
            coverage = self.words.now().coverage(query.text, texts)
            best = np.argsort(-coverage, kind="stable")
            numbers = self.words.numbers()[best[: np.count_nonzero(coverage > 0)]].tolist()
            found.update(self.index.first_matching(numbers, length, **scope))
        return found


@dataclass(frozen=True)
class _WordsOfSome:
    """The words of the items on a shortlist, worth what they are among all items."""

    words: WordsOfItems
    own: npt.NDArray[np.int64]

    def now(self) -> Words:
        return cast(Words, self)

    def coverage(self, text: str, columns: Sequence[int] | None = None) -> npt.NDArray[np.float64]:
        coverage, numbers = self.words.now().coverage(text, columns), self.words.numbers()
        places = np.minimum(np.searchsorted(numbers, self.own), max(len(numbers) - 1, 0))
        if not len(numbers):
            return np.zeros(len(self.own))
        return np.where(numbers[places] == self.own, coverage[places], 0.0)


def _candidates(near: Index, options: Options) -> npt.NDArray[np.bool_] | None:
    """Return which of a shortlist may be found: items may have changed since, and one may be left out."""
    if options.ids is None and options.where is None and options.without is None:
        return None
    candidates = np.ones(len(near), bool) if options.where is None else near.matches(options.where)
    names = near.ids()
    if options.ids is not None:
        wanted = {*options.ids}
        candidates &= np.array([name in wanted for name in names], bool)
    return candidates & np.array([name != options.without for name in names], bool)


def in_memory(items: Iterable[Item], n_bits: int, modalities: tuple[str, ...]) -> Index:
    """Return an index in memory of some items."""
    index = Index(n_bits, modalities)
    index.add(**arguments_of(list(items), n_bits, modalities))
    return index


def arguments_of(items: Sequence[Item], n_bits: int, modalities: Sequence[str]) -> dict[str, Any]:
    """Return items as `Index.add` and `Index.put` take them."""
    nothing = np.zeros(n_bytes(n_bits), np.uint8)
    shape = (len(items), len(nothing))
    return {
        "ids": [item.id for item in items],
        "codes": {
            name: np.array([item.codes.get(name, nothing) for item in items], np.uint8).reshape(shape)
            for name in modalities
        },
        "learned": {name: np.array([item.states[name] == "learned" for item in items], bool) for name in modalities},
        "present": {name: np.array([name in item.codes for item in items], bool) for name in modalities},
        "metadata": [item.metadata for item in items],
    }


def searcher_of(encoder: Encoder, index: Index, words: WordsOfItems) -> Searcher:
    """Return what asks the items of an index, wherever they are."""
    return (Searcher if index.address is None else ShortlistSearcher)(encoder, index, words)
