"""Parquet in blocks: rows are those of the table, whatever the row groups and wherever it is split."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh import DLFH
from dlfh.blocks import base, open_blocks
from dlfh.blocks.base import ArrayBlocks
from dlfh.datasets import make_paired, write_arrays
from dlfh.errors import InputError

MATRIX = np.random.default_rng(0).standard_normal((100, 7)).astype(np.float32)


def dense(block: Any) -> Any:
    return block.toarray() if sp.issparse(block) else block


def test_parquet_holds_lists_numeric_columns_and_sparse_matrices(tmp_path: Path) -> None:
    table = pa.table(
        {"lists": pa.array(MATRIX.astype(np.float64).tolist()), **{f"x{j}": MATRIX[:, j] for j in range(7)}}
    )
    pq.write_table(table, tmp_path / "x.parquet", row_group_size=33)
    np.testing.assert_allclose(np.asarray(open_blocks(tmp_path / "x.parquet", "lists")), MATRIX)
    several = open_blocks(tmp_path / "x.parquet", [f"x{j}" for j in range(7)])
    np.testing.assert_array_equal(np.asarray(several), MATRIX)
    words = sp.csr_array(np.where(MATRIX > 1, MATRIX, 0))
    write_arrays(tmp_path / "words.parquet", {"words": words})
    blocks = open_blocks(tmp_path / "words.parquet", "words")
    assert blocks.is_sparse
    np.testing.assert_array_equal(blocks.read(0).toarray(), words.toarray())


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of tables with vectors, words and numbers, in row groups of 40, 100 and 0 rows."""
    folder = tmp_path_factory.mktemp("tables")
    words = sp.csr_array(np.where(MATRIX > 0.5, MATRIX, 0))
    write_arrays(folder / "whole.parquet", {"vectors": MATRIX, "words": words, "number": MATRIX[:, 0]})
    whole = pq.read_table(folder / "whole.parquet")
    (folder / "several.parquet").mkdir()
    for name, rows in (("a", 0), ("b", 60), ("c", 0), ("d", 40)):
        part = whole.slice(60 if name == "d" else 0, rows)
        pq.write_table(part, folder / "several.parquet" / f"{name}.parquet", row_group_size=40)
    return folder


@given(
    st.sampled_from(["whole.parquet", "several.parquet"]),
    st.sampled_from(["vectors", "words", "number"]),
    st.integers(1, 3000),
    st.lists(st.integers(0, 100), max_size=6),
    st.permutations(range(7)),
)
def test_blocks_hold_the_table_wherever_it_is_split_and_in_any_order(
    tables: Path, file: str, column: str, block_bytes: int, inner: list[int], order: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "_BLOCK_BYTES", block_bytes)
        blocks = open_blocks(tables / file, column)
    expected = {"vectors": MATRIX, "words": np.where(MATRIX > 0.5, MATRIX, 0), "number": MATRIX[:, 0]}[column]
    np.testing.assert_array_equal(np.concatenate([dense(block) for _, (block,) in blocks.read_ahead()]), expected)
    starts = [0, *sorted(inner), 100]
    split = pickle.loads(pickle.dumps(blocks.split_like(ArrayBlocks(np.empty(100), starts, "other"))))
    assert split.starts.tolist() == starts
    for number in order:
        if number < split.n_blocks:
            np.testing.assert_array_equal(dense(split.read(number)), expected[starts[number] : starts[number + 1]])


def test_a_large_row_group_is_opened_once_per_pass(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The blocks of a row group come from one stream: reading 100 rows in 25 blocks opens the file once."""
    monkeypatch.setattr(base, "_BLOCK_ROWS", 4)
    blocks: Any = open_blocks(tables / "whole.parquet", "vectors")
    assert blocks.n_blocks == 25
    opened, open_file = [], pq.ParquetFile

    def counted(*arguments: Any, **options: Any) -> Any:
        opened.append(arguments)
        return open_file(*arguments, **options)

    monkeypatch.setattr(pq, "ParquetFile", counted)
    blocks.stream = None
    np.testing.assert_array_equal(np.asarray(blocks), MATRIX)
    assert len(opened) == 1


def test_columns_of_one_table_are_aligned_though_their_blocks_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = make_paired(300, n_labels=4, random_state=0)
    labels = data.labels.toarray().astype(np.int8)
    write_arrays(tmp_path / "data.parquet", {**data.modalities, "labels": labels})
    monkeypatch.setattr(base, "_BLOCK_BYTES", 5000)
    features: Any = {name: open_blocks(tmp_path / "data.parquet", name) for name in data.modalities}
    in_blocks = open_blocks(tmp_path / "data.parquet", "labels")
    assert len({in_blocks.n_blocks, *(blocks.n_blocks for blocks in features.values())}) == 3
    ours = DLFH(16, hash_function="linear", random_state=0).fit(features, in_blocks)
    whole = DLFH(16, hash_function="linear", random_state=0).fit(data.modalities, labels)
    for name in features:
        np.testing.assert_array_equal(np.asarray(ours.codes_[name]), whole.codes_[name])


def test_a_numeric_column_is_a_vector_and_in_a_list_a_matrix(tables: Path, tmp_path: Path) -> None:
    assert open_blocks(tables / "whole.parquet", "number").shape == (100,)
    assert open_blocks(tables / "whole.parquet", ["number"]).shape == (100, 1)
    classes = np.arange(100) % 2  # read as indicator rows, half of the points would have no label
    pq.write_table(pa.table({"class": classes}), tmp_path / "classes.parquet", row_group_size=30)
    whole = DLFH(8, hash_function="linear", random_state=0).fit({"a": MATRIX, "b": MATRIX[:, :3]}, classes)
    ours = DLFH(8, hash_function="linear", random_state=0).fit(
        {"a": ArrayBlocks(MATRIX, [0, 70, 100], "a"), "b": MATRIX[:, :3]}, open_blocks(tmp_path / "classes.parquet")
    )
    for name in "ab":
        np.testing.assert_array_equal(np.asarray(ours.codes_[name]), whole.codes_[name])


def test_changes_while_reading_are_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flat = pa.FixedSizeListArray.from_arrays(pa.array(MATRIX.ravel()), 7)
    pq.write_table(pa.table({"x": flat}), tmp_path / "x.parquet")
    monkeypatch.setattr(base, "_BLOCK_ROWS", 30)
    blocks: Any = open_blocks(tmp_path / "x.parquet")
    blocks.stream = None
    (tmp_path / "x.parquet").write_bytes((tmp_path / "x.parquet").read_bytes()[:500])
    with pytest.raises(InputError, match="it is damaged, or changed while it was read"):
        np.asarray(blocks)
