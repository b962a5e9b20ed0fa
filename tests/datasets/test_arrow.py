"""Arrow files and streams contain the same table, and a small file never takes much memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh.datasets import Items, read_items
from dlfh.datasets.tables import read_table
from dlfh.errors import InputError

pa = pytest.importorskip("pyarrow")
ipc = pytest.importorskip("pyarrow.ipc")


def write(path: Path, table: Any, *, stream: bool = False, compression: str | None = None) -> Path:
    make = ipc.new_stream if stream else ipc.new_file
    with make(str(path), table.schema, options=ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


@settings(max_examples=30, deadline=None)
@given(
    texts=st.lists(st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), max_size=9)), max_size=6),
    stream=st.booleans(),
    compression=st.sampled_from([None, "lz4", "zstd"]),
    kind=st.sampled_from(["string", "string_view", "large_string", "words"]),
)
def test_cells_are_read_as_written(
    tmp_path_factory: Any, texts: list[str | None], stream: bool, compression: str | None, kind: str
) -> None:
    column = pa.array(texts, pa.string() if kind == "words" else getattr(pa, kind)())
    column = column.dictionary_encode() if kind == "words" else column
    table = pa.table(
        {"caption": column, "id": list(range(len(texts))), "vector": [[0.5, n] for n in range(len(texts))]}
    )
    path = write(tmp_path_factory.mktemp("arrow") / "items.arrow", table, stream=stream, compression=compression)
    read = read_table(path)
    assert read.columns == ("caption", "id", "vector")
    assert read.rows == [(text, n, [0.5, n]) for n, text in enumerate(texts)]


@pytest.mark.parametrize("suffix", [".arrow", ".arrows", ".feather"])
def test_items_equal_those_of_a_parquet_file(tmp_path: Path, suffix: str) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {"caption": ["a red car", None, "a dog"], "tags": [["car", "red"], ["car"], []], "vector": [[1.0, 2.0]] * 3}
    )
    parquet.write_table(table, tmp_path / "items.parquet")
    write(tmp_path / f"items{suffix}", table, stream=suffix == ".arrows")

    def items_of(path: Path) -> Items:
        return read_items(path, text="caption", vectors={"image": "vector"}, labels="tags")

    one, other = items_of(tmp_path / "items.parquet"), items_of(tmp_path / f"items{suffix}")
    assert one.modalities["text"] == other.modalities["text"] == ["a red car", None, "a dog"]
    assert one.labels == other.labels
    assert (one.modalities["image"] == other.modalities["image"]).all()


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        (lambda: pa.RunEndEncodedArray.from_arrays(pa.array([10**9], pa.int32()), pa.array(["a"])), "not supported"),
        (lambda: pa.nulls(10**9), "DLFH_MAX_BYTES"),
        (lambda: pa.FixedSizeListArray.from_arrays(pa.nulls(10**9), 10**8), "DLFH_MAX_BYTES"),
        (lambda: pa.array([[1]], pa.list_view(pa.int64())), "not supported"),
    ],
)
def test_few_bytes_that_encode_many_values_are_refused(tmp_path: Path, column: Any, sentence: str) -> None:
    table = pa.table({"a": column()})
    with ipc.new_file(str(tmp_path / "x.arrow"), table.schema) as writer:
        writer.write_table(table)
    assert (tmp_path / "x.arrow").stat().st_size < 10_000
    with pytest.raises(InputError, match=rf"cannot read .*x\.arrow: .*{sentence}"):
        read_table(tmp_path / "x.arrow")


def test_compressed_buffers_with_a_large_stated_size_are_not_unpacked(tmp_path: Path) -> None:
    write(tmp_path / "x.arrow", pa.table({"a": ["x" * 4000]}), compression="zstd")
    content = bytearray((tmp_path / "x.arrow").read_bytes())
    size = (4000).to_bytes(8, "little")
    place = content.rindex(size)  # the last: the first is the second offset
    content[place : place + 8] = (2**40).to_bytes(8, "little")
    (tmp_path / "x.arrow").write_bytes(content)
    with pytest.raises(InputError, match="DLFH_MAX_BYTES"):
        read_table(tmp_path / "x.arrow")


def test_invalid_offsets_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "x.arrow", pa.table({"a": ["abcd", "efgh"]}))
    content = (tmp_path / "x.arrow").read_bytes()
    offsets = b"".join(number.to_bytes(4, "little") for number in (0, 4, 8))
    assert content.count(offsets) == 1
    for wrong in ((0, 4, 2**30), (8, 4, 0), (0, -4 % 2**32, 8)):
        (tmp_path / "x.arrow").write_bytes(
            content.replace(offsets, b"".join(number.to_bytes(4, "little") for number in wrong))
        )
        with pytest.raises(InputError, match=r"cannot read .*x\.arrow: it is damaged, truncated or not a table"):
            read_table(tmp_path / "x.arrow")


def test_other_formats_are_an_error(tmp_path: Path) -> None:
    for content in (b"", b"ARROW1", b"ARROW1\0\0", b"id,text\n1,a cat\n"):
        (tmp_path / "x.feather").write_bytes(content)
        with pytest.raises(InputError, match=r"cannot read .*x\.feather: it is damaged, truncated or not a table"):
            read_table(tmp_path / "x.feather")
    (tmp_path / "x.feather").write_bytes(b"FEA1" + bytes(40) + b"FEA1")
    with pytest.raises(InputError, match=r"Feather version 1: write it again"):
        read_table(tmp_path / "x.feather")
