"""Items are read from tables, folders and files of vectors, and every skipped part is reported."""

from __future__ import annotations

import csv
import shutil
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dlfh.datasets import Items, read_arrays, read_items, write_arrays
from dlfh.datasets.tables import read_table
from dlfh.errors import DataWarning, InputError

CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=12)


def write(path: Path, text: str, encoding: str = "utf-8") -> Path:
    path.write_bytes(text.encode(encoding))
    return path


def picture(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (4, 4), "red").save(path)
    return path


# ----------------------------------------------------------------------------------------------- tables


@given(rows=st.lists(st.tuples(CELLS, CELLS, CELLS), min_size=1), suffix=st.sampled_from([".csv", ".tsv"]))
def test_csv_files_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]], suffix: str
) -> None:
    path = tmp_path_factory.mktemp("table") / f"items{suffix}"
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, delimiter="\t" if suffix == ".tsv" else ",")
        writer.writerows([("a", "b", "c"), *rows])
    table = read_table(path)
    assert table.columns == ("a", "b", "c")
    assert table.rows == rows
    assert not table.problems


def test_long_cells_are_read_without_a_process_wide_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "long.csv").write_text(f"id,text\na,{'x' * 500_000}\n")
    monkeypatch.setattr(csv, "field_size_limit", lambda *_: pytest.fail("the limit is process-wide"))
    assert len(read_table(tmp_path / "long.csv").rows[0][1]) == 500_000
    (tmp_path / "long.csv").write_text(f"id,text\na,{'x' * 2_000_000}\n")
    with pytest.raises(InputError, match=r"line 2: field larger than field limit"):
        read_table(tmp_path / "long.csv")


def test_a_parquet_file_is_a_table(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"id": [1, 2], "caption": ["a", None], "tags": [["x", "y"], []], "vector": [[0.5, 1.0], [2.0, 3.0]]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "items.parquet")
    items = read_items(tmp_path / "items.parquet", id="id", text="caption", vectors={"image": "vector"}, labels="tags")
    assert items.ids == ["1", "2"]
    assert items.modalities["text"] == ["a", None]
    np.testing.assert_array_equal(items.modalities["image"], [[0.5, 1.0], [2.0, 3.0]])
    assert items.labels == [["x", "y"], []]


def test_csv_exported_by_a_spreadsheet_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "items.csv", "\ufefffile;caption\r\na.png;one, two\r\n\r\n")
    assert read_table(path).columns == ("file", "caption")
    assert read_table(path).rows == [("a.png", "one, two")]


def test_rows_of_another_length_are_skipped_and_reported(tmp_path: Path) -> None:
    path = write(tmp_path / "items.csv", 'a,b\n1,"two\nlines"\n3\n4,5,6\n7,8\n')
    table = read_table(path)
    assert [row[0] for row in table.rows] == ["1", "7"]
    assert [str(problem) for problem in table.problems] == [
        "items.csv, line 4: 1 cell but the header has 2",
        "items.csv, line 5: 3 cells but the header has 2",
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"a,b\ncaf\xe9,1\n", "not encoded in utf-8: line 2 contains the byte 0xe9"),
        (b"a,b\nx\0y,1\n", "line 2 contains a null character"),
        (b'a,b\n"x,1\n', "cannot read .*: line 2: unexpected end of data"),
    ],
)
def test_invalid_tables_are_one_sentence(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "items.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match=sentence):
        read_table(path)


def test_another_encoding_can_be_given(tmp_path: Path) -> None:
    path = write(tmp_path / "items.csv", "caption\ncafé\n", "latin-1")
    assert read_table(path, encoding="latin-1").rows == [("café",)]
    with pytest.raises(InputError, match="unknown encoding 'klingon'"):
        read_table(path, encoding="klingon")


@pytest.mark.parametrize(
    ("name", "sentence"), [("missing.csv", "it does not exist"), ("", "it is a folder"), ("items.xls", "must end in")]
)
def test_missing_files_and_other_formats_are_named(tmp_path: Path, name: str, sentence: str) -> None:
    (tmp_path / "items.xls").write_bytes(b"PK")
    with pytest.raises(InputError, match=sentence):
        read_table(tmp_path / name)


def test_a_damaged_parquet_file_is_named(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "items.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(InputError, match=r"cannot read .*items\.parquet: it is damaged, truncated or not a table"):
        read_table(tmp_path / "items.parquet")


# ------------------------------------------------------------------------------------------------ items


def test_a_messy_folder_and_table_are_read_and_every_problem_is_reported(tmp_path: Path) -> None:
    for name in ("a.png", "søster 漢字.png", "c.png"):
        picture(tmp_path / "photos" / name)
    decomposed = unicodedata.normalize("NFD", "søster 漢字.png")
    table = write(
        tmp_path / "items.csv",
        "sku,file,caption,tags,price\n"
        "1,a.png,a cat,animal;cat,3\n"
        f"2,{decomposed},schwester,person,\n"
        "1,c.png,a dog,animal;dog,4\n"
        "4,gone.png,a bird,animal,5\n"
        "5,,,animal,5\n"
        "6,c.png, ,,6\n"
        ",c.png,no id,,6\n",
    )
    items = read_items(tmp_path / "photos", table=table, id="sku", image="file", text="caption", labels="tags")
    assert items.ids == ["1", "2", "4", "6"]
    assert items.modalities["text"] == ["a cat", "schwester", "a bird", None]
    assert [path is not None for path in items.modalities["image"]] == [True, True, False, True]
    assert items.labels == [["animal", "cat"], ["person"], ["animal"], []]
    assert items.metadata[0] == {
        "columns": {"price": 3},
        "image": str(tmp_path / "photos" / "a.png"),
        "text": "a cat",
        "labels": ["animal", "cat"],
    }
    assert items.labelled().tolist() == [True, True, True, False]
    assert sorted(str(problem) for problem in items.problems) == [
        "items.csv, line 4: duplicate id '1', first used at items.csv, line 2",
        f"items.csv, line 5: no such file: {tmp_path / 'photos' / 'gone.png'}",
        "items.csv, line 6: 'file' is empty; 'caption' is empty; the item has no other content",
        "items.csv, line 7: 'caption' is empty",
        "items.csv, line 8: the id is empty",
    ]


def test_a_table_whose_images_are_mostly_missing_is_refused_with_the_folder_that_has_them(tmp_path: Path) -> None:
    for number in range(10):
        picture(tmp_path / "photos" / "large" / f"{number}.png")
    picture(tmp_path / "photos" / "0.png")
    rows = "".join(f"{number}.png,a cat\n" for number in range(10))
    table = write(tmp_path / "items.csv", f"file,caption\n{rows},no picture\n")
    sentence = (
        r"^9 of the 10 images that column 'file' names are not in \S*photos but in \S*photos/large: pass that folder "
        r"as the source, or allow missing images with max_skipped=1 \(--max-skipped 1\)$"
    )
    with pytest.raises(InputError, match=sentence):
        read_items(tmp_path / "photos", table=table, image="file", text="caption")
    assert len(read_items(tmp_path / "photos", table=table, image="file", text="caption", max_skipped=0.9)) == 11
    assert len(read_items(tmp_path / "photos" / "large", table=table, image="file", max_skipped=0.1)) == 10
    shutil.rmtree(tmp_path / "photos" / "large")
    with pytest.raises(
        InputError, match=r"photos \(such as '1\.png'\): pass the folder that has them as the source, or"
    ):
        read_items(tmp_path / "photos", table=table, image="file", text="caption")
    with pytest.raises(InputError, match=r"^max_skipped must be between 0 and 1, got 2$"):
        read_items(table, text="caption", max_skipped=2)


def test_a_table_most_of_whose_items_are_skipped_is_refused(tmp_path: Path) -> None:
    table = write(tmp_path / "items.csv", "sku,text\n" + "1,a cat\n" * 4)
    sentence = (
        r"^3 of the 4 items cannot be read \(items\.csv, line 3: duplicate id '1'.*\), and at most 50% may be skipped"
    )
    with pytest.raises(InputError, match=sentence):
        read_items(table, id="sku", text="text")
    assert read_items(table, id="sku", text="text", max_skipped=1).ids == ["1"]


def test_file_and_folder_names_are_texts_and_labels(tmp_path: Path) -> None:
    for name in ("cats/black_cat-2.PNG", "dogs/big.dog.jpg", "loose.gif"):
        picture(tmp_path / name)
    picture(tmp_path / ".hidden" / "x.png")
    (tmp_path / "notes.txt").write_text("no image")
    items = read_items(tmp_path)
    assert items.ids == ["cats/black_cat-2.PNG", "dogs/big.dog.jpg", "loose.gif"]
    assert items.modalities["text"] == ["black cat 2", "big dog", "loose"]
    assert items.labels == [["cats"], ["dogs"], []]


@given(
    labels=st.lists(st.lists(st.sampled_from(["a b", "c", "ü", "d-e"]), max_size=3), min_size=1, max_size=6),
    separator=st.sampled_from([";", "|", ",", "/"]),
)
def test_labels_are_split_at_every_separator(
    tmp_path_factory: pytest.TempPathFactory, labels: list[list[str]], separator: str
) -> None:
    path = tmp_path_factory.mktemp("labels") / "items.tsv"
    lines = [f"word {row}\t{separator.join(cell)}" for row, cell in enumerate(labels)]
    write(path, "text\ttags\n" + "\n".join(lines) + "\n")
    items = read_items(path, text="text", labels="tags", separator="/" if separator == "/" else None)
    assert items.labels == [list(dict.fromkeys(cell)) for cell in labels]


@pytest.mark.parametrize("suffix", [".npz", ".mat"])
def test_vectors_are_read_from_variables_of_a_file(tmp_path: Path, suffix: str) -> None:
    X, Y = np.arange(6.0).reshape(3, 2), sp.csr_array(np.eye(3))
    write_arrays(tmp_path / f"data{suffix}", {"X": X, "Y": Y, "L": np.array([1, 2, 1])})
    items = read_items(tmp_path / f"data{suffix}", vectors={"image": "X", "text": "Y"}, labels="L")
    assert items.ids == ["0", "1", "2"]
    np.testing.assert_array_equal(items.modalities["image"], X)
    assert (items.modalities["text"] != Y).nnz == 0
    assert items.labels == [["1"], ["2"], ["1"]]


def test_a_table_can_be_combined_with_a_file_of_vectors(tmp_path: Path) -> None:
    table = write(tmp_path / "items.csv", "sku,caption\n7,a\n7,b\n9,c\n")
    write_arrays(tmp_path / "images.npy", {"array": np.arange(6.0).reshape(3, 2)})
    items = read_items(table, id="sku", text="caption", vectors={"image": str(tmp_path / "images.npy")})
    assert items.ids == ["7", "9"]
    np.testing.assert_array_equal(items.modalities["image"], [[0, 1], [4, 5]])
    write_arrays(tmp_path / "images.npz", {"few": np.zeros((2, 2)), "many": np.zeros((3, 2))})
    with pytest.raises(InputError, match=r"few has 2 rows but .*items\.csv has 3"):
        read_items(table, text="caption", vectors={"image": f"{tmp_path / 'images.npz'}:few"})
    assert len(read_items(table, id="sku", text="caption", vectors={"image": f"{tmp_path / 'images.npz'}:many"})) == 2


def test_an_indicator_matrix_gives_label_names_by_column(tmp_path: Path) -> None:
    write_arrays(tmp_path / "data.npz", {"X": np.eye(3), "L": np.array([[1, 0, 1], [0, 0, 0], [0, 1, 0]])})
    items = read_items(tmp_path / "data.npz", vectors={"image": "X"}, labels="L")
    assert items.labels == [["0", "2"], [], ["1"]]


@pytest.mark.parametrize(
    ("source", "options", "sentence"),
    [
        ("nowhere", {}, "nowhere does not exist"),
        (None, {}, "nothing to read"),
        ("empty", {}, "empty contains no images"),
        ("items.csv", {}, "name the column of texts"),
        ("items.csv", {"text": "words"}, "has no column 'words': its columns are 'file', 'caption'"),
        ("items.csv", {"text": "caption", "labels": "tags"}, "has no column 'tags'"),
        ("items.csv", {"image": "caption", "text": {"image": "caption"}}, "modality 'image' is given twice"),
        ("items.csv", {"text": "caption", "vectors": {"image": "file"}}, "column 'file' of .* must hold lists"),
        ("items.csv", {"text": "caption", "vectors": {"image": "what"}}, "'what' is neither the name of an array nor"),
        ("empty", {"text": "caption"}, "text names a column, but there is no table"),
        ("data.npz", {}, "name the variable of each modality's vectors"),
        ("data.npz", {"vectors": {"image": "Z"}}, "'Z' is neither the name of an array among 'X', 'Y', 'L' nor a file"),
        ("data.npz", {"vectors": {"image": "X", "text": "Y"}}, "'text' has 2 rows but modality 'image' has 3"),
        ("data.npz", {"vectors": {"image": "X"}, "labels": "L"}, "labels has 2 rows but modality 'image' has 3"),
        ("data.npz", {"vectors": {"image": "X"}, "text": "caption"}, "'caption' names a column, but there is no table"),
        ("gone.csv", {"text": "caption"}, "does not exist"),
        ("blank.csv", {"text": "caption"}, "no usable items: blank.csv, line 2: 'caption' is empty"),
        ("headed.csv", {"text": "caption"}, "no usable items"),
    ],
)
def test_wrong_sources_are_one_sentence(
    tmp_path: Path, source: str | None, options: dict[str, object], sentence: str
) -> None:
    (tmp_path / "empty").mkdir()
    write(tmp_path / "items.csv", "file,caption\nx,words\n")
    write(tmp_path / "blank.csv", "caption,other\n ,1\n")
    write(tmp_path / "headed.csv", "caption\n")
    write_arrays(tmp_path / "data.npz", {"X": np.eye(3), "Y": np.eye(2), "L": np.array([0, 1])})
    with pytest.raises(InputError, match=sentence):
        read_items(None if source is None else tmp_path / source, **options)  # type: ignore[arg-type]


def test_a_repeated_column_name_matters_only_if_it_is_used(tmp_path: Path) -> None:
    table = write(tmp_path / "items.csv", "caption,note,note,,\nwords,1,2,,\n")
    assert read_items(table, text="caption").metadata == [{"text": "words", "columns": {"note": 2}}]
    with pytest.raises(InputError, match="has 2 columns named 'note'"):
        read_items(table, text="note")


def test_vectors_stay_aligned_when_a_row_is_skipped(tmp_path: Path) -> None:
    table = write(tmp_path / "items.csv", "sku,caption\n7,a\nbroken\n9,c\n")
    write_arrays(tmp_path / "images.npy", {"array": np.arange(6.0).reshape(3, 2)})
    items = read_items(table, id="sku", text="caption", vectors={"image": str(tmp_path / "images.npy")})
    np.testing.assert_array_equal(items.modalities["image"], [[0, 1], [4, 5]])


def test_further_columns_are_kept_apart_from_modalities_and_labels(tmp_path: Path) -> None:
    table = write(tmp_path / "items.csv", "caption,labels,image,tags\nwords,mine,http://x,a;b\n")
    (entry,) = read_items(table, text="caption", labels="tags").metadata
    assert entry == {"text": "words", "labels": ["a", "b"], "columns": {"labels": "mine", "image": "http://x"}}


def test_cells_without_a_json_form_are_skipped(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"caption": ["a", "b"], "price": [float("nan"), 2.5], "raw": [b"x", b"y"], "day": [None, None]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "items.parquet")
    items = read_items(tmp_path / "items.parquet", text="caption")
    assert items.metadata == [{"text": "a"}, {"text": "b", "columns": {"price": 2.5}}]


def test_impossible_file_names_are_problems_of_their_items(tmp_path: Path) -> None:
    picture(tmp_path / "sub" / "a.png")
    table = write(tmp_path / "items.csv", f"file,caption\n{'x' * 300}.png,one\nsub\\a.png,two\n")
    items = read_items(table, image="file", text="caption")
    assert [path is None for path in items.modalities["image"]] == [True, False]
    assert "cannot look for the file" in items.problems[0].reason


def test_a_file_name_that_is_not_unicode_is_skipped(tmp_path: Path) -> None:
    picture(tmp_path / "good.png")
    try:
        (tmp_path / "caf\udce9.png").write_bytes((tmp_path / "good.png").read_bytes())
    except OSError:
        pytest.skip("this file system has Unicode names only")
    items = read_items(tmp_path)
    assert items.ids == ["good.png"]
    assert items.problems[0].reason == "the id is not valid Unicode"


def test_two_separators_in_one_column_cause_a_warning(tmp_path: Path) -> None:
    table = write(tmp_path / "items.csv", 'caption,tags\na,"x;y"\nb,"p,q"\n')
    with pytest.warns(DataWarning, match="are split at ';', but some contain ','"):
        assert read_items(table, text="caption", labels="tags").labels == [["x", "y"], ["p,q"]]
    assert read_items(table, text="caption", labels="tags", separator=",").labels == [["x;y"], ["p", "q"]]


def test_named_tells_whether_the_input_contained_ids(tmp_path: Path) -> None:
    table = write(tmp_path / "items.csv", "sku,caption\n7,a\n")
    assert read_items(table, id="sku", text="caption").named
    assert not read_items(table, text="caption").named


@pytest.mark.parametrize("name", ["labels", "columns"])
def test_reserved_names_cannot_be_modalities(tmp_path: Path, name: str) -> None:
    table = write(tmp_path / "items.csv", "caption\na\n")
    with pytest.raises(InputError, match=f"a modality cannot be called '{name}'"):
        read_items(table, text={name: "caption"})
    with pytest.raises(InputError, match="separator is empty"):
        read_items(table, text="caption", separator="")


def test_items_are_created_from_values_in_memory() -> None:
    matrix = np.eye(3)
    items = Items.of({"text": ["a", None, "c"], "x": matrix}, [["u"], [], ["u", "v"]], ["p", "q", "r"])
    assert items.named
    assert items.labelled().tolist() == [True, False, True]
    assert items.metadata == [{"text": "a", "labels": ["u"]}, {}, {"text": "c", "labels": ["u", "v"]}]
    assert items.modalities["x"] is matrix
    assert not Items.of({"text": ["a"]}).named
    assert len(Items.of({"text": ["a", None]})) == 1  # nothing describes the second item
    for modalities, labels, sentence in (
        ({}, None, "at least one modality"),
        ({"text": ["a"], "x": matrix}, None, r"modality 'x' has 3 rows but modality 'text' has 1"),
        ({"text": ["a"]}, [["u"], ["v"]], "labels has 2 rows but modality 'text' has 1"),
        ({"labels": ["a"]}, None, "a modality cannot be called 'labels'"),
    ):
        with pytest.raises(InputError, match=sentence):
            Items.of(modalities, labels)


@pytest.mark.parametrize("what", ["image", "text"])
def test_columns_must_be_a_name_or_a_dict(tmp_path: Path, what: str) -> None:
    (tmp_path / "t.csv").write_text("a,b\nx,y\n")
    with pytest.raises(InputError, match=rf"{what} must be a column, or a dict from modality to column, got \['a'\]"):
        read_items(tmp_path / "t.csv", **{what: ["a"]})  # type: ignore[arg-type]


def test_times_that_python_cannot_represent_are_strings(tmp_path: Path) -> None:
    times = pa.array([1, None], pa.timestamp("ns"))
    far = pa.array([2**60, None], pa.timestamp("us"))
    pq.write_table(pa.table({"a": ["x", "y"], "t": times, "far": far}), tmp_path / "x.parquet")
    table = read_table(tmp_path / "x.parquet")
    assert table.column("t") == ["1970-01-01 00:00:00.000000001", None]
    assert isinstance(table.column("far")[0], str)
    assert read_items(tmp_path / "x.parquet", text="a").metadata[0]["columns"]["t"].startswith("1970-01-01")


def test_parquet_text_that_is_not_utf_8_is_an_error(tmp_path: Path) -> None:
    broken = pa.array([b"ok", b"\xff\xfe"], pa.binary()).view(pa.string())
    pq.write_table(pa.table({"a": broken}), tmp_path / "x.parquet")
    for read in (read_table, read_arrays):
        with pytest.raises(InputError, match=r"x\.parquet: column 'a' contains text that is not UTF-8$"):
            read(tmp_path / "x.parquet")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "idna", "undefined", "utf-8\0"])
def test_a_wrong_encoding_is_an_error(tmp_path: Path, encoding: str) -> None:
    path = write(tmp_path / "items.csv", "caption\nabc é\n")
    with pytest.raises(InputError, match=r"is not encoded in|unknown encoding"):
        read_table(path, encoding=encoding)


def test_numeric_columns_become_numbers_and_codes_stay_strings(tmp_path: Path) -> None:
    table = tmp_path / "items.csv"
    table.write_text("text,price,size,code,bar\na,3,1.50,007,4006381333931\nb,,-2,8,4006381333932\n", encoding="utf-8")
    items = read_items(table, text="text")
    assert [entry["columns"] for entry in items.metadata] == [
        {"price": 3, "size": 1.5, "code": "007", "bar": "4006381333931"},
        {"size": -2, "code": "8", "bar": "4006381333932"},
    ]
