"""Pairwise kernels of SePH, MLBE and DOCH against their NumPy twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dlfh import _kernels
from tests.kernels.twins import assert_twins_agree
from tests.strategies import Problem, problems


@given(problems(max_points=30), st.sampled_from(["labels", "random"]), st.integers(1, 6))
def test_pull_and_push(problem: Problem, kind: str, n_dimensions: int) -> None:
    rows, labels = problem.rows(kind), problem.labels
    H = problem.rng.standard_normal((len(rows), n_dimensions)).astype(np.float32)
    first = int(problem.rng.integers(len(rows)))
    products = H[first:] @ H.T
    norms = np.einsum("nc,nc->n", H, H)
    pull, push = np.zeros_like(products), np.zeros_like(products)
    weights = rows.weights.astype(np.float32)
    sets = (rows.set_of_row, weights, labels.lists, labels.inverted_lists())
    arguments = (products, norms, *sets, 0.25, first, (pull, push), 0, len(products))
    assert_twins_agree("pull_and_push", *arguments, tolerance=1e-4)


@given(problems(max_points=14), st.integers(1, 5))
def test_update_latent_bits(problem: Problem, n_bits: int) -> None:
    rng, labels = problem.rng, problem.labels
    n = labels.n_points
    S = rng.random((n, n)).astype(np.float32)
    S = S + S.T
    U, V = rng.choice(np.array([-1, 1], np.int8), (2, n, n_bits))
    W = rng.standard_normal((n_bits, n_bits))
    W = W + W.T
    A = U.astype(np.float64) @ W
    set_sums = np.zeros((labels.n_sets, n_bits))
    np.add.at(set_sums, labels.set_of_point, V)
    t, link = np.arange(-n_bits, n_bits + 1), 0.3
    slopes = np.logaddexp(0, link * (t + 1)) - np.logaddexp(0, link * (t - 1))
    other = np.ascontiguousarray(V.T)
    sets = (labels.set_of_point, labels.lists, labels.inverted_lists(), set_sums)
    assert_twins_agree(
        "update_latent_bits", S, U, W, A, A.T @ A, other, *sets, (1.7, link, slopes, 0.2), tolerance=1e-5
    )


@given(problems(max_points=20), st.integers(1, 12), st.integers(1, 9))
def test_update_anchored_rows(problem: Problem, n_bits: int, n_anchors: int) -> None:
    rng, labels = problem.rng, problem.labels
    signs = np.array([-1, 1], np.int8)
    codes, anchors = rng.choice(signs, (labels.n_points, n_bits)), rng.choice(signs, (n_bits, n_anchors))
    similar = labels.similar(np.arange(labels.n_sets), rng.integers(labels.n_sets, size=n_anchors))
    scale = 0.37
    sigmas = np.rint(_kernels.ONE / (1 + np.exp(-scale * np.arange(-n_bits, n_bits + 1)))).astype(np.int32)
    P = rng.standard_normal((n_bits, 3))
    targets, overlap = rng.standard_normal(codes.shape), P @ P.T
    start = int(rng.integers(labels.n_points))
    arguments = (codes, labels.set_of_point, similar, anchors, sigmas, scale, targets, overlap)
    assert_twins_agree("update_anchored_rows", *arguments, start, labels.n_points)
