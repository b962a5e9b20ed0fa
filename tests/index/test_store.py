"""Index folders: atomic changes, one writer, many readers, and clear errors."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh.errors import StorageError
from dlfh.index import Index, files, store
from dlfh.index.files import Manifest, read_manifest, sections_of, write_manifest
from tests.index.plain_index import (
    MODALITIES,
    PlainIndex,
    as_arguments,
    assert_same,
    assert_search_agrees,
    parts_of,
    random_items,
)

N_BITS = 20


def fill(index: Index) -> PlainIndex:
    """Fill an index with three segments, two of them with removed rows; return the expected items."""
    rng = np.random.default_rng(0)
    model = PlainIndex(N_BITS)
    for first, last in ((0, 40), (40, 54), (54, 57)):
        items = random_items(rng, [f"ïd {i}" for i in range(first, last)], N_BITS)
        index.add(**as_arguments(items, N_BITS))
        model.add(items)
    gone = ["ïd 3", "ïd 17", "ïd 45"]
    index.remove(gone)
    model.remove(gone)
    return model


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "index"


@pytest.fixture
def model(folder: Path) -> PlainIndex:
    with Index.create(folder, N_BITS, MODALITIES) as index:
        model = fill(index)
        assert len(parts_of(index)) == 3
        return model


def assert_whole(index: Index, model: PlainIndex) -> None:
    assert_same(index, model)
    rng = np.random.default_rng(1)
    for modality in MODALITIES:
        assert_search_agrees(index, model, rng.standard_normal(N_BITS), modality, 9)
        assert_search_agrees(index, model, random_items(rng, ["x"], N_BITS)[0].codes.popitem()[1], modality, 9)


def visible(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def test_reopening_preserves_all_items(folder: Path, model: PlainIndex) -> None:
    for writable in (False, True):
        with Index.open(folder, writable=writable) as index:
            index.verify()
            assert_whole(index, model)
            assert index.folder == folder


def test_a_folder_has_only_the_files_of_the_manifest(folder: Path, model: PlainIndex) -> None:
    assert visible(folder) == read_manifest(folder).files() | {"manifest.json"}
    with Index.open(folder, writable=True) as index:
        index.compact()
    assert len(visible(folder)) == 2


def test_the_next_writer_deletes_leftover_files(folder: Path, model: PlainIndex) -> None:
    before = visible(folder)
    for name in ("segment-0123456789abcdef.dlfh", "removed-0123456789abcdef.dlfh", ".saving-0123456789abcdef.dlfh"):
        (folder / name).write_bytes(b"half a file")
    with Index.open(folder) as index:
        assert_same(index, model)
    assert len(visible(folder)) == len(before) + 2
    with Index.open(folder, writable=True) as index:
        assert_same(index, model)
    assert visible(folder) == before
    assert not list(folder.glob(".saving-*"))


OTHER_PROCESS = """
import sys
from dlfh.index import Index
try:
    Index.open(sys.argv[1], writable=True)
except Exception as error:
    print(error)
print(ascii(Index.open(sys.argv[1]).ids()))
print("faiss" in sys.modules)
"""


def test_another_process_can_read_but_not_write_at_the_same_time(folder: Path, model: PlainIndex) -> None:
    with Index.open(folder, writable=True):
        with pytest.raises(StorageError, match="already has a writer: only one is allowed at a time"):
            Index.open(folder, writable=True)
        command = [sys.executable, "-c", OTHER_PROCESS, str(folder)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        assert "already has a writer" in printed[0]
        assert printed[1] == ascii(model.ids())
        assert printed[2] == "False"  # imported by the first search
    Index.open(folder, writable=True).close()


def test_a_reader_cannot_write(folder: Path, model: PlainIndex) -> None:
    with Index.open(folder) as reader:
        changes: list[Callable[[], object]] = [lambda: reader.remove(["ïd 1"]), reader.compact]
        for change in changes:
            with pytest.raises(StorageError, match="is open for reading: open it with writable=True"):
                change()


def test_readers_see_changes_when_they_refresh(folder: Path, model: PlainIndex) -> None:
    with Index.open(folder, writable=True) as writer, Index.open(folder) as reader:
        assert not reader.refresh()
        hits = reader.search("image", np.zeros(3, np.uint8))
        writer.remove(model.ids()[5:])
        writer.compact()
        assert_whole(reader, model)
        reader.verify()  # of the current folder, although files of the reader's state are deleted
        assert reader.refresh()
        assert reader.ids() == model.ids()[:5]
        assert not reader.refresh()
        assert set(hits.ids[0]) <= set(model.ids())
        assert not writer.refresh()


def test_refresh_refuses_another_index(folder: Path, model: PlainIndex) -> None:
    with Index.open(folder) as reader:
        shutil.rmtree(folder)
        Index.create(folder, 64, MODALITIES).close()
        with pytest.raises(StorageError, match="was replaced by another one: open it again"):
            reader.refresh()
        assert_whole(reader, model)


WRITER = """
import sys
import numpy as np
from dlfh.index import Index
with Index.open(sys.argv[1], writable=True) as index:
    for turn in range(15):
        index.put(["a", "b"], {"image": np.full((2, 3), 16 * (turn % 16), np.uint8)})
        if turn % 7 == 0:
            index.compact()
"""


@pytest.mark.slow
def test_readers_see_consistent_states_while_another_process_writes(folder: Path, model: PlainIndex) -> None:
    with Index.open(folder, writable=True) as index:
        index.add(["a", "b"], {"image": np.zeros((2, 3), np.uint8)})
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)])
    opened = Index.open(folder)
    states = set()
    while writer.poll() is None:
        opened.refresh()
        with Index.open(folder) as fresh:
            for index in (fresh, opened):
                assert index.ids() == [*model.ids(), "a", "b"]
                codes = {index.get(name).codes["image"].tobytes() for name in ("a", "b")}
                assert len(codes) == 1  # both items change together
                states |= codes
        time.sleep(0.01)
    assert writer.returncode == 0
    assert len(states) > 1
    opened.close()


CHANGES: dict[str, Callable[[Index], None]] = {
    "add": lambda index: index.add(["new"], {"image": np.zeros((1, 3), np.uint8)}, metadata=[{"a": 1}]),
    "remove": lambda index: index.remove(["ïd 1", "ïd 50"]),
    "update": lambda index: index.put(["ïd 2"], {"image": np.zeros((1, 3), np.uint8)}),
    "compact": lambda index: index.compact(),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_failing_change_is_atomic(
    folder: Path, model: PlainIndex, name: str, error: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = {call: getattr(os, call) for call in ("fsync", "replace")}
    outcomes = []
    for fail_at in range(100):
        copy = folder.with_name(f"copy {fail_at}")
        shutil.copytree(folder, copy)
        with Index.open(copy, writable=True) as index:
            before = index.ids()
            calls = 0

            def counted(call: str, limit: int = fail_at) -> Any:
                def run(*arguments: Any, **options: Any) -> Any:
                    nonlocal calls
                    calls += 1
                    if calls == limit + 1:
                        raise error
                    return real[call](*arguments, **options)

                return run

            for call in real:
                monkeypatch.setattr(os, call, counted(call))
            with contextlib.suppress(KeyboardInterrupt, StorageError):
                CHANGES[name](index)
            monkeypatch.undo()
            after = index.ids()
            with Index.open(copy) as reader:
                assert reader.ids() == after
                reader.verify()
            assert visible(copy) == read_manifest(copy).files() | {"manifest.json"}
            outcomes.append((after != before, len(read_manifest(copy).segments)))
            if after == before:  # it can be repeated
                CHANGES[name](index)
            Index.open(copy).verify()
        if calls <= fail_at:
            break
    assert len(outcomes) >= 5
    if name != "compact":
        assert {changed for changed, _ in outcomes} == {False, True}


def test_a_full_disk_is_a_storage_error(folder: Path, model: PlainIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(_: int) -> None:
        raise OSError(28, "No space left on device")

    with Index.open(folder, writable=True) as index:
        monkeypatch.setattr(os, "fsync", fsync)
        with pytest.raises(StorageError, match=r"cannot write to the index .*: No space left on device"):
            index.remove(["ïd 1"])
        monkeypatch.undo()
        assert_whole(index, model)


def test_every_flipped_byte_is_detected_or_harmless(folder: Path, model: PlainIndex) -> None:
    rng = np.random.default_rng(0)
    refused = 0
    for path in sorted(folder / name for name in visible(folder)):
        content = path.read_bytes()
        places = range(len(content)) if len(content) < 100 else rng.choice(len(content), 70, replace=False)
        for place in places:
            damaged = bytearray(content)
            damaged[place] ^= 1 << rng.integers(8)
            path.write_bytes(damaged)
            try:
                with Index.open(folder) as index:
                    assert_same(index, model)
                    index.verify()
            except StorageError:
                refused += 1
        path.write_bytes(content)
    assert refused > 180
    with Index.open(folder) as index:
        assert_whole(index, model)


def test_every_truncation_is_detected(folder: Path, model: PlainIndex) -> None:
    for path in sorted(folder / name for name in visible(folder)):
        content = path.read_bytes()
        for length in {0, 1, len(content) // 3, len(content) // 2, len(content) - 1}:
            path.write_bytes(content[:length])
            with pytest.raises(StorageError, match="is damaged"):
                Index.open(folder)
        path.write_bytes(content + b"\0")
        if path.suffix == ".dlfh":
            with pytest.raises(StorageError, match="is damaged"):
                Index.open(folder)
        path.write_bytes(content)


def test_missing_files_are_reported(folder: Path, model: PlainIndex) -> None:
    for path in sorted(folder.glob("*.dlfh")):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(StorageError, match=f"is incomplete: {path.name} is missing"):
            Index.open(folder)
        path.write_bytes(content)


def test_damaged_metadata_are_detected_when_read(folder: Path, model: PlainIndex) -> None:
    name = next(item.id for item in model.items if item.metadata)
    manifest = read_manifest(folder)
    record = manifest.segments[0]
    path = folder / record.file
    content = bytearray(path.read_bytes())
    place = content.index(json.dumps(model.items[model.ids().index(name)].metadata, separators=(",", ":")).encode())
    content[place + 5] ^= 1  # still valid JSON
    path.write_bytes(content)
    with Index.open(folder) as index:
        with pytest.raises(StorageError, match=f"the metadata of '{name}' is damaged"):
            index.get(name)
        with pytest.raises(StorageError, match=r"does not match its checksum \(metadata\)"):
            index.verify()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    message = r"is damaged: .* does not match its checksum \(metadata\)"
    with Index.open(folder, writable=True) as index, pytest.raises(StorageError, match=message):
        index.compact()  # merging must not give damaged data new checksums
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def reseal(folder: Path, section_name: str, change: Any) -> None:
    """Change a section of the first segment, and update the checksums."""
    manifest = read_manifest(folder)
    record = manifest.segments[0]
    sections = sections_of(record, manifest.n_bits)
    content = bytearray((folder / record.file).read_bytes())
    start, checksums = 64, list(record.checksums)
    for i, section in enumerate(sections):
        if section.name == section_name:
            array = np.frombuffer(bytes(content[start : start + section.size]), section.dtype).copy()
            change(array)
            content[start : start + section.size] = array.tobytes()
            checksums[i] = zlib.crc32(array.tobytes())
        start += section.padded
    (folder / record.file).write_bytes(content)
    forged = (replace(record, checksums=tuple(checksums)), *manifest.segments[1:])
    write_manifest(folder, replace(manifest, segments=forged))


def assign(place: Any, value: Any) -> Any:
    def change(array: np.ndarray) -> None:
        array[place] = value

    return change


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("id offsets", assign(3, 2**40), "has offsets out of range"),
        ("id offsets", assign(3, -5), "has offsets out of range"),
        ("id offsets", assign(-1, 0), "has offsets out of range"),
        ("id offsets", assign(0, 1), "has offsets out of range"),
        ("id offsets", assign(1, 0), "has an empty id"),
        ("id offsets", assign(1, 1), "has ids that are not UTF-8"),
        ("ids", assign(0, 255), "has ids that are not UTF-8"),
        ("rows of id hashes", assign(0, 40), "has rows out of range"),
        ("states", assign(0, 7), "has states that do not match its codes"),
        ("states", assign(slice(None), 0), "has states that do not match its codes"),
        ("metadata offsets", assign(2, 2**50), "has offsets out of range"),
    ],
)
def test_forged_files_are_refused(folder: Path, model: PlainIndex, section: str, change: Any, message: str) -> None:
    reseal(folder, section, change)
    for verify in (True, False):
        with pytest.raises(StorageError, match=message):
            Index.open(folder, verify=verify)


@pytest.mark.parametrize(
    ("section", "change", "message"),
    [
        ("id hashes", assign(0, 0), "has a hash table that does not match its ids"),
        ("codes 0", assign(2, 255), "has codes of more than 20 bits"),
    ],
)
def test_verify_checks_more_than_opening(
    folder: Path, model: PlainIndex, section: str, change: Any, message: str
) -> None:
    reseal(folder, section, change)
    with Index.open(folder) as index, pytest.raises(StorageError, match=message):
        index.verify()


def test_verify_checks_the_metadata_of_each_item(folder: Path, model: PlainIndex) -> None:
    reseal(folder, "metadata checksums", assign(5, 1))
    with (
        Index.open(folder) as index,
        pytest.raises(StorageError, match="is not valid: the metadata of 'ïd 5' is damaged"),
    ):
        index.verify()


def test_verify_checks_the_bytes_between_sections(folder: Path, model: PlainIndex) -> None:
    manifest = read_manifest(folder)
    record = manifest.segments[0]
    sections = sections_of(record, manifest.n_bits)
    start, content = 64, (folder / record.file).read_bytes()
    for section in sections:
        if section.size < section.padded:
            damaged = bytearray(content)
            damaged[start + section.padded - 1] = 1
            (folder / record.file).write_bytes(damaged)
            with Index.open(folder) as index, pytest.raises(StorageError, match=rf"\(after {section.name}\)"):
                index.verify()
        start += section.padded


def test_every_byte_of_the_manifest_is_checked(folder: Path, model: PlainIndex) -> None:
    text = (folder / "manifest.json").read_bytes()
    for changed in (text + b"\n", text.replace(b'"format_version": 1', b'"format_version":  1'), b" " + text):
        (folder / "manifest.json").write_bytes(changed)
        with pytest.raises(StorageError, match=r"manifest\.json was changed after it was written"):
            Index.open(folder)


def test_verify_detects_duplicate_items(folder: Path, model: PlainIndex) -> None:
    manifest = read_manifest(folder)
    last = manifest.segments[-1]
    again = "segment-0123456789abcdef.dlfh"
    shutil.copy(folder / last.file, folder / again)
    write_manifest(folder, replace(manifest, segments=(*manifest.segments, replace(last, file=again))))
    with Index.open(folder) as index, pytest.raises(StorageError, match=r"it contains item 'ïd 5[456]' twice"):
        index.verify()


NEW: dict[str, Any] = {"codes": {"image": np.zeros((1, 3), np.uint8)}}


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("way", ["files", "folder"])
def test_a_writer_refuses_to_write_after_a_backup_was_restored(
    folder: Path, model: PlainIndex, tmp_path: Path, way: str
) -> None:
    shutil.copytree(folder, tmp_path / "backup")
    with Index.open(folder, writable=True) as writer:
        writer.add(["newer"], **NEW)
        if way == "files":
            for name in visible(folder):
                (folder / name).unlink()
            shutil.copytree(tmp_path / "backup", folder, dirs_exist_ok=True)
        else:
            folder.rename(tmp_path / "away")
            shutil.copytree(tmp_path / "backup", folder)
        before = files_in(folder)
        for change in CHANGES.values():
            with pytest.raises(StorageError, match=r"changed while it was open for writing: .* open the index again"):
                change(writer)
        assert files_in(folder) == before
        assert writer.ids() == [*model.ids(), "newer"]
    with Index.open(folder, writable=True) as again:
        again.verify()
        assert_whole(again, model)
        again.add(["new"], **NEW)


def test_a_writer_refuses_to_write_after_its_lock_file_was_deleted(folder: Path, model: PlainIndex) -> None:
    with Index.open(folder, writable=True) as first:
        (folder / ".lock").unlink()
        with pytest.raises(StorageError, match="its folder or lock file was replaced or deleted"):
            first.add(["first"], **NEW)
        with Index.open(folder, writable=True) as second:
            second.add(["second"], **NEW)
            with pytest.raises(StorageError, match="its folder or lock file was replaced or deleted"):
                first.add(["first"], **NEW)
            second.add(["third"], **NEW)
    with Index.open(folder) as index:
        index.verify()
        assert index.ids() == [*model.ids(), "second", "third"]


def test_no_committed_change_is_lost_where_locks_have_no_effect(
    folder: Path, model: PlainIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcntl.flock", lambda *_: None)
    committed, refused = [], []

    def add(writer: Index, name: str, ready: threading.Barrier) -> None:
        ready.wait()
        try:
            writer.add([name], **NEW)
            committed.append(name)
        except StorageError as error:
            refused.append(str(error))

    for turn in range(12):
        with Index.open(folder, writable=True) as one, Index.open(folder, writable=True) as two:
            ready = threading.Barrier(2)
            threads = [
                threading.Thread(target=add, args=(writer, f"{name} {turn}", ready))
                for name, writer in (("one", one), ("two", two))
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert len(committed) + len(refused) == 24
    assert len(refused) >= 12  # at most one of two writers can commit
    assert all("was changed while it was open for writing" in message for message in refused)
    with Index.open(folder) as index:
        index.verify()
        assert sorted(index.ids()) == sorted([*model.ids(), *committed])


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_second_writer_does_not_disturb_a_commit_where_locks_have_no_effect(
    folder: Path, model: PlainIndex, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """A writer that opens during a commit must neither remove the claim nor delete new files."""
    monkeypatch.setattr("fcntl.flock", lambda *_: None)

    def write(*arguments: Any) -> None:
        monkeypatch.setattr(files, "write_manifest", write_manifest)
        if moment == "after":
            write_manifest(*arguments)
        with Index.open(folder, writable=True) as second, pytest.raises(StorageError, match="writer is committing"):
            second.add(["of the second"], **NEW)
        if moment == "before":
            write_manifest(*arguments)

    with Index.open(folder, writable=True) as first:
        monkeypatch.setattr(files, "write_manifest", write)
        first.add(["of the first"], **NEW)
    with Index.open(folder, writable=True) as index:
        index.verify()
        assert index.ids() == [*model.ids(), "of the first"]


def test_stale_claims_are_removed(folder: Path, model: PlainIndex) -> None:
    claim = folder / ".committing"
    for content in (store._machine(), b""):  # of this machine, whose locks exclude living writers
        claim.write_bytes(content)
        with Index.open(folder, writable=True) as index:
            assert not claim.exists()
            index.verify()
    claim.write_bytes(b"another machine")
    with Index.open(folder, writable=True) as index, pytest.raises(StorageError, match="another writer is committing"):
        index.add(["new"], **NEW)
    os.utime(claim, (time.time() - 61, time.time() - 61))
    with Index.open(folder, writable=True) as index:
        index.add(["new"], **NEW)
        assert index.ids() == [*model.ids(), "new"]


def place_pipe_or_link(path: Path, target: Path | None) -> None:
    """Create a link to a target or, without one, a pipe: opening it for writing waits for a reader."""
    if target is None:
        os.mkfifo(path)
    else:
        path.symlink_to(target)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_lock_that_is_not_a_regular_file_is_refused(folder: Path, model: PlainIndex, tmp_path: Path) -> None:
    outside, lock = tmp_path / "outside", folder / ".lock"
    lock.unlink(missing_ok=True)
    for target in (None, outside, folder / "manifest.json", lock, Path("/dev/null")):
        place_pipe_or_link(lock, target)
        with pytest.raises(StorageError, match=r"cannot write to the index .*: \.lock is not a regular file"):
            Index.open(folder, writable=True)
        lock.unlink()
    lock.mkdir()
    with pytest.raises(StorageError, match=r"cannot write to the index .*: Is a directory"):
        Index.open(folder, writable=True)
    lock.rmdir()
    assert not outside.exists()
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / ".lock").symlink_to(outside)
    with pytest.raises(StorageError, match=r"\.lock is not a regular file"):
        Index.create(tmp_path / "new", 8, ["image"])
    assert not outside.exists()
    outside.write_text("mine")
    os.link(outside, lock)  # locked, but never changed
    with Index.open(folder, writable=True) as index:
        assert_whole(index, model)
    assert outside.read_text() == "mine"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_claim_that_is_not_a_regular_file_does_not_stop_writers(
    folder: Path, model: PlainIndex, tmp_path: Path
) -> None:
    claim, outside = folder / ".committing", tmp_path / "outside"
    outside.write_text("mine")
    for target in (None, outside, claim):
        place_pipe_or_link(claim, target)
        with Index.open(folder, writable=True) as index:
            index.put(["one more"], {"image": np.zeros((1, -(-N_BITS // 8)), np.uint8)})
        assert outside.read_text() == "mine"
        assert not os.path.lexists(claim)


def test_an_error_while_the_lock_is_closed_is_harmless(folder: Path, model: PlainIndex) -> None:
    index: Any = Index.open(folder, writable=True)
    os.close(index._backend._store._lock._file.fileno())  # closing it again fails, as on a disk that returns EIO
    index.close()
    assert index.closed
    with Index.open(folder, writable=True) as again:
        assert_whole(again, model)


def test_a_failed_creation_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(StorageError, match=r"cannot create an index in .*index: No space left on device"):
        Index.create(tmp_path / "a" / "index", N_BITS, MODALITIES)
    assert os.listdir(tmp_path) == []


def test_an_index_works_after_leftover_files_could_not_be_deleted(
    folder: Path, model: PlainIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise OSError(5, "Input/output error")

    with Index.open(folder, writable=True) as index:
        for call in ("listdir", "scandir", "unlink"):
            monkeypatch.setattr(os, call, fail)
        index.compact()
        monkeypatch.undo()
        (folder / ".committing").unlink()
        assert_whole(index, model)
        index.add(["new"], **NEW)
    assert visible(folder) == read_manifest(folder).files() | {"manifest.json"}


def test_other_files_in_the_folder_survive(folder: Path, model: PlainIndex) -> None:
    others = ["segment-notes.dlfh", "removed-0123.dlfh", ".saving-notes", "README"]
    for name in others:
        (folder / name).write_text("mine")
    with Index.open(folder, writable=True) as index:
        index.compact()
    assert all((folder / name).read_text() == "mine" for name in others)


TRUNCATED = """
import os, sys
import numpy as np
from dlfh.errors import StorageError
from dlfh.index import Index, files
if sys.argv[2] == "mapped":
    files._MAX_READ = 0
with Index.open(sys.argv[1], writable=True) as index:
    for name in os.listdir(sys.argv[1]):
        if name.startswith("segment"):
            os.truncate(os.path.join(sys.argv[1], name), 10)
    if sys.argv[2] == "read":
        print(len(index.search("image", np.zeros(3, np.uint8), k=500).ids[0]), len(list(index.items())))
    try:
        index.compact()
    except StorageError as error:
        print("damaged" if "bytes instead of" in str(error) else error)
"""


@pytest.mark.parametrize("way", ["read", "mapped"])
def test_a_truncated_file_does_not_kill_a_writer(folder: Path, model: PlainIndex, way: str) -> None:
    command = [sys.executable, "-c", TRUNCATED, str(folder), way]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    n_images = sum("image" in item.codes for item in model.items)
    searched = [f"{n_images} {len(model.items)}"] if way == "read" else []
    assert result.stdout.splitlines() == [*searched, "damaged"]


def test_every_index_has_its_own_identity(folder: Path, model: PlainIndex, tmp_path: Path) -> None:
    with Index.create(tmp_path / "other", N_BITS, MODALITIES) as other, Index.open(folder) as index:
        assert other.identity != index.identity == read_manifest(folder).identity
        assert Index(N_BITS, MODALITIES).identity is None
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "other", folder)
        with pytest.raises(StorageError, match="was replaced by another one: open it again"):
            index.refresh()


def edit_manifest(folder: Path, **changes: Any) -> None:
    """Change the manifest and its checksum."""
    content = json.loads((folder / "manifest.json").read_text())
    content["index"] |= changes
    body = json.dumps(content["index"], sort_keys=True, separators=(",", ":")).encode()
    (folder / "manifest.json").write_text(json.dumps(content | {"checksum": zlib.crc32(body)}, indent=1))


@pytest.mark.parametrize(
    "change",
    [
        {"n_bits": 0},
        {"n_bits": "64"},
        {"modalities": []},
        {"modalities": ["image"]},
        {"modalities": 3},
        {"generation": -1},
        {"segments": 3},
        {"segments": [{}]},
        {"segments": [None]},
        {"file": "../../etc/passwd"},
        {"file": "segment-0123456789abcdef.dlfh/.."},
        {"file": 3},
        {"rows": 10**30},
        {"rows": 0},
        {"rows": -1},
        {"rows": "40"},
        {"codes": [41, 0]},
        {"codes": [1]},
        {"codes": None},
        {"id_bytes": 0},
        {"id_bytes": 10**30},
        {"metadata_bytes": 10**30},
        {"metadata_bytes": 0},
        {"checksums": []},
        {"checksums": [None]},
        {"removed": {"file": "removed-0123456789abcdef.dlfh"}},
        {"removed": {"file": "/etc/passwd", "rows": 1, "checksum": 0}},
        {"removed": 3},
    ],
)
def test_forged_manifests_are_refused(folder: Path, model: PlainIndex, change: dict[str, Any]) -> None:
    content = json.loads((folder / "manifest.json").read_text())["index"]
    if not change.keys() <= content.keys():
        change = {"segments": [content["segments"][0] | change, *content["segments"][1:]]}
    edit_manifest(folder, **change)
    with pytest.raises(StorageError, match="is damaged"):
        Index.open(folder)


def test_a_file_listed_twice_is_refused(folder: Path, model: PlainIndex) -> None:
    content = json.loads((folder / "manifest.json").read_text())["index"]
    edit_manifest(folder, segments=[content["segments"][0]] * 2)
    with pytest.raises(StorageError, match="does not describe an index"):
        Index.open(folder)


def test_other_folders_and_files_are_not_indexes(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"there is no index at .*nowhere: no such folder"):
        Index.open(tmp_path / "nowhere")
    (tmp_path / "file").write_text("hello")
    with pytest.raises(StorageError, match="it is a file, and an index is a folder"):
        Index.open(tmp_path / "file")
    with pytest.raises(StorageError, match=r"is not an index: it has no manifest\.json"):
        Index.open(tmp_path, writable=True)
    assert not (tmp_path / ".lock").exists()
    for text, message in (
        ("[]", "was not written by dlfh"),
        ('{"name": "a web app"}', "was not written by dlfh"),
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ('{"format": "dlfh-index"}', "is damaged: its format version is None"),
        (
            '{"format": "dlfh-index", "format_version": 9}',
            "has format version 9, but this version of dlfh reads up to 1: upgrade dlfh",
        ),
        *(
            (f'{{"format": "dlfh-index", "format_version": {version}}}', f"its format version is {shown}")
            for version, shown in (("0", "0"), ("-1", "-1"), ("true", "True"), ("1.0", "1.0"))
        ),
        ('{"format": "dlfh-index", "format_version": 1}', "does not describe an index"),
        ('{"format": "dlfh-index", "format_version": 1, "checksum": 1, "index": 2}', "does not match its checksum"),
    ):
        (tmp_path / "manifest.json").write_text(text)
        with pytest.raises(StorageError, match=message):
            Index.open(tmp_path)
    (tmp_path / "manifest.json").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(StorageError, match="is not valid JSON"):
        Index.open(tmp_path)


def test_an_index_is_created_only_in_an_empty_folder(folder: Path, model: PlainIndex, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"it already has a manifest\.json"):
        Index.create(folder, N_BITS, MODALITIES)
    (tmp_path / "file").write_text("hello")
    with pytest.raises(StorageError, match="it is a file, not a folder"):
        Index.create(tmp_path / "file", N_BITS, MODALITIES)
    with pytest.raises(StorageError, match=r"cannot create an index in .*: Not a directory"):
        Index.create(tmp_path / "file" / "index", N_BITS, MODALITIES)
    with pytest.raises(StorageError, match="the folder is not empty"):
        Index.create(tmp_path, N_BITS, MODALITIES)
    (tmp_path / "empty").mkdir()
    for place in (tmp_path / "empty", tmp_path / "a" / "new" / "one"):
        Index.create(place, N_BITS, MODALITIES).close()
        assert len(Index.open(place)) == 0


def test_a_crash_during_creation_does_not_block_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", crash)
    with pytest.raises(KeyboardInterrupt):
        Index.create(folder, N_BITS, MODALITIES)
    monkeypatch.undo()
    Index.create(folder, N_BITS, MODALITIES).close()


def test_files_follow_the_umask(folder: Path, model: PlainIndex) -> None:
    modes = {stat.S_IMODE((folder / name).stat().st_mode) for name in visible(folder)}
    assert modes == {0o666 & ~current_umask()}


def current_umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_no_faiss_file_is_written(folder: Path, model: PlainIndex) -> None:
    assert all(name == "manifest.json" or name.endswith(".dlfh") for name in visible(folder))
    for name in visible(folder) - {"manifest.json"}:
        assert not (folder / name).read_bytes().startswith(b"IB")


def test_manifests_survive_a_round_trip(folder: Path, model: PlainIndex) -> None:
    manifest = read_manifest(folder)
    assert isinstance(manifest, Manifest)
    write_manifest(folder, manifest)
    assert read_manifest(folder) == manifest
    assert manifest.modalities == MODALITIES
    assert [record.removed is not None for record in manifest.segments] == [True, True, False]


def test_every_state_has_a_unique_identifier(tmp_path: Path) -> None:
    code = np.zeros((1, 1), np.uint8)
    states = []
    with Index.create(tmp_path / "index", n_bits=8, modalities=["image"]) as index:
        assert index.writable
        states.append(index.state)
        for name in ("a", "b"):
            index.add([name], {"image": code})
            states.append(index.state)
    shutil.copytree(tmp_path / "index", tmp_path / "backup")
    for place in ("index", "backup"):  # the same change of a copy has another state
        with Index.open(tmp_path / place, writable=True) as index:
            assert index.state == states[2]
            index.remove(["a"])
        with Index.open(tmp_path / place) as index:
            assert not index.writable
            states.append(index.state)
    assert None not in states
    assert len({*states[:3]}) == 3
    assert states[3] not in states[:3]
    assert Index(8, ["image"]).state is None
