"""How answers are ranked: one path for all questions.

Every item has log-odds of being right, by the codes and words that it has (`Calibration`), and is ranked by them. Items
with the same learned code and the same words are equal by that. They are told apart by their hashed codes, first in the
modalities that are searched and then in the others, and at last by the order in which they were added.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.codes import Codes
from dlfh.collection.calibration.model import Calibration, Pattern, probability, word_evidence
from dlfh.collection.columns import hashed_distances
from dlfh.collection.words import Words
from dlfh.errors import InputError
from dlfh.index import Index

__all__ = ["Options", "Query", "Ranked", "Ranker"]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Query:
    """What asks.

    Attributes
    ----------
    modality : str or None
        What it is in; None for an item of the collection, whose answers have no calibrated probability.
    code : ndarray of uint8 (bytes,)
        Bits apart are counted from it.
    asked : ndarray of float (n_bits,)
        What codes are compared with.
    hashed : dict of str to ndarray of float (n_bits,)
        By modality, what hashed codes are compared with to tell equals apart.
    text : str or None
        What words are looked for, if it is a text.
    """

    modality: str | None
    code: Codes
    asked: npt.NDArray[Any]
    hashed: dict[str, npt.NDArray[Any]]
    text: str | None = None


@dataclass(frozen=True)
class Options:
    """How it is answered.

    Attributes
    ----------
    k : int
    modalities : tuple of str
        The modalities to search.
    match : {"codes", "words", "both"}
    ranking : {"asymmetric", "specific", "hamming"}
    hashed_only : bool
        Whether every item is found by its hashed code.
    radius : int or None
        All items within so many bits, not ``k``.
    candidates : ndarray of bool (items,) or None
        The items to search among; all by default.
    min_probability : float or None
    limit : int or None
        So many items are found within a radius, or it is an error.
    ids, where, without
        What ``candidates`` comes from, for an engine that looks itself: ids, a filter, and the id of an item left out.
    """

    k: int
    modalities: tuple[str, ...]
    match: str = "codes"
    ranking: str = "asymmetric"
    hashed_only: bool = False
    radius: int | None = None
    candidates: Mask | None = None
    min_probability: float | None = None
    limit: int | None = None
    ids: Sequence[str] | None = None
    where: Mapping[str, Any] | None = None
    without: str | None = None


@dataclass(frozen=True)
class Ranked:
    """Items in order, the best first.

    Attributes
    ----------
    positions : ndarray of int64
        Their places in the index.
    log_odds : ndarray of float64
    n_equal : ndarray of int64
        How many items have the same log-odds, the item itself included.
    n_alike : ndarray of int64
        How many of these nothing tells apart: they are in the order in which they were added.
    """

    positions: Positions
    log_odds: Floats
    n_equal: Positions
    n_alike: Positions


class Ranker:
    """Ranks the items of an index.

    Parameters
    ----------
    index : Index
        With the columns of a collection.
    modalities, texts : tuple of str
        All of them, and those whose values are texts.
    calibration : Calibration
    words : Words or None
        The items' words, if words are searched.
    """

    def __init__(
        self,
        index: Index,
        modalities: tuple[str, ...],
        texts: tuple[str, ...],
        calibration: Calibration,
        words: Words | None,
    ) -> None:
        self._index = index
        self._modalities = modalities
        self._texts = texts
        self._calibration = calibration
        self._words = words

    def rank(self, query: Query, options: Options) -> Ranked:
        """Return the best items for a query."""
        log_odds = self.log_odds(query, options)
        eligible = np.isfinite(log_odds)
        if options.candidates is not None:
            eligible &= options.candidates
        if options.radius is not None:
            eligible &= self._distances(query.code, options.modalities[0], options.hashed_only) <= options.radius
        if options.min_probability is not None:
            eligible &= probability(log_odds) >= options.min_probability
        places = np.flatnonzero(eligible)
        n = len(places) if options.radius is not None else min(options.k, len(places))
        if options.limit is not None and n > options.limit:
            raise InputError(f"{n:,} items are found, and {options.limit:,} are the most: ask for a smaller radius")
        if not n:
            nothing = np.empty(0, np.int64)
            return Ranked(nothing, np.empty(0), nothing, nothing)
        least = np.partition(log_odds[places], len(places) - n)[len(places) - n]
        places = places[log_odds[places] >= least]  # all equals of the last one, to be told apart
        return self._in_order(query, options, places, log_odds[places], n)

    def _in_order(self, query: Query, options: Options, places: Positions, log_odds: Floats, n: int) -> Ranked:
        others = [name for name in self._modalities if name not in options.modalities]
        keys = [-log_odds]
        if (np.diff(np.sort(log_odds)) == 0).any():
            keys += [
                hashed_distances(self._index, query.hashed[name], name, places)
                for name in (*options.modalities, *others)
            ]
        order = np.lexsort((places, *reversed(keys)))
        in_order = np.stack([key[order] for key in keys])
        alike = _run_lengths((in_order[:, 1:] == in_order[:, :-1]).all(axis=0))
        equal = _run_lengths(in_order[0, 1:] == in_order[0, :-1])
        return Ranked(places[order][:n], log_odds[order][:n], equal[:n], alike[:n])

    def log_odds(self, query: Query, options: Options) -> Floats:
        """Return the log-odds of every item; minus infinity for those that cannot be found."""
        present, learned = zip(*(self._index.states(name) for name in options.modalities), strict=True)
        words = self._evidence(query, options)
        if options.match == "words":
            fit = self._fit(query, options, Pattern("hashed", (), True))
            return np.where(words > 0, fit.weights[0] * words + fit.bias, -np.inf)
        # What an item has, as a number: bit t for the t-th modality, and the last for a learned code.
        n = len(options.modalities)
        has = sum((mask.astype(np.int64) << t for t, mask in enumerate(present)), np.zeros(len(self._index), np.int64))
        kind = np.zeros(len(self._index), bool) if options.hashed_only else np.logical_or.reduce(learned)
        weights, biases = self._table(query, options)
        pattern = has + (kind.astype(np.int64) << n)
        log_odds = biases[pattern]
        length = float(np.abs(query.asked.astype(np.float64)).sum())
        for t, name in enumerate(options.modalities):
            distances = self._distances(query.asked, name, options.hashed_only)
            similarity = (length - 2 * np.where(present[t], distances, 0.0)) / len(query.asked)
            log_odds = log_odds + weights[pattern, t] * similarity
        return np.where(has > 0, log_odds + weights[pattern, n] * words, -np.inf)

    def _table(self, query: Query, options: Options) -> tuple[Floats, Floats]:
        """Return what evidence is worth, by what an item has: weights of modalities and of words, and a bias."""
        n = len(options.modalities)
        weights, biases = np.zeros((2 << n, n + 1)), np.zeros(2 << n)
        for has in range(1, 1 << n):
            own = [t for t in range(n) if has >> t & 1]
            modalities = tuple(options.modalities[t] for t in own)
            words = options.match == "both" and bool({*modalities} & {*self._texts})
            for number, codes in enumerate(("hashed", "learned")):
                fit = self._fit(query, options, Pattern(codes, modalities, words))
                row = has + (number << n)
                weights[row, [*own, *([n] if words else [])]] = fit.weights
                biases[row] = fit.bias
        return weights, biases

    def _fit(self, query: Query, options: Options, pattern: Pattern) -> Any:
        return self._calibration.fit_for(options.ranking, query.modality or "", pattern)

    def _evidence(self, query: Query, options: Options) -> Floats:
        """Return what each item's words say; 0 for all if words are not searched."""
        if options.match == "codes" or self._words is None or query.text is None:
            return np.zeros(len(self._index))
        columns = [place for place, name in enumerate(self._texts) if name in options.modalities]
        return word_evidence(self._words.coverage(query.text, columns))

    def _distances(self, query: npt.NDArray[Any], modality: str, hashed_only: bool) -> Floats:
        if hashed_only:
            return hashed_distances(self._index, query, modality)
        return self._index.distances(modality, query[None])[0]


def _run_lengths(same_as_last: Mask) -> Positions:
    """Return how long the run of equals is that each entry is in.

    Examples
    --------
    >>> _run_lengths(np.array([True, False, False, True, True]))
    array([2, 2, 1, 3, 3, 3])
    """
    starts = np.flatnonzero(np.concatenate([[True], ~same_as_last]))
    lengths = np.diff(np.append(starts, len(same_as_last) + 1))
    return np.repeat(lengths, lengths)
