"""Blocks are mapped in order and merged as a tree, whatever the cuts."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh.blocks import ArrayBlocks
from dlfh.blocks.base import MappedBlocks
from dlfh.errors import InputError
from tests.strategies import seeds

cuts = st.lists(st.integers(0, 40), max_size=6).map(lambda inner: [0, *sorted(inner), 40])


@given(cuts)
def test_results_are_merged_in_the_order_of_rows(starts: list[int]) -> None:
    blocks = ArrayBlocks(np.arange(40), starts, "numbers")
    beside = ArrayBlocks(10 * np.arange(40), starts, "more")
    merged = blocks.map_reduce(lambda start, a, b: [(start, a.tolist(), b.tolist())], operator.add, beside)
    assert [start for start, _, _ in merged] == sorted({*starts[:-1]} - {40})
    assert [value for _, own, _ in merged for value in own] == list(range(40))
    assert [value for _, _, other in merged for value in other] == list(range(0, 400, 10))


def test_the_tree_is_as_deep_as_its_logarithm() -> None:
    """A result is the depth of its part of the tree: sums over n blocks pass through log n additions."""
    blocks = ArrayBlocks(np.arange(100), range(101), "numbers")
    assert blocks.map_reduce(lambda *_: 0, lambda a, b: max(a, b) + 1) == 7


@given(seeds, cuts, st.booleans())
def test_rows_are_taken_and_the_whole_is_put_together(seed: int, starts: list[int], sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    matrix: Any = rng.integers(0, 3, (40, 4)).astype(np.float32)
    rows = np.flatnonzero(rng.random(40) < 0.3)
    rows = rows if len(rows) else np.array([7])
    if sparse:
        taken = ArrayBlocks(sp.csr_array(matrix), starts, "matrix").take(rows)
        np.testing.assert_array_equal(taken.toarray(), matrix[rows])
        return
    blocks = ArrayBlocks(matrix, starts, "matrix")
    np.testing.assert_array_equal(blocks.take(rows), matrix[rows])
    doubled = blocks.map(lambda block: 2 * block[:, :1], 1, np.float32)
    np.testing.assert_array_equal(np.asarray(doubled), 2 * matrix[:, :1])
    np.testing.assert_array_equal(doubled.result(), 2 * matrix[:, :1])
    added = blocks.map(lambda block, beside: block + beside, 4, np.float32, ArrayBlocks(3 * matrix, starts, "more"))
    np.testing.assert_array_equal(np.asarray(added), 4 * matrix)


def test_blocks_that_are_not_what_they_should_be_are_one_sentence() -> None:
    blocks = ArrayBlocks(np.ones((10, 3)), [0, 5, 10], "modality 'image'")
    with pytest.raises(InputError, match="labels has 10 rows in 1 blocks and modality 'image' has 10 in 2"):
        blocks.map_reduce(lambda *_: 0, operator.add, ArrayBlocks(np.ones(10), [0, 10], "labels"))
    with pytest.raises(InputError, match="labels has 10 rows, but blocks are of 11"):
        ArrayBlocks(np.ones(10), [0, 11], "labels")
    wider = MappedBlocks([blocks], lambda block: block[:, : 2 if block.shape[0] else 3], 3, np.float64)
    with pytest.raises(InputError, match=r"block 0 has the shape \(5, 2\), not \(5, 3\) as expected"):
        wider.map_reduce(lambda _, block: block, operator.add)
