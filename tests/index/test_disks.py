"""Disks that are full, fail, or lose power: the index holds the old state or the new one, and says what was wrong."""

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


def held_after(number: int) -> list[Any]:
    """Return what an index holds after so many changes."""
    model = PlainIndex(N_BITS)
    for each in range(number):
        change(each, model)
    return contents(model)


class Writer:
    """A process that changes an index when it is told to."""

    def __init__(self, folder: Path, **options: Any) -> None:
        command = [sys.executable, "-m", "tests.index.obedient_writer", str(folder)]
        streams: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process: subprocess.Popen[str] = subprocess.Popen(command, cwd=ROOT, **streams, **options)
        assert self._line() == {"ready": True}

    def _line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def go(self) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return self._line()

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *error: object) -> None:
        self.process.communicate()


def assert_one_sentence(said: dict[str, Any]) -> None:
    assert said["outcome"] in ("old", "new"), said
    assert said["sentence"].isprintable(), said["sentence"]


def test_a_limit_of_file_sizes_is_a_sentence_and_the_index_stays_whole(tmp_path: Path) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    with Writer(tmp_path / "index", preexec_fn=limit) as writer:
        for _ in range(5):
            assert writer.go()["outcome"] == "new"
        resource.prlimit(writer.process.pid, resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
        refused = [writer.go() for _ in range(3)]
        resource.prlimit(writer.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        after = writer.go()
    for said in refused:
        assert said["outcome"] == "old"
        assert said["sentence"].startswith("cannot write to the index "), said["sentence"]
    assert (after["outcome"], after["number"]) == ("new", 6)
    with Index.open(tmp_path / "index") as index:
        index.verify()
        assert contents(index) == held_after(6)


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """Mount a file system at a folder; skip the test where this may not be done."""
    folder.mkdir(exist_ok=True)
    done = subprocess.run(["mount", *options, str(folder)], check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"file systems cannot be mounted here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


needs_mount = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("mount") is None,
    reason="needs to mount: run as root",
)


@needs_mount
def test_a_full_disk_is_a_sentence_and_the_index_stays_whole(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with mounted(disk, "-t", "tmpfs", "-o", "size=160k", "none"):
        with Writer(disk / "index") as writer:
            said = [writer.go() for _ in range(10)]
            filler = disk / "filler"
            with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as file:
                while True:
                    file.write(bytes(512))
            said += [writer.go() for _ in range(10)]
            assert {each["outcome"] for each in said[10:]} == {"old"}
            filler.unlink()
            said.append(writer.go())
        for each in said:
            assert_one_sentence(each)
        assert "No space left on device" in said[10]["sentence"]
        assert said[-1]["outcome"] == "new"
        with Index.open(disk / "index") as index:
            index.verify()
            assert contents(index) == held_after(said[-1]["number"])


@needs_mount
def test_a_model_that_does_not_fit_on_a_disk_is_refused_and_the_old_one_stays(tmp_path: Path) -> None:
    import dlfh
    from dlfh.datasets import make_paired

    data = make_paired(60, n_labels=3, image_features=8, text_features=9, random_state=0)
    large = make_paired(4000, n_labels=3, image_features=200, text_features=300, random_state=0)
    old = dlfh.DLFH(n_bits=16, random_state=0).fit(data.modalities, data.labels)
    new = dlfh.DLFH(n_bits=128, random_state=0).fit(large.modalities, large.labels)
    disk = tmp_path / "disk"
    with mounted(disk, "-t", "tmpfs", "-o", "size=100k", "none"):
        old.save(disk / "model")
        with pytest.raises(DLFHError, match=r"No space left on device"):
            new.save(disk / "model")
        assert dlfh.load(disk / "model").n_bits == 16
        old.save(disk / "model")
        assert not [name for name in os.listdir(disk / "model") if name.startswith(".saving")]


CALLS = ("fsync", "rename", "write", "openat", "unlink", "close", "fchmod", "fstat", "newfstatat", "mmap")
ERRORS = ("EIO", "ENOSPC", "EACCES", "EMFILE", "EDQUOT", "EROFS")


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_system_calls_that_fail_leave_the_old_state_or_the_new_one(tmp_path: Path) -> None:
    rounds = int(os.environ.get("DLFH_FAULTS", "40"))
    rng = np.random.default_rng(0)
    folder, counts, log = tmp_path / "index", Counter[str](), tmp_path / "strace"
    with Writer(folder) as writer:
        for _ in range(8):
            assert writer.go()["outcome"] == "new"
        for number in range(rounds):
            call, error = CALLS[number % len(CALLS)], str(rng.choice(ERRORS))
            when = int(rng.integers(1, 6))
            with injected(writer.process.pid, log, call, error, when):
                said = writer.go()
            assert_one_sentence(said)
            counts["refused" if said["sentence"] else "done"] += 1
            with Index.open(folder) as index:
                index.verify()
                assert contents(index) == held_after(said["number"]), (call, error, when)
        assert writer.go()["sentence"] == ""
    assert counts["refused"] > rounds // 8
    assert counts["done"] > 0


@contextlib.contextmanager
def injected(process: int, log: Path, call: str, error: str, when: int) -> Iterator[None]:
    """Let the ``when``-th of some system calls of a process fail."""
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
def test_what_was_changed_before_a_power_cut_is_there_after_it(tmp_path: Path) -> None:
    cuts = int(os.environ.get("DLFH_CUTS", "6"))
    rng = np.random.default_rng(0)
    image, disk = tmp_path / "image", tmp_path / "disk"
    image.write_bytes(bytes(4 << 20))
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    compile_kernels()
    # A journal that is written only when it is asked to be: what was not flushed is lost.
    how = ("-o", "loop,commit=3600", str(image))
    with mounted(disk, *how):
        Index.create(disk / "index", N_BITS, MODALITIES).close()
    model, number, counts = PlainIndex(N_BITS), 0, Counter[str]()
    for _ in range(cuts):
        with mounted(disk, *how):
            said = cut_off_writer(disk / "index", image, number, model, float(rng.uniform(0.05, 0.3)))
        os.replace(tmp_path / "image.cut", image)
        for _ in range(said.count(b"e")):
            change(number, model)
            number += 1
        with mounted(disk, *how), Index.open(disk / "index") as index:
            index.verify()
            after = model.copy()
            change(number, after)
            found = contents(index)
            assert found in (contents(model), contents(after))
            if said.endswith(b"b") and found == contents(after) != contents(model):
                model, number = after, number + 1
                counts["new"] += 1
            else:
                counts["old"] += 1
    assert number > cuts
    assert sum(counts.values()) == cuts


def cut_off_writer(folder: Path, image: Path, number: int, model: PlainIndex, seconds: float) -> bytes:
    """Run a writer, stop it, and copy the disk as it is, without what has not been flushed; return what it said."""
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
    said = b""
    while more := os.read(reading, 4096):
        said += more
    os.close(reading)
    return said
