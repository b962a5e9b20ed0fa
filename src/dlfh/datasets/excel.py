"""The first sheet of an Excel workbook (`.xlsx`), read as it streams by.

A workbook is a zip archive of XML. Libraries that read it build all of it, styles included, or a grid from the first
cell to the last: a file of a kilobyte can make them take all memory. So this reads, cell by cell and within a budget,
the few parts that a table needs: which sheet is first, its cells, the texts that they share, and which numbers are
dates.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from xml.parsers import expat

from dlfh._limits import Budget
from dlfh.errors import InputError

__all__ = ["read_sheet"]

#: How much is unpacked at a time.
_BLOCK = 1 << 16

#: The longest text of a cell, and the last column, that Excel knows.
_LONGEST_TEXT, _LAST_COLUMN = 32_767, 16_384

#: About how much memory a text that cells share takes, and a cell, and a row, beside what is in them.
_TEXT_BYTES, _CELL_BYTES, _ROW_BYTES = 60, 120, 400

#: Which of Excel's own formats of numbers are dates or times.
_DATES = frozenset({*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)})

_NAMESPACE = re.compile(r"^.*[:}]")
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,17}")
_COLUMN = re.compile(r"([A-Z]{1,3})[0-9]*")

Attributes = dict[str, str]


def read_sheet(file: Path, budget: Budget) -> Iterator[tuple[int, list[Any]]]:
    """Yield the rows of the first sheet that have something in them: their number, from 1, and their cells.

    Raises
    ------
    InputError
        If the file is no workbook, is damaged, or asks for more than the budget allows.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            budget.take_objects(len(archive.infolist()))
            parts = _Parts(archive, Budget.of_file(file))
            sheet, since_1904 = _first_sheet(parts)
            texts = _shared_texts(parts, budget)
            dates = _date_styles(parts, budget)
            yield from _rows(parts, sheet, _Values(texts, dates, since_1904), budget)
    except zipfile.BadZipFile:
        raise InputError(
            "it is no Excel workbook (.xlsx), or has a password: save it as .xlsx without, or as .csv"
        ) from None
    except (expat.ExpatError, zlib.error, EOFError, NotImplementedError, RuntimeError, UnicodeDecodeError):
        raise InputError("it is damaged") from None


@dataclass
class _Parts:
    """The files of an archive, parsed as they are unpacked."""

    archive: zipfile.ZipFile
    unpacked: Budget

    def has(self, name: str) -> bool:
        return name in self.archive.NameToInfo

    def parse(self, name: str, parser: Any) -> Iterator[None]:
        """Give a part to a parser, block by block, stopping after each."""
        if not self.has(name):
            raise InputError(f"it is damaged: it has no {name}")
        if self.archive.NameToInfo[name].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise InputError(f"it is damaged: {name} is packed as workbooks never are")
        with self.archive.open(name) as stream:
            while block := stream.read(_BLOCK):
                self.unpacked.take_bytes(len(block))
                parser.Parse(block)
                yield
            parser.Parse(b"", True)
            yield


def _parser(
    start: Callable[[str, Attributes], None],
    end: Callable[[str], None] | None = None,
    text: Callable[[str], None] | None = None,
) -> Any:
    """Return a parser that calls functions with bare names; documents that define words of their own are refused."""
    parser = expat.ParserCreate()
    parser.buffer_text = True

    def refuse(*_: Any) -> None:
        raise InputError("it is damaged: a workbook defines no words of its own")  # which could grow without end

    parser.StartDoctypeDeclHandler = refuse
    parser.StartElementHandler = lambda name, attributes: start(_bare(name), attributes)
    if end is not None:
        parser.EndElementHandler = lambda name: end(_bare(name))
    if text is not None:
        parser.CharacterDataHandler = text
    return parser


def _bare(name: str) -> str:
    return _NAMESPACE.sub("", name)


def _all_elements(parts: _Parts, name: str, budget: Budget, wanted: set[str]) -> list[tuple[str, Attributes]]:
    """Return the elements of some names in a part, with their attributes."""
    found: list[tuple[str, Attributes]] = []

    def start(element: str, attributes: Attributes) -> None:
        if element in wanted:
            budget.take_objects()
            found.append((element, attributes))

    for _ in parts.parse(name, _parser(start)):
        pass
    return found


def _first_sheet(parts: _Parts) -> tuple[str, bool]:
    """Return the part that is the first sheet, and whether days are counted from 1904."""
    book = "xl/workbook.xml"
    budget = Budget(1 << 20, 1 << 20, 100_000)
    elements = _all_elements(parts, book, budget, {"sheet", "workbookPr"})
    since_1904 = any(
        element == "workbookPr" and attributes.get("date1904") in ("1", "true") for element, attributes in elements
    )
    identities = [
        value
        for element, attributes in elements
        for name, value in attributes.items()
        if element == "sheet" and name.endswith(":id")
    ]
    if not identities:
        raise InputError("it has no sheet")
    relations = _all_elements(parts, "xl/_rels/workbook.xml.rels", budget, {"Relationship"})
    targets = {attributes.get("Id"): attributes.get("Target", "") for _, attributes in relations}
    target = targets.get(identities[0], "")
    # Inside the archive, whatever it is called: a name of a part, never a path of the system.
    return posixpath.normpath(posixpath.join("/xl", target)).lstrip("/"), since_1904


def _shared_texts(parts: _Parts, budget: Budget) -> list[str]:
    """Return the texts that cells refer to by number: of each all pieces, but not how they are pronounced."""
    name = "xl/sharedStrings.xml"
    texts: list[str] = []
    if not parts.has(name):
        return texts
    pieces: list[str] = []
    inside: list[str] = []

    def start(element: str, _: Attributes) -> None:
        inside.append(element)
        if element == "si":
            pieces.clear()

    def end(element: str) -> None:
        inside.pop()
        if element == "si":
            text = _checked("".join(pieces))
            budget.take_bytes(_TEXT_BYTES + len(text))
            texts.append(text)

    def words(piece: str) -> None:
        if inside[-1] == "t" and "rPh" not in inside:
            _take(pieces, piece)

    for _ in parts.parse(name, _parser(start, end, words)):
        pass
    return texts


def _date_styles(parts: _Parts, budget: Budget) -> set[int]:
    """Return the numbers of the styles that show a number as a date or a time."""
    name = "xl/styles.xml"
    if not parts.has(name):
        return set()
    dates, within, styles = set(_DATES), [""], [0]
    found: set[int] = set()

    def start(element: str, attributes: Attributes) -> None:
        if element == "numFmt" and _is_date(attributes.get("formatCode", "")):
            budget.take_objects()
            dates.add(_number(attributes.get("numFmtId")))
        elif element in ("cellXfs", "cellStyleXfs"):
            within[0] = element
        elif element == "xf" and within[0] == "cellXfs":
            budget.take_objects()
            if _number(attributes.get("numFmtId")) in dates:
                found.add(styles[0])
            styles[0] += 1

    def end(element: str) -> None:
        if element == within[0]:
            within[0] = ""

    for _ in parts.parse(name, _parser(start, end)):
        pass
    return found


def _is_date(code: str) -> bool:
    """Return whether a format of numbers shows dates: letters of dates outside of quotes, brackets and escapes.

    Examples
    --------
    >>> _is_date("yyyy-mm-dd"), _is_date('0.0 "days"'), _is_date("[Red]0")
    (True, False, False)
    """
    return bool(re.search("[dmyhs]", re.sub(r'"[^"]*"|\\[^ ]|\[[^\]]*\]', "", code[:1000].lower())))


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() and len(text) < 10 else 0


@dataclass(frozen=True)
class _Values:
    """What the cells of a sheet mean."""

    texts: list[str]
    dates: set[int]
    since_1904: bool

    def of(self, kind: str, style: int, written: str) -> Any:
        """Return the value of a cell; None if it is empty."""
        if written == "":
            return None
        if kind == "s":
            place = int(written) if written.strip().isdecimal() and len(written) < 10 else len(self.texts)
            if place >= len(self.texts):
                raise InputError("it is damaged: a cell refers to a text that is not there")
            return self.texts[place] or None
        if kind == "b":
            return written.strip() == "1"
        if kind != "n":  # texts, ISO dates, and errors such as #N/A, which are as good as nothing
            return None if kind == "e" else written
        try:
            number = float(written)
        except ValueError:
            return written
        if style in self.dates:
            return self._date(number)
        return int(written) if _WHOLE_NUMBER.fullmatch(written.strip()) else number

    def _date(self, days: float) -> Any:
        start = datetime(1904, 1, 1) if self.since_1904 else datetime(1899, 12, 30)
        try:
            time = start + timedelta(seconds=round(days * 86_400))
        except (OverflowError, ValueError):
            return days
        if 0 <= days < 1:
            return time.time().isoformat()
        return time.date().isoformat() if (time.hour, time.minute, time.second) == (0, 0, 0) else time.isoformat(" ")


@dataclass
class _Sheet:
    """The rows of a sheet as they come out of the parser."""

    values: _Values
    budget: Budget
    done: list[tuple[int, list[Any]]] = field(default_factory=list)
    number: int = 0
    cells: dict[int, Any] = field(default_factory=dict)
    column: int = -1
    kind: str = "n"
    style: int = 0
    pieces: list[str] = field(default_factory=list)
    inside: list[str] = field(default_factory=list)

    def start(self, element: str, attributes: Attributes) -> None:
        self.inside.append(element)
        if element == "row":
            self.number = _number(attributes.get("r")) or self.number + 1
            self.cells, self.column = {}, -1
        elif element == "c":
            self.column = _column(attributes.get("r")) if "r" in attributes else self.column + 1
            if self.column >= _LAST_COLUMN:
                raise InputError("it is damaged: a cell is beyond the last column")
            self.kind = attributes.get("t", "n")
            self.style = _number(attributes.get("s"))
            self.pieces.clear()

    def text(self, piece: str) -> None:
        # A value, or the pieces of a text that stands in the cell itself.
        if self.inside[-1] == "v" or (self.inside[-1] == "t" and "is" in self.inside and "rPh" not in self.inside):
            _take(self.pieces, piece)

    def end(self, element: str) -> None:
        self.inside.pop()
        if element == "c":
            value = self.values.of(self.kind, self.style, _checked("".join(self.pieces)))
            if value is not None:
                self.budget.take_bytes(_CELL_BYTES + (len(value) if isinstance(value, str) else 0))
                self.cells[self.column] = value
        elif element == "row" and self.cells:
            width = max(self.cells) + 1
            self.budget.take_bytes(_ROW_BYTES + 8 * width)
            self.done.append((self.number, [self.cells.get(place) for place in range(width)]))
            self.cells = {}


def _rows(parts: _Parts, name: str, values: _Values, budget: Budget) -> Iterator[tuple[int, list[Any]]]:
    sheet = _Sheet(values, budget)
    for _ in parts.parse(name, _parser(sheet.start, sheet.end, sheet.text)):
        yield from sheet.done
        sheet.done.clear()


def _column(place: str | None) -> int:
    """Return the number of the column that a cell says it is in.

    Examples
    --------
    >>> _column("A1"), _column("Z9"), _column("AA10")
    (0, 25, 26)
    """
    match = _COLUMN.fullmatch(place or "")
    if match is None:
        raise InputError("it is damaged: a cell says of itself that it is nowhere")
    number = 0
    for letter in match[1]:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _take(pieces: list[str], piece: str) -> None:
    pieces.append(piece)
    if len(pieces) > _LONGEST_TEXT:
        pieces[:] = [_checked("".join(pieces))]


def _checked(text: str) -> str:
    if len(text) > _LONGEST_TEXT:
        raise InputError(f"it is damaged: a cell has a text of more than {_LONGEST_TEXT:,} characters")
    return text
