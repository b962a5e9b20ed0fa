"""Blocks are mapped in order and merged as a tree, wherever the matrix is split."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh.blocks.base import ArrayBlocks, Blocks, MappedBlocks
from dlfh.errors import InputError
from tests.strategies import seeds

splits = st.lists(st.integers(0, 40), max_size=6).map(lambda inner: [0, *sorted(inner), 40])


@given(splits)
def test_results_are_merged_in_row_order(starts: list[int]) -> None:
    blocks = ArrayBlocks(np.arange(40), starts, "numbers")
    other = ArrayBlocks(10 * np.arange(40), starts, "more")
    merged = blocks.map_reduce(lambda start, a, b: [(start, a.tolist(), b.tolist())], operator.add, other)
    assert [start for start, _, _ in merged] == sorted({*starts[:-1]} - {40})
    assert [value for _, first, _ in merged for value in first] == list(range(40))
    assert [value for _, _, second in merged for value in second] == list(range(0, 400, 10))


def test_merging_n_blocks_takes_log_n_levels() -> None:
    blocks = ArrayBlocks(np.arange(100), range(101), "numbers")
    assert blocks.map_reduce(lambda *_: 0, lambda a, b: max(a, b) + 1) == 7


@given(seeds, splits, st.booleans())
def test_taking_rows_and_assembling_the_whole(seed: int, starts: list[int], sparse: bool) -> None:
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
    added = blocks.map(lambda block, other: block + other, 4, np.float32, ArrayBlocks(3 * matrix, starts, "more"))
    np.testing.assert_array_equal(np.asarray(added), 4 * matrix)


@pytest.mark.parametrize("copy", [None, True])
def test_a_matrix_in_memory_is_one_block_and_copied_only_on_request(copy: Any) -> None:
    matrix = np.ones((4, 2))
    blocks = ArrayBlocks(matrix, None, "matrix")
    assert blocks.whole is matrix
    assert blocks.n_blocks == 1
    assert np.shares_memory(np.array(blocks, copy=copy), matrix) == (copy is None)
    assert isinstance(blocks.map(lambda block: block, 2, np.float64).lazy_result(), np.ndarray)
    split = ArrayBlocks(matrix, [0, 1, 4], "matrix")
    assert split.whole is None
    assert isinstance(split.map(lambda block: block, 2, np.float64).lazy_result(), Blocks)


def test_mismatched_blocks_are_reported() -> None:
    blocks = ArrayBlocks(np.ones((10, 3)), [0, 5, 10], "modality 'image'")
    with pytest.raises(InputError, match="labels has 10 rows in 1 blocks and modality 'image' has 10 in 2"):
        blocks.map_reduce(lambda *_: 0, operator.add, ArrayBlocks(np.ones(10), [0, 10], "labels"))
    with pytest.raises(InputError, match="labels has 10 rows, but its blocks have 11"):
        ArrayBlocks(np.ones(10), [0, 11], "labels")
    wider = MappedBlocks([blocks], lambda block: block[:, : 2 if block.shape[0] else 3], 3, np.float64)
    with pytest.raises(InputError, match=r"block 0 has shape \(5, 2\), expected \(5, 3\)"):
        wider.map_reduce(lambda _, block: block, operator.add)
