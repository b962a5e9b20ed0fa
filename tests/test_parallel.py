"""Concurrent calls return correct results, use no more threads than requested, and stop when they are cancelled."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from threadpoolctl import threadpool_info

from dlfh import DLFH, InputError, _parallel
from dlfh._parallel import Workers, blas_threads, cancellable, checkpoint, resolve_n_jobs
from dlfh.datasets import make_paired
from dlfh.index import Index
from dlfh.metrics import mean_average_precision


def whole_job(seed: int, n_jobs: int | None = 2) -> tuple[bytes, bytes, float]:
    """Fit, encode and evaluate; return results that must not depend on concurrent calls."""
    train, test = make_paired(n_points=500, random_state=seed).split(100)
    model = DLFH(24, random_state=seed, max_iter=10, n_jobs=n_jobs, hash_function="linear").fit(
        train.modalities, train.labels
    )
    codes = model.encode("text", test.modalities["text"])
    value = mean_average_precision(codes, model.codes_["image"], test.labels, train.labels, n_jobs=n_jobs)
    return model.codes_["image"].tobytes(), codes.tobytes(), value


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Split even small work over the threads."""
    monkeypatch.setattr(_parallel, "_MIN_BLOCK_COST", 1.0)


@pytest.mark.slow
def test_concurrent_threads_get_the_results_of_sequential_calls() -> None:
    alone = [whole_job(seed) for seed in range(4)]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(whole_job, [seed % 4 for seed in range(24)]))
    assert together == [alone[seed % 4] for seed in range(24)]


def test_one_model_can_be_used_by_many_threads() -> None:
    train, test = make_paired(n_points=500, random_state=0).split(100)
    model = DLFH(24, random_state=0, n_jobs=1, hash_function="linear").fit(train.modalities, train.labels)
    expected = model.encode("image", test.modalities["image"])
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda _: model.encode("image", test.modalities["image"]), range(64)))
    for result in results:
        np.testing.assert_array_equal(result, expected)


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.slow
def test_child_processes_get_the_results_of_their_parent(method: str) -> None:
    if method not in multiprocessing.get_all_start_methods():
        pytest.skip(f"this system does not support {method}")
    expected = whole_job(0)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        assert list(pool.map(whole_job, [0, 0, 0])) == [expected] * 3


def blas_thread_counts() -> set[int]:
    # faiss bundles a BLAS that the library never uses.
    blas = [library for library in threadpool_info() if library["user_api"] == "blas"]
    return {library["num_threads"] for library in blas if "faiss" not in library["filepath"]}


def test_n_jobs_limits_blas_and_restores_it() -> None:
    before = blas_thread_counts()
    seen = []

    class Watching(DLFH):
        def _fit(self, features: Any, labels: Any) -> None:
            seen.append(blas_thread_counts())
            super()._fit(features, labels)

    data = make_paired(n_points=100, random_state=0)
    Watching(8, n_jobs=1, max_iter=1).fit(data.modalities, data.labels)
    assert seen == [{1}]
    assert blas_thread_counts() == before


def test_overlapping_limits_apply_the_smallest_and_are_restored() -> None:
    before = blas_thread_counts()
    first, second = threading.Event(), threading.Event()
    seen = []

    def outer() -> None:
        with blas_threads(1):
            first.set()
            second.wait(10)
        seen.append(blas_thread_counts())

    thread = threading.Thread(target=outer)
    thread.start()
    first.wait(10)
    with blas_threads(2):
        seen.append(blas_thread_counts())
        second.set()
        thread.join()
    assert seen == [{1}, {2}]
    assert blas_thread_counts() == before


def test_a_forked_child_does_not_inherit_limits() -> None:
    if not hasattr(os, "fork"):
        pytest.skip("this system does not support fork")
    before = blas_thread_counts()
    with blas_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
        if child == 0:
            os._exit(0 if blas_thread_counts() == before else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_no_more_threads_run_than_requested() -> None:
    running, most, lock = 0, 0, threading.Lock()

    def work(start: int, stop: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        sum(range(20_000))
        with lock:
            running -= 1
        return stop - start

    for n_jobs in (1, 2, 3):
        most = 0
        with Workers(n_jobs) as workers:
            assert sum(workers.map_blocks(work, 1000, 7)) == 1000
        assert most <= n_jobs


def test_no_thread_outlives_a_call() -> None:
    before = threading.active_count()
    whole_job(0)
    assert threading.active_count() == before


def test_an_error_in_a_block_reaches_the_caller() -> None:
    def fail(start: int, stop: int) -> None:
        raise ZeroDivisionError(f"{start}-{stop}")

    with pytest.raises(ZeroDivisionError), Workers(2) as workers:
        workers.map_blocks(fail, 10, 3)


def test_none_and_minus_one_mean_all_cores() -> None:
    cores = resolve_n_jobs(None)
    assert cores == resolve_n_jobs(-1) == len(os.sched_getaffinity(0))
    assert resolve_n_jobs(7) == 7
    for bad in (0, -2, 1.5, "2", True):
        with pytest.raises(InputError, match="n_jobs must be an integer from 1 to 1024"):
            resolve_n_jobs(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("n_jobs", [10**30, 10**5000, 1025], ids=["large", "long", "many"])
def test_absurd_thread_counts_are_refused(n_jobs: int) -> None:
    with pytest.raises(InputError, match=r"n_jobs must be an integer from 1 to 1024, or -1 or None"):
        DLFH(8, n_jobs=n_jobs, hash_function="linear").fit({"image": np.eye(6), "text": np.eye(6)}, np.arange(6) % 2)
    with blas_threads(2):
        pass


def test_a_limit_that_blas_rejects_is_not_kept() -> None:
    with pytest.raises(ctypes.ArgumentError):
        _parallel._blas_limit.change(add=10**30)
    with blas_threads(2):
        pass


class StoppedError(Exception):
    pass


def stop() -> None:
    raise StoppedError


def test_a_checkpoint_stops_the_computation_of_its_own_thread_only() -> None:
    passed = threading.Event()

    def work() -> None:
        checkpoint()
        passed.set()

    with cancellable(stop):
        with pytest.raises(StoppedError):
            checkpoint()
        other = threading.Thread(target=work)
        other.start()
        other.join()
        with cancellable(lambda: None):
            checkpoint()
        with pytest.raises(StoppedError):
            checkpoint()
    checkpoint()
    assert passed.is_set()


def test_filters_stop_when_they_are_cancelled() -> None:
    index = Index(8, ["image"])
    index.add(["item"], {"image": np.zeros((1, 1), np.uint8)})
    with cancellable(stop), pytest.raises(StoppedError):
        index.matches({"or": [{"a": 1}, {"b": 2}]})


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_blocks_come_in_order_with_one_blas_thread_each_and_few_of_them_ahead(n_jobs: int) -> None:
    started: list[int] = []

    def run(start: int, stop: int) -> tuple[int, int, set[int]]:
        started.append(start)
        return start, stop, blas_thread_counts()

    with Workers(n_jobs) as workers:
        blocks = workers.each_block(run, 23, 2)
        first = next(blocks)
        assert max(started) <= 2 * n_jobs
        rest = list(blocks)
    assert [block[:2] for block in (first, *rest)] == [(start, min(start + 2, 23)) for start in range(0, 23, 2)]
    if n_jobs > 1:
        assert all(threads == {1} for _, _, threads in (first, *rest))
