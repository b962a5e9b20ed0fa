"""Files that would exhaust memory or time are refused with the limit in the message."""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.io

from dlfh._limits import Budget, limit_of
from dlfh.datasets import read_arrays, read_items, write_arrays
from dlfh.datasets.tables import read_table
from dlfh.errors import InputError
from dlfh.features import BagOfWords
from dlfh.features.images import read_image

TOO_LARGE = r"takes more than the limit of 0\.00195 GB of memory: set DLFH_MAX_BYTES to raise the limit$"


def npz_bomb(file: Path) -> None:
    np.savez_compressed(file, x=np.zeros(3 << 20, np.uint8))


def matlab_bomb(file: Path) -> None:
    scipy.io.savemat(file, {"x": np.zeros(3 << 18)}, do_compression=True)


def matlab_bytes_bomb(file: Path) -> None:
    """Write integers that take one byte each in the file and eight in an array of doubles."""
    scipy.io.savemat(file, {"x": np.zeros(3 << 17)})
    content = bytearray(file.read_bytes())
    place = content.index(struct.pack("<II", 9, 3 << 20))
    body = bytes(content[128 + 8 : place]) + struct.pack("<II", 2, 3 << 17) + bytes(3 << 17)
    matrix = zlib.compress(struct.pack("<II", 14, len(body)) + body)
    file.write_bytes(bytes(content[:128]) + struct.pack("<II", 15, len(matrix)) + matrix)


def matlab_text_bomb(file: Path) -> None:
    """Write many texts, one of them long: an array of strings reserves the longest length for each."""
    scipy.io.savemat(file, {"x": np.array(["a"] * 1000 + ["b" * 2000], object)}, do_compression=True)


def hdf5_bomb(file: Path) -> None:
    with h5py.File(file, "w") as root:
        root.create_dataset("x", data=np.zeros(3 << 20, np.uint8), compression="gzip")


def hdf5_text_bomb(file: Path) -> None:
    with h5py.File(file, "w") as root:
        root.create_dataset("x", data=["a" * 2000, *["b"] * 1000], dtype=h5py.string_dtype())


def hdf5_chunk_bomb(file: Path) -> None:
    with h5py.File(file, "w") as root:
        root.create_dataset("x", data=np.ones(1), chunks=(1 << 20,), maxshape=(None,), compression="gzip")


def parquet_bomb(file: Path) -> None:
    pq.write_table(pa.table({"x": np.zeros(1 << 20)}), file)


def parquet_text_bomb(file: Path) -> None:
    pq.write_table(pa.table({"x": ["a" * 2000] * 1000}), file)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("x.npz", npz_bomb),
        ("x.mat", matlab_bomb),
        ("x.mat", matlab_bytes_bomb),
        ("x.mat", matlab_text_bomb),
        ("x.h5", hdf5_bomb),
        ("x.h5", hdf5_text_bomb),
        ("x.h5", hdf5_chunk_bomb),
        ("x.parquet", parquet_bomb),
        ("x.parquet", parquet_text_bomb),
    ],
)
def test_every_reader_refuses_small_files_with_large_arrays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, make: Callable[[Path], None]
) -> None:
    file = tmp_path / name
    make(file)
    assert file.stat().st_size < 200_000
    monkeypatch.setenv("DLFH_MAX_BYTES", str(1 << 21))
    with pytest.raises(InputError, match=TOO_LARGE):
        read_arrays(file)
    monkeypatch.setenv("DLFH_MAX_BYTES", str(1 << 24))
    assert read_arrays(file)


def test_large_files_can_take_ten_times_their_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLFH_MAX_BYTES", "10")
    np.save(tmp_path / "x.npy", np.arange(1000.0))
    assert read_arrays(tmp_path / "x.npy")["array"].shape == (1000,)


def test_sizes_in_a_numpy_header_are_checked_against_the_file(tmp_path: Path) -> None:
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": "<f8", "fortran_order": False, "shape": (1 << 40,)})
    (tmp_path / "x.npy").write_bytes(stream.getvalue())
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", stream.getvalue())
    for name in ("x.npy", "x.npz"):
        with pytest.raises(InputError, match=r"is truncated: it declares shape \(1099511627776,\)$"):
            read_arrays(tmp_path / name)


def test_a_table_of_many_rows_stops_at_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of two bytes takes hundreds of bytes as an item."""
    monkeypatch.setenv("DLFH_MAX_BYTES", str(1 << 21))
    (tmp_path / "x.csv").write_text("a\n" + "b\n" * 10_000)
    pq.write_table(pa.table({"a": ["b"] * 10_000}), tmp_path / "x.parquet")
    for name in ("x.csv", "x.parquet"):
        with pytest.raises(InputError, match=rf"x\.{name[2:]}.* {TOO_LARGE}"):
            read_table(tmp_path / name)


def test_groups_that_contain_each_other_are_refused(tmp_path: Path) -> None:
    """Each group contains the next one twice: 2 ** 40 paths through 40 groups."""
    with h5py.File(tmp_path / "x.h5", "w") as root:
        group = root
        for _ in range(40):
            inner = group.create_group("a")
            group["b"] = inner
            group = inner
        group["x"] = np.zeros(3)
    with pytest.raises(InputError, match=r"x\.h5: the group /.* occurs more than once$"):
        read_arrays(tmp_path / "x.h5")


def test_nesting_depth_is_limited(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as root:
        root.create_group("/".join("a" * 100))
    with pytest.raises(InputError, match=r"groups are nested more than 64 levels deep$"):
        read_arrays(tmp_path / "x.h5")
    cell: Any = np.zeros(1)
    for _ in range(100):
        outer = np.empty(1, object)
        outer[0] = cell
        cell = outer
    scipy.io.savemat(tmp_path / "x.mat", {"x": cell})
    with pytest.raises(InputError, match=r"cells and structures are nested more than 64 levels deep$"):
        read_arrays(tmp_path / "x.mat")


def test_shared_cells_are_read_once(tmp_path: Path) -> None:
    """Each cell array contains the next one twice: 2 ** 40 paths to a single number."""
    with h5py.File(tmp_path / "x.mat", "w", userblock_size=512) as root:
        root["#refs#/last"] = np.ones((1, 1))
        target = root["#refs#/last"]
        for level in range(40):
            name = "x" if level == 39 else f"#refs#/{level}"
            dataset = root.create_dataset(name, data=np.array([[target.ref, target.ref]], h5py.ref_dtype))
            dataset.attrs["MATLAB_class"] = np.bytes_("cell")
            target = dataset
    with open(tmp_path / "x.mat", "r+b") as stream:
        stream.write(b"MATLAB 7.3 MAT-file".ljust(128))
    assert read_arrays(tmp_path / "x.mat")["x"].shape == (2,)


@pytest.mark.parametrize("suffix", [".h5", ".mat", ".npz"])
def test_the_number_of_objects_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    file = tmp_path / f"x{suffix}"
    arrays = {f"x{number}": np.zeros(1) for number in range(30)}
    if suffix == ".h5":
        with h5py.File(file, "w") as root:
            root.update(arrays)
    else:
        write_arrays(file, arrays)
    monkeypatch.setenv("DLFH_MAX_OBJECTS", "20")
    with pytest.raises(
        InputError, match=r"it has more than the limit of 20 arrays, groups, cells and fields: set DLFH_MAX_OBJECTS"
    ):
        read_arrays(file)


def test_external_links_of_hdf5_files_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.h5"
    with h5py.File(secret, "w") as root:
        root["x"] = np.arange(4)
    (tmp_path / "raw").write_bytes(bytes(32))
    with h5py.File(tmp_path / "link.h5", "w") as root:
        root["x"] = h5py.ExternalLink(str(secret), "/x")
    with h5py.File(tmp_path / "storage.h5", "w") as root:
        root.create_dataset("x", (4,), "f8", external=[(str(tmp_path / "raw"), 0, 32)])
    layout = h5py.VirtualLayout((4,), "i8")
    layout[:] = h5py.VirtualSource(secret, "x", (4,))
    with h5py.File(tmp_path / "virtual.h5", "w") as root:
        root.create_virtual_dataset("x", layout)
    for name, reason in (("link", "a link to another file"), ("storage", "stored in"), ("virtual", "stored in")):
        with pytest.raises(InputError, match=rf"{name}\.h5: .*x.* is {reason}"):
            read_arrays(tmp_path / f"{name}.h5")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
@pytest.mark.parametrize("suffix", [".npy", ".npz", ".mat", ".h5", ".parquet", ".csv", ".png"])
def test_pipes_are_refused_without_waiting_for_a_writer(tmp_path: Path, suffix: str) -> None:
    pipe = tmp_path / f"x{suffix}"
    os.mkfifo(pipe)
    readers: dict[str, Any] = {".csv": read_table, ".png": read_image}
    read = readers.get(suffix, read_arrays)
    with pytest.raises(InputError, match=r"is a pipe or a device, not a file$"):
        read(pipe)
    if suffix == ".csv":
        with pytest.raises(InputError, match=r"is a pipe or a device, not a file$"):
            read_items(table=pipe, text="a")


def test_devices_are_refused(tmp_path: Path) -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("there is no /dev/zero here")
    (tmp_path / "x.npy").symlink_to("/dev/zero")
    (tmp_path / "x.png").symlink_to("/dev/zero")
    for name, read in (("x.npy", read_arrays), ("x.png", read_image)):
        with pytest.raises(InputError, match=r"is a pipe or a device, not a file$"):
            read(tmp_path / name)


def test_the_length_of_texts_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    words = BagOfWords().fit(["a b"])
    monkeypatch.setenv("DLFH_MAX_CHARACTERS", "10")
    found = words.transform_readable(["a b", "a " * 10])
    assert found.problems == {
        1: "text 1 has 20 characters, more than the limit of 10: set DLFH_MAX_CHARACTERS to raise the limit"
    }


def test_an_invalid_limit_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLFH_MAX_BYTES", "4GB")
    with pytest.raises(
        InputError, match="the environment variable DLFH_MAX_BYTES must be a non-negative integer, got '4GB'"
    ):
        limit_of("DLFH_MAX_BYTES")


def test_strings_count_with_the_memory_of_their_array(tmp_path: Path) -> None:
    budget = Budget(100, 100, 10)
    assert budget.strings(["a", "bc"]).tolist() == ["a", "bc"]
    assert budget.bytes_left == 100 - 2 * 2 * 4
    with pytest.raises(InputError, match="DLFH_MAX_BYTES"):
        budget.strings(["a" * 20, "b"])
