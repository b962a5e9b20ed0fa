"""Codes of label sets: learned in training or, for new label sets, learned later against these codes by eq. (3).

With V fixed, the rows of U do not interact (eq. (3)). The code of each new label set is therefore learned separately,
by exact steps against the known sets, weighted by their numbers of points. It depends only on the labels and the model.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Codes, Integers, Mask
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.solver import Columns, LabelRows, PairWeights, Sample, other_modalities, pair_weight, update
from dlfh._labels import LabelSets, are_label_names
from dlfh._parallel import Workers
from dlfh.codes import n_bytes, pad_to_words, random_codes
from dlfh.errors import InputError

_MAX_ROUNDS = 100  #: Maximum number of rounds of exact steps, which converge in far fewer.
#: Rounds with sampled columns, which never converge exactly; more rounds gain nothing (docs/defaults.md).
_SAMPLED_ROUNDS = 10
_NEW_AT_ONCE = 256  #: Number of new label sets that are compared with all known sets at a time.


@dataclass(frozen=True)
class LabelSetCodes:
    """Codes of label sets, with everything needed to learn the codes of new label sets.

    weights (modalities, modalities, n_sets): Weight of each set in modality b for learning modality a, at [a, b].
    codes (n_sets, bytes): A single array if the modalities share one code.
    """

    model: LatentFactorModel
    sets: LabelSets
    weights: Integers
    codes: tuple[Codes, ...]

    @classmethod
    def from_rows(
        cls, rows: LabelRows, codes: Sequence[Codes], model: LatentFactorModel, n_modalities: int
    ) -> LabelSetCodes | None:
        """Return the code of each label set, taken from its first row; None if label names cannot be saved."""
        sets = rows.labels
        try:
            names = plain_names(sets.names)
        except InputError:
            return None
        first = np.full(sets.n_sets, len(rows), np.int64)
        np.minimum.at(first, rows.set_of_row, np.arange(len(rows)))
        by_set = LabelRows.of_label_sets(sets, present=rows.present)
        weights = np.zeros((n_modalities, n_modalities, sets.n_sets), np.int64)
        for a, b in itertools.permutations(range(n_modalities), 2):
            weights[a, b] = pair_weight(rows.pair_weights, a, b) * by_set.weights_in(b)
        set_codes = tuple(np.ascontiguousarray(code[first]) for code in codes)
        return cls(model, replace(sets.without_points(), names=names), weights, set_codes)

    def encode(self, labels: Any, workers: Workers) -> tuple[list[Codes], Mask]:
        """Return the codes of points with the given labels, by modality, and a mask of the points that have one.

        Labels unknown to the model are ignored. A point without known labels has a code of zeros.
        """
        rows = self._rows(labels)
        if self.sets.names is None:
            keys = [*map(self._numbers, rows)]
        else:  # most label sets occur several times
            known = {row: self._numbers(row) for row in {*map(tuple, rows)}}
            keys = [known[tuple(row)] for row in rows]
        new = [key for key in sorted(set(keys)) if key and key not in self._set_numbers]
        learned = self._learn(new, workers)
        number = self._numbered(new)
        is_known = np.array([bool(key) for key in keys], bool)
        numbers = np.array([number[key] if key else 0 for key in keys], np.int64)
        codes = [np.concatenate(parts)[numbers] for parts in zip(self.codes, learned, strict=True)]
        for each in codes:
            each[~is_known] = 0
        return codes if len(codes) > 1 else codes * len(self.weights), is_known

    def extended(
        self,
        labels: LabelSets,
        pair_weights: PairWeights,
        rng: np.random.Generator,
        workers: Workers,
        likelihood: Callable[[LabelRows], LatentFactorModel],
        sample_size: Callable[[LabelRows], int | None],
    ) -> tuple[LabelSetCodes, Integers]:
        """Add points; return the codes of all label sets, and the label set of each new point.

        Existing codes do not change. New label sets are learned together, by exact steps against the old sets and each
        other, weighted by their numbers of points. Sets that share no label with an old set start from random codes.
        """
        names, number_of = extend_names(self.sets.names, self.sets.n_labels, labels)
        keys = [tuple(sorted(number_of[list(labels.labels_of(i))].tolist())) for i in range(labels.n_sets)]
        new = [key for key in keys if key not in self._set_numbers]
        number = self._numbered(new)
        sets_of = np.array([number[key] for key in keys], np.int64)
        named = replace(self.sets, names=plain_names(names), n_labels=len(names) if names else self.sets.n_labels)
        sets = _with(named, new)
        counts = np.zeros(sets.n_sets, np.int64)
        np.add.at(counts, sets_of, labels.counts)
        weights = np.pad(self.weights, ((0, 0), (0, 0), (0, len(new))))
        pairs = list(itertools.permutations(range(len(weights)), 2))
        for a, b in pairs:
            weights[a, b] += pair_weight(pair_weights, a, b) * counts
        a, b = next(pair for pair in pairs if pair_weight(pair_weights, *pair))
        sets = replace(sets, counts=weights[a, b] // pair_weight(pair_weights, a, b))
        rows = LabelRows.of_label_sets(sets, pair_weights=pair_weights)
        size = sample_size(rows)
        extended = replace(self, model=likelihood(rows), weights=weights)
        codes = extended._learn_together(sets, None if size is None else Sample(size, rng), rng, workers)
        return replace(extended, sets=sets, codes=codes), sets_of[labels.set_of_point]

    def _learn(self, new: Sequence[tuple[int, ...]], workers: Workers) -> list[Codes]:
        width = n_bytes(self.model.n_bits)
        if not new:
            return [np.empty((0, width), np.uint8) for _ in self.codes]
        sets = _with(self.sets, new)
        all_rows, new_rows = LabelRows.of_label_sets(sets), self._new_rows(sets)
        nearest, _ = self._nearest(sets)
        exact = replace(self.model, step="exact")
        padded = [pad_to_words(code) for code in self.codes]
        learned = []
        for m, known in enumerate(padded):
            columns = self._columns(m, all_rows, padded)
            codes = known[nearest]
            for _ in range(_MAX_ROUNDS):
                if not update(exact, codes, new_rows, columns, workers):
                    break
            learned.append(np.ascontiguousarray(codes[:, :width]))
        return learned

    def _learn_together(
        self, sets: LabelSets, sample: Sample | None, rng: np.random.Generator, workers: Workers
    ) -> tuple[Codes, ...]:
        """Learn the codes of the new sets against all sets; return the codes of all sets."""
        width, n_old = n_bytes(self.model.n_bits), self.sets.n_sets
        if sets.n_sets == n_old:
            return self.codes
        all_rows, new_rows = LabelRows.of_label_sets(sets), self._new_rows(sets)
        nearest, shares = self._nearest(sets)
        codes = []
        for known in self.codes:
            start = known[nearest]
            start[~shares] = random_codes(rng, int((~shares).sum()), self.model.n_bits)
            codes.append(pad_to_words(np.concatenate([known, start])))
        exact = replace(self.model, step="exact")
        for _ in range(_MAX_ROUNDS if sample is None else _SAMPLED_ROUNDS):
            flips = 0
            for m, modality_codes in enumerate(codes):
                columns = self._columns(m, all_rows, codes, sample)
                moved = modality_codes[n_old:].copy()
                flips += update(exact, moved, new_rows, columns, workers)
                modality_codes[n_old:] = moved
            if not flips:
                break
        return tuple(np.ascontiguousarray(code[:, :width]) for code in codes)

    def _new_rows(self, sets: LabelSets) -> LabelRows:
        new = np.arange(self.sets.n_sets, sets.n_sets)
        return LabelRows(sets, np.arange(len(new)), new, sets.counts[new])

    def _columns(self, modality: int, rows: LabelRows, codes: Sequence[Codes], sample: Sample | None = None) -> Columns:
        """Return the label sets of the other modalities: all with a positive weight, or a sample drawn by weight."""
        chosen, counts, others = [], [], other_modalities(modality, len(codes))
        for b in others:
            weights = self.weights[modality, b if len(codes) > 1 else 1]
            total = int(weights.sum())
            if sample is None or sample.size >= total:
                drawn = np.flatnonzero(weights)
                drawn_counts = weights[drawn]
            else:
                places = sample.rng.choice(total, sample.size, replace=False)
                drawn = np.searchsorted(np.cumsum(weights), places, side="right")
                drawn, drawn_counts = np.unique(drawn, return_counts=True)
            chosen.append(drawn)
            counts.append(drawn_counts)
        return Columns.gather(rows, chosen, counts, [codes[b] for b in others])

    def _nearest(self, sets: LabelSets) -> tuple[Integers, Mask]:
        """Return the known set with the largest Jaccard index for each new set, and whether they share a label."""
        n_old, rows, sizes = self.sets.n_sets, sets.rows(), np.diff(sets.starts)
        by_label, new, new_sizes = rows[:n_old].T.tocsr(), rows[n_old:], sizes[n_old:, None]
        nearest, shares = np.zeros(len(new_sizes), np.int64), np.zeros(len(new_sizes), bool)
        for start in range(0, len(new_sizes), _NEW_AT_ONCE):
            part = slice(start, start + _NEW_AT_ONCE)
            shared = (new[part] @ by_label).toarray()
            best = np.argmax(shared / np.maximum(sizes[:n_old] + new_sizes[part] - shared, 1), axis=1)
            nearest[part], shares[part] = best, shared[np.arange(len(best)), best] > 0
        return nearest, shares

    def _rows(self, labels: Any) -> list[list[Any]]:
        if sp.issparse(labels) or (isinstance(labels, np.ndarray) and labels.ndim == 2):
            n_labels = self.sets.n_labels
            if self.sets.names is not None or labels.shape[1] != n_labels:
                raise InputError(f"labels must be lists of names, or an indicator matrix of {n_labels} columns")
            matrix = sp.csr_array(labels)
            matrix.eliminate_zeros()
            return [matrix.indices[start:stop].tolist() for start, stop in itertools.pairwise(matrix.indptr.tolist())]
        if isinstance(labels, (str, bytes)) or not isinstance(labels, (Sequence, np.ndarray)):
            raise InputError(f"labels must be a list with the labels of each point, got {type(labels).__name__}")
        return [row if type(row) is list else _as_list(row) for row in labels]

    def _numbers(self, labels: Sequence[Any]) -> tuple[int, ...]:
        """Return the numbers of the known labels, in ascending order."""
        if self.sets.names is None:
            columns = {int(label) for label in labels if isinstance(label, (int, np.integer))}
            return tuple(sorted(columns & {*range(self.sets.n_labels)}))
        return tuple(sorted({self._label_numbers[label] for label in labels if label in self._label_numbers}))

    def _numbered(self, new: Sequence[tuple[int, ...]]) -> dict[tuple[int, ...], int]:
        return self._set_numbers | {key: number for number, key in enumerate(new, self.sets.n_sets)}

    @cached_property
    def _set_numbers(self) -> dict[tuple[int, ...], int]:
        return {self.sets.labels_of(number): number for number in range(self.sets.n_sets)}

    @cached_property
    def _label_numbers(self) -> dict[Any, int]:
        return {name: number for number, name in enumerate(self.sets.names or ())}

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        config = {
            "names": None if self.sets.names is None else list(self.sets.names),
            "scale": float(self.model.scale),
            "similar_weight": float(self.model.similar_weight),
            "bias": float(self.model.bias),
            "n_labels": int(self.sets.n_labels),
        }
        arrays: dict[str, Array] = {"starts": self.sets.starts, "labels": self.sets.labels, "weights": self.weights}
        return config, arrays | {f"codes/{number}": code for number, code in enumerate(self.codes)}

    @classmethod
    def from_parts(
        cls, config: dict[str, Any], arrays: dict[str, Array], n_bits: int, n_modalities: int
    ) -> LabelSetCodes:
        """Restore codes from `to_parts`; raise ValueError for any part that is invalid."""
        names, n_labels = config["names"], config["n_labels"]
        scale, similar_weight, bias = numbers = [config[name] for name in ("scale", "similar_weight", "bias")]
        if not all(isinstance(number, (int, float)) and np.isfinite(number) for number in numbers):
            raise ValueError("likelihood parameters must be finite")
        if scale <= 0 or similar_weight <= 0:
            raise ValueError("the scale and the weight of the likelihood must be positive")
        if not isinstance(n_labels, int) or not 1 <= n_labels < 2**31:
            raise ValueError("the number of labels is missing or out of range")
        if names is not None and not are_label_names(names, n_labels):
            raise ValueError(f"the label names must be {n_labels} distinct strings or numbers")
        starts, labels, weights = arrays["starts"], arrays["labels"], arrays["weights"]
        codes = tuple(arrays[f"codes/{number}"] for number in range(n_modalities) if f"codes/{number}" in arrays)
        check_label_lists(starts, labels, n_labels)
        n_sets = len(starts) - 1
        is_start = np.zeros(len(labels) + 1, bool)
        is_start[starts] = True
        if n_sets < 1 or not (np.diff(labels.astype(np.int64)) > 0)[~is_start[1:-1]].all():
            raise ValueError("the labels of a label set are not in ascending order")
        if weights.dtype != np.int64 or weights.shape != (n_modalities, n_modalities, n_sets):
            raise ValueError("each label set must have one weight")
        if weights.min(initial=0) < 0 or weights.max(initial=0) >= 2**32:
            raise ValueError("label-set weights are out of range")
        fits = [code.dtype == np.uint8 and code.shape == (n_sets, n_bytes(n_bits)) for code in codes]
        if len(codes) not in (1, n_modalities) or not all(fits):
            raise ValueError("each label set must have one code")
        if any((code[:, -1] & np.uint8((1 << -n_bits % 8) - 1)).any() for code in codes):
            raise ValueError(f"label-set codes have more than {n_bits} bits")
        model = LatentFactorModel(n_bits, float(scale), "exact", float(similar_weight), float(bias))
        label_names = None if names is None else tuple(names)
        sets = LabelSets(label_names, n_labels, starts, labels, np.empty(0, np.int64), np.ones(n_sets, np.int64))
        return cls(model, sets, weights, codes)


def _with(sets: LabelSets, new: Sequence[tuple[int, ...]]) -> LabelSets:
    """Return label sets followed by new ones, each with one point."""
    starts = np.concatenate([sets.starts, sets.starts[-1] + np.cumsum([len(key) for key in new])]).astype(np.int64)
    labels = np.concatenate([sets.labels, np.array([*itertools.chain(*new)], np.int32)])
    n = len(starts) - 1
    return replace(sets, starts=starts, labels=labels, set_of_point=np.arange(n), counts=np.ones(n, np.int64))


def check_label_lists(starts: Array, labels: Array, n_labels: int) -> None:
    """Raise ValueError unless ``labels[starts[i]:starts[i + 1]]`` is a valid list of labels for every row i."""
    if starts.dtype != np.int64 or labels.dtype != np.int32 or starts.ndim != 1 or labels.ndim != 1:
        raise ValueError("the label lists have the wrong type or shape")
    if not len(starts) or starts[0] != 0 or starts[-1] != len(labels) or (np.diff(starts) < 0).any():
        raise ValueError("the label lists are incomplete")
    if len(labels) and not 0 <= labels.min() <= labels.max() < n_labels:
        raise ValueError("the label lists have labels out of range")


def extend_names(
    names: tuple[Any, ...] | None, n_labels: int, labels: LabelSets
) -> tuple[tuple[Any, ...] | None, Integers]:
    """Append new label names to ``names`` (none if ``n_labels`` is 0); return all, and the new number of each label."""
    if n_labels and (names is None) != (labels.names is None):
        raise InputError(
            "labels must have the same form as in earlier calls: either always or never an indicator matrix"
        )
    if labels.names is None:
        if n_labels and labels.n_labels != n_labels:
            raise InputError(f"labels has {labels.n_labels} label columns but earlier points had {n_labels}")
        return None, np.arange(labels.n_labels)
    names = tuple(dict.fromkeys([*(names or ()), *labels.names]))
    number = {name: index for index, name in enumerate(names)}
    return names, np.array([number[name] for name in labels.names], np.int64)


def plain_names(names: Iterable[Any] | None) -> tuple[str | int | float, ...] | None:
    """Return label names as Python strings and numbers, which can be saved; raise InputError for other types."""
    if names is None:
        return None
    plain = tuple(name.item() if isinstance(name, np.generic) else name for name in names)
    for name in plain:
        if not isinstance(name, (str, int, float)):
            raise InputError(f"label names must be strings or numbers to be saved, got {name!r}")
    return plain


def _as_list(labels: Any) -> list[Any]:
    return [labels] if isinstance(labels, str) or np.isscalar(labels) else list(labels)
