"""Base class of LEMON and DOCH, which learn from one chunk of points after another.

Codes are learned from labels and never change afterwards. Hash functions are ridge regressions of all codes on all
features so far, and need only sums over past chunks.
"""

from __future__ import annotations

import itertools
from abc import abstractmethod
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Codes, Floats, Integers
from dlfh._factorization.label_set_codes import check_label_lists, extend_names, plain_names
from dlfh._factorization.solver import LabelRows
from dlfh._labels import LabelSets
from dlfh._mathematics.moments import Moments, dense_gram, rounding_of, sparse_gram
from dlfh._parallel import Workers, row_chunks
from dlfh._progress import progress
from dlfh._validation import Features, raise_for_overflow, raise_if_not_finite
from dlfh.codes import n_bytes, pack
from dlfh.hashing.base import check_array
from dlfh.hashing.feature_maps import UNSCALED
from dlfh.hashing.linear import LinearRidge
from dlfh.methods.method import Method
from dlfh.methods.parameter_types import PositiveInt, RidgeOrAuto


@dataclass(frozen=True)
class FeatureSums:
    """X'X, X'B and X'1 of one modality so far, not centred: the authors' regressions have no intercept."""

    gram: Floats
    cross: Floats
    total: Floats

    @classmethod
    def of_chunk(cls, features: Features, B: Floats, modality: str) -> FeatureSums:
        """Return the sums over one chunk."""
        raise_if_not_finite(features, modality)
        zero = np.zeros(features.shape[1])
        with np.errstate(over="ignore", invalid="ignore"):
            if sp.issparse(features):
                wide = features.astype(np.float64)  # sums of small integers would overflow
                sums = cls(sparse_gram(wide, zero), wide.T @ B, np.asarray(wide.sum(axis=0)).ravel())
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

    def moments(self, n_points: int, code_total: Floats, *, centred: bool) -> Moments:
        """Return the moments of all points, about their mean or about 0."""
        if not centred:
            zero, rounding = np.zeros(len(self.total)), 16 * rounding_of(np.float64)
            return Moments(n_points, zero, self.gram, self.cross, np.zeros_like(code_total), rounding)
        mean, target_mean = self.total / n_points, code_total / n_points
        gram = self.gram - n_points * np.outer(mean, mean)
        cross = self.cross - n_points * np.outer(mean, target_mean)
        return Moments(n_points, mean, gram, cross, target_mean, after_products=True)


@dataclass(frozen=True)
class Stream:
    """Everything that is kept from past chunks.

    label_names: Label names in order of first appearance; None for the columns of an indicator matrix.
    starts (chunks + 1,): Number of the first point of each chunk, and the number of points.
    codes (points, bytes), code_total (c,): All codes, packed, and their sum.
    sums: Sums that the method needs, of shape (c, c), or (n_labels, c), to which new labels add rows.
    point_labels (points, n_labels): Labels of all points, for methods that need them again; otherwise no rows.
    """

    label_names: tuple[Any, ...] | None
    n_labels: int
    starts: Integers
    codes: Codes
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

    def with_labels(self, labels: LabelSets) -> tuple[Stream, LabelSets]:
        """Return the stream with rows for new labels, and the label sets with labels numbered as in the stream."""
        names, number_of = extend_names(self.label_names, self.n_labels if self.n_chunks else 0, labels)
        n_labels = len(number_of) if names is None else len(names)
        if names is not None:
            parts = np.ones(len(labels.labels)), number_of[labels.labels], labels.starts
            renumbered = sp.csr_array(parts, shape=(labels.n_sets, n_labels))
            renumbered.sort_indices()
            labels = replace(labels, names=names, n_labels=n_labels, labels=renumbered.indices.astype(np.int32))
        sums = {
            name: np.pad(total, ((0, n_labels - len(total)), (0, 0))) if has_label_rows(name) else total
            for name, total in self.sums.items()
        }
        old = self.point_labels
        wider = sp.csr_array((old.data, old.indices, old.indptr), shape=(old.shape[0], n_labels))
        return replace(self, label_names=names, n_labels=n_labels, sums=sums, point_labels=wider), labels


def has_label_rows(name: str) -> bool:
    """Return whether a sum has one row per label: its first letter is L or G."""
    return name[0] in "LG"


@dataclass(eq=False, repr=False, kw_only=True)
class OnlineHasher(Method):
    """A method that learns codes from labels, chunk by chunk, and linear hash functions from all chunks so far.

    Subclasses name the sums that they need in ``_sum_names`` and learn a chunk's codes in `_learn_chunk`.
    """

    chunk_size: PositiveInt | None = None
    init: Literal["random", "labels"] = "random"
    ridge: RidgeOrAuto = 0.0
    fit_intercept: bool = False

    stream_: Stream = field(init=False)

    #: Names of sums: products of two of the codes B, their real-valued counterparts V, and the label matrices L and G.
    _sum_names: ClassVar[tuple[str, ...]]
    _keeps_labels: ClassVar[bool] = False  #: Whether labels of past points are needed again.

    @classmethod
    def paper(cls, n_bits: int = 64, **changes: Any) -> Self:
        """Return the model in the authors' setting, with chunks of 2,000 points, and with ``changes`` applied."""
        return cls(**{"n_bits": n_bits, "chunk_size": 2000, **changes})

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        label_sets = self._read_labels(labels, features)
        n_points, stream = label_sets.n_points, self._empty_stream()
        # The last chunk also takes the remainder, as published.
        size = min(n_points, int(self.chunk_size or n_points))
        bounds = [*range(0, n_points - size + 1, size), n_points]
        with progress(self.verbose) as bar:
            for start, stop in bar.track(list(itertools.pairwise(bounds)), "chunks"):
                chunk = {name: matrix[start:stop] for name, matrix in features.items()}
                stream = self._learn(stream, chunk, label_sets.take(np.arange(start, stop)))
        self._set_fitted(stream)

    def partial_fit(self, modalities: Any, labels: Any = None) -> Self:
        """Learn from one more chunk of points, without access to earlier ones.

        Codes of earlier points do not change; hash functions are fitted to all points so far. The first call starts a
        new model. Calls after `fit` or `load` continue the model.

        Parameters
        ----------
        modalities, labels
            As for `DLFH.partial_fit`.

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
        is_fitted = hasattr(self, "stream_")
        with (self._fitting_more if is_fitted else self._fitting)(modalities) as features:
            stream = self.stream_ if is_fitted else self._empty_stream()
            self._set_fitted(self._learn(stream, features, self._read_labels(labels, features)))
        return self

    def _empty_stream(self) -> Stream:
        c = int(self.n_bits)
        sums = {name: np.zeros((0 if has_label_rows(name) else c, c)) for name in self._sum_names}
        codes = np.empty((0, n_bytes(c)), np.uint8)
        return Stream(None, 0, np.zeros(1, np.int64), codes, np.zeros(c), {}, sums, sp.csr_array((0, 0)))

    def _learn(self, stream: Stream, features: dict[str, Features], labels: LabelSets) -> Stream:
        """Return the stream after one more chunk."""
        for name, matrix in features.items():
            raise_if_not_finite(matrix, name)
        stream, labels = stream.with_labels(labels)
        chunk = (LabelRows.of_label_sets if self.init == "labels" else LabelRows.of_points)(labels)
        with Workers(self.n_jobs) as workers:
            B, sums = self._learn_chunk(chunk, stream, self._generator(stream.n_chunks), workers)
        points = B[chunk.row_of_point]
        feature_sums = {name: FeatureSums.of_chunk(matrix, points, name) for name, matrix in features.items()}
        if stream.features:
            feature_sums = {name: stream.features[name] + added for name, added in feature_sums.items()}
        point_labels = stream.point_labels
        if self._keeps_labels:
            point_labels = sp.csr_array(sp.vstack([point_labels, labels.rows()[labels.set_of_point]]))
        return replace(
            stream,
            starts=np.append(stream.starts, stream.n_points + labels.n_points),
            codes=np.concatenate([stream.codes, pack(points)]),
            code_total=stream.code_total + chunk.weights @ B,
            features=feature_sums,
            sums={name: stream.sums[name] + added for name, added in sums.items()},
            point_labels=point_labels,
        )

    @abstractmethod
    def _learn_chunk(
        self, chunk: LabelRows, past: Stream, rng: np.random.Generator, workers: Workers
    ) -> tuple[Floats, dict[str, Floats]]:
        """Return the codes of a chunk's rows as -1.0 and +1.0, and the sums over the chunk."""

    def _set_fitted(self, stream: Stream) -> None:
        learner, centred = LinearRidge(self.ridge, fit_intercept=self.fit_intercept), bool(self.fit_intercept)
        self.hash_functions_ = {
            name: learner.function(UNSCALED, sums.moments(stream.n_points, stream.code_total, centred=centred), name)
            for name, sums in stream.features.items()
        }
        self.stream_ = stream
        self.codes_ = dict.fromkeys(stream.features, stream.codes)

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        config, arrays = super()._to_parts()
        stream = self.stream_
        names = plain_names(stream.label_names)
        config["label_names"] = None if names is None else list(names)
        arrays |= {"stream/starts": stream.starts, "stream/code_total": stream.code_total}
        arrays |= {f"stream/sums/{name}": total for name, total in stream.sums.items()}
        for name, sums in stream.features.items():
            arrays |= {f"stream/{part}/{name}": getattr(sums, part) for part in ("gram", "cross", "total")}
        if self._keeps_labels:
            arrays["stream/label_starts"] = stream.point_labels.indptr.astype(np.int64)
            arrays["stream/labels"] = stream.point_labels.indices.astype(np.int32)
        arrays["stream/n_labels"] = np.array([stream.n_labels])
        return config, arrays

    def _restore(self, config: dict[str, Any], arrays: dict[str, Array]) -> None:
        super()._restore(config, arrays)
        c, codes = int(self.n_bits), self.codes_[self.modalities_[0]]
        names = config["label_names"]
        n_labels = int(check_array(arrays, "stream/n_labels", np.int64, (1,))[0])
        if n_labels < 1 or (names is not None and len({*(plain_names(names) or ())}) != n_labels):
            raise ValueError(f"the label names must be {n_labels} distinct strings or numbers")
        starts = check_array(arrays, "stream/starts", np.int64, (None,))
        if starts[0] != 0 or starts[-1] != len(codes) or (np.diff(starts) < 1).any():
            raise ValueError("the chunk bounds do not match the codes")
        features = {}
        for name, d in self.n_features_.items():
            shapes = {"gram": (d, d), "cross": (d, c), "total": (d,)}
            parts = {key: check_array(arrays, f"stream/{key}/{name}", np.float64, shapes[key]) for key in shapes}
            features[name] = FeatureSums(**parts)
        sums = {
            name: check_array(arrays, f"stream/sums/{name}", np.float64, (n_labels if has_label_rows(name) else c, c))
            for name in self._sum_names
        }
        point_labels = sp.csr_array((0, n_labels))
        if self._keeps_labels:
            label_starts, labels = arrays["stream/label_starts"], arrays["stream/labels"]
            check_label_lists(label_starts, labels, n_labels)
            if len(label_starts) != len(codes) + 1:
                raise ValueError("the label lists do not match the codes")
            point_labels = sp.csr_array((np.ones(len(labels)), labels, label_starts), shape=(len(codes), n_labels))
        code_total = check_array(arrays, "stream/code_total", np.float64, (c,))
        label_names = None if names is None else tuple(names)
        self.stream_ = Stream(label_names, n_labels, starts, codes, code_total, features, sums, point_labels)
