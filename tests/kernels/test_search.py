"""Search kernels against their NumPy twins."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh.codes import as_words, random_codes
from dlfh.index import nearest
from tests.kernels.twins import assert_twins_agree, compiled, twin_of
from tests.strategies import seeds


@given(seeds, st.integers(1, 140), st.booleans())
def test_nearest_by_weight_and_weigh_candidates(seed: int, n_bits: int, coarse: bool) -> None:
    rng = np.random.default_rng(seed)
    n_items, n_queries = (int(size) for size in rng.integers(1, 60, 2))
    items, queries = (as_words(random_codes(rng, n, n_bits)) for n in (n_items, n_queries))
    weights = rng.integers(0, 3 if coarse else 1 << 24, (n_queries, n_bits))
    low, high, steps = nearest._coarse(weights)
    start = int(rng.integers(0, n_items))
    shape = (n_queries, int(rng.integers(1, n_items - start + 1)))
    outputs = np.empty(shape, np.int64), np.empty(shape, np.int64)
    assert_twins_agree("nearest_by_weight", queries, weights, low, high, steps, items, start, n_items, *outputs)
    candidates = rng.integers(0, n_items, (n_queries, 5))
    distances = np.zeros(candidates.shape, np.int64)
    assert_twins_agree("weigh_candidates", queries, weights, items, candidates, distances, 0, n_queries)


@given(seeds, st.integers(1, 20), st.booleans())
def test_nearest_by_table(seed: int, n_bytes: int, coarse: bool) -> None:
    rng = np.random.default_rng(seed)
    n_items, n_queries = (int(size) for size in rng.integers(1, 60, 2))
    tables = rng.integers(0, 3 if coarse else 1 << 24, (n_queries, n_bytes, 256)).astype(np.int32)
    blocks = rng.integers(0, 256, (-(-n_items // 32), n_bytes, 32), np.uint8)
    start = int(rng.integers(0, n_items))
    shape = (n_queries, int(rng.integers(1, n_items - start + 1)))
    outputs = np.empty(shape, np.int64), np.empty(shape, np.int64)
    assert_twins_agree("nearest_by_table", tables, blocks, start, n_items, *outputs)


@given(seeds, st.integers(1, 20), st.integers(1, 3), st.sampled_from([2, 9, 100]))
def test_bounds_exclude_no_item_of_a_scan_that_closer_bounds_include(
    seed: int, n_bytes: int, n_terms: int, strictness: int
) -> None:
    rng = np.random.default_rng(seed)
    n_items, n_kinds, shift = int(rng.choice([rng.integers(1, 90), rng.integers(500, 1200)])), 4, 4
    blocks = tuple(rng.integers(0, 256, (-(-n_items // 32), n_bytes, 32), np.uint8) for _ in range(n_terms))
    tables = rng.integers(0, 1 << 9, (n_terms, n_bytes, 256)).astype(np.uint16)
    unit = (1 + 2 * n_bytes // 15) << shift  # 255 units are the largest distance, or more
    bounds = tables.reshape(n_terms, n_bytes, 32, 8).min(axis=3) // unit
    by_halves = rng.random(n_terms) < 0.5
    high, low = (rng.integers(0, 1 << 8, (n_terms, n_bytes, 16)) for _ in range(2))
    tables[by_halves] = (high[..., None] + low[:, :, None]).reshape(tables.shape)[by_halves]
    bounds[by_halves] = np.concatenate([high, low], axis=2)[by_halves] // unit
    slopes = rng.integers(1, 4, (n_terms, n_kinds, 1)).astype(float)
    losses, fine_losses = slopes * (unit * np.arange(256)), slopes * (np.arange(n_bytes << 9 - shift) << shift)
    kinds, levels = (rng.integers(0, n, n_items).astype(np.uint8) for n in (n_kinds, 256))
    places = np.flatnonzero(rng.random(n_items) < rng.choice([0.05, 0.5]))
    if rng.random() < 0.5:  # as in most blocks of a collection
        kinds = kinds[np.arange(n_items) // 500]
    allowed = np.sort(rng.integers(0, 3 * n_terms * (n_bytes << 9) // strictness, (n_kinds, 256)), axis=1).astype(float)
    allowed[0] = -np.inf
    limits = np.stack([np.searchsorted(*pair, "right") - 1 for pair in zip(losses[0], allowed, strict=True)])
    items = kinds, places, levels[places], rng.random(n_items) < 0.5 if rng.random() < 0.5 else np.empty(0, bool)
    rest = limits.astype(np.int16), losses, fine_losses, allowed
    rows, kept = np.zeros(n_items, np.int64), []
    for function in (compiled("collect_possible"), twin_of("collect_possible")):
        found = function(blocks, bounds.astype(np.uint8), by_halves, tables, *items, *rest, shift, rows)
        kept.append(rows[:found].tolist())
    assert kept[0] == kept[1]


@given(seeds)
def test_scores_of_words(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_items = int(rng.choice([rng.integers(1, 60), rng.integers(2000, 5000)]))
    lists = [np.flatnonzero(rng.random(n_items) < share) for share in rng.choice([0.0, 0.001, 0.5], 3)]
    rows, starts = np.concatenate(lists).astype(np.uint32), np.cumsum([0, *map(len, lists)])
    counts, lengths = rng.integers(1, 4, len(rows)).astype(np.uint16), rng.integers(0, 600, n_items).astype(np.int32)
    weights, kept = np.array([1.7, 0.3, 2.9]), []
    for function in (compiled("score_words"), twin_of("score_words")):
        places, shares = np.zeros(n_items + 1, np.int64), np.zeros(n_items + 1)
        found = function(rows, counts, starts, weights, lengths, 12.5, 3.0, places, shares)
        kept.append([*places[:found].tolist(), *shares[:found].tolist()])
    assert kept[0] == kept[1]
    assert_twins_agree("levels_of", 3 * rng.random(n_items), np.zeros(n_items, np.uint8))
    tables = rng.integers(0, 1 << 24, (5, 256)).astype(np.int32)
    codes, chosen = rng.integers(0, 256, (n_items, 5), np.uint8), rng.integers(0, n_items, 40)
    assert_twins_agree("sum_tables", tables, codes, chosen, np.zeros(40, np.int64))


@given(seeds, st.integers(1, 140))
def test_within_radius(seed: int, n_bits: int) -> None:
    rng = np.random.default_rng(seed)
    items = as_words(random_codes(rng, int(rng.integers(0, 60)), n_bits))
    query = as_words(random_codes(rng, 1, n_bits))[0]
    assert_twins_agree("within_radius", query, items, int(rng.integers(0, n_bits + 1)))


def test_nearest_by_weight_over_several_tiles() -> None:
    rng = np.random.default_rng(0)
    items, queries = (as_words(random_codes(rng, n, 64)) for n in (7000, 3))
    weights = rng.integers(0, 1 << 24, (3, 64))
    outputs = np.empty((3, 50), np.int64), np.empty((3, 50), np.int64)
    assert_twins_agree("nearest_by_weight", queries, weights, *nearest._coarse(weights), items, 0, 7000, *outputs)


@pytest.mark.parametrize("few_values", [True, False])
def test_nearest_by_table_over_several_tiles(few_values: bool) -> None:
    rng = np.random.default_rng(0)
    tables = np.sort(rng.integers(0, 3 if few_values else 1 << 24, (3, 8, 256)), axis=2).astype(np.int32)
    blocks = rng.integers(0, 256, (400, 8, 32), np.uint8)
    outputs = np.empty((3, 50), np.int64), np.empty((3, 50), np.int64)
    assert_twins_agree("nearest_by_table", tables, blocks, 7, 12_777, *outputs)


@pytest.mark.parametrize("features", ["", "+ssse3", "+ssse3,+avx,+avx2"])  # look-ups of no vector, 16 and 32 bytes
@pytest.mark.slow
def test_nearest_by_table_on_other_processors(features: str) -> None:
    test = "from tests.kernels.test_search import test_nearest_by_table_over_several_tiles as test; test(False)"
    environment = {**os.environ, "NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": features}
    subprocess.run([sys.executable, "-c", test], check=True, env=environment, cwd=Path(__file__).parents[2])


@settings(max_examples=20)
@given(seeds)
def test_add_tables(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_bytes, n_queries, n = rng.integers(1, 9), rng.integers(1, 150), rng.integers(2, 40)
    tables = rng.standard_normal((n_bytes, 256, n_queries)).astype(np.float32)
    codes = rng.integers(0, 256, (n, n_bytes)).astype(np.uint8)
    assert_twins_agree("add_tables", tables, codes, np.zeros((n_queries, n), np.float32))
