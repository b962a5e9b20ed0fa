"""The part that PostgreSQL and DuckDB share: a table of items, and a table with a single row that describes it."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol

import numpy as np

from dlfh._arrays import Integers
from dlfh.errors import InputError
from dlfh.index.backend import Request, check_known
from dlfh.index.engines.address import Address
from dlfh.index.engines.engine import FORMAT, Engine, Match, Row, batches
from dlfh.index.where import Condition, Group, Not, Where

BATCH = 5_000  # number of rows that are read or written at a time


class SqlEngine(Engine, Protocol):
    """Items in a table of an SQL database."""

    _parameter: str  # placeholder for a parameter in a statement
    _table: str
    _about: str
    _tables: tuple[str, ...]

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._table, self._about = f'"{address.name}"', f'"{address.name}_about"'
        self._tables = (self._table, self._about)

    def _create_tables(self, cursor: Any) -> None: ...
    def _ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...
    def _stream(self, statement: str) -> Iterator[tuple[Any, ...]]: ...  # all rows, in order of the first column
    def _transaction(self, change: Callable[[Any], None]) -> None: ...
    def _change(self, change: Callable[[Any], None]) -> None:
        """Run ``change(cursor)`` in a transaction, exactly once even if a connection breaks."""
        self._transaction(change)

    def _check_stored(self, tables: Sequence[str]) -> None: ...  # rejects views, for example
    def _insert(self, cursor: Any, rows: list[Row], first: int) -> None: ...  # numbered from first
    def _code_columns(self, column: int) -> list[str]: ...
    def _code(self, values: Sequence[Any]) -> bytes: ...  # from the values of the code columns

    # SQL for the existence of a table, membership in an array parameter, a Hamming distance, and a filter condition,
    # whose parameters are appended to `values`.

    def _exists(self, name: str) -> str: ...
    def _one_of(self, column: Literal["id", "number"]) -> str: ...
    def _distance(self, column: int, code: bytes) -> str: ...
    def _condition(self, condition: Condition, values: list[Any]) -> str: ...

    def _create(self) -> None:
        about = [FORMAT, secrets.token_hex(16), 0, 0, self.n_bits, json.dumps(self.modalities)]

        def change(cursor: Any) -> None:
            has, has_about = (cursor.execute(self._exists(self._name + end)).fetchone()[0] for end in ("", "_about"))
            if has:
                # An earlier attempt created the table if the connection broke after it.
                if has_about and cursor.execute(f"SELECT identity FROM {self._about}").fetchone() == (about[1],):
                    return
                raise InputError(f"table {self._name!r} already exists in {self.address}: choose another name")
            self._create_tables(cursor)
            parameters = ", ".join([self._parameter] * len(about))
            names = "format, identity, state, next, bits, modalities"
            cursor.execute(f"INSERT INTO {self._about} ({names}) VALUES ({parameters})", about)

        self._transaction(change)

    def _read_about(self) -> tuple[Any, Any, Any] | None:
        if not self._ask(self._exists(f"{self._name}_about"))[0][0]:
            return None
        self._check_stored([self._about])
        version, n_bits, modalities = self._describe("format, bits, modalities")
        try:
            return version, n_bits, json.loads(modalities)
        except (TypeError, ValueError, RecursionError):
            raise self._damaged("its modalities cannot be read") from None

    def _check_tables(self) -> None:
        self._check_stored(self._tables)

    def _describe(self, columns: str) -> tuple[Any, ...]:
        rows = self._ask(f"SELECT {columns} FROM {self._about}")
        if len(rows) != 1:
            raise self._damaged(f"its description has {len(rows)} rows")
        return rows[0]

    def drop(self) -> None:
        def change(cursor: Any) -> None:
            for table in self._tables:
                cursor.execute(f"DROP TABLE IF EXISTS {table}")

        self._transaction(change)
        self.close()

    @property
    def identity(self) -> str:
        return str(self._describe("identity")[0])

    @property
    def state(self) -> str:
        identity, state = self._describe("identity, state")
        return f"{identity}-{state}"

    def _write(self, rows: list[Row], *, replace: bool) -> None:
        names = [row.id for row in rows]

        def change(cursor: Any) -> None:
            first = self._claim(cursor, len(rows))
            known = self._numbers(names, cursor)
            if not replace:
                check_known(names, [name in known for name in names], expected=False)
            self._erase(cursor, [*known.values()])
            self._insert(cursor, rows, first)

        self._change(change)

    def _delete(self, ids: list[str]) -> None:
        def change(cursor: Any) -> None:
            self._claim(cursor, 0)
            known = self._numbers(ids, cursor)
            check_known(ids, [name in known for name in ids])
            self._erase(cursor, [*known.values()])

        self._change(change)

    def _claim(self, cursor: Any, n_new: int) -> int:
        """Lock out other writers until the transaction ends, and return the number of the first new item."""
        statement = f"UPDATE {self._about} SET state = state + 1, next = next + {n_new:d} RETURNING next - {n_new:d}"
        row = cursor.execute(statement).fetchone()
        if row is None or row[0] is None:
            raise self._damaged("its description is missing")
        return int(row[0])

    def _erase(self, cursor: Any, numbers: list[int]) -> None:
        if numbers:
            cursor.execute(f"DELETE FROM {self._table} WHERE {self._one_of('number')}", [numbers])

    def _numbers(self, ids: list[str], cursor: Any = None) -> dict[str, int]:
        """Return the numbers of existing ids, as seen inside a transaction if its cursor is given."""
        query = f"SELECT id, number FROM {self._table} WHERE {self._one_of('id')}"
        rows = self._ask(query, [ids]) if cursor is None else cursor.execute(query, [ids]).fetchall()
        return {str(name): int(number) for name, number in rows}

    def _nearest(self, request: Request, code: bytes, limit: int | None, radius: int | None) -> list[Match]:
        conditions, values = self._conditions(request)
        distance = self._distance(request.column, code)
        if radius is not None:
            conditions += f" AND {distance} <= {radius:d}"
        statement = f"SELECT number, id, {distance} AS distance, state{request.column} FROM {self._table}"
        statement += f" WHERE {conditions} ORDER BY distance, number" + ("" if limit is None else f" LIMIT {limit:d}")
        rows = self._ask(statement, values)
        if any(None in row for row in rows):
            raise self._damaged("an item has no number, id or state")
        return [Match(number, name, int(distance), state) for number, name, distance, state in rows]

    def _conditions(self, request: Request) -> tuple[str, list[Any]]:
        """Return the SQL condition for items that a request may return, and its parameters."""
        conditions, values = [f"{self._code_columns(request.column)[0]} IS NOT NULL"], list[Any]()
        if request.positions is not None:
            conditions.append(self._one_of("number"))
            values.append(request.positions.tolist())
        if request.where is not None:
            conditions.append(self._filter(request.where, values))
        return " AND ".join(conditions), values

    def _filter(self, where: Where, values: list[Any]) -> str:
        """Return a filter as an expression, and append its parameters to ``values``."""
        match where:
            case Not(part):
                return f"NOT ({self._filter(part, values)})"
            case Group(parts, every):
                operator, empty = (" AND ", "TRUE") if every else (" OR ", "FALSE")
                return f"({operator.join(self._filter(part, values) for part in parts) or empty})"
        return self._condition(where, values)

    def _matching(self, numbers: list[int], where: Where) -> set[int]:
        values: list[Any] = [numbers]
        condition = self._filter(where, values)
        statement = f"SELECT number FROM {self._table} WHERE {self._one_of('number')} AND {condition}"
        return {number for (number,) in self._ask(statement, values)}

    def _read(self, numbers: list[int] | None) -> Iterator[Row]:
        n = len(self.modalities)
        columns = [f"state{column}" for column in range(n)]
        columns += [name for column in range(n) for name in self._code_columns(column)]
        statement = f"SELECT number, id, metadata::text, {', '.join(columns)} FROM {self._table}"
        if numbers is None:
            yield from map(self._row, self._stream(statement))
            return
        for batch in batches(numbers, BATCH):
            yield from map(self._row, self._ask(f"{statement} WHERE {self._one_of('number')}", [list(batch)]))

    def _row(self, values: tuple[Any, ...]) -> Row:
        number, name, metadata, *rest = values
        n, width = len(self.modalities), len(self._code_columns(0))
        codes = [rest[n + width * column : n + width * (column + 1)] for column in range(n)]
        packed = tuple(None if None in code else self._code(code) for code in codes)
        return Row(name, metadata or "", tuple(rest[:n]), packed, number)

    def positions(self) -> Integers:
        return np.array(self._ask(f"SELECT number FROM {self._table} ORDER BY number"), np.int64).ravel()

    def count(self, column: int | None, states: tuple[int, ...]) -> int:
        condition = "" if column is None else f" WHERE state{column} IN ({', '.join(map(str, states))})"
        return int(self._ask(f"SELECT count(*) FROM {self._table}{condition}")[0][0])
