"""Sums over points are the same whatever their type, and however they are cut into chunks."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import dlfh._mathematics.moments as module
from dlfh._mathematics.moments import Moments, moments
from dlfh._mathematics.targets import LabelledTargets, RealTargets, Targets
from dlfh._parallel import Workers
from dlfh.codes import random_codes
from tests.strategies import seeds


@given(
    seeds,
    st.integers(20, 400),
    st.sampled_from([np.float16, np.int8, np.int32, np.float32]),
    st.booleans(),
    st.booleans(),
)
def test_features_that_are_converted_have_the_moments_of_doubles(
    seed: int, n: int, dtype: Any, few: bool, sorted_rows: bool
) -> None:
    """Sorted rows have chunks whose means are far apart."""
    rng = np.random.default_rng(seed)
    X = (20 * rng.standard_normal((n, 6)) + 50).astype(dtype)
    X = np.sort(X, axis=0) if sorted_rows else X
    codes = random_codes(rng, 2 if few else n, 16)
    targets = Targets(codes, rng.integers(len(codes), size=n), 16)
    with pytest.MonkeyPatch.context() as patch, Workers(2) as workers:
        patch.setattr(module, "_CHUNK_BYTES", 64 * 24)
        patch.setattr(module, "_SAMPLE", 10)
        ours = moments(X, targets, "image", workers)
        expected = moments(X.astype(np.float64), targets, "image", workers)
    np.testing.assert_allclose(ours.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(ours.gram, expected.gram, atol=1e-5 * expected.gram.max())
    np.testing.assert_allclose(ours.cross, expected.cross, atol=1e-5 * 16 * n * 20)


@given(seeds, st.integers(1, 600), st.booleans())
def test_moments_do_not_depend_on_the_number_of_threads(seed: int, n: int, few: bool) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 40)).astype(np.float32)
    codes = random_codes(rng, 2 if few else n, 16)
    targets, found = Targets(codes, rng.integers(len(codes), size=n), 16), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK_BYTES", 64 * 160)
        for n_jobs in (1, 2, 3):
            with Workers(n_jobs) as workers:
                found.append(moments(X, targets, "image", workers))
    for other in found[1:]:
        np.testing.assert_array_equal(other.gram, found[0].gram)
        np.testing.assert_array_equal(other.cross, found[0].cross)


@given(seeds, st.integers(2, 60), st.integers(1, 5), st.sampled_from([np.float32, np.float64]))
def test_the_total_of_parts_is_their_sum_and_that_of_all_rows(seed: int, n: int, n_parts: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    rows, targets = np.sort(rng.random((n, 4)), axis=0).astype(dtype), rng.choice([-1, 1], (n, 3)).astype(np.int8)
    cuts = [part for part in np.array_split(np.arange(n), n_parts) if len(part)]
    sparse = sp.csr_array(targets > 0).astype(np.int8)
    codes = LabelledTargets(np.empty((n, 0), np.uint8), np.arange(n), 3, sparse)
    parts = [Moments.of_rows(rows[part], codes, part[0]) for part in cuts]
    total, dense = Moments.total(iter(parts)), RealTargets(targets > 0, np.arange(n), 3)
    whole = Moments.of_rows(rows.astype(np.float64), dense)
    for found in (total, functools.reduce(operator.add, parts)):
        assert found.n_points == n
        for name in ("mean", "gram", "cross", "target_mean"):
            np.testing.assert_allclose(getattr(found, name), getattr(whole, name), atol=2e-5 * n)
