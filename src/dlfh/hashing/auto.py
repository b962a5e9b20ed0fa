"""The hash function that serves best, found by trying: linear or kernel regression, how scaled, how much shrunk.

What is best differs between modalities of one data set: square roots and kernels for histograms, linear functions with
much shrinkage for sparse words. So learners are tried on points that they were not fitted to, and the one whose codes
rank best is fitted to all points.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh._mathematics.ridge import is_wide, typical_variance
from dlfh._mathematics.targets import Targets
from dlfh._validation import Features, check_integer, raise_if_not_finite
from dlfh.codes import Codes
from dlfh.hashing.base import FitContext, HashFunction, HashLearner
from dlfh.hashing.kernel import KernelRidge
from dlfh.hashing.linear import LinearRidge
from dlfh.hashing.scaling import SCALINGS

__all__ = ["Auto"]

Floats = npt.NDArray[np.float64]

_Ridge: TypeAlias = LinearRidge | KernelRidge

#: Fewer points than these tell nothing.
_FEWEST_POINTS = 200

#: How many points ask.
_QUERIES = 1000

#: Up to so many points each takes its turn at being held out; of more, a part is held out once.
_POINTS_IN_TURN = 2500
_TURNS = 3


class Auto(HashLearner):
    """The best of linear and kernel ridge regressions for a modality, by what they do on held-out points.

    Learners are compared by mean average precision: held-out points, hashed, ask for each other's hashed codes and for
    their learned ones (the mean of both), where points that share a label are right answers. First the kind of function
    and the scaling of features are chosen, then the ridge, then the bandwidth: a dozen regressions of a part of the
    points, some seconds for each modality whatever their number. Sparse features, words and tags, get linear functions
    alone. Of learners that are level with the best, within a standard error, the one that shrinks least is taken. It
    is then fitted to all points.

    Without labels (similarities of single pairs), or with fewer than 200 points, it is `KernelRidge` as it comes.

    Parameters
    ----------
    n_bases : int, default 2000
        Bases of kernel functions; every point of a small set is one (docs/hash-functions.md: what they bring and cost).
    n_points : int, default 5000
        How many points learners are tried on, at most.
    """

    kind = "auto"

    def __init__(self, n_bases: int = 2000, *, n_points: int = 5000) -> None:
        self.n_bases = n_bases
        self.n_points = n_points

    def check_parameters(self) -> None:
        """Raise InputError for a parameter that is out of range."""
        check_integer(self.n_bases, "n_bases", 1)
        check_integer(self.n_points, "n_points", _FEWEST_POINTS)

    def fit(self, features: Features, targets: Targets, modality: str, context: FitContext) -> HashFunction:
        """Return the hash function of the learner that served best, which is also told to the context."""
        raise_if_not_finite(features, modality)
        if modality not in context.chosen:
            context.chosen[modality] = self._choose(features, targets, modality, context)
        return context.chosen[modality].fit(features, targets, modality, context)

    def _choose(self, features: Features, targets: Targets, modality: str, context: FitContext) -> HashLearner:
        labels = context.labels
        if labels is None or labels.n_points != features.shape[0]:
            return KernelRidge()
        points = self.points(features.shape[0], context.seed)
        rows = Targets(targets.codes, targets.row_of_point[points], targets.n_bits)
        seen = typical_variance(features[points]) / typical_variance(features) if is_wide(features) else None
        n_points = features.shape[0]
        return self.choose(features[points], rows, labels.take(points), n_points, modality, context, seen)

    def points(self, n_points: int, seed: int) -> npt.NDArray[np.int64]:
        """Return which points learners are tried on: the same in every modality that has as many."""
        return self._draw(n_points, seed)[0]

    def _draw(self, n_points: int, seed: int) -> tuple[npt.NDArray[np.int64], np.random.Generator]:
        """Return the points, and what goes on to draw which of them are held out."""
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
        seen: float | None = None,
    ) -> HashLearner:
        """Return who serves best, tried on some of ``n_points`` points.

        ``seen`` says how much of the features' variances these points have, if not as much as they are of all points.
        """
        if n_points < _FEWEST_POINTS:
            return KernelRidge()
        _, rng = self._draw(n_points, context.seed)
        trial = _Trial.draw(features, targets, labels, modality, context, rng)
        on_trial = context.bar.counter(f"choosing: {modality}", 4 if sp.issparse(features) else 12)
        tried: list[tuple[_Ridge, Floats]] = []
        for stage in (_words, _ridges) if sp.issparse(features) else (self._kinds, _ridges, _bandwidths):
            for learner in stage(_best(tried)):
                tried.append((learner, trial.scores(learner)))
                on_trial()
        best = _least_shrunk_of_the_level(tried)
        # The ridge is what noise is to signal, whatever the number of points; shrinkage is relative to their number.
        # (Most of a million words are so rare that more points bring more words, not more of each.)
        shrinkage = best.shrinkage * (trial.n_seen / n_points if seen is None else seen)
        return _changed(best, shrinkage=float(f"{shrinkage:.2g}"))

    def _kinds(self, _: _Ridge) -> Iterator[_Ridge]:
        for scaling in SCALINGS:
            yield LinearRidge(shrinkage=0.1, scaling=scaling)
            yield KernelRidge(self.n_bases, bandwidth=0.5, shrinkage=1e-2, scaling=scaling)


def _words(_: _Ridge) -> Iterator[_Ridge]:
    """Sparse features are words or tags: kernels gain nothing there, and rare words lose their say.

    Divided by its deviation, a word that is in one text of a thousand would outweigh all others.
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
    """Return a learner that was chosen, with its shrinkage relative to another number of points."""
    shrinkage = getattr(learner, "shrinkage", None)
    return learner if shrinkage is None else _changed(learner, shrinkage=shrinkage * factor)


def _best(tried: list[tuple[_Ridge, Floats]]) -> _Ridge:
    return max(tried, key=lambda each: float(each[1].mean()))[0] if tried else KernelRidge()


def _least_shrunk_of_the_level(tried: list[tuple[_Ridge, Floats]]) -> _Ridge:
    """Return who shrinks least of those of the best kind that are level with the best.

    Held-out points cannot tell them apart, and what shrinks least knows most of the points that it was fitted to.
    """
    best, best_scores = max(tried, key=lambda each: float(each[1].mean()))
    level = [each for each in tried if type(each[0]) is type(best) and _is_level(best_scores - each[1])]
    return min(level, key=lambda each: (each[0].shrinkage, -float(each[1].mean())))[0]


def _is_level(differences: Floats) -> bool:
    """Tell whether a mean difference of paired scores is within one standard error."""
    return float(differences.mean()) <= float(differences.std()) / np.sqrt(len(differences))


@dataclass(frozen=True)
class _Trial:
    """Points of one modality on which learners are compared, in one turn or several.

    Attributes
    ----------
    held_out : list of ndarray of bool (n,)
        By turn: which points are held out.
    """

    features: Features
    targets: Targets
    labels: LabelSets
    modality: str
    context: FitContext
    held_out: list[npt.NDArray[np.bool_]]

    @classmethod
    def draw(
        cls,
        features: Features,
        targets: Targets,
        labels: LabelSets,
        modality: str,
        context: FitContext,
        rng: np.random.Generator,
    ) -> _Trial:
        """Say which points are held out when."""
        turn = rng.permutation(features.shape[0]) % _TURNS
        turns = _TURNS if features.shape[0] <= _POINTS_IN_TURN else 1
        if sp.issparse(features):
            features = features[:, np.unique(features.indices)]  # words that none of them has: a million, perhaps
        return cls(features, targets, labels, modality, context, [turn == number for number in range(turns)])

    @property
    def n_seen(self) -> int:
        """How many points a learner is fitted to in a turn."""
        return int(np.count_nonzero(~self.held_out[0]))

    def scores(self, learner: HashLearner) -> Floats:
        """Return, by asking point, how well held-out points find each other, and each other's learned codes."""
        from dlfh.metrics import evaluate  # here, because loading a model must not load the metrics

        everyone = np.flatnonzero(np.any(self.held_out, axis=0))
        learned: Codes = self.targets.codes[self.targets.row_of_point[everyone]]
        hashed = np.empty_like(learned)
        quiet = FitContext(self.context.workers, self.context.seed)
        for held_out in self.held_out:
            seen, rows = np.flatnonzero(~held_out), np.flatnonzero(held_out)
            targets = Targets(self.targets.codes, self.targets.row_of_point[seen], self.targets.n_bits)
            function = learner.fit(self.features[seen], targets, self.modality, quiet)
            codes = function.encode(self.features[rows], self.modality, self.context.workers)
            hashed[np.searchsorted(everyone, rows)] = codes
        own = self.labels.take(everyone)
        labels = own.rows()[own.set_of_point]
        asking = slice(None, _QUERIES)
        by_database = [
            evaluate(hashed[asking], database, labels[asking], labels).per_query["AP"] for database in (hashed, learned)
        ]
        return np.nan_to_num(np.mean(by_database, axis=0))  # nothing is like a point without labels
