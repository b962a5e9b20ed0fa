"""Hash functions chosen on held-out points: linear or kernel ridge regression, scaling, regularisation, bandwidth.

The best choice differs between the modalities of one data set: kernels on square roots suit histograms, strongly
regularised linear functions suit sparse words.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh._mathematics.ridge import is_wide, typical_variance
from dlfh._mathematics.targets import Targets
from dlfh._selection import Trial, best_trial, least_regularised_within_one_se, run_trials
from dlfh._validation import Features, check_integer
from dlfh.blocks.base import Blocks
from dlfh.codes import Codes
from dlfh.hashing.base import BlockLearner, FitContext, HashFunction, HashLearner
from dlfh.hashing.block_targets import BlockTargets
from dlfh.hashing.kernel import KernelRidge
from dlfh.hashing.linear import LinearRidge
from dlfh.hashing.rbf import random_bases
from dlfh.hashing.scaling import SCALINGS
from dlfh.hashing.survey import Survey

_Ridge: TypeAlias = LinearRidge | KernelRidge

#: Fewest points to choose by.
_MIN_POINTS = 200
#: Maximum number of queries.
_MAX_QUERIES = 1000
#: Number of folds, and the maximum number of points for cross-validation; of more points, one fold is held out once.
_N_FOLDS, _MAX_CROSS_VALIDATED = 3, 2500


class Auto(BlockLearner):
    """The best linear or kernel ridge regression for a modality, chosen on held-out points.

    Learners are compared by the mean average precision of held-out points, hashed, that search each other's hashed and
    learned codes (the mean of both); points that share a label are relevant. The kind of function and the scaling are
    chosen first, then the ridge, then the bandwidth: a dozen regressions on a sample of the points, which takes some
    seconds for each modality, however many points there are. Sparse features get linear functions only. Of the learners
    within one standard error of the best, the least regularised is chosen and fitted to all points.

    With fewer than 200 points, or similarities instead of labels, the learner is ``KernelRidge()``.

    Parameters
    ----------
    max_bases : int, default 2000
        Maximum number of bases of kernel functions; docs/hash-functions.md compares their accuracy and cost.
    n_points : int, default 5000
        Maximum number of points to choose by.
    """

    kind = "auto"

    def __init__(self, max_bases: int = 2000, *, n_points: int = 5000) -> None:
        self.max_bases = max_bases
        self.n_points = n_points

    def check_parameters(self) -> None:
        check_integer(self.max_bases, "max_bases", 1)
        check_integer(self.n_points, "n_points", _MIN_POINTS)

    def fit_blocks(self, features: Blocks, targets: BlockTargets, modality: str, context: FitContext) -> HashFunction:
        """Choose a learner, store it in ``context.chosen``, and return its hash function."""
        return self.resolve(features, targets, modality, context).fit_blocks(features, targets, modality, context)

    def resolve(self, features: Blocks, targets: BlockTargets, modality: str, context: FitContext) -> HashLearner:
        """Choose a learner, unless one is in ``context.chosen``, and store it there."""
        if modality not in context.chosen:
            context.chosen[modality] = self._choose(features, targets, modality, context)
        return context.chosen[modality]

    def _choose(self, features: Blocks, targets: BlockTargets, modality: str, context: FitContext) -> HashLearner:
        if targets.labels is None:
            return KernelRidge()
        n, whole = features.shape[0], features.whole
        survey, points = Survey.of(features, modality, context), self.points(n, context.seed)
        if whole is not None:
            survey.look(points)
        else:  # in the same pass as all that the chosen learner may need
            survey.look(np.union1d(points, random_bases(n, self.max_bases, context.seed)), SCALINGS)
        share = None
        if whole is not None and is_wide(whole):
            share = typical_variance(whole[points]) / typical_variance(whole)
        return self.choose(survey.take(points), *targets.take(points), n, modality, context, share)

    def points(self, n_points: int, seed: int) -> npt.NDArray[np.int64]:
        """Return the points to choose by, the same for all modalities with the same number of points."""
        return self._draw(n_points, seed)[0]

    def _draw(self, n_points: int, seed: int) -> tuple[npt.NDArray[np.int64], np.random.Generator]:
        """Return the points to choose by, and the generator that goes on to draw their folds."""
        rng = np.random.default_rng(seed)
        return np.sort(rng.choice(n_points, min(self.n_points, n_points), replace=False)), rng

    def choose(
        self,
        features: Features,
        targets: Targets,
        labels: LabelSets,
        n_points: int,
        modality: str,
        context: FitContext,
        variance_share: float | None = None,
    ) -> HashLearner:
        """Return the best learner, evaluated on a sample of ``n_points`` points.

        ``variance_share`` is the ratio of the features' variance in the sample to that in all points; by default, the
        share of points that the learners were fitted to.
        """
        if n_points < _MIN_POINTS:
            return KernelRidge()
        _, rng = self._draw(n_points, context.seed)
        folds = _folds(features.shape[0], rng)
        is_sparse = sp.issparse(features)
        if is_sparse:
            features = features[:, np.unique(features.indices)]  # drops words that occur in no sampled text

        def evaluate(learner: _Ridge) -> Trial[_Ridge]:
            scores = _held_out_precisions(learner, folds, features, targets, labels, modality, context)
            return Trial(learner, scores)

        advance = context.bar.counter(f"choosing: {modality}", 4 if is_sparse else 12)
        trials: list[Trial[_Ridge]] = []
        for stage in (_sparse_kinds, _ridges) if is_sparse else (self._kinds, _ridges, _bandwidths):
            best = best_trial(trials).candidate if trials else KernelRidge()
            trials += run_trials(stage(best), evaluate, advance)
        kind = type(best_trial(trials).candidate)
        comparable = [trial for trial in trials if type(trial.candidate) is kind]
        chosen = least_regularised_within_one_se(comparable, lambda learner: learner.shrinkage).candidate
        # The ridge is the ratio of noise to signal, which does not depend on the number of points; shrinkage does.
        # (Most of a million words are so rare that more points bring more words, not more occurrences of each.)
        n_seen = int(np.count_nonzero(~folds[0]))
        shrinkage = chosen.shrinkage * (n_seen / n_points if variance_share is None else variance_share)
        return _changed(chosen, shrinkage=float(f"{shrinkage:.2g}"))

    def _kinds(self, _: _Ridge) -> Iterator[_Ridge]:
        for scaling in SCALINGS:
            yield LinearRidge(shrinkage=0.1, scaling=scaling)
            yield KernelRidge(self.max_bases, bandwidth=0.5, shrinkage=1e-2, scaling=scaling)


def _sparse_kinds(_: _Ridge) -> Iterator[_Ridge]:
    """Yield candidates for words or tags, which gain nothing from kernels.

    There is no standard scaling: divided by its deviation, a word of one text in a thousand would outweigh all others.
    """
    yield LinearRidge(shrinkage=0.1)
    yield LinearRidge(shrinkage=0.1, scaling="root")


def _ridges(best: _Ridge) -> Iterator[_Ridge]:
    for shrinkage in (1e-2, 1.0) if isinstance(best, LinearRidge) else (1e-4, 1e-3, 1e-1):
        yield _changed(best, shrinkage=shrinkage)


def _bandwidths(best: _Ridge) -> Iterator[_Ridge]:
    for bandwidth in () if isinstance(best, LinearRidge) else (1.0, 2.0, 4.0):
        yield _changed(best, bandwidth=bandwidth)


def _changed(learner: Any, **changes: Any) -> Any:
    return type(learner)(**{**learner.get_params(deep=False), **changes})


def rescaled(learner: HashLearner, factor: float) -> HashLearner:
    """Return a chosen learner with its shrinkage rescaled to another number of points."""
    shrinkage = getattr(learner, "shrinkage", None)
    return learner if shrinkage is None else _changed(learner, shrinkage=shrinkage * factor)


def _folds(n_points: int, rng: np.random.Generator) -> list[npt.NDArray[np.bool_]]:
    """Return masks of held-out points, one for each fold."""
    fold_of_point = rng.permutation(n_points) % _N_FOLDS
    return [fold_of_point == fold for fold in range(_N_FOLDS if n_points <= _MAX_CROSS_VALIDATED else 1)]


def _held_out_precisions(
    learner: HashLearner,
    folds: Sequence[npt.NDArray[np.bool_]],
    features: Features,
    targets: Targets,
    labels: LabelSets,
    modality: str,
    context: FitContext,
) -> npt.NDArray[np.float64]:
    """Return each query's average precision, the mean over hashed and learned databases of held-out points."""
    from dlfh.metrics import evaluate  # here, because loading a model must not load the metrics

    held_out = np.flatnonzero(np.any(folds, axis=0))
    learned: Codes = targets.codes[targets.row_of_point[held_out]]
    hashed = np.empty_like(learned)
    for fold in folds:
        seen, unseen = np.flatnonzero(~fold), np.flatnonzero(fold)
        seen_targets = Targets(targets.codes, targets.row_of_point[seen], targets.n_bits)
        function = learner.fit(features[seen], seen_targets, modality, FitContext(context.workers, context.seed))
        hashed[np.searchsorted(held_out, unseen)] = function.encode(features[unseen], modality, context.workers)
    sets = labels.take(held_out)
    rows = sets.rows()[sets.set_of_point]
    queries = slice(None, _MAX_QUERIES)
    by_database = [
        evaluate(hashed[queries], database, rows[queries], rows).per_query["AP"] for database in (hashed, learned)
    ]
    return np.nan_to_num(np.mean(by_database, axis=0))  # a point without labels has no relevant items
