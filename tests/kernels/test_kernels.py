"""Each kernel gives exactly what its NumPy twin gives."""

from __future__ import annotations

import copy
import functools
import inspect
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh import _kernels, _reference
from dlfh._compile import Kernel
from dlfh.codes import as_words, by_word, n_bytes, pad_to_words, random_codes
from dlfh.factorization.label_rows import Columns
from dlfh.index import _nearest as nearest
from tests.strategies import Problem, problems, seeds


def assert_twins_agree(name: str, *arguments: Any, exact: bool = True, tolerance: float = 0.0) -> None:
    """Call kernel and twin on copies of the arguments; compare results and everything written."""
    outcomes = []
    for module in (_kernels, _reference):
        passed = [copy.deepcopy(argument) for argument in arguments]
        outcomes.append((getattr(module, name)(*passed), passed))
    (kernel_result, kernel_arrays), (twin_result, twin_arrays) = outcomes
    compare: Any = np.testing.assert_array_equal if exact else np.testing.assert_allclose
    if tolerance:
        compare = functools.partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance)
    if isinstance(twin_result, tuple):
        for ours, theirs in zip(kernel_result, twin_result, strict=True):
            compare(ours, theirs)
    elif twin_result is not None:
        compare(kernel_result, twin_result)
    for ours, theirs in zip(kernel_arrays, twin_arrays, strict=True):
        compare(ours, theirs)


def test_every_kernel_has_a_twin_with_the_same_arguments() -> None:
    kernels = {name for name, value in vars(_kernels).items() if isinstance(value, Kernel)}
    twins = {name for name, value in inspect.getmembers(_reference, inspect.isfunction) if not name.startswith("_")}
    assert kernels == twins
    for name in kernels:
        kernel, twin = getattr(_kernels, name), getattr(_reference, name)
        assert list(inspect.signature(kernel._dispatcher.py_func).parameters) == list(
            inspect.signature(twin).parameters
        )


def gather(problem: Problem, kind: str) -> tuple[Any, list[np.ndarray], Columns]:
    rows = problem.rows(kind)
    codes = [code.copy() for code in problem.start(rows)]
    padded = [as_words(code).view(np.uint8) for code in codes]
    chosen = problem.rng.integers(0, len(rows), size=problem.rng.integers(1, 80))
    chosen, counts = np.unique(chosen, return_counts=True)
    weights = counts * rows.weights[chosen] if kind == "labels" else np.ones(len(chosen), np.int64)
    return rows, padded, Columns.gather(rows, [chosen], [weights], [padded[1]])


@given(problems(), st.sampled_from(["labels", "random"]))
def test_update_of_rows(problem: Problem, kind: str) -> None:
    rows, (codes, _), columns = gather(problem, kind)
    n_bits = problem.model.n_bits
    masks = np.unpackbits(columns.codes, axis=1, count=n_bits).T.astype(np.int8, order="C") - np.int8(1)
    first = int(problem.rng.integers(0, n_bits))
    last = int(problem.rng.integers(first, n_bits + 1))
    start = int(problem.rng.integers(0, len(rows)))
    memory = codes.copy()
    # The byte and the word view are of one memory: the twins get (and change) a pair each.
    outcomes = []
    for module in (_kernels, _reference):
        mine = memory.copy()
        flips = module.update_rows(
            mine,
            mine.view(np.uint64),
            rows.set_of_row,
            problem.labels.starts,
            problem.labels.labels,
            by_word(columns.codes),
            masks,
            columns.weights,
            columns.list_starts,
            columns.list_members,
            problem.model.sigmoid,
            problem.model.threshold(int(columns.weights.sum())),
            first,
            last,
            start,
            len(rows),
        )
        outcomes.append((flips, mine))
    assert outcomes[0][0] == outcomes[1][0]
    np.testing.assert_array_equal(outcomes[0][1], outcomes[1][1])


@given(problems(max_points=25), st.sampled_from(["labels", "random"]))
def test_update_of_shared_rows(problem: Problem, kind: str) -> None:
    rows, (codes, _), _ = gather(problem, kind)
    n_bits, labels = problem.model.n_bits, problem.labels
    lists = _kernels.invert_lists(labels.starts, labels.labels, rows.set_of_row, labels.n_labels)
    masks = np.unpackbits(codes, axis=1, count=n_bits).T.astype(np.int8, order="C") - np.int8(1)
    first = int(problem.rng.integers(0, n_bits))
    outcomes = []
    for module in (_kernels, _reference):
        mine, my_words, my_masks = codes.copy(), by_word(codes).copy(), masks.copy()
        flips = module.update_shared_rows(
            mine,
            mine.view(np.uint64),
            rows.set_of_row,
            rows.weights,
            labels.starts,
            labels.labels,
            my_words,
            my_masks,
            *lists,
            problem.model.sigmoid,
            problem.model.unit_threshold,
            first,
            n_bits,
        )
        outcomes.append((flips, mine, my_words, my_masks))
    for ours, theirs in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(ours, theirs)


@given(problems(), st.sampled_from(["labels", "random"]))
def test_count_of_pairs(problem: Problem, kind: str) -> None:
    rows, (codes, _), columns = gather(problem, kind)
    assert_twins_agree(
        "count_pairs",
        codes.view(np.uint64),
        rows.set_of_row,
        rows.weights,
        problem.labels.starts,
        problem.labels.labels,
        by_word(columns.codes),
        columns.weights.astype(np.int64),
        columns.list_starts,
        columns.list_members,
        problem.model.n_bits,
        0,
        len(rows),
    )


@given(problems())
def test_inverted_lists(problem: Problem) -> None:
    labels = problem.labels
    chosen = problem.rng.integers(0, labels.n_sets, size=7)
    assert_twins_agree("invert_lists", labels.starts, labels.labels, chosen, labels.n_labels)


@given(seeds, st.sampled_from([np.float32, np.float64]))
def test_sums_by_group(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    n, d, groups = rng.integers(1, 30, size=3)
    rows = rng.standard_normal((n, d)).astype(dtype)
    start = int(rng.integers(0, d))
    assert_twins_agree("sum_rows_by_group", rows, rng.integers(0, groups, n), np.zeros((groups, d)), start, int(d))


@given(seeds, st.sampled_from([np.float32, np.float64]))
def test_sparse_gram(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    n, d = (int(size) for size in rng.integers(1, 30, size=2))
    matrix = sp.random_array((n, d), density=0.3, format="csr", dtype=dtype, rng=rng)
    matrix.sum_duplicates()
    gram = np.zeros((d, d))
    assert_twins_agree("add_sparse_gram", matrix.indptr, matrix.indices, matrix.data, gram, exact=False)


@given(seeds, st.sampled_from([np.float32, np.float64]))
def test_finishing_of_products(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    n, d, n_bits = (int(size) for size in rng.integers(1, 30, size=3))
    rows = rng.standard_normal((n, d)).astype(dtype)
    weights = rng.standard_normal((n_bits, d)).astype(np.float32)
    offset = rng.standard_normal(n_bits)
    offset[0] = -float(sum(rows[0].astype(np.float64) * weights[0]))  # a value that cancels
    terms = np.array([offset, np.linalg.norm(weights, axis=1), 0.05 * np.abs(offset)]).astype(dtype)
    products, codes = rows @ weights.T.astype(dtype), np.zeros((n, n_bytes(n_bits)), np.uint8)
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
    assert_twins_agree("sparse_products", *parts, weights, offset, terms, products, codes, start, n)


@given(seeds, st.sampled_from([np.float32, np.float64]))
def test_packing_of_signs(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    n, n_bits = (int(size) for size in rng.integers(1, 40, size=2))
    values = rng.integers(-2, 3, (n, n_bits)).astype(dtype)  # with zeros
    assert_twins_agree("pack_signs", values, np.empty((n, n_bytes(n_bits)), np.uint8))


def random_ranking(rng: np.random.Generator, n_bits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    n_queries, n_items = rng.integers(1, 6), rng.integers(1, 90)
    queries, items = random_codes(rng, n_queries, n_bits), random_codes(rng, n_items, n_bits)
    return queries, items, rng.integers(0, 3, (n_queries, n_items)).astype(np.uint8)


@given(seeds, st.integers(1, 140))
def test_distances_and_ranking_by_distance(seed: int, n_bits: int) -> None:
    queries, items, gains = random_ranking(np.random.default_rng(seed), n_bits)
    distances = np.empty(gains.shape, np.uint16)
    assert_twins_agree("hamming_block", as_words(queries), by_word(items), distances)
    bits = 8 * items.shape[1]
    places, sizes = np.empty(gains.shape, np.uint32), np.empty((len(queries), bits + 1), np.int64)
    assert_twins_agree("rank_by_distance", as_words(queries), by_word(items), bits, places, sizes)


@given(seeds, st.integers(1, 40), st.booleans())
def test_ranking_by_score(seed: int, n_bits: int, coarse: bool) -> None:
    rng = np.random.default_rng(seed)
    _, items, gains = random_ranking(rng, n_bits)
    projections = rng.standard_normal((len(gains), n_bits)).astype(np.float32)
    if coarse:  # many ties, zero scores among them
        projections = np.rint(projections)
    places, tied = np.empty(gains.shape, np.uint32), np.empty(gains.shape, np.bool_)
    assert_twins_agree("rank_by_score", projections, items, places, tied)


@given(seeds)
def test_reordering(seed: int) -> None:
    rng = np.random.default_rng(seed)
    places = np.array([rng.permutation(30) for _ in range(4)]).astype(np.uint32)
    for gains in (rng.integers(0, 2, (4, 30)).astype(np.uint8), rng.random((4, 30))):
        assert_twins_agree("reorder", gains, places, np.empty_like(gains))


@given(seeds)
def test_sum_of_precisions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranked = (rng.random((4, 60)) < rng.random()).astype(np.uint8)
    depth = int(rng.integers(1, 61))
    outputs = np.empty(4), np.empty(4, np.int64), np.empty(4, np.int64)
    assert_twins_agree("sum_precisions", ranked, depth, *outputs, exact=False)


@given(problems())
def test_shared_labels(problem: Problem) -> None:
    labels = problem.labels
    lists = _kernels.invert_lists(labels.starts, labels.labels, np.arange(labels.n_sets), labels.n_labels)
    queries = problem.rng.integers(0, labels.n_sets, size=5)
    items = problem.rng.integers(0, labels.n_sets, size=50).astype(np.int32)
    for dtype, at_most in ((np.uint8, 1), (np.int32, 99)):
        shared = np.empty((5, 50), dtype)
        arguments = (queries, labels.starts, labels.labels, *lists, items, labels.n_sets, at_most, shared)
        assert_twins_agree("shared_labels", *arguments)


def test_kernels_fall_back_to_no_cache_where_nothing_is_writable(monkeypatch: pytest.MonkeyPatch) -> None:
    import numba

    real = numba.njit

    def njit(function: Any, **options: Any) -> Any:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(function, **options)

    monkeypatch.setattr(numba, "njit", njit)

    def double(x: int) -> int:
        return 2 * x

    assert Kernel(double)(21) == 42


@given(problems(max_points=30), st.sampled_from(["labels", "random"]), st.integers(1, 6))
def test_pull_and_push(problem: Problem, kind: str, n_dimensions: int) -> None:
    rows, labels = problem.rows(kind), problem.labels
    H = problem.rng.standard_normal((len(rows), n_dimensions)).astype(np.float32)
    first = int(problem.rng.integers(len(rows)))
    products = H[first:] @ H.T
    norms = np.einsum("nc,nc->n", H, H)
    lists = _kernels.invert_lists(labels.starts, labels.labels, np.arange(labels.n_sets), labels.n_labels)
    pull, push = np.zeros_like(products), np.zeros_like(products)
    weights = rows.weights.astype(np.float32)
    sets = (rows.set_of_row, weights, labels.starts, labels.labels, *lists)
    arguments = (products, norms, *sets, 0.25, first, pull, push, 0, len(products))
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
    lists = _kernels.invert_lists(labels.starts, labels.labels, np.arange(labels.n_sets), labels.n_labels)
    set_sums = np.zeros((labels.n_sets, n_bits))
    np.add.at(set_sums, labels.set_of_point, V)
    t, link = np.arange(-n_bits, n_bits + 1), 0.3
    slopes = np.logaddexp(0, link * (t + 1)) - np.logaddexp(0, link * (t - 1))
    other = np.ascontiguousarray(V.T)
    sets = (labels.set_of_point, labels.starts, labels.labels, *lists, set_sums)
    assert_twins_agree("update_latent_bits", S, U, W, A, A.T @ A, other, *sets, 1.7, link, slopes, 0.2, tolerance=1e-5)


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
    starts, places = S.indptr.astype(np.int64), S.indices.astype(np.int32)
    weights = problem.rng.integers(1, 4, len(columns)).astype(np.int32)
    model = (problem.model.sigmoid, problem.model.unit_threshold, 0, n_bits, 0, len(rows))
    results = []
    for module in (_kernels, _reference):
        own = rows.copy()  # its words must share its memory, which deep copies would not
        arguments = (
            own,
            own.view(np.uint64),
            starts,
            places,
            S.data,
            weights,
            columns,
            columns.view(np.uint64),
            *model,
        )
        results.append((module.update_observed_rows(*arguments), own))
    assert results[0][0] == results[1][0]
    np.testing.assert_array_equal(results[0][1], results[1][1])


@given(problems(max_points=12))
def test_count_observed_pairs(problem: Problem) -> None:
    (rows, columns), S = observed(problem)
    words = rows.view(np.uint64), columns.view(np.uint64)
    starts, places = S.indptr.astype(np.int64), S.indices.astype(np.int32)
    arguments = (words[0], starts, places, S.data, words[1], problem.model.n_bits, 0, len(rows))
    assert_twins_agree("count_observed_pairs", *arguments)


def random_strings(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets and bytes of distinct strings, one of them empty."""
    strings = [b"", *(bytes(rng.integers(97, 100, rng.integers(1, 6)).astype(np.uint8)) for _ in range(n))]
    strings = list(dict.fromkeys(strings))
    return np.cumsum([0, *map(len, strings)]), np.frombuffer(b"".join(strings), np.uint8)


@given(seeds)
def test_strings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    offsets, blob = random_strings(rng, 20)
    hashes = np.empty(len(offsets) - 1, np.uint64)
    assert_twins_agree("hash_strings", offsets, blob, hashes)
    rows = rng.integers(0, len(hashes), 7)
    new_offsets = np.cumsum([0, *np.diff(offsets)[rows]])
    assert_twins_agree("gather_strings", offsets, blob, rows, new_offsets, np.zeros(new_offsets[-1], np.uint8))


@given(seeds, st.booleans())
def test_finding_strings(seed: int, collide: bool) -> None:
    rng = np.random.default_rng(seed)
    stored, wanted = random_strings(rng, 20), random_strings(rng, 20)
    hashes = [np.empty(len(offsets) - 1, np.uint64) for offsets, _ in (stored, wanted)]
    for strings, values in zip((stored, wanted), hashes, strict=True):
        _kernels.hash_strings(*strings, values)
        if collide:
            values %= 2
    order = np.argsort(hashes[0], kind="stable").astype(np.uint32)
    found = np.zeros(len(hashes[1]), np.int64)
    table = (hashes[0][order], order, *stored)
    assert_twins_agree("find_strings", *table, hashes[1], *wanted, found, 1, len(found))


@given(seeds, st.integers(1, 140), st.booleans())
def test_search_by_weight(seed: int, n_bits: int, coarse: bool) -> None:
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


@given(seeds, st.integers(1, 140))
def test_search_within_a_radius(seed: int, n_bits: int) -> None:
    rng = np.random.default_rng(seed)
    items = as_words(random_codes(rng, int(rng.integers(0, 60)), n_bits))
    query = as_words(random_codes(rng, 1, n_bits))[0]
    assert_twins_agree("within_radius", query, items, int(rng.integers(0, n_bits + 1)))


def test_the_scan_by_weight_of_more_codes_than_a_tile() -> None:
    rng = np.random.default_rng(0)
    items, queries = (as_words(random_codes(rng, n, 64)) for n in (7000, 3))
    weights = rng.integers(0, 1 << 24, (3, 64))
    outputs = np.empty((3, 50), np.int64), np.empty((3, 50), np.int64)
    assert_twins_agree("nearest_by_weight", queries, weights, *nearest._coarse(weights), items, 0, 7000, *outputs)
