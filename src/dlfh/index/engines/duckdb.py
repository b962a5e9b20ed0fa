"""Items in DuckDB, in a file or in memory.

One table has the items, with codes as 64-bit words that a scan compares by ``bit_count(xor(...))``. A second table has
the values for filters, one per row. Both can be joined with other tables.

A file may be untrusted, and a database can run statements when it is read: views, generated columns and macros, which
can even replace operators. Therefore, statements cannot access other files or the network, the tables must be exactly
as created here, and macros must not have the names of built-in functions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Literal

import numpy as np

from dlfh._arrays import Array, Integers
from dlfh._imports import require
from dlfh.codes import n_bytes
from dlfh.errors import DLFHError, StorageError
from dlfh.index.engines.address import Address
from dlfh.index.engines.engine import Row
from dlfh.index.engines.sql import SqlEngine
from dlfh.index.segment import ABSENT
from dlfh.index.where import Condition

_BATCH = 10_000
#: Statements cannot access other files or the network, load extensions, or change these settings.
_FORBIDDEN = ("enable_external_access", "autoinstall_known_extensions", "autoload_known_extensions")
_CONFIG = dict.fromkeys(_FORBIDDEN, "false") | {"lock_configuration": "true"}
#: Columns of the table of values, with their types in Python and SQL.
_VALUE_COLUMNS = {"amount": (float, "DOUBLE"), "words": (str, "VARCHAR"), "truth": (bool, "BOOLEAN")}
_ABOUT = "format INTEGER, identity VARCHAR, state BIGINT, next BIGINT, bits INTEGER, modalities VARCHAR"
#: SQL condition for the tables stored in a file, without temporary ones.
_STORED = "schema_name = 'main' AND NOT temporary"


class DuckEngine(SqlEngine):
    """Items in a DuckDB database."""

    _parameter = "?"

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._duckdb = require("duckdb", "this address", "duckdb")
        self._values = f'"{address.name}_values"'
        self._tables = (*self._tables, self._values)
        self._idle: list[Any] = []  # cursors for reuse: each new one reads the catalogue again
        self._writing = threading.RLock()
        self._connection: Any = None
        with self._errors():
            self._connection = self._duckdb.connect(address.place or ":memory:", config=_CONFIG)
        with self._closed_on_error():
            self._check_functions()

    def close(self) -> None:
        with self._writing:
            connections, self._connection = [*self._idle, self._connection], None
            self._idle.clear()
            with self._errors():
                for connection in filter(None, connections):
                    connection.close()

    @property
    def closed(self) -> bool:
        return self._connection is None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn errors of DuckDB into a `StorageError` of one line."""
        try:
            yield
        except DLFHError:
            raise
        except (self._duckdb.Error, RuntimeError, UnicodeError) as error:  # damaged files raise the latter two
            message = "" if isinstance(error, UnicodeError) else str(error)
            message = (message.splitlines() or ["the file is damaged"])[0]
            if "lock on file" in message:
                message = "the file is in use by another process, and DuckDB allows one at a time"
            raise StorageError(f"DuckDB at {self.address}: {message}") from None

    def _ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self.check_open()
        with self._errors():
            try:
                cursor = self._idle.pop()
            except IndexError:
                cursor = self._connection.cursor()
            rows = list(cursor.execute(statement, list(values)).fetchall())
        if self.closed:
            cursor.close()
        else:
            self._idle.append(cursor)  # only if no error occurred
        return rows

    def _stream(self, statement: str) -> Iterator[tuple[Any, ...]]:
        self.check_open()
        with self._errors(), self._connection.cursor() as cursor:
            cursor.execute(f"{statement} ORDER BY number")
            while rows := cursor.fetchmany(_BATCH):
                yield from rows

    def _transaction(self, change: Callable[[Any], None]) -> None:
        with self._writing, self._errors():
            self.check_open()
            with self._connection.cursor() as cursor:
                cursor.execute("BEGIN TRANSACTION")
                try:
                    change(cursor)
                    cursor.execute("COMMIT")
                except BaseException:
                    with suppress(self._duckdb.Error):
                        cursor.execute("ROLLBACK")
                    raise

    def _exists(self, name: str) -> str:
        return f"SELECT count(*) > 0 FROM duckdb_tables() WHERE table_name = '{name}' AND {_STORED}"

    def _create_tables(self, cursor: Any) -> None:
        for table, columns in self._columns().items():
            cursor.execute(f"CREATE TABLE {table} ({columns})")

    def _columns(self) -> dict[str, str]:
        columns = ["number BIGINT NOT NULL", "id VARCHAR NOT NULL", "metadata VARCHAR"]
        for column in range(len(self.modalities)):
            columns.append(f"state{column} UTINYINT NOT NULL")
            columns += [f"{word} UBIGINT" for word in self._code_columns(column)]
        typed = ", ".join(f"{name} {sql}" for name, (_, sql) in _VALUE_COLUMNS.items())
        values = f"number BIGINT NOT NULL, name VARCHAR NOT NULL, {typed}"
        return {self._about: _ABOUT, self._table: ", ".join(columns), self._values: values}

    def _check_stored(self, tables: Sequence[str]) -> None:
        columns = self._columns()
        query = "SELECT table_name, sql FROM duckdb_tables() WHERE "
        with self._errors(), self._connection.cursor() as cursor:
            stored = dict(cursor.execute(query + _STORED).fetchall())
            for table in tables:  # reject views, generated columns and constraints
                cursor.execute(f"CREATE OR REPLACE TEMPORARY TABLE dlfh_expected ({columns[table]})")
                ((_, expected),) = cursor.execute(f"{query} temporary AND table_name = 'dlfh_expected'").fetchall()
                cursor.execute("DROP TABLE temp.dlfh_expected")
                name = table.strip('"')
                if stored.get(name, "").partition("(")[2] != expected.partition("(")[2]:
                    raise self._damaged(f"{name} is not a table that dlfh created")

    def _check_functions(self) -> None:
        """Raise `StorageError` if a macro replaces a built-in function, which may be an operator."""
        every = "SELECT function_name FROM system.main.duckdb_functions() WHERE"
        macros = {*self._ask(f"{every} NOT internal")}
        replaced = macros & {*self._ask(f"{every} internal")} if macros else macros
        if replaced:
            raise self._damaged(f"it has a macro with the name of the built-in function {min(replaced)[0]!r}")

    def _code_columns(self, column: int) -> list[str]:
        return [f"code{column}_{word}" for word in range(-(-n_bytes(self.n_bits) // 8))]

    def _code(self, values: Sequence[Any]) -> bytes:
        return np.array(values, "<u8").tobytes()[: n_bytes(self.n_bits)]

    def _insert(self, cursor: Any, rows: list[Row], first: int) -> None:
        numbers = np.arange(first, first + len(rows), dtype=np.int64)
        columns: dict[str, Array] = {
            "number": numbers,
            "id": np.array([row.id for row in rows], object),
            "metadata": np.array([row.metadata or None for row in rows], object),
        }
        expressions = [*columns]
        for column in range(len(self.modalities)):
            names, state = self._code_columns(column), f"state{column}"
            padded = b"".join((row.codes[column] or b"").ljust(8 * len(names), b"\0") for row in rows)
            words = np.frombuffer(padded, "<u8").reshape(len(rows), len(names))
            columns[state] = np.array([row.states[column] for row in rows], np.uint8)
            columns |= {name: np.ascontiguousarray(words[:, word]) for word, name in enumerate(names)}
            # SQL inserts the NULLs, because DuckDB before 2.0 ignores the mask of masked arrays.
            expressions += [state, *(f"CASE WHEN {state} <> {ABSENT} THEN {name} END" for name in names)]
        self._load(cursor, self._table, columns, expressions)
        values = _value_columns(rows, numbers)
        if len(values["number"]):
            self._load(cursor, self._values, values)

    def _load(self, cursor: Any, table: str, columns: dict[str, Array], expressions: Sequence[str] = ()) -> None:
        cursor.register("dlfh_new", columns)
        try:
            cursor.execute(f"INSERT INTO {table} SELECT {', '.join(expressions or columns)} FROM dlfh_new")
        finally:
            cursor.unregister("dlfh_new")

    def _erase(self, cursor: Any, numbers: list[int]) -> None:
        super()._erase(cursor, numbers)
        if numbers:
            cursor.execute(f"DELETE FROM {self._values} WHERE {self._one_of('number')}", [numbers])

    def _one_of(self, column: Literal["id", "number"]) -> str:
        return f"{column} IN (SELECT unnest(?::{'VARCHAR' if column == 'id' else 'BIGINT'}[]))"

    def _distance(self, column: int, code: bytes) -> str:
        names = self._code_columns(column)
        words = np.frombuffer(code.ljust(8 * len(names), b"\0"), "<u8").tolist()
        # bit_count returns an 8-bit integer, which cannot hold a sum above 127.
        cast = "::INTEGER" if len(names) > 1 else ""
        pairs = zip(names, words, strict=True)
        return "(" + " + ".join(f"bit_count(xor({name}, {word}::UBIGINT)){cast}" for name, word in pairs) + ")"

    def _condition(self, condition: Condition, values: list[Any]) -> str:
        values.append(condition.name)
        selected = f"SELECT number FROM {self._values} WHERE name = ?"
        if condition.operator == "none":
            return f"number NOT IN ({selected})"
        if condition.operator == "in":
            tests = []
            for column, (kind, sql) in _VALUE_COLUMNS.items():
                compared = [value for value in condition.values if type(value) is kind]
                if compared:
                    values.append(compared)
                    tests.append(f"{column} IN (SELECT unnest(?::{sql}[]))")
            return f"number IN ({selected} AND ({' OR '.join(tests) or 'FALSE'}))"
        values.append(condition.values[0])
        column = "words" if isinstance(condition.values[0], str) else "amount"
        return f"number IN ({selected} AND {column} {condition.operator} ?)"


def _value_columns(rows: list[Row], numbers: Integers) -> dict[str, Array]:
    found = [
        (number, name, value)
        for number, row in zip(numbers.tolist(), rows, strict=True)
        for name, values in row.fields().items()
        for value in values
    ]
    columns: dict[str, Array] = {
        "number": np.array([number for number, _, _ in found], np.int64),
        "name": np.array([name for _, name, _ in found], object),
    }
    for column, (kind, _) in _VALUE_COLUMNS.items():
        columns[column] = np.array([value if type(value) is kind else None for *_, value in found], object)
    return columns
