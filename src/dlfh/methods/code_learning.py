"""Learn DLFH's codes: resolve parameters for the data, then run Algorithm 1 (sections 3.1 and 3.2 of the paper)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dlfh._arrays import Integers
from dlfh._factorization.label_set_codes import LabelSetCodes
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.observed_pairs import ObservedPairs
from dlfh._factorization.partitioned import PartitionedFactorization, PartitionedLabels, factorize_partitioned
from dlfh._factorization.solver import Factorization, LabelRows, Sample, factorize, random_start
from dlfh._labels import LabelSets
from dlfh._mathematics.targets import BlockTargets, Targets
from dlfh._parallel import Workers
from dlfh._progress import Bar
from dlfh._validation import check_integer
from dlfh.blocks.base import Blocks, BlockValues
from dlfh.codes import n_bytes
from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.methods.block_labels import BlockLabels
    from dlfh.methods.dlfh import DLFH

FULL_SOLVER_ROWS = 2048  #: Maximum number of rows for which ``solver="auto"`` is the full solver.
MAX_PAIR_WEIGHT = 1000  #: Maximum pair weight, so that weighted sums fit into 64-bit integers.
#: Targets of the hash functions, by modality; packed codes of the points, by modality; the factorization; and label-set
#: codes, or None if there are too many to keep.
LearnedPoints = tuple[
    dict[str, BlockTargets], dict[str, Any], Factorization | PartitionedFactorization, LabelSetCodes | None
]


class CodeLearning:
    """Learns the codes of one model's training points."""

    def __init__(self, model: DLFH, modalities: tuple[str, ...]) -> None:
        self.model = model
        self.n_modalities = len(modalities)
        self.n_codes = 1 if model.shared_code else len(modalities)
        self.pair_weights = _pair_weight_matrix(model.pair_weights, modalities)

    def rows(self, label_sets: LabelSets, **options: Any) -> LabelRows:
        """Return the rows of U and V: label sets, or points as in the paper."""
        self.check_sample_size(label_sets.n_points)
        make = LabelRows.of_label_sets if self.model.init == "labels" else LabelRows.of_points
        return make(label_sets, pair_weights=self.pair_weights, **options)

    def learn_points(
        self, labels: BlockLabels, features: Mapping[str, Blocks], rng: np.random.Generator, workers: Workers, bar: Bar
    ) -> LearnedPoints:
        """Learn the codes of points in blocks: in this process or, with very many label sets, on the workers."""
        if labels.sets is None:
            indicator = labels.aligned_with(next(iter(features.values())))
            in_parts, by_block = self.learn_in_parts(indicator, rng, bar)
            width, found = n_bytes(self.model.n_bits), in_parts.codes_of_points(by_block)
            points = [each.as_blocks(indicator.starts, width, np.uint8, "codes") for each in found]
            by_name = {name: points[index if len(points) > 1 else 0] for index, name in enumerate(features)}
            n_bits = int(self.model.n_bits)
            targets = {name: BlockTargets(each, n_bits, None, indicator) for name, each in by_name.items()}
            return targets, {name: each.lazy_result() for name, each in by_name.items()}, in_parts, None
        if labels.labels is not None and self.model.init != "labels":
            raise InputError('labels in blocks need init="labels"')
        learned, label_codes = self.learn(self.rows(labels.sets), rng, workers, bar)
        targets, codes = {}, {}
        for index, (name, blocks) in enumerate(features.items()):
            rows = labels.rows(blocks, learned.rows.row_of_point)
            distinct = Targets(learned.codes_of_rows(index), learned.rows.row_of_point, learned.n_bits)
            targets[name] = BlockTargets(rows, distinct.n_bits, distinct, labels.sets)
            mapped = rows.map(functools.partial(np.take, distinct.codes, axis=0), distinct.codes.shape[1], np.uint8)
            codes[name] = mapped.result() if labels.labels is None else mapped.lazy_result()
        return targets, codes, learned, label_codes

    def learn(
        self, supervision: LabelRows | ObservedPairs, rng: np.random.Generator, workers: Workers, bar: Bar
    ) -> tuple[Factorization, LabelSetCodes | None]:
        """Learn codes in this process; return them, and the label-set codes if the rows have labels."""
        if self.model._known_codes is not None and isinstance(supervision, LabelRows):
            return self._learn_beside(self.model._known_codes, supervision, rng, workers)
        size, likelihood = self.sample_size(supervision), self.likelihood(supervision)
        start = random_start(len(supervision), self.n_codes, int(self.model.n_bits), rng)
        options = self._iterations(size, bar) | {"track_objective": self.model.track_objective}
        learned = factorize(likelihood, supervision, start, sample_size=size, rng=rng, workers=workers, **options)
        if not isinstance(supervision, LabelRows):
            return learned, None
        return learned, LabelSetCodes.from_rows(supervision, learned.codes, likelihood, self.n_modalities)

    def _learn_beside(
        self, known: LabelSetCodes, rows: LabelRows, rng: np.random.Generator, workers: Workers
    ) -> tuple[Factorization, LabelSetCodes]:
        """Keep the codes of known label sets, and learn those of new ones against all of them."""
        by_set = replace(rows.labels, set_of_point=np.arange(rows.labels.n_sets))
        without_points = replace(known, weights=np.zeros_like(known.weights))
        rules = self.likelihood, self.sample_size
        grown, numbers = without_points.extended(by_set, self.pair_weights, rng, workers, *rules)
        codes = [each[numbers[rows.set_of_row]] for each in grown.codes]
        return Factorization(int(self.model.n_bits), codes, rows), grown

    def learn_in_parts(
        self, labels: Blocks, rng: np.random.Generator, bar: Bar
    ) -> tuple[PartitionedFactorization, BlockValues]:
        """Learn codes on the workers, for very many label sets; return them, and the label sets of each block."""
        if self.model.solver == "full" or self.model.track_objective:
            raise InputError(
                "there are too many distinct label sets to compare every pair: "
                'omit solver="full" and track_objective=True'
            )
        by_block = labels.persist(functools.partial(_label_sets_of_block, labels.shape[1]))
        parts = PartitionedLabels.from_blocks(by_block, self.pair_weights)
        size = self._n_samples(parts.n_points, parts.n_sets)
        options = self._iterations(size, bar) | {"sample": Sample(size, rng)}
        return factorize_partitioned(self.likelihood(parts), parts, self.n_codes, **options), by_block

    def likelihood(self, supervision: LabelRows | ObservedPairs | PartitionedLabels) -> LatentFactorModel:
        """Return the likelihood of section 3.1, balanced or as in the paper."""
        n_bits, scale, step = int(self.model.n_bits), float(self.model.scale), self.model.step
        if not self.model.balance:
            return LatentFactorModel(n_bits, scale, step)
        return LatentFactorModel.balanced(n_bits, scale, step, supervision.similar_share(self.n_modalities))

    def sample_size(self, supervision: LabelRows | ObservedPairs) -> int | None:
        """Return the number of points sampled for each update; None for the full solver."""
        # The cost is proportional to the number of observed pairs, so the full solver is fast.
        small = not isinstance(supervision, LabelRows) or len(supervision) <= FULL_SOLVER_ROWS
        if self.model.solver == "full" or (self.model.solver == "auto" and small):
            return None
        if not isinstance(supervision, LabelRows):
            return self._n_samples(len(supervision.row_of_point), len(supervision.row_of_point))
        return self._n_samples(supervision.labels.n_points, supervision.labels.n_sets)

    def check_sample_size(self, n_points: int) -> None:
        """Raise InputError if the model samples more points than exist."""
        size = self.model.sample_size
        if size is not None and size > n_points and self.model.solver != "full":
            raise InputError(f"sample_size is {size} but there are only {n_points} points")

    def _iterations(self, sample_size: int | None, bar: Bar) -> dict[str, Any]:
        # Exact steps with sampled columns converge in a few iterations; the full solver stops by itself.
        n = 10 if self.model.step == "exact" and sample_size is not None else 100
        n = n if self.model.max_iter is None else int(self.model.max_iter)
        return {"max_iter": n, "early_stopping": self.model.early_stopping, "on_iteration": bar.counter("codes", n)}

    def _n_samples(self, n_points: int, n_sets: int) -> int:
        if self.model.sample_size is not None:
            return int(self.model.sample_size)
        n_bits = int(self.model.n_bits)
        if self.model.step == "exact":
            return min(n_points, 16 * n_bits)  # exact steps need large samples
        # With many label sets, more samples help. With few, sampling all of them makes the solver nearly full, and it
        # stalls like the full solver.
        return min(n_points, max(1, n_bits // 2, min(n_sets, 4 * n_bits)))


def _label_sets_of_block(n_labels: int, _: int, labels: Any) -> LabelSets:
    if labels.shape[0]:
        return LabelSets.from_labels(labels, allow_empty=True)
    nothing = np.empty(0, np.int64)
    return LabelSets(None, n_labels, np.zeros(1, np.int64), np.empty(0, np.int32), nothing, nothing)


def check_pair_weights(pair_weights: Any) -> None:
    """Raise InputError for invalid pair weights; names are compared with the modalities later."""
    if pair_weights is None:
        return
    if not isinstance(pair_weights, Mapping):
        raise InputError(f'pair_weights must be a dict such as {{("image", "text"): 2}}, got {pair_weights!r}')
    for pair, weight in pair_weights.items():
        if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
            raise InputError(f'pair_weights must have keys such as ("image", "text"), got {pair!r}')
        check_integer(weight, f"pair_weights[{pair!r}]", 0, MAX_PAIR_WEIGHT)


def _pair_weight_matrix(pair_weights: Any, modalities: tuple[str, ...]) -> Integers | None:
    """Return the pair weights as a symmetric matrix (modalities, modalities)."""
    if pair_weights is None:
        return None
    weights = np.ones((len(modalities), len(modalities)), np.int64)
    np.fill_diagonal(weights, 0)
    for pair, weight in pair_weights.items():
        if not set(pair) <= set(modalities) or pair[0] == pair[1]:
            raise InputError(f"pair_weights names {pair!r}, not a pair of the modalities {sorted(modalities)}")
        a, b = (modalities.index(name) for name in pair)
        weights[a, b] = weights[b, a] = weight
    if not weights.any(axis=1).all():
        isolated = modalities[int(np.flatnonzero(~weights.any(axis=1))[0])]
        raise InputError(f"pair_weights gives weight 0 to every pair that includes modality {isolated!r}")
    return weights
