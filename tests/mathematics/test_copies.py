"""Copies are found, nearly equal ones too; rows that are merely close, or common values, are not copies."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh._mathematics.copies import copies_per_point, copy_groups

N_POINTS, N_COPIES = 300, 4


def scene(form: str) -> np.ndarray | sp.csr_array:
    rng = np.random.default_rng(0)
    if form == "dense":
        return rng.normal(5, 2, (N_POINTS, 30)).astype(np.float32) * np.logspace(-3, 3, 30, dtype=np.float32)
    if form == "few dimensions":
        return rng.normal(size=(N_POINTS, 4))
    return sp.csr_array(rng.poisson(0.2, (N_POINTS, 100)) * rng.random(100))


@pytest.mark.parametrize("noise", [0.0, 0.003])
@pytest.mark.parametrize("form", ["dense", "few dimensions", "sparse"])
def test_every_point_is_grouped_with_its_copies_and_with_nothing_else(form: str, noise: float) -> None:
    rows, rng = scene(form), np.random.default_rng(1)
    order = rng.permutation(np.tile(np.arange(N_POINTS), N_COPIES))
    copies = rows[order]
    if sp.issparse(copies):
        copies.data *= rng.normal(1, noise, len(copies.data))
    else:
        copies = copies + noise * rows.std(axis=0) * rng.normal(size=copies.shape)
    groups = copy_groups(copies, np.zeros(len(order), np.int64))
    group_of_point = groups[[np.flatnonzero(order == point)[0] for point in range(N_POINTS)]]
    np.testing.assert_array_equal(groups, group_of_point[order])
    assert len(np.unique(group_of_point)) == N_POINTS


@pytest.mark.parametrize("n_features", [1, 2, 3, 20])
def test_close_rows_are_not_copies_where_rows_vary_continuously(n_features: int) -> None:
    rows = np.random.default_rng(0).normal(size=(2000, n_features))
    np.testing.assert_array_equal(copy_groups(rows, np.zeros(2000, np.int64)), np.arange(2000))


def test_equal_rows_of_different_classes_are_not_copies() -> None:
    rows = np.repeat(np.random.default_rng(0).normal(size=(50, 8)), 2, axis=0)
    np.testing.assert_array_equal(copy_groups(rows, np.arange(100) % 2), np.arange(100))
    np.testing.assert_array_equal(copy_groups(rows, np.zeros(100, np.int64)), np.arange(100) // 2)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_a_value_that_many_points_share_does_not_make_them_copies(form: type) -> None:
    rows = np.random.default_rng(0).normal(size=(100, 8))
    rows[20:] = 0
    np.testing.assert_array_equal(copy_groups(form(rows), np.zeros(100, np.int64)), np.arange(100))
    np.testing.assert_array_equal(copy_groups(form(0 * rows), np.zeros(100, np.int64)), np.arange(100))


@pytest.mark.parametrize("n_sampled", [1200, 400, 150])
def test_the_number_of_copies_is_estimated_from_a_sample(n_sampled: int) -> None:
    rows = np.random.default_rng(1).choice(np.repeat(np.arange(N_POINTS), N_COPIES), n_sampled, replace=False)
    estimate = copies_per_point(len(np.unique(rows)), n_sampled, N_POINTS * N_COPIES)
    assert estimate == pytest.approx(N_COPIES, rel=1e-6 if n_sampled == N_POINTS * N_COPIES else 0.3)
    assert copies_per_point(n_sampled, n_sampled, 10**6) == 1
