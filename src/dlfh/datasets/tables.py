"""Tables of items, from files or in memory; malformed rows are skipped and reported."""

from __future__ import annotations

import functools
import importlib.util
import io
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._imports import require
from dlfh._limits import MAX_DEPTH, Budget, check_limit, reading
from dlfh.datasets.arrow import ARROW_SUFFIXES, read_arrow_table, read_parquet_table, to_cells
from dlfh.datasets.excel import read_sheet
from dlfh.datasets.problem import Problem
from dlfh.errors import InputError

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".xlsx", *ARROW_SUFFIXES)
#: Delimiters of text files; of the ones that are equally frequent in the header, the first in this list is chosen.
_DELIMITERS = ",;\t|"
#: Maximum length of a cell; a quote that is never closed turns the rest of a file into one cell.
_LONGEST_CELL = 1 << 20
#: Approximate memory in bytes of a row, a cell and any other Python object, without the contents.
_ROW_BYTES, _CELL_BYTES, _OBJECT_BYTES = 400, 60, 64


@dataclass(frozen=True)
class Table:
    """Named columns of cells."""

    path: Path  # for a table in memory, its name in messages
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    places: list[str]  # position of each row in the input, for messages
    numbers: list[int]  # number of each row among all rows, including skipped rows
    problems: list[Problem]  # rows that were skipped
    typed: bool = True  # whether cells have types; in a text file, all cells are strings

    @property
    def n_all(self) -> int:
        """Number of rows, including skipped ones."""
        return len(self.rows) + len(self.problems)

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column."""
        if name not in self.columns:
            shown = ", ".join(map(repr, self.columns[:20]))
            more = f" and {len(self.columns) - 20} more" if len(self.columns) > 20 else ""
            raise InputError(f"{self.path} has no column {name!r}: its columns are {shown}{more}")
        if self.columns.count(name) > 1:
            raise InputError(f"{self.path} has {self.columns.count(name)} columns named {name!r}")
        place = self.columns.index(name)
        return [row[place] for row in self.rows]

    def texts(self, name: str) -> list[str]:
        """Return the cells of a column as strings without surrounding spaces."""
        return ["" if cell is None else str(cell).strip() for cell in self.column(name)]


def read_table(source: Any, *, encoding: str = "utf-8") -> Table:
    r"""Read a table with a header, from a file or from a table in memory (pandas, Polars, Arrow).

    Text files are delimited by commas, semicolons, tabs or bars, whichever is most frequent in the header. Rows with
    too many or too few cells are skipped and listed in ``problems``.
    """
    if is_frame(source):
        name = Path(f"the {type(source).__name__}")
        if _is_pandas(source):
            columns = [_pandas_cells(column) for _, column in source.items()]
            return _from_columns(name, map(str, source.columns), columns)
        table = require("pyarrow", "reading an Arrow table", "parquet").table(source)
        return _from_columns(name, *_arrow_columns(table))
    file = Path(source)
    suffix = file.suffix.lower()
    kind = "an Excel workbook without a password" if suffix == ".xlsx" else "a table"
    with reading(file, f"{kind} ({suffix})") as budget:
        if suffix not in TABLE_SUFFIXES:
            raise InputError(f"it is not a table: its name must end in {', '.join(TABLE_SUFFIXES)}")
        if suffix in (".csv", ".tsv"):
            return _from_rows(file, _text_rows(file, encoding, budget), typed=False)
        if suffix in (".jsonl", ".ndjson"):
            return _read_json_lines(file, encoding, budget)
        if suffix == ".xlsx":
            return _from_rows(file, read_sheet(file, budget))
        table = (read_parquet_table if suffix == ".parquet" else read_arrow_table)(file, budget)
        budget.take_bytes(table.num_rows * (_ROW_BYTES + _CELL_BYTES * table.num_columns))
        return _from_columns(file, *_arrow_columns(table))


def _from_rows(file: Path, rows: Iterator[tuple[str, Sequence[Any]]], *, typed: bool = True) -> Table:
    """Return a table whose first row contains the column names."""
    _, header = next(rows, ("", []))
    names = ["" if cell is None else str(cell).strip() for cell in header]
    if not any(names):
        raise InputError("it is empty: the first row must contain the column names")
    return _table(file, names, rows, typed)


def _from_columns(file: Path, names: Iterable[str], columns: list[list[Any]]) -> Table:
    return _table(file, names, ((f"row {number}", row) for number, row in enumerate(zip(*columns, strict=True))))


def _table(file: Path, names: Iterable[str], rows: Iterable[tuple[str, Sequence[Any]]], typed: bool = True) -> Table:
    """Collect rows, given as position and cells; a string instead of the cells is the reason to skip the row."""
    table = Table(file, tuple(names), [], [], [], [], typed)
    for number, (position, cells) in enumerate(rows):
        place = f"{file.name}, {position}"
        if not isinstance(cells, str) and len(cells) != len(table.columns):
            n_cells = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
            cells = f"{n_cells} but the header has {len(table.columns)}"
        if isinstance(cells, str):
            table.problems.append(Problem(place, "item", cells))
        else:
            table.rows.append(tuple(cells))
            table.places.append(place)
            table.numbers.append(number)
    return table


def _text_rows(file: Path, encoding: str, budget: Budget) -> Iterator[tuple[str, list[str]]]:
    lines = _decoded_lines(file, encoding)
    header = next(lines, "")
    unquoted = "".join(header.split('"')[::2])
    delimiter = max(("\t" if file.suffix.lower() == ".tsv" else ",") + _DELIMITERS, key=unquoted.count)
    csv = _csv_module()
    reader = csv.reader(itertools.chain([header], lines), delimiter=delimiter, strict=True)
    while True:
        line = reader.line_num + 1
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise InputError(f"line {reader.line_num}: {error}") from None
        if cells is None:
            return
        if cells or line == 1:  # not an empty line
            budget.take_bytes(_ROW_BYTES + _CELL_BYTES * len(cells))
            yield f"line {line}", cells


@functools.cache
def _csv_module() -> Any:
    """Return a separate instance of Python's ``_csv``, because its limit on cell size is a global setting."""
    spec = importlib.util.find_spec("_csv")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.field_size_limit(_LONGEST_CELL)
    return module


def _decoded_lines(file: Path, encoding: str) -> Iterator[str]:
    if encoding.lower().replace("_", "-") == "utf-8":
        encoding = "utf-8-sig"
    hint = "save it as UTF-8, or name its encoding (encoding, or --encoding latin-1 for example)"
    content = file.read_bytes()
    try:
        text = content.decode(encoding)
    except LookupError:
        raise InputError(f"unknown encoding {encoding!r}: use utf-8 or latin-1, for example") from None
    except UnicodeDecodeError as error:
        line = content[: error.start].decode(encoding).count("\n") + 1
        raise InputError(
            f"it is not encoded in {encoding.removesuffix('-sig')}: line {line} contains the byte "
            f"0x{content[error.start]:02x}; {hint}"
        ) from None
    except ValueError as error:  # UTF-16 without a byte order mark, an encoding name with a null character
        raise InputError(f"it is not encoded in {encoding!r}: {error}; {hint}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise InputError(f"it is not a text file: line {line} contains a null character")
    return io.TextIOWrapper(io.BytesIO(content), encoding, newline="")


def _read_json_lines(file: Path, encoding: str, budget: Budget) -> Table:
    rows: list[tuple[str, dict[str, Any] | str]] = []
    for number, line in enumerate(_decoded_lines(file, encoding), 1):
        check_limit("DLFH_MAX_CHARACTERS", len(line), f"line {number} has {len(line):,} characters")
        if line.strip():
            value = _parse_object(line)
            budget.take_bytes(_memory(value))
            rows.append((f"line {number}", value))
    columns = {name: None for _, value in rows if isinstance(value, dict) for name in value}
    budget.take_bytes(len(rows) * (_ROW_BYTES + _CELL_BYTES * len(columns)))
    if not columns:
        errors = (f"{place}: {reason}" for place, reason in rows if isinstance(reason, str))
        raise InputError(f"it has no columns: {next(errors, 'a JSON Lines table has one object per line')}")
    cells = (value if isinstance(value, str) else [value.get(name) for name in columns] for _, value in rows)
    return _table(file, columns, zip((place for place, _ in rows), cells, strict=True))


def _parse_object(line: str) -> dict[str, Any] | str:
    """Parse a JSON object; return the error if it is invalid."""
    try:
        value = json.loads(line, parse_constant=_refuse_constant)
    except RecursionError:
        return "invalid JSON: nested too deeply"
    except ValueError as error:  # JSONDecodeError, or numbers of thousands of digits
        return f"invalid JSON: {getattr(error, 'msg', error)}"
    return value if isinstance(value, dict) else 'not a JSON object such as {"text": "a cat"}'


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def _memory(value: Any, depth: int = 0) -> int:
    if isinstance(value, str):
        return _OBJECT_BYTES + len(value)
    if isinstance(value, (dict, list)):
        if depth > MAX_DEPTH:
            raise InputError(f"lists or objects are nested more than {MAX_DEPTH} levels deep")
        inside = [*value, *value.values()] if isinstance(value, dict) else value
        return _OBJECT_BYTES + sum(8 + _memory(part, depth + 1) for part in inside)
    return _OBJECT_BYTES // 2


def is_frame(value: Any) -> bool:
    """Return whether a value is a table in memory: pandas, Arrow, or a type with Arrow's protocol, such as Polars."""
    return _is_pandas(value) or hasattr(value, "__arrow_c_stream__") or hasattr(value, "to_pydict")


def _is_pandas(value: Any) -> bool:
    return hasattr(value, "iloc") and hasattr(value, "columns")


def _arrow_columns(table: Any) -> tuple[list[str], list[list[Any]]]:
    names = list(table.column_names)
    return names, [to_cells(name, table.column(place)) for place, name in enumerate(names)]


def _pandas_cells(column: Any) -> list[Any]:
    empty = np.asarray(column.isna(), bool)
    cells = [None if missing else cell for cell, missing in zip(column.tolist(), empty, strict=True)]
    if column.dtype.kind == "f" and empty.any() and all(cell is None or cell.is_integer() for cell in cells):
        return [None if cell is None else int(cell) for cell in cells]  # pandas stores integers with gaps as floats
    return cells
