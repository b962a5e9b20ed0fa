"""Base class of methods whose database codes are signs of linear functions of centred features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dlfh._arrays import Floats
from dlfh._mathematics.centred import CentredBlocks, CentredRows
from dlfh._parallel import Workers
from dlfh.hashing.linear import LinearHash
from dlfh.methods.base import CrossModalHasher


class LinearMethod(CrossModalHasher):
    """A method that learns linear hash functions, and whose training points have hashed codes."""

    def _hash_linearly(
        self,
        features: dict[str, Any],
        views: Sequence[CentredBlocks | CentredRows],
        weights: Sequence[Floats],
        intercepts: Sequence[Floats | float] = (),
        ridges: Sequence[float] = (),
    ) -> None:
        """Set the hash functions and ``codes_`` from each view's weights (d, c), intercepts and ridge (default 0)."""
        zeros = [0.0] * len(views)
        self.hash_functions_ = {
            view.modality: LinearHash.of_centred(view, W, intercept, ridge)
            for view, W, intercept, ridge in zip(views, weights, intercepts or zeros, ridges or zeros, strict=True)
        }
        with Workers(self.n_jobs) as workers:
            self._hash_training_points(features, workers)
