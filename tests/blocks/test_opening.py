"""Which values are read in blocks, and errors on opening files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dlfh.blocks import open_blocks
from dlfh.blocks.base import ArrayBlocks
from dlfh.blocks.opening import as_blocks
from dlfh.datasets import write_arrays
from dlfh.errors import InputError


def test_small_memory_maps_and_arrays_are_not_read_in_blocks(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    assert as_blocks(np.load(tmp_path / "x.npy", mmap_mode="r"), "x") is None
    assert as_blocks([[1.0]], "x") is None
    blocks = ArrayBlocks(np.ones(3), [0, 3], "x")
    assert as_blocks(blocks, "x") is blocks


def test_a_file_is_opened_by_a_single_name(tmp_path: Path) -> None:
    (tmp_path / "x.h5").write_bytes(b"")
    with pytest.raises(InputError, match="pass the name of one array, not 2 names"):
        open_blocks(tmp_path / "x.h5", ["a", "b"])
    with pytest.raises(InputError, match="damaged, truncated or of another format"):
        open_blocks(tmp_path / "x.h5", "a")


def test_a_deleted_file_is_reported(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    write_arrays(tmp_path / "y.parquet", {"y": np.ones((4, 2))})
    for name in ("x.npy", "y.parquet"):
        blocks = open_blocks(tmp_path / name)
        (tmp_path / name).unlink()
        with pytest.raises(InputError, match=f"{name}: no such file"):
            np.asarray(blocks)
