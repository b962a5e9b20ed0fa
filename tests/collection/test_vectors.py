"""Vectors are kept exactly; damaged and incomplete records count as missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh.collection.item_codes import ItemVectors
from dlfh.collection.vectors import keep_vectors, read_vectors, vector_file

KEYS = [f"{number:032x}" for number in range(4)]


def vectors_of(matrix: Any, keys: list[str]) -> ItemVectors:
    return ItemVectors(len(keys), {"a": matrix}, {"a": np.arange(len(keys))}, [], [{"a": key} for key in keys])


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array], ids=["dense", "sparse"])
def test_vectors_are_read_as_they_were_written(tmp_path: Path, make: Any) -> None:
    matrix = np.random.default_rng(0).normal(size=(3, 6)).astype(np.float32) * (np.arange(6) % 2)
    keep_vectors(tmp_path, ["a"], vectors_of(make(matrix[:2]), KEYS[:2]))
    keep_vectors(tmp_path, ["a"], vectors_of(make(matrix[2:]), KEYS[2:3]))
    found, places = read_vectors(tmp_path, 0, [KEYS[2], "", KEYS[3], KEYS[0], KEYS[2]], 6)
    assert places == [0, 3, 4]
    assert sp.issparse(found) == (make is sp.csr_array)
    np.testing.assert_array_equal(found.toarray() if sp.issparse(found) else found, matrix[[2, 0, 2]])


def test_an_incomplete_record_is_cut_off_and_a_damaged_one_skipped(tmp_path: Path) -> None:
    matrix, path = np.eye(4, dtype=np.float32), vector_file(tmp_path, 0)
    keep_vectors(tmp_path, ["a"], vectors_of(matrix[:2], KEYS[:2]))
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"torn")
    keep_vectors(tmp_path, ["a"], vectors_of(matrix[2:], KEYS[2:]))
    assert path.stat().st_size == 2 * size
    assert read_vectors(tmp_path, 0, KEYS, 4)[1] == [0, 1, 2, 3]
    content = bytearray(path.read_bytes())
    content[size - 1] ^= 1
    path.write_bytes(content)
    assert read_vectors(tmp_path, 0, KEYS, 4)[1] == [0, 2, 3]
    assert read_vectors(tmp_path, 0, KEYS, 5)[1] == []
    assert read_vectors(tmp_path, 1, KEYS, 4)[1] == []
