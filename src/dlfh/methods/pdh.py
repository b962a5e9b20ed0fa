"""PDH: predictable dual-view hashing."""

from __future__ import annotations

import abc
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._mathematics.centred import Centred
from dlfh._mathematics.classifiers import SQUARED_HINGE, Classifiers, Fit
from dlfh._mathematics.rotation import signs
from dlfh._parallel import Workers
from dlfh._progress import Bar, progress
from dlfh._validation import Features, check_flag, check_integer, check_positive, check_random_state
from dlfh.hashing.linear import LinearHash
from dlfh.methods.base import CrossModalHasher
from dlfh.methods.cca_itq import correlated_embeddings
from dlfh.methods.info import MethodInfo

__all__ = ["PDH"]

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

#: Singular values below this share of the largest are the rounding of single precision.
_SAME_DIRECTION = 1e-5

#: To what share of their objective machines are learned: the bits that they are learned from change by per cents.
_TOLERANCE = 1e-4


@dataclass(eq=False, repr=False)
class PDH(CrossModalHasher):
    """Predictable dual-view hashing (Rastegari, Choi, Fakhraei, Daumé and Davis, ICML 2013).

    A good bit is one that a linear classifier predicts from either view, with a margin, and bits should say
    different things. With codes Bx = sgn(X Wx) and By = sgn(Y Wy) of n points, minimise

        ``|Wx|^2 / 2 + C sum loss(By * X Wx) + |Wy|^2 / 2 + C sum loss(Bx * Y Wy)
        + |Bx'Bx / n - I|^2 + |By'By / n - I|^2``

    by turns: support vector machines learn a view's weights from the other view's bits, then the view's new
    bits are the signs of the matrix with orthogonal columns that is closest to Z = X Wx: P Q' of the SVD
    P S Q' of the centred Z. It starts from the canonical directions of the pairs.

    Parameters
    ----------
    n_bits : int, default 64
    C : float, default 1
        How much a violated margin costs, in both views.
    fit_intercept : bool, default False
        Whether hyperplanes may leave the mean of the points. Then bits that are hard to predict drift
        towards constants, which are easy.
    decorrelate : bool, default True
        Whether bits are made orthogonal in each round. Without it they drift to one dominant split.
    ridge : float, default 1e-4
        Added to the variances in CCA.
    max_iter : int, default 10
        Number of rounds.
    tol : float, default 0.001
        Stop when a round changes less than this share of the bits.
    random_state : int, numpy Generator or None
        Seed of the hyperplanes that stand in for bits without a direction.
    n_jobs, verbose
        As for `DLFH`.

    Attributes
    ----------
    changes_ : ndarray of float64 (n_iter_,)
        The share of the second view's bits that each round changed.
    n_iter_ : int

    Notes
    -----
    No code of the authors was found; the objective is theirs, and what follows is our reading. The loss is
    the squared hinge, max(0, 1 - m)^2, LIBLINEAR's L2-loss: it is smooth, so the machines of all bits are
    solved as one problem. Features are centred and divided by one number, which makes their mean squared
    length 1; the intercept is the weight of a constant feature of 1. Orthogonal columns are sought for the
    real values Z, not for their signs: where two columns of signs agree they do so exactly, no rotation of
    them says otherwise, and bits would still become one. A bit that is constant gets a random hyperplane
    through the median: that also serves bits beyond the canonical directions. As a rule some per cent of the
    bits change in every round, to no avail, and ``max_iter`` is what ends it. It learns from
    pairs alone.

    Examples
    --------
    >>> from dlfh.datasets import make_paired
    >>> data = make_paired(n_points=300, random_state=0)
    >>> PDH(n_bits=16, random_state=0).fit(data.modalities).codes_["text"].shape
    (300, 2)
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

    n_bits: int = 64
    _: KW_ONLY
    C: float = 1.0
    fit_intercept: bool = False
    decorrelate: bool = True
    ridge: float = 1e-4
    max_iter: int = 10
    tol: float = 1e-3
    random_state: int | np.random.Generator | None = None
    n_jobs: int | None = None
    verbose: bool = False

    changes_: Floats = field(init=False)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_positive(self.C, "C")
        check_flag(self.fit_intercept, "fit_intercept")
        check_flag(self.decorrelate, "decorrelate")
        check_positive(self.ridge, "ridge", allow_zero=True)
        check_integer(self.max_iter, "max_iter", 0)
        check_positive(self.tol, "tol", allow_zero=True)

    @property
    def n_iter_(self) -> int:
        return len(self.changes_)

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        rng = check_random_state(self.random_state)
        centred = [Centred(matrix, name) for name, matrix in features.items()]
        _, directions = correlated_embeddings(centred[0], centred[1], int(self.n_bits), float(self.ridge))
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            parameters = int(self.n_bits), float(self.C), bool(self.fit_intercept), workers
            x, y = (_Machines(each, *parameters) for each in centred)
            self.changes_ = self._alternate(x, y, centred[1].times(directions), rng, bar)
            self.hash_functions_ = {each.features.modality: each.hash_function() for each in (x, y)}
            self._hash_training_points(features, workers)

    def _alternate(self, x: _Machines, y: _Machines, start: Floats, rng: np.random.Generator, bar: Bar) -> Floats:
        """Learn both views' machines; return the share of bits that each round changed."""
        advance = bar.counter("rounds", int(self.max_iter) + 1)
        spread = _orthogonal if self.decorrelate else np.asarray
        changes: list[float] = []
        # The second view's bits decide all that follows, so what the first would start from is not needed.
        By = y.bits(start, rng)
        for _ in range(int(self.max_iter)):
            Bx = x.bits(spread(x.learn(By)), rng)
            before, By = By, y.bits(spread(y.learn(Bx)), rng)
            changes.append(float(np.mean(By != before)))
            advance()
            if changes[-1] < self.tol:
                break
        y.learn(x.bits(spread(x.learn(By)), rng))
        advance()
        return np.array(changes)


class _Machines:
    """One view's features, centred and scaled, and the support vector machines that read bits off them."""

    def __init__(self, features: Centred, n_bits: int, C: float, fit_intercept: bool, workers: Workers) -> None:
        self.features = features
        # Mean squared length 1, so that C means the same whatever the units.
        self.scale = float(np.sqrt(features.total_variance)) or 1.0
        self.rows: _Rows = (_SparseRows if features.is_sparse else _DenseRows)(features, self.scale, fit_intercept)
        self.n_weights = features.n_features + 1
        self.problem = Classifiers(self._blocks, np.eye(self.n_weights), 1 / (2 * C), SQUARED_HINGE, workers)
        self.fit: Fit | None = None

    def _blocks(self) -> Iterator[tuple[int, int, Any]]:
        yield 0, self.features.n_points, self.rows

    def learn(self, bits: Floats) -> Floats:
        """Fit the machines to bits, from where they are; return the points' values."""
        self.fit = self.problem.solve(bits.astype(np.int8), start=self.fit, tol=_TOLERANCE)
        return self.fit.values.astype(np.float64)

    def bits(self, values: Floats, rng: np.random.Generator) -> Floats:
        """Return the signs of values; a column that is constant gets a random balanced hyperplane."""
        B = signs(values)
        constant = np.ptp(B, axis=0) == 0
        if constant.any():
            weights = rng.standard_normal((self.n_weights, int(constant.sum())))
            hyperplanes = self.rows @ weights.astype(np.float32)
            B[:, constant] = signs(hyperplanes - np.median(hyperplanes, axis=0))
        return B

    def hash_function(self) -> LinearHash:
        assert self.fit is not None
        return LinearHash.of_centred(self.features, self.fit.weights[:-1] / self.scale, self.fit.weights[-1])


class _Rows(abc.ABC):
    """Features, centred and scaled, and a constant one, as what has products."""

    def __init__(self, features: Centred, scale: float, fit_intercept: bool) -> None:
        self.features = features
        self.scale = scale
        self.constant = np.float32(fit_intercept)

    @abc.abstractmethod
    def __matmul__(self, weights: Singles) -> Singles: ...

    @abc.abstractmethod
    def transposed_times(self, values: Singles) -> Singles: ...

    @property
    def T(self) -> _Transposed:
        return _Transposed(self)

    @property
    def gram(self) -> Floats:
        """The products of all features with each other, which are known from the start."""
        gram = np.zeros((self.features.n_features + 1, self.features.n_features + 1))
        gram[:-1, :-1] = self.features.gram / self.scale**2
        gram[-1, -1] = self.features.n_points * self.constant
        return gram


@dataclass(frozen=True)
class _Transposed:
    rows: _Rows

    def __matmul__(self, other: Any) -> npt.NDArray[Any]:
        return self.rows.gram if other is self.rows else self.rows.transposed_times(other)


class _DenseRows(_Rows):
    def __init__(self, features: Centred, scale: float, fit_intercept: bool) -> None:
        super().__init__(features, scale, fit_intercept)
        self.matrix = np.empty((features.n_points, features.n_features + 1), np.float32)
        self.matrix[:, -1] = self.constant
        for start, chunk in features.chunks():
            np.divide(chunk, scale, out=self.matrix[start : start + len(chunk), :-1], casting="same_kind")

    def __matmul__(self, weights: Singles) -> Singles:
        return self.matrix @ weights

    def transposed_times(self, values: Singles) -> Singles:
        return (values.T @ self.matrix).T  # a quarter less time than the other way round


class _SparseRows(_Rows):
    """Products that leave features sparse."""

    def __init__(self, features: Centred, scale: float, fit_intercept: bool) -> None:
        super().__init__(features, scale, fit_intercept)
        varying = ~features.is_constant
        # What is constant counts as 0, here by its weights.
        self.used = (varying / scale).astype(np.float32)[:, None]
        self.mean = features.mean.astype(np.float32)
        self.matrix = features.features.astype(np.float32)
        self.transposed = self.matrix.T.tocsr()

    def __matmul__(self, weights: Singles) -> Singles:
        own = self.used * weights[:-1]
        return np.asarray(self.matrix @ own + (self.constant * weights[-1] - self.mean @ own))

    def transposed_times(self, values: Singles) -> Singles:
        total = values.sum(axis=0, dtype=np.float64).astype(np.float32)
        own = self.used * (self.transposed @ values - np.outer(self.mean, total))
        return np.concatenate([own, self.constant * total[None]])


def _orthogonal(Z: Floats) -> Floats:
    """Return the matrix with orthogonal columns that is closest to the centred Z.

    Where Z has fewer directions than columns, it is the closest with orthogonal rows in these directions.
    """
    centred = Z - Z.mean(axis=0)
    # P Q' of Z = P S Q' is Z Q S^-1 Q', and Q'S^2 Q = Z'Z: a small problem, whose rounding is below the threshold.
    squares, Q = np.linalg.eigh(centred.T @ centred)
    keep = squares > _SAME_DIRECTION**2 * squares[-1]
    return centred @ ((Q[:, keep] / np.sqrt(squares[keep])) @ Q[:, keep].T)
