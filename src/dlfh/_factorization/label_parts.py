"""Codes of more label sets than one machine should hold: in parts, with one small broadcast for each half-iteration.

A row's update needs its own labels and the m sampled columns, no other row. So label sets are dealt out to parts by
their order, each part in the memory of some worker; who learns knows how many sets and points each part has, draws the
columns, and has their labels and codes sent to all parts. Everything is drawn and counted as `label_rows` and `solver`
do it over all sets in memory, in whole numbers: codes are the same, bit for bit, whatever the parts are.
"""

from __future__ import annotations

import bisect
import copy
import functools
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._factorization.label_rows import Columns, LabelRows, count_similar, share_step, update
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.supervision import Sample
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh.blocks.values import BlockValues
from dlfh.codes import Codes, n_bytes, pad_to_words, random_codes

__all__ = ["LabelParts", "LearnedParts", "factorize_parts"]

Integers = npt.NDArray[np.int64]
PairWeights = Integers | None

#: Label sets of a part, about.
_PART_SETS = 1 << 16

#: Parts there are at least, if there are as many blocks, so that every worker has something to do.
_FEWEST_PARTS = 8

#: Sets of each block that say where parts begin.
_SETS_FOR_BOUNDS = 64

#: Random codes that are drawn at once.
_DRAWN_ROWS = 1 << 20


@dataclass(frozen=True)
class LabelParts:
    """Distinct label sets in parts: each part's come before the next one's, in the order of all.

    Attributes
    ----------
    parts : BlockValues of _Part
    n_blocks : int
        Of how many blocks of points they were counted.
    sizes, points : ndarray of int64
        How many sets each part has, and how many points have them.
    pair_weights : ndarray of int64 (modalities, modalities), optional
        As for `LabelRows`.
    """

    parts: BlockValues
    n_blocks: int
    sizes: Integers
    points: Integers
    pair_weights: PairWeights = None

    @classmethod
    def of(cls, blocks: BlockValues, pair_weights: PairWeights = None) -> LabelParts:
        """Return the sets of blocks of points, which are `LabelSets` whose labels are columns of an indicator."""
        some = blocks.map(_some_keys).results()
        n_sets = sum(size for size, _ in some)
        n_parts = max(-(-n_sets // _PART_SETS), min(len(blocks), _FEWEST_PARTS))
        keys = sorted({key for _, own in some for key in own})
        bounds = sorted({keys[len(keys) * number // n_parts] for number in range(1, n_parts)} - {keys[0]})
        parts = blocks.map(functools.partial(_cut, bounds)).transpose(len(bounds) + 1, _part)
        sizes, points = np.array(parts.map(_size).results(), np.int64).T
        return cls(parts, len(blocks), sizes, points, pair_weights)

    @property
    def n_sets(self) -> int:
        return int(self.sizes.sum())

    @property
    def n_points(self) -> int:
        return int(self.points.sum())

    def similar_share(self, n_modalities: int) -> float:
        """Return the share of similar pairs, counted as `LabelRows.similar_share` counts it."""
        every = share_step(self.n_sets)
        firsts = [int(-start % every) for start in _starts(self.sizes)]
        chosen = self.parts.map(functools.partial(_every, every), arguments=firsts).combine(_all_sets)
        counts = self.parts.map(_count_similar, chosen).reduce(operator.add)
        pairs = itertools.combinations(range(n_modalities), 2)
        counts = counts * sum(_pair_weight(self.pair_weights, a, b) for a, b in pairs)
        return float(counts[1] / max(counts.sum(), 1))


@dataclass(frozen=True)
class _Part:
    """Label sets, and of each block of points, which of them its sets in this part are."""

    sets: LabelSets
    numbers: list[Integers]


@dataclass(frozen=True)
class _State:
    """Where a part is: codes of its sets by modality, and what the last half-iterations flipped and received."""

    codes: tuple[Codes, ...]
    flips: int = 0
    received: int = 0


@dataclass
class LearnedParts:
    """Codes of label sets in parts, and how the learning went.

    Attributes
    ----------
    flips : list of int
        How many bits each iteration changed.
    received : list of int
        How many bytes each part received in each iteration.
    """

    parts: LabelParts
    states: BlockValues
    n_bits: int
    flips: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)

    def codes_of_points(self, blocks: BlockValues) -> list[BlockValues]:
        """Return, by modality, the codes of the points of each block."""
        answers = self.parts.parts.map(functools.partial(_codes_by_block, n_bytes(self.n_bits)), self.states)
        by_block = answers.transpose(self.parts.n_blocks, _all_codes)
        n_codes = self.states.map(_n_codes).results()[0]
        return [blocks.map(functools.partial(_codes_of_points, number), by_block) for number in range(n_codes)]


def factorize_parts(
    model: LatentFactorModel,
    parts: LabelParts,
    n_codes: int,
    *,
    max_iter: int,
    sample: Sample,
    early_stopping: bool = False,
    on_iteration: Callable[[], None] = lambda: None,
) -> LearnedParts:
    """Learn codes by Algorithm 1 with sampled columns, from random ones, as `factorize` does.

    Parameters
    ----------
    n_codes : int
        How many modalities have codes of their own; 1 where they share one.
    sample : Sample
        It has not been drawn from but for what came before `random_start`.
    """
    draws = [list(_generators(sample.rng, parts.sizes, model.n_bits)) for _ in range(n_codes)]
    start = functools.partial(_start, model.n_bits)
    result = LearnedParts(parts, parts.parts.map(start, arguments=list(zip(*draws, strict=True))), model.n_bits)
    for _ in range(max_iter):
        flips = received = 0
        for modality in range(n_codes):
            others = [b for b in range(n_codes) if b != modality] or [0]
            weights = [_pair_weight(parts.pair_weights, modality, b) for b in others]
            places = [_places(parts.points, sample) for _ in others]
            picked = parts.parts.map(
                functools.partial(_pick, others, weights), result.states, arguments=list(zip(*places, strict=True))
            )
            moved = functools.partial(_moved, model, modality)
            result.states = parts.parts.map(moved, result.states, picked.combine(_columns))
            summary = result.states.map(_summary).results()
            flips += sum(own for own, _ in summary)
            received += max(own for _, own in summary)
        result.flips.append(flips)
        result.received.append(received)
        on_iteration()
        if flips == 0 and early_stopping:
            break
    return result


def _starts(sizes: Integers) -> list[int]:
    return [0, *np.cumsum(sizes)[:-1].tolist()]


def _pair_weight(weights: PairWeights, a: int, b: int) -> int:
    return 1 if weights is None else int(weights[a, b])


# Here: what is drawn


def _generators(
    rng: np.random.Generator, sizes: Integers, n_bits: int
) -> Iterator[tuple[np.random.Generator, int, int]]:
    """Yield, for each part, a generator that draws its rows of ``random_codes(rng, all rows, n_bits)``, and which.

    Rows are drawn here, too, and forgotten: the generator ends where it would have. Four rows are whole words of
    random bits, so copies are made at multiples of four.
    """
    drawn, end = 0, int(sizes.sum())
    for start, size in zip(_starts(sizes), sizes.tolist(), strict=True):
        _skip(rng, start // 4 * 4 - drawn, n_bits)
        drawn = start // 4 * 4
        yield copy.deepcopy(rng), start - drawn, start - drawn + size
    _skip(rng, end - drawn, n_bits)


def _skip(rng: np.random.Generator, n_rows: int, n_bits: int) -> None:
    for start in range(0, n_rows, _DRAWN_ROWS):
        random_codes(rng, min(_DRAWN_ROWS, n_rows - start), n_bits)


def _places(points: Integers, sample: Sample) -> list[Integers]:
    """Draw points as `LabelRows` does, and say where they are among those of each part."""
    n_points = int(points.sum())
    places = np.sort(sample.rng.choice(n_points, min(sample.size, n_points), replace=False))
    ends = np.cumsum(points)
    return [
        own - start
        for own, start in zip(np.split(places, np.searchsorted(places, ends[:-1])), [0, *ends], strict=False)
    ]


# There: functions of parts


def _some_keys(sets: LabelSets) -> tuple[int, list[tuple[int, ...]]]:
    chosen = np.linspace(0, sets.n_sets - 1, min(sets.n_sets, _SETS_FOR_BOUNDS)).astype(np.int64)
    return sets.n_sets, [sets.key(number) for number in np.unique(chosen).tolist()]


def _cut(bounds: Sequence[tuple[int, ...]], sets: LabelSets) -> list[LabelSets]:
    ends = [bisect.bisect_left(range(sets.n_sets), bound, key=sets.key) for bound in bounds]
    return [sets.some(np.arange(start, stop)) for start, stop in itertools.pairwise([0, *ends, sets.n_sets])]


def _part(pieces: list[LabelSets]) -> _Part:
    return _Part(*LabelSets.together(pieces))


def _size(part: _Part) -> tuple[int, int]:
    return part.sets.n_sets, part.sets.n_points


def _every(every: int, part: _Part, first: int) -> LabelSets:
    return part.sets.some(np.arange(first, part.sets.n_sets, every))


def _all_sets(parts: list[LabelSets]) -> LabelSets:
    return LabelSets.together(parts)[0]


def _count_similar(part: _Part, chosen: LabelSets) -> Integers:
    return count_similar(chosen, part.sets)


def _start(n_bits: int, part: _Part, draws: Sequence[tuple[np.random.Generator, int, int]]) -> _State:
    codes = [random_codes(copy.deepcopy(rng), stop, n_bits)[start:] for rng, start, stop in draws]
    return _State(tuple(pad_to_words(own) for own in codes))


Picked = list[tuple[LabelSets, Integers, Codes]]


def _pick(others: list[int], pair_weights: list[int], part: _Part, state: _State, places: Sequence[Integers]) -> Picked:
    """Return sampled columns of each other modality: label sets, weights and codes."""
    picked, ends = [], np.cumsum(part.sets.counts)
    for b, weight, own in zip(others, pair_weights, places, strict=True):
        rows, counts = np.unique(np.searchsorted(ends, own, side="right"), return_counts=True)
        picked.append((part.sets.some(rows), counts * weight, state.codes[b][rows]))
    return picked


def _columns(picked: list[Picked]) -> Columns:
    """Return the columns of all parts, modality by modality."""
    columns = [column for own in zip(*picked, strict=True) for column in own]
    sets = [own for own, _, _ in columns]
    weights = np.concatenate([own for _, own, _ in columns])
    lists = _kernels.invert_lists(*LabelSets.stacked(sets), np.arange(len(weights)), sets[0].n_labels)
    return Columns(np.concatenate([own for _, _, own in columns]), weights, *lists)


def _moved(model: LatentFactorModel, modality: int, part: _Part, state: _State, columns: Columns) -> _State:
    own = state.codes[modality].copy()
    with Workers(1) as workers:
        flips = update(model, own, LabelRows.of_label_sets(part.sets), columns, workers)
    codes = (*state.codes[:modality], own, *state.codes[modality + 1 :])
    received = sum(array.nbytes for array in vars(columns).values())
    return _State(codes, flips, received)


def _summary(state: _State) -> tuple[int, int]:
    return state.flips, state.received


def _n_codes(state: _State) -> int:
    return len(state.codes)


def _codes_by_block(width: int, part: _Part, state: _State) -> list[tuple[Codes, ...]]:
    return [tuple(own[rows, :width] for own in state.codes) for rows in part.numbers]


def _all_codes(parts: list[tuple[Codes, ...]]) -> tuple[Codes, ...]:
    """Return the codes of a block's label sets: in their order, since parts are."""
    return tuple(np.concatenate(own) for own in zip(*parts, strict=True))


def _codes_of_points(number: int, sets: LabelSets, codes: tuple[Codes, ...]) -> Codes:
    return np.ascontiguousarray(codes[number][sets.set_of_point])
