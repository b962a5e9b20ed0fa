"""The probability that is shown for a score: that an item is what the query asks for.

Scores multiply the probabilities of labels as if labels were independent, and the first items are those whose scores
err upwards. Curves fitted to pairs of left-out points repair both: a monotone, piecewise linear function of the score,
plus what the query says of itself, in log-odds. Each choice of modalities for queries and for items has its own curve.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dlfh._arrays import Array, Codes, Floats, Integers, Mask, Singles
from dlfh._probabilities.scores import MATCHES, Match
from dlfh.hashing.base import check_array

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
        values = np.interp(scores, knots, heights) + (_features(queries) @ weights)[:, None]
        return 1 / (1 + np.exp(-np.clip(values, -700, 700)))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], sources: tuple[Source, ...]) -> MatchCurves:
        """Restore curves from their array."""
        n = len(sources)
        parameters = check_array(arrays, "matches", np.float64, (len(MATCHES), n, n, N_PARAMETERS))
        if (np.diff(parameters[..., :_N_KNOTS]) <= 0).any() or (np.diff(parameters[..., _N_KNOTS:-2]) < 0).any():
            raise ValueError("the curves of its matches must increase")
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
