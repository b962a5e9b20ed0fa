"""Kernels of products and signs against their NumPy twins."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh import _kernels
from dlfh.codes import n_bytes
from tests.kernels.twins import assert_twins_agree
from tests.strategies import seeds


@given(seeds, st.sampled_from([np.float32, np.float64]))
def test_centre_rows(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    n, d, groups = rng.integers(1, 30, size=3)
    rows = rng.standard_normal((n, d)).astype(dtype)
    centre, group_of_row = rng.standard_normal(d).astype(dtype), rng.integers(0, groups, n)
    start = int(rng.integers(0, d))
    results = np.zeros_like(rows), np.zeros((groups, d))
    assert_twins_agree("centre_rows", rows, centre, group_of_row, *results, start, int(d))


@given(seeds, st.sampled_from([np.float32, np.float64, np.int8]))
def test_sum_sparse_rows_by_group(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    n, d, groups = (int(size) for size in rng.integers(1, 30, size=3))
    matrix = sp.csr_array((rng.standard_normal((n, d)) * 99 * (rng.random((n, d)) < 0.3)).astype(dtype))
    group_of_row, sums = rng.integers(0, groups, n), np.zeros((groups, d))
    assert_twins_agree("sum_sparse_rows_by_group", matrix.indptr, matrix.indices, matrix.data, group_of_row, sums)


@given(seeds, st.sampled_from([np.float32, np.float64]))
def test_add_sparse_gram(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    n, d = (int(size) for size in rng.integers(1, 30, size=2))
    matrix = sp.random_array((n, d), density=0.3, format="csr", dtype=dtype, rng=rng)
    matrix.sum_duplicates()
    gram = np.zeros((d, d))
    assert_twins_agree("add_sparse_gram", matrix.indptr, matrix.indices, matrix.data, gram, exact=False)


@given(seeds, st.sampled_from([np.float32, np.float64]))
def test_finish_products(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    n, d, n_bits = (int(size) for size in rng.integers(1, 30, size=3))
    rows = rng.standard_normal((n, d)).astype(dtype)
    weights = rng.standard_normal((d, n_bits)).astype(np.float32)
    offset = rng.standard_normal(n_bits)
    offset[0] = -float(sum(rows[0].astype(np.float64) * weights[:, 0]))  # a value that cancels
    terms = np.array([offset, np.linalg.norm(weights, axis=0), 0.05 * np.abs(offset)]).astype(dtype)
    products, codes = rows @ weights.astype(dtype), np.zeros((n, n_bytes(n_bits)), np.uint8)
    start = int(rng.integers(0, n))
    arguments = (rows, weights, offset, terms, dtype(0.05), products, codes, start, n)
    assert_twins_agree("finish_products", *arguments)


@given(seeds, st.sampled_from([np.float32, np.float64, np.uint8]))
def test_sparse_products(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    n, d, n_bits = (int(size) for size in rng.integers(1, 30, size=3))
    matrix = sp.csr_array((rng.standard_normal((n, d)) * 9 * (rng.random((n, d)) < 0.3)).astype(np.int8).astype(dtype))
    weights, offset = rng.standard_normal((d, n_bits)).astype(np.float32), rng.standard_normal(n_bits)
    products = np.zeros((n, n_bits), np.float32)
    parts = (matrix.indptr, matrix.indices, matrix.data)
    codes = np.zeros((n, n_bytes(n_bits)), np.uint8)
    terms = np.array([offset, np.linalg.norm(weights, axis=0), 0.3 * np.abs(offset)]).astype(np.float32)
    start = int(rng.integers(0, n))
    for stored in (products, products[:0]):  # products without rows are not stored
        assert_twins_agree("sparse_products", *parts, weights, offset, terms, stored, codes, start, n)


@given(seeds, st.integers(1, 30), st.integers(1, 20))
def test_hinge_losses_and_curvatures(seed: int, n: int, n_columns: int) -> None:
    rng = np.random.default_rng(seed)
    values, changes = rng.standard_normal((2, n, n_columns)).astype(np.float32)
    signs = rng.choice(np.array([-1, 1], np.int8), (n, n_columns))
    residuals = np.empty_like(values)
    assert_twins_agree("hinge_losses", values, signs, np.zeros_like(values), tolerance=1e-6)
    _kernels.hinge_losses(values, signs, residuals)
    assert_twins_agree("hinge_curvatures", residuals, changes, tolerance=1e-6)


@given(seeds, st.integers(1, 9), st.integers(0, 30))
def test_nearest_centroids(seed: int, n_groups: int, n_more: int) -> None:
    rng = np.random.default_rng(seed)
    group = np.sort(np.append(np.arange(n_groups), rng.integers(0, n_groups, n_more)))
    # Multiples of 1/16, whose sums are exact in any order.
    roots, centroids = (rng.integers(0, 17, (n, len(group))).astype(np.float32) / 16 for n in (7, 256))
    starts = np.searchsorted(group, np.arange(n_groups + 1))
    codes = np.zeros((7, n_groups), np.uint8)
    assert_twins_agree("nearest_centroids", roots, starts, np.ascontiguousarray(centroids.T), codes)
