"""Workbooks are read as openpyxl writes them; damaged or excessive ones are refused in one sentence."""

from __future__ import annotations

import io
import sys
import zipfile
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.datasets import read_items
from dlfh.datasets.tables import read_table
from dlfh.errors import InputError

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=20)
_EIGHTHS = st.integers(-(10**6), 10**6).map(lambda number: number / 8 + 0.0625)  # which need few digits
CELLS = st.one_of(TEXTS, st.integers(-(10**15), 10**15), _EIGHTHS, st.booleans(), st.none())
SHEET, SHARED = "xl/worksheets/sheet1.xml", "xl/sharedStrings.xml"


def write(path: Path, rows: Any, *others: Any) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for other in others:
        sheet = book.create_sheet()
        for row in other:
            sheet.append(row)
    book.save(path)
    return path


def changed(path: Path, **contents: str | None) -> Path:
    """Replace the sheet or the shared texts of a workbook, or another part; None removes a part."""
    names = {"sheet": SHEET, "shared": SHARED, "other": "xl/other.xml", "workbook": "xl/workbook.xml"}
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    for key, content in contents.items():
        parts.pop(names[key], None)
        if content is not None:
            parts[names[key]] = content.encode()
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


def sheet(rows: str) -> str:
    return f'<worksheet xmlns="x"><sheetData>{rows}</sheetData></worksheet>'


def test_the_first_sheet_is_the_table(tmp_path: Path) -> None:
    rows = [["sku", "caption", "tags", None], [7, " a red car", "car;red"], [None, None], [8, "a dog", "dog", 5], [9]]
    path = write(tmp_path / "items.xlsx", rows, [["another"]])
    table = read_table(path)
    assert table.columns == ("sku", "caption", "tags")
    assert table.rows == [(7, " a red car", "car;red"), (9, None, None)]
    assert [str(problem) for problem in table.problems] == ["items.xlsx, row 4: 4 cells but the header has 3"]
    assert read_items(path, id="sku", text="caption", labels="tags", max_skipped=1).labels == [["car", "red"]]


@given(rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=5))
def test_cells_are_read_as_written_by_openpyxl(tmp_path_factory: pytest.TempPathFactory, rows: list[list[Any]]) -> None:
    book = openpyxl.Workbook()
    for row, cells in enumerate([["a", "b", "c"], *rows], 1):
        for column, value in enumerate(cells, 1):
            cell = book.active.cell(row, column)
            cell.value = value
            if isinstance(value, str):
                cell.data_type = "s"  # even if it begins like a formula
    path = tmp_path_factory.mktemp("book") / "items.xlsx"
    book.save(path)
    expected = [tuple(None if cell == "" else cell for cell in row) for row in rows]
    read = read_table(path).rows
    assert read == [row for row in expected if any(cell is not None for cell in row)]


def test_dates_and_times_are_iso_strings(tmp_path: Path) -> None:
    values = [date(2024, 2, 29), datetime(1999, 12, 31, 23, 59, 30), time(6, 30), timedelta(hours=26), 45351, 0.25]
    path = write(tmp_path / "items.xlsx", [list("abcdef"), values])
    assert read_table(path).rows == [("2024-02-29", "1999-12-31 23:59:30", "06:30:00", "1 day, 2:00:00", 45351, 0.25)]


def test_inline_and_rich_texts_are_read(tmp_path: Path) -> None:
    rows = (
        '<row><c t="inlineStr"><is><r><t>cap</t></r><r><t>tion</t></r><rPh><t>no</t></rPh></is></c></row>'
        '<row><c t="str"><f>1+1</f><v>made</v></c></row><row><c t="e"><v>#N/A</v></c></row>'
        '<row><c t="b"><v>1</v></c></row>'
    )
    path = changed(write(tmp_path / "items.xlsx", [["a"]]), sheet=sheet(rows))
    assert read_table(path).columns == ("caption",)
    assert read_table(path).rows == [("made",), (True,)]


@pytest.mark.parametrize(
    ("contents", "sentence"),
    [
        ({"sheet": None}, "its first sheet is missing"),
        ({"workbook": None}, "it has no sheets"),
        ({"workbook": "<workbook/>"}, "it has no sheets"),
        ({"sheet": "<worksheet>"}, "it is damaged"),
        ({"sheet": sheet('<row><c r="XFE1"><v>1</v></c></row>')}, "invalid cell reference 'XFE1'"),
        ({"sheet": sheet('<row><c r="7"><v>1</v></c></row>')}, "invalid cell reference '7'"),
        ({"sheet": sheet('<row r="0"><c><v>1</v></c></row>')}, "invalid row number '0'"),
        ({"sheet": sheet('<row><c t="s"><v>99</v></c></row>')}, "it is damaged: Cell string index not found"),
        ({"sheet": '<!DOCTYPE a [<!ENTITY b "c">]>' + sheet("")}, "must not have a document type declaration"),
        ({"sheet": sheet("")}, "is empty"),
    ],
)
def test_damaged_workbooks_are_refused(tmp_path: Path, contents: dict[str, str | None], sentence: str) -> None:
    path = changed(write(tmp_path / "items.xlsx", [["a", "b"], [1, 2]]), **contents)
    with pytest.raises(InputError, match=sentence) as raised:
        read_table(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_small_workbook_cannot_take_much_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "items.xlsx", [["a"]])
    monkeypatch.setenv("DLFH_MAX_BYTES", str(1 << 20))
    last = '<row r="1"><c r="A1"><v>1</v></c></row><row r="1048576"><c r="{}"><v>1</v></c></row>'
    for contents in (
        {"sheet": sheet(last.format("XFD1048576"))},  # a grid of empty cells
        {"sheet": sheet(last.format("A1048576"))},
        {"sheet": sheet('<row><c r="XFD1"/>' + "<c><v>1</v></c>" * 40_000 + "</row>")},
        {"sheet": sheet(" " * (2 << 20))},
        {"shared": "<sst>" + "<si/>" * 50_000 + "</sst>"},
        *(  # one text in many cells, whatever the part with the texts is called
            {
                name: f"<sst><si><t>{'x' * 10_000}</t></si></sst>",
                "sheet": sheet('<row><c t="s"><v>0</v></c></row>' * 200),
            }
            for name in ("shared", "other")
        ),
    ):
        with pytest.raises(InputError, match="DLFH_MAX_BYTES"):
            read_table(changed(path, **contents))


def test_formatted_empty_cells_take_no_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DLFH_MAX_BYTES", str(1 << 20))
    rows = '<row r="1"><c r="A1" t="str"><v>a</v></c></row><row r="1048576"><c r="XFD1048576" s="1"/></row>'
    assert read_table(changed(write(tmp_path / "items.xlsx", [["a"]]), sheet=sheet(rows))).columns == ("a",)


def test_other_files_are_not_workbooks(tmp_path: Path) -> None:
    (tmp_path / "items.xlsx").write_bytes(b"\xd0\xcf\x11\xe0 an old format, or one with a password")
    with pytest.raises(InputError, match="not an Excel workbook"):
        read_table(tmp_path / "items.xlsx")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    (tmp_path / "items.xlsx").write_bytes(content.getvalue())
    with pytest.raises(InputError, match="unknown compression method"):
        read_table(tmp_path / "items.xlsx")


def test_without_calamine_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "items.xlsx", [["a"]])
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(InputError, match=r'not installed: pip install "dlfh\[excel\]"$'):
        read_table(path)
