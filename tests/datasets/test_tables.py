"""Tables of every format, in files or in memory, yield the same rows."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dlfh.datasets import read_items
from dlfh.datasets.tables import read_table
from dlfh.errors import InputError


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_the_delimiter_is_detected_in_the_header(tmp_path: Path, suffix: str, delimiter: str) -> None:
    rows = [["id", "a title", "tags"], ["7", "one", "x"], ["8", f'"two{delimiter} three, four; five"', "y"]]
    (tmp_path / f"items{suffix}").write_text("\n".join(map(delimiter.join, rows)) + "\n")
    table = read_table(tmp_path / f"items{suffix}")
    assert table.columns == ("id", "a title", "tags")
    assert table.column("a title") == ["one", f"two{delimiter} three, four; five"]


def test_an_encoding_error_names_the_line_and_the_option(tmp_path: Path) -> None:
    lines = ["caption", *["plain"] * 3000, "café", *["plain"] * 3000]
    (tmp_path / "items.csv").write_bytes("\n".join(lines).encode("latin-1"))
    with pytest.raises(
        InputError, match=r"line 3002 contains the byte 0xe9; save it as UTF-8, or .* --encoding latin-1"
    ) as raised:
        read_table(tmp_path / "items.csv")
    assert "encoding" in str(raised.value)
    (tmp_path / "items.jsonl").write_bytes('{"caption": "a"}\n{"caption": "café"}\n'.encode("latin-1"))
    with pytest.raises(InputError, match=r"line 2 contains the byte 0xe9; .*--encoding"):
        read_table(tmp_path / "items.jsonl")
    assert read_table(tmp_path / "items.jsonl", encoding="latin-1").column("caption") == ["a", "café"]


# JSON Lines


def test_lines_of_json_are_rows(tmp_path: Path) -> None:
    lines = [
        {"id": 7, "caption": "a red car", "tags": ["car", "red"], "vector": [1.0, 2.0]},
        {"id": "8", "caption": None, "vector": [3.0, 4.5], "price": 3.5},
        {"caption": "no id", "id": "", "vector": [0, 0]},
    ]
    content = "\ufeff" + "\n".join(map(json.dumps, lines)) + '\n\n{"broken": \n[1, 2]\n{"x": NaN}\n'
    (tmp_path / "items.jsonl").write_text(content, encoding="utf-8")
    table = read_table(tmp_path / "items.jsonl")
    assert table.columns == ("id", "caption", "tags", "vector", "price")
    assert [str(problem) for problem in table.problems] == [
        "items.jsonl, line 5: invalid JSON: Expecting value",
        'items.jsonl, line 6: not a JSON object such as {"text": "a cat"}',
        "items.jsonl, line 7: invalid JSON: NaN is not a JSON number",
    ]
    columns: dict[str, Any] = {"id": "id", "text": "caption", "vectors": {"image": "vector"}, "labels": "tags"}
    items = read_items(tmp_path / "items.jsonl", **columns, max_skipped=1)
    assert items.ids == ["7", "8"]
    assert items.labels == [["car", "red"], []]
    assert items.metadata[1]["columns"] == {"price": 3.5}
    np.testing.assert_array_equal(items.modalities["image"], [[1, 2], [3, 4.5]])


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "has no columns: a JSON Lines table has one object per line"),
        ("[1]\n", "has no columns: line 1: not a JSON object"),
        ('{"a": ' + "[" * 200 + "]" * 200 + "}\n", "more than 64 levels deep"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}\n", "too deeply|more than 64 levels deep"),
        ('{"a": ' + "1" * 10_000 + "}\n", "invalid JSON: Exceeds the limit"),
        ('{"a": "' + "x" * (1 << 22) + '"}\n', "set DLFH_MAX_CHARACTERS"),
    ],
    ids=range(6),
)
def test_invalid_json_lines_are_one_sentence(tmp_path: Path, content: str, sentence: str) -> None:
    (tmp_path / "items.jsonl").write_text(content)
    with pytest.raises(InputError, match=sentence):
        read_table(tmp_path / "items.jsonl")


def test_json_that_needs_too_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLFH_MAX_BYTES", "100000")
    (tmp_path / "items.jsonl").write_text('{"a": [' + "[]," * 5000 + "[]]}\n")
    with pytest.raises(InputError, match="DLFH_MAX_BYTES"):
        read_table(tmp_path / "items.jsonl")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".xlsx"])
def test_a_pipe_is_not_read(tmp_path: Path, suffix: str) -> None:
    os.mkfifo(tmp_path / f"items{suffix}")
    with pytest.raises(InputError, match="pipe or a device"):
        read_table(tmp_path / f"items{suffix}")


# In memory


COLUMNS: dict[str, list[Any]] = {"sku": [7, 8], "caption": ["a red car", None], "tags": [["car", "red"], []]}


@pytest.mark.parametrize("kind", ["pandas", "arrow", "protocol"])
def test_tables_in_memory_are_tables(kind: str) -> None:
    class Stream:
        """Arrow's protocol, as Polars implements it."""

        def __arrow_c_stream__(self, schema: object = None) -> object:
            return pa.table(COLUMNS).__arrow_c_stream__(schema)

    frame = {"pandas": pd.DataFrame(COLUMNS), "arrow": pa.table(COLUMNS), "protocol": Stream()}[kind]
    for items in (
        read_items(frame, id="sku", text="caption", labels="tags"),
        read_items(table=frame, id="sku", text="caption", labels="tags"),
    ):
        assert items.ids == ["7"]
        assert items.labels == [["car", "red"]]
        assert [problem.reason for problem in items.problems] == ["'caption' is empty; the item has no other content"]
    with pytest.raises(InputError, match=f"the {type(frame).__name__} has no column 'x': its columns are 'sku'"):
        read_items(frame, text="x")
    with pytest.raises(InputError, match="two tables were given"):
        read_items(frame, table=frame, text="caption")


def test_integers_with_gaps_stay_integers_in_pandas() -> None:
    frame = pd.DataFrame({"id": [7, None, 9], "text": ["a", "b", "c"], "price": [1.5, None, np.inf]})
    items = read_items(frame, id="id", text="text")
    assert items.ids == ["7", "9"]
    assert items.metadata == [{"text": "a", "columns": {"price": 1.5}}, {"text": "c"}]


def test_image_paths_of_a_table_in_memory_are_relative_to_the_source_or_the_current_folder(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pd.DataFrame({"file": ["8.png", "9.png"]})
    assert len(read_items(photos, table=frame, image="file")) == 2
    monkeypatch.chdir(photos)
    assert read_items(frame, image="file").modalities["image"][0].samefile(photos / "8.png")
