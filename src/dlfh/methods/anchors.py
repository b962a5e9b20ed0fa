"""Kernel features of BATCH and SCRATCH: centred RBF values at random training points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from dlfh._arrays import Floats
from dlfh._labels import LabelSets
from dlfh._mathematics.ridge import RidgeSolution, solve_ridge
from dlfh._parallel import resolve_n_jobs
from dlfh._probabilities.fit import FittedLabels, sample_points
from dlfh._probabilities.model import PendingLabels
from dlfh._validation import Features
from dlfh.hashing.feature_maps import RBFMap, fit_kernel
from dlfh.hashing.kernel import KernelHash, KernelRidge
from dlfh.methods.method import Method

_ROWS = 4096  #: Points per block.
#: Maximum bytes of kernel values kept in memory per modality; further values are computed again in each pass.
_MEMORY = 2 << 30


class AnchorFeatures:
    """Centred kernel values exp(-|x - z|^2 / (2 sigma)) of one modality at anchors z.

    sigma is the mean squared distance of a training point to an anchor. Products are in double precision.
    """

    def __init__(self, features: Features, n_anchors: int, modality: str, rng: np.random.Generator) -> None:
        self.features = features
        self.modality = modality
        self.n_points = features.shape[0]
        drawn = fit_kernel(features, n_anchors, int(rng.integers(2**63)), modality)
        # The bandwidth of the fitted map is 2 mean |x|^2; add 2 mean |z|^2, both relative to the mean of x.
        bases = drawn.bases.astype(np.float64)
        self.kernel = RBFMap(drawn.bases, drawn.centre, drawn.bandwidth + 2 * float(np.mean(np.sum(bases**2, axis=1))))
        n_kept = min(self.n_points, _MEMORY // (4 * len(bases)))
        self._kept = np.empty((n_kept, len(bases)), np.float32)
        total = np.zeros(len(bases))
        for start in range(0, self.n_points, _ROWS):
            values = self._compute(start, min(start + _ROWS, self.n_points))
            self._kept[start : start + _ROWS] = values[: max(n_kept - start, 0)]
            total += values.sum(axis=0)
        self.mean: Floats = total / self.n_points

    def _compute(self, start: int, stop: int) -> Floats:
        return self.kernel(self.features[start:stop]).astype(np.float32).astype(np.float64)

    def blocks(self) -> Iterator[tuple[int, int, Floats]]:
        """Yield the bounds and the centred values of consecutive blocks of points."""
        for start in range(0, self.n_points, _ROWS):
            stop = min(start + _ROWS, self.n_points)
            if stop <= len(self._kept):
                yield start, stop, np.subtract(self._kept[start:stop], self.mean, dtype=np.float64)
            else:
                yield start, stop, self._compute(start, stop) - self.mean

    @cached_property
    def gram(self) -> Floats:
        """X'X, shape (m, m)."""
        gram = np.zeros((len(self.mean), len(self.mean)))
        for _, _, block in self.blocks():
            gram += block.T @ block
        return gram

    def times(self, weights: Floats) -> Floats:
        """Return X W, shape (n, k)."""
        products = np.empty((self.n_points, weights.shape[1]))
        for start, stop, block in self.blocks():
            np.matmul(block, weights, out=products[start:stop])
        return products

    def transposed_times(self, values: Any) -> Floats:
        """Return X'Z for Z (n, k), dense or sparse; shape (m, k)."""
        products = np.zeros((len(self.mean), values.shape[1]))
        for start, stop, block in self.blocks():
            products += block.T @ values[start:stop]
        return products

    def hash_function(self, weights: Floats, intercept: Floats | float = 0.0) -> KernelHash:
        """Return ``code(x) = sign(k(x) @ weights + intercept)`` for centred kernel values k(x)."""
        return KernelHash(self.kernel, weights, intercept - self.mean @ weights, is_logistic=False)


def fit_labels(
    views: Sequence[AnchorFeatures], labels: LabelSets, ridge: float, model: Method, seed: int
) -> PendingLabels:
    """Return label probabilities by ridge regressions of the labels on the views, to calibrate when first used."""
    fitted = FittedLabels(int(model.n_bits), seed, resolve_n_jobs(model.n_jobs), labels)
    rows, points = labels.rows()[labels.set_of_point], sample_points(labels.n_points, labels.n_labels, seed)
    share = np.asarray(rows.mean(axis=0)).ravel()
    for view in views:
        matrix = view.gram.copy()  # to which the ridge is added
        weights = solve_ridge(matrix, ridge, view.transposed_times(rows))
        scores = view.hash_function(weights, share)
        solution = RidgeSolution(view.n_points, view.mean, matrix, weights, share)
        leave_one_out = partial(KernelRidge().leave_one_out, scores, view.features[points])
        fitted.pending[view.modality] = scores, leave_one_out, solution, points, rows[points]
    return partial(fitted.model, tuple(view.modality for view in views))
