"""Kernel logistic functions of data in blocks are those of data in memory, wherever kernel values are kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh._labels import LabelSets
from dlfh._mathematics.targets import BlockTargets, Targets
from dlfh._parallel import Workers
from dlfh.blocks.base import ArrayBlocks
from dlfh.codes import pack
from dlfh.errors import InputError
from dlfh.hashing import HashLearner, KernelLogistic, KernelRidge
from dlfh.hashing.base import FitContext
from dlfh.hashing.kernel import KernelHash
from tests.hashing.test_kernel import exact_objective, scene, targets_of
from tests.strategies import seeds


def fit_split(learner: HashLearner, X: Any, signs: np.ndarray, starts: list[int], workers: Workers) -> KernelHash:
    """Fit a learner to data split into blocks."""
    codes, points = np.unique(pack(signs), axis=0, return_inverse=True)
    distinct = Targets(codes, points, signs.shape[1])
    labels = LabelSets.from_labels(points)
    targets = BlockTargets(ArrayBlocks(points, starts, "labels"), distinct.n_bits, distinct, labels)
    found = learner.fit_blocks(ArrayBlocks(X, starts, "image"), targets, "image", FitContext(workers, 0))
    assert isinstance(found, KernelHash)
    return found


@settings(max_examples=6)
@given(seeds, st.booleans(), st.lists(st.integers(0, 150), max_size=4))
def test_logistic_functions_do_not_depend_on_where_data_is_split(seed: int, sparse: bool, inner: list[int]) -> None:
    X, signs = scene(seed, n=150, sparse=sparse)
    learner = KernelLogistic(30, tol=1e-8)
    with Workers(2) as workers:
        whole = learner.fit(X, targets_of(signs), "image", FitContext(workers, 0))
        ours = fit_split(learner, X, signs, [0, *sorted(inner), 150], workers)
        bits = [np.unpackbits(own.encode(X, "image", workers), axis=1, count=6) for own in (ours, whole)]
    K, K0 = whole.kernel(X), whole.kernel.between_bases()
    one, other = (exact_objective(K, K0, signs, own.weights, learner.penalty) for own in (ours, whole))
    # Kernel values of sparse points nearly coincide: both solvers stop up to 1e-4 above the minimum.
    np.testing.assert_allclose(one, other, rtol=2e-4 if sparse else 1e-5)
    assert (bits[0] == bits[1]).mean() >= 0.99


def test_recomputed_kernel_values_give_the_same_result() -> None:
    X, signs = scene(1, n=9000)
    with Workers(2) as workers:
        kept = fit_split(KernelLogistic(20), X, signs, [0, 5000, 5000, 7000, 9000], workers)
        for n_kept in (0, 5000, 8999):
            learner = KernelLogistic(20, memory=n_kept * (4 * 20 + 6))
            again = fit_split(learner, X, signs, [0, 5000, 5000, 7000, 9000], workers)
            np.testing.assert_array_equal(again.weights, kept.weights)


def test_targets_can_be_packed_codes_of_points() -> None:
    X, signs = scene(0)
    targets = BlockTargets(
        ArrayBlocks(pack(signs), [0, 50, 120], "codes"), 6, None, ArrayBlocks(signs, [0, 50, 120], "labels")
    )
    with Workers(1) as workers:
        blocks = ArrayBlocks(X, [0, 50, 120], "image")
        found = KernelLogistic(20).fit_blocks(blocks, targets, "image", FitContext(workers, 0))
        other = fit_split(KernelLogistic(20), X, signs, [0, 50, 120], workers)
    np.testing.assert_array_equal(found.to_arrays()["weights"], other.weights)


@pytest.mark.parametrize("learner", [KernelLogistic(20, bases="kmeans"), KernelRidge(20, bases="kmeans")], ids=repr)
def test_cluster_centres_do_not_depend_on_where_data_is_split(learner: HashLearner) -> None:
    X, signs = scene(0, n=3000)
    with Workers(1) as workers:
        whole, split = (fit_split(learner, X, signs, starts, workers) for starts in ([0, 3000], [0, 700, 710, 3000]))
    np.testing.assert_allclose(split.kernel.bases, whole.kernel.bases, atol=1e-4)
    np.testing.assert_allclose(split.kernel(X), whole.kernel(X), atol=1e-4)


class Guess(HashLearner):
    def check_parameters(self) -> None: ...

    def fit(self, *_: Any) -> Any: ...


def test_learners_and_data_that_do_not_work_in_blocks_are_reported() -> None:
    X, signs = scene(0)
    bad = sp.csr_array(X)
    bad.data[-1] = np.inf
    for learner, features, sentence in (
        (Guess(), X, "data in blocks needs linear, kernel ridge or kernel logistic functions, not Guess"),
        (KernelLogistic(20), bad, "'image' has NaN or infinity in row 119"),
    ):
        with Workers(1) as workers, pytest.raises(InputError, match=sentence):
            fit_split(learner, features, signs, [0, 50, 120], workers)
