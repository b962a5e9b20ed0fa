"""Labels as supervision: points grouped by label set.

The similarity S_ij is 1 if points i and j share a label. It depends on their label sets only, so algorithms work on the
distinct label sets, and the n x n matrix S is never formed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh import _kernels
from dlfh._arrays import Array, Integers, Mask
from dlfh._sparse import compressed_rows
from dlfh.errors import InputError

Labels = npt.NDArray[np.int32]


@dataclass(frozen=True)
class LabelSets:
    """Distinct label sets of a collection of points, in lexicographic order.

    names: Names of the labels; None if they are the columns of an indicator matrix.
    n_labels: Number of distinct labels.
    starts, labels (n_sets + 1,): Set g has the labels ``labels[starts[g]:starts[g + 1]]``, in increasing order.
    set_of_point (n_points,): Set number of each point; empty if the points are in blocks elsewhere.
    counts (n_sets,): Number of points with each label set.
    """

    names: tuple[Any, ...] | None
    n_labels: int
    starts: Integers
    labels: Labels
    set_of_point: Integers
    counts: Integers

    @property
    def n_points(self) -> int:
        return int(self.counts.sum())

    @property
    def n_sets(self) -> int:
        return len(self.counts)

    @property
    def lists(self) -> tuple[Integers, Labels]:
        """``starts`` and ``labels``."""
        return self.starts, self.labels

    def inverted_lists(self, sets: Integers | None = None) -> tuple[Integers, Labels]:
        """Return ``starts, positions``: entries ``positions[starts[l]:starts[l + 1]]`` of ``sets`` have label l."""
        chosen = np.arange(self.n_sets) if sets is None else sets
        starts, positions = _kernels.invert_lists(*self.lists, chosen, self.n_labels)
        return starts, positions

    @classmethod
    def from_labels(cls, labels: Any, *, name: str = "labels", allow_empty: bool = False) -> LabelSets:
        """Read labels in any supported form.

        labels: An indicator matrix of 0 and 1 (dense or sparse, one row per point); or one class id per point (numbers
            or strings); or one list of labels per point (numbers or strings). Labels are numbered by column, or in the
            sorted order of their names.
        name: Name of the argument in error messages.
        allow_empty: Whether to accept data in which no point has a label.
        """
        names, n_labels, starts, flat = _read(labels, name)
        if len(starts) == 1:
            raise InputError(f"{name} is empty")
        if len(flat) == 0 and not allow_empty:
            raise InputError(f"{name} are all empty: no point has a label, so no two points are similar")
        return cls._group(names, n_labels, starts, flat)

    @classmethod
    def _group(cls, names: tuple[Any, ...] | None, n_labels: int, starts: Integers, flat: Labels) -> LabelSets:
        """Group points, given by their labels, into distinct label sets."""
        first, set_of_point = _distinct_rows(starts, flat, n_labels)
        points = cls(names, n_labels, starts, flat, set_of_point, np.ones(len(starts) - 1, np.int64))
        return points._regrouped(first, set_of_point)

    def take(self, points: Integers) -> LabelSets:
        """Return the label sets of the given points."""
        return self._regrouped(*np.unique(self.set_of_point[points], return_inverse=True))

    def _regrouped(self, sets: Integers, set_of_point: Integers) -> LabelSets:
        counts = np.bincount(set_of_point, minlength=len(sets)).astype(np.int64)
        return replace(self.select(sets), set_of_point=set_of_point.astype(np.int64), counts=counts)

    def rows(self) -> sp.csr_array:
        """Return the sets as an indicator matrix of shape (n_sets, n_labels)."""
        return sp.csr_array((np.ones(len(self.labels)), self.labels, self.starts), shape=(self.n_sets, self.n_labels))

    def unit_rows(self) -> sp.csr_array:
        """Return the sets as rows of unit length, whose products are cosines; the empty set is a row of zeros."""
        rows, lengths = self.rows(), np.diff(self.starts)
        rows.data /= np.sqrt(np.repeat(lengths, lengths))
        return rows

    def unit_rows_of_points(self) -> sp.csr_array:
        """Return the label set of each point as a row of unit length, shape (n_points, n_labels)."""
        return self.unit_rows()[self.set_of_point]

    def similar(self, rows: Integers, columns: Integers) -> npt.NDArray[np.uint8]:
        """Return S for two lists of set numbers, shape (rows, columns): 1 if the sets share a label, otherwise 0."""
        S = np.empty((len(rows), len(columns)), np.uint8)
        _kernels.shared_labels(rows, self.lists, self.inverted_lists(), columns.astype(np.int32), self.n_sets, 1, S)
        return S

    def sample_pairs(self, n_pairs: int, rng: np.random.Generator) -> tuple[Integers, Integers, Mask]:
        """Draw ordered pairs of distinct points, half of them similar if both kinds exist.

        Dissimilar pairs are drawn uniformly. A similar pair shares a label drawn uniformly from the labels of its first
        point, so pairs that share several labels are slightly more frequent.
        """
        near = self._draw(n_pairs // 2, rng, self._draw_sharing, similar=True)
        far = self._draw(n_pairs - len(near[0]), rng, self._draw_any, similar=False)
        if len(far[0]) + len(near[0]) < n_pairs:
            near = self._draw(n_pairs - len(far[0]), rng, self._draw_sharing, similar=True)
        first, second = (np.concatenate(parts) for parts in zip(near, far, strict=True))
        if len(first) == 0:
            raise InputError("labels has fewer than two points, so there are no pairs to learn from")
        return first, second, np.arange(len(first)) < len(near[0])

    def _draw(
        self, n_pairs: int, rng: np.random.Generator, draw: Callable[..., tuple[Integers, Integers]], *, similar: bool
    ) -> tuple[Integers, Integers]:
        """Draw similar or dissimilar pairs until there are enough, but at most 50 times."""
        first, second = np.empty(0, np.int64), np.empty(0, np.int64)
        indicator = self.rows()
        for _ in range(50):
            if len(first) >= n_pairs:
                break
            a, b = draw(max(n_pairs, 64), rng)
            shared = indicator[self.set_of_point[a]].multiply(indicator[self.set_of_point[b]]).sum(axis=1)
            keep = (a != b) & ((np.asarray(shared).ravel() > 0) == similar)
            first, second = np.concatenate([first, a[keep]]), np.concatenate([second, b[keep]])
        return first[:n_pairs], second[:n_pairs]

    def _draw_any(self, n_pairs: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
        return rng.integers(self.n_points, size=n_pairs), rng.integers(self.n_points, size=n_pairs)

    def _draw_sharing(self, n_pairs: int, rng: np.random.Generator) -> tuple[Integers, Integers]:
        lengths = np.diff(self.starts)[self.set_of_point]
        labelled = np.flatnonzero(lengths)
        if len(labelled) == 0:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        first = labelled[rng.integers(len(labelled), size=n_pairs)]
        place = self.starts[self.set_of_point[first]] + (rng.random(n_pairs) * lengths[first]).astype(np.int64)
        lists, members = self.inverted_lists(self.set_of_point)
        label = self.labels[place]
        sizes = lists[label + 1] - lists[label]
        return first, members[lists[label] + (rng.random(n_pairs) * sizes).astype(np.int64)].astype(np.int64)

    def aligned_with(self, other: LabelSets, *, name: str, other_name: str) -> tuple[LabelSets, LabelSets]:
        """Return both label sets with a common numbering of the labels."""
        if (self.names is None) != (other.names is None):
            raise InputError(
                f"{name} and {other_name} must have the same form, but only one of them is an indicator matrix"
            )
        if self.names is None or other.names is None:
            if self.n_labels != other.n_labels:
                raise InputError(f"{name} has {self.n_labels} label columns but {other_name} has {other.n_labels}")
            return self, other
        union = _sorted_names({*self.names, *other.names}, f"{name} and {other_name}")
        return self.renumbered(union), other.renumbered(union)

    def without_points(self) -> LabelSets:
        """Return the sets and their counts without ``set_of_point``."""
        return replace(self, set_of_point=np.empty(0, np.int64))

    @classmethod
    def merge(cls, parts: Sequence[LabelSets]) -> tuple[LabelSets, list[Integers]]:
        """Merge parts with equal label numbers; return the sets without points, and each part's new set numbers."""
        both = cls._group(parts[0].names, parts[0].n_labels, *cls.stacked(parts))
        counts = np.zeros(both.n_sets, np.int64)
        np.add.at(counts, both.set_of_point, np.concatenate([part.counts for part in parts]))
        numbers = np.split(both.set_of_point, np.cumsum([part.n_sets for part in parts])[:-1])
        return replace(both, set_of_point=np.empty(0, np.int64), counts=counts), numbers

    @staticmethod
    def stacked(parts: Sequence[LabelSets]) -> tuple[Integers, Labels]:
        """Return ``starts`` and ``labels`` of the concatenated sets of all parts."""
        ends = np.cumsum([len(part.labels) for part in parts])
        later = [part.starts[1:] + before for part, before in zip(parts, [0, *ends], strict=False)]
        return np.concatenate([[0], *later]).astype(np.int64), np.concatenate([part.labels for part in parts])

    def select(self, sets: Integers) -> LabelSets:
        """Return the label sets with the given numbers; the result has no ``set_of_point``."""
        lengths = np.diff(self.starts)[sets]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        place = np.repeat(self.starts[sets] - starts[:-1], lengths) + np.arange(starts[-1])
        selected = replace(self, starts=starts, labels=self.labels[place], counts=self.counts[sets])
        return selected.without_points()

    def labels_of(self, number: int) -> tuple[int, ...]:
        """Return the labels of one set; sets are sorted by these tuples."""
        return tuple(self.labels[self.starts[number] : self.starts[number + 1]].tolist())

    def numbers_of(self, other: LabelSets) -> Integers:
        """Return the number that each set of ``other`` has among these sets; raise InputError if one is missing."""
        known, others = self.aligned_with(other, name="labels", other_name="a block of labels")
        _, number = _distinct_rows(*LabelSets.stacked([known, others]), known.n_labels)
        place = np.full(int(number.max()) + 1, -1, np.int64)
        place[number[: known.n_sets]] = np.arange(known.n_sets)
        found = place[number[known.n_sets :]]
        if (found < 0).any():
            raise InputError("labels changed during reading: a block has new label sets")
        return found

    def renumbered(self, names: tuple[Any, ...]) -> LabelSets:
        """Return the sets with labels numbered by a sorted superset of the names."""
        assert self.names is not None
        number = {label: index for index, label in enumerate(names)}
        new = np.array([number[label] for label in self.names], dtype=np.int32)
        labels = new[self.labels]  # both are sorted by name, so the labels of each set stay sorted
        return LabelSets(names, len(names), self.starts, labels, self.set_of_point, self.counts)


def are_label_names(names: Any, n_labels: int) -> bool:
    """Return whether a value from a saved model is a list of distinct names, one for each label."""
    plain = isinstance(names, list) and all(isinstance(name, (str, int, float)) for name in names)
    return plain and len(names) == len({*names}) == n_labels


def _read(labels: Any, name: str) -> tuple[tuple[Any, ...] | None, int, Integers, Labels]:
    """Return names, number of labels, and the labels of each point in CSR form."""
    if sp.issparse(labels):
        return _read_sparse(labels, name)
    if isinstance(labels, np.ma.MaskedArray):
        raise InputError(
            f"{name} is a masked array, which is not supported; use [] or a row of zeros for points without labels"
        )
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise InputError(
            f"{name} must be an indicator matrix, class ids or lists of labels, got {type(labels).__name__}"
        )
    if not hasattr(labels, "__array__"):
        labels = list(labels)
        if not all(map(_is_scalar, labels)):
            return _read_lists(labels, name)
        _sorted_names(set(labels), name)
    labels = np.asarray(labels)
    if labels.size == 0:
        raise InputError(f"{name} is empty")
    if labels.ndim == 1:
        if labels.dtype == object and not all(map(_is_scalar, labels)):
            return _read_lists(list(labels), name)
        return _read_classes(labels, name)
    if labels.ndim == 2:
        return _read_indicator(labels, name)
    raise InputError(f"{name} must have one or two dimensions, got {labels.ndim}")


def _is_scalar(label: Any) -> bool:
    return label is None or np.isscalar(label) or (isinstance(label, np.ndarray) and label.ndim == 0)


def _read_sparse(labels: Any, name: str) -> tuple[None, int, Integers, Labels]:
    if labels.ndim != 2:
        raise InputError(f"{name} is sparse and must have two dimensions, got {labels.ndim}")
    matrix = compressed_rows(labels, name).copy()
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    if 0 in matrix.shape:
        raise InputError(f"{name} is empty")
    if not np.all(matrix.data == 1):
        bad = matrix.data[matrix.data != 1][0].item()
        raise InputError(f"{name} is an indicator matrix and must contain only 0 and 1, found {bad}")
    return None, matrix.shape[1], matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32)


def _read_indicator(labels: Array, name: str) -> tuple[None, int, Integers, Labels]:
    present = labels if labels.dtype == bool else labels == 1
    if labels.dtype.kind == "f" or (labels.dtype.kind in "iu" and (labels.min() < 0 or labels.max() > 1)):
        wrong = ~(present | (labels == 0))
        if wrong.any():
            row, column = np.argwhere(wrong)[0]
            hint = "; pass class ids as a one-dimensional array" if labels.shape[1] == 1 else ""
            raise InputError(
                f"{name} is two-dimensional, so it must be an indicator matrix of 0 and 1; "
                f"found {labels[row, column].item()!r} in row {row}{hint}"
            )
    starts = np.concatenate([[0], np.cumsum(np.count_nonzero(present, axis=1))]).astype(np.int64)
    return None, labels.shape[1], starts, np.nonzero(present)[1].astype(np.int32)


def _read_classes(labels: Array, name: str) -> tuple[tuple[Any, ...], int, Integers, Labels]:
    if labels.dtype.kind == "f" and len(wrong := np.flatnonzero(~np.isfinite(labels) | (labels != np.floor(labels)))):
        bad = f"found {labels[wrong[0]].item()!r} in row {wrong[0]}"
        raise InputError(f"{name} is one-dimensional and must contain integer class ids, {bad}")
    if labels.dtype.kind in "biufUS":
        distinct, numbers = np.unique(labels, return_inverse=True)
        names = tuple(distinct.tolist())
    else:
        names = _sorted_names(set(labels.tolist()), name)
        index = {label: number for number, label in enumerate(names)}
        numbers = np.array([index[label] for label in labels.tolist()])
    return names, len(names), np.arange(len(labels) + 1, dtype=np.int64), numbers.astype(np.int32)


def _read_lists(labels: list[Any], name: str) -> tuple[tuple[Any, ...], int, Integers, Labels]:
    for row, entry in enumerate(labels):
        if _is_scalar(entry) or not isinstance(entry, Iterable):
            raise InputError(
                f"{name} contains lists of labels, but row {row} is {entry!r}; use [] for a point without labels"
            )
    rows = [list(entry) for entry in labels]
    lengths = {len(row) for row in rows}
    try:
        vocabulary = {label for row in rows for label in row}
    except TypeError:
        raise InputError(f"{name} must be lists of numbers or strings, got nested lists") from None
    if len(rows) > 1 and len(lengths) == 1 and min(lengths) > 1 and vocabulary <= {0, 1}:
        raise InputError(f"{name} looks like an indicator matrix; pass it as an array, numpy.asarray({name})")
    names = _sorted_names(vocabulary, name)
    number = {label: index for index, label in enumerate(names)}
    sets = [sorted({number[label] for label in row}) for row in rows]
    starts = np.concatenate([[0], np.cumsum([len(row) for row in sets])]).astype(np.int64)
    flat = np.fromiter((label for row in sets for label in row), np.int32, count=int(starts[-1]))
    return names, len(names), starts, flat


def _sorted_names(vocabulary: set[Any], name: str) -> tuple[Any, ...]:
    for label in vocabulary:
        if not isinstance(label, (str, bytes, Real)) or label != label:  # None, NaN, complex numbers, ...
            raise InputError(f"{name} must be numbers or strings, found {label!r}; use [] for a point without labels")
    try:
        return tuple(sorted(vocabulary))
    except TypeError:
        by_type = {type(label): label for label in vocabulary}
        examples = " and ".join(map(repr, list(by_type.values())[:2]))
        raise InputError(f"{name} mixes strings and numbers: {examples}") from None


def _distinct_rows(starts: Integers, flat: npt.NDArray[np.int32], n_labels: int) -> tuple[Integers, Integers]:
    """Return the first occurrence of each distinct row, in lexicographic order, and the number of each row.

    The 64-bit hash of a row is the sum of one random word per label. Rows with equal hashes are compared, and only
    distinct rows are sorted.
    """
    lengths = np.diff(starts)
    seed = 0
    while True:
        words = np.random.default_rng(seed).integers(0, 2**64, size=n_labels, dtype=np.uint64)
        running = np.concatenate([np.zeros(1, np.uint64), np.cumsum(words[flat], dtype=np.uint64)])
        hashes = running[starts[1:]] - running[starts[:-1]]
        order = np.argsort(hashes)  # not stable, and therefore several times as fast as `np.unique`
        is_new = np.append(True, np.diff(hashes[order]) != 0)
        first = np.minimum.reduceat(order, np.flatnonzero(is_new))
        number = np.empty(len(hashes), np.int64)
        number[order] = np.cumsum(is_new) - 1
        representative = first[number]
        if np.array_equal(lengths, lengths[representative]):
            offset = np.repeat(starts[representative] - starts[:-1], lengths)
            if np.array_equal(flat, flat[np.arange(len(flat)) + offset]):
                break
        seed += 1  # hash collision: draw other words
    rows = [flat[starts[row] : starts[row + 1]].tolist() for row in first]
    ordered = np.array(sorted(range(len(rows)), key=rows.__getitem__), dtype=np.int64)
    rank = np.empty(len(ordered), np.int64)
    rank[ordered] = np.arange(len(ordered))
    return first[ordered], rank[number]
