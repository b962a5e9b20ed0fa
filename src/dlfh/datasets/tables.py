"""Tables of items, from files or in memory, read strictly but without stopping at single bad rows."""

from __future__ import annotations

import codecs
import functools
import importlib.util
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlfh._limits import Budget, check_regular_file
from dlfh._optional import require
from dlfh.datasets.arrow import ARROW_SUFFIXES, read_arrow
from dlfh.datasets.frames import columns_of_frame, is_frame
from dlfh.datasets.parquet import cells_of, read_columns
from dlfh.datasets.problem import Problem
from dlfh.errors import InputError

__all__ = ["TABLE_SUFFIXES", "Table", "read_table"]

#: What files are read as tables.
TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".xlsx", *ARROW_SUFFIXES)

#: What may stand between the cells of a text file, the first where the header has as many of several.
_DELIMITERS = ",;\t|"

#: The longest cell that is read; a quote that is never closed makes one cell of the rest of a file.
_LONGEST_CELL = 1 << 20


#: About how much memory a row takes as an item, beside what is written in it, and a cell.
_ROW_BYTES, _CELL_BYTES = 400, 60


@dataclass(frozen=True)
class Table:
    """Named columns of cells: strings, or whatever a file other than of text holds.

    Attributes
    ----------
    path : Path
        Of a table in memory, what it is called in messages.
    columns : tuple of str
    rows : list of tuple
    places : list of str
        Where each row stands, for messages.
    numbers : list of int
        The place of each row among all rows, those that are left out included.
    problems : list of Problem
        Rows that are left out.
    typed : bool
        Whether cells say what they are: those of a file of text are all texts.
    """

    path: Path
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    places: list[str]
    numbers: list[int]
    problems: list[Problem]
    typed: bool = True

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


def read_table(source: Any, *, encoding: str = "utf-8") -> Table:
    r"""Read a table with a header.

    Parameters
    ----------
    source : path or table
        A file that ends in ``.csv`` or ``.tsv`` (separated by commas, semicolons, tabs or bars: what its header has
        most of), ``.jsonl`` or ``.ndjson`` (an object a line), ``.xlsx`` (the first sheet), ``.parquet``, ``.arrow`` or
        ``.feather`` (a file or a stream; these three need ``dlfh[parquet]``). Or a table in memory: a DataFrame of
        pandas or Polars, a table of Arrow.
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
    if is_frame(source):
        return _of_columns(Path(f"the {type(source).__name__}"), *columns_of_frame(source))
    file = Path(source)
    try:
        check_regular_file(file)
    except InputError as error:
        raise InputError(f"there is no table at {file}: {error}") from None
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
    raise InputError(f"{file} is not a table: it should end in {', '.join(TABLE_SUFFIXES)}")


def _read_text(file: Path, encoding: str, usual: str) -> Table:
    lines = _decoded_lines(file, encoding)
    header = next(lines, "")
    delimiter = _delimiter_of(header, usual)
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
                table = Table(file, tuple(cell.strip() for cell in cells), [], [], [], [], typed=False)
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


def _take_row(table: Table, cells: list[Any], place: str) -> None:
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


def _delimiter_of(header: str, usual: str) -> str:
    """Return what stands between the cells of a header: what it has most of, quotes aside.

    Examples
    --------
    >>> _delimiter_of("id;caption", ","), _delimiter_of('"a;b;c",caption', ","), _delimiter_of("caption", ",")
    (';', ',', ',')
    """
    bare = "".join(header.split('"')[::2])
    return max(usual + _DELIMITERS, key=bare.count)


def _decoded_lines(file: Path, encoding: str) -> Iterator[str]:
    if encoding.lower().replace("_", "-") == "utf-8":
        encoding = "utf-8-sig"
    hint = "save it in UTF-8, or say how it is encoded with encoding (--encoding latin-1, for example)"
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
            f"in line {_line_that_fails(file, encoding)}; {hint}"
        ) from None
    except InputError:
        raise
    except ValueError as error:  # UTF-16 without its mark, a name with a null character, codecs that are none of text
        raise InputError(f"{file} is not encoded in {encoding!r}: {error}; {hint}") from None


def _line_that_fails(file: Path, encoding: str) -> int:
    """Return the number of the line that cannot be decoded: text is decoded by blocks, which says less."""
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
    from dlfh.datasets.json_lines import parse_lines

    budget = Budget.of_file(file, str(file))
    try:
        objects, wrong = parse_lines(_decoded_lines(file, encoding), budget)
        columns = {name: None for _, value in objects for name in value}
        budget.take_bytes(len(objects) * (_ROW_BYTES + _CELL_BYTES * len(columns)))
    except InputError as error:
        raise InputError(f"cannot read {file}: {error}") from None
    if not columns:
        example = f": line {min(wrong)}: {wrong[min(wrong)]}" if wrong else ": a table of JSON has an object a line"
        raise InputError(f"{file} has no columns{example}")
    numbers = sorted([*wrong, *(number for number, _ in objects)])
    place_of = {number: place for place, number in enumerate(numbers)}
    return Table(
        file,
        tuple(columns),
        [tuple(value.get(name) for name in columns) for _, value in objects],
        [f"{file.name}, line {number}" for number, _ in objects],
        [place_of[number] for number, _ in objects],
        [Problem(f"{file.name}, line {number}", "item", reason) for number, reason in wrong.items()],
    )


def _read_excel(file: Path) -> Table:
    from dlfh.datasets.excel import read_sheet

    table: Table | None = None
    try:
        for number, cells in read_sheet(file, Budget.of_file(file, str(file))):
            if table is None:
                names = ("" if cell is None else str(cell).strip() for cell in cells)
                table = Table(file, tuple(names), [], [], [], [])
            else:
                cells += [None] * (len(table.columns) - len(cells))
                _take_row(table, cells, f"{file.name}, row {number}")
    except (InputError, OSError) as error:
        raise InputError(f"cannot read {file}: {error}") from None
    if table is None:
        raise InputError(f"{file} is empty: the first sheet of a table starts with a row of column names")
    return table


def _read_columns(file: Path, kind: str, read: Callable[[Path, Budget], Any]) -> Table:
    pyarrow = require("pyarrow", f"reading {file}", "parquet")
    budget = Budget.of_file(file)
    try:
        content = read(file, budget)
        budget.take_bytes(content.num_rows * (_ROW_BYTES + _CELL_BYTES * content.num_columns))
        columns = [cells_of(name, content.column(place)) for place, name in enumerate(content.column_names)]
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{file} cannot be read as {kind}: {str(error).splitlines()[0]}") from None
    except InputError as error:
        raise InputError(f"cannot read {file}: {error}") from None
    except Exception:  # what damaged files make pyarrow stumble over: names that are not UTF-8, words out of range
        raise InputError(f"{file} cannot be read as {kind}: it is damaged") from None
    return _of_columns(file, content.column_names, columns)


def _of_columns(file: Path, names: Iterable[str], columns: list[list[Any]]) -> Table:
    rows = list(zip(*columns, strict=True))
    places = [f"{file.name}, row {row}" for row in range(len(rows))]
    return Table(file, tuple(names), rows, places, list(range(len(rows))), [])


def _listed(names: tuple[str, ...]) -> str:
    shown = ", ".join(map(repr, names[:20]))
    return shown + (f" and {len(names) - 20} more" if len(names) > 20 else "")
