"""Label probabilities in a few bytes: product quantisation over groups of labels.

Labels are dealt into groups. Each group has 256 centroids, of the square roots of its labels' probabilities, and an
item stores the number of the nearest one: a byte per group. A query is scored by one table of 256 values per group.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._arrays import Array, Codes, Floats, Integers, Singles
from dlfh.codes import n_bytes
from dlfh.hashing.base import check_array

N_CENTROIDS = 256
_ITERATIONS = 10
#: Points that centroids are fitted to: more for groups of more labels.
MAX_POINTS = 1 << 12
_MIN_POINTS, _POINTS_PER_LABEL = 1 << 10, 1 << 9
_CHUNK_ROWS = 2048


@dataclass(frozen=True)
class LabelQuantizer:
    """Quantises label probabilities to ``n_bits`` bits.

    group (n_labels,): The group of each label.
    centroids (256, n_labels): Square roots of probabilities: the entry of label l is its value in the 256 centroids of
        its group. If the last byte has unused bits, which are 0 as in codes, its group has fewer centroids, repeated.
    """

    n_bits: int
    group: Integers
    centroids: Singles

    @classmethod
    def fit(cls, probabilities: Singles, n_bits: int, seed: int) -> LabelQuantizer:
        """Fit groups and centroids to the probabilities (n, n_labels) of points."""
        roots = np.sqrt(probabilities[:MAX_POINTS], dtype=np.float32)
        n_labels = roots.shape[1]
        n_groups = min(n_bytes(n_bits), n_labels)
        group = np.empty(n_labels, np.int64)
        # Largest variance first, back and forth over the groups, so that they are equally hard.
        place = np.arange(n_labels)
        turn, seat = np.divmod(place, n_groups)
        group[np.argsort(-roots.var(axis=0), kind="stable")] = np.where(turn % 2, n_groups - 1 - seat, seat)
        centroids = np.zeros((N_CENTROIDS, n_labels), np.float32)
        for number in range(n_groups):
            members = np.flatnonzero(group == number)
            unused = max(0, 8 * (number + 1) - n_bits)
            points = roots[: max(_MIN_POINTS, _POINTS_PER_LABEL * len(members)), members]
            of_group = _centroids(np.ascontiguousarray(points), N_CENTROIDS >> unused, seed)
            centroids[:, members] = np.repeat(of_group, 1 << unused, axis=0)
        return cls(n_bits, group, centroids)

    @property
    def n_groups(self) -> int:
        return int(self.group.max()) + 1

    def encode(self, probabilities: npt.NDArray[np.floating]) -> Codes:
        """Return the bytes of points, shape (n, n_bytes)."""
        codes = np.zeros((len(probabilities), n_bytes(self.n_bits)), np.uint8)
        members = [np.flatnonzero(self.group == number) for number in range(self.n_groups)]
        for start in range(0, len(codes), _CHUNK_ROWS):
            roots = np.sqrt(probabilities[start : start + _CHUNK_ROWS], dtype=np.float32)
            for number, labels in enumerate(members):
                codes[start : start + _CHUNK_ROWS, number] = _nearest(roots[:, labels], self.centroids[:, labels])
        codes[:, -1] &= np.uint8(0xFF << -self.n_bits % 8 & 0xFF)  # of equal centroids, the first
        return codes

    def decode(self, codes: Codes) -> Singles:
        """Return the probabilities that bytes stand for, shape (n, n_labels)."""
        return self.centroids[codes[:, self.group], np.arange(len(self.group))] ** 2

    def tables(self, terms: Singles) -> Singles:
        """Return score tables (queries, n_bytes, 256) from terms by query, centroid and label."""
        order = np.argsort(self.group, kind="stable")
        starts = np.searchsorted(self.group[order], np.arange(self.n_groups))
        tables = np.zeros((len(terms), n_bytes(self.n_bits), N_CENTROIDS), np.float32)
        tables[:, : self.n_groups] = np.add.reduceat(terms[:, :, order], starts, axis=2).transpose(0, 2, 1)
        return tables

    def extended(self, shares: Floats) -> LabelQuantizer:
        """Return the quantiser with new labels, whose centroids are their shares of the points."""
        group = np.concatenate([self.group, np.arange(len(shares)) % self.n_groups])
        new = np.broadcast_to(np.sqrt(shares).astype(np.float32), (N_CENTROIDS, len(shares)))
        return LabelQuantizer(self.n_bits, group, np.hstack([self.centroids, new]))

    def to_arrays(self) -> dict[str, Array]:
        return {"group": self.group, "centroids": self.centroids}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], n_labels: int, n_bits: int) -> LabelQuantizer:
        group = check_array(arrays, "group", np.int64, (n_labels,))
        centroids = check_array(arrays, "centroids", np.float32, (N_CENTROIDS, n_labels))
        if not 0 <= group.min() <= group.max() < n_bytes(n_bits) or not np.bincount(group).all():
            raise ValueError("its label groups are out of range")
        if centroids.min() < 0 or centroids.max() > 1:
            raise ValueError("its label centroids are outside 0 to 1")
        return cls(n_bits, group, centroids)


def _centroids(roots: Singles, n: int, seed: int) -> Singles:
    """Return ``n`` centroids of points, similar ones side by side; repeated ones where the points are fewer."""
    from scipy.cluster.hierarchy import leaves_list, linkage  # here, because opening a collection must not load it

    distinct = np.unique(roots, axis=0)
    if len(distinct) <= n:
        return distinct[np.arange(n) % len(distinct)]
    # Lloyd's algorithm. faiss has it too, but with OpenMP's threads, which do not survive a fork.
    rng, points = np.random.default_rng(seed), np.arange(len(roots))
    centroids = distinct[np.sort(rng.choice(len(distinct), n, replace=False))]
    for _ in range(_ITERATIONS):
        nearest = _nearest(roots, centroids)
        members = sp.csr_array((np.ones(len(roots), np.float32), (nearest, points)), (n, len(roots)))
        counts = np.bincount(nearest, minlength=n)[:, None]
        centroids = np.where(counts > 0, (members @ roots) / np.maximum(counts, 1), centroids).astype(np.float32)
    # A search bounds the scores of consecutive centroids together.
    ordered: Singles = centroids[leaves_list(linkage(centroids, "ward"))]
    return ordered


def _nearest(roots: Singles, centroids: Singles) -> Integers:
    """Return the number of the centroid nearest to each point."""
    return np.argmin((centroids**2).sum(axis=1) - 2 * roots @ centroids.T, axis=1)
