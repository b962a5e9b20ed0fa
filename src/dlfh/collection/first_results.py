"""The first results of a text query: items with all labels and words that it asks for, then all others.

Each group is calibrated separately, by kind of query (`Calibration.shown`).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np

from dlfh._arrays import Floats, Integers, Mask
from dlfh._probabilities.scores import probability_of
from dlfh.collection.calibration.model import Calibration, content_words
from dlfh.collection.encoder import Encoder
from dlfh.collection.item_codes import LABELS
from dlfh.collection.query import Query, SearchOptions
from dlfh.collection.ranking import EncodedQuery, Ranked, Ranker, SearchSpace
from dlfh.collection.words import WordIndexFile
from dlfh.index import Index
from dlfh.index.nearest import Tables
from dlfh.index.words import WordIndex, terms, union

#: Minimum probability of a label that an item counts as having.
_HAS_LABEL = 0.5
#: Up to this number, items with all words of a text are ranked before others; beyond it, evidence does so.
_MAX_COMPLETE = 1 << 16


class FirstResults:
    """Ranks complete items first, and corrects the log-odds of the first results."""

    def __init__(self, encoder: Encoder, index: Index, words: WordIndexFile) -> None:
        self._encoder, self._index, self._words = encoder, index, words
        self._found: tuple[WordIndex, tuple[str, ...], Integers] | None = None

    def rank(
        self,
        query: Query,
        encoded: EncodedQuery,
        options: SearchOptions,
        ranker: Ranker,
        space: SearchSpace,
        candidates: Mask | None,
    ) -> Ranked:
        """Return the best candidates; those with all labels and words of a text first, if its kind is calibrated."""
        words = content_words(encoded.text or "", query.named.words)
        is_calibrated = self._kind(query, encoded, options) in self._calibration.shown and options.match != "codes"
        complete = np.empty(0, np.int64)
        if words and is_calibrated and options.radius is None:
            complete = self.with_words(words, space)
        if not 0 < len(complete) <= _MAX_COMPLETE:
            return ranker.rank(encoded, candidates)
        is_first = np.zeros(len(space.items), bool)
        is_first[complete[self.with_labels(query.named.labels, complete, space)]] = True
        others = ~is_first if candidates is None else candidates & ~is_first
        first = ranker.rank(encoded, is_first if candidates is None else candidates & is_first)
        n_left = options.k - len(first.positions)
        if n_left <= 0:
            return first
        rest = ranker.rank(encoded, others)
        positions, n_equal = np.append(first.positions, rest.positions), np.append(first.n_equal, rest.n_equal)
        return Ranked(
            positions[: options.k], np.append(first.log_odds, rest.log_odds)[: options.k], n_equal[: options.k]
        )

    def shown(
        self,
        log_odds: Floats,
        positions: Integers,
        query: Query,
        encoded: EncodedQuery,
        options: SearchOptions,
        space: SearchSpace,
    ) -> Floats:
        """Return the log-odds of the items at some positions, corrected for the first results."""
        kind, complete = self._kind(query, encoded, options), np.zeros(len(positions), bool)
        if encoded.text is not None and kind in self._calibration.shown:
            words, order = content_words(encoded.text, query.named.words), np.argsort(positions, kind="stable")
            if words or query.named.labels:
                complete[order] = self.with_labels(query.named.labels, positions[order], space)
            if words:
                complete &= np.isin(positions, self.with_words(words, space))
        return self._calibration.shown_log_odds(log_odds, kind, complete)

    def with_words(self, words: Sequence[str], space: SearchSpace) -> Integers:
        """Return the ascending positions of the items with a text that has all of the words."""
        if not self._words.modalities:
            return np.empty(0, np.int64)
        if space.items is self._index:  # a search asks for the same words twice
            current, found = self._words.current(), self._found
            if found is None or found[0] is not current or found[1] != tuple(words):
                self._found = found = current, tuple(words), current.with_all(terms(" ".join(words)))
            return found[2]
        by_column = (
            [space.matches(word, [column]).positions for word in words] for column in range(len(self._words.modalities))
        )
        return union(*(functools.reduce(np.intersect1d, each) for each in by_column))

    def with_labels(self, labels: Sequence[Sequence[int]], positions: Integers, space: SearchSpace) -> Mask:
        """Return which items at ascending positions probably have a label of each group."""
        model, found = self._encoder.label_model, np.ones(len(positions), bool)
        for numbers in dict.fromkeys(map(tuple, labels)):
            assert model is not None
            asked = np.zeros((1, model.n_labels), np.float32)
            asked[0, list(numbers)] = 1
            tables, column = Tables.of(model.tables(asked, "any")), space.items.modalities.index(LABELS)
            (distances,) = space.items.snapshot.distances_at((column,), tables, positions)
            probabilities = probability_of(-distances, "any", exclusive=model.exclusive)
            found &= np.isfinite(distances) & (probabilities >= _HAS_LABEL)
        return found

    @property
    def _calibration(self) -> Calibration:
        return self._encoder.calibration_ or Calibration()

    def _kind(self, query: Query, encoded: EncodedQuery, options: SearchOptions) -> tuple[str, str]:
        return self._calibration.kind(options.ranking or "", encoded.modality or "", encoded.text, query.named.words)
