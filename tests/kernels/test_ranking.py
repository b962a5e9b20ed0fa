"""Ranking kernels against their NumPy twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dlfh.codes import as_words, by_word, random_codes
from dlfh.metrics.ranking import byte_tables
from tests.kernels.twins import assert_twins_agree
from tests.strategies import seeds


def random_ranking(rng: np.random.Generator, n_bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_queries, n_items = int(rng.integers(1, 6)), int(rng.integers(1, 90))
    queries, items = random_codes(rng, n_queries, n_bits), random_codes(rng, n_items, n_bits)
    return queries, items, rng.integers(0, 3, (n_queries, n_items)).astype(np.uint8)


@given(seeds, st.integers(1, 140))
def test_hamming_block_and_rank_by_distance(seed: int, n_bits: int) -> None:
    queries, items, gains = random_ranking(np.random.default_rng(seed), n_bits)
    distances = np.empty(gains.shape, np.uint16)
    assert_twins_agree("hamming_block", as_words(queries), by_word(items), distances)
    bits = 8 * items.shape[1]
    places, sizes = np.empty(gains.shape, np.uint32), np.empty((len(queries), bits + 1), np.int64)
    assert_twins_agree("rank_by_distance", as_words(queries), by_word(items), bits, places, sizes)


@given(seeds, st.integers(1, 40), st.booleans())
def test_rank_by_score(seed: int, n_bits: int, coarse: bool) -> None:
    rng = np.random.default_rng(seed)
    _, items, gains = random_ranking(rng, n_bits)
    projections = rng.standard_normal((len(gains), n_bits)).astype(np.float32)
    if coarse:  # many ties, zero scores among them
        projections = np.rint(projections)
    tables = byte_tables(projections)
    places, tied = np.empty(gains.shape, np.uint32), np.empty(gains.shape, np.bool_)
    assert_twins_agree("rank_by_score", tables, items, places, tied)


@given(seeds)
def test_reorder(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = np.array([rng.permutation(30) for _ in range(4)]).astype(np.uint32)
    for gains in (rng.integers(0, 2, (4, 30)).astype(np.uint8), rng.random((4, 30))):
        assert_twins_agree("reorder", gains, places, np.empty_like(gains))


@given(seeds)
def test_count_marks_and_sum_precisions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranked = (rng.random((4, 60)) < rng.random()).astype(np.uint8) * rng.integers(1, 255, (4, 60), dtype=np.uint8)
    stops = np.sort(rng.integers(0, 61, (4, 5)))
    assert_twins_agree("count_marks", ranked, stops, np.empty((4, 5), np.int64))
    sizes = np.diff(stops, axis=1, prepend=0, append=60)
    before = np.cumsum(rng.integers(0, 30, (2, *sizes.shape)), axis=2) + np.cumsum(sizes, axis=1) - sizes
    depth = int(rng.integers(1, 200))
    assert_twins_agree("sum_precisions", ranked, sizes, *before, depth, np.empty((4, 3)), exact=False)
