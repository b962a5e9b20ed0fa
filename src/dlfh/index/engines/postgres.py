"""Items in PostgreSQL with pgvector: one table of items, whose codes are ``bit(n)``, and one row about it.

A search scans the table by ``<~>``, which is exact and takes as many processors as PostgreSQL gives it. An index of
pgvector (`approximate`) makes it faster, and says how much it misses. Writers wait for each other at the row about the
table, so that changes come one after the other; readers wait for nobody.

A connection that breaks is made anew, and what was asked is asked again. Each change leaves its name in the row about
the table, and is repeated only if that is not there: nothing is lost, and nothing is done twice.
"""

from __future__ import annotations

import json
import math
import secrets
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dlfh._validation import check_choice
from dlfh.codes import n_bytes
from dlfh.errors import InputError, StorageError
from dlfh.index.backend import ApproximateIndex, Mode, check_options
from dlfh.index.engines.address import Address
from dlfh.index.engines.connections import Connections
from dlfh.index.engines.engine import Match, Row, batches, check_names, hits_of
from dlfh.index.engines.sql import SqlEngine, joined
from dlfh.index.hits import Hits
from dlfh.index.segment import HASHED, LEARNED
from dlfh.index.where import Condition, Value, Where

__all__ = ["PostgresEngine"]

_FORMAT = 1
#: Longer ids do not fit into an index of PostgreSQL.
_MOST_ID_BYTES = 2_000
#: Items that are read, or written, at a time.
_BATCH = 5_000
#: How many changes are remembered by their names.
_NAMED_CHANGES = 64


class PostgresEngine(SqlEngine):
    """Items in a database of PostgreSQL."""

    def __init__(self, address: Address) -> None:
        self._connections = Connections(address)
        self._name = address.name
        self._table, self._about = f'"{address.name}"', f'"{address.name}_about"'
        self.address = address.shown

    # Making and opening

    @classmethod
    def create(cls, address: Address, n_bits: int, modalities: tuple[str, ...]) -> Self:
        """Make an empty index, where there is no table of this name."""
        index = cls(address)
        index._set_schema(n_bits, modalities)
        with index._closed_if_it_fails():
            index._connections.try_one()
            identity = secrets.token_hex(16)
            index._connections.change(lambda connection: index._make(connection, identity))
        return index

    def _make(self, connection: Any, identity: str) -> None:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        if connection.execute("SELECT to_regclass(%s)", [self._table]).fetchone()[0] is not None:
            if self._is_there(connection, identity):  # made before the connection broke
                return
            raise InputError(f"there is a table {self._name!r} in {self.address} already, which stays")
        columns = ['id text COLLATE "C" NOT NULL UNIQUE', "metadata json", "fields jsonb NOT NULL"]
        for column in range(len(self.modalities)):
            columns += [f"state{column} smallint NOT NULL", f"code{column} bit({self.n_bits})"]
        connection.execute(f"CREATE TABLE {self._table} (number bigint PRIMARY KEY, {', '.join(columns)})")
        connection.execute(
            f"CREATE TABLE {self._about} (format integer, identity text, state bigint, next bigint, bits integer, "
            "modalities json, changes text[])"
        )
        about: list[Any] = [_FORMAT, identity, 0, 0, self.n_bits, json.dumps(self.modalities), []]
        connection.execute(f"INSERT INTO {self._about} VALUES (%s, %s, %s, %s, %s, %s, %s)", about)

    def _is_there(self, connection: Any, identity: str) -> bool:
        if connection.execute("SELECT to_regclass(%s)", [self._about]).fetchone()[0] is None:
            return False
        return connection.execute(f"SELECT identity FROM {self._about}").fetchone() == (identity,)

    @classmethod
    def open(cls, address: Address) -> Self:
        """Open an index that is there; one of an older format is brought to this one."""
        index = cls(address)
        with index._closed_if_it_fails():
            index._connections.try_one()
            if index._ask("SELECT to_regclass(%s)", [index._about])[0][0] is None:
                raise StorageError(f"there is no index at {index.address}")
            index._migrate()
            bits, modalities = index._ask(f"SELECT bits, modalities FROM {index._about}")[0]
            index._set_schema(bits, modalities)
        return index

    def _migrate(self) -> None:
        ((found,),) = self._ask(f"SELECT format FROM {self._about}")
        if found > _FORMAT or found < 0:
            raise StorageError(f"{self.address} has format {found}, and this dlfh reads up to {_FORMAT}")
        for step in range(found, _FORMAT):
            self._connections.change(partial(self._step, step))

    def _step(self, step: int, connection: Any) -> None:
        if connection.execute(f"SELECT format FROM {self._about} FOR UPDATE").fetchone() == (step,):
            _MIGRATIONS[step](self)(connection)

    @contextmanager
    def _closed_if_it_fails(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._connections.close()

    def drop(self) -> None:
        self._connections.change(
            lambda connection: connection.execute(f"DROP TABLE IF EXISTS {self._table}, {self._about}")
        )
        self.close()

    @property
    def closed(self) -> bool:
        return self._connections.closed

    def _ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connections.ask(lambda connection: connection.execute(statement, values).fetchall())

    def _change_once(self, change: Callable[[Any], None]) -> None:
        """Make a change once, whole or not at all, also if the connection breaks at any moment.

        The row about the table has the names of the last changes, written with them: one that may have been made before
        the connection broke is found there, or it was not made. Who looks waits for those that are not done.
        """
        name = secrets.token_hex(8)

        def attempt(connection: Any) -> None:
            look = f"SELECT %s = ANY(changes) FROM {self._about} FOR UPDATE"
            if not connection.execute(look, [name]).fetchone()[0]:
                change(connection)
                note = f"UPDATE {self._about} SET changes = (%s || changes)[:{_NAMED_CHANGES}]"
                connection.execute(note, [[name]])

        self._connections.change(attempt)

    # Writing

    def _write(self, rows: list[Row], mode: Mode) -> None:
        for row in rows:
            self._check(row)
        names = [row.id for row in rows]

        def change(connection: Any) -> None:
            first = self._claim(connection, len(rows))
            if mode != "put":
                check_names(names, self._known(connection, names), mode)
            if mode != "add":
                connection.execute(f"DELETE FROM {self._table} WHERE id = ANY(%s)", [names])
            self._load(connection, rows, first)

        self._change_once(change)

    def _check(self, row: Row) -> None:
        if "\0" in row.id:
            raise InputError(f"PostgreSQL cannot hold a NUL, and the id {row.id!r} has one")
        if len(row.id.encode()) > _MOST_ID_BYTES:
            raise InputError(f"an id in PostgreSQL has at most {_MOST_ID_BYTES:,} bytes, got {row.id[:50]!r}…")

    def _claim(self, connection: Any, n_new: int) -> int:
        """Be the only writer until the transaction ends, and return the number of the first new item."""
        statement = f"UPDATE {self._about} SET state = state + 1, next = next + %s RETURNING next - %s"
        return int(connection.execute(statement, [n_new, n_new]).fetchone()[0])

    def _load(self, connection: Any, rows: list[Row], first: int) -> None:
        columns = [part for c in range(len(self.modalities)) for part in (f"state{c}", f"code{c}")]
        names = ", ".join(["number", "id", "metadata", "fields", *columns])
        with connection.cursor().copy(f"COPY {self._table} ({names}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0))
            for start in range(0, len(rows), _BATCH):
                block = rows[start : start + _BATCH]
                copy.write(b"".join(self._binary(row, first + start + place) for place, row in enumerate(block)))
            copy.write(struct.pack(">h", -1))

    def _binary(self, row: Row, number: int) -> bytes:
        """Return a row as COPY takes it: how many values, and of each its length and its bytes."""
        fields = json.dumps(row.fields(), ensure_ascii=False, separators=(",", ":")).encode()
        parts = [
            struct.pack(">hiq", 4 + 2 * len(row.states), 8, number),
            _sized(row.id.encode()),
            _sized(row.metadata.encode()) if row.metadata else _NULL,
            _sized(b"\x01" + fields),
        ]
        for state, code in zip(row.states, row.codes, strict=True):
            parts.append(struct.pack(">ih", 2, state))
            parts.append(_NULL if code is None else _sized(struct.pack(">i", self.n_bits) + code))
        return b"".join(parts)

    def _delete(self, ids: list[str]) -> None:
        def change(connection: Any) -> None:
            self._claim(connection, 0)
            known = self._known(connection, ids)
            check_names(ids, known, "update")
            connection.execute(f"DELETE FROM {self._table} WHERE number = ANY(%s)", [[*known.values()]])

        self._change_once(change)

    # Asking

    def _nearest(
        self,
        column: int,
        code: bytes,
        limit: int | None,
        radius: int | None,
        numbers: list[int] | None,
        where: Where | None,
    ) -> list[Match]:
        statement, values = self._within(column, numbers, where)
        bits = _bits(code, self.n_bits)
        # The function instead of the operator <~>, which an approximate index of pgvector would answer.
        apart = f"hamming_distance(code{column}, B'{bits}')"
        if radius is not None:
            statement += f" AND {apart} <= {radius:d}"
        tail = "" if limit is None else f" LIMIT {limit:d}"
        statement = f"SELECT number, id, {apart} AS apart, state{column} {statement} ORDER BY apart, number{tail}"
        # (What pgvector returns is a float: made whole here, for those that are found alone.)
        return [Match(number, name, int(own), state) for number, name, own, state in self._ask(statement, values)]

    def _within(self, column: int, numbers: list[int] | None, where: Where | None) -> tuple[str, list[Any]]:
        """Return where to search, as SQL, and its values."""
        conditions, values = [f"code{column} IS NOT NULL"], list[Any]()
        if numbers is not None:
            conditions.append("number = ANY(%s)")
            values.append(numbers)
        if where is not None:
            conditions.append(_as_sql(where, values))
        return f"FROM {self._table} WHERE {' AND '.join(conditions)}", values

    def _matching(self, numbers: list[int], where: Where) -> set[int]:
        values: list[Any] = [numbers]
        statement = f"SELECT number FROM {self._table} WHERE number = ANY(%s) AND {_as_sql(where, values)}"
        return {number for (number,) in self._ask(statement, values)}

    def _read(self, numbers: list[int] | None) -> Iterator[Row]:
        columns = [part for c in range(len(self.modalities)) for part in (f"state{c}", f"code{c}")]
        statement = f"SELECT number, id, metadata::text, {', '.join(columns)} FROM {self._table}"
        if numbers is not None:
            for some in batches(numbers, _BATCH):
                yield from map(self._row, self._ask(f"{statement} WHERE number = ANY(%s)", [list(some)]))
            return
        last = -1
        while True:  # by number, so that a connection that breaks costs one block
            rows = self._ask(f"{statement} WHERE number > %s ORDER BY number LIMIT {_BATCH}", [last])
            yield from map(self._row, rows)
            if len(rows) < _BATCH:
                return
            last = rows[-1][0]

    def _row(self, row: tuple[Any, ...]) -> Row:
        states, bits = row[3::2], row[4::2]
        codes = tuple(None if own is None else _packed(own) for own in bits)
        return Row(row[1], row[2] or "", tuple(states), codes, row[0])

    def _numbers(self, ids: list[str]) -> dict[str, int]:
        names = [name for name in ids if "\0" not in name]
        return self._connections.ask(lambda connection: self._known(connection, names))

    def _known(self, connection: Any, ids: list[str]) -> dict[str, int]:
        return dict(connection.execute(f"SELECT id, number FROM {self._table} WHERE id = ANY(%s)", [ids]).fetchall())

    def approximate(self, column: int, kind: str, options: dict[str, int], n_jobs: int | None) -> ApproximateIndex:
        return PgvectorIndex(self, column, kind, options)


class PgvectorIndex:
    """An approximate index of pgvector over a code column. Implements `ApproximateIndex`."""

    def __init__(self, engine: PostgresEngine, column: int, kind: str, options: dict[str, int]) -> None:
        check_choice(kind, "kind", tuple(_KINDS))
        self._engine, self._column = engine, column
        count, found = engine._count(column, (LEARNED, HASHED)), _KINDS[kind]
        self.options = check_options(kind, options, found.defaults(count))
        name = f'"{engine._name}_near{column}"'
        built = ", ".join(f"{parameter} = {self.options[option]:d}" for option, parameter in found.build.items())

        def build(connection: Any) -> None:
            # The centroids and a sample of a million items exceed PostgreSQL's default of 64 MB.
            connection.execute("SET LOCAL maintenance_work_mem = '1GB'")
            connection.execute(f"DROP INDEX IF EXISTS {name}")
            connection.execute(
                f"CREATE INDEX {name} ON {engine._table} USING {found.method} (code{column} bit_hamming_ops) "
                f"WITH ({built})"
            )

        engine._connections.change(build)
        option, setting = found.search
        self._settings = (f"{setting} = {self.options[option]:d}", "hnsw.iterative_scan = strict_order")

    def __len__(self) -> int:
        return self._engine._count(self._column, (LEARNED, HASHED))

    def sample(self, n: int, rng: np.random.Generator) -> npt.NDArray[np.uint8]:
        code = f"code{self._column}"
        statement = f"SELECT {code} FROM {self._engine._table} WHERE {code} IS NOT NULL ORDER BY random() LIMIT {n:d}"
        packed = [_packed(bits) for (bits,) in self._engine._ask(statement)]
        return np.frombuffer(b"".join(packed), np.uint8).reshape(len(packed), n_bytes(self._engine.n_bits))

    def search(self, codes: npt.NDArray[np.uint8], k: int, where: Where | None, n_jobs: int | None) -> Hits:
        return hits_of([self._search(code.tobytes(), k, where) for code in codes])

    def _search(self, code: bytes, k: int, where: Where | None) -> list[Match]:
        statement, values = self._engine._within(self._column, None, where)
        distance = f"code{self._column} <~> B'{_bits(code, self._engine.n_bits)}'"
        statement = f"SELECT number, id, ({distance})::integer, state{self._column} {statement}"

        def ask(connection: Any) -> list[tuple[Any, ...]]:
            with connection.transaction():
                for setting in self._settings:
                    connection.execute(f"SET LOCAL {setting}")
                found = connection.execute(f"{statement} ORDER BY {distance} LIMIT {k:d}", values).fetchall()
                return list(found)

        matches = (Match(*row) for row in self._engine._connections.ask(ask))
        return sorted(matches, key=lambda match: (match.distance, match.number))


class _Kind(NamedTuple):
    """An access method of pgvector: its default options, and its parameters for building and searching."""

    method: str
    defaults: Callable[[int], dict[str, int]]
    build: dict[str, str]
    search: tuple[str, str]


_KINDS = {
    "hnsw": _Kind(
        "hnsw",
        lambda n_items: {"n_links": 16, "build_breadth": 64, "breadth": 100},
        {"n_links": "m", "build_breadth": "ef_construction"},
        ("breadth", "hnsw.ef_search"),
    ),
    "ivf": _Kind(
        "ivfflat",
        lambda n_items: {"n_lists": max(1, math.isqrt(n_items)), "n_probe": max(1, math.isqrt(n_items) // 32)},
        {"n_lists": "lists"},
        ("n_probe", "ivfflat.probes"),
    ),
}

#: How an index of a format becomes one of the next: a change for each.
_MIGRATIONS: dict[int, Callable[[PostgresEngine], Callable[[Any], None]]] = {}

_NULL = struct.pack(">i", -1)


def _sized(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _bits(code: bytes, n_bits: int) -> str:
    return "".join(map("{:08b}".format, code))[:n_bits]


def _packed(bits: str) -> bytes:
    width = -(-len(bits) // 8)
    return int(bits.ljust(8 * width, "0"), 2).to_bytes(width, "big")


def _as_sql(where: Where, values: list[Any]) -> str:
    """Return a filter as SQL: each condition is a path through the values of an item, with what it compares in it."""

    def condition(own: Condition) -> str:
        if own.operator == "none":
            values.append(own.name)
            return "NOT jsonb_exists(fields, %s)"
        sign = "==" if own.operator == "in" else own.operator
        tests = " || ".join(f"@ {sign} {_literal(value)}" for value in own.values)
        if not tests:
            return "FALSE"
        values.append(f"$.{_literal(own.name)}[*] ? ({tests})")
        return "jsonb_path_exists(fields, %s::jsonpath)"

    return joined(where, condition)


def _literal(value: Value) -> str:
    return json.dumps(value)
