"""Hash functions by blocks are those in memory, however the data is cut, and wherever kernel values are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh.blocks.base import ArrayBlocks
from dlfh.codes import pack
from dlfh.errors import InputError
from dlfh.hashing import FitContext, HashLearner, KernelLogistic, KernelRidge
from dlfh.hashing.by_blocks import BlockTargets, fit_by_blocks
from dlfh.hashing.kernel import KernelHash
from tests.hashing.test_kernel import exact_objective, scene, targets_of
from tests.strategies import seeds


def by_blocks(learner: HashLearner, X: Any, signs: np.ndarray, starts: list[int], workers: Workers) -> KernelHash:
    codes, points = np.unique(pack(signs), axis=0, return_inverse=True)
    labels = LabelSets.from_labels(points)
    targets = BlockTargets(ArrayBlocks(points, starts, "labels"), codes, labels, signs.shape[1])
    found = fit_by_blocks(learner, ArrayBlocks(X, starts, "image"), targets, "image", FitContext(workers, 0))
    assert isinstance(found, KernelHash)
    return found


@settings(max_examples=6)
@given(seeds, st.booleans(), st.lists(st.integers(0, 150), max_size=4))
def test_however_data_is_cut_logistic_functions_are_those_in_memory(seed: int, sparse: bool, inner: list[int]) -> None:
    X, signs = scene(seed, n=150, sparse=sparse)
    learner = KernelLogistic(30, tol=1e-8)
    with Workers(2) as workers:
        whole = learner.fit(X, targets_of(signs), "image", FitContext(workers, 0))
        ours = by_blocks(learner, X, signs, [0, *sorted(inner), 150], workers)
        bits = [np.unpackbits(own.encode(X, "image", workers), axis=1, count=6) for own in (ours, whole)]
    K, K0 = whole.kernel(X), whole.kernel.between_bases()
    one, other = (exact_objective(K, K0, signs, own.weights, learner.penalty) for own in (ours, whole))
    # Kernel values of sparse points nearly coincide: both solvers stop up to 1e-4 above the least value, each its own.
    np.testing.assert_allclose(one, other, rtol=2e-4 if sparse else 1e-5)
    assert (bits[0] == bits[1]).mean() >= 0.99


def test_what_does_not_fit_in_memory_is_computed_again_and_is_the_same() -> None:
    X, signs = scene(1, n=9000)
    with Workers(2) as workers:
        kept = by_blocks(KernelLogistic(20), X, signs, [0, 5000, 5000, 7000, 9000], workers)
        for n_kept in (0, 5000, 8999):
            learner = KernelLogistic(20, memory=n_kept * (4 * 20 + 6))
            again = by_blocks(learner, X, signs, [0, 5000, 5000, 7000, 9000], workers)
            np.testing.assert_array_equal(again.weights, kept.weights)


def test_points_have_packed_codes_where_label_sets_are_elsewhere() -> None:
    X, signs = scene(0)
    points = ArrayBlocks(pack(signs), [0, 50, 120], "codes")
    targets = BlockTargets(points, None, ArrayBlocks(signs, [0, 50, 120], "labels"), 6)
    with Workers(1) as workers:
        context = FitContext(workers, 0)
        found = fit_by_blocks(KernelLogistic(20), ArrayBlocks(X, [0, 50, 120], "image"), targets, "image", context)
        other = by_blocks(KernelLogistic(20), X, signs, [0, 50, 120], workers)
    np.testing.assert_array_equal(found.to_arrays()["weights"], other.weights)


class Guess(HashLearner):
    def check_parameters(self) -> None: ...

    def fit(self, *_: Any) -> Any: ...


def test_what_has_no_sums_is_one_sentence() -> None:
    X, signs = scene(0)
    bad = sp.csr_array(X)
    bad.data[-1] = np.inf
    for learner, features, sentence in (
        (KernelLogistic(20, bases="kmeans"), X, "by blocks, kernels have random training points as bases"),
        (KernelRidge(20, bases="kmeans"), X, "by blocks, kernels have random training points as bases"),
        (Guess(), X, "by blocks, hash functions are linear, kernel ridge or kernel logistic, not Guess"),
        (KernelLogistic(20), bad, "'image' has NaN or infinity in row 119"),
    ):
        with Workers(1) as workers, pytest.raises(InputError, match=sentence):
            by_blocks(learner, features, signs, [0, 50, 120], workers)
