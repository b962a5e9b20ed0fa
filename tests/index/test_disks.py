"""Disks that are full, fail or lose power: the index has the old state or the new one, and reports the error."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh.errors import DLFHError
from dlfh.index import Index
from tests.index.kill_writers import N_BITS, change, compile_kernels, contents, write
from tests.index.plain_index import MODALITIES, PlainIndex

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")


def contents_after(number: int) -> list[Any]:
    """Return the contents of an index after a number of changes."""
    model = PlainIndex(N_BITS)
    for each in range(number):
        change(each, model)
    return contents(model)


class Writer:
    """A process that changes an index on request."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.index.obedient_writer"]
        streams: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process: subprocess.Popen[str] = subprocess.Popen(command, cwd=ROOT, **streams)

    def create(self, folder: Path) -> None:
        assert self._ask(f"create {folder}") == {"ready": True}

    def go(self) -> dict[str, Any]:
        return self._ask("go")

    def _ask(self, command: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())


@pytest.fixture(scope="module")
def writer() -> Iterator[Writer]:
    writer = Writer()
    yield writer
    writer.process.communicate()


def assert_one_line(answer: dict[str, Any]) -> None:
    assert answer["outcome"] in ("old", "new"), answer
    assert answer["message"].isprintable(), answer["message"]


def test_a_file_size_limit_is_one_message_and_the_index_stays_whole(tmp_path: Path, writer: Writer) -> None:
    writer.create(tmp_path / "index")
    for _ in range(5):
        assert writer.go()["outcome"] == "new"
    # Python ignores SIGXFSZ, so that writing fails with an error.
    resource.prlimit(writer.process.pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
    refused = [writer.go() for _ in range(3)]
    resource.prlimit(writer.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    after = writer.go()
    for answer in refused:
        assert answer["outcome"] == "old"
        assert answer["message"].startswith("cannot write to the index "), answer["message"]
    assert (after["outcome"], after["number"]) == ("new", 6)
    with Index.open(tmp_path / "index") as index:
        index.verify()
        assert contents(index) == contents_after(6)


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """Mount a file system at a folder, or skip the test if that is not allowed."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount file systems here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


needs_mount = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("mount") is None,
    reason="mounts file systems: run as root",
)


@needs_mount
def test_a_full_disk_is_one_message_and_the_index_stays_whole(tmp_path: Path, writer: Writer) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "-t", "tmpfs", "-o", "size=160k", "none"):
        writer.create(disk / "index")
        answers = [writer.go() for _ in range(10)]
        filler = disk / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
            while True:
                file.write(bytes(512))
        answers += [writer.go() for _ in range(10)]
        assert {answer["outcome"] for answer in answers[10:]} == {"old"}
        filler.unlink()
        answers.append(writer.go())
        for answer in answers:
            assert_one_line(answer)
        assert "No space left on device" in answers[10]["message"]
        assert answers[-1]["outcome"] == "new"
        with Index.open(disk / "index") as index:
            index.verify()
            assert contents(index) == contents_after(answers[-1]["number"])
        writer.create(tmp_path / "elsewhere")  # releases the disk


@needs_mount
def test_a_model_that_does_not_fit_on_a_disk_is_refused_and_the_old_one_stays(tmp_path: Path) -> None:
    import dlfh
    from dlfh.datasets import make_paired

    small, large = (
        dlfh.DLFH(n_bits, random_state=0, hash_function="linear", max_iter=1).fit(data.modalities, data.labels)
        for n_bits, data in (
            (16, make_paired(60, n_labels=3, image_features=8, text_features=9, random_state=0)),
            (128, make_paired(300, n_labels=3, image_features=200, text_features=300, random_state=0)),
        )
    )
    disk = tmp_path / "disk"
    with mounted(disk, "-t", "tmpfs", "-o", "size=100k", "none"):
        small.save(disk / "model")
        with pytest.raises(DLFHError, match=r"No space left on device"):
            large.save(disk / "model")
        assert dlfh.load(disk / "model").n_bits == 16
        small.save(disk / "model")
        assert not [name for name in os.listdir(disk / "model") if name.startswith(".saving")]


CALLS = ("fsync", "rename", "write", "openat", "unlink", "close", "fchmod", "fstat", "newfstatat", "mmap")
ERRORS = ("EIO", "ENOSPC", "EACCES", "EMFILE", "EDQUOT", "EROFS")


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_failing_system_calls_leave_the_old_state_or_the_new_one(tmp_path: Path, writer: Writer) -> None:
    rounds = int(os.environ.get("DLFH_FAULTS", "30"))
    rng = np.random.default_rng(0)
    folder, counts, log = tmp_path / "index", Counter[str](), tmp_path / "strace"
    writer.create(folder)
    for _ in range(8):
        assert writer.go()["outcome"] == "new"
    for number in range(rounds):
        call, error = CALLS[number % len(CALLS)], str(rng.choice(ERRORS))
        when = int(rng.integers(1, 6))
        with injected(writer.process.pid, log, call, error, when):
            answer = writer.go()
        assert_one_line(answer)
        counts["refused" if answer["message"] else "done"] += 1
        with Index.open(folder) as index:
            index.verify()
            assert contents(index) == contents_after(answer["number"]), (call, error, when)
    assert writer.go()["message"] == ""
    assert counts["refused"] > rounds // 8
    assert counts["done"] > 0


@contextlib.contextmanager
def injected(process: int, log: Path, call: str, error: str, when: int) -> Iterator[None]:
    """Make the ``when``-th system call of a kind in a process fail."""
    inject = f"inject={call}:error={error}:when={when}"
    command = ["strace", "-f", "-o", str(log), "-e", f"trace={call}", "-e", inject, "-p", str(process)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    first = tracer.stderr.readline()
    if "attached" not in first:
        tracer.communicate()
        pytest.skip(f"strace cannot attach here: {first.strip()}")
    try:
        yield
    finally:
        tracer.send_signal(signal.SIGINT)
        tracer.communicate()


@needs_mount
@pytest.mark.skipif(shutil.which("mkfs.ext4") is None, reason="needs mkfs.ext4")
def test_changes_before_a_power_cut_survive_it(tmp_path: Path) -> None:
    cuts = int(os.environ.get("DLFH_CUTS", "4"))
    rng = np.random.default_rng(0)
    image, disk = tmp_path / "image", tmp_path / "disk"
    image.write_bytes(bytes(4 << 20))
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    compile_kernels()
    # The journal is written only on fsync, so that data that were not flushed are lost.
    options = ("-o", "loop,commit=3600", str(image))
    with mounted(disk, *options):
        Index.create(disk / "index", N_BITS, MODALITIES).close()
    model, number, counts = PlainIndex(N_BITS), 0, Counter[str]()
    for _ in range(cuts):
        with mounted(disk, *options):
            reported = interrupted_writer(disk / "index", image, number, model, float(rng.uniform(0.05, 0.3)))
        os.replace(tmp_path / "image.cut", image)
        for _ in range(reported.count(b"e")):
            change(number, model)
            number += 1
        with mounted(disk, *options), Index.open(disk / "index") as index:
            index.verify()
            after = model.copy()
            change(number, after)
            found = contents(index)
            assert found in (contents(model), contents(after))
            if reported.endswith(b"b") and found == contents(after) != contents(model):
                model, number = after, number + 1
                counts["new"] += 1
            else:
                counts["old"] += 1
    assert number > cuts
    assert sum(counts.values()) == cuts


def interrupted_writer(folder: Path, image: Path, number: int, model: PlainIndex, seconds: float) -> bytes:
    """Run a writer, stop it, and copy the disk without unflushed data; return what the writer reported."""
    reading, report = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            write(folder, number, model.copy(), report, None)
        finally:
            os._exit(1)
    os.close(report)
    time.sleep(seconds)
    os.kill(child, signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    shutil.copyfile(image, image.with_name("image.cut"))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    reported = b""
    while more := os.read(reading, 4096):
        reported += more
    os.close(reading)
    return reported
