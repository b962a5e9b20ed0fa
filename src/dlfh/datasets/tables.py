"""Tables of items, from files or in memory; a malformed row is skipped and reported, not an error."""

from __future__ import annotations

import codecs
import functools
import importlib.util
import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._limits import MAX_DEPTH, Budget, check_limit, check_regular_file
from dlfh._optional import require
from dlfh.datasets.arrow import ARROW_SUFFIXES, read_arrow
from dlfh.datasets.excel import read_sheet
from dlfh.datasets.parquet import read_columns, to_cells
from dlfh.datasets.problem import Problem
from dlfh.errors import InputError

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".xlsx", *ARROW_SUFFIXES)

#: Delimiters of text files, in order of preference if the header contains several equally often.
_DELIMITERS = ",;\t|"

#: Maximum length of a cell; a quote that is never closed turns the rest of a file into one cell.
_LONGEST_CELL = 1 << 20

#: Approximate memory in bytes of a row, of a cell and of another Python object, without their contents.
_ROW_BYTES, _CELL_BYTES, _OBJECT_BYTES = 400, 60, 64


@dataclass(frozen=True)
class Table:
    """Named columns of cells."""

    path: Path  # of a table in memory, its name in messages
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    places: list[str]  # position of each row in the input, for messages
    numbers: list[int]  # of each row among all rows, skipped ones included
    problems: list[Problem]  # rows that were skipped
    typed: bool = True  # whether cells have types; those of a text file are all strings

    @property
    def n_all(self) -> int:
        """Number of rows, skipped ones included."""
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


def read_table(source: Any, *, encoding: str = "utf-8") -> Table:
    r"""Read a table with a header, from a file or from a table in memory (pandas, Polars, Arrow).

    Text files are delimited by commas, semicolons, tabs or bars, whichever is most frequent in the header. Rows with
    too many or too few cells are skipped and listed in ``problems``.
    """
    if is_frame(source):
        return _from_columns(Path(f"the {type(source).__name__}"), *_frame_columns(source))
    file = Path(source)
    try:
        check_regular_file(file)
    except InputError as error:
        raise InputError(f"cannot read the table {file}: {error}") from None
    suffix = file.suffix.lower()
    if suffix in (".csv", ".tsv"):
        return _read_text(file, encoding, "\t" if suffix == ".tsv" else ",")
    if suffix in (".jsonl", ".ndjson"):
        return _read_json_lines(file, encoding)
    if suffix == ".xlsx":
        return _read_excel(file)
    if suffix == ".parquet":
        return _read_columns(file, "Parquet", read_columns)
    if suffix in ARROW_SUFFIXES:
        return _read_columns(file, "Arrow", read_arrow)
    raise InputError(f"{file} is not a table: its name must end in {', '.join(TABLE_SUFFIXES)}")


def _add_row(table: Table, cells: list[Any], place: str) -> None:
    if len(cells) == len(table.columns):
        table.numbers.append(table.n_all)
        table.rows.append(tuple(cells))
        table.places.append(place)
        return
    number = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    table.problems.append(Problem(place, "item", f"{number} but the header has {len(table.columns)}"))


# ------------------------------------------------------------------------------------------------------- text files


def _read_text(file: Path, encoding: str, usual: str) -> Table:
    lines = _decoded_lines(file, encoding)
    header = next(lines, "")
    table: Table | None = None
    budget = Budget.of_file(file, str(file))
    csv = _csv_module()
    try:
        all_lines = itertools.chain([header] if header else [], lines)
        reader = csv.reader(all_lines, delimiter=_delimiter_of(header, usual), strict=True)
        while True:
            line = reader.line_num + 1
            cells = next(reader, None)
            if cells is None:
                break
            if table is None:
                table = Table(file, tuple(cell.strip() for cell in cells), [], [], [], [], typed=False)
            elif cells:  # not an empty line
                budget.take_bytes(_ROW_BYTES + _CELL_BYTES * len(cells))
                _add_row(table, cells, f"{file.name}, line {line}")
    except csv.Error as error:
        raise InputError(f"cannot read {file} as a table: line {reader.line_num}: {error}") from None
    if table is None or not any(table.columns):
        raise InputError(f"{file} is empty: the first line of a table must contain the column names")
    return table


@functools.cache
def _csv_module() -> Any:
    """Return a separate instance of Python's ``_csv`` that accepts cells of up to `_LONGEST_CELL` characters.

    The limit is global to a module instance: setting it in the one that ``import csv`` returns would change it for the
    whole process.
    """
    spec = importlib.util.find_spec("_csv")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.field_size_limit(_LONGEST_CELL)
    return module


def _delimiter_of(header: str, usual: str) -> str:
    """Return the most frequent delimiter of a header, outside quotes."""
    unquoted = "".join(header.split('"')[::2])
    return max(usual + _DELIMITERS, key=unquoted.count)


def _decoded_lines(file: Path, encoding: str) -> Iterator[str]:
    if encoding.lower().replace("_", "-") == "utf-8":
        encoding = "utf-8-sig"
    hint = "save it as UTF-8, or name its encoding (encoding, or --encoding latin-1 for example)"
    try:
        with open(file, encoding=encoding, newline="") as stream:
            for number, line in enumerate(stream, 1):
                if "\0" in line:
                    raise InputError(f"{file} is not a text file: line {number} contains a null character")
                yield line
    except LookupError:
        raise InputError(f"unknown encoding {encoding!r}: use utf-8 or latin-1, for example") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file} is not encoded in {encoding.removesuffix('-sig')}: line {_undecodable_line(file, encoding)} "
            f"contains the byte 0x{error.object[error.start]:02x}; {hint}"
        ) from None
    except InputError:
        raise
    except ValueError as error:  # UTF-16 without a byte order mark, an encoding name with a null character
        raise InputError(f"{file} is not encoded in {encoding!r}: {error}; {hint}") from None


def _undecodable_line(file: Path, encoding: str) -> int:
    """Return the number of the first line that cannot be decoded; the error itself only has a block offset."""
    decoder = codecs.getincrementaldecoder(encoding)()
    number = 1
    with open(file, "rb") as stream:
        for line in stream:
            try:
                number += decoder.decode(line).count("\n")
            except UnicodeDecodeError:
                break
    return number


def _read_json_lines(file: Path, encoding: str) -> Table:
    budget = Budget.of_file(file, str(file))
    objects: dict[int, dict[str, Any]] = {}
    errors: dict[int, str] = {}
    try:
        for number, line in enumerate(_decoded_lines(file, encoding), 1):
            check_limit("DLFH_MAX_CHARACTERS", len(line), f"line {number} has {len(line):,} characters")
            if not line.strip():
                continue
            value = _parse_object(line)
            if isinstance(value, str):
                errors[number] = value
            else:
                budget.take_bytes(_size(value))
                objects[number] = value
        columns = {name: None for value in objects.values() for name in value}
        budget.take_bytes(len(objects) * (_ROW_BYTES + _CELL_BYTES * len(columns)))
    except InputError as error:
        raise InputError(f"cannot read {file}: {error}") from None
    if not columns:
        first = min(errors, default=0)
        reason = f"line {first}: {errors[first]}" if errors else "a JSON Lines table has one object per line"
        raise InputError(f"{file} has no columns: {reason}")
    rank = {number: place for place, number in enumerate(sorted([*errors, *objects]))}
    return Table(
        file,
        tuple(columns),
        [tuple(value.get(name) for name in columns) for value in objects.values()],
        [f"{file.name}, line {number}" for number in objects],
        [rank[number] for number in objects],
        [Problem(f"{file.name}, line {number}", "item", reason) for number, reason in errors.items()],
    )


def _parse_object(line: str) -> dict[str, Any] | str:
    """Parse a JSON object; return the error if it is invalid."""
    try:
        value = json.loads(line, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return f"invalid JSON: {error.msg}"
    except (RecursionError, ValueError) as error:  # deeply nested lists, numbers of thousands of digits
        return f"invalid JSON: {'nested too deeply' if isinstance(error, RecursionError) else error}"
    return value if isinstance(value, dict) else 'not a JSON object such as {"text": "a cat"}'


def _refuse_constant(constant: str) -> Any:
    raise ValueError(f"{constant} is not a JSON number")


def _size(value: Any, depth: int = 0) -> int:
    """Return the approximate memory of a JSON value in bytes."""
    if isinstance(value, str):
        return _OBJECT_BYTES + len(value)
    if isinstance(value, (dict, list)):
        if depth > MAX_DEPTH:
            raise InputError(f"lists or objects are nested more than {MAX_DEPTH} levels deep")
        inside = [*value, *value.values()] if isinstance(value, dict) else value
        return _OBJECT_BYTES + sum(8 + _size(part, depth + 1) for part in inside)
    return _OBJECT_BYTES // 2


# ----------------------------------------------------------------------------------------------------- binary files


def _read_excel(file: Path) -> Table:
    table: Table | None = None
    try:
        for number, cells in read_sheet(file, Budget.of_file(file, str(file))):
            if table is None:
                names = ("" if cell is None else str(cell).strip() for cell in cells)
                table = Table(file, tuple(names), [], [], [], [])
            else:
                cells += [None] * (len(table.columns) - len(cells))
                _add_row(table, cells, f"{file.name}, row {number}")
    except (InputError, OSError) as error:
        raise InputError(f"cannot read {file}: {error}") from None
    if table is None:
        raise InputError(f"{file} is empty: the first row of the first sheet must contain the column names")
    return table


def _read_columns(file: Path, kind: str, read: Callable[[Path, Budget], Any]) -> Table:
    pyarrow = require("pyarrow", f"reading {file}", "parquet")
    budget = Budget.of_file(file)
    try:
        content = read(file, budget)
        budget.take_bytes(content.num_rows * (_ROW_BYTES + _CELL_BYTES * content.num_columns))
        names, columns = _arrow_columns(content)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"cannot read {file} as {kind}: {str(error).splitlines()[0]}") from None
    except InputError as error:
        raise InputError(f"cannot read {file}: {error}") from None
    except Exception:  # pyarrow raises all kinds of errors on damaged files
        raise InputError(f"cannot read {file} as {kind}: it is damaged") from None
    return _from_columns(file, names, columns)


def _from_columns(file: Path, names: Iterable[str], columns: list[list[Any]]) -> Table:
    rows = list(zip(*columns, strict=True))
    places = [f"{file.name}, row {row}" for row in range(len(rows))]
    return Table(file, tuple(names), rows, places, list(range(len(rows))), [])


def _arrow_columns(table: Any) -> tuple[list[str], list[list[Any]]]:
    names = list(table.column_names)
    return names, [to_cells(name, table.column(place)) for place, name in enumerate(names)]


# -------------------------------------------------------------------------------------------------- tables in memory


def is_frame(value: Any) -> bool:
    """Return whether a value is a table in memory: pandas, Arrow, or a type with Arrow's protocol, such as Polars."""
    return _is_pandas(value) or hasattr(value, "__arrow_c_stream__") or hasattr(value, "to_pydict")


def _is_pandas(value: Any) -> bool:
    return hasattr(value, "iloc") and hasattr(value, "columns")


def _frame_columns(frame: Any) -> tuple[list[str], list[list[Any]]]:
    """Return the names and cells of each column; empty cells are None."""
    if _is_pandas(frame):
        return [str(name) for name in frame.columns], [_pandas_cells(column) for _, column in frame.items()]
    return _arrow_columns(require("pyarrow", "reading an Arrow table", "parquet").table(frame))


def _pandas_cells(column: Any) -> list[Any]:
    empty = np.asarray(column.isna(), bool)
    cells = [None if missing else cell for cell, missing in zip(column.tolist(), empty, strict=True)]
    if column.dtype.kind == "f" and empty.any() and all(cell is None or cell.is_integer() for cell in cells):
        return [None if cell is None else int(cell) for cell in cells]  # pandas stores integers with gaps as floats
    return cells
