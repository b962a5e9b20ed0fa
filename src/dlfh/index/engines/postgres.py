"""Items in PostgreSQL with pgvector, whose codes have the type ``bit(n)``.

Exact search scans the table. `PgvectorIndex` searches approximately. Writers lock the row that describes the table, so
that changes are serial; readers never wait.

After a connection breaks, queries and changes are repeated. Each change records its name in the row that describes the
table, and is repeated only if its name is missing there: a change takes effect exactly once.
"""

from __future__ import annotations

import json
import secrets
import struct
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, TypeVar

import numpy as np

from dlfh._arrays import Codes
from dlfh._imports import require
from dlfh._validation import check_choice
from dlfh.codes import n_bytes
from dlfh.errors import InputError, StorageError
from dlfh.index.backend import ApproximateIndex, Request, check_options, list_defaults
from dlfh.index.engines.address import Address
from dlfh.index.engines.engine import Match, Row, batches, hits_of
from dlfh.index.engines.sql import BATCH, SqlEngine
from dlfh.index.items import Hits
from dlfh.index.segment import HASHED, LEARNED
from dlfh.index.where import Condition, Where

_MAX_ID_BYTES = 2_000  # longer ids do not fit into an index of PostgreSQL
_MAX_NAMES = 64  # number of recent changes whose names are stored
_MAX_IDLE = 4  # maximum number of idle connections
_PAUSE = 0.2  # seconds between attempts to reach a server
_NULL = struct.pack(">i", -1)
Result = TypeVar("Result")


class PostgresEngine(SqlEngine):
    """Items in a PostgreSQL database."""

    _parameter = "%s"
    _patience = 20.0  # seconds to wait for an unavailable server

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._psycopg: Any = require("psycopg", "this address", "postgres")
        self._idle: list[Any] | None = []  # connections, each of which serves one thread at a time
        self._lock = threading.Lock()
        self._run(lambda connection: None, wait=False)

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle or [], None
        for connection in idle:
            connection.close()

    @property
    def closed(self) -> bool:
        return self._idle is None

    def _run(self, query: Callable[[Any], Result], *, wait: bool = True) -> Result:
        """Return ``query(connection)``, and repeat it if the connection breaks."""
        self.check_open()
        deadline = time.monotonic() + (self._patience if wait else 0)
        while True:
            try:
                with self._borrowed_connection() as connection:
                    return query(connection)
            except self._psycopg.Error as error:
                if not self._is_transient(error) or time.monotonic() >= deadline:
                    raise self._storage_error(error) from None
            time.sleep(_PAUSE)

    @contextmanager
    def _borrowed_connection(self) -> Iterator[Any]:
        """Lend an idle connection or a new one; keep it afterwards if it still works."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        # No prepared statements: a pooler in between may switch the server connection.
        options = {"autocommit": True, "prepare_threshold": None, "connect_timeout": 5}
        connection = connection or self._psycopg.connect(self._address.place, **options)
        try:
            yield connection
        finally:
            with self._lock:
                keep = self._idle is not None and len(self._idle) < _MAX_IDLE and not connection.closed
                if keep and connection.info.transaction_status == self._psycopg.pq.TransactionStatus.IDLE:
                    self._idle.append(connection)  # type: ignore[union-attr]
                    connection = None
            if connection is not None:
                connection.close()

    def _is_transient(self, error: Exception) -> bool:
        state = getattr(error, "sqlstate", None) or ""
        if state:  # connection exceptions, shutdown and start-up of the server, serialization failures, deadlocks
            return state.startswith(("08", "57P")) or state in ("40001", "40P01")
        refusals = ("authentication failed", "does not exist", "no pg_hba.conf entry", "no password")
        return isinstance(error, self._psycopg.OperationalError) and not any(text in str(error) for text in refusals)

    def _storage_error(self, error: Exception) -> StorageError:
        """Return an error with the message of the server, or else of the client, without secrets."""
        primary = getattr(getattr(error, "diag", None), "message_primary", None)
        lines = self._address.without_secrets(primary or str(error)).strip().splitlines() or [type(error).__name__]
        return StorageError(f"PostgreSQL at {self.address}: {lines[-1].strip()}")

    def _ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._run(lambda connection: connection.execute(statement, values).fetchall())

    def _stream(self, statement: str) -> Iterator[tuple[Any, ...]]:
        last = -1
        while True:  # in blocks, so that only one is repeated after a connection breaks
            rows = self._ask(f"{statement} WHERE number > {last:d} ORDER BY number LIMIT {BATCH}")
            yield from rows
            if len(rows) < BATCH:
                return
            last = rows[-1][0]

    def _transaction(self, change: Callable[[Any], None]) -> None:
        def attempt(connection: Any) -> None:
            with connection.transaction():
                change(connection)

        self._run(attempt)

    def _change(self, change: Callable[[Any], None]) -> None:
        name = secrets.token_hex(8)

        def attempt(connection: Any) -> None:
            # FOR UPDATE waits until the server has committed or rolled back an earlier attempt.
            query = f"SELECT %s = ANY(changes) FROM {self._about} FOR UPDATE"
            if not connection.execute(query, [name]).fetchone()[0]:
                change(connection)
                record = f"UPDATE {self._about} SET changes = (%s || changes)[:{_MAX_NAMES}]"
                connection.execute(record, [[name]])

        self._transaction(attempt)

    def _exists(self, name: str) -> str:
        return f"""SELECT to_regclass('"{name}"') IS NOT NULL"""

    def _check_stored(self, tables: Sequence[str]) -> None:
        for table in tables:
            kinds = self._ask(f"SELECT relkind::text FROM pg_class WHERE oid = to_regclass('{table}')")
            if kinds not in ([("r",)], [("p",)]):  # only ordinary and partitioned tables: a view runs other code
                name = table.strip('"')
                raise self._damaged(f"{name} is not a table")

    def _create_tables(self, cursor: Any) -> None:
        columns = ["number bigint PRIMARY KEY", 'id text COLLATE "C" NOT NULL UNIQUE']
        columns += ["metadata json", "fields jsonb NOT NULL"]
        for column in range(len(self.modalities)):
            columns += [f"state{column} smallint NOT NULL", f"code{column} bit({self.n_bits})"]
        about = "format integer, identity text, state bigint, next bigint, bits integer, modalities text"
        # Of two sessions that create the extension at the same time, one would fail in spite of IF NOT EXISTS.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('CREATE EXTENSION vector'))")
        cursor.execute("CREATE EXTENSION IF NOT EXISTS vector")
        cursor.execute(f"CREATE TABLE {self._table} ({', '.join(columns)})")
        cursor.execute(f"CREATE TABLE {self._about} ({about}, changes text[] NOT NULL DEFAULT '{{}}')")

    def _code_columns(self, column: int) -> list[str]:
        return [f"code{column}"]

    def _code(self, values: Sequence[Any]) -> bytes:
        return _packed(values[0])

    def _check(self, row: Row) -> None:
        if "\0" in row.id:
            raise InputError(f"an id in PostgreSQL must not contain NUL, got {row.id!r}")
        if len(row.id.encode()) > _MAX_ID_BYTES:
            raise InputError(f"an id in PostgreSQL must have at most {_MAX_ID_BYTES:,} bytes, got {row.id[:50]!r}…")

    def _insert(self, cursor: Any, rows: list[Row], first: int) -> None:
        columns = [name for c in range(len(self.modalities)) for name in (f"state{c}", f"code{c}")]
        names = ", ".join(["number", "id", "metadata", "fields", *columns])
        numbered = [row._replace(number=first + place) for place, row in enumerate(rows)]
        with cursor.cursor().copy(f"COPY {self._table} ({names}) FROM STDIN (FORMAT BINARY)") as copy:
            copy.write(b"PGCOPY\n\xff\r\n\0" + struct.pack(">ii", 0, 0))
            for batch in batches(numbered, BATCH):
                copy.write(b"".join(map(self._binary, batch)))
            copy.write(struct.pack(">h", -1))

    def _binary(self, row: Row) -> bytes:
        """Return a row in the binary format of COPY: the number of values, and each value with its length."""
        fields = json.dumps(row.fields(), ensure_ascii=False, separators=(",", ":")).encode()
        parts = [struct.pack(">hiq", 4 + 2 * len(row.states), 8, row.number), _sized(row.id.encode())]
        parts += [_sized(row.metadata.encode()) if row.metadata else _NULL, _sized(b"\x01" + fields)]
        for state, code in zip(row.states, row.codes, strict=True):
            parts.append(struct.pack(">ih", 2, state))
            parts.append(_NULL if code is None else _sized(struct.pack(">i", self.n_bits) + code))
        return b"".join(parts)

    def _numbers(self, ids: list[str], cursor: Any = None) -> dict[str, int]:
        return super()._numbers([name for name in ids if "\0" not in name], cursor)  # PostgreSQL cannot store NUL

    def _one_of(self, column: Literal["id", "number"]) -> str:
        return f"{column} = ANY(%s)"

    def _distance(self, column: int, code: bytes) -> str:
        # A function instead of the operator <~>, for which the planner would use an approximate index.
        return f"hamming_distance(code{column}, B'{_bits(code, self.n_bits)}')"

    def _condition(self, condition: Condition, values: list[Any]) -> str:
        if condition.operator == "none":
            values.append(condition.name)
            return "NOT jsonb_exists(fields, %s)"
        operator = "==" if condition.operator == "in" else condition.operator
        tests = " || ".join(f"@ {operator} {json.dumps(value)}" for value in condition.values)
        if not tests:
            return "FALSE"
        values.append(f"$.{json.dumps(condition.name)}[*] ? ({tests})")
        return "jsonb_path_exists(fields, %s::jsonpath)"

    def approximate(self, column: int, kind: str, options: dict[str, int], n_jobs: int | None) -> ApproximateIndex:
        return PgvectorIndex(self, column, kind, options)


#: Index types of pgvector, and the parameters for building and searching that their options set.
_KINDS = {
    "hnsw": ("hnsw", {"n_links": "m", "build_breadth": "ef_construction"}, ("breadth", "hnsw.ef_search")),
    "ivf": ("ivfflat", {"n_lists": "lists"}, ("n_probe", "ivfflat.probes")),
}


class PgvectorIndex:
    """An approximate index of pgvector over the codes of a modality. Implements `ApproximateIndex`."""

    def __init__(self, engine: PostgresEngine, column: int, kind: str, options: dict[str, int]) -> None:
        method, build, (option, setting) = _KINDS[check_choice(kind, "kind", tuple(_KINDS))]
        self._engine, self._column = engine, column
        defaults = list_defaults(len(self)) if kind == "ivf" else {"n_links": 16, "build_breadth": 64, "breadth": 100}
        self.options = check_options(kind, options, defaults)
        self._settings = (f"{setting} = {self.options[option]:d}", "hnsw.iterative_scan = strict_order")
        name = f'"{engine._name}_near{column}"'
        parameters = ", ".join(f"{parameter} = {self.options[name]:d}" for name, parameter in build.items())

        def change(connection: Any) -> None:
            # The centroids and a sample of a million items exceed the default of 64 MB.
            connection.execute("SET LOCAL maintenance_work_mem = '1GB'")
            connection.execute(f"DROP INDEX IF EXISTS {name}")
            codes = f"{engine._table} USING {method} (code{column} bit_hamming_ops)"
            connection.execute(f"CREATE INDEX {name} ON {codes} WITH ({parameters})")

        engine._transaction(change)

    def __len__(self) -> int:
        return self._engine.count(self._column, (LEARNED, HASHED))

    def sample(self, n: int, rng: np.random.Generator) -> Codes:
        code = f"code{self._column}"
        order = f"md5(id || '{rng.integers(1 << 31)}') LIMIT {n:d}"
        statement = f"SELECT {code} FROM {self._engine._table} WHERE {code} IS NOT NULL ORDER BY {order}"
        packed = b"".join(_packed(bits) for (bits,) in self._engine._ask(statement))
        return np.frombuffer(packed, np.uint8).reshape(-1, n_bytes(self._engine.n_bits))

    def search(self, codes: Codes, k: int, where: Where | None, n_jobs: int | None) -> Hits:
        request = Request(self._column, codes, where=where)
        return hits_of([self._search(request, code.tobytes(), k) for code in codes])

    def _search(self, request: Request, code: bytes, k: int) -> list[Match]:
        conditions, values = self._engine._conditions(request)
        distance = f"code{self._column} <~> B'{_bits(code, self._engine.n_bits)}'"
        statement = f"SELECT number, id, ({distance})::integer, state{self._column} FROM {self._engine._table}"
        statement += f" WHERE {conditions} ORDER BY {distance} LIMIT {k:d}"

        def ask(connection: Any) -> list[Match]:
            with connection.transaction():
                for setting in self._settings:
                    connection.execute(f"SET LOCAL {setting}")
                return [Match(*row) for row in connection.execute(statement, values).fetchall()]

        return sorted(self._engine._run(ask), key=lambda match: (match.distance, match.number))


def _sized(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def _bits(code: bytes, n_bits: int) -> str:
    return "".join(map("{:08b}".format, code))[:n_bits]


def _packed(bits: str) -> bytes:
    width = -(-len(bits) // 8)
    return int(bits.ljust(8 * width, "0"), 2).to_bytes(width, "big")
