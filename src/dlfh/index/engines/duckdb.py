"""Items in DuckDB: a file, or memory, for those who have tables and no server.

A table has the items, with their codes as 64-bit words, which a scan compares by ``bit_count(xor(...))``; a second has
the values that items are filtered by, one a row. Both are plain tables, to be joined with others.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from dlfh._optional import require
from dlfh.codes import n_bytes
from dlfh.errors import InputError, StorageError
from dlfh.index.backend import Mode
from dlfh.index.engines.address import Address
from dlfh.index.engines.engine import Match, Row, check_names
from dlfh.index.engines.sql import SqlEngine, joined
from dlfh.index.where import Condition, Value, Where

__all__ = ["DuckEngine"]

_FORMAT = 1
#: Items that are read at a time.
_BATCH = 10_000


class DuckEngine(SqlEngine):
    """Items in a DuckDB database."""

    def __init__(self, connection: Any, address: Address) -> None:
        self._connection: Any = connection
        self._idle: list[Any] = []  # cursors that nobody uses: a new one reads the catalogue anew
        self._writing = threading.RLock()
        self._table, self._values, self._about = (f'"{address.name}{end}"' for end in ("", "_values", "_about"))
        self.address = address.shown

    @classmethod
    def create(cls, address: Address, n_bits: int, modalities: tuple[str, ...]) -> Self:
        """Make an empty index, where there is none of this name."""
        index = cls(_connect(address), address)
        try:
            index._set_schema(n_bits, modalities)
            index._make(address.name)
        except BaseException:
            index.close()
            raise
        return index

    def _make(self, name: str) -> None:
        columns = ["number BIGINT NOT NULL", "id VARCHAR NOT NULL", "metadata VARCHAR"]
        for column in range(len(self.modalities)):
            columns.append(f"state{column} UTINYINT NOT NULL")
            columns += [f"{word} UBIGINT" for word in self._words(column)]
        with self._transaction() as cursor:
            if cursor.execute("SELECT 1 FROM duckdb_tables() WHERE table_name = ?", [name]).fetchone():
                raise InputError(
                    f"there is a table {name!r} in {self.address} already, which stays: choose another name"
                )
            cursor.execute(f"CREATE TABLE {self._table} ({', '.join(columns)})")
            typed = "amount DOUBLE, words VARCHAR, truth BOOLEAN"
            cursor.execute(f"CREATE TABLE {self._values} (number BIGINT NOT NULL, name VARCHAR NOT NULL, {typed})")
            cursor.execute(
                f"CREATE TABLE {self._about} (format INTEGER, identity VARCHAR, state BIGINT, next BIGINT, "
                "bits INTEGER, modalities VARCHAR)"
            )
            about = [_FORMAT, secrets.token_hex(16), 0, 0, self.n_bits, json.dumps(self.modalities)]
            cursor.execute(f"INSERT INTO {self._about} VALUES (?, ?, ?, ?, ?, ?)", about)

    @classmethod
    def open(cls, address: Address) -> Self:
        """Open an index that is there."""
        index = cls(_connect(address), address)
        try:
            about = index._ask(f"SELECT format, bits, modalities FROM {index._about}")
            if not about or about[0][0] != _FORMAT:
                raise StorageError(f"{index.address} has another format than this dlfh reads, which is {_FORMAT}")
            index._set_schema(about[0][1], json.loads(about[0][2]))
        except BaseException as error:
            index.close()
            if isinstance(error, require("duckdb", "DuckDB", "duckdb").CatalogException):
                raise StorageError(f"there is no index at {index.address}") from None
            raise
        return index

    def close(self) -> None:
        with self._writing:
            while self._idle:
                self._idle.pop().close()
            if self._connection is not None:
                self._connection.close()
            self._connection = None

    def drop(self) -> None:
        with self._transaction() as cursor:
            for table in (self._table, self._values, self._about):
                cursor.execute(f"DROP TABLE IF EXISTS {table}")
        self.close()

    @property
    def closed(self) -> bool:
        return self._connection is None

    # Writing

    def _write(self, rows: list[Row], mode: Mode) -> None:
        with self._transaction() as cursor:
            names = [row.id for row in rows]
            known = self._known(cursor, names)
            check_names(names, known, mode)
            self._erase(cursor, [*known.values()])
            ((first,),) = cursor.execute(f"SELECT next FROM {self._about}").fetchall()
            numbers = np.arange(first, first + len(rows), dtype=np.int64)
            self._insert(cursor, self._table, self._columns(rows, numbers))
            values = _value_columns(rows, numbers)
            if len(values["number"]):
                self._insert(cursor, self._values, values)
            cursor.execute(f"UPDATE {self._about} SET state = state + 1, next = ?", [first + len(rows)])

    def _delete(self, ids: list[str]) -> None:
        with self._transaction() as cursor:
            known = self._known(cursor, ids)
            check_names(ids, known, "update")
            self._erase(cursor, [*known.values()])
            cursor.execute(f"UPDATE {self._about} SET state = state + 1")

    def _erase(self, cursor: Any, numbers: list[int]) -> None:
        for table in (self._table, self._values) if numbers else ():
            cursor.execute(f"DELETE FROM {table} WHERE number IN (SELECT unnest(?::BIGINT[]))", [numbers])

    def _insert(self, cursor: Any, table: str, columns: dict[str, npt.NDArray[Any]]) -> None:
        cursor.register("dlfh_new", columns)
        try:
            cursor.execute(f"INSERT INTO {table} SELECT {', '.join(columns)} FROM dlfh_new")
        finally:
            cursor.unregister("dlfh_new")

    def _columns(self, rows: list[Row], numbers: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
        columns: dict[str, npt.NDArray[Any]] = {
            "number": numbers,
            "id": np.array([row.id for row in rows], object),
            "metadata": np.array([row.metadata or None for row in rows], object),
        }
        n_words = len(self._words(0))
        for column in range(len(self.modalities)):
            columns[f"state{column}"] = np.array([row.states[column] for row in rows], np.uint8)
            codes = [row.codes[column] for row in rows]
            absent = np.array([code is None for code in codes])
            padded = b"".join((code or b"").ljust(8 * n_words, b"\0") for code in codes)
            words = np.frombuffer(padded, "<u8").reshape(len(rows), n_words)
            for place, name in enumerate(self._words(column)):
                columns[name] = np.ma.array(words[:, place], mask=absent)
        return columns

    def _words(self, column: int) -> list[str]:
        return [f"code{column}_{word}" for word in range(-(-n_bytes(self.n_bits) // 8))]

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        """Do all of some changes, or none."""
        with self._writing:
            self._check_open()
            cursor = self._connection.cursor()
            cursor.execute("BEGIN TRANSACTION")
            try:
                yield cursor
                cursor.execute("COMMIT")
            except BaseException as error:
                _forget(cursor)
                raise self._said(error) from None
            finally:
                cursor.close()

    def _said(self, error: BaseException) -> BaseException:
        """Return an error of DuckDB as one sentence; others as they are."""
        if not isinstance(error, require("duckdb", "DuckDB", "duckdb").Error):
            return error
        return StorageError(f"DuckDB cannot do this in {self.address}: {str(error).splitlines()[0]}")

    # Asking

    def _ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        self._check_open()
        try:
            cursor = self._idle.pop()
        except IndexError:
            cursor = self._connection.cursor()
        rows = cursor.execute(statement, list(values)).fetchall()
        if self.closed:
            cursor.close()
        else:
            self._idle.append(cursor)  # one that failed is not kept
        return list(rows)

    def _nearest(
        self,
        column: int,
        code: bytes,
        limit: int | None,
        radius: int | None,
        numbers: list[int] | None,
        where: Where | None,
    ) -> list[Match]:
        names = self._words(column)
        words = np.frombuffer(code.ljust(8 * len(names), b"\0"), "<u8").tolist()
        # (A word's count is of 8 bits, which hold no more than 127 of a sum.)
        distance = " + ".join(
            f"bit_count(xor({name}, {word}::UBIGINT))" + ("::INTEGER" if len(names) > 1 else "")
            for name, word in zip(names, words, strict=True)
        )
        conditions, values = [f"{names[0]} IS NOT NULL"], list[Any]()
        if numbers is not None:
            conditions.append("number IN (SELECT unnest(?::BIGINT[]))")
            values.append(numbers)
        if where is not None:
            conditions.append(_as_sql(where, self._values, values))
        statement = f"SELECT number, id, {distance} AS apart, state{column} FROM {self._table}"
        statement += f" WHERE {' AND '.join(conditions)}"
        if radius is not None:
            statement += f" AND apart <= {radius:d}"
        statement += " ORDER BY apart, number" + ("" if limit is None else f" LIMIT {limit:d}")
        return [Match(*row) for row in self._ask(statement, values)]

    def _matching(self, numbers: list[int], where: Where) -> set[int]:
        values: list[Any] = [numbers]
        condition = _as_sql(where, self._values, values)
        statement = f"SELECT number FROM {self._table} WHERE number IN (SELECT unnest(?::BIGINT[])) AND {condition}"
        return {number for (number,) in self._ask(statement, values)}

    def _read(self, numbers: list[int] | None) -> Iterator[Row]:
        codes = [name for column in range(len(self.modalities)) for name in self._words(column)]
        states = [f"state{column}" for column in range(len(self.modalities))]
        statement = f"SELECT number, id, metadata, {', '.join(states + codes)} FROM {self._table}"
        if numbers is not None:
            rows = self._ask(f"{statement} WHERE number IN (SELECT unnest(?::BIGINT[]))", [numbers])
            yield from map(self._row, rows)
            return
        self._check_open()
        with self._connection.cursor() as cursor:
            cursor.execute(f"{statement} ORDER BY number")
            while rows := cursor.fetchmany(_BATCH):
                yield from map(self._row, rows)

    def _row(self, row: tuple[Any, ...]) -> Row:
        n, width, n_words = len(self.modalities), n_bytes(self.n_bits), len(self._words(0))
        words = row[3 + n :]
        codes = [words[n_words * column : n_words * (column + 1)] for column in range(n)]
        packed = (None if own[0] is None else np.array(own, "<u8").tobytes()[:width] for own in codes)
        return Row(row[1], row[2] or "", row[3 : 3 + n], tuple(packed), row[0])

    def _numbers(self, ids: list[str]) -> dict[str, int]:
        with self._connection.cursor() as cursor:
            return self._known(cursor, ids)

    def _known(self, cursor: Any, ids: list[str]) -> dict[str, int]:
        """Return the numbers of ids, as they are in the middle of a change too."""
        statement = f"SELECT id, number FROM {self._table} WHERE id IN (SELECT unnest(?::VARCHAR[]))"
        return dict(cursor.execute(statement, [ids]).fetchall())


def _connect(address: Address) -> Any:
    duckdb = require("duckdb", "this address", "duckdb")
    try:
        return duckdb.connect(address.place or ":memory:")
    except duckdb.Error as error:
        if "lock" in str(error).lower():
            raise StorageError(f"{address.shown} is in use by another process: DuckDB has one at a time") from None
        raise StorageError(f"DuckDB cannot open {address.shown}: {str(error).splitlines()[0]}") from None


def _forget(cursor: Any) -> None:
    try:
        cursor.execute("ROLLBACK")
    except Exception:  # the error that led here says more
        return


def _value_columns(rows: list[Row], numbers: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
    found = [
        (number, name, value)
        for number, row in zip(numbers.tolist(), rows, strict=True)
        for name, values in row.fields().items()
        for value in values
    ]
    values = [value for _, _, value in found]
    typed = {"amount": float, "words": str, "truth": bool}
    columns: dict[str, npt.NDArray[Any]] = {
        "number": np.array([number for number, _, _ in found], np.int64),
        "name": np.array([name for _, name, _ in found], object),
    }
    for column, kind in typed.items():
        columns[column] = np.array([value if type(value) is kind else None for value in values], object)
    return columns


def _as_sql(where: Where, table: str, values: list[Any]) -> str:
    """Return a filter as a condition on the numbers of items; what it compares with is added to ``values``."""

    def condition(own: Condition) -> str:
        values.append(own.name)
        inside = f"SELECT number FROM {table} WHERE name = ?"
        if own.operator == "none":
            return f"number NOT IN ({inside})"
        if own.operator == "in":
            return f"number IN ({inside} AND ({_is_one_of(own.values, values)}))"
        values.append(own.values[0])
        column = "words" if isinstance(own.values[0], str) else "amount"
        return f"number IN ({inside} AND {column} {own.operator} ?)"

    return joined(where, condition)


def _is_one_of(wanted: tuple[Value, ...], values: list[Any]) -> str:
    parts = []
    for kind, column, sql in ((float, "amount", "DOUBLE"), (str, "words", "VARCHAR"), (bool, "truth", "BOOLEAN")):
        own = [value for value in wanted if type(value) is kind]
        if own:
            values.append(own)
            parts.append(f"{column} IN (SELECT unnest(?::{sql}[]))")
    return " OR ".join(parts) or "FALSE"
