"""Files read in blocks return what was written, and invalid files are reported in one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dlfh.blocks import base, open_blocks, opening
from dlfh.blocks.opening import as_blocks
from dlfh.errors import InputError

MATRIX = np.random.default_rng(0).standard_normal((100, 7)).astype(np.float32)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_BLOCK_BYTES", 30 * 7 * 4)
    monkeypatch.setattr(opening, "_LARGE_MAP", 0)


def write(path: Path, matrix: Any) -> None:
    if path.suffix == ".npy":
        np.save(path, matrix)
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file.create_dataset("image", data=matrix, chunks=(8, 7))
    elif path.suffix == ".mat":
        with h5py.File(path, "w") as file:
            file["image"] = matrix.T
    elif path.suffix == ".zarr":
        zarr = pytest.importorskip("zarr")
        zarr.save_array(str(path), matrix)
    else:
        path.mkdir()
        for number, start in enumerate(range(0, 100, 40)):
            flat = pa.array(matrix[start : start + 40].ravel())
            table = pa.table({"image": pa.FixedSizeListArray.from_arrays(flat, 7)})
            pq.write_table(table, path / f"part-{number}.parquet", row_group_size=25)


@pytest.mark.parametrize("name", ["x.npy", "x.h5", "x.mat", "x.zarr", "x.parquet"])
def test_a_file_in_blocks_holds_its_matrix(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, MATRIX)
    blocks = open_blocks(tmp_path / name)
    assert blocks.shape == MATRIX.shape
    assert blocks.dtype == np.float32
    assert blocks.n_blocks > 1
    np.testing.assert_array_equal(np.asarray(blocks), MATRIX)
    np.testing.assert_array_equal(blocks.take(np.array([3, 50, 99])), MATRIX[[3, 50, 99]])


def test_a_memory_map_is_read_from_its_file_and_a_slice_from_its_offset(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", MATRIX)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for view in (mapped, mapped[:, :3], mapped[::2], mapped[10:60]):
        blocks = as_blocks(view, "image")
        if blocks is not None:
            np.testing.assert_array_equal(np.asarray(blocks), view)
    assert as_blocks(mapped, "image") is not None
    assert as_blocks(mapped[:, :3], "image") is None
    assert as_blocks(MATRIX, "image") is None


def test_invalid_files_are_reported_in_one_sentence(tmp_path: Path) -> None:
    def refused(name: str, sentence: str, column: Any = None) -> None:
        with pytest.raises(InputError, match=sentence) as caught:
            np.asarray(open_blocks(tmp_path / name, column))
        assert "\n" not in str(caught.value)

    refused("nothing.npy", "no such file or folder")
    np.save(tmp_path / "fortran.npy", np.asfortranarray(MATRIX))
    refused("fortran.npy", "is stored by columns")
    np.save(tmp_path / "x.npy", MATRIX)
    content = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(content[:-100])
    refused("short.npy", "is truncated")
    (tmp_path / "other.npy").write_bytes(b"something else")
    refused("other.npy", "damaged, truncated or of another format")
    (tmp_path / "x.txt").write_text("1")
    refused("x.txt", "cannot read .* in blocks")
    np.save(tmp_path / "texts.npy", np.array(["a"]))
    refused("texts.npy", "does not hold a matrix of numbers")
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["a"], file["b"] = MATRIX, MATRIX
    refused("two.h5", "holds 2 arrays: select one of 'a', 'b'")
    refused("two.h5", "has no array 'c'; it has 'a', 'b'", "c")
    write(tmp_path / "x.parquet", MATRIX)
    refused("x.parquet", "has no column 'text'; it has 'image'", "text")
    broken = tmp_path / "x.parquet" / "part-1.parquet"
    broken.write_bytes(broken.read_bytes()[:200])
    refused("x.parquet", "part-1.parquet: it is damaged")
    (tmp_path / "empty").mkdir()
    refused("empty", "holds no .parquet file")
    pq.write_table(pa.table({"x": pa.array([[1.0], [1.0, 2.0]])}), tmp_path / "ragged.parquet")
    refused("ragged.parquet", "have different lengths")
    pq.write_table(pa.table({"x": pa.array([1.0, None])}), tmp_path / "holes.parquet")
    refused("holes.parquet", "has missing values")


def test_files_can_be_split_like_other_files(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", MATRIX)
    np.save(tmp_path / "labels.npy", np.arange(100))
    features = open_blocks(tmp_path / "x.npy")
    labels = open_blocks(tmp_path / "labels.npy").split_like(features)
    assert labels.starts.tolist() == features.starts.tolist()
    np.testing.assert_array_equal(np.asarray(labels), np.arange(100))


def test_truncation_while_reading_is_detected(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", MATRIX)
    blocks = open_blocks(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:500])
    with pytest.raises(InputError, match="was truncated while it was read"):
        np.asarray(blocks)
