"""Fit hash functions and label probabilities together: labels are further targets of the regression of the codes."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh._mathematics.leave_one_out import RidgeSolution
from dlfh._mathematics.targets import RealTargets, Targets
from dlfh._probabilities.curves import fit_label_curves
from dlfh._probabilities.model import LabelFunction, LabelModel, combinations, fit_fusion
from dlfh._probabilities.quantizer import LabelQuantizer
from dlfh._probabilities.scores import redundancy_weights
from dlfh.blocks.base import Blocks
from dlfh.hashing.base import FitContext, HashFunction, HashLearner, SummedLearner
from dlfh.hashing.block_targets import BlockTargets
from dlfh.hashing.survey import Survey

Values = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

#: Points that curves are fitted to: a curve has two parameters, and few labels need few points.
_MIN_POINTS, _POINTS_PER_LABEL = 1 << 11, 256
#: Maximum number of these points, and of their scores.
_MAX_POINTS, _MAX_SCORES = 1 << 13, 1 << 25
#: Maximum number of points in a (points x points) matrix.
_MAX_POINTS_BY_POINTS = 2048
#: Maximum number of modalities whose combinations are fitted.
_MAX_MODALITIES = 4


@dataclass
class LabelFit:
    """Fits the functions of a method's modalities one after another, then what combines them.

    functions, left_out: By modality: label probabilities, and those of a sample of points by functions without them.
    points: By modality: the numbers of the sampled points.
    """

    n_bits: int
    context: FitContext
    labels: LabelSets | None = None
    functions: dict[str, LabelFunction] = field(default_factory=dict)
    points: dict[str, Integers] = field(default_factory=dict)
    left_out: dict[str, Values] = field(default_factory=dict)
    truth: dict[str, sp.csr_array] = field(default_factory=dict)

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
        points = self._sample(features, targets)
        Survey.of(features, modality, self.context).request(points)
        chosen = learner.resolve(features, targets, modality, self.context)
        labeller = chosen.label_learner()
        n_bits = targets.n_bits if labeller is chosen and type(targets.distinct) is Targets else 0
        labelled = targets.with_labels(codes=n_bits > 0)
        function = scores = None
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
        self.labels = self.labels or targets.labels
        if solution is not None:
            solution = solution.columns(slice(n_bits, None))
        if solution is None:
            points = points[:: -(-len(points) // _MAX_POINTS_BY_POINTS)]
        self._calibrate(labeller, scores, solution, features, targets, modality, points)
        if numbers is not None and modality in self.points:
            self.points[modality] = numbers[self.points[modality]]
        return function

    def _sample(self, features: Blocks, targets: BlockTargets) -> Integers:
        """Return the points that curves are fitted to, ascending."""
        n, n_labels = features.shape[0], targets.labels.n_labels if isinstance(targets.labels, LabelSets) else 1
        enough = max(_MIN_POINTS, _POINTS_PER_LABEL * n_labels)
        size = min(n, _MAX_POINTS, enough, max(512, _MAX_SCORES // n_labels))
        return np.sort(np.random.default_rng(self.context.seed).choice(n, size, replace=False))

    def _calibrate(
        self,
        learner: SummedLearner,
        scores: Any,
        solution: RidgeSolution | None,
        features: Blocks,
        targets: BlockTargets,
        modality: str,
        points: Integers,
    ) -> None:
        survey = Survey.of(features, modality, self.context)
        survey.look(points)
        sets = targets.take(points)[1]
        truth, rows = sets.rows()[sets.set_of_point], survey.take(points)
        values: Values | None
        if solution is not None:
            values = learner.leave_sample_out(scores, solution, rows, truth.toarray())
        else:  # solved without a matrix of all features, so points are left out of a regression on the sample
            sampled = RealTargets(truth.toarray(), np.arange(len(points)), scores.n_bits)
            ridge = (scores.ridge or 1.0) * len(points) / features.shape[0]  # constant features have none
            values = learner.leave_one_out(scores.with_ridge(ridge), rows, sampled)
        if values is None:
            return
        curves = fit_label_curves(values, truth, self.context.workers)
        self.functions[modality] = LabelFunction(scores, curves)
        self.points[modality], self.left_out[modality], self.truth[modality] = points, curves(values), truth

    def model(self, modalities: tuple[str, ...]) -> LabelModel | None:
        """Return the label probabilities of all modalities; None if any has none."""
        if self.labels is None or set(self.functions) != set(modalities):
            return None
        fusions = {}
        fused = [*self.left_out.values()]
        for names in combinations(modalities) if len(modalities) <= _MAX_MODALITIES else []:
            common = functools.reduce(np.intersect1d, [self.points[name] for name in names])
            parts = [self.left_out[name][np.searchsorted(self.points[name], common)] for name in names]
            truth = self.truth[names[0]][np.searchsorted(self.points[names[0]], common)].toarray().astype(bool)
            prior = self.functions[names[0]].curves.prior
            fusions[names] = fit_fusion(parts, truth, prior)
            fused.append(fusions[names](parts, prior))
        known = self.truth[modalities[0]].toarray().astype(np.float32)
        rng = np.random.default_rng(self.context.seed)
        sample = rng.permutation(np.concatenate([*fused, known]))
        quantizer = LabelQuantizer.fit(sample, self.n_bits, self.context.seed)
        return LabelModel(self.labels.names, redundancy_weights(self.labels), self.functions, fusions, quantizer)
