"""Logistic curves that turn regression scores into label probabilities, fitted to leave-one-out scores."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._arrays import Array, Floats, Integers, Singles
from dlfh._parallel import Workers
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
        # Not scipy.special.expit: a search must not load it.
        values = 1 / (1 + np.exp(-np.clip(self.slope * scores + self.intercept, -700, 700)))
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
        """Return the arrays from which `from_arrays` restores the curves."""
        curves = np.stack([self.slope, self.intercept, self.prior, self.trust])
        return {"curves": curves, "exclusive": np.array([self.exclusive])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], n_labels: int) -> LabelCurves:
        """Restore curves from their arrays."""
        slope, intercept, prior, trust = check_array(arrays, "curves", np.float64, (4, n_labels))
        if min(prior.min(), trust.min()) < 0 or max(prior.max(), trust.max()) > 1:
            raise ValueError("its label probabilities have a prior or a trust outside 0 to 1")
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
