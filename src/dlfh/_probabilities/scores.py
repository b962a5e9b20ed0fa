"""Scores of queries and items from their label probabilities q and p, and the items' probabilities in a few bytes.

- any: the probability that they share a label, 1 - prod_l (1 - p_l q_l).
- all: the probability that the item has every label of the query, prod_l (1 - q_l (1 - p_l)).

Where every point has exactly one label, both are sum_l p_l q_l, the probability that the labels are equal.

Both increase with a sum over labels, the score. Redundant labels (one label under several names) would count
several times, so each has a weight. Where labels are missing from the training data, every probability is too low, and
frequent labels dominate: the score also has a lift, lambda sum_l (q_l - pi_l) p_l, with pi the labels' shares.

Items are stored by product quantisation over groups of labels. Each group has 256 centroids, of the square roots of its
labels' probabilities, and an item stores the number of the nearest one: a byte per group. A query is scored by one
table of 256 values per group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._arrays import Array, Codes, Floats, Integers, Singles
from dlfh._labels import LabelSets
from dlfh.codes import n_bytes
from dlfh.hashing.base import check_array

Match = Literal["any", "all"]

MATCHES: tuple[Match, ...] = ("any", "all")
#: Largest probability in a logarithm.
_ALMOST_ONE = 1 - 1e-6
#: Query probabilities up to which logarithms are computed by this many terms of their series, up to rounding.
_UNLIKELY, _SERIES = 0.02, 3

N_CENTROIDS = 256
_ITERATIONS = 10
#: Number of points that centroids are fitted to: maximum, minimum, and per label of a group.
MAX_POINTS = 1 << 12
_MIN_POINTS, _POINTS_PER_LABEL = 1 << 10, 1 << 9
_CHUNK_ROWS = 512


def redundancy_weights(labels: LabelSets) -> Floats:
    """Return w_l = 1 / sum_m r_lm^2, with r the correlation of labels l and m over the points; 1 for unused labels.

    A label that occurs under k names has the weight 1 / k under each.
    """
    rows, counts = labels.rows(), labels.counts.astype(np.float64)
    n = counts.sum()
    share = np.asarray(rows.T @ counts).ravel() / n
    together = (rows.T @ rows.multiply(counts[:, None])).tocoo()
    one, other = together.coords
    variance = share * (1 - share)
    used = variance > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        # Labels that never occur together have r^2 = o_l o_m, o the odds: sum over all pairs, then correct the others.
        odds = np.where(used, share / (1 - share), 0.0)
        apart = odds * (odds.sum())
        covariance = together.data / n - share[one] * share[other]
        correlation = covariance**2 / (variance[one] * variance[other])
    correction = np.where(used[one] & used[other], correlation - odds[one] * odds[other], 0.0)
    total = apart + np.bincount(one, correction, len(share))
    return np.where(used, 1 / np.maximum(total, 1.0), 1.0)


def label_scores(
    queries: Singles,
    items: Singles,
    weights: Floats,
    match: Match,
    *,
    exclusive: bool,
    prior: Floats | float = 0.0,
    lift: float = 0.0,
) -> Singles:
    """Return the terms of the score, by query, item and label: shape (queries, items, labels)."""
    q, p = queries[:, None, :], items[None]
    beyond = (np.float32(lift) * (queries - np.asarray(prior, np.float32)))[:, None, :]
    if exclusive:
        return (q + beyond) * p
    terms = q * p if match == "any" else q * (1 - p)
    terms = np.log1p(np.negative(np.minimum(terms, np.float32(_ALMOST_ONE), out=terms), out=terms), out=terms)
    if match == "any":
        np.negative(terms, out=terms)
    if lift:  # for "all" less the query's largest lift, so that a score remains at most 0
        terms += beyond * p if match == "any" else beyond * p - np.maximum(beyond, 0)
    terms *= weights.astype(np.float32)
    return terms


def score_tables(
    queries: Singles, items: Singles, weights: Floats, match: Match, parts: Sequence[slice], *, exclusive: bool
) -> Singles:
    """Return the sums of `label_scores` over the labels of each part, for a lift of 0: (queries, parts, items)."""
    factors = 1 - items if match == "all" and not exclusive else items
    sign = np.float32(-1 if match == "all" else 1)
    found = np.empty((len(queries), len(parts), len(items)), np.float32)
    likely = np.zeros(queries.shape, bool) if exclusive else queries > _UNLIKELY
    rest = np.where(likely, np.float32(0), queries)
    scale = np.ones(len(weights), np.float32) if exclusive else sign * weights.astype(np.float32)
    order = 1 if exclusive else _SERIES
    for number, part in enumerate(parts):  # -log(1 - x) = x + x^2/2 + ...
        x, q = factors[:, part], rest[:, part]
        found[:, number] = sum((q**k * scale[part]) @ (x**k / np.float32(k)).T for k in range(1, order + 1))
    part_of = np.repeat(np.arange(len(parts)), [part.stop - part.start for part in parts])
    by_label, flat = np.ascontiguousarray(factors.T), found.reshape(-1, len(items))
    rows, labels = np.nonzero(likely)
    for start in range(0, len(rows), _CHUNK_ROWS):
        row, label = rows[start : start + _CHUNK_ROWS], labels[start : start + _CHUNK_ROWS]
        terms = by_label[label]
        terms *= queries[row, label][:, None]
        np.negative(np.minimum(terms, np.float32(_ALMOST_ONE), out=terms), out=terms)
        np.log1p(terms, out=terms)
        terms *= -scale[label][:, None]
        group = row * len(parts) + part_of[label]
        firsts = np.flatnonzero(np.diff(group, prepend=-1))
        flat[group[firsts]] += np.add.reduceat(terms, firsts, axis=0)
    return found


def probability_of(scores: npt.NDArray[np.floating], match: Match, *, exclusive: bool) -> Floats:
    """Convert scores to probabilities, for independent labels and a lift of 0."""
    scores = np.asarray(scores, np.float64)
    if exclusive:
        return np.clip(scores, 0.0, 1.0)
    return np.exp(np.minimum(scores, 0.0)) if match == "all" else -np.expm1(-np.maximum(scores, 0.0))


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
        # Largest variance first, back and forth over the groups, so that all have about the same variance.
        turn, seat = np.divmod(np.arange(n_labels), n_groups)
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
        order, starts = self.order, np.searchsorted(np.sort(self.group), np.arange(self.n_groups + 1))
        centroids = np.ascontiguousarray(self.centroids[:, order].T)
        for start in range(0, len(codes), _CHUNK_ROWS):
            roots = np.sqrt(probabilities[start : start + _CHUNK_ROWS, order], dtype=np.float32)
            _kernels.nearest_centroids(roots, starts, centroids, codes[start : start + _CHUNK_ROWS])
        codes[:, -1] &= np.uint8(0xFF << -self.n_bits % 8 & 0xFF)  # of equal centroids, the first
        return codes

    def decode(self, codes: Codes) -> Singles:
        """Return the probabilities that bytes represent, shape (n, n_labels)."""
        return self.centroids[codes[:, self.group], np.arange(len(self.group))] ** 2

    @property
    def order(self) -> Integers:
        """The labels group by group."""
        return np.argsort(self.group, kind="stable")

    @property
    def parts(self) -> list[slice]:
        """The places of each group's labels in ``order``."""
        stops = np.cumsum(np.bincount(self.group))
        return [slice(start, stop) for start, stop in zip([0, *stops], stops, strict=False)]

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
    """Return ``n`` centroids of points, with similar ones adjacent; repeated if there are fewer points."""
    from scipy.cluster.hierarchy import leaves_list, linkage  # here, because opening a collection must not load it

    # In lexicographic order: that of the bytes of positive numbers.
    as_bytes = np.ascontiguousarray(roots, ">f4").view(f"S{4 * roots.shape[1]}").ravel()
    distinct = roots[np.unique(as_bytes, return_index=True)[1]]
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
    products = roots @ (-2 * centroids.T)
    products += (centroids**2).sum(axis=1)
    return np.argmin(products, axis=1)
