"""Hash functions chosen on held-out points: linear or kernel ridge regression, scaling, regularisation, bandwidth.

The best choice differs between the modalities of one data set: kernels on square roots suit histograms, strongly
regularised linear functions suit sparse words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Codes, Integers, Mask, Singles
from dlfh._labels import LabelSets
from dlfh._mathematics.copies import copies_per_point, copy_groups
from dlfh._mathematics.moments import Moments
from dlfh._mathematics.ridge import is_wide, typical_variance
from dlfh._mathematics.targets import BlockTargets, Targets
from dlfh._parallel import Workers
from dlfh._selection import Trial, best_trial, least_regularised_within_one_se, run_trials
from dlfh._validation import Features, check_integer
from dlfh.blocks.base import Blocks
from dlfh.blocks.opening import in_one_block
from dlfh.codes import pack
from dlfh.hashing.base import BlockLearner, FitContext, HashFunction, HashLearner
from dlfh.hashing.feature_maps import SCALINGS, RBFMap, Survey, random_bases
from dlfh.hashing.kernel import KernelLogistic, KernelRidge
from dlfh.hashing.linear import LinearRidge

_Ridge: TypeAlias = LinearRidge | KernelRidge
_KernelSums: TypeAlias = tuple[RBFMap, Moments, Singles]

#: Minimum number of points to choose the regularisation on, and to choose anything else on.
_FEWEST_POINTS, _MIN_POINTS = 80, 200
#: Share of points below which a bit's rarer value is rare; the median over bits is compared.
_RARE = 0.1
#: Number of bases with which kernels are tried first.
_FEW_BASES = 600
#: Maximum number of queries.
_MAX_QUERIES = 1000
#: Number of folds, the same below `_MIN_POINTS` points, and maximum number of points for cross-validation; with more
#: points, a single fold is held out.
_N_FOLDS, _N_SMALL_FOLDS, _MAX_CROSS_VALIDATED = 3, 10, 2500


class Auto(BlockLearner):
    """The best linear or kernel ridge regression for a modality, chosen on held-out points.

    Learners are compared by mean average precision: held-out points, hashed, are queries for each other's hashed and
    learned codes (the mean of both); points that share a label are relevant. The kind of function and the scaling are
    chosen first, then the ridge, then the bandwidth: a dozen regressions on a sample of the points, a second or two for
    each modality, regardless of the number of points. With more than 2,500 of them, kernels are compared with 600 bases
    first, and only the best is tried with all (successive halving). Sparse features get linear functions only. Of the
    learners within one standard error of the best, the least regularised is chosen and fitted to all points.

    Of copies, equal or nearly equal rows with the same labels, only one is used for the choice. With fewer than 200
    distinct points, only the regularisation of ``KernelRidge(penalty="function")`` is chosen; with fewer than 80, it is
    fixed. With similarities instead of labels, the learner is ``KernelRidge()``. If most bits have a rare value because
    most pairs are similar, it is ``KernelLogistic()``: a least-squares fit rarely predicts rare values.

    Parameters
    ----------
    max_bases : int, default 2000
        Maximum number of bases of kernel functions; docs/hash-functions.md compares their accuracy and cost.
    n_points : int, default 5000
        Maximum number of points for the choice.
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
        n, whole, rng = features.shape[0], features.whole, np.random.default_rng(context.seed)
        points = np.sort(rng.choice(n, min(self.n_points, n), replace=False))  # the same ones in all modalities
        survey = Survey.of(features, modality, context)
        if whole is not None:
            survey.look(points)
        else:  # in one pass with everything that the chosen learner may need
            survey.look(np.union1d(points, random_bases(n, self.max_bases, context.seed)), SCALINGS)
        sample, (codes, labels) = survey.take(points), targets.take(points)
        if len(points) < _FEWEST_POINTS:
            return next(_small_kinds(KernelRidge()))
        distinct = np.unique(copy_groups(sample, labels.set_of_point), return_index=True)[1]
        is_small = len(distinct) < _MIN_POINTS
        if not is_small and not context.needs_sums and np.median(1 - np.abs(codes.mean())) / 2 < _RARE:
            return KernelLogistic()
        folds = _folds(len(distinct), _N_SMALL_FOLDS if is_small else _N_FOLDS, rng)
        stages: list[Callable[[_Ridge], Iterator[_Ridge]]] = [self._kinds, _ridges, _bandwidths]
        if is_small or sp.issparse(sample):
            stages = [_small_kinds] if is_small else [_sparse_kinds, _ridges]
        advance = context.bar.counter(f"choosing: {modality}", 4 * len(stages) - 4 or 3)
        rows = Targets(codes.codes, codes.row_of_point[distinct], codes.n_bits)
        evaluation = _Evaluation(sample[distinct], rows, labels.take(distinct), folds, modality, context.seed)
        trials: list[Trial[_Ridge]] = []
        for stage in stages:
            best = best_trial(trials).candidate if trials else KernelRidge()
            evaluation.keep_sums(best)
            candidates = list(stage(best))
            if stage != _ridges and len(distinct) > _MAX_CROSS_VALIDATED:
                candidates = evaluation.promising(candidates, context.workers)
            trials += run_trials(candidates, evaluation.evaluate, advance, context.workers)
        chosen = best_trial(trials).candidate
        # The ridge is the ratio of noise to signal, which does not depend on the number of points. Copies repeat the
        # noise with the signal, so it grows with their number.
        factor = copies_per_point(len(distinct), len(points), n)
        if not is_small:  # (with few points, one standard error is too large)
            comparable = [trial for trial in trials if type(trial.candidate) is type(chosen)]
            chosen = least_regularised_within_one_se(comparable, lambda learner: learner.shrinkage).candidate
            # Shrinkage depends on the number of points. (Most of a million words are so rare that more points bring
            # more words, not more occurrences of each.)
            if whole is not None and is_wide(whole):
                share = typical_variance(whole[points]) / typical_variance(whole)
                factor *= share * len(distinct) / len(points)
            else:
                factor *= np.count_nonzero(~folds[0]) / n
        return replace(chosen, shrinkage=float(f"{chosen.shrinkage * factor:.2g}"))

    def _kinds(self, _: _Ridge) -> Iterator[_Ridge]:
        for scaling in SCALINGS:
            yield LinearRidge(shrinkage=0.1, scaling=scaling)
            yield KernelRidge(self.max_bases, bandwidth=0.5, shrinkage=1e-2, scaling=scaling, precision="single")


def _sparse_kinds(_: _Ridge) -> Iterator[_Ridge]:
    """Yield candidates for words or tags, which gain nothing from kernels.

    Standard scaling is excluded: divided by its deviation, a word in one of a thousand texts would outweigh all others.
    """
    yield LinearRidge(shrinkage=0.1)
    yield LinearRidge(shrinkage=0.1, scaling="root")


def _small_kinds(_: _Ridge) -> Iterator[_Ridge]:
    """Yield candidates for few points, too few to compare more; with even fewer points, only the first is used."""
    for shrinkage in (0.3, 0.2, 0.5):
        yield KernelRidge(shrinkage=shrinkage, penalty="function")


def _ridges(best: _Ridge) -> Iterator[_Ridge]:
    for shrinkage in (1e-2, 1.0) if isinstance(best, LinearRidge) else (1e-4, 1e-3, 1e-1):
        yield replace(best, shrinkage=shrinkage)


def _bandwidths(best: _Ridge) -> Iterator[_Ridge]:
    if isinstance(best, KernelRidge):
        yield from (replace(best, bandwidth=bandwidth) for bandwidth in (1.0, 2.0, 4.0))


def rescaled(learner: HashLearner, factor: float) -> HashLearner:
    """Return a chosen learner with its shrinkage rescaled to another number of points."""
    if not isinstance(learner, (LinearRidge, KernelRidge)) or getattr(learner, "penalty", "") == "function":
        return learner
    return replace(learner, shrinkage=learner.shrinkage * factor)


def _folds(n_points: int, n_folds: int, rng: np.random.Generator) -> list[Mask]:
    fold_of_point = rng.permutation(n_points) % n_folds
    return [fold_of_point == fold for fold in range(n_folds if n_points <= _MAX_CROSS_VALIDATED else 1)]


class _Fold:
    """Training points, and held-out points to encode.

    numbers: Positions of the held-out points among the held-out points of all folds.
    """

    def __init__(
        self, features: Features, targets: Targets, held_out: Mask, numbers: Integers, modality: str, seed: int
    ) -> None:
        seen = np.flatnonzero(~held_out)
        rows = Targets(targets.codes, targets.row_of_point[seen], targets.n_bits)
        self.blocks, self.targets = in_one_block(features[seen], modality), BlockTargets.in_memory(rows)
        self.unseen, self.numbers, self.modality, self.seed = features[held_out], numbers, modality, seed

    @property
    def context(self) -> FitContext:
        """A new context: trials run in threads, which must not share surveys."""
        return FitContext(Workers(1), self.seed)

    def kernel_sums(self, learner: KernelRidge) -> _KernelSums:
        """Return the kernel, sums over the training points, and the held-out points' kernel values."""
        context = self.context
        kernel = learner.kernel(self.blocks, self.modality, context)
        sums = learner.sum_blocks(kernel, self.blocks, self.targets, self.modality, context)
        return kernel, sums, kernel(self.unseen, np.float32)

    def encode(self, learner: _Ridge, sums: _KernelSums | None) -> Codes:
        """Return the codes of the held-out points."""
        if isinstance(learner, LinearRidge) or sums is None:
            fitted = learner.fit_blocks(self.blocks, self.targets, self.modality, self.context)
            return fitted.encode(self.unseen, self.modality, self.context.workers)
        kernel, moments, values = sums
        function = learner.function(kernel, moments, self.modality)
        return pack(values @ function.weights + function.offset)


class _Evaluation:
    """Evaluation of learners on folds of held-out points."""

    def __init__(
        self, features: Features, targets: Targets, labels: LabelSets, folds: Sequence[Mask], modality: str, seed: int
    ) -> None:
        held_out = np.flatnonzero(np.any(folds, axis=0))
        # Drop words that occur in no sampled text.
        features = features[:, np.unique(features.indices)] if sp.issparse(features) else features
        self.learned = targets.codes[targets.row_of_point[held_out]]
        sets = labels.take(held_out)
        rows = sets.rows()[sets.set_of_point].astype(np.float32)
        self.relevance = ((rows[:_MAX_QUERIES] @ rows.T).toarray() > 0).astype(np.int8)
        self.folds = [
            _Fold(features, targets, fold, np.searchsorted(held_out, np.flatnonzero(fold)), modality, seed)
            for fold in folds
        ]
        #: Kernels and sums by learner, shared by learners that differ only in their ridge.
        self._sums: dict[str, list[_KernelSums]] = {}

    def keep_sums(self, learner: _Ridge) -> None:
        """Keep the sums of one learner only."""
        key = _kernel_of(learner)
        self._sums = {key: self._sums[key]} if key in self._sums else {}

    def promising(self, learners: list[_Ridge], workers: Workers) -> list[_Ridge]:
        """Return the linear learners, and of the kernel learners the best one with few bases."""
        kernels = [each for each in learners if isinstance(each, KernelRidge)]
        if len(kernels) < 2:
            return learners
        short: list[_Ridge] = [replace(each, n_bases=min(each.n_bases, _FEW_BASES)) for each in kernels]
        scores = [trial.score for trial in run_trials(short, self.evaluate, workers=workers)]
        return [each for each in learners if each not in kernels] + [kernels[int(np.argmax(scores))]]

    def evaluate(self, learner: _Ridge) -> Trial[_Ridge]:
        """Return each query's average precision, the mean over hashed and learned databases of held-out points."""
        from dlfh.metrics import evaluate  # here, because loading a model must not load the metrics

        sums: list[Any] = [None] * len(self.folds)
        if isinstance(learner, KernelRidge):
            key = _kernel_of(learner)
            sums = self._sums[key] = self._sums.get(key) or [fold.kernel_sums(learner) for fold in self.folds]
        hashed = np.empty_like(self.learned)
        for fold, fold_sums in zip(self.folds, sums, strict=True):
            hashed[fold.numbers] = fold.encode(learner, fold_sums)
        asking = slice(None, _MAX_QUERIES)
        by_database = [
            evaluate(hashed[asking], database, relevance=self.relevance, n_jobs=1).per_query["AP"]
            for database in (hashed, self.learned)
        ]
        return Trial(learner, np.nan_to_num(np.mean(by_database, axis=0)))  # (NaN if a point has no labels)


def _kernel_of(learner: _Ridge) -> str:
    return repr(replace(learner, shrinkage=0.0))
