"""Rank items by the probability that they are relevant.

The evidence for an item is its label probabilities, the similarity of its codes to the query and the share of the
query's words in its texts. `Calibration` turns it into log-odds. Items with equal log-odds, such as those with the same
labels and no word of the query, are ordered by the words that name labels, then by the distance of their hashed codes,
first in the searched modalities and then in the others, and finally by insertion order.

In a database, only the items on a shortlist are ranked, as in a small local collection: the items with the nearest
codes by Hamming distance in each searched column, and with the best matching words. Results equal those of a local
collection if the shortlist contains them; docs/engines.md reports how often it does.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from dlfh import _kernels
from dlfh._arrays import Array, Codes, Floats, Integers, Mask, Singles
from dlfh._probabilities.scores import Match
from dlfh.codes import pack
from dlfh.collection.calibration.model import Calibration, LabelEvidence, Pattern, probability, word_evidence
from dlfh.collection.encoder import Encoder
from dlfh.collection.item_codes import LABELS, columnar, hashed_column
from dlfh.collection.query import SearchOptions
from dlfh.collection.words import WordIndexFile, without_words
from dlfh.errors import InputError
from dlfh.index import Index
from dlfh.index.items import Item
from dlfh.index.nearest import Tables
from dlfh.index.scan import Bounds, Evidence
from dlfh.index.words import Matches, terms, union

#: A shortlist has ``_FACTOR * k`` items per column, and at least ``_MIN_LENGTH``.
_FACTOR, _MIN_LENGTH = 20, 500

#: Function that returns the items with words of a text in the given text columns.
FindWords = Callable[[str, Sequence[int]], Matches]

#: Minimum size of a collection to scan; number of items compared before a scan, at least and per requested result.
_MIN_SCANNED, _SAMPLE, _SAMPLE_PER_RESULT = 1 << 16, 1 << 11, 1 << 6
#: Number of consecutive items in a sample, whose codes share a few lines of the cache.
_RUN = 8
#: A kind of items is one byte: a bit for each modality, and one for learned codes.
_MAX_SCANNED_MODALITIES = 6
_n_searches = itertools.count()
#: A scan that finds many items is repeated with a higher threshold, taken from a sample of them.
_MAX_SCANS = 3
_MAX_DISTINCT = 12


class SearchSpace(NamedTuple):
    """The items to rank, a function that finds items by words, and a mask of allowed results (None: all items)."""

    items: Index
    matches: FindWords
    candidates: Mask | None = None
    warnings: Sequence[str] = ()


class EncodedQuery(NamedTuple):
    """A query in the form needed to compare it with codes and texts."""

    modality: str | None  # None for an item of the collection, for which probabilities are not calibrated
    code: Codes
    values: Array  # signs and weights of the query's bits
    tie_breakers: Mapping[str, Array]  # by modality, values to compare with hashed codes to order equal items
    text: str | None = None
    labels: Singles | None = None  # the probability of each label, if items are ranked by them
    explained: frozenset[str] = frozenset()  # `explained_words`, which are not matched in texts

    def tables(self, modality: str) -> Tables:
        """Return the distance tables of a tie-breaker; for most queries, all modalities share them."""
        return _tables(self.tie_breakers[modality])


class Ranked(NamedTuple):
    """Positions of items, most probable first, and their log-odds."""

    positions: Integers
    log_odds: Floats
    n_equal: Integers  # number of items with the same log-odds, including this one


class _Comparison(NamedTuple):
    """The items with words of a query, the other evidence, and word weights and biases by kind of items."""

    words: Matches
    evidence: Sequence[Evidence]
    of_words: Floats
    biases: Floats


class Ranker:
    """Ranks the items of an index for queries of one modality, by options with all defaults filled in.

    In a large index, a scan finds the items that can be among the best; only these are compared exactly.
    """

    def __init__(
        self, index: Index, encoder: Encoder, modality: str | None, options: SearchOptions, matches: FindWords
    ) -> None:
        self._items = index.snapshot
        self._options = options
        self._matches = matches
        self._searched = tuple(options.modalities or ())
        self._others = tuple(name for name in encoder.modalities_ if name not in self._searched)
        texts = encoder.text_modalities()
        self._texts = [name for name in self._searched if name in texts]
        self._columns = [column for column, name in enumerate(texts) if name in self._searched]
        self._labels = encoder.label_model
        self._match: Match = "all" if options.ranking == "all" else "any"
        self._fit = partial((encoder.calibration_ or Calibration()).fit_for, options.ranking or "", modality or "")

    def rank(self, query: EncodedQuery, candidates: Mask | None = None) -> Ranked:
        """Return the best candidates for a query."""
        options, comparison = self._options, self._compare(query)
        positions = self._possible(comparison, candidates)
        log_odds = self._log_odds(comparison, positions)
        eligible = np.isfinite(log_odds)
        if options.radius is not None:
            tables, columns = Tables.of(query.code[None]), self._compared(self._searched[0])
            eligible &= self._items.distances_at(columns, tables, positions)[0] <= options.radius
        if options.min_probability is not None:
            eligible &= probability(log_odds) >= options.min_probability
        positions, log_odds = positions[eligible], log_odds[eligible]
        n = len(positions) if options.radius is not None else min(options.k, len(positions))
        if options.limit is not None and n > options.limit:
            limit = f"more than the limit of {options.limit:,}"
            raise InputError(f"{n:,} items are within the radius, {limit}: reduce the radius")
        if not n:
            nothing = np.empty(0, np.int64)
            return Ranked(nothing, np.empty(0), nothing)
        least = _nth_largest(log_odds, n)
        better, equal = np.flatnonzero(log_odds > least), np.flatnonzero(log_odds == least)
        _, groups, sizes = np.unique(log_odds[better], return_inverse=True, return_counts=True)
        n_equal = np.append(sizes[groups], np.full(n - len(better), len(equal)))
        chosen = np.append(better, equal[self._first_of_ties(query, positions[equal], n - len(better))])
        n_equal, chosen = n_equal[np.argsort(chosen)], np.sort(chosen)
        positions, log_odds = positions[chosen], log_odds[chosen]
        breakers = self._tie_breakers(query) if (n_equal > 1).any() else ()
        order = np.lexsort((positions, *reversed([-log_odds, *(key(positions) for key in breakers)])))
        return Ranked(positions[order], log_odds[order], n_equal[order])

    def _first_of_ties(self, query: EncodedQuery, positions: Integers, n: int) -> Integers:
        """Return the first ``n`` of several equally probable items."""
        chosen, tied = np.empty(0, np.int64), np.arange(len(positions))
        for key in self._tie_breakers(query) if len(tied) > n else ():
            values, missing = key(positions[tied]), n - len(chosen)
            last = -_nth_largest(-values, missing)
            chosen, tied = np.append(chosen, tied[values < last]), tied[values == last]
            if len(chosen) + len(tied) == n:
                break
        return np.append(chosen, tied[: n - len(chosen)])

    def _tie_breakers(self, query: EncodedQuery) -> Iterator[Callable[[Integers], Floats]]:
        """Yield functions that return sort keys for equally probable items, which are given in ascending order."""
        if self._options.match == "both" and query.labels is not None and query.explained:
            # Items with the words that name the labels come first.
            found = self._matches(" ".join(sorted(query.explained)), self._columns)
            yield lambda positions: -found.at(positions)
        for name in (*self._searched, *self._others):
            yield partial(self._distances, self._numbers(hashed_column(name), name), query.tables(name))

    def log_odds(self, query: EncodedQuery) -> Floats:
        """Return the log-odds of every item; minus infinity for items without evidence."""
        return self._log_odds(self._compare(query), np.arange(len(self._items)))

    def _log_odds(self, comparison: _Comparison, positions: Integers) -> Floats:
        words = word_evidence(comparison.words.at(positions))
        if self._options.match == "words":
            return np.where(words > 0, comparison.of_words[0] * words + comparison.biases[0], -np.inf)
        kinds = self._items.kinds(self._numbers(*self._searched), positions, with_learned=not self._options.hashed_only)
        log_odds = comparison.biases[kinds]
        for each in comparison.evidence:
            log_odds = log_odds + each.weights[kinds] * each.value(
                self._distances(each.columns, each.tables, positions)
            )
        has_code = kinds & (1 << len(self._searched)) - 1 > 0
        return np.where(has_code, log_odds + comparison.of_words[kinds] * words, -np.inf)

    def _compare(self, query: EncodedQuery) -> _Comparison:
        options, words, evidence = self._options, Matches.none(), list[Evidence]()
        if options.match != "codes" and query.text is not None:
            is_explained = query.labels is not None and options.match != "words"
            text = without_words(query.text, query.explained) if is_explained else query.text
            words = self._matches(text, self._columns)
        if options.match == "words":
            fit = self._fit(Pattern("hashed", (), True))
            return _Comparison(words, evidence, np.array(fit.weights), np.array([fit.bias]))
        weights, biases = self._table
        of_words = weights[:, len(self._searched)]
        if query.labels is not None:
            assert self._labels is not None
            value = LabelEvidence(self._labels, query.labels, self._match)
            of_words = of_words + value.of_none * weights[:, -2]
            tables = Tables.of(self._labels.tables(query.labels[None], self._match))
            evidence.append(Evidence(self._numbers(LABELS), tables, weights[:, -1], value))
        length, tables = float(np.abs(query.values.astype(np.float64)).sum()), _tables(query.values)
        similarity = partial(_similarity, length, len(query.values))
        for t, name in enumerate(self._searched):
            if weights[:, t].any():
                evidence.append(Evidence(self._compared(name), tables, weights[:, t], similarity))
        return _Comparison(words, evidence, of_words, biases)

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """Return the weights of modalities, words and labels, and the bias, of each kind of items."""
        n, ranking = len(self._searched), self._options.ranking or ""
        weights, biases = np.zeros((2 << n, n + 3)), np.zeros(2 << n)
        for has_code in range(1, 1 << n):
            columns = [t for t in range(n) if has_code >> t & 1]
            modalities = tuple(self._searched[t] for t in columns)
            words = self._options.match == "both" and bool({*modalities} & {*self._texts})
            for number, codes in enumerate(("hashed", "learned")):
                pattern = Pattern(codes, modalities, words)
                fit, row = self._fit(pattern), has_code + (number << n)
                of_labels, of_words = pattern.n_label_weights(ranking), pattern.n_word_weights(ranking)
                weights[row, [*(n + 2,) * of_labels, *columns, *range(n, n + of_words)]] = fit.weights
                biases[row] = fit.bias
        return weights, biases

    def _possible(self, comparison: _Comparison, candidates: Mask | None) -> Integers:
        """Return the candidates, except those that are known not to be among the best ``k``."""
        options, n, words = self._options, len(self._items), comparison.words.positions
        words = words if candidates is None else words[candidates[words]]
        if options.match == "words":
            return words
        size, n_pool = max(_SAMPLE, _SAMPLE_PER_RESULT * options.k), n
        if candidates is not None:
            n_pool = int(np.count_nonzero(candidates))
        is_small = n_pool < max(_MIN_SCANNED, 2 * size) or len(self._searched) > _MAX_SCANNED_MODALITIES
        if is_small or options.radius is not None or not comparison.evidence or not _may_compile():
            return np.arange(n) if candidates is None else np.flatnonzero(candidates)
        positions = None
        runs = np.arange(0, n - _RUN, max(_RUN * n_pool // size, _RUN))
        sample = (runs[:, None] + np.arange(_RUN)).ravel()
        sample = union(sample if candidates is None else sample[candidates[sample]], words[:: len(words) // size + 1])
        levels, least = np.empty(len(comparison.words.positions), np.uint8), -np.inf
        _kernels.levels_of(comparison.words.coverage, levels)
        n_from_level = np.bincount(levels, minlength=256)[::-1].cumsum()[::-1]
        level = max(int((n_from_level > size).sum()) - 1, 0)
        if options.min_probability is not None:
            wanted = min(max(options.min_probability, 1e-6), 1 - 1e-6)
            least = np.log(wanted / (1 - wanted)) - 1e-6
        for _ in range(_MAX_SCANS):  # the best of a sample are at most as probable as the best of all
            log_odds = self._log_odds(comparison, sample)
            log_odds = log_odds[np.isfinite(log_odds)]
            last = _nth_largest(log_odds, options.k) if len(log_odds) >= options.k else -np.inf
            if positions is not None and last <= least:
                break
            least = max(least, last)
            positions = self._scan(comparison, least, levels, level, candidates)
            if len(positions) < 2 * size or np.count_nonzero(log_odds == least) > options.k:
                break
            sample = positions[:: len(positions) // size]
        assert positions is not None
        return positions

    def _scan(
        self, comparison: _Comparison, least: float, levels: Codes, level: int, candidates: Mask | None
    ) -> Integers:
        """Return the candidates whose log-odds can reach ``least``."""
        worth = (each.worth(np.zeros(1, np.int64))[:, 0] for each in comparison.evidence)
        allowed = np.add.outer(comparison.biases - least + sum(worth), np.zeros(256))
        allowed += np.multiply.outer(comparison.of_words, np.arange(256) * (2 / 255))
        allowed[np.arange(len(allowed)) % (1 << len(self._searched)) == 0] = -np.inf  # no code
        columns, with_learned = self._numbers(*self._searched), not self._options.hashed_only
        bounds = Bounds.of(comparison.evidence, allowed, level, self._items.seen)
        of_words = comparison.words.positions, levels
        return self._items.scan(bounds, columns, of_words, candidates, with_learned=with_learned)

    def _distances(self, columns: tuple[int, ...], tables: Tables, positions: Integers) -> Floats:
        return self._items.distances_at(columns, tables, positions)[0]

    def _compared(self, modality: str) -> tuple[int, ...]:
        """Return the columns of the codes to compare in a modality."""
        return self._numbers(*(hashed_column(modality),) * self._options.hashed_only, modality)

    def _numbers(self, *names: str) -> tuple[int, ...]:
        return tuple(map(self._items.modalities.index, names))


def _nth_largest(values: Floats, n: int) -> float:
    left = n
    for _ in range(_MAX_DISTINCT):  # numpy.partition is slow if thousands of values are equal
        largest = values.max()
        is_less = values < largest
        n_equal = len(values) - int(np.count_nonzero(is_less))
        if n_equal >= left:
            return float(largest)
        values, left = values[is_less], left - n_equal
    return float(np.partition(values, len(values) - left)[len(values) - left])


def _similarity(length: float, n_bits: int, distances: Floats) -> Floats:
    """Return the similarity of codes to a query whose absolute values sum to ``length``; 0 without a code."""
    return (length - 2 * np.where(np.isfinite(distances), distances, 0.0)) / n_bits


def _tables(values: Array) -> Tables:
    return _tables_of_bytes(values.tobytes(), values.dtype)


@lru_cache(64)
def _tables_of_bytes(values: bytes, dtype: np.dtype[Any]) -> Tables:
    return Tables.of(np.frombuffer(values, dtype)[None])


def _may_compile() -> bool:
    """Return whether to use compiled kernels: a process with a single query is faster without loading Numba."""
    return next(_n_searches) > 0 or "numba" in sys.modules


def fetch_shortlist(
    index: Index, words: WordIndexFile, query: EncodedQuery, needed: Sequence[str], options: SearchOptions
) -> SearchSpace:
    """Fetch the shortlist of a query. Items with all of the ``needed`` words come before others with words of it."""
    stored = index.existing_items(sorted(_positions(index, words, query, needed, options)))
    items = in_memory((item for _, item in stored), index.n_bits, index.modalities)
    positions = np.array([position for position, _ in stored], np.int64)

    def matches(text: str, columns: Sequence[int]) -> Matches:
        """Return `WordIndex.matches` in the shortlist, with the word weights of the whole collection."""
        found = words.matches(text, columns)
        known = words.positions()[found.positions]
        _, rows, places = np.intersect1d(known, positions, assume_unique=True, return_indices=True)
        return Matches(places, found.coverage[rows])

    # Items may have changed since the search.
    candidates = np.ones(len(items), bool) if options.where is None else items.matches(options.where)
    if options.ids is not None:
        allowed = {*options.ids}
        candidates = candidates & np.array([name in allowed for name in items.ids()], bool)
    return SearchSpace(items, matches, candidates)


def _positions(
    index: Index, words: WordIndexFile, query: EncodedQuery, needed: Sequence[str], options: SearchOptions
) -> set[int]:
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
        matches = words.matches(query.text, texts)
        complete = words.current().with_all(terms(" ".join(needed))) if needed else np.empty(0, np.int64)
        best = np.lexsort((-matches.coverage, ~np.isin(matches.positions, complete)))
        matching = words.positions()[matches.positions[best]].tolist()
        found.update(index.first_matching(matching, length, **scope))
    return found


def in_memory(items: Iterable[Item], n_bits: int, modalities: tuple[str, ...]) -> Index:
    """Return an index of items in memory."""
    index = Index(n_bits, modalities)
    index.add(**columnar(list(items), n_bits, modalities))
    return index
