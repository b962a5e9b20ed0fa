"""What LEMON and DOCH share: they learn chunk after chunk, and remember sums of what they saw.

Codes come from labels; features have a part in the hash functions alone, which are ridge regressions of all codes on
all features so far. A chunk's codes never change once they are learned.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh._mathematics.moments import dense_gram, row_chunks, sparse_gram
from dlfh._mathematics.ridge import Ridge, check_ridge, solve_ridge
from dlfh._parallel import Workers
from dlfh._progress import progress
from dlfh._validation import (
    Features,
    check_choice,
    check_flag,
    check_integer,
    check_random_state,
    raise_for_overflow,
    raise_if_not_finite,
)
from dlfh.codes import Codes, pack
from dlfh.errors import InputError
from dlfh.hashing.base import check_array
from dlfh.hashing.linear import LinearHash, LinearRidge
from dlfh.methods.base import CrossModalHasher

__all__ = ["Chunk", "FeatureSums", "OnlineHasher", "Stream"]

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Chunk:
    """A chunk's labels, by rows that stand for its points or for its distinct label sets.

    Attributes
    ----------
    sets : csr_array of float64 (n_sets, n_labels)
        The distinct label sets, rows of 0 and 1.
    set_of_row, row_of_point : ndarray of int64
    weights : ndarray of float64 (rows,)
        How many points each row stands for.
    """

    sets: sp.csr_array
    set_of_row: Integers
    row_of_point: Integers
    weights: Floats

    @property
    def L(self) -> sp.csr_array:
        """Each row's labels, 0 and 1."""
        return self.sets[self.set_of_row]

    @property
    def G(self) -> sp.csr_array:
        """Each row's labels, scaled to length 1; a row without labels is 0."""
        lengths = np.asarray(self.sets.sum(axis=1)).ravel()
        return sp.csr_array(sp.diags_array(1 / np.sqrt(np.maximum(lengths, 1))) @ self.sets)[self.set_of_row]

    def sums(self, left: Any, right: Floats) -> Floats:
        """Return left' right, summed over the points."""
        return left.T @ (self.weights[:, None] * right)


@dataclass(frozen=True)
class FeatureSums:
    """X'X, X'B and X'1 of one modality, over all points so far."""

    gram: Floats
    cross: Floats
    total: Floats

    @classmethod
    def of(cls, features: Features, B: Floats, modality: str) -> FeatureSums:
        """Return the sums of one chunk."""
        raise_if_not_finite(features, modality)
        zero = np.zeros(features.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(features):
                wide = features.astype(np.float64)  # small integers would wrap around
                sums = cls(sparse_gram(wide, zero)[0], wide.T @ B, np.asarray(wide.sum(axis=0)).ravel())
            else:
                cross = np.zeros((features.shape[1], B.shape[1]))
                for start, stop in row_chunks(features):
                    cross += features[start:stop].astype(np.float64).T @ B[start:stop]
                sums = cls(dense_gram(features, zero, np.float64), cross, features.sum(axis=0, dtype=np.float64))
        if not np.isfinite(sums.gram).all():
            raise_for_overflow(features, modality)
        return sums

    def __add__(self, other: FeatureSums) -> FeatureSums:
        return FeatureSums(self.gram + other.gram, self.cross + other.cross, self.total + other.total)

    def hash_function(
        self, n_points: int, code_total: Floats, ridge: Ridge, fit_intercept: bool, modality: str
    ) -> LinearHash:
        """Return the ridge regression of all codes on all features, with or without an intercept."""
        gram, cross, squares = self.gram.copy(), self.cross, np.diag(self.gram)
        mean, intercept = np.zeros(len(gram)), np.zeros(cross.shape[1])
        if fit_intercept:
            mean, intercept = self.total / n_points, code_total / n_points
            gram -= n_points * np.outer(mean, mean)
            cross = cross - n_points * np.outer(mean, intercept)
            constant = np.diag(gram) <= 1e-12 * squares  # the rounding of that difference
            gram[constant] = gram[:, constant] = cross[constant] = 0
        gamma = ridge.resolve(np.diag(gram).copy(), 16 * float(np.finfo(np.float64).eps) * float(squares.sum()))
        with np.errstate(over="ignore", invalid="ignore"):
            weights = solve_ridge(gram, gamma, cross).astype(np.float32)
        if not np.isfinite(weights).all():
            raise InputError(f"modality {modality!r} has values too large or too small to learn from: scale them")
        return LinearHash(mean, weights, intercept, gamma)


@dataclass(frozen=True)
class Stream:
    """What is remembered of all chunks so far, beside their codes.

    Attributes
    ----------
    label_names : tuple or None
        Names of the labels, in the order in which they were first met; None for columns of an indicator matrix.
    n_labels : int
    starts : ndarray of int64 (chunks + 1,)
        Numbers of the chunks' first points, and of all points.
    code_total : ndarray of float64 (c,)
    features : dict of str to FeatureSums
    sums : dict of str to ndarray of float64
        What a method keeps of its own: (c, c), or (n_labels, c), which grow when a label is met for the first time.
    point_labels : csr_array of float64 (points, n_labels)
        Labels of all points, for methods that look at old points; otherwise no rows.
    """

    label_names: tuple[Any, ...] | None
    n_labels: int
    starts: Integers
    code_total: Floats
    features: dict[str, FeatureSums]
    sums: dict[str, Floats]
    point_labels: sp.csr_array

    @property
    def n_points(self) -> int:
        return int(self.starts[-1])

    @property
    def n_chunks(self) -> int:
        return len(self.starts) - 1

    def met(self, labels: LabelSets) -> tuple[Stream, sp.csr_array]:
        """Return the stream with room for new labels, and the label sets with labels numbered as it has them."""
        if self.n_chunks and (self.label_names is None) != (labels.names is None):
            raise InputError(
                "labels must come in the same form as before: one chunk's are an indicator matrix, another's are not"
            )
        sets = labels.rows()
        if labels.names is None:
            if self.n_chunks and labels.n_labels != self.n_labels:
                raise InputError(f"labels has {labels.n_labels} label columns but earlier chunks had {self.n_labels}")
            return self._with_room(None, labels.n_labels), sets
        names = self.label_names or ()
        known = set(names)
        names = (*names, *(name for name in labels.names if name not in known))
        number = {name: i for i, name in enumerate(names)}
        columns = np.array([number[name] for name in labels.names], np.int64)
        renumbered = sp.csr_array((sets.data, columns[sets.indices], sets.indptr), shape=(sets.shape[0], len(names)))
        renumbered.sort_indices()
        return self._with_room(names, len(names)), renumbered

    def _with_room(self, names: tuple[Any, ...] | None, n_labels: int) -> Stream:
        grown = {
            name: each if len(each) == n_labels or name not in self.by_label else _padded(each, n_labels)
            for name, each in self.sums.items()
        }
        old = self.point_labels
        wider = sp.csr_array((old.data, old.indices, old.indptr), shape=(old.shape[0], n_labels))
        return replace(self, label_names=names, n_labels=n_labels, sums=grown, point_labels=wider)

    @property
    def by_label(self) -> set[str]:
        """Names of the sums that have a row for each label."""
        return {name for name in self.sums if name[0] in "LG"}


def _padded(matrix: Floats, n_rows: int) -> Floats:
    return np.concatenate([matrix, np.zeros((n_rows - len(matrix), matrix.shape[1]))])


class OnlineHasher(CrossModalHasher):
    """Learns codes from labels, chunk after chunk, and linear hash functions from all chunks so far.

    Subclasses say which sums they keep in ``_sum_names`` (by letters: "L" and "G" have a row for each label), and learn
    a chunk's codes in `_learn_chunk`.
    """

    chunk_size: int | None
    init: Literal["random", "labels"]
    ridge: float | Literal["auto"]
    fit_intercept: bool

    stream_: Stream

    #: Sums by name: products of codes B, their twins V, label rows L, and label rows of length 1 G.
    _sum_names: tuple[str, ...]
    #: Whether old points' labels are looked at again.
    _keeps_labels = False

    @classmethod
    def paper(cls, n_bits: int = 64, **changes: Any) -> Self:
        """Return the model in the authors' setting, chunks of 2,000 points, less what ``changes`` says.

        Examples
        --------
        >>> from dlfh.methods import LEMON
        >>> LEMON.paper(32).chunk_size
        2000
        """
        return cls(**{"n_bits": n_bits, "chunk_size": 2000, **changes})

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.chunk_size is not None:
            check_integer(self.chunk_size, "chunk_size", 1)
        check_choice(self.init, "init", ("random", "labels"))
        check_ridge(self.ridge)
        check_flag(self.fit_intercept, "fit_intercept")

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        label_sets = self._read_labels(labels, features)
        stream, codes = self._empty_stream(), list[Codes]()
        with progress(self.verbose) as bar:
            for start, stop in bar.track(self._bounds(label_sets.n_points), "chunks"):
                chunk = {name: matrix[start:stop] for name, matrix in features.items()}
                stream, learned = self._learn(stream, codes, chunk, label_sets.take(np.arange(start, stop)))
                codes.append(learned)
        self._keep(stream, codes)

    def partial_fit(self, modalities: Any, labels: Any = None) -> Self:
        """Learn from one more chunk of points, without those that were learned from before.

        Codes of earlier points stay as they are; hash functions are those of all points so far. The first call starts a
        model, and calls after `fit`, or after `load`, continue it.

        Parameters
        ----------
        modalities : dict of str to array-like or sparse matrix
            As for `fit`: the same modalities and features in every chunk.
        labels : array-like or sparse matrix
            As for `fit`, in the same form in every chunk. Class ids and lists of labels may bring labels that no chunk
            had before; an indicator matrix always has the same columns.

        Returns
        -------
        self

        Examples
        --------
        >>> from dlfh.datasets import make_paired
        >>> from dlfh.methods import LEMON
        >>> data = make_paired(n_points=300, random_state=0)
        >>> model = LEMON(n_bits=16, random_state=0)
        >>> for rows in (slice(0, 200), slice(200, 300)):
        ...     chunk = {name: matrix[rows] for name, matrix in data.modalities.items()}
        ...     model = model.partial_fit(chunk, data.labels[rows])
        >>> model.codes_["text"].shape
        (300, 2)
        """
        fitting = self._fitting_more if hasattr(self, "stream_") else self._fitting
        with fitting(modalities) as features:
            self._learn_more(features, self._read_labels(labels, features))
        return self

    def _learn_more(self, features: dict[str, Features], labels: LabelSets) -> None:
        """Learn from a chunk, after what was learned from before; if it fails, nothing has changed."""
        stream, codes = self._empty_stream(), list[Codes]()
        if hasattr(self, "stream_"):
            stream = self.stream_
            codes = np.split(self.codes_[self.modalities_[0]], stream.starts[1:-1])
        stream, learned = self._learn(stream, codes, features, labels)
        self._keep(stream, [*codes, learned])

    def _bounds(self, n_points: int) -> list[tuple[int, int]]:
        """Return the bounds of chunks of at least ``chunk_size`` points; the last takes the rest, as published."""
        size = min(n_points, int(self.chunk_size or n_points))
        starts = [i * size for i in range(n_points // size)]
        return list(zip(starts, [*starts[1:], n_points], strict=True))

    def _empty_stream(self) -> Stream:
        c = int(self.n_bits)
        sums = {name: np.zeros((0 if name[0] in "LG" else c, c)) for name in self._sum_names}
        return Stream(None, 0, np.zeros(1, np.int64), np.zeros(c), {}, sums, sp.csr_array((0, 0)))

    def _learn(
        self, stream: Stream, codes: list[Codes], features: dict[str, Features], labels: LabelSets
    ) -> tuple[Stream, Codes]:
        """Return the stream after one more chunk, and the chunk's codes; ``codes`` are those of the chunks before."""
        for name, matrix in features.items():
            raise_if_not_finite(matrix, name)
        stream, sets = stream.met(labels)
        n = labels.n_points
        if self.init == "labels":
            chunk = Chunk(sets, np.arange(labels.n_sets), labels.set_of_point, labels.counts.astype(np.float64))
        else:
            chunk = Chunk(sets, labels.set_of_point, np.arange(n), np.ones(n))
        with Workers(self.n_jobs) as workers:
            B, sums = self._learn_chunk(chunk, stream, codes, self._generator(stream.n_chunks), workers)
        points = B[chunk.row_of_point]
        added = {name: FeatureSums.of(matrix, points, name) for name, matrix in features.items()}
        return (
            replace(
                stream,
                starts=np.append(stream.starts, stream.n_points + n),
                code_total=stream.code_total + chunk.weights @ B,
                features={name: stream.features[name] + each for name, each in added.items()}
                if stream.features
                else added,
                sums={name: stream.sums[name] + each for name, each in sums.items()},
                point_labels=sp.csr_array(sp.vstack([stream.point_labels, sets[labels.set_of_point]]))
                if self._keeps_labels
                else stream.point_labels,
            ),
            pack(points),
        )

    def _generator(self, chunk: int) -> np.random.Generator:
        """Return what a chunk draws from: with a seed, its own, so that a model that was saved draws the same."""
        if self.random_state is None or isinstance(self.random_state, np.random.Generator):
            return check_random_state(self.random_state)
        return np.random.default_rng([int(self.random_state), chunk])

    @abstractmethod
    def _learn_chunk(
        self, chunk: Chunk, past: Stream, codes: list[Codes], rng: np.random.Generator, workers: Workers
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return the codes of a chunk's rows, -1.0 and +1.0, and its share of the sums."""

    def _keep(self, stream: Stream, codes: list[Codes]) -> None:
        ridge = Ridge(self.ridge, LinearRidge().shrinkage)
        functions = {
            name: sums.hash_function(stream.n_points, stream.code_total, ridge, bool(self.fit_intercept), name)
            for name, sums in stream.features.items()
        }
        self.stream_, self.hash_functions_ = stream, dict(functions)
        self.codes_ = dict.fromkeys(functions, np.concatenate(codes))

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        config, arrays = super()._to_parts()
        stream = self.stream_
        config["label_names"] = None if stream.label_names is None else [_plain(name) for name in stream.label_names]
        arrays |= {"stream/starts": stream.starts, "stream/code_total": stream.code_total}
        arrays |= {f"stream/sums/{name}": each for name, each in stream.sums.items()}
        for name, each in stream.features.items():
            arrays |= {f"stream/{part}/{name}": getattr(each, part) for part in ("gram", "cross", "total")}
        if self._keeps_labels:
            arrays["stream/label_starts"] = stream.point_labels.indptr.astype(np.int64)
            arrays["stream/labels"] = stream.point_labels.indices.astype(np.int32)
        arrays["stream/n_labels"] = np.array([stream.n_labels])
        return config, arrays

    def _restore(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        super()._restore(config, arrays)
        c, n = int(self.n_bits), len(self.codes_[self.modalities_[0]])
        names = config["label_names"]
        n_labels = int(check_array(arrays, "stream/n_labels", np.int64, (1,))[0])
        if n_labels < 1 or (names is not None and len({*map(_plain, names)}) != n_labels):
            raise ValueError(f"its labels are {n_labels}, with other names")
        starts = check_array(arrays, "stream/starts", np.int64, (None,))
        if starts[0] != 0 or starts[-1] != n or (np.diff(starts) < 1).any():
            raise ValueError("its chunks are not those of its codes")
        features = {}
        for name, d in self.n_features_.items():
            shapes = {"gram": (d, d), "cross": (d, c), "total": (d,)}
            parts = {key: check_array(arrays, f"stream/{key}/{name}", np.float64, shapes[key]) for key in shapes}
            features[name] = FeatureSums(**parts)
        sums = {
            name: check_array(arrays, f"stream/sums/{name}", np.float64, (n_labels if name[0] in "LG" else c, c))
            for name in self._sum_names
        }
        self.stream_ = Stream(
            None if names is None else tuple(names),
            n_labels,
            starts,
            check_array(arrays, "stream/code_total", np.float64, (c,)),
            features,
            sums,
            _point_labels(arrays, n, n_labels) if self._keeps_labels else sp.csr_array((0, n_labels)),
        )


def _point_labels(arrays: dict[str, npt.NDArray[Any]], n_points: int, n_labels: int) -> sp.csr_array:
    """Return the labels of a saved model's points, checked before anything walks along them."""
    starts, labels = arrays["stream/label_starts"], arrays["stream/labels"]
    fits = (
        starts.dtype == np.int64 and starts.shape == (n_points + 1,) and labels.dtype == np.int32 and labels.ndim == 1
    )
    if not fits or starts[0] != 0 or starts[-1] != len(labels) or (np.diff(starts) < 0).any():
        raise ValueError("the labels of its points are not as many as they should be")
    if len(labels) and not (labels.min() >= 0 and labels.max() < n_labels):
        raise ValueError("the labels of its points are out of range")
    return sp.csr_array((np.ones(len(labels)), labels, starts), shape=(n_points, n_labels))


def _plain(name: Any) -> str | int | float:
    """Return a label's name as JSON has it."""
    if isinstance(name, str):
        return str(name)
    if isinstance(name, Integral):
        return int(name)
    if isinstance(name, Real):
        return float(name)
    raise InputError(f"a file holds labels that are text or numbers, not {name!r}")
