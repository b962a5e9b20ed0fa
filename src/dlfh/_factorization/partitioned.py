"""Algorithm 1 with eq. (5) and (6) over label sets that are partitioned across workers.

Updating a row needs its labels and the m sampled columns, but no other row. The sorted label sets are therefore split
into parts, each in the memory of a worker. The coordinating process knows the number of sets and points of each part,
draws the columns, and broadcasts their labels and codes in each half-iteration. It draws and counts as `solver` does,
in integers, so the codes are bit for bit the same for any partition. The functions from `_sampled_keys` on run on the
workers.
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

from dlfh import _kernels
from dlfh._arrays import Codes, Integers
from dlfh._factorization import solver
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.solver import Columns, LabelRows, PairWeights, Sample, other_modalities, pair_weight
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh.blocks.base import BlockValues
from dlfh.codes import n_bytes, pad_to_words, random_codes

_PART_SETS = 1 << 16  #: Approximate number of label sets in a part.
_MIN_PARTS = 8  #: Minimum number of parts, to occupy all workers, unless there are fewer blocks.
_SETS_FOR_BOUNDS = 64  #: Label sets sampled from each block to find the bounds of the parts.
_DRAWN_ROWS = 1 << 20  #: Number of random codes drawn at a time.


@dataclass(frozen=True)
class PartitionedLabels:
    """Distinct, sorted label sets of point blocks, split into parts, with the number of sets and points per part."""

    parts: BlockValues
    n_blocks: int
    sizes: Integers
    points: Integers
    pair_weights: PairWeights = None

    @classmethod
    def from_blocks(cls, blocks: BlockValues, pair_weights: PairWeights = None) -> PartitionedLabels:
        """Partition the label sets of blocks of points, which are `LabelSets` with the same indicator columns."""
        sampled = blocks.map(_sampled_keys).results()
        n_sets = sum(size for size, _ in sampled)
        n_parts = max(-(-n_sets // _PART_SETS), min(len(blocks), _MIN_PARTS))
        keys = sorted({key for _, block_keys in sampled for key in block_keys})
        bounds = sorted({keys[len(keys) * number // n_parts] for number in range(1, n_parts)} - {keys[0]})
        parts = blocks.map(functools.partial(_cut, bounds)).transpose(len(bounds) + 1, _Part.merge)
        sizes, points = np.array(parts.map(operator.attrgetter("sets.n_sets", "sets.n_points")).results(), np.int64).T
        return cls(parts, len(blocks), sizes, points, pair_weights)

    @property
    def n_sets(self) -> int:
        return int(self.sizes.sum())

    @property
    def n_points(self) -> int:
        return int(self.points.sum())

    def similar_share(self, n_modalities: int) -> float:
        """Return the weighted share of similar pairs, counted like `LabelRows.similar_share`."""
        stride = solver.share_stride(self.n_sets)
        firsts = [int(-start % stride) for start in _starts(self.sizes)]
        chosen = self.parts.map(functools.partial(_Part.strided, stride=stride), BlockValues(firsts)).combine(_merged)
        counts = self.parts.map_reduce(_Part.count_similar, operator.add, chosen)
        pairs = itertools.combinations(range(n_modalities), 2)
        counts = counts * sum(pair_weight(self.pair_weights, a, b) for a, b in pairs)
        return float(counts[1] / max(counts.sum(), 1))


@dataclass(frozen=True)
class _State:
    """Codes of a part's label sets by modality, and the flips and received bytes of its last half-iteration."""

    codes: tuple[Codes, ...]
    flips: int = 0
    received: int = 0


#: Sampled columns of each other modality: label sets, weights and codes.
Picked = list[tuple[LabelSets, Integers, Codes]]


@dataclass(frozen=True)
class _Part:
    """Label sets of a part and, for each block of points, the numbers of its sets here. Methods run on the workers."""

    sets: LabelSets
    numbers: list[Integers]

    @classmethod
    def merge(cls, pieces: list[LabelSets]) -> _Part:
        return cls(*LabelSets.merge(pieces))

    def strided(self, first: int, *, stride: int) -> LabelSets:
        return self.sets.select(np.arange(first, self.sets.n_sets, stride))

    def count_similar(self, chosen: LabelSets) -> Integers:
        return solver.count_similar(chosen, self.sets)

    def start(self, draws: Sequence[tuple[np.random.Generator, int, int]], *, n_bits: int) -> _State:
        codes = [random_codes(copy.deepcopy(rng), stop, n_bits)[start:] for rng, start, stop in draws]
        return _State(tuple(pad_to_words(code) for code in codes))

    def pick(self, state: _State, places: Sequence[Integers], *, others: list[int], weights: list[int]) -> Picked:
        picked, ends = [], np.cumsum(self.sets.counts)
        for b, weight, sampled in zip(others, weights, places, strict=True):
            rows, counts = np.unique(np.searchsorted(ends, sampled, side="right"), return_counts=True)
            picked.append((self.sets.select(rows), counts * weight, state.codes[b][rows]))
        return picked

    def update(self, state: _State, columns: Columns, *, model: LatentFactorModel, modality: int) -> _State:
        updated = state.codes[modality].copy()
        with Workers(1) as workers:
            flips = solver.update(model, updated, LabelRows.of_label_sets(self.sets), columns, workers)
        codes = (*state.codes[:modality], updated, *state.codes[modality + 1 :])
        received = sum(array.nbytes for array in (columns.codes, columns.weights, *columns.lists))
        return _State(codes, flips, received)

    def codes_by_block(self, state: _State, *, width: int) -> list[tuple[Codes, ...]]:
        return [tuple(code[rows, :width] for code in state.codes) for rows in self.numbers]


@dataclass
class PartitionedFactorization:
    """Learned codes of partitioned label sets, with statistics of the iterations.

    flips: Number of bits changed in each iteration.
    received: Maximum number of bytes that a part received in each iteration.
    objective: Empty, because there are too many pairs to evaluate it.
    """

    parts: PartitionedLabels
    states: BlockValues
    n_bits: int
    n_codes: int
    flips: list[int] = field(default_factory=list)
    received: list[int] = field(default_factory=list)
    objective: tuple[float, ...] = ()

    def codes_of_points(self, blocks: BlockValues) -> list[BlockValues]:
        """Return the codes of each block's points, by modality."""
        answers = self.parts.parts.map(functools.partial(_Part.codes_by_block, width=n_bytes(self.n_bits)), self.states)
        by_block = answers.transpose(self.parts.n_blocks, _all_codes)
        return [blocks.map(functools.partial(_codes_of_points, number), by_block) for number in range(self.n_codes)]


def factorize_partitioned(
    model: LatentFactorModel,
    parts: PartitionedLabels,
    n_codes: int,
    *,
    max_iter: int,
    sample: Sample,
    early_stopping: bool = False,
    on_iteration: Callable[[], None] = lambda: None,
) -> PartitionedFactorization:
    """Learn the same codes as `random_start` and `factorize`, by Algorithm 1 with sampled columns from random codes.

    The sample's generator also draws the random codes. ``n_codes`` is 1 if the modalities share one code.
    """
    draws = [list(_generators(sample.rng, parts.sizes, model.n_bits)) for _ in range(n_codes)]
    start = functools.partial(_Part.start, n_bits=model.n_bits)
    states = parts.parts.map(start, BlockValues(list(zip(*draws, strict=True))))
    result = PartitionedFactorization(parts, states, model.n_bits, n_codes)
    for _ in range(max_iter):
        flips = received = 0
        for modality in range(n_codes):
            others = other_modalities(modality, n_codes)
            weights = [pair_weight(parts.pair_weights, modality, b) for b in others]
            places = [_places(parts.points, sample) for _ in others]
            pick = functools.partial(_Part.pick, others=others, weights=weights)
            picked = parts.parts.map(pick, result.states, BlockValues(list(zip(*places, strict=True))))
            update_part = functools.partial(_Part.update, model=model, modality=modality)
            result.states = parts.parts.map(update_part, result.states, picked.combine(_columns))
            summary = result.states.map(operator.attrgetter("flips", "received")).results()
            flips += sum(part_flips for part_flips, _ in summary)
            received += max(part_bytes for _, part_bytes in summary)
        result.flips.append(flips)
        result.received.append(received)
        on_iteration()
        if flips == 0 and early_stopping:
            break
    return result


def _starts(sizes: Integers) -> list[int]:
    return [0, *np.cumsum(sizes)[:-1].tolist()]


def _generators(
    rng: np.random.Generator, sizes: Integers, n_bits: int
) -> Iterator[tuple[np.random.Generator, int, int]]:
    """Yield a generator for each part that reproduces its rows of ``random_codes(rng, all rows, n_bits)``, and bounds.

    All rows are also drawn and discarded here, so that ``rng`` ends in the same state. Four rows use a whole number of
    random words, so the generator is copied at multiples of four rows.
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
    """Draw the same points as `LabelRows`; return their places in each part."""
    n_points = int(points.sum())
    places = np.sort(sample.rng.choice(n_points, min(sample.size, n_points), replace=False))
    ends = np.cumsum(points)
    by_part = np.split(places, np.searchsorted(places, ends[:-1]))
    return [part - start for part, start in zip(by_part, [0, *ends], strict=False)]


def _sampled_keys(sets: LabelSets) -> tuple[int, list[tuple[int, ...]]]:
    chosen = np.linspace(0, sets.n_sets - 1, min(sets.n_sets, _SETS_FOR_BOUNDS)).astype(np.int64)
    return sets.n_sets, [sets.labels_of(number) for number in np.unique(chosen).tolist()]


def _cut(bounds: Sequence[tuple[int, ...]], sets: LabelSets) -> list[LabelSets]:
    ends = [bisect.bisect_left(range(sets.n_sets), bound, key=sets.labels_of) for bound in bounds]
    return [sets.select(np.arange(start, stop)) for start, stop in itertools.pairwise([0, *ends, sets.n_sets])]


def _merged(parts: list[LabelSets]) -> LabelSets:
    return LabelSets.merge(parts)[0]


def _columns(picked: list[Picked]) -> Columns:
    sets, weights, codes = zip(*(column for modality in zip(*picked, strict=True) for column in modality), strict=True)
    weight = np.concatenate(weights)
    lists = _kernels.invert_lists(*LabelSets.stacked(sets), np.arange(len(weight)), sets[0].n_labels)
    return Columns(np.concatenate(codes), weight, lists)


def _all_codes(parts: list[tuple[Codes, ...]]) -> tuple[Codes, ...]:
    return tuple(np.concatenate(codes) for codes in zip(*parts, strict=True))


def _codes_of_points(number: int, sets: LabelSets, codes: tuple[Codes, ...]) -> Codes:
    return np.ascontiguousarray(codes[number][sets.set_of_point])
