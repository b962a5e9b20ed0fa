"""The first sheet of an Excel workbook (``.xlsx``), read by python-calamine within a memory budget.

Calamine allocates a grid from the first to the last cell, and copies a shared text into every cell that refers to it,
so a file of a kilobyte could exhaust the memory and end the process. This module therefore unpacks the archive, up to a
limit, and `_Part` computes the memory that each part would take, before calamine reads the workbook.
"""

from __future__ import annotations

import io
import itertools
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from pathlib import Path
from typing import Any
from xml.parsers import expat

from dlfh._imports import require
from dlfh._limits import Budget
from dlfh.errors import InputError

_REFERENCE = re.compile(r"([A-Z]{1,3})([0-9]{1,7})")
_LAST_ROW, _LAST_COLUMN = 1 << 20, 1 << 14
#: Approximate memory in bytes of a cell in calamine's grid, and of a cell and a row in Python.
_GRID_CELL_BYTES, _CELL_BYTES, _ROW_BYTES = 32, 120, 400


def read_sheet(file: Path, budget: Budget) -> Iterator[tuple[str, list[Any]]]:
    """Yield position and cells of each non-empty row, at least as many as in the first."""
    # Dates and times are strings in ISO format; empty cells and errors such as #N/A are None.
    calamine = require("python_calamine", "reading Excel workbooks", "excel")
    parts = _unpack(file, budget)
    usages = [_Part(content) for content in parts.values()]
    # Any part may contain the shared texts.
    lengths = [max(several) for several in itertools.zip_longest(*(usage.texts for usage in usages), fillvalue=0)]
    budget.check_bytes(max((usage.n_bytes(lengths) for usage in usages), default=0) + sum(lengths))
    width = 0
    for number, cells in enumerate(_calamine_rows(calamine, parts), 1):
        values = [_value(cell) for cell in cells]
        while values and values[-1] is None:
            values.pop()
        if values:
            width = width or len(values)
            filled = [value for value in values if value is not None]
            n_characters = sum(len(value) for value in filled if isinstance(value, str))
            budget.take_bytes(_ROW_BYTES + 8 * len(values) + _CELL_BYTES * len(filled) + n_characters)
            yield f"row {number}", values + [None] * (width - len(values))


def _unpack(file: Path, budget: Budget) -> dict[str, bytes]:
    """Return the XML parts of a workbook, if their declared sizes are within the budget."""
    unpacked = Budget.of_file(file)
    with zipfile.ZipFile(file) as archive:
        budget.take_objects(len(archive.infolist()))
        members = [member for member in archive.infolist() if member.filename.lower().endswith((".xml", ".rels"))]
        for member in members:
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise InputError(f"it is damaged: {member.filename} has an unknown compression method")
            unpacked.take_bytes(member.file_size)
        return {member.filename: archive.read(member) for member in members}  # never longer than declared


def _calamine_rows(calamine: Any, parts: dict[str, bytes]) -> Iterator[list[Any]]:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    content.seek(0)
    try:
        with calamine.CalamineWorkbook.from_filelike(content) as book:
            if not book.sheet_names:
                raise InputError("it has no sheets")
            yield from book.get_sheet_by_index(0).iter_rows()
    except calamine.WorksheetNotFound:
        raise InputError("it is damaged: its first sheet is missing") from None
    except calamine.CalamineError as error:
        raise InputError(f"it is damaged: {' '.join(str(error).split())[:200]}") from None
    except BaseException as error:  # panics of Rust code are not derived from Exception
        if type(error).__name__ != "PanicException":
            raise
        raise InputError("it is damaged") from None


def _value(cell: Any) -> Any:
    if cell == "":
        return None
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < 1e17:
        return int(cell)
    if isinstance(cell, datetime):
        rounded = (cell + timedelta(milliseconds=500)).replace(microsecond=0) if cell.microsecond else cell
        return rounded.date().isoformat() if rounded.time() == time() else rounded.isoformat(" ")
    if isinstance(cell, (date, time)):
        return cell.isoformat()
    return str(cell) if isinstance(cell, timedelta) else cell


class _Part:
    """Computes the memory that a part of a workbook would take: a grid with copies of shared texts, or these texts."""

    def __init__(self, content: bytes) -> None:
        self.texts: list[int] = []  # memory of each shared text in this part
        self.copies: Counter[str] = Counter()  # cells that refer to each shared text, by its number
        self.last_row = self.last_column = self._row = self._column = 0
        self._is_shared = self._in_text = False
        self._pieces: list[str] = []  # pieces of the text or number that is being read
        parser = expat.ParserCreate()
        parser.buffer_text = True
        parser.StartDoctypeDeclHandler = _refuse_doctype  # entities could expand without limit
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._pieces.append
        parser.Parse(content, True)

    def n_bytes(self, lengths: list[int]) -> int:
        copied = sum(count * lengths[int(text)] for text, count in self.copies.items() if int(text) < len(lengths))
        return _GRID_CELL_BYTES * self.last_row * self.last_column + copied

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition(":")[2]
        if tag == "row":
            self._row = _row_number(attributes["r"]) if "r" in attributes else self._row + 1
            self._column = 0
        elif tag == "c":
            self._column += 1
            if "r" in attributes:
                match = _REFERENCE.fullmatch(attributes["r"])
                self._column = 0
                for letter in match[1] if match else "":
                    self._column = 26 * self._column + ord(letter) - ord("A") + 1
                if match is None or self._column > _LAST_COLUMN:
                    raise InputError(f"it is damaged: invalid cell reference {attributes['r'][:20]!r}")
                self._row = _row_number(match[2])
            self._is_shared = attributes.get("t") == "s"
        elif tag in ("v", "is", "si") and not self._in_text:
            self._pieces.clear()
            self._in_text = tag == "si"
            if not self._in_text:
                self.last_row = max(self.last_row, self._row)
                self.last_column = max(self.last_column, self._column)

    def _end(self, name: str) -> None:
        tag = name.rpartition(":")[2]
        if tag == "si":
            self.texts.append(60 + sum(map(len, self._pieces)))
            self._in_text = False
        elif tag == "v" and self._is_shared and not self._in_text:
            number = "".join(self._pieces).strip()
            if number.isdecimal() and len(number) < 10:
                self.copies[number] += 1


def _row_number(text: str) -> int:
    if not text.isdecimal() or len(text) > 7 or not 1 <= int(text) <= _LAST_ROW:
        raise InputError(f"it is damaged: invalid row number {text[:20]!r}")
    return int(text)


def _refuse_doctype(*_: Any) -> None:
    raise InputError("it is damaged: a workbook must not have a document type declaration")
