"""Kernels of the latent factor model against their NumPy twins, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh import _kernels
from dlfh._factorization.solver import Columns
from dlfh.codes import as_words, by_word, pad_to_words, random_codes
from tests.kernels import reference
from tests.kernels.twins import assert_twins_agree
from tests.strategies import Problem, problems


def gather(problem: Problem, kind: str) -> tuple[Any, list[np.ndarray], Columns]:
    rows = problem.rows(kind)
    codes = [code.copy() for code in problem.start(rows)]
    padded = [as_words(code).view(np.uint8) for code in codes]
    chosen = problem.rng.integers(0, len(rows), size=problem.rng.integers(1, 80))
    chosen, counts = np.unique(chosen, return_counts=True)
    weights = counts * rows.weights[chosen] if kind == "labels" else np.ones(len(chosen), np.int64)
    return rows, padded, Columns.gather(rows, [chosen], [weights], [padded[1]])


@given(problems(), st.sampled_from(["labels", "random"]))
def test_update_rows(problem: Problem, kind: str) -> None:
    rows, (codes, _), columns = gather(problem, kind)
    n_bits = problem.model.n_bits
    masks = np.unpackbits(columns.codes, axis=1, count=n_bits).T.astype(np.int8, order="C") - np.int8(1)
    first = int(problem.rng.integers(0, n_bits))
    last = int(problem.rng.integers(first, n_bits + 1))
    start = int(problem.rng.integers(0, len(rows)))
    # The byte view and the word view share memory, so each version gets its own pair.
    outcomes = []
    for module in (_kernels, reference):
        updated = codes.copy()
        flips = module.update_rows(
            updated,
            updated.view(np.uint64),
            rows.set_of_row,
            problem.labels.lists,
            (by_word(columns.codes), masks, columns.weights),
            columns.lists,
            problem.model.tables,
            first,
            last,
            start,
            len(rows),
        )
        outcomes.append((flips, updated))
    assert outcomes[0][0] == outcomes[1][0]
    np.testing.assert_array_equal(outcomes[0][1], outcomes[1][1])


@given(problems(), st.integers(0, 40))
def test_update_rows_where_sums_in_32_bits_do_not_decide(problem: Problem, shift: int) -> None:
    rows, (codes, _), columns = gather(problem, "labels")
    n_bits, rng = problem.model.n_bits, problem.rng
    masks = np.unpackbits(columns.codes, axis=1, count=n_bits).T.astype(np.int8, order="C") - np.int8(1)
    weights = rng.integers(1, 1 + (1 << shift), len(columns.weights))
    small = [np.rint(table / (1 << 19)).astype(np.int32) for table in problem.model.tables[:2]]
    tables = problem.model.tables._replace(residuals=small[0], curvature=small[1])
    others = (by_word(columns.codes), masks, weights), columns.lists, tables
    outcomes = []
    for module in (_kernels, reference):
        updated = codes.copy()
        own = updated, updated.view(np.uint64), rows.set_of_row, problem.labels.lists
        outcomes.append((module.update_rows(*own, *others, 0, n_bits, 0, len(rows)), updated))
    assert outcomes[0][0] == outcomes[1][0]
    np.testing.assert_array_equal(outcomes[0][1], outcomes[1][1])


@given(problems(max_points=25), st.sampled_from(["labels", "random"]))
def test_update_shared_rows(problem: Problem, kind: str) -> None:
    rows, (codes, _), _ = gather(problem, kind)
    n_bits, labels = problem.model.n_bits, problem.labels
    masks = np.unpackbits(codes, axis=1, count=n_bits).T.astype(np.int8, order="C") - np.int8(1)
    first = int(problem.rng.integers(0, n_bits))
    outcomes = []
    for module in (_kernels, reference):
        updated, words, bit_masks = codes.copy(), by_word(codes).copy(), masks.copy()
        flips = module.update_shared_rows(
            updated,
            updated.view(np.uint64),
            rows.set_of_row,
            rows.weights,
            labels.lists,
            words,
            bit_masks,
            labels.inverted_lists(rows.set_of_row),
            problem.model.tables,
            first,
            n_bits,
        )
        outcomes.append((flips, updated, words, bit_masks))
    for kernel, twin in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(kernel, twin)


@given(problems(), st.sampled_from(["labels", "random"]))
def test_count_pairs(problem: Problem, kind: str) -> None:
    rows, (codes, _), columns = gather(problem, kind)
    assert_twins_agree(
        "count_pairs",
        codes.view(np.uint64),
        rows.set_of_row,
        rows.weights,
        problem.labels.lists,
        by_word(columns.codes),
        columns.weights.astype(np.int64),
        columns.lists,
        problem.model.n_bits,
        0,
        len(rows),
    )


def observed(problem: Problem) -> tuple[list[np.ndarray], Any]:
    """Return padded codes of points and a CSR matrix of observed similarities."""
    n, rng = len(problem.indicator), problem.rng
    codes = [pad_to_words(random_codes(rng, n, problem.model.n_bits)) for _ in range(2)]
    rows, columns = np.nonzero(rng.random((n, n)) < rng.random())
    S = sp.csr_array((rng.integers(0, 2, len(rows)).astype(np.uint8), (rows, columns)), shape=(n, n))
    return codes, S


@given(problems(max_points=12))
def test_update_observed_rows(problem: Problem) -> None:
    (rows, columns), S = observed(problem)
    n_bits = problem.model.n_bits
    pairs = (S.indptr.astype(np.int64), S.indices.astype(np.int32), S.data)
    weights = problem.rng.integers(1, 4, len(columns)).astype(np.int32)
    model = (problem.model.tables, 0, n_bits, 0, len(rows))
    results = []
    for module in (_kernels, reference):
        updated = rows.copy()
        arguments = (updated, updated.view(np.uint64), pairs, weights, columns, columns.view(np.uint64), *model)
        results.append((module.update_observed_rows(*arguments), updated))
    assert results[0][0] == results[1][0]
    np.testing.assert_array_equal(results[0][1], results[1][1])


@given(problems(max_points=12))
def test_count_observed_pairs(problem: Problem) -> None:
    (rows, columns), S = observed(problem)
    words = rows.view(np.uint64), columns.view(np.uint64)
    pairs = (S.indptr.astype(np.int64), S.indices.astype(np.int32), S.data)
    arguments = (words[0], pairs, words[1], problem.model.n_bits, 0, len(rows))
    assert_twins_agree("count_observed_pairs", *arguments)
