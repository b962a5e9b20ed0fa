"""Partitioned label sets have the codes of label sets in memory, bit for bit, for any partition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh import DLFH
from dlfh._factorization import partitioned
from dlfh._factorization.partitioned import PartitionedLabels, _generators
from dlfh._factorization.solver import LabelRows
from dlfh._labels import LabelSets
from dlfh._progress import progress
from dlfh.blocks.base import ArrayBlocks
from dlfh.codes import random_codes
from dlfh.errors import InputError
from dlfh.methods.code_learning import CodeLearning
from tests.strategies import seeds

cuts = st.lists(st.integers(0, 120), max_size=5).map(lambda inner: [0, *sorted(inner), 120])


def labels_of(seed: int, n_labels: int, share: float) -> Any:
    labels = (np.random.default_rng(seed).random((120, n_labels)) < share).astype(np.int8)
    labels[0, 0] = 1
    return labels


def learned(model: DLFH, labels: Any, starts: list[int], names: tuple[str, ...]) -> tuple[list[Any], Any]:
    with progress(False) as bar:
        found, blocks = CodeLearning(model, names).learn_in_parts(
            ArrayBlocks(labels, starts, "labels"), np.random.default_rng(model.random_state), bar
        )
    return [np.concatenate(codes.results()) for codes in found.codes_of_points(blocks)], found


@settings(max_examples=15)
@given(
    seeds,
    cuts,
    st.sampled_from([(4, 0.3), (12, 0.4), (291, 0.02)]),
    st.sampled_from([8, 13, 64]),
    st.sampled_from(
        [
            {},
            {"step": "bound"},
            {"balance": False},
            {"shared_code": True},
            {"sample_size": 9, "early_stopping": True, "max_iter": 30},
        ]
    ),
    st.integers(2, 3),
)
def test_partitioned_codes_equal_those_in_memory(
    seed: int, starts: list[int], shape: tuple[int, float], n_bits: int, options: dict[str, Any], n_modalities: int
) -> None:
    labels = labels_of(seed, *shape)
    weights = {("a", "b"): 2} if n_modalities == 3 else None
    model = DLFH(
        n_bits, solver="stochastic", hash_function="linear", random_state=seed, pair_weights=weights, **options
    )
    names = ("a", "b", "c")[:n_modalities]
    in_memory = DLFH(**model.get_params()).fit({name: labels.astype(float) for name in names}, labels)
    codes, found = learned(model, labels, starts, names)
    for index, name in enumerate(names):
        np.testing.assert_array_equal(codes[index if len(codes) > 1 else 0], in_memory.codes_[name])
    assert found.flips == in_memory.flips_.tolist()


@given(seeds, cuts, st.integers(1, 40))
def test_parts_preserve_the_order_of_the_label_sets(seed: int, starts: list[int], part_sets: int) -> None:
    labels = labels_of(seed, 7, 0.4)
    whole = LabelSets.from_labels(labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitioned, "_PART_SETS", part_sets)
        blocks = ArrayBlocks(labels, starts, "labels").persist(
            lambda _, block: (
                LabelSets.from_labels(block, allow_empty=True) if len(block) else whole.select(np.empty(0, np.int64))
            )
        )
        parts = PartitionedLabels.from_blocks(blocks)
    sets = [part.sets for part in parts.parts.results()]
    assert [part.labels_of(number) for part in sets for number in range(part.n_sets)] == [
        whole.labels_of(number) for number in range(whole.n_sets)
    ]
    np.testing.assert_array_equal(np.concatenate([part.counts for part in sets]), whole.counts)
    assert (parts.n_sets, parts.n_points) == (whole.n_sets, 120)
    assert parts.similar_share(2) == LabelRows.of_label_sets(whole).similar_share(2)


@given(seeds, st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(1, 70), st.integers(4, 12))
def test_parts_draw_the_rows_of_a_single_draw(seed: int, sizes: list[int], n_bits: int, at_once: int) -> None:
    whole_rng, rng = np.random.default_rng(seed), np.random.default_rng(seed)
    whole = random_codes(whole_rng, sum(sizes), n_bits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(partitioned, "_DRAWN_ROWS", at_once // 4 * 4)
        drawn = [
            random_codes(part_rng, stop, n_bits)[start:]
            for part_rng, start, stop in _generators(rng, np.array(sizes), n_bits)
        ]
    np.testing.assert_array_equal(np.concatenate(drawn), whole)
    assert rng.integers(2**63) == whole_rng.integers(2**63)


def test_a_half_iteration_broadcasts_only_the_sampled_columns() -> None:
    """With 291 labels and one label set per point, the broadcast does not grow with the number of sets."""
    labels = labels_of(0, 291, 0.02)
    sizes = []
    for n_copies in (1, 4):
        many = np.concatenate([np.roll(labels, shift, axis=1) for shift in range(n_copies)])
        model = DLFH(16, solver="stochastic", sample_size=50, random_state=0)
        _, found = learned(model, many, [0, 60, len(many)], ("a", "b"))
        n_labels = int(many.sum(axis=1).max())
        assert max(found.received) <= 2 * (50 * (8 + 8 + 4 * n_labels) + 8 * 292)
        sizes.append(max(found.received))
    assert sizes[1] < 1.2 * sizes[0]


def test_options_that_compare_all_label_sets_are_refused() -> None:
    for options in ({"solver": "full"}, {"track_objective": True}):
        with pytest.raises(InputError, match="too many distinct label sets to compare every pair"):
            learned(DLFH(8, **options), labels_of(0, 4, 0.5), [0, 120], ("a", "b"))
