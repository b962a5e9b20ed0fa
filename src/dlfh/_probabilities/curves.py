"""Curves that turn scores into probabilities, fitted to leave-one-out scores.

`LabelCurves` turn the scores of a regression into label probabilities, by a logistic curve per label. `MatchCurves`
turn the score of a query and an item (`scores`) into the probability that the item is what the query asks for. These
scores multiply the probabilities of labels as if labels were independent, and the first items are those whose scores
are overestimated. Curves fitted to pairs of left-out points correct both: a monotone, piecewise linear function of the
score plus two features of the query, in log-odds, for each choice of modalities for queries and for items.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._arrays import Array, Codes, Floats, Integers, Mask, Singles
from dlfh._parallel import Workers
from dlfh._probabilities.scores import MATCHES, Match
from dlfh.hashing.base import check_array

#: Strength of the pull of slopes towards the median slope, which rare labels need.
_PENALTY = 10.0
#: Labels with at least this many positive and negative points determine the median slope.
_MIN_EXAMPLES = 30
#: Slope of standardised scores where no label has enough points.
_DEFAULT_SLOPE = 2.0
#: Number of points that the prior counts as.
_PRIOR_POINTS = 3.0
#: Scores whose curves are fitted at once.
_CHUNK_SCORES = 1 << 22

#: The modalities that label probabilities come from; none if labels are known.
Source = tuple[str, ...]

_N_KNOTS = 9
#: Knots, their heights, and the weights of a query's features.
N_PARAMETERS = 2 * _N_KNOTS + 2
#: Share of points that are queries, and maximum numbers of queries and items.
_QUERY_SHARE, _MAX_QUERIES, _MIN_QUERIES, _MAX_ITEMS = 1 / 3, 512, 16, 2048
#: Table entries times labels of all queries.
_MAX_TERMS = 1 << 26
#: Pairs of each query: its best items, where people read probabilities, and random ones.
_N_BEST, _N_RANDOM = 10, 20
_MAX_STEPS = 50


def _sigmoid(values: Floats) -> Floats:
    # Not scipy.special.expit: a search must not load it.
    return 1 / (1 + np.exp(-np.clip(values, -700, 700)))


@dataclass(frozen=True)
class LabelCurves:
    """Probabilities of labels from their scores: trust x sigma(slope x score + intercept) + (1 - trust) x prior.

    prior (n_labels,): Share of points with each label.
    trust (n_labels,): Weight of the curve, n / (n + 3) for a label of n points.
    exclusive: Whether every point has exactly one label, so that probabilities sum to 1.
    """

    slope: Floats
    intercept: Floats
    prior: Floats
    trust: Floats
    exclusive: bool

    def __call__(self, scores: Array) -> Singles:
        """Return probabilities of shape (n, n_labels)."""
        values = _sigmoid(self.slope * scores + self.intercept)
        values *= self.trust
        values += (1 - self.trust) * self.prior
        if self.exclusive:
            values /= np.maximum(values.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
        return values.astype(np.float32)

    def extended(self, prior: Floats) -> LabelCurves:
        """Return curves with new priors, and with new labels that have nothing but a prior."""
        more = (0, len(prior) - len(self.prior))
        slope, intercept, trust = (np.pad(each, more) for each in (self.slope, self.intercept, self.trust))
        return LabelCurves(slope, intercept, prior, trust, self.exclusive)

    def to_arrays(self) -> dict[str, Array]:
        curves = np.stack([self.slope, self.intercept, self.prior, self.trust])
        return {"curves": curves, "exclusive": np.array([self.exclusive])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], n_labels: int) -> LabelCurves:
        slope, intercept, prior, trust = check_array(arrays, "curves", np.float64, (4, n_labels))
        if min(prior.min(), trust.min()) < 0 or max(prior.max(), trust.max()) > 1:
            raise ValueError("its label curves have a prior or weight outside 0 to 1")
        return cls(slope, intercept, prior, trust, bool(check_array(arrays, "exclusive", np.bool_, (1,))[0]))


def fit_label_curves(scores: Singles, labels: sp.csr_array, workers: Workers) -> LabelCurves:
    """Fit the curves of all labels.

    scores (n, n_labels): Leave-one-out scores of points.
    labels (n, n_labels): Indicator matrix of their labels.
    """
    from scipy.special import logit

    n, n_labels = scores.shape
    counts = np.asarray(labels.sum(axis=0)).ravel()
    by_label = sp.csc_array(labels)
    by_label.sort_indices()
    mean, deviation = scores.mean(axis=0, dtype=np.float64), scores.std(axis=0, dtype=np.float64)
    varying = (deviation > 1e-9 * np.abs(mean)) & (counts > 0) & (counts < n)
    deviation = np.where(varying, deviation, 1.0)
    prior = counts / n
    slope, intercept = np.empty(n_labels), np.empty(n_labels)
    start = logit(np.clip(prior, 0.5 / n, 1 - 0.5 / n))

    def fit(chosen: Integers, begin_at: float, pull_to: float, penalty: float) -> None:
        # The curve of a label that scores separate has no finite optimum without a pull: never begin at its end.
        slope[:], intercept[:] = begin_at, start
        step = max(1, _CHUNK_SCORES // n)
        for begin in range(0, len(chosen), step):
            part = chosen[begin : begin + step]
            rows = np.ascontiguousarray(((scores[:, part] - mean[part]) / deviation[part]).T, np.float32)
            positives = by_label[:, part]
            found = slope[part], intercept[part]
            arguments = rows, positives.indptr.astype(np.int64), positives.indices.astype(np.int64), *found
            kernel = functools.partial(_kernels.fit_curves, *arguments, float(pull_to), float(penalty))
            workers.map_blocks(kernel, len(part), workers.even_block(len(part), 10 * n + 1e5))
            slope[part], intercept[part] = found

    frequent = np.flatnonzero(varying & (counts >= _MIN_EXAMPLES) & (n - counts >= _MIN_EXAMPLES))
    fit(frequent, _DEFAULT_SLOPE, 0.0, 1e-3)
    median = float(np.median(slope[frequent])) if len(frequent) else _DEFAULT_SLOPE
    fit(np.flatnonzero(varying), median, median, _PENALTY)
    slope = np.where(varying, slope, 0.0) / deviation
    exclusive = bool((np.diff(labels.indptr) == 1).all())
    trust = np.where(varying, counts / (counts + _PRIOR_POINTS), 0.0)
    return LabelCurves(slope, np.where(varying, intercept - slope * mean, 0.0), prior, trust, exclusive)


class LeftOut(NamedTuple):
    """Points with probabilities by functions that were fitted without them.

    points (n,): Their numbers.
    """

    points: Integers
    probabilities: Singles
    labels: Mask

    def take(self, rows: Any) -> LeftOut:
        """Return some of the points."""
        return LeftOut(*(part[rows] for part in self))


def sample_pairs(left_out: Mapping[Source, LeftOut], seed: int) -> tuple[dict[Source, LeftOut], dict[Source, LeftOut]]:
    """Return queries and items: different points, the same ones from every source as far as possible."""
    n_labels = next(iter(left_out.values())).labels.shape[1]
    n_queries = int(np.clip(_MAX_TERMS // (256 * n_labels * len(left_out)), _MIN_QUERIES, _MAX_QUERIES))
    place = np.random.default_rng(seed).random(1 + max(int(each.points.max()) for each in left_out.values()))
    queries, items = {}, {}
    for source, each in left_out.items():
        order = np.argsort(place[each.points])
        middle = np.searchsorted(place[each.points][order], _QUERY_SHARE)
        queries[source] = each.take(order[: min(middle, n_queries)])
        items[source] = each.take(order[max(middle, len(order) - _MAX_ITEMS) :])
    return queries, items


def matching(queries: Mask, items: Mask, match: Match) -> Mask:
    """Return which items share a label with queries, or have all of their labels: shape (queries, items)."""
    asked = queries.astype(np.float32)
    shared = asked @ items.T.astype(np.float32)
    return shared > 0 if match == "any" else shared == asked.sum(axis=1)[:, None]


def sum_tables(tables: Singles, codes: Codes) -> Singles:
    """Return the scores of items, shape (queries, items)."""
    scores = np.zeros((len(tables), len(codes)), np.float32)
    for byte in range(codes.shape[1]):
        scores += tables[:, byte, codes[:, byte]]
    return scores


@dataclass(frozen=True)
class MatchCurves:
    """Curves by match and by the sources of queries and items.

    parameters (2, n_sources, n_sources, 20): See `N_PARAMETERS`.
    """

    sources: tuple[Source, ...]
    parameters: Floats

    def __call__(self, scores: Array, queries: Singles, match: Match, asked: Source, stored: Source) -> Floats:
        """Return probabilities for the scores (n, k) of n queries with given label probabilities."""
        place = MATCHES.index(match), self.sources.index(asked), self.sources.index(stored)
        knots, heights, weights = np.split(self.parameters[place], [_N_KNOTS, 2 * _N_KNOTS])
        return _sigmoid(np.interp(scores, knots, heights) + (_features(queries) @ weights)[:, None])

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], sources: tuple[Source, ...]) -> MatchCurves:
        n = len(sources)
        parameters = check_array(arrays, "matches", np.float64, (len(MATCHES), n, n, N_PARAMETERS))
        if (np.diff(parameters[..., :_N_KNOTS]) <= 0).any() or (np.diff(parameters[..., _N_KNOTS:-2]) < 0).any():
            raise ValueError("its match curves must be increasing")
        return cls(sources, parameters)


def fit_match_curve(scores: Singles, queries: Singles, happened: Mask, seed: int) -> Floats:
    """Return the parameters of a curve for the scores (n, k) of n queries and k items."""
    n, n_items = scores.shape
    n_best = min(_N_BEST, n_items)
    best = np.argpartition(-scores, n_best - 1, axis=1)[:, :n_best] if n_best else np.empty((n, 0), np.int64)
    others = np.random.default_rng(seed).integers(0, max(n_items, 1), (n, _N_RANDOM if n_items else 0))
    chosen = np.hstack([best, others])
    x = np.take_along_axis(scores, chosen, axis=1).ravel().astype(np.float64)
    y = np.take_along_axis(happened, chosen, axis=1).ravel().astype(np.float64)
    knots = np.quantile(x, np.linspace(0, 1, _N_KNOTS)) if len(x) else np.zeros(_N_KNOTS)
    knots = np.maximum.accumulate(knots) + np.arange(_N_KNOTS) * 1e-6 * max(1.0, float(np.abs(knots).max()))
    rises = np.clip((x[:, None] - knots[:-1]) / np.diff(knots), 0, 1)
    X = np.hstack([np.ones((len(x), 1)), rises, np.repeat(_features(queries), chosen.shape[1], axis=0)])

    start = np.array([-2.0, *[0.5] * (_N_KNOTS - 1), 0.0, 0.0])
    place = np.arange(len(start))
    found = _regression(X, y, start, (place > 0) & (place < _N_KNOTS))
    return np.concatenate([knots, np.cumsum(found[:_N_KNOTS]), found[_N_KNOTS:]])


def _regression(X: Floats, y: Floats, start: Floats, bounded: Mask) -> Floats:
    """Return the weights of a logistic regression with ridge 1, some of them at least 0, by projected Newton steps."""
    lowest = np.where(bounded, 0.0, -np.inf)
    previous, found, step, before = start, start, np.zeros_like(start), np.inf
    for _ in range(_MAX_STEPS):
        values = X @ found
        small = np.exp(-np.abs(values))
        loss = float((np.log1p(small) + np.maximum(values, 0) - values * y).sum() + 0.5 * found @ found)
        if loss > before:  # overshot: go back half of the step
            step = step / 2
            found = np.maximum(previous + step, lowest)
            continue
        if before - loss <= 1e-7 * loss:
            break
        p = np.where(values >= 0, 1.0, small) / (1 + small)
        gradient = X.T @ (p - y) + found
        free = (found > lowest) | (gradient < 0)
        hessian = (X * (p * (1 - p))[:, None]).T @ X + np.eye(len(found))
        previous, before, step = found, loss, np.zeros_like(found)
        step[free] = -np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        found = np.maximum(found + step, lowest)
    return found


def _features(queries: Singles) -> Floats:
    """Return the expected number of labels of queries, as a logarithm, and their largest probability."""
    return np.stack([np.log(queries.sum(axis=1, dtype=np.float64) + 0.01), queries.max(axis=1)], axis=1)
