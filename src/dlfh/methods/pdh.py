"""PDH: predictable dual-view hashing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from dlfh._arrays import Array, Floats, Singles
from dlfh._mathematics.centred import Centred
from dlfh._mathematics.classifiers import SQUARED_HINGE, Classifiers, Fit
from dlfh._mathematics.rotation import signs
from dlfh._parallel import Workers
from dlfh._progress import progress
from dlfh._validation import Features, check_random_state
from dlfh.methods.ccaitq import correlated_embeddings
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import NonNegative, NonNegativeInt, Positive

#: Singular values below this share of the largest are within the rounding error of single precision.
_RELATIVE_RANK = 1e-5
#: Relative tolerance of the support vector machines. It can be loose: a few per cent of the bits change in each round.
_TOLERANCE = 1e-4


@dataclass(eq=False, repr=False, kw_only=True)
class PDH(Method):
    """Predictable dual-view hashing (Rastegari, Choi, Fakhraei, Daumé and Davis, ICML 2013).

    A good bit can be predicted by a linear classifier from either view, with a margin, and different bits should carry
    different information. With the codes Bx = sgn(X Wx) and By = sgn(Y Wy) of n points, the method minimises

        ``|Wx|^2 / 2 + C sum loss(By * X Wx) + |Wy|^2 / 2 + C sum loss(Bx * Y Wy)
        + |Bx'Bx / n - I|^2 + |By'By / n - I|^2``

    by alternation: support vector machines learn a view's weights from the other view's bits; the view's new bits are
    then the signs of the matrix with orthogonal columns closest to Z = X Wx, which is P Q' for the SVD P S Q' of the
    centred Z. The canonical directions of the pairs are the starting point.

    Parameters
    ----------
    n_bits, n_jobs, verbose : as for `DLFH`
    C : float, default 1
        Cost of violated margins, in both views.
    fit_intercept : bool, default False
        Whether hyperplanes have an intercept. With one, bits that are hard to predict drift towards constants.
    decorrelate : bool, default True
        Whether bits are made orthogonal in each round. Otherwise they drift to one dominant split.
    ridge : float, default 1e-4
        Added to the variances in CCA.
    max_iter : int, default 10
        Number of rounds.
    tol : float, default 0.001
        Stop when a round changes less than this share of the bits.
    random_state : int, numpy Generator or None
        Seed of the random hyperplanes that replace constant bits.

    Attributes
    ----------
    changes_ : ndarray of float64 (n_iter_,)
        Share of the second view's bits that changed in each round.
    n_iter_ : int

    Notes
    -----
    The authors' code was not found; the objective is theirs, the details are our reading. The loss is the squared
    hinge max(0, 1 - m)^2, LIBLINEAR's L2-loss: it is smooth, so the machines of all bits are solved as one problem.
    Features are centred and divided by one number, so that their mean squared length is 1; the intercept is the weight
    of a constant feature. Columns are made orthogonal before taking signs, because no rotation can separate equal
    columns of signs. A constant bit, such as one beyond the canonical directions, is replaced by a random hyperplane
    through the median. Usually a few per cent of the bits change in every round without improvement, and ``max_iter``
    ends the alternation. The method learns from pairs and ignores labels.
    """

    kind = "PDH"
    info = MethodInfo(
        title="Predictable dual-view hashing",
        paper="Rastegari, Choi, Fakhraei, Daumé and Davis, ICML 2013",
        supervised=False,
        discrete=True,
        protocols=("hashed",),
        complexity="n d² + d³ + T n c (s d + c), s steps of the solver",
        surplus_bits="spread",
    )
    _saved_arrays = ("changes_",)

    C: Positive = 1.0
    fit_intercept: bool = False
    decorrelate: bool = True
    ridge: NonNegative = 1e-4
    max_iter: NonNegativeInt = 10
    tol: NonNegative = 1e-3

    changes_: Floats = field(init=False)

    @property
    def n_iter_(self) -> int:
        return len(self.changes_)

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        rng = check_random_state(self.random_state)
        views = [Centred(matrix, name) for name, matrix in features.items()]
        _, directions = correlated_embeddings(views[0], views[1], int(self.n_bits), float(self.ridge))
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            x, y = (_Machines(view, float(self.C), bool(self.fit_intercept), workers) for view in views)
            advance = bar.counter("rounds", int(self.max_iter) + 1)
            orthogonal = _orthogonal if self.decorrelate else np.asarray
            changes: list[float] = []
            # All that follows depends on the second view's bits only; the first view needs no start.
            By = y.bits(views[1].times(directions), rng)
            for _ in range(int(self.max_iter)):
                Bx = x.bits(orthogonal(x.learn(By)), rng)
                before, By = By, y.bits(orthogonal(y.learn(Bx)), rng)
                changes.append(float(np.mean(By != before)))
                advance()
                if changes[-1] < self.tol:
                    break
            y.learn(x.bits(orthogonal(x.learn(By)), rng))
            advance()
        self.changes_ = np.array(changes)
        (Wx, bx), (Wy, by) = x.hyperplanes(), y.hyperplanes()
        self._hash_linearly(features, views, [Wx, Wy], [bx, by])


class _Machines:
    """Support vector machines that predict bits from one view's features."""

    def __init__(self, view: Centred, C: float, fit_intercept: bool, workers: Workers) -> None:
        self.rows = _Rows(view, fit_intercept)
        self.n_weights = view.n_features + 1
        self.problem = Classifiers(self._blocks, np.eye(self.n_weights), 1 / (2 * C), SQUARED_HINGE, workers)
        self.fit: Fit | None = None

    def _blocks(self) -> Iterator[tuple[int, int, Any]]:
        yield 0, self.rows.view.n_points, self.rows

    def learn(self, bits: Floats) -> Floats:
        """Fit the machines to bits, starting from the last fit; return the points' values."""
        self.fit = self.problem.solve(bits.astype(np.int8), start=self.fit, tol=_TOLERANCE)
        return self.fit.values.astype(np.float64)

    def bits(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Return the signs of values, with random balanced hyperplanes in place of constant columns."""
        B = signs(values)
        constant = np.ptp(B, axis=0) == 0
        if constant.any():
            weights = rng.standard_normal((self.n_weights, int(constant.sum())))
            hyperplanes = self.rows @ weights.astype(np.float32)
            B[:, constant] = signs(hyperplanes - np.median(hyperplanes, axis=0))
        return B

    def hyperplanes(self) -> tuple[Floats, Floats]:
        """Return weights and intercepts for unscaled features."""
        assert self.fit is not None
        return self.fit.weights[:-1] / self.rows.scale, self.fit.weights[-1]


class _Rows:
    """Centred features, scaled to a mean squared length of 1, and a constant feature, as a matrix of float32.

    Sparse features stay sparse. `Classifiers` needs ``rows @ weights``, ``rows.T @ values`` and ``rows.T @ rows``.
    """

    def __init__(self, view: Centred, fit_intercept: bool) -> None:
        # The scale makes C independent of the features' units.
        self.view, self.scale = view, float(np.sqrt(view.total_variance)) or 1.0
        self.constant = np.float32(fit_intercept)
        if view.is_sparse:
            # Constant features are excluded by weights of 0.
            self.factors = (~view.is_constant / self.scale).astype(np.float32)[:, None]
            self.mean = view.mean.astype(np.float32)
            self.matrix = view.features.astype(np.float32)
            self.transposed = self.matrix.T.tocsr()
        else:
            self.matrix = np.empty((view.n_points, view.n_features + 1), np.float32)
            self.matrix[:, -1] = self.constant
            for start, chunk in view.chunks():
                np.divide(chunk, self.scale, out=self.matrix[start : start + len(chunk), :-1], casting="same_kind")

    @property
    def T(self) -> _Transposed:
        return _Transposed(self)

    def __matmul__(self, weights: Singles) -> Singles:
        if not self.view.is_sparse:
            return self.matrix @ weights
        W = self.factors * weights[:-1]
        return np.asarray(self.matrix @ W + (self.constant * weights[-1] - self.mean @ W))


@dataclass(frozen=True)
class _Transposed:
    rows: _Rows

    def __matmul__(self, other: Any) -> Array:
        rows = self.rows
        if other is rows:
            # X'X is already known, in double precision.
            gram = np.zeros((rows.view.n_features + 1, rows.view.n_features + 1))
            gram[:-1, :-1] = rows.view.gram / rows.scale**2
            gram[-1, -1] = rows.view.n_points * rows.constant
            return gram
        if not rows.view.is_sparse:
            return (other.T @ rows.matrix).T  # a quarter faster than matrix.T @ other
        total = other.sum(axis=0, dtype=np.float64).astype(np.float32)
        products = rows.factors * (rows.transposed @ other - np.outer(rows.mean, total))
        return np.concatenate([products, rows.constant * total[None]])


def _orthogonal(Z: Floats) -> Floats:
    """Return the matrix with orthogonal columns closest to the centred Z."""
    # If Z has fewer directions than columns, return the closest with orthogonal rows in these directions.
    centred = Z - Z.mean(axis=0)
    # P Q' of Z = P S Q' equals Z Q S^-1 Q', with Q'S^2 Q = Z'Z: a small problem whose rounding is below the threshold.
    squares, Q = np.linalg.eigh(centred.T @ centred)
    keep = squares > _RELATIVE_RANK**2 * squares[-1]
    return centred @ ((Q[:, keep] / np.sqrt(squares[keep])) @ Q[:, keep].T)
