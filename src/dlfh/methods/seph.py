"""SePH: semantics-preserving hashing."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from dlfh import _kernels
from dlfh._arrays import Array, Floats
from dlfh._factorization.solver import LabelRows
from dlfh._mathematics.targets import BlockTargets, Targets
from dlfh._parallel import Workers
from dlfh._probabilities.fit import LabelFit
from dlfh._progress import Bar, progress
from dlfh._validation import Features, check_random_state
from dlfh.blocks.opening import in_one_block
from dlfh.codes import pack, unpack
from dlfh.errors import InputError
from dlfh.hashing import KernelLogistic
from dlfh.hashing.base import FitContext
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import NonNegative, NonNegativeInt, Positive, PositiveInt

_BLOCK_BYTES = 256 << 20  #: Maximum bytes of the two matrices that compare a block of rows with all rows.
_ROWS = 64  #: Rows per task; fixed, so that sums do not depend on the number of threads.


@dataclass(eq=False, repr=False, kw_only=True)
class SePH(Method):
    """Semantics-preserving hashing (Lin, Ding, Hu and Wang, CVPR 2015).

    Labels define a distribution over pairs of points, p_ij proportional to the cosine of their label sets. Codes define
    another, q_ij proportional to 1 / (1 + |h_i - h_j|^2 / 4), where |h_i - h_j|^2 / 4 is the Hamming distance of codes
    of -1 and +1. A real-valued H minimises

        ``sum_ij p_ij log(p_ij / q_ij) + alpha / (c n) | |H| - 1 |^2``

    by gradient descent with momentum and a gain per entry, as in t-SNE. Its signs are the learned codes, shared by all
    modalities. Kernel logistic regression then predicts each bit from each modality.

    Parameters
    ----------
    n_bits, random_state, n_jobs, verbose : as for `DLFH`
    alpha : float, default 0.01
        Weight of the quantisation penalty.
    max_iter : int, default 100
    learning_rate : float or "auto", default "auto"
        "auto" is n / 5, as gradients decrease with the number of points n, but at least the authors' 500.
    init : {"labels", "random"}, default "labels"
        Start from one random vector per distinct label set or, like the authors, per point. Points with the same label
        set and start stay together, so with "labels" the cost depends on the number of label sets.
    n_bases, bases, penalty : as for `KDLFH`

    Attributes
    ----------
    objective_ : ndarray of float64 (max_iter + 1,)
        Objective at the start and after each iteration. The iteration with the lowest objective gives the codes.

    Notes
    -----
    Similarities are computed in blocks of rows, so that memory is proportional to n, not n^2. The authors' code adds
    the penalty of the new H to the divergence of the old one; here both belong to the same H. `encode_unified` is their
    rule for points with all modalities: a bit is 1 if the product of the modalities' odds exceeds its training odds.
    """

    kind = "SePH"
    info = MethodInfo(
        title="Semantics-preserving hashing",
        paper="Lin, Ding, Hu and Wang, CVPR 2015",
        supervised=True,
        discrete=True,
        protocols=("learned", "hashed", "unified"),
        complexity="T g² c for codes, g label sets (n² c from one start per point); n k c per step of the "
        "regressions, k bases",
        n_modalities=(2, None),
    )
    _saved_arrays = ("objective_",)

    alpha: NonNegative = 0.01
    max_iter: NonNegativeInt = 100
    learning_rate: Positive | Literal["auto"] = "auto"
    init: Literal["labels", "random"] = "labels"
    n_bases: PositiveInt = 500
    bases: Literal["random", "kmeans"] = "random"
    penalty: Positive = 0.01

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        label_sets = self._read_labels(labels, features)
        rows = LabelRows.of_label_sets(label_sets) if self.init == "labels" else LabelRows.of_points(label_sets)
        rate = max(500.0, label_sets.n_points / 5) if self.learning_rate == "auto" else float(self.learning_rate)
        rng = check_random_state(self.random_state)
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            start = 1e-4 * rng.standard_normal((len(rows), int(self.n_bits)))
            divergence = Divergence(rows, float(self.alpha), workers)
            H, self.objective_ = descend(divergence, start, rate, int(self.max_iter), bar)
            codes = pack(H)
            fits = LabelFit(int(self.n_bits), FitContext(workers, int(rng.integers(2**63)), bar))
            targets = BlockTargets.in_memory(Targets(codes, rows.row_of_point, int(self.n_bits)), label_sets)
            learner = KernelLogistic(self.n_bases, bases=self.bases, penalty=self.penalty)
            self.hash_functions_ = {
                name: fits.fit(learner, in_one_block(matrix, name), targets, name)
                for name, matrix in bar.track(features.items(), "hash functions")
            }
            self._calibrate_later(fits.model(tuple(features)))
        self.codes_ = dict.fromkeys(features, codes[rows.row_of_point])

    def _unify(self, features: dict[str, Features]) -> Array:
        # Projections are 2 p - 1 = tanh(log-odds / 2). Log-odds add up, but the prior must be counted only once.
        edge = 1 - 1e-7
        ones = (unpack(self.codes_[self.modalities_[0]], int(self.n_bits)) > 0).mean(axis=0)
        prior = 2 * np.arctanh(np.clip(2 * ones - 1, -edge, edge))
        odds = [2 * np.arctanh(np.clip(self.project(name, features[name]), -edge, edge)) for name in self.modalities_]
        values = np.sum(odds, axis=0) - (len(odds) - 1) * prior
        # A bit that is constant in training is constant for all points.
        return np.where((ones == 0) | (ones == 1), ones - 0.5, values)


class Divergence:
    """SePH's objective and its gradient, with one row per point or per label set."""

    def __init__(self, rows: LabelRows, alpha: float, workers: Workers) -> None:
        self.rows, self.alpha, self.workers = rows, alpha, workers
        labels = rows.labels
        self.n_points, self.lists = labels.n_points, labels.inverted_lists()
        self.weights = rows.weights.astype(np.float32)
        # The sums of cos and of cos log cos over ordered pairs of different points.
        L, counts, entropy = labels.unit_rows(), labels.counts.astype(np.float64), 0.0
        mean = counts @ L
        total = float(mean @ mean) - float(counts[np.diff(labels.starts) > 0].sum())
        for first in range(0, labels.n_sets, 1024):
            block = (L[first : first + 1024] @ L.T).tocoo()
            inside = np.minimum(block.data, 1.0)
            entropy += float(np.sum(counts[first + block.row] * counts[block.col] * inside * np.log(inside)))
        if total <= 0:
            raise InputError("SePH needs points that share a label, but no two points do")
        self.unit = 1 / total
        self.entropy = entropy / total - np.log(total)
        self.block = max(1, _BLOCK_BYTES // (8 * len(rows)))

    def __call__(self, H: Floats) -> tuple[float, Floats]:
        """Return the objective, and its gradient with respect to one point of each row."""
        n_rows, n_bits = H.shape
        single = H.astype(np.float32)
        norms = np.einsum("nc,nc->n", single, single)
        pulled, pushed, total, log_total = np.empty_like(H), np.empty_like(H), 0.0, 0.0
        labels = self.rows.labels
        for first in range(0, n_rows, self.block):
            last = min(first + self.block, n_rows)
            products = single[first:last] @ single.T
            pull, push = np.empty_like(products), products  # each product is read before it is overwritten
            rows = self.rows.set_of_row, self.weights, labels.lists, self.lists
            fill = functools.partial(_kernels.pull_and_push, products, norms, *rows, self.unit, first, (pull, push))
            sums = self.workers.map_blocks(fill, last - first, _ROWS)
            total += sum(part[0] for part in sums)
            log_total += sum(part[1] for part in sums)
            for matrix, moved in ((pull, pulled), (push, pushed)):
                moved[first:last] = matrix.sum(axis=1, dtype=np.float64)[:, None] * H[first:last] - matrix @ single
        penalty = self.alpha / (n_bits * self.n_points)
        gap = np.abs(H) - 1
        quantisation = penalty * float(self.rows.weights @ np.sum(gap**2, axis=1))
        objective = self.entropy - log_total + np.log(total) + quantisation
        return objective, pulled - pushed / total + 2 * penalty * gap * np.sign(H)


def descend(
    divergence: Divergence, start: Floats, rate: float, max_iter: int, bar: Bar | None = None
) -> tuple[Floats, Floats]:
    """Descend from ``start``; return the H with the lowest objective, and the objective at every step."""
    weights = divergence.rows.weights / divergence.n_points
    H, step, gains = start, np.zeros_like(start), np.ones_like(start)
    count = (bar or Bar()).counter("codes", max_iter)
    best, lowest, history = H, np.inf, []
    for iteration in range(max_iter + 1):
        objective, gradient = divergence(H)
        history.append(objective)
        if objective < lowest:
            best, lowest = H, objective
        if iteration == max_iter:
            break
        gains = np.maximum(np.where(np.sign(gradient) != np.sign(step), gains + 0.2, gains * 0.8), 0.01)
        step = 0.5 * step - rate * gains * gradient
        H = H + step
        H = H - weights @ H
        count(1)
    return best, np.array(history)
