"""Workbooks are read as openpyxl writes them, and what is damaged or too large is refused in a sentence."""

from __future__ import annotations

import io
import zipfile
from datetime import date, datetime, time
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


def changed(path: Path, part: str, content: str | None) -> Path:
    """Put other content in a part of a workbook, or none."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts.pop(part) if content is None else parts.update({part: content.encode()})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return path


SHEET = "xl/worksheets/sheet1.xml"


def sheet(rows: str) -> str:
    return f'<worksheet xmlns="x"><sheetData>{rows}</sheetData></worksheet>'


def test_the_first_sheet_is_the_table(tmp_path: Path) -> None:
    rows = [["sku", "caption", "tags", None], [7, " a red car", "car;red"], [None, None], [8, "a dog", "dog", 5], [9]]
    path = write(tmp_path / "items.xlsx", rows, [["another"]])
    table = read_table(path)
    assert table.columns == ("sku", "caption", "tags")
    assert table.rows == [(7, " a red car", "car;red"), (9, None, None)]
    assert [str(problem) for problem in table.problems] == ["items.xlsx, row 4: 4 cells where the header has 3"]
    assert read_items(path, id="sku", text="caption", labels="tags").labels == [["car", "red"]]


@given(rows=st.lists(st.lists(CELLS, min_size=3, max_size=3), max_size=5))
def test_cells_are_what_openpyxl_wrote(tmp_path_factory: pytest.TempPathFactory, rows: list[list[Any]]) -> None:
    book = openpyxl.Workbook()
    for row, cells in enumerate([["a", "b", "c"], *rows], 1):
        for column, value in enumerate(cells, 1):
            cell = book.active.cell(row, column)
            cell.value = value
            if isinstance(value, str):
                cell.data_type = "s"  # also what begins as a formula does
    path = tmp_path_factory.mktemp("book") / "items.xlsx"
    book.save(path)
    expected = [tuple(None if cell == "" else cell for cell in row) for row in rows]
    read = read_table(path).rows
    assert read == [row for row in expected if any(cell is not None for cell in row)]


def test_dates_are_dates_and_numbers_are_numbers(tmp_path: Path) -> None:
    values = [date(2024, 2, 29), datetime(1999, 12, 31, 23, 59, 30), time(6, 30), 45351, 0.25]
    path = write(tmp_path / "items.xlsx", [["a", "b", "c", "d", "e"], values])
    assert read_table(path).rows == [("2024-02-29", "1999-12-31 23:59:30", "06:30:00", 45351, 0.25)]


def test_texts_may_stand_in_their_cells_and_come_in_pieces(tmp_path: Path) -> None:
    rows = (
        '<row><c t="inlineStr"><is><r><t>cap</t></r><r><t>tion</t></r><rPh><t>no</t></rPh></is></c></row>'
        '<row><c t="str"><f>1+1</f><v>made</v></c></row><row><c t="e"><v>#N/A</v></c></row>'
        '<row><c t="b"><v>1</v></c></row>'
    )
    path = changed(write(tmp_path / "items.xlsx", [["a"]]), SHEET, sheet(rows))
    assert read_table(path).columns == ("caption",)
    assert read_table(path).rows == [("made",), (True,)]


@pytest.mark.parametrize(
    ("part", "content", "sentence"),
    [
        (SHEET, None, f"it has no {SHEET}"),
        ("xl/workbook.xml", None, "it has no xl/workbook.xml"),
        ("xl/workbook.xml", "<workbook/>", "it has no sheet"),
        (SHEET, "<worksheet>", "it is damaged"),
        (SHEET, sheet('<row><c r="XFE1"><v>1</v></c></row>'), "beyond the last column"),
        (SHEET, sheet('<row><c r="7"><v>1</v></c></row>'), "nowhere"),
        (SHEET, sheet('<row><c t="s"><v>99</v></c></row>'), "refers to a text that is not there"),
        (SHEET, sheet(f'<row><c t="str"><v>{"x" * 40_000}</v></c></row>'), "more than 32,767 characters"),
        (SHEET, '<!DOCTYPE a [<!ENTITY b "c">]>' + sheet(""), "defines no words of its own"),
        (SHEET, sheet(""), "is empty"),
    ],
)
def test_damaged_workbooks_are_refused(tmp_path: Path, part: str, content: str | None, sentence: str) -> None:
    path = changed(write(tmp_path / "items.xlsx", [["a", "b"], [1, 2]]), part, content)
    with pytest.raises(InputError, match=sentence):
        read_table(path)


def test_a_small_workbook_cannot_take_much_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "items.xlsx", [["a"]])
    monkeypatch.setenv("DLFH_MAX_BYTES", str(1 << 20))
    for part, content in (
        (SHEET, sheet('<row><c r="XFD1"><v>1</v></c></row>' * 20)),  # a wide grid of nothing
        (SHEET, sheet(" " * (2 << 20))),
        ("xl/sharedStrings.xml", "<sst>" + "<si/>" * 50_000 + "</sst>"),
    ):
        with pytest.raises(InputError, match="set DLFH_MAX_BYTES to allow more"):
            read_table(changed(path, part, content))


def test_what_is_no_workbook_is_said(tmp_path: Path) -> None:
    (tmp_path / "items.xlsx").write_bytes(b"\xd0\xcf\x11\xe0 an old one, or one with a password")
    with pytest.raises(InputError, match="no Excel workbook"):
        read_table(tmp_path / "items.xlsx")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("xl/workbook.xml", "<workbook/>")
    (tmp_path / "items.xlsx").write_bytes(content.getvalue())
    with pytest.raises(InputError, match="packed as workbooks never are"):
        read_table(tmp_path / "items.xlsx")
