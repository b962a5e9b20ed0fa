"""Rank items by the probability that they are relevant.

The evidence for an item are its label probabilities, the similarity of its codes to the query and the share of the
query's words in its texts. `Calibration` turns it into log-odds. Items with equal log-odds, such as those with the same
labels and no word of the query, are ordered by the words that name labels, then by the distance of their hashed codes,
first in the searched modalities and then in the others, and finally by insertion order.

Items in a database are not all ranked, but those on a shortlist, like a small local collection: the nearest codes by
Hamming distance in each searched column, and the texts with the best matching words. Results equal those of a local
collection as far as the shortlist contains them; docs/engines.md reports how far that is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from dlfh._arrays import Array, Codes, Floats, Integers, Mask, Singles
from dlfh._probabilities.scores import Match
from dlfh.codes import pack
from dlfh.collection.calibration.model import Calibration, Pattern, label_evidence, probability, word_evidence
from dlfh.collection.encoder import Encoder
from dlfh.collection.item_codes import LABELS, columnar, hashed_column, hashed_distances
from dlfh.collection.query import SearchOptions
from dlfh.collection.words import WordIndexFile, without_words
from dlfh.errors import InputError
from dlfh.index import Index
from dlfh.index.items import Item

#: A shortlist has ``_FACTOR * k`` items of each column, and at least ``_MIN_LENGTH``.
_FACTOR, _MIN_LENGTH = 20, 500

#: Return the share of a text's words that each item contains in the given text columns.
Coverage = Callable[[str, Sequence[int]], Floats]


class SearchSpace(NamedTuple):
    """The items to rank, the coverage of a text by their words, and a mask of the items that may be returned."""

    items: Index
    coverage: Coverage
    candidates: Mask
    warnings: Sequence[str] = ()


class EncodedQuery(NamedTuple):
    """A query in the form that codes and texts are compared with."""

    modality: str | None  # None for an item of the collection, for which probabilities are not calibrated
    code: Codes
    values: Array  # signs and weights of the query's bits
    tie_breakers: Mapping[str, Array]  # by modality, what hashed codes are compared with to order equal items
    text: str | None = None
    labels: Singles | None = None  # the probability of each label, if items are ranked by them
    explained: frozenset[str] = frozenset()  # words by which a text names labels: texts decide on the others only


class Ranked(NamedTuple):
    """Positions of items, most probable first, and their log-odds."""

    positions: Integers
    log_odds: Floats
    n_equal: Integers  # number of items with the same log-odds, the item included
    n_tied: Integers  # number of these that hashed codes do not distinguish; they are in insertion order


class Ranker:
    """Ranks the items of an index for queries of one modality, by options whose defaults are filled in."""

    def __init__(
        self, index: Index, encoder: Encoder, modality: str | None, options: SearchOptions, coverage: Coverage
    ) -> None:
        self._index = index
        self._options = options
        self._coverage = coverage
        self._searched = tuple(options.modalities or ())
        self._others = tuple(name for name in encoder.modalities_ if name not in self._searched)
        texts = encoder.text_modalities()
        self._texts = [name for name in self._searched if name in texts]
        self._columns = [column for column, name in enumerate(texts) if name in self._searched]
        self._labels = encoder.label_model
        self._match: Match = "all" if options.ranking == "all" else "any"
        self._fit = partial((encoder.calibration_ or Calibration()).fit_for, options.ranking or "", modality or "")
        # The evidence that an item has, as a number: bit t for the t-th modality, and the last bit for a learned code.
        present, learned = zip(*(index.states(name) for name in self._searched), strict=True)
        has_code = sum((mask.astype(np.int64) << t for t, mask in enumerate(present)), np.zeros(len(index), np.int64))
        is_learned = np.zeros(len(index), bool) if options.hashed_only else np.logical_or.reduce(learned)
        self._present = present
        self._has_code = has_code > 0
        self._pattern = has_code + (is_learned.astype(np.int64) << len(self._searched))

    def rank(self, query: EncodedQuery, candidates: Mask | bool = True) -> Ranked:
        """Return the best items for a query, of the candidates."""
        options, log_odds = self._options, self.log_odds(query)
        eligible = np.isfinite(log_odds) & candidates
        if options.radius is not None:
            eligible &= self._distances(query.code, self._searched[0]) <= options.radius
        if options.min_probability is not None:
            eligible &= probability(log_odds) >= options.min_probability
        positions = np.flatnonzero(eligible)
        n = len(positions) if options.radius is not None else min(options.k, len(positions))
        if options.limit is not None and n > options.limit:
            limit = f"more than the limit of {options.limit:,}"
            raise InputError(f"{n:,} items are within the radius, {limit}: reduce the radius")
        if not n:
            nothing = np.empty(0, np.int64)
            return Ranked(nothing, np.empty(0), nothing, nothing)
        least = np.partition(log_odds[positions], len(positions) - n)[len(positions) - n]
        positions = positions[log_odds[positions] >= least]  # includes all items that are equal to the last one
        return self._in_order(query, positions, log_odds[positions], n)

    def _in_order(self, query: EncodedQuery, positions: Integers, log_odds: Floats, n: int) -> Ranked:
        keys = [-log_odds]
        if (np.diff(np.sort(log_odds)) == 0).any():
            keys += self._explained_words(query, positions)
            keys += [
                hashed_distances(self._index, query.tie_breakers[name], name, positions)
                for name in (*self._searched, *self._others)
            ]
        order = np.lexsort((positions, *reversed(keys)))
        ordered = np.stack([key[order] for key in keys])
        n_tied = _run_lengths((ordered[:, 1:] == ordered[:, :-1]).all(axis=0))
        n_equal = _run_lengths(ordered[0, 1:] == ordered[0, :-1])
        return Ranked(positions[order][:n], log_odds[order][:n], n_equal[:n], n_tied[:n])

    def log_odds(self, query: EncodedQuery) -> Floats:
        """Return the log-odds of every item; minus infinity for items without evidence."""
        words = self._word_evidence(query)
        if self._options.match == "words":
            fit = self._fit(Pattern("hashed", (), True))
            return np.where(words > 0, fit.weights[0] * words + fit.bias, -np.inf)
        weights, biases = self._table
        log_odds = biases[self._pattern]
        length = float(np.abs(query.values.astype(np.float64)).sum())
        no_label = 0.0
        if query.labels is not None:
            evidence, no_label = self._label_evidence(query.labels[None])
            log_odds = log_odds + weights[self._pattern, -1] * evidence
        for t, name in enumerate(self._searched):
            if not weights[:, t].any():
                continue
            distances = self._distances(query.values, name)
            similarity = (length - 2 * np.where(self._present[t], distances, 0.0)) / len(query.values)
            log_odds = log_odds + weights[self._pattern, t] * similarity
        of_words = weights[:, len(self._searched)]
        if query.labels is not None:
            of_words = of_words + no_label * weights[:, -2]
        return np.where(self._has_code, log_odds + of_words[self._pattern] * words, -np.inf)

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """Return the weights of modalities, words and labels, and the bias, of each pattern of evidence."""
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

    def _label_evidence(self, query: Singles) -> tuple[Floats, float]:
        """Return the `label_evidence` of each item, and the probability that an item without labels is relevant."""
        assert self._labels is not None
        distances = self._index.distances(LABELS, self._labels.tables(query, self._match))
        evidence, none = label_evidence(self._labels, query, np.where(self._has_code, -distances, 0.0), self._match)
        return evidence[0], float(none[0, 0])

    def _word_evidence(self, query: EncodedQuery) -> Floats:
        if self._options.match == "codes" or query.text is None:
            return np.zeros(len(self._index))
        is_explained = query.labels is not None and self._options.match != "words"
        text = without_words(query.text, query.explained) if is_explained else query.text
        return word_evidence(self._coverage(text, self._columns))

    def _explained_words(self, query: EncodedQuery, positions: Integers) -> list[Floats]:
        """Return a sort key for ties: items with the words that name the labels come first."""
        if self._options.match != "both" or query.labels is None or not query.explained:
            return []
        return [-self._coverage(" ".join(sorted(query.explained)), self._columns)[positions]]

    def _distances(self, values: Array, modality: str) -> Floats:
        if self._options.hashed_only:
            return hashed_distances(self._index, values, modality)
        return self._index.distances(modality, values[None])[0]


def _run_lengths(equals_previous: Mask) -> Integers:
    """Return the length of the run of equal entries that each entry belongs to."""
    starts = np.flatnonzero(np.concatenate([[True], ~equals_previous]))
    lengths = np.diff(np.append(starts, len(equals_previous) + 1))
    return np.repeat(lengths, lengths)


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
    candidates = np.ones(len(items), bool) if options.where is None else items.matches(options.where)
    if options.ids is not None:
        allowed = {*options.ids}
        candidates = candidates & np.array([name in allowed for name in items.ids()], bool)
    return SearchSpace(items, coverage, candidates)


def _positions(index: Index, words: WordIndexFile, query: EncodedQuery, options: SearchOptions) -> set[int]:
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
