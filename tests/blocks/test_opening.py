"""What is read by blocks, and what is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dlfh.blocks import ArrayBlocks, as_blocks, open_blocks
from dlfh.datasets import write_arrays
from dlfh.errors import InputError


def test_small_maps_and_arrays_are_not_read_by_blocks(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    assert as_blocks(np.load(tmp_path / "x.npy", mmap_mode="r"), "x") is None
    assert as_blocks([[1.0]], "x") is None
    blocks = ArrayBlocks(np.ones(3), [0, 3], "x")
    assert as_blocks(blocks, "x") is blocks


def test_one_array_of_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.h5").write_bytes(b"")
    with pytest.raises(InputError, match="one array is read, not 2"):
        open_blocks(tmp_path / "x.h5", ["a", "b"])
    with pytest.raises(InputError, match="damaged, cut short or not what its name says"):
        open_blocks(tmp_path / "x.h5", "a")


def test_a_file_that_is_gone_is_one_sentence(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.ones((4, 2)))
    write_arrays(tmp_path / "y.parquet", {"y": np.ones((4, 2))})
    for name in ("x.npy", "y.parquet"):
        blocks = open_blocks(tmp_path / name)
        (tmp_path / name).unlink()
        with pytest.raises(InputError, match=f"{name}: it is not there"):
            np.asarray(blocks)
