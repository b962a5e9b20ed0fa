"""Tables of items: CSV, TSV and Parquet files, read strictly but without stopping at single bad rows."""

from __future__ import annotations

import functools
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlfh._limits import Budget, check_regular_file
from dlfh._optional import require
from dlfh.datasets._parquet import cells_of, read_columns
from dlfh.errors import InputError

__all__ = ["TABLE_SUFFIXES", "Problem", "Table", "read_table"]

#: What files are read as tables.
TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")

#: The longest cell that is read; a quote that is never closed makes one cell of the rest of a file.
_LONGEST_CELL = 1 << 20


#: About how much memory a row takes as an item, beside what is written in it, and a cell.
_ROW_BYTES, _CELL_BYTES = 400, 60


@dataclass(frozen=True)
class Problem:
    """Something of the input that is left out.

    Attributes
    ----------
    where : str
        The place in the input, such as ``items.csv, line 7``.
    lost : str
        What is left out: ``item``, or the name of one of its modalities.
    reason : str
    """

    where: str
    lost: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(frozen=True)
class Table:
    """Named columns of cells: strings, or whatever a Parquet file holds.

    Attributes
    ----------
    path : Path
    columns : tuple of str
    rows : list of tuple
    places : list of str
        Where each row stands, for messages.
    numbers : list of int
        The place of each row among all rows, those that are left out included.
    problems : list of Problem
        Rows that are left out.
    """

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    places: list[str]
    numbers: list[int]
    problems: list[Problem]

    @property
    def n_all(self) -> int:
        return len(self.rows) + len(self.problems)

    def column(self, name: str) -> list[Any]:
        """Return the cells of a column."""
        if name not in self.columns:
            raise InputError(f"{self.path} has no column {name!r}: it has {_listed(self.columns)}")
        if self.columns.count(name) > 1:
            raise InputError(f"{self.path} has {self.columns.count(name)} columns named {name!r}")
        place = self.columns.index(name)
        return [row[place] for row in self.rows]


def read_table(path: str | os.PathLike[str], *, encoding: str = "utf-8") -> Table:
    r"""Read a table with a header.

    Parameters
    ----------
    path : path
        A file that ends in ``.csv`` (separated by commas, or by semicolons if the header has them and no comma),
        ``.tsv`` or ``.parquet`` (which needs ``dlfh[parquet]``).
    encoding : str
        How text files are encoded.

    Returns
    -------
    Table
        Rows with too many or too few cells are left out, and said to be.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "items.csv")
    ...     _ = file.write_text("file;caption\ncat.png;a cat\ndog.png\n", encoding="utf-8")
    ...     table = read_table(file)
    >>> table.columns, table.rows, table.problems[0].reason
    (('file', 'caption'), [('cat.png', 'a cat')], '1 cell where the header has 2')
    """
    file = Path(path)
    try:
        check_regular_file(file)
    except InputError as error:
        raise InputError(f"there is no table at {file}: {error}") from None
    suffix = file.suffix.lower()
    if suffix not in TABLE_SUFFIXES:
        raise InputError(f"{file} is not a table: it should end in {', '.join(TABLE_SUFFIXES)}")
    return _read_parquet(file) if suffix == ".parquet" else _read_text(file, suffix, encoding)


def _read_text(file: Path, suffix: str, encoding: str) -> Table:
    lines = _decoded_lines(file, "utf-8-sig" if encoding.lower().replace("_", "-") == "utf-8" else encoding)
    header = next(lines, "")
    delimiter = "\t" if suffix == ".tsv" else ";" if ";" in header and "," not in header else ","
    table: Table | None = None
    budget = Budget.of_file(file, str(file))
    csv = _cell_reader()
    try:
        reader = csv.reader(_chained(header, lines), delimiter=delimiter, strict=True)
        while True:
            line = reader.line_num + 1
            cells = next(reader, None)
            if cells is None:
                break
            if table is None:
                table = Table(file, tuple(cell.strip() for cell in cells), [], [], [], [])
            elif cells:  # an empty line is no row
                budget.take_bytes(_ROW_BYTES + _CELL_BYTES * len(cells))
                _take_row(table, cells, f"{file.name}, line {line}")
    except csv.Error as error:
        raise InputError(f"{file} cannot be read as a table: line {reader.line_num}: {error}") from None
    if table is None or not any(table.columns):
        raise InputError(f"{file} is empty: a table starts with a line of column names")
    return table


@functools.cache
def _cell_reader() -> Any:
    """Return Python's reader of CSV files, as a copy of our own that takes cells of up to `_LONGEST_CELL`.

    Its limit is one for all of its users: setting it in the copy that ``import csv`` gives would set it for the whole
    process, in every thread.
    """
    spec = importlib.util.find_spec("_csv")
    assert spec is not None
    assert spec.loader is not None
    own = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(own)
    own.field_size_limit(_LONGEST_CELL)
    return own


def _take_row(table: Table, cells: list[str], place: str) -> None:
    if len(cells) == len(table.columns):
        table.numbers.append(table.n_all)
        table.rows.append(tuple(cells))
        table.places.append(place)
        return
    number = "1 cell" if len(cells) == 1 else f"{len(cells)} cells"
    table.problems.append(Problem(place, "item", f"{number} where the header has {len(table.columns)}"))


def _chained(first: str, rest: Iterator[str]) -> Iterator[str]:
    if first:
        yield first
        yield from rest


def _decoded_lines(file: Path, encoding: str) -> Iterator[str]:
    number = 0
    try:
        with open(file, encoding=encoding, newline="") as stream:
            for number, line in enumerate(stream, 1):
                if "\0" in line:
                    raise InputError(f"{file} is not a text file: line {number} has a null character")
                yield line
    except LookupError:
        raise InputError(f"unknown encoding {encoding!r}: utf-8 or latin-1, for example") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{file} is not encoded in {encoding.removesuffix('-sig')}: see the byte 0x{error.object[error.start]:02x} "
            f"after line {number}; save it in UTF-8, or say how it is encoded"
        ) from None
    except InputError:
        raise
    except ValueError as error:  # UTF-16 without its mark, a name with a null character, codecs that are none of text
        raise InputError(
            f"{file} is not encoded in {encoding!r}: {error}; save it in UTF-8, or say how it is encoded"
        ) from None


def _read_parquet(file: Path) -> Table:
    pyarrow = require("pyarrow", f"reading {file}", "parquet")
    budget = Budget.of_file(file)
    try:
        content = read_columns(file, budget)
        budget.take_bytes(content.num_rows * (_ROW_BYTES + _CELL_BYTES * content.num_columns))
        columns = [cells_of(name, content.column(place)) for place, name in enumerate(content.column_names)]
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{file} cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    except InputError as error:
        raise InputError(f"cannot read {file}: {error}") from None
    except Exception:  # what damaged files make pyarrow stumble over: names that are not UTF-8, words out of range
        raise InputError(f"{file} cannot be read as Parquet: it is damaged") from None
    places = [f"{file.name}, row {row}" for row in range(content.num_rows)]
    return Table(
        file, tuple(content.column_names), list(zip(*columns, strict=True)), places, list(range(content.num_rows)), []
    )


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(map(repr, names[:20]))
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
