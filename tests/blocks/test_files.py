"""Files read by blocks hold what was written, and what is wrong with them is one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dlfh.blocks import as_blocks, base, open_blocks, opening
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
def test_blocks_of_a_file_are_its_matrix(name: str, tmp_path: Path) -> None:
    write(tmp_path / name, MATRIX)
    blocks = open_blocks(tmp_path / name)
    assert blocks.shape == MATRIX.shape
    assert blocks.dtype == np.float32
    assert blocks.n_blocks > 1
    np.testing.assert_array_equal(np.asarray(blocks), MATRIX)
    np.testing.assert_array_equal(blocks.take(np.array([3, 50, 99])), MATRIX[[3, 50, 99]])


def test_a_memory_map_is_read_from_its_file_and_a_part_of_one_where_it_begins(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", MATRIX)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    for own in (mapped, mapped[:, :3], mapped[::2], mapped[10:60]):
        blocks = as_blocks(own, "image")
        if blocks is not None:
            np.testing.assert_array_equal(np.asarray(blocks), own)
    assert as_blocks(mapped, "image") is not None
    assert as_blocks(mapped[:, :3], "image") is None
    assert as_blocks(MATRIX, "image") is None


def test_what_is_no_matrix_is_one_sentence(tmp_path: Path) -> None:
    def refused(name: str, sentence: str, column: Any = None) -> None:
        with pytest.raises(InputError, match=sentence) as caught:
            np.asarray(open_blocks(tmp_path / name, column))
        assert "\n" not in str(caught.value)

    refused("nothing.npy", "it is not there")
    np.save(tmp_path / "fortran.npy", np.asfortranarray(MATRIX))
    refused("fortran.npy", "is stored by columns")
    np.save(tmp_path / "x.npy", MATRIX)
    content = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "short.npy").write_bytes(content[:-100])
    refused("short.npy", "is cut short")
    (tmp_path / "other.npy").write_bytes(b"something else")
    refused("other.npy", "damaged, cut short or not what its name says")
    (tmp_path / "x.txt").write_text("1")
    refused("x.txt", "cannot read .* by blocks")
    np.save(tmp_path / "texts.npy", np.array(["a"]))
    refused("texts.npy", "does not hold a matrix of numbers")
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["a"], file["b"] = MATRIX, MATRIX
    refused("two.h5", "holds 2 arrays, so say which one: 'a', 'b'")
    refused("two.h5", "holds no array 'c'", "c")
    write(tmp_path / "x.parquet", MATRIX)
    refused("x.parquet", "holds no column 'text'", "text")
    broken = tmp_path / "x.parquet" / "part-1.parquet"
    broken.write_bytes(broken.read_bytes()[:200])
    refused("x.parquet", "part-1.parquet: it is damaged")
    (tmp_path / "empty").mkdir()
    refused("empty", "holds no .parquet file")
    pq.write_table(pa.table({"x": pa.array([[1.0], [1.0, 2.0]])}), tmp_path / "ragged.parquet")
    refused("ragged.parquet", "not of one length")
    pq.write_table(pa.table({"x": pa.array([1.0, None])}), tmp_path / "holes.parquet")
    refused("holes.parquet", "rows without a value")


def test_files_are_cut_as_others_are(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", MATRIX)
    np.save(tmp_path / "labels.npy", np.arange(100))
    features = open_blocks(tmp_path / "x.npy")
    labels = open_blocks(tmp_path / "labels.npy").cut_like(features)
    assert labels.starts.tolist() == features.starts.tolist()
    np.testing.assert_array_equal(np.asarray(labels), np.arange(100))


def test_a_file_that_changes_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", MATRIX)
    blocks = open_blocks(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes((tmp_path / "x.npy").read_bytes()[:500])
    with pytest.raises(InputError, match="has become shorter while it was read"):
        np.asarray(blocks)
