"""Fit hash functions and label probabilities together: labels are additional targets of the codes' regression.

Curves are fitted to leave-one-out scores, so that they hold for new points.
"""

from __future__ import annotations

import copy
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._arrays import Array, Codes, Floats, Integers, Mask, Singles
from dlfh._labels import LabelSets
from dlfh._mathematics.targets import BlockTargets, RealTargets, Targets
from dlfh._parallel import Workers, blas_threads
from dlfh._probabilities.model import (
    N_KNOTS,
    N_PARAMETERS,
    Fusion,
    LabelCurves,
    LabelFunction,
    LabelModel,
    LabelPredictor,
    MatchCurves,
    PendingLabels,
    Source,
    combinations,
    log_odds,
    query_features,
)
from dlfh._probabilities.scores import MATCHES, MAX_POINTS, LabelQuantizer, Match, redundancy_weights
from dlfh.blocks.base import Blocks
from dlfh.hashing.base import FitContext, HashFunction, HashLearner
from dlfh.hashing.feature_maps import Survey

#: Number of points that curves are fitted to: minimum, and per label; a curve has two parameters.
_MIN_POINTS, _POINTS_PER_LABEL = 1 << 11, 256
#: Maximum number of these points, and of their scores.
_MAX_POINTS, _MAX_SCORES = 1 << 13, 1 << 25
#: Maximum number of points in a (points x points) matrix.
_MAX_POINTS_BY_POINTS = 2048
#: Candidate weights of the lift, and numbers of queries and items to compare them on.
_LIFTS, _LIFT_QUERIES, _LIFT_ITEMS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0), 128, 1024
#: Penalty that shrinks slopes towards the median slope, which rare labels need.
_PENALTY = 10.0
#: Labels with at least this many positive and negative points determine the median slope.
_MIN_EXAMPLES = 30
#: Slope of standardised scores where no label has enough points.
_DEFAULT_SLOPE = 2.0
#: Weight of the prior, in points.
_PRIOR_POINTS = 1.0
#: Range of log-odds that records cover, relative to the range of left-out points, and its minimum.
_ROOM, _SMALL = 1.25, 1e-3
#: Rows of scores that are converted at once.
_BLOCK_ROWS = 128
#: Observations of a regression that are evaluated at once, in the processor's cache.
_BLOCK_OBSERVATIONS = 1 << 13
#: Share of points that are queries, maximum and minimum number of queries, and maximum number of items.
_QUERY_SHARE, _MAX_QUERIES, _MIN_QUERIES, _MAX_ITEMS = 1 / 3, 512, 16, 2048
#: Maximum number of table entries of all queries, times labels.
_MAX_TERMS = 1 << 26
#: Pairs per query: its best items, whose probabilities people read, and random items.
_N_BEST, _N_RANDOM = 10, 20
#: Maximum number of probabilities that a fusion of modalities is fitted to; it has few parameters.
_MAX_FUSED = 1 << 20
#: The first fit of a fusion uses every n-th probability. (Prime, so that it meets all labels.)
_FIRST_FUSED = 17


class LabelFit:
    """Fits the functions of a method's modalities one after another."""

    def __init__(self, n_bits: int, context: FitContext) -> None:
        self.context = context
        self.fitted = FittedLabels(n_bits, context.seed, context.workers.n_jobs, first=context.first)

    def model(self, modalities: tuple[str, ...]) -> PendingLabels:
        """Return a function that calibrates the label probabilities of all modalities when first used."""
        return functools.partial(self.fitted.model, modalities)

    def fit(
        self,
        learner: HashLearner,
        features: Blocks,
        targets: BlockTargets,
        modality: str,
        numbers: Integers | None = None,
    ) -> HashFunction:
        """Return the hash function of a modality; keep its label probabilities, if its learner has any.

        numbers: Numbers of the points among all points, if some points lack this modality.
        """
        n_labels = targets.labels.n_labels if isinstance(targets.labels, LabelSets) else 1
        points = sample_points(features.shape[0], n_labels, self.context.seed)
        self.context.solutions.pop(modality, None)  # of another fit
        survey = Survey.of(features, modality, self.context)
        survey.request(points)
        chosen = learner.resolve(features, targets, modality, self.context)
        labeller = chosen.label_learner()
        n_bits = targets.n_bits if labeller is chosen and type(targets.distinct) is Targets else 0
        labelled = targets.with_labels(codes=n_bits > 0)
        function: Any = None
        scores: Any = None
        if labeller is not None and labelled is not None:
            both = labeller.fit_blocks(features, labelled, modality, self.context)
            scores = both.columns(slice(n_bits, None))
            function = both.columns(slice(n_bits)) if n_bits else None
        solution = self.context.solutions.get(modality)
        if function is None:  # hash functions that are not regressions, or not by the same learner
            function = chosen.fit_blocks(features, targets, modality, self.context)
        if labeller is None or scores is None:
            return function
        assert isinstance(targets.labels, LabelSets)
        self.fitted.labels = self.fitted.labels or targets.labels
        refitted = scores
        if solution is not None:
            solution = solution.columns(slice(n_bits, None))
        else:  # solved without a matrix of all features: points are left out of a regression on a sample
            points = points[:: -(-len(points) // _MAX_POINTS_BY_POINTS)]
            refitted = copy.copy(scores)
            refitted.ridge = (scores.ridge or 1.0) * len(points) / features.shape[0]  # constant features have none
        survey.look(points)
        sets = targets.take(points)[1]
        truth = sets.rows()[sets.set_of_point]
        leave_one_out = functools.partial(labeller.leave_one_out, refitted, survey.take(points))
        points = points if numbers is None else numbers[points]
        self.fitted.pending[modality] = scores, leave_one_out, solution, points, truth
        return function


def sample_points(n: int, n_labels: int, seed: int) -> Integers:
    """Return the points that curves are fitted to, ascending."""
    enough = max(_MIN_POINTS, _POINTS_PER_LABEL * n_labels)
    size = min(n, _MAX_POINTS, enough, max(512, _MAX_SCORES // n_labels))
    return np.sort(np.random.default_rng(seed).choice(n, size, replace=False))


class LeftOut(NamedTuple):
    """Left-out points: their numbers, labels, and probabilities by functions fitted without them."""

    points: Integers
    probabilities: Singles
    labels: Mask

    def take(self, rows: Any) -> LeftOut:
        return LeftOut(*(part[rows] for part in self))

    def joined(self, other: LeftOut) -> LeftOut:
        points = np.concatenate([self.points, other.points])
        probabilities = np.concatenate([self.probabilities, other.probabilities])
        return LeftOut(points, probabilities, np.concatenate([self.labels, other.labels])).take(np.argsort(points))


class FirstLabels(NamedTuple):
    """Labels predicted by a fit to points with known labels: its function, and the probabilities of a new fit's points.

    Those of points with known labels are leave-one-out predictions.
    """

    function: LabelFunction
    names: tuple[Any, ...]
    probabilities: Singles


BySource = dict[Source, LeftOut]


@dataclass
class FittedLabels:
    """Label functions and leave-one-out predictions by modality, from which the label model is calibrated."""

    n_bits: int
    seed: int
    n_jobs: int
    labels: LabelSets | None = None
    functions: dict[str, LabelFunction] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)
    pending: dict[str, Any] = field(default_factory=dict)  # label scores, and data that their curves are fitted to
    first: Mapping[str, FirstLabels] = field(default_factory=dict)
    fused: tuple[tuple[str, ...], BySource, dict[Source, Fusion]] | None = None

    def calibrate(self) -> None:
        """Fit the curves of label probabilities; modalities without leave-one-out scores get none."""
        with blas_threads(self.n_jobs), Workers(self.n_jobs) as workers:
            for name in [*self.pending]:
                scores, leave_one_out, solution, points, truth = self.pending.pop(name)
                labels = RealTargets(truth.astype(np.float32).toarray(), np.arange(len(points)), scores.n_bits)
                values = leave_one_out(labels, solution)
                if values is None:
                    continue
                curves = fit_label_curves(values, truth, workers)
                first = None
                if name in self.first and self.labels is not None and self.labels.names is not None:
                    numbers = {label: number for number, label in enumerate(self.labels.names)}
                    first = self.first[name].function, np.array([numbers[label] for label in self.first[name].names])
                probabilities = curves(values)
                function = LabelFunction(scores, curves, _spread(curves, probabilities), first)
                if first is not None:
                    probabilities = function.mixed(probabilities, self.first[name].probabilities[points])
                self.functions[name] = function
                self.left_out[name] = LeftOut(points, probabilities, labels.codes > 0)

    def _fused(self, modalities: tuple[str, ...]) -> tuple[BySource, dict[Source, Fusion]]:
        """Return the left-out points of all combinations of modalities, and the fusions of several."""
        if self.fused is not None and self.fused[0] == modalities:  # by the predictor of the same fit
            return dict(self.fused[1]), self.fused[2]
        left_out: BySource = {(name,): self.left_out[name] for name in modalities}
        prior, fusions = self.functions[modalities[0]].curves.prior, {}
        for names in combinations(modalities):
            common = functools.reduce(np.intersect1d, [left_out[name,].points for name in names])
            parts = [left_out[name,].take(np.searchsorted(left_out[name,].points, common)) for name in names]
            probabilities = [part.probabilities for part in parts]
            fusions[names] = fit_fusion(probabilities, parts[0].labels, prior)
            left_out[names] = LeftOut(common, fusions[names](probabilities, prior), parts[0].labels)
        self.fused = modalities, dict(left_out), fusions
        return left_out, fusions

    def model(self, modalities: tuple[str, ...], *, predictor: bool = False) -> LabelPredictor | None:
        """Return the label probabilities of all modalities; None if any has none.

        predictor: Whether to return only the part that predicts labels, a fraction of the work.
        """
        self.calibrate()
        if self.labels is None or set(self.functions) != set(modalities):
            return None
        left_out, fusions = self._fused(modalities)
        if predictor:
            return LabelPredictor(self.labels.names, self.functions, fusions)
        known = left_out[modalities[0],]
        for name in modalities[1:]:  # points may lack a modality
            other = left_out[name,]
            other = other.take(np.flatnonzero(~np.isin(other.points, known.points)))
            known = known.joined(other)
        left_out[()] = known._replace(probabilities=known.labels.astype(np.float32))
        rng = np.random.default_rng(self.seed)
        step = max(1, sum(len(each.probabilities) for each in left_out.values()) // MAX_POINTS)
        sample = rng.permutation(np.concatenate([each.probabilities[::step] for each in left_out.values()]))
        quantizer = LabelQuantizer.fit(sample, self.n_bits, self.seed)
        weights, lifts = redundancy_weights(self.labels), dict.fromkeys(MATCHES, 0.0)
        model = LabelModel(self.labels.names, self.functions, fusions, weights, quantizer, lifts, None)
        return self._with_matches(model, left_out)

    def _with_matches(self, model: LabelModel, left_out: BySource) -> LabelModel:
        """Return the model with lifts and curves of matches, fitted to pairs of left-out points."""
        queries, items = sample_pairs(left_out, self.seed)
        stored = {source: model.encode(each.probabilities) for source, each in items.items()}
        names = tuple(left_out)
        labels = {source: each.labels.T.astype(np.float32) for source, each in items.items()}
        known = dict[Any, Mask]()  # by match and points, which are mostly the same for all sources
        parameters = np.empty((len(MATCHES), len(names), len(names), N_PARAMETERS))
        for number, match in enumerate(MATCHES):
            if match == "all":  # every item has all labels of a query without labels
                queries = {source: each.take(each.labels.any(axis=1)) for source, each in queries.items()}
            plain = {name: model.tables(asked.probabilities, match) for name, asked in queries.items()}
            lifted = {name: model.lift_tables(asked.probabilities, match) for name, asked in queries.items()}
            lift = _choose_lift(model, match, queries, labels, stored, plain, lifted)
            model = replace(model, lifts={**model.lifts, match: lift})
            for place, source in enumerate(names):
                asked = queries[source]
                tables = by_centroid(plain[source] + np.float32(lift) * lifted[source])
                found = None
                for other, (name, codes) in enumerate(stored.items()):
                    key = match, asked.points.tobytes(), items[name].points.tobytes()
                    if key not in known:
                        known[key] = matching(asked.labels, labels[name], match)
                    scores, happened = sum_tables(tables, codes), known[key]
                    found = fit_match_curve(scores, asked.probabilities, happened, self.seed, found)
                    parameters[number, place, other] = found
        return replace(model, matches=MatchCurves(names, parameters))


def _choose_lift(
    model: LabelModel,
    match: Match,
    queries: BySource,
    labels: dict[Source, Singles],
    stored: dict[Source, Codes],
    plain: dict[Source, Singles],
    lifted: dict[Source, Singles],
) -> float:
    """Return the lift by which left-out queries rank items of another modality best."""
    from dlfh.metrics import mean_average_precision  # here, because a search does not need it

    total = np.zeros(len(_LIFTS))
    ways = itertools.permutations(model.functions, 2) if len(model.functions) > 1 else [2 * (*model.functions,)]
    for one, other in ways:
        asked, codes = queries[one,].take(slice(_LIFT_QUERIES)), stored[other,][:_LIFT_ITEMS]
        known = matching(asked.labels, labels[other,][:, :_LIFT_ITEMS], match).astype(np.int8)
        if not known.any():
            continue
        tables, more = plain[one,][:_LIFT_QUERIES], lifted[one,][:_LIFT_QUERIES]
        for place, lift in enumerate(_LIFTS):
            ranked = tables + np.float32(lift) * more
            total[place] += mean_average_precision(ranked, codes, relevance=known, n_jobs=1)  # too few for threads
    return _LIFTS[int(np.argmax(total))]


def fit_label_curves(scores: Singles, labels: sp.csr_array, workers: Workers) -> LabelCurves:
    """Fit the curves of all labels to the leave-one-out scores of points and the indicator matrix of their labels."""
    from scipy.special import logit

    n, n_labels = scores.shape
    counts = np.asarray(labels.sum(axis=0)).ravel()
    by_label = sp.csc_array(labels)
    by_label.sort_indices()
    mean, deviation = _means_and_deviations(scores)
    varying = (deviation > 1e-9 * np.abs(mean)) & (counts > 0) & (counts < n)
    deviation = np.where(varying, deviation, 1.0)
    prior = counts / n
    slope, intercept = np.empty(n_labels), np.empty(n_labels)
    start = logit(np.clip(prior, 0.5 / n, 1 - 0.5 / n))
    rows = np.empty((n_labels, n), np.float32)
    for block in _blocks(n):
        rows[:, block] = ((scores[block] - mean) / deviation).T
    positives = by_label.indptr.astype(np.int64), by_label.indices.astype(np.int64)

    def fit(chosen: Integers, begin_at: float, pull_to: float, penalty: float) -> None:
        # Without a penalty, the curve of a perfectly separated label diverges: do not start from its last fit.
        slope[:], intercept[:] = begin_at, start
        arguments = rows, *positives, chosen, slope, intercept, float(pull_to), float(penalty)
        kernel = functools.partial(_kernels.fit_curves, *arguments)
        workers.map_blocks(kernel, len(chosen), workers.even_block(len(chosen), 10 * n + 1e5))

    frequent = np.flatnonzero(varying & (counts >= _MIN_EXAMPLES) & (n - counts >= _MIN_EXAMPLES))
    fit(frequent, _DEFAULT_SLOPE, 0.0, 1e-3)
    median = float(np.median(slope[frequent])) if len(frequent) else _DEFAULT_SLOPE
    fit(np.flatnonzero(varying), median, median, _PENALTY)
    slope = np.where(varying, slope, 0.0) / deviation
    exclusive = bool((np.diff(labels.indptr) == 1).all())
    trust = np.where(varying, counts / (counts + _PRIOR_POINTS), 0.0)
    return LabelCurves(slope, np.where(varying, intercept - slope * mean, 0.0), prior, trust, exclusive)


def _blocks(n: int) -> list[slice]:
    """Return slices of a few rows, whose values stay in the processor's cache."""
    return [slice(start, start + _BLOCK_ROWS) for start in range(0, n, _BLOCK_ROWS)]


def _means_and_deviations(scores: Singles) -> tuple[Floats, Floats]:
    mean = scores.mean(axis=0, dtype=np.float64)
    squares = np.zeros(scores.shape[1])
    for block in _blocks(len(scores)):
        centred = scores[block] - mean
        squares += np.einsum("nl,nl->l", centred, centred)
    return mean, np.sqrt(squares / len(scores))


def _spread(curves: LabelCurves, probabilities: Singles) -> Floats:
    """Return means and deviations of each label's log-odds, and the range above the mean that records cover."""
    blocks = _blocks(len(probabilities))
    parts = [
        (odds.sum(axis=0), np.einsum("nl,nl->l", odds, odds), odds.max(axis=0))
        for odds in (curves.log_odds(probabilities[block]) for block in blocks)
    ]
    sums, squares, highest = (np.array(part) for part in zip(*parts, strict=True))
    mean = sums.sum(axis=0) / len(probabilities)
    deviation = np.sqrt(np.maximum(squares.sum(axis=0) / len(probabilities) - mean**2, 0))
    return np.stack([mean, deviation + _SMALL, _ROOM * (highest.max(axis=0) - mean) + _SMALL])


def sample_pairs(left_out: BySource, seed: int) -> tuple[BySource, BySource]:
    """Return disjoint queries and items, the same points for every source as far as possible."""
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


def matching(queries: Mask, items: Array, match: Match) -> Mask:
    """Return a mask (queries, items) of the items that share a label with a query, or have all its labels.

    items (n_labels, items): Labels of items, as 0 and 1.
    """
    asked = queries.astype(np.float32)
    shared = asked @ items.astype(np.float32, copy=False)
    return shared > 0 if match == "any" else shared == asked.sum(axis=1)[:, None]


def by_centroid(tables: Singles) -> Singles:
    """Return score tables in the order that `sum_tables` reads, shape (n_bytes, 256, queries)."""
    return np.ascontiguousarray(tables.transpose(1, 2, 0))


def sum_tables(tables: Singles, codes: Codes) -> Singles:
    """Return the scores of items, shape (queries, items), from tables `by_centroid`."""
    scores = np.empty((tables.shape[2], len(codes)), np.float32)
    _kernels.add_tables(tables, codes, scores)
    return scores


def fit_match_curve(
    scores: Singles, queries: Singles, happened: Mask, seed: int, similar: Floats | None = None
) -> Floats:
    """Return the parameters of a curve for the scores (n, k) of n queries and k items.

    similar: Parameters of a similar curve, from which fewer steps are needed.
    """
    n, n_items = scores.shape
    n_best = min(_N_BEST, n_items)
    best = np.argpartition(-scores, n_best - 1, axis=1)[:, :n_best] if n_best else np.empty((n, 0), np.int64)
    others = np.random.default_rng(seed).integers(0, max(n_items, 1), (n, _N_RANDOM if n_items else 0))
    chosen = np.hstack([best, others])
    x = np.take_along_axis(scores, chosen, axis=1).ravel().astype(np.float64)
    y = np.take_along_axis(happened, chosen, axis=1).ravel().astype(np.float64)
    knots = np.quantile(x, np.linspace(0, 1, N_KNOTS)) if len(x) else np.zeros(N_KNOTS)
    knots = np.maximum.accumulate(knots) + np.arange(N_KNOTS) * 1e-6 * max(1.0, float(np.abs(knots).max()))
    rises = np.clip((x[:, None] - knots[:-1]) / np.diff(knots), 0, 1)
    X = np.hstack([np.ones((len(x), 1)), rises, np.repeat(query_features(queries), chosen.shape[1], axis=0)])

    start = np.array([-2.0, *[0.5] * (N_KNOTS - 1), 0.0, 0.0])
    if similar is not None:
        start = np.concatenate([np.diff(similar[N_KNOTS : 2 * N_KNOTS], prepend=0.0), similar[2 * N_KNOTS :]])
    place = np.arange(len(start))
    found = _regression(X, y, start, (place > 0) & (place < N_KNOTS))
    return np.concatenate([knots, np.cumsum(found[:N_KNOTS]), found[N_KNOTS:]])


def _regression(X: Floats, y: Floats, start: Floats, bounded: Mask, offset: Floats | float = 0.0) -> Floats:
    """Return the weights of a logistic regression with ridge 1, some of them at least 0, by projected Newton steps."""
    lowest = np.where(bounded, 0.0, -np.inf)
    previous, found, step, before = start, start, np.zeros_like(start), np.inf
    blocks = [slice(at, at + _BLOCK_OBSERVATIONS) for at in range(0, len(y), _BLOCK_OBSERVATIONS)]
    offsets = np.broadcast_to(offset, y.shape)
    for _ in range(50):
        loss, gradient, hessian = 0.5 * float(found @ found), found.copy(), np.eye(len(found))
        for block in blocks:
            rows, true = X[block], y[block]
            values = rows @ found + offsets[block]
            small = np.exp(-np.abs(values))
            loss += float((np.log1p(small) + np.maximum(values, 0) - values * true).sum())
            p = np.where(values >= 0, 1.0, small) / (1 + small)
            gradient += (p - true) @ rows
            hessian += (rows.T * (p * (1 - p))) @ rows
        if loss > before:  # overshot: go back half of the step
            step = step / 2
            found = np.maximum(previous + step, lowest)
            continue
        if before - loss <= 1e-7 * loss:
            break
        free = (found > lowest) | (gradient < 0)
        previous, before, step = found, loss, np.zeros_like(found)
        step[free] = -np.linalg.solve(hessian[np.ix_(free, free)], gradient[free])
        found = np.maximum(found + step, lowest)
    return found


def fit_fusion(probabilities: Sequence[Singles], labels: Mask, prior: Floats) -> Fusion:
    """Fit the combination of several modalities to left-out probabilities and the labels of the same points."""
    some, n, base = slice(None, None, -(-labels.size // _MAX_FUSED)), len(probabilities), log_odds(prior)
    y = labels[some].astype(np.float64).ravel()
    X = np.stack([np.ones(len(y)), *((log_odds(each[some]) - base).ravel() for each in probabilities)], axis=1)
    offset = np.broadcast_to(base, labels[some].shape).ravel()
    found, free = np.array([0.0, *[1 / n] * n]), np.zeros(n + 1, bool)
    for step in (_FIRST_FUSED, 1):  # a fit to a part of the data is a start that saves most steps
        found = _regression(X[::step], y[::step], found, free, offset[::step])
    bias, *weights = found.tolist()
    return Fusion(tuple(weights), bias)
