"""RBF kernel values at a few hundred bases, and the choice of bases."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._arrays import Array, Floats, Integers, Singles
from dlfh._validation import Features
from dlfh.hashing.base import check_array
from dlfh.hashing.scaling import UNSCALED, Scaling

#: Rows whose kernel values are computed at once.
CHUNK_ROWS = 4096

#: Maximum size of the dense rows that k-means clusters, in bytes.
_CLUSTER_BYTES = 256 << 20


class RBFMap:
    """Kernel values k(x, z) = exp(-|x - z|^2 / bandwidth) at the bases z, of scaled points x.

    bases (n_bases, n_features): Relative to ``centre``: distances do not change, and rounding errors do not grow with
        the mean.
    bandwidth: The mean squared distance between two training points, or a multiple of it.
    """

    def __init__(self, bases: Singles, centre: Floats, bandwidth: float, scaling: Scaling = UNSCALED) -> None:
        self.bases = bases
        self.centre = centre
        self.bandwidth = bandwidth
        self.scaling = scaling

    def __call__(self, rows: Features, dtype: npt.DTypeLike = np.float64) -> Array:
        """Return the kernel values of rows, shape (n, n_bases); they may be infinite or NaN."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self._values(self.scaling(rows), dtype)

    def _values(self, rows: Features, dtype: npt.DTypeLike) -> Array:
        bases = self.bases.astype(np.float64)
        if sp.issparse(rows):
            products = rows.astype(np.float64) @ bases.T - bases @ self.centre
            norms = squared_norms(rows, self.centre)
        else:
            centred = np.subtract(rows, self.centre, dtype=np.float64).astype(dtype)
            products = centred @ bases.T.astype(dtype)
            norms = np.einsum("nd,nd->n", centred, centred)
        distances = norms[:, None] + np.einsum("kd,kd->k", bases, bases).astype(products.dtype) - 2 * products
        np.maximum(distances, 0, out=distances)
        distances *= np.float64(-1 / self.bandwidth)  # multiplied in double precision
        return np.exp(distances, out=distances).astype(dtype, copy=False)

    def between_bases(self) -> Floats:
        """Return K0, the kernel values of the bases at each other."""
        return self._values(self.bases.astype(np.float64) + self.centre, np.float64)

    def to_arrays(self) -> dict[str, Array]:
        """Return the arrays from which `from_arrays` restores this map."""
        arrays: dict[str, Array] = {"bases": self.bases, "centre": self.centre}
        arrays["bandwidth"] = np.array([self.bandwidth])
        return arrays | self.scaling.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> RBFMap:
        """Restore a map from its arrays."""
        _, n_features = check_array(arrays, "bases", np.float32, (None, None)).shape
        check_array(arrays, "centre", np.float64, (n_features,))
        bandwidth = check_array(arrays, "bandwidth", np.float64, (1,))
        if not bandwidth[0] > 0:
            raise ValueError(f"its bandwidth must be positive, got {bandwidth[0]}")
        scaling = Scaling.from_arrays(arrays, n_features)
        return cls(arrays["bases"], arrays["centre"], float(bandwidth[0]), scaling)


def squared_norms(rows: Features, centre: Floats) -> Floats:
    """Return |x - centre|^2 of each row; sparse rows stay sparse."""
    if sp.issparse(rows):
        squares = np.asarray(rows.astype(np.float64).power(2).sum(axis=1)).ravel()
        return squares - 2 * (rows @ centre) + centre @ centre
    centred = np.subtract(rows, centre, dtype=np.float64)
    return np.einsum("nd,nd->n", centred, centred)


def random_bases(n_points: int, n_bases: int, seed: int) -> Integers:
    """Return the points that are bases, ascending: with one seed, the same points in every modality."""
    return np.sort(np.random.default_rng(seed).choice(n_points, min(n_bases, n_points), replace=False))


def cluster_sample(n_points: int, n_features: int, n_bases: int, seed: int) -> Integers:
    """Return the points that k-means clusters: 64 per base, fewer if they would take more than 256 MB."""
    n_sampled = max(n_bases, min(64 * n_bases, _CLUSTER_BYTES // (4 * n_features)))
    return random_bases(n_points, n_sampled, seed)


def cluster_centres(points: Singles, n_bases: int, seed: int) -> Singles:
    """Return the centres of k-means, at most one per point."""
    import faiss  # here, because encoding clusters nothing

    means = faiss.Kmeans(
        points.shape[1],
        min(n_bases, len(points)),
        niter=20,
        seed=seed % 2**31,
        min_points_per_centroid=1,
        max_points_per_centroid=len(points),
    )
    means.train(points)
    return np.asarray(means.centroids)
