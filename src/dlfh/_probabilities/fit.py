"""Fit hash functions and label probabilities together: labels are further targets of the regression of the codes."""

from __future__ import annotations

import copy
import functools
import itertools
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dlfh._arrays import Codes, Integers
from dlfh._labels import LabelSets
from dlfh._mathematics.targets import BlockTargets, RealTargets, Targets
from dlfh._probabilities.curves import (
    N_PARAMETERS,
    LeftOut,
    MatchCurves,
    Source,
    fit_label_curves,
    fit_match_curve,
    matching,
    sample_pairs,
    sum_tables,
)
from dlfh._probabilities.model import LabelFunction, LabelModel, PendingLabels, combinations, fit_fusion
from dlfh._probabilities.quantizer import MAX_POINTS, LabelQuantizer
from dlfh._probabilities.scores import MATCHES, Match, redundancy_weights
from dlfh.blocks.base import Blocks
from dlfh.hashing.base import FitContext, HashFunction, HashLearner
from dlfh.hashing.feature_maps import Survey

#: Points that curves are fitted to: a curve has two parameters, and few labels need few points.
_MIN_POINTS, _POINTS_PER_LABEL = 1 << 11, 256
#: Maximum number of these points, and of their scores.
_MAX_POINTS, _MAX_SCORES = 1 << 13, 1 << 25
#: Maximum number of points in a (points x points) matrix.
_MAX_POINTS_BY_POINTS = 2048
#: Weights of the lift that are tried, and the numbers of queries and items.
_LIFTS, _LIFT_QUERIES, _LIFT_ITEMS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0), 128, 1024


class LabelFit:
    """Fits the functions of a method's modalities one after another."""

    def __init__(self, n_bits: int, context: FitContext) -> None:
        self.context, self.fitted = context, FittedLabels(n_bits, context.seed)

    def model(self, modalities: tuple[str, ...]) -> PendingLabels:
        """Return a function that calibrates the label probabilities of all modalities, for the first use of them."""
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

        numbers: The points' numbers among those of all modalities, if some points lack this one.
        """
        points, survey = self._sample(features, targets), Survey.of(features, modality, self.context)
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
        solution = self.context.solutions.pop(modality, None)
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
        labels = RealTargets(truth.toarray(), np.arange(len(points)), scores.n_bits)
        values = labeller.leave_one_out(refitted, survey.take(points), labels, solution)
        if values is not None:
            curves = fit_label_curves(values, truth, self.context.workers)
            self.fitted.functions[modality] = LabelFunction(scores, curves)
            points = points if numbers is None else numbers[points]
            self.fitted.left_out[modality] = LeftOut(points, curves(values), labels.codes.astype(bool))
        return function

    def _sample(self, features: Blocks, targets: BlockTargets) -> Integers:
        """Return the points that curves are fitted to, ascending."""
        n, n_labels = features.shape[0], targets.labels.n_labels if isinstance(targets.labels, LabelSets) else 1
        enough = max(_MIN_POINTS, _POINTS_PER_LABEL * n_labels)
        size = min(n, _MAX_POINTS, enough, max(512, _MAX_SCORES // n_labels))
        return np.sort(np.random.default_rng(self.context.seed).choice(n, size, replace=False))


@dataclass
class FittedLabels:
    """Label functions and leave-one-out predictions, from which the label model is calibrated.

    functions, left_out: By modality: label probabilities, and those of a sample of points by functions without them.
    """

    n_bits: int
    seed: int
    labels: LabelSets | None = None
    functions: dict[str, LabelFunction] = field(default_factory=dict)
    left_out: dict[str, LeftOut] = field(default_factory=dict)

    def model(self, modalities: tuple[str, ...]) -> LabelModel | None:
        """Return the label probabilities of all modalities; None if any has none."""
        if self.labels is None or set(self.functions) != set(modalities):
            return None
        left_out: dict[Source, LeftOut] = {(name,): self.left_out[name] for name in modalities}
        prior, fusions = self.functions[modalities[0]].curves.prior, {}
        for names in combinations(modalities):
            common = functools.reduce(np.intersect1d, [left_out[name,].points for name in names])
            parts = [left_out[name,].take(np.searchsorted(left_out[name,].points, common)) for name in names]
            probabilities = [part.probabilities for part in parts]
            fusions[names] = fit_fusion(probabilities, parts[0].labels, prior)
            left_out[names] = LeftOut(common, fusions[names](probabilities, prior), parts[0].labels)
        first = left_out[modalities[0],]
        left_out[()] = first._replace(probabilities=first.labels.astype(np.float32))
        rng = np.random.default_rng(self.seed)
        step = max(1, sum(len(each.probabilities) for each in left_out.values()) // MAX_POINTS)
        sample = rng.permutation(np.concatenate([each.probabilities[::step] for each in left_out.values()]))
        quantizer = LabelQuantizer.fit(sample, self.n_bits, self.seed)
        weights, lifts = redundancy_weights(self.labels), dict.fromkeys(MATCHES, 0.0)
        model = LabelModel(self.labels.names, weights, self.functions, fusions, quantizer, lifts, None)
        return self._with_matches(model, left_out)

    def _with_matches(self, model: LabelModel, left_out: dict[Source, LeftOut]) -> LabelModel:
        """Return the model with lifts and curves of matches, fitted to pairs of left-out points."""
        queries, items = sample_pairs(left_out, self.seed)
        stored = {source: model.encode(each.probabilities) for source, each in items.items()}
        names = tuple(left_out)
        parameters = np.empty((len(MATCHES), len(names), len(names), N_PARAMETERS))
        for number, match in enumerate(MATCHES):
            if match == "all":  # every item has all labels of a query without any
                queries = {source: each.take(each.labels.any(axis=1)) for source, each in queries.items()}
            lift = self._choose_lift(model, match, queries, items, stored)
            model = replace(model, lifts={**model.lifts, match: lift})
            for place, source in enumerate(names):
                asked = queries[source]
                tables = model.tables(asked.probabilities, match)
                for other, codes in enumerate(stored.values()):
                    known = matching(asked.labels, items[names[other]].labels, match)
                    scores = sum_tables(tables, codes)
                    curve = fit_match_curve(scores, asked.probabilities, known, self.seed)
                    parameters[number, place, other] = curve
        return replace(model, matches=MatchCurves(names, parameters))

    def _choose_lift(
        self,
        model: LabelModel,
        match: Match,
        queries: dict[Source, LeftOut],
        items: dict[Source, LeftOut],
        stored: dict[Source, Codes],
    ) -> float:
        """Return the lift by which left-out queries rank items of another modality best."""
        from dlfh.metrics import mean_average_precision  # here, because a search needs none

        total = np.zeros(len(_LIFTS))
        ways = itertools.permutations(model.functions, 2) if len(model.functions) > 1 else [2 * (*model.functions,)]
        for one, other in ways:
            asked, codes = queries[one,].take(slice(_LIFT_QUERIES)), stored[other,][:_LIFT_ITEMS]
            known = matching(asked.labels, items[other,].labels[:_LIFT_ITEMS], match).astype(np.int8)
            if not known.any():
                continue
            tables, lifted = (
                replace(model, lifts={match: lift}).tables(asked.probabilities, match) for lift in (0.0, 1.0)
            )
            for place, lift in enumerate(_LIFTS):
                ranked = tables + np.float32(lift) * (lifted - tables)
                total[place] += mean_average_precision(ranked, codes, relevance=known, n_jobs=1)  # too few for threads
        return _LIFTS[int(np.argmax(total))]
