"""Codes of label sets: those that were learned, and of a new set, one learned against them while they stay as they are.

With the other modality's codes fixed, the rows of U do not interact (eq. (3)). So a label set that training never saw
needs no training: its row is climbed alone, by exact steps, against the codes of the sets that there are, each counted
as often as points have it. The code depends on the labels and the model alone, not on what else is asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._factorization.label_rows import Columns, LabelRows, update
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh.codes import Codes, n_bytes, pad_to_words, random_codes
from dlfh.errors import InputError

__all__ = ["LabelCodes"]

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Exact steps raise the objective, so they end; what is left after so many rounds is next to nothing.
_MOST_ROUNDS = 100

#: With sampled columns there is no such end; more rounds gain nothing (docs/defaults.md).
_SAMPLED_ROUNDS = 10

#: New label sets that are compared at once with all that there are.
_NEW_AT_ONCE = 256


@dataclass(frozen=True)
class LabelCodes:
    """The codes of label sets, and how codes of new ones are learned.

    Attributes
    ----------
    model : LatentFactorModel
        The likelihood that the codes were learned by.
    names : tuple or None
        The labels' names; None where labels are the columns of an indicator matrix.
    n_labels : int
    starts, labels : ndarray of int64 (n_sets + 1,) and int32
        Set g has the labels ``labels[starts[g]:starts[g + 1]]``, in rising order.
    weights : ndarray of int64 (modalities, modalities, n_sets)
        What a set counts for in the second modality when a code of the first is learned.
    codes : tuple of ndarray of uint8 (n_sets, bytes), one per modality
        A single array where the modalities share one code.
    """

    model: LatentFactorModel
    names: tuple[Any, ...] | None
    n_labels: int
    starts: Integers
    labels: npt.NDArray[np.int32]
    weights: Integers
    codes: tuple[Codes, ...]

    @classmethod
    def of(
        cls, rows: LabelRows, codes: Sequence[Codes], model: LatentFactorModel, n_modalities: int
    ) -> LabelCodes | None:
        """Keep what was learned: of the rows that have a set, the first one's code is the set's.

        None where labels have names that a file cannot hold: neither texts nor numbers.
        """
        sets = rows.labels
        names = (
            None if sets.names is None else [getattr(name, "tolist", lambda name=name: name)() for name in sets.names]
        )
        if names is not None and not _are_names(names, sets.n_labels):
            return None
        first = np.full(sets.n_sets, len(rows), np.int64)
        np.minimum.at(first, rows.set_of_row, np.arange(len(rows)))
        by_set = LabelRows.of_label_sets(sets, present=rows.present, pair_weights=rows.pair_weights)
        weights = np.zeros((n_modalities, n_modalities, sets.n_sets), np.int64)
        for a in range(n_modalities):
            for b in range(n_modalities):
                if a != b:
                    weights[a, b] = by_set.pair_weight(a, b) * by_set.weights_in(b)
        own = tuple(np.ascontiguousarray(code[first]) for code in codes)
        return cls(
            model, None if names is None else tuple(names), sets.n_labels, sets.starts, sets.labels, weights, own
        )

    @property
    def n_sets(self) -> int:
        return len(self.starts) - 1

    def codes_of(self, labels: Any, workers: Workers) -> tuple[list[Codes], Mask]:
        """Return the codes of points with some labels, by modality, and whether their labels say one.

        Labels that training never saw say nothing and are left out. A point that has no others has a code of zeros,
        and is marked as False.
        """
        wanted = [self._numbers(row) for row in self._rows_of(labels)]
        distinct = sorted({*wanted})
        known = self._set_numbers
        new = [key for key in distinct if key and key not in known]
        learned = self._learn(new, workers)
        place = known | {key: self.n_sets + number for number, key in enumerate(new)}
        said = np.array([bool(key) for key in wanted], bool)
        rows = np.array([place[key] if key else 0 for key in wanted], np.int64)
        answers = []
        for m in range(len(self.weights)):
            mine = m if len(self.codes) > 1 else 0
            codes = np.concatenate([self.codes[mine], learned[mine]])[rows]
            codes[~said] = 0
            answers.append(codes)
        return answers, said

    def grown(
        self,
        labels: LabelSets,
        pair_weights: Integers | None,
        rng: np.random.Generator,
        workers: Workers,
        likelihood: Callable[[LabelRows, int], LatentFactorModel],
        sample_size: Callable[[LabelRows], int | None] = lambda rows: None,
    ) -> tuple[LabelCodes, Integers]:
        """Return this with more points counted and their new label sets learned, and the set of each of these points.

        Codes that there are stay. Those of new sets are learned together, by exact steps against the old ones and each
        other, each set counted as often as points have it now. New labels come after those that there are.

        Parameters
        ----------
        labels : LabelSets
            Of the new points, in the form of the first ones.
        pair_weights : ndarray of int64 (modalities, modalities), optional
            As for `LabelRows`.
        rng : numpy Generator
            Draws where sets start that share nothing with any other.
        likelihood : callable
            Returns the likelihood for all points, by which the new codes are learned.
        sample_size : callable
            Returns how many points an update looks at; None for all.
        """
        names, number_of = self._names_with(labels)
        own = [
            tuple(sorted(number_of[labels.labels[start:stop]].tolist()))
            for start, stop in itertools.pairwise(labels.starts.tolist())
        ]
        known = self._set_numbers
        new = [key for key in own if key not in known]
        place = known | {key: self.n_sets + number for number, key in enumerate(new)}
        number = np.array([place[key] for key in own], np.int64)
        sets = replace(self, names=names, n_labels=len(names) if names else self.n_labels)._with(new)
        counts = np.zeros(sets.n_sets, np.int64)
        np.add.at(counts, number, labels.counts)
        rows = LabelRows.of_label_sets(sets, pair_weights=pair_weights)
        weights = np.pad(self.weights, ((0, 0), (0, 0), (0, len(new))))
        for a, b in itertools.permutations(range(len(weights)), 2):
            weights[a, b] += rows.pair_weight(a, b) * counts
        a, b = next((a, b) for a, b in itertools.permutations(range(len(weights)), 2) if rows.pair_weight(a, b))
        sets = replace(sets, counts=weights[a, b] // rows.pair_weight(a, b))
        rows = LabelRows.of_label_sets(sets, pair_weights=pair_weights)
        model = likelihood(rows, len(weights))
        grown = replace(self, model=model, names=names, n_labels=sets.n_labels, weights=weights)
        codes = grown._learn_together(new, sets, sample_size(rows), rng, workers)
        return replace(grown, starts=sets.starts, labels=sets.labels, codes=codes), number[labels.set_of_point]

    def _names_with(self, labels: LabelSets) -> tuple[tuple[Any, ...] | None, Integers]:
        """Return all labels' names, new ones last, and the number of each of the given labels."""
        if (self.names is None) != (labels.names is None):
            raise InputError(
                "labels must come in the same form as before: one is an indicator matrix, the other is not"
            )
        if self.names is None or labels.names is None:
            if labels.n_labels != self.n_labels:
                raise InputError(f"labels has {labels.n_labels} label columns but earlier chunks had {self.n_labels}")
            return None, np.arange(self.n_labels)
        given = [getattr(name, "tolist", lambda name=name: name)() for name in labels.names]
        names = (*self.names, *(name for name in given if name not in self._number_of))
        if not _are_names([*names], len(names)):
            raise InputError("labels must be texts or numbers that a file can hold")
        number = {name: index for index, name in enumerate(names)}
        return names, np.array([number[name] for name in given], np.int64)

    def _learn_together(
        self,
        new: Sequence[tuple[int, ...]],
        sets: LabelSets,
        sample_size: int | None,
        rng: np.random.Generator,
        workers: Workers,
    ) -> tuple[Codes, ...]:
        """Return the codes that there are, followed by those of new sets."""
        width, n_old = n_bytes(self.model.n_bits), self.n_sets
        if not new:
            return self.codes
        everything = np.arange(sets.n_sets)
        all_rows = LabelRows(sets, everything, everything, sets.counts)
        new_rows = LabelRows(sets, np.arange(len(new)), n_old + np.arange(len(new)), sets.counts[n_old:])
        nearest, shares = self._nearest(new)
        codes = []
        for own in self.codes:
            start = own[nearest]
            start[~shares] = random_codes(rng, int((~shares).sum()), self.model.n_bits)
            codes.append(pad_to_words(np.concatenate([own, start])))
        exact = replace(self.model, step="exact")
        for _ in range(_MOST_ROUNDS if sample_size is None else _SAMPLED_ROUNDS):
            flips = 0
            for m, own in enumerate(codes):
                others = [b for b in range(len(codes)) if b != m] or [0]
                weights = [self.weights[m, b if len(codes) > 1 else 1] for b in others]
                drawn = [_columns(weight, sample_size, rng) for weight in weights]
                chosen, counted = [rows for rows, _ in drawn], [counts for _, counts in drawn]
                columns = Columns.gather(all_rows, chosen, counted, [codes[b] for b in others])
                moved = own[n_old:].copy()
                flips += update(exact, moved, new_rows, columns, workers)
                own[n_old:] = moved
            if not flips:
                break
        return tuple(np.ascontiguousarray(own[:, :width]) for own in codes)

    def _rows_of(self, labels: Any) -> list[list[Any]]:
        """Return the labels of each point as a list."""
        if sp.issparse(labels) or (isinstance(labels, np.ndarray) and labels.ndim == 2):
            if self.names is not None or labels.shape[1] != self.n_labels:
                raise InputError(f"labels must be lists of names, or an indicator matrix of {self.n_labels} columns")
            matrix = sp.csr_array(labels)
            matrix.eliminate_zeros()
            return [matrix.indices[start:stop].tolist() for start, stop in itertools.pairwise(matrix.indptr.tolist())]
        if isinstance(labels, (str, bytes)) or not isinstance(labels, (Sequence, np.ndarray)):
            raise InputError(f"labels must be a list with the labels of each point, got {type(labels).__name__}")
        return [[row] if isinstance(row, str) or np.isscalar(row) else list(row) for row in labels]

    def _numbers(self, labels: Sequence[Any]) -> tuple[int, ...]:
        """Return the numbers of those labels that are known, in rising order."""
        if self.names is None:
            columns = {int(label) for label in labels if isinstance(label, (int, np.integer))}
            return tuple(sorted(columns & {*range(self.n_labels)}))
        return tuple(sorted({self._number_of[label] for label in labels if label in self._number_of}))

    @cached_property
    def _set_numbers(self) -> dict[tuple[int, ...], int]:
        bounds = itertools.pairwise(self.starts.tolist())
        return {tuple(self.labels[start:stop].tolist()): number for number, (start, stop) in enumerate(bounds)}

    @cached_property
    def _number_of(self) -> dict[Any, int]:
        return {name: number for number, name in enumerate(self.names or ())}

    def _learn(self, new: Sequence[tuple[int, ...]], workers: Workers) -> list[Codes]:
        """Learn codes of new sets, each alone, against all that there are."""
        width = n_bytes(self.model.n_bits)
        if not new:
            return [np.empty((0, width), np.uint8) for _ in self.codes]
        sets = self._with(new)
        old, more = np.arange(self.n_sets), self.n_sets + np.arange(len(new))
        old_rows = LabelRows(sets, old, old, np.ones(len(old), np.int64))
        new_rows = LabelRows(sets, np.arange(len(new)), more, np.ones(len(new), np.int64))
        nearest, _ = self._nearest(new)
        exact = replace(self.model, step="exact")
        padded = [pad_to_words(code) for code in self.codes]
        learned = []
        for m, own in enumerate(padded):
            others = [b for b in range(len(padded)) if b != m] or [0]
            weights = [self.weights[m, b if len(padded) > 1 else 1] for b in others]
            chosen = [np.flatnonzero(weight) for weight in weights]
            columns = Columns.gather(
                old_rows,
                chosen,
                [weight[rows] for weight, rows in zip(weights, chosen, strict=True)],
                [padded[b] for b in others],
            )
            codes = own[nearest].copy()
            for _ in range(_MOST_ROUNDS):
                if not update(exact, codes, new_rows, columns, workers):
                    break
            learned.append(np.ascontiguousarray(codes[:, :width]))
        return learned

    def _with(self, new: Sequence[tuple[int, ...]]) -> LabelSets:
        """Return the sets that there are, followed by new ones."""
        lengths = [len(key) for key in new]
        starts = np.concatenate([self.starts, self.starts[-1] + np.cumsum(lengths)]).astype(np.int64)
        labels = np.concatenate([self.labels, *(np.array(key, np.int32) for key in new)])
        n = self.n_sets + len(new)
        return LabelSets(self.names, self.n_labels, starts, labels, np.arange(n), np.ones(n, np.int64))

    def _nearest(self, new: Sequence[tuple[int, ...]]) -> tuple[Integers, Mask]:
        """Return the sets that share most with new ones, for their size, and whether they share anything.

        They are where the climb starts.
        """
        old = sp.csr_array(
            (np.ones(len(self.labels), np.int32), self.labels, self.starts), (self.n_sets, self.n_labels)
        )
        by_label, sizes = old.T.tocsr(), np.diff(self.starts)
        nearest, shares = np.zeros(len(new), np.int64), np.zeros(len(new), bool)
        for start in range(0, len(new), _NEW_AT_ONCE):
            keys = new[start : start + _NEW_AT_ONCE]
            lengths = np.array([len(key) for key in keys], np.int64)
            labels = np.array([*itertools.chain(*keys)], np.int32)
            bounds = np.concatenate([[0], np.cumsum(lengths)])
            own = sp.csr_array((np.ones(len(labels), np.int32), labels, bounds), (len(keys), self.n_labels))
            shared = (own @ by_label).toarray()
            best = np.argmax(shared / np.maximum(sizes + lengths[:, None] - shared, 1), axis=1)
            rows = slice(start, start + len(keys))
            nearest[rows], shares[rows] = best, shared[np.arange(len(keys)), best] > 0
        return nearest, shares

    # Files

    def to_parts(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return what a file holds of it: configuration and arrays."""
        config = {
            "names": None if self.names is None else list(self.names),
            "scale": float(self.model.scale),
            "similar_weight": float(self.model.similar_weight),
            "bias": float(self.model.bias),
            "n_labels": int(self.n_labels),
        }
        arrays: dict[str, npt.NDArray[Any]] = {
            "starts": self.starts,
            "labels": self.labels,
            "weights": self.weights,
        }
        return config, arrays | {f"codes/{number}": code for number, code in enumerate(self.codes)}

    @classmethod
    def from_parts(
        cls, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]], n_bits: int, n_modalities: int
    ) -> LabelCodes:
        """Return what `to_parts` gave; what is wrong with it raises ValueError, before anything follows it."""
        names = config["names"]
        numbers = [config["scale"], config["similar_weight"], config["bias"]]
        if not all(isinstance(number, (int, float)) and np.isfinite(number) for number in numbers):
            raise ValueError("its likelihood is not of finite numbers")
        if numbers[0] <= 0 or numbers[1] <= 0:
            raise ValueError("its likelihood has a scale or a weight that is not positive")
        n_labels = config["n_labels"]
        if not isinstance(n_labels, int) or not 1 <= n_labels < 2**31:
            raise ValueError("it does not say how many labels there are")
        if names is not None and not _are_names(names, n_labels):
            raise ValueError("its labels do not have a name each")
        codes = tuple(arrays[f"codes/{number}"] for number in range(n_modalities) if f"codes/{number}" in arrays)
        found = cls(
            LatentFactorModel(n_bits, float(numbers[0]), "exact", float(numbers[1]), float(numbers[2])),
            None if names is None else tuple(names),
            n_labels,
            arrays["starts"],
            arrays["labels"],
            arrays["weights"],
            codes,
        )
        found._check(n_bits, n_modalities)
        return found

    def _check(self, n_bits: int, n_modalities: int) -> None:
        """Raise ValueError unless all that indexes memory is in range."""
        starts, labels = self.starts, self.labels
        right = starts.dtype == np.int64 and labels.dtype == np.int32 and self.weights.dtype == np.int64
        right = right and starts.ndim == labels.ndim == 1 and len(starts) > 1
        if not right or starts[0] != 0 or starts[-1] != len(labels) or (np.diff(starts) < 0).any():
            raise ValueError("its label sets are not whole")
        if len(labels) and not 0 <= labels.min() <= labels.max() < self.n_labels:
            raise ValueError("its label sets have labels out of range")
        rising = np.diff(labels.astype(np.int64)) > 0
        inner = np.ones(len(labels), bool)
        inner[starts[:-1][starts[:-1] < len(labels)]] = False
        if not rising[inner[1:]].all():
            raise ValueError("its label sets are not in order")
        if self.weights.shape != (n_modalities, n_modalities, self.n_sets) or not self.weights.min(initial=0) >= 0:
            raise ValueError("its label sets do not have a weight each")
        if self.weights.max(initial=0) >= 2**32 or len(self.codes) not in (1, n_modalities):
            raise ValueError("its label sets do not have a weight or a code each")
        for codes in self.codes:
            if codes.dtype != np.uint8 or codes.shape != (self.n_sets, n_bytes(n_bits)):
                raise ValueError("its label sets do not have a code each")
            if (codes[:, -1] & np.uint8((1 << -n_bits % 8) - 1)).any():
                raise ValueError(f"its label sets have codes of more than {n_bits} bits")


def _columns(weights: Integers, sample_size: int | None, rng: np.random.Generator) -> tuple[Integers, Integers]:
    """Return sets to compare with, all or sampled by their weights, and what each counts for."""
    total = int(weights.sum())
    if sample_size is None or sample_size >= total:
        rows = np.flatnonzero(weights)
        return rows, weights[rows]
    places = rng.choice(total, sample_size, replace=False)
    return np.unique(np.searchsorted(np.cumsum(weights), places, side="right"), return_counts=True)


def _are_names(names: Any, n_labels: int) -> bool:
    """Return whether these are texts or numbers, one for each label."""
    plain = isinstance(names, list) and all(isinstance(name, (str, int, float)) for name in names)
    return plain and len(names) == len({*names}) == n_labels
