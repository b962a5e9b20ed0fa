"""Dask arrays give what arrays in memory give; on a cluster of processes, also when workers are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from dlfh import DLFH, KDLFH
from dlfh.blocks import base, open_blocks
from dlfh.blocks.base import ArrayBlocks
from dlfh.blocks.dask import DaskBlocks, is_dask
from dlfh.datasets import make_paired, write_arrays
from dlfh.errors import InputError
from dlfh.hashing import KernelLogistic
from dlfh.hashing.kernel_rows import KernelRows
from dlfh.methods import CCAITQ, CMFH, CVH, SCM, CrossModalHasher, available, block_labels
from dlfh.methods.catalogue import METHODS
from dlfh.metrics import evaluate

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")


def sparse_array(matrix: Any, rows: int) -> Any:
    """Return a Dask array whose blocks are of scipy.sparse."""
    n, d = matrix.shape
    meta = sp.csr_array((0, 0), dtype=matrix.dtype)
    parts = [dask.delayed(matrix[start : start + rows]) for start in range(0, n, rows)]
    lengths = [min(rows, n - start) for start in range(0, n, rows)]
    return da.concatenate(
        [da.from_delayed(part, (length, d), meta=meta) for part, length in zip(parts, lengths, strict=True)]
    )


def scene(n: int, many: bool, n_modalities: int) -> tuple[dict[str, Any], Any]:
    data = make_paired(n, n_labels=12 if many else 5, n_label_sets=400 if many else 10, random_state=0)
    modalities = dict(data.modalities)
    if n_modalities == 3:
        modalities["sound"] = np.asarray(modalities["image"])[:, :9] ** 2
    return modalities, data.labels.toarray().astype(np.int8)


def to_dask(modalities: dict[str, Any], labels: Any, rows: int) -> tuple[dict[str, Any], Any]:
    arrays = {
        name: sparse_array(own, rows) if sp.issparse(own) else da.from_array(own, chunks=(rows, -1))
        for name, own in modalities.items()
    }
    return arrays, da.from_array(labels, chunks=(rows, -1))


def assert_equal(ours: CrossModalHasher, whole: CrossModalHasher, modalities: dict[str, Any]) -> None:
    for name, matrix in modalities.items():
        assert is_dask(ours.codes_[name])
        np.testing.assert_array_equal(np.asarray(ours.codes_[name]), whole.codes_[name])
        np.testing.assert_allclose(ours.project(name, matrix), whole.project(name, matrix), atol=2e-3)


@pytest.mark.parametrize("rows", [60, 170, 1000])
def test_on_threads_codes_are_those_of_arrays_in_memory(rows: int) -> None:
    modalities, labels = scene(500, False, 2)
    whole = DLFH(16, hash_function="linear", random_state=0).fit(modalities, labels)
    with dask.config.set(scheduler="threads"):
        arrays, chunked = to_dask(modalities, labels, rows)
        ours = DLFH(16, hash_function="linear", random_state=0).fit(arrays, chunked)
        assert_equal(ours, whole, modalities)
        codes = ours.encode("image", arrays["image"])
        assert is_dask(codes)
        np.testing.assert_array_equal(np.asarray(codes), ours.encode("image", modalities["image"]))
        assert_equal(
            DLFH(16, hash_function="kernel-ridge", random_state=0).fit(arrays, chunked),
            DLFH(16, hash_function="kernel-ridge", random_state=0).fit(modalities, labels),
            modalities,
        )


def test_files_are_read_where_they_are_worked_on(tmp_path: Path) -> None:
    """The features' blocks decide, and labels in a file are cut as they are."""
    modalities, labels = scene(300, False, 2)
    write_arrays(tmp_path / "text.parquet", {"text": modalities["text"]})
    np.save(tmp_path / "image.npy", modalities["image"])
    np.save(tmp_path / "labels.npy", labels)
    whole = DLFH(16, hash_function="linear", random_state=0).fit(modalities, labels)
    with dask.config.set(scheduler="threads"):
        names = {"image": "image.npy", "text": "text.parquet"}
        there = {name: open_blocks(tmp_path / file).on_cluster() for name, file in names.items()}
        starts = ArrayBlocks(labels, [0, 120, 300], "labels")
        there["image"] = there["image"].split_like(starts)
        assert there["image"].n_blocks == 2
        ours = DLFH(16, hash_function="linear", random_state=0).fit(
            there, open_blocks(tmp_path / "labels.npy").on_cluster()
        )
        assert_equal(ours, whole, modalities)
        assert is_dask(ours.encode("text", there["text"]))


def test_label_files_are_read_by_the_workers_of_a_dask_array(tmp_path: Path) -> None:
    modalities, labels = scene(300, False, 2)
    np.save(tmp_path / "labels.npy", labels)
    whole = DLFH(16, hash_function="linear", random_state=0).fit(modalities, labels)
    with dask.config.set(scheduler="threads"):
        arrays, _ = to_dask(modalities, labels, 120)
        ours = DLFH(16, hash_function="linear", random_state=0).fit(arrays, open_blocks(tmp_path / "labels.npy"))
    for name in modalities:
        np.testing.assert_array_equal(np.asarray(ours.codes_[name]), whole.codes_[name])


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_learns_from_dask_arrays_or_refuses_them_in_a_sentence(name: str) -> None:
    modalities, labels = scene(300, False, 2)
    info = available()[name]
    method: Any = METHODS[name]
    settings = {} if info.is_deterministic else {"random_state": 0}
    with dask.config.set(scheduler="synchronous"):
        arrays, chunked = to_dask(modalities, labels, 110)
        if not info.takes_blocks:
            with pytest.raises(InputError, match=f"^{name}.fit takes arrays in memory, but modality 'image' is in"):
                method(16, **settings).fit(arrays, chunked)
            return
        ours = method(16, **settings).fit(arrays, chunked)
        assert_equal(ours, method(16, **settings).fit(modalities, labels), modalities)


def test_methods_of_sums_need_no_label_sets_and_accept_arrays_with_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    modalities, labels = scene(300, True, 3)
    monkeypatch.setattr(block_labels, "MAX_SETS_HERE", 3)
    whole = CVH(8, similarity="labels").fit(modalities, labels)
    with dask.config.set(scheduler="synchronous"):
        arrays, chunked = to_dask(modalities, labels, 110)
        mixed = arrays | {"image": modalities["image"]}
        assert_equal(CVH(8, similarity="labels").fit(mixed, chunked), whole, modalities)
        assert_equal(CVH(8, similarity="labels").fit(arrays, labels), whole, modalities)


def many_sets(n: int) -> tuple[dict[str, Any], Any]:
    """Return points with a label set each, of 291 labels, and with three modalities, one of them sparse."""
    rng = np.random.default_rng(0)
    labels = (rng.random((n, 291)) < 0.015).astype(np.int8)
    labels[np.arange(n), np.arange(n) % 291] = 1
    X = (labels @ rng.standard_normal((291, 20)) + rng.standard_normal((n, 20))).astype(np.float32)
    return {"image": X, "text": sp.csr_array(np.where(X > 1, X, 0)), "sound": X[:, :7] ** 2}, labels


@pytest.mark.parametrize("hash_function", ["linear", pytest.param("auto", marks=pytest.mark.cluster)])
def test_label_sets_that_are_too_many_for_one_process_are_learned_in_parts(
    monkeypatch: pytest.MonkeyPatch, hash_function: str
) -> None:
    modalities, labels = many_sets(600)
    monkeypatch.setattr(block_labels, "MAX_SETS_HERE", 100)
    settings: dict[str, Any] = {"solver": "stochastic", "hash_function": hash_function, "random_state": 0}
    whole = DLFH(16, **settings).fit(modalities, labels)
    with dask.config.set(scheduler="threads"):
        arrays, chunked = to_dask(modalities, labels, 170)
        ours = DLFH(16, **settings).fit(arrays, chunked)
        assert_equal(ours, whole, modalities)
        np.testing.assert_array_equal(ours.flips_, whole.flips_)
        assert repr(ours.chosen_) == repr(whole.chosen_)
        with pytest.raises(InputError, match="too many label sets to keep"):
            ours.codes_of_labels(labels[:2])


def test_files_with_different_blocks_are_split_at_the_same_rows_for_partitioned_label_sets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    modalities, labels = many_sets(600)
    monkeypatch.setattr(block_labels, "MAX_SETS_HERE", 100)
    monkeypatch.setattr(base, "_BLOCK_BYTES", 20_000)
    settings: dict[str, Any] = {"solver": "stochastic", "hash_function": "linear", "random_state": 0}
    whole = DLFH(16, **settings).fit(modalities, labels)
    write_arrays(tmp_path / "data.parquet", {**modalities, "labels": labels})
    with dask.config.set(scheduler="threads"):
        there: Any = {name: open_blocks(tmp_path / "data.parquet", name).on_cluster() for name in modalities}
        assert len({blocks.n_blocks for blocks in there.values()}) == 3
        ours = DLFH(16, **settings).fit(there, open_blocks(tmp_path / "data.parquet", "labels").on_cluster())
        assert_equal(ours, whole, modalities)


def test_wrong_arrays_are_one_sentence() -> None:
    modalities, labels = scene(300, False, 2)
    with dask.config.set(scheduler="synchronous"):
        arrays, chunked = to_dask(modalities, labels, 100)
        with pytest.raises(InputError, match="split both at the same rows"):
            DLFH(8, hash_function="linear").fit(arrays, chunked.rechunk((150, -1)))
        unknown = arrays["image"][da.from_array(np.arange(300) < 200, chunks=100)]
        with pytest.raises(InputError, match=r"call compute_chunk_sizes\(\)"):
            DLFH(8).fit(arrays | {"image": unknown}, chunked)
        with pytest.raises(InputError, match="must hold numbers"):
            DLFH(8).fit(arrays | {"image": da.from_array(np.full((300, 2), "a"), chunks=100)}, chunked)
        lying = DaskBlocks.of(arrays["image"], "modality 'image'")
        lying.pieces[1] = dask.delayed(modalities["image"][:100, 1:])
        with pytest.raises(InputError, match="the block that starts at row 100 has shape"):
            DLFH(8, hash_function="linear").fit(arrays | {"image": lying}, chunked)


# On a cluster: pytest -m cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        ) as local,
        distributed.Client(local) as client,
    ):
        yield client


pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.cluster
@pytest.mark.parametrize(("many", "n_modalities"), [(False, 2), (False, 3), (True, 2), (True, 3)])
def test_a_cluster_gives_the_codes_of_one_machine(cluster: Any, many: bool, n_modalities: int) -> None:
    modalities, labels = scene(2000, many, n_modalities)
    settings: dict[str, Any] = {"hash_function": "linear", "random_state": 0}
    if many:
        settings |= {"solver": "stochastic"}
    whole = DLFH(32, **settings).fit(modalities, labels)
    for rows in (190, 700):
        arrays, chunked = to_dask(modalities, labels, rows)
        ours = DLFH(32, **settings).fit(arrays, chunked)
        assert_equal(ours, whole, modalities)
        for name, array in arrays.items():
            np.testing.assert_array_equal(np.asarray(ours.encode(name, array)), ours.encode(name, modalities[name]))


@pytest.mark.cluster
@pytest.mark.parametrize("n_modalities", [2, 3])
def test_a_cluster_learns_many_label_sets_in_parts(
    cluster: Any, monkeypatch: pytest.MonkeyPatch, n_modalities: int
) -> None:
    """As many label sets as points, 291 labels; a worker is killed in the middle of it."""
    modalities, labels = many_sets(6000)
    modalities = dict(list(modalities.items())[:n_modalities])
    monkeypatch.setattr(block_labels, "MAX_SETS_HERE", 2000)
    whole = DLFH(64, hash_function="linear", random_state=0).fit(modalities, labels)
    arrays, chunked = to_dask(modalities, labels, 1300)
    assert_equal(DLFH(64, hash_function="linear", random_state=0).fit(arrays, chunked), whole, modalities)
    killed: list[int] = []
    killer = kill_a_worker(cluster, killed)
    arrays, chunked = to_dask(modalities, labels, 500)
    slow = chunked.map_blocks(slowly, dtype=np.int8)
    ours = DLFH(64, hash_function="linear", random_state=0).fit(arrays, slow)
    killer.join()
    assert_equal(ours, whole, modalities)


@pytest.mark.cluster
def test_files_go_to_the_cluster_that_one_is_connected_to(cluster: Any, tmp_path: Path) -> None:
    """The same calls as without one: no word of a cluster in them, and paths as they are from here."""
    modalities, labels = scene(2000, False, 2)
    settings: dict[str, Any] = {"hash_function": "linear", "random_state": 0}
    whole = DLFH(32, **settings).fit(modalities, labels)
    write_arrays(tmp_path / "data.parquet", {**modalities, "labels": labels})
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        features: dict[str, Any] = {name: open_blocks("data.parquet", name) for name in modalities}
        ours = DLFH(32, **settings).fit(features, open_blocks("data.parquet", "labels"))
    assert_equal(ours, whole, modalities)
    codes = ours.encode("image", features["image"])
    assert is_dask(codes)
    queries = whole.encode("text", modalities["text"][:50])
    np.save(tmp_path / "labels.npy", labels)
    found = evaluate(queries, codes, labels[:50], open_blocks(tmp_path / "labels.npy"), measures=["AP", "P@10"])
    expected = evaluate(queries, np.asarray(codes), labels[:50], labels, measures=["AP", "P@10"])
    assert found.to_dict() == pytest.approx(expected.to_dict(), rel=1e-12)
    (tmp_path / "data.parquet").unlink()
    with pytest.raises(InputError, match="workers read files by the same paths"):
        DLFH(32, **settings).fit(features, open_blocks(tmp_path / "labels.npy"))


@pytest.mark.cluster
def test_auto_and_kernels_on_a_cluster(cluster: Any) -> None:
    modalities, labels = scene(1000, False, 2)
    whole = DLFH(16, random_state=0).fit(modalities, labels)
    ours = DLFH(16, random_state=0).fit(*to_dask(modalities, labels, 300))
    assert repr(ours.chosen_) == repr(whole.chosen_)
    assert_equal(ours, whole, modalities)


@pytest.mark.cluster
def test_methods_of_sums_on_a_cluster(cluster: Any) -> None:
    """Labels by class, words sparse; CCA-ITQ also while a worker is killed."""
    modalities, labels = scene(1500, False, 2)
    classes = labels.argmax(axis=1)
    arrays, _ = to_dask(modalities, labels, 400)
    chunked = da.from_array(classes, chunks=400)
    methods: list[Any] = [SCM(8), CVH(8), CCAITQ(8, max_iter=10, random_state=0), CMFH(8, random_state=0)]
    for method in methods:
        whole = clone(method).fit(modalities, classes)
        assert_equal(clone(method).fit(arrays, chunked), whole, modalities)
    slow = arrays["image"].rechunk((100, -1)).map_blocks(slowly, dtype=np.float32)
    method, killed = methods[2], list[int]()
    killer = kill_a_worker(cluster, killed)
    ours = clone(method).fit({"image": slow, "text": sparse_array(modalities["text"], 100)})
    killer.join()
    assert killed
    assert_equal(ours, clone(method).fit(modalities), modalities)


def slowly(block: Any) -> Any:
    time.sleep(0.25)
    return block


def wait_for_two(client: Any) -> None:
    """Wait for two workers, but not for long: Dask is at times slow to start another for one that was killed."""
    deadline = time.monotonic() + 30
    while len(client.run(os.getpid)) < 2 and time.monotonic() < deadline:
        time.sleep(0.1)


def kill_one(client: Any, killed: list[int]) -> None:
    """Kill a worker with SIGKILL, unless it is the last."""
    pids = list(client.run(os.getpid).values())
    if len(pids) > 1:
        os.kill(pids[0], signal.SIGKILL)
        killed.append(pids[0])


def kill_a_worker(client: Any, killed: list[int]) -> threading.Thread:
    """Kill a worker while tasks run."""
    wait_for_two(client)

    def kill() -> None:
        time.sleep(0.8)
        kill_one(client, killed)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


@pytest.mark.cluster
def test_a_worker_that_is_killed_changes_nothing(cluster: Any) -> None:
    modalities, labels = scene(2000, False, 2)
    whole = DLFH(16, hash_function="linear", random_state=0).fit(modalities, labels)
    arrays, chunked = to_dask(modalities, labels, 100)
    slow = {"image": arrays["image"].map_blocks(slowly, dtype=np.float32), "text": arrays["text"]}
    killed: list[int] = []
    killer = kill_a_worker(cluster, killed)
    ours = DLFH(16, hash_function="linear", random_state=0).fit(slow, chunked.map_blocks(slowly, dtype=np.int8))
    killer.join()
    assert_equal(ours, whole, modalities)
    killer = kill_a_worker(cluster, killed)
    codes = np.asarray(ours.encode("image", slow["image"]))
    killer.join()
    np.testing.assert_array_equal(codes, ours.encode("image", modalities["image"]))
    queries, asking = whole.encode("text", modalities["text"][:50]), labels[:50]
    measures = ["AP", "P@10", 'P(match="all")@10', "nDCG", "nDCG@10"]
    expected = evaluate(queries, whole.codes_["image"], asking, labels, measures=measures)
    killer = kill_a_worker(cluster, killed)
    database = da.from_array(whole.codes_["image"], chunks=(100, -1)).map_blocks(slowly, dtype=np.uint8)
    found = evaluate(queries, database, asking, chunked, measures=measures)
    killer.join()
    assert found.to_dict() == pytest.approx(expected.to_dict(), rel=1e-12)
    assert killed
    assert not set(killed) & set(cluster.run(os.getpid).values())


def assert_functions_agree(ours: Any, whole: Any, modalities: dict[str, Any]) -> None:
    """Codes are equal; logistic functions agree to the solver's tolerance."""
    for name, matrix in modalities.items():
        np.testing.assert_array_equal(np.asarray(ours.codes_[name]), whole.codes_[name])
        bits = np.unpackbits([model.encode(name, matrix) for model in (ours, whole)], axis=2)
        assert (bits[0] == bits[1]).mean() >= 0.998


@pytest.mark.parametrize("rows", [110, 1000])
def test_on_threads_logistic_functions_are_those_of_arrays_in_memory(rows: int) -> None:
    modalities, labels = scene(300, False, 2)
    whole = KDLFH(8, n_bases=40, random_state=0).fit(modalities, labels)
    with dask.config.set(scheduler="threads"):
        arrays, chunked = to_dask(modalities, labels, rows)
        assert_functions_agree(KDLFH(8, n_bases=40, random_state=0).fit(arrays, chunked), whole, modalities)
        assert_functions_agree(KDLFH(8, n_bases=40, random_state=0).fit(arrays, labels), whole, modalities)


@pytest.mark.cluster
def test_logistic_functions_on_a_cluster_also_when_a_worker_is_killed(cluster: Any) -> None:
    modalities, labels = scene(2000, False, 2)
    whole = KDLFH(16, n_bases=100, random_state=0).fit(modalities, labels)
    arrays, chunked = to_dask(modalities, labels, 300)
    assert_functions_agree(KDLFH(16, n_bases=100, random_state=0).fit(arrays, chunked), whole, modalities)
    killed: list[int] = []
    sums = KernelRows.loss_sums

    def killing(self: KernelRows, weights: Any, columns: Any) -> Any:
        """Kill a worker, with the kernel values that it keeps, in the middle of the iterations."""
        rounds.append(len(columns))
        if len(rounds) >= 5 and not killed:
            kill_one(cluster, killed)
        return sums(self, weights, columns)

    rounds: list[int] = []
    wait_for_two(cluster)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(KernelRows, "loss_sums", killing)
        ours = KDLFH(16, n_bases=100, random_state=0).fit(arrays, chunked)
    assert_functions_agree(ours, whole, modalities)
    assert killed
    assert killed[0] not in cluster.run(os.getpid).values()


@pytest.mark.cluster
def test_a_lost_cluster_is_reported_in_one_sentence() -> None:
    distributed = pytest.importorskip("distributed")
    modalities, labels = scene(1000, False, 2)
    arrays, chunked = to_dask(modalities, labels, 50)
    local = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None, memory_limit=0)
    client = distributed.Client(local, timeout=5)
    try:
        model = DLFH(16, hash_function="linear", random_state=0)
        closer = threading.Timer(2, lambda: client.close())
        closer.start()
        slow = chunked.map_blocks(slowly, dtype=np.int8)
        with client.as_current(), pytest.raises(InputError, match="the Dask cluster was lost"):
            model.fit(arrays, slow)
        assert not hasattr(model, "modalities_")
    finally:
        closer.join()
        local.close()


def peak_mb(process: int | str) -> float:
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1000


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[tuple[Any, int]]:
    """Start a scheduler and two workers in processes of their own; give a client, and the scheduler's process."""
    distributed = pytest.importorskip("distributed")
    if not Path("/proc/self/clear_refs").exists():
        pytest.skip("peaks are read and reset as Linux does it")
    about = str(tmp_path / "scheduler.json")
    run = [sys.executable, "-m", "distributed.cli.dask_"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    def start(what: str, *options: str) -> Any:
        command = [*run[:-1], run[-1] + what, "--scheduler-file", about, "--no-dashboard", *options]
        return subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL)

    scheduler = start("scheduler", "--port", "0")
    workers = [start("worker", "--nthreads", "1", "--no-nanny", "--memory-limit", "0") for _ in range(2)]
    try:
        with distributed.Client(scheduler_file=about, timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
            yield client, scheduler.pid
    finally:
        for process in (*workers, scheduler):
            process.kill()
            process.wait()


@pytest.mark.cluster
def test_scheduler_and_client_use_a_few_of_hundreds_of_megabytes(processes: tuple[Any, int], tmp_path: Path) -> None:
    """350 MB of features and labels in files: fit, encode and evaluate, and many label sets, learned in parts.

    Logistic functions leave their kernel values, 48 MB of each modality, where they are.
    """
    _, scheduler = processes
    n, rng = 300_000, np.random.default_rng(0)
    X = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (n, 280))
    few = np.lib.format.open_memmap(tmp_path / "few.npy", "w+", np.int8, (n, 10))
    for start in range(0, n, 20_000):
        X[start : start + 20_000] = rng.standard_normal((20_000, 280), np.float32)
        few[start : start + 20_000] = rng.random((20_000, 10)) < 0.2
    X.flush()
    np.save(tmp_path / "many.npy", rng.random((40_000, 291), np.float32) < 0.02)
    del X, few
    x, labels, many = (open_blocks(tmp_path / f"{name}.npy") for name in ("x", "few", "many"))

    def work(n_rows: int, n_many: int) -> None:
        cut = ArrayBlocks(np.empty(n, np.int8), [*range(0, n_rows, 10_000), n_rows, n], "rows")
        features, own = (part.split_like(cut).on_cluster() for part in (x, labels))
        if n_rows < n:
            features, own = (DaskBlocks.of(part.result()[:n_rows], "part") for part in (features, own))
        model = DLFH(32, hash_function="linear", random_state=0).fit({"a": features, "b": features}, own)
        logistic = KernelLogistic(40, max_iter=3)
        DLFH(8, hash_function=logistic, random_state=0).fit({"a": features, "b": features}, own)
        codes = model.encode("a", features)
        queries = model.encode("b", np.ones((400, 280), np.float32))
        evaluate(queries, codes, np.ones((400, 10), np.int8), own, measures=["AP", "P@10", "nDCG", "PR"])
        CCAITQ(16, max_iter=2, random_state=0).fit({"a": own, "b": own})
        CMFH(16, max_iter=2, random_state=0).fit({"a": own, "b": own})
        sets = DaskBlocks.of(many.on_cluster().result().rechunk((5000, -1))[:n_many], "labels")
        pair = da.ones((n_many, 2), chunks=(5000, -1))
        DLFH(16, hash_function="linear", random_state=0, max_iter=3).fit({"a": pair, "b": pair}, sets)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(block_labels, "MAX_SETS_HERE", 3000)
        work(20_000, 10_000)  # what is imported and compiled is there
        before: dict[int | str, float] = {}
        for process in ("self", scheduler):
            Path(f"/proc/{process}/clear_refs").write_text("5", encoding="ascii")
            before[process] = peak_mb(process)
        work(n, 40_000)
    for own, had in before.items():
        grown = peak_mb(own) - had
        print(f"{'client' if own == 'self' else 'scheduler'}: {had:.0f} MB, at most {grown:.1f} MB more")
        assert grown < 40
