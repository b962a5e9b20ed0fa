"""Items in Milvus: a cluster, or its embedded engine in a file; binary vectors, compared by HAMMING.

Milvus has no transactions. A change of one block of items is made whole; of several, one after the other, and a writer
that is stopped in between leaves those that are done. `put` can be repeated. Items that are equally far from a query
are in the order in which they were added among those that are found; which of them are found, Milvus says.
"""

from __future__ import annotations

import importlib
import logging
import os
import secrets
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from dlfh._optional import require
from dlfh.codes import n_bytes
from dlfh.errors import InputError, StorageError
from dlfh.index.backend import Mode
from dlfh.index.engines.address import Address
from dlfh.index.engines.engine import Engine, Match, Row, batches, check_names
from dlfh.index.engines.expressions import as_expression, fields_of, from_hex, one_of, to_hex
from dlfh.index.segment import ABSENT
from dlfh.index.where import Where

__all__ = ["MilvusEngine"]

_FORMAT = 1
#: The most bytes of a text, and the most items that one search finds: limits of Milvus.
_MOST_BYTES, _MOST_FOUND = 65_535, 16_384
#: Items that are written, read or looked for at a time.
_BATCH = 1_000
#: For how many seconds a server is waited for when it is first asked; how often it is asked later, in some ten seconds.
_PATIENCE, _ATTEMPTS = 5.0, 8
#: How often an embedded engine that stops is started again to answer one question.
_RESTARTS = 3
#: What the embedded engine says when it failed.
_NO_REASON = "Unexpected error in RPC handling"
#: Where a password may be, beside the address.
_TOKEN = "MILVUS_TOKEN"


class MilvusEngine(Engine):
    """Items in Milvus."""

    def __init__(self, address: Address) -> None:
        self._address = address
        self.address = address.shown
        self._name, self._about = address.name, f"{address.name}_about"
        self._writing = threading.RLock()
        self._last = 0
        self._with_holes: set[int] = set()  # modalities of which items without a code were met
        exceptions = require("pymilvus.exceptions", "this address", "milvus")
        grpc = importlib.import_module("grpc")  # which pymilvus brings
        self._errors = (exceptions.MilvusException, grpc.RpcError, ConnectionError)
        self._client: Any = None
        self._engine: weakref.ref[Any] | None = None  # an embedded one
        with self._said():
            self._connect()

    @classmethod
    def create(cls, address: Address, n_bits: int, modalities: tuple[str, ...]) -> Self:
        """Make an empty index, where there is no collection of this name."""
        index = cls(address)
        try:
            index._set_schema(n_bits, modalities)
            with index._said():
                index._make()
        except BaseException:
            index.close()
            raise
        return index

    def _make(self) -> None:
        types = require("pymilvus", "this address", "milvus").DataType
        if self._client.has_collection(self._name):
            raise InputError(f"there is a collection {self._name!r} in {self.address} already, which stays")
        schema = self._client.create_schema(auto_id=False)
        schema.add_field("key", types.VARCHAR, is_primary=True, max_length=_MOST_BYTES)
        schema.add_field("number", types.INT64)
        schema.add_field("metadata", types.VARCHAR, max_length=_MOST_BYTES)
        schema.add_field("fields", types.JSON)
        indexes = self._client.prepare_index_params()
        for column in range(len(self.modalities)):
            schema.add_field(f"state{column}", types.INT8)
            schema.add_field(f"code{column}", types.BINARY_VECTOR, dim=8 * n_bytes(self.n_bits))
            indexes.add_index(f"code{column}", index_type="BIN_FLAT", metric_type="HAMMING")
        self._client.create_collection(self._name, schema=schema, index_params=indexes, consistency_level="Strong")
        # What is known of it is a row of a collection of its own; there is none without a vector.
        schema = self._client.create_schema(auto_id=False)
        schema.add_field("key", types.VARCHAR, is_primary=True, max_length=16)
        schema.add_field("about", types.JSON)
        schema.add_field("nothing", types.BINARY_VECTOR, dim=8)
        indexes = self._client.prepare_index_params()
        indexes.add_index("nothing", index_type="BIN_FLAT", metric_type="HAMMING")
        self._client.create_collection(self._about, schema=schema, index_params=indexes, consistency_level="Strong")
        about = {"format": _FORMAT, "identity": secrets.token_hex(16), "bits": self.n_bits}
        self._tell("about", about | {"modalities": [*self.modalities]})
        self._tell("state", {"state": secrets.token_hex(8)})

    @classmethod
    def open(cls, address: Address) -> Self:
        """Open an index that is there."""
        index = cls(address)
        try:
            if not index._call("has_collection", index._about):
                raise StorageError(f"there is no index at {index.address}")
            index._load()
            about = index._told("about")
            if about.get("format") != _FORMAT:
                raise StorageError(f"{index.address} has another format than this dlfh reads, which is {_FORMAT}")
            index._set_schema(about["bits"], about["modalities"])
        except BaseException:
            index.close()
            raise
        return index

    def close(self) -> None:
        with self._writing:
            if self._client is not None:
                self._client.close()
            self._client = None

    def drop(self) -> None:
        for name in (self._name, self._about):
            self._call("drop_collection", name)
        self.close()

    @property
    def closed(self) -> bool:
        return self._client is None

    @property
    def identity(self) -> str:
        return str(self._told("about")["identity"])

    @property
    def state(self) -> str:
        return f"{self.identity}-{self._told('state')['state']}"

    def _tell(self, key: str, about: dict[str, Any]) -> None:
        self._call("upsert", self._about, [{"key": key, "about": about, "nothing": b"\0"}])

    def _told(self, key: str) -> dict[str, Any]:
        rows = self._query(self._about, f'key == "{key}"', ["about"])
        if not rows:
            raise StorageError(f"the index at {self.address} is damaged: it says nothing of itself")
        return dict(rows[0]["about"])

    def _connect(self) -> None:
        self._client, self._engine = _connected(self._address)

    def _load(self) -> None:
        for name in (self._name, self._about):
            self._client.load_collection(name, retry_times=self._attempts)

    @property
    def _attempts(self) -> int:
        return _ATTEMPTS if self._engine is None else 1

    def _call(self, what: str, *arguments: Any, **options: Any) -> Any:
        """Ask Milvus; an embedded engine that was killed is started again, and asked once more.

        All that is asked of it may be asked twice: items are written by their ids.
        """
        self._check_open()
        left = _RESTARTS
        with self._said():
            while True:
                try:
                    if _has_stopped(self._engine):
                        self._restart()
                    return getattr(self._client, what)(*arguments, retry_times=self._attempts, **options)
                except self._errors:
                    if not left or not _has_stopped(self._engine):
                        raise
                    left -= 1

    def _restart(self) -> None:
        with self._writing:
            if _has_stopped(self._engine):  # and nobody else started it meanwhile
                self._connect()
                self._load()

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Say an error of Milvus in one sentence."""
        try:
            yield
        except self._errors as error:
            said = self._address.without_secrets(getattr(error, "message", "") or str(error) or type(error).__name__)
            said = said.strip().splitlines()[0].rpartition("message=")[2]  # after how often it was asked
            if self._engine is not None and (said == _NO_REASON or _has_stopped(self._engine)):
                said = "its embedded engine failed and does not say why; it does so where the disk is full"
            raise StorageError(f"Milvus at {self.address}: {said}") from None

    # Writing

    def _write(self, rows: list[Row], mode: Mode) -> None:
        for row in rows:
            self._check(row)
        with self._writing:
            if mode != "put":
                names = [row.id for row in rows]
                check_names(names, self._numbers(names), mode)
            first = max(time.time_ns(), self._last + 1)
            self._last = first + len(rows)
            entities = [self._entity(row, first + place) for place, row in enumerate(rows)]
            with self._changing():
                for some in batches(entities, _BATCH):
                    self._call("upsert", self._name, list(some))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Say that items are others from now on, and once more when all is done: who stops in between said so, too."""
        try:
            self._tell("state", {"state": secrets.token_hex(8)})
            yield
            self._tell("state", {"state": secrets.token_hex(8)})
        except StorageError:
            if self._engine is not None:  # it still shows what it could not write: only its file is true
                with suppress(StorageError), self._said():
                    _engines().release_server(self._address.place)
                    self._connect()
                    self._load()
            raise

    def _check(self, row: Row) -> None:
        if 2 * len(row.id.encode()) > _MOST_BYTES:
            raise InputError(f"an id in Milvus has at most {_MOST_BYTES // 2:,} bytes, got {row.id[:50]!r}…")
        if len(row.metadata.encode()) > _MOST_BYTES:
            raise InputError(
                f"metadata in Milvus have at most {_MOST_BYTES:,} bytes as JSON; those of {row.id!r} have more"
            )

    def _entity(self, row: Row, number: int) -> dict[str, Any]:
        nothing = bytes(n_bytes(self.n_bits))
        entity: dict[str, Any] = {"key": to_hex(row.id), "number": number, "metadata": row.metadata}
        entity["fields"] = fields_of(row)
        for column, (state, code) in enumerate(zip(row.states, row.codes, strict=True)):
            entity |= {f"state{column}": state, f"code{column}": code or nothing}
        return entity

    def _delete(self, ids: list[str]) -> None:
        with self._writing:
            check_names(ids, self._numbers(ids), "update")
            with self._changing():
                for some in batches(ids, _BATCH):
                    self._call("delete", self._name, filter=one_of("key", [to_hex(name) for name in some]))

    # Asking

    def _query(self, name: str, expression: str, fields: list[str]) -> list[dict[str, Any]]:
        return list(self._call("query", name, filter=expression, output_fields=fields, limit=_MOST_FOUND))

    def _nearest(
        self,
        column: int,
        code: bytes,
        limit: int | None,
        radius: int | None,
        numbers: list[int] | None,
        where: Where | None,
    ) -> list[Match]:
        if limit is not None and limit > _MOST_FOUND:
            raise InputError(f"Milvus finds at most {_MOST_FOUND:,} items at a time, got {limit:,}")
        conditions = []
        if numbers is not None:
            conditions.append(one_of("number", numbers))
        if where is not None:
            expression = as_expression(where)
            if expression is False:
                return []
            conditions += [f"({expression})"] if isinstance(expression, str) else []
        found = []
        if column not in self._with_holes:
            found = self._search(code, column, limit or _MOST_FOUND, conditions)
            if any(hit.state == ABSENT for hit in found):
                self._with_holes.add(column)
        if column in self._with_holes:  # not always: a filter takes a tenth of the time
            found = self._search(code, column, limit or _MOST_FOUND, [f"state{column} > {ABSENT}", *conditions])
        if radius is not None:
            if len(found) == _MOST_FOUND and max(hit.distance for hit in found) <= radius:
                raise InputError(
                    f"more than {_MOST_FOUND:,} items are within {radius} bits: Milvus finds no more at a time"
                )
            found = [hit for hit in found if hit.distance <= radius]
        return sorted(found, key=lambda hit: (hit.distance, hit.number))

    def _search(self, code: bytes, column: int, limit: int, conditions: list[str]) -> list[Match]:
        """Return the nearest of the items that fulfil some conditions; those without a code have one of zeros."""
        state = f"state{column}"
        (hits,) = self._call(
            "search",
            self._name,
            [code],
            anns_field=f"code{column}",
            limit=limit,
            filter=" and ".join(conditions),
            search_params={"metric_type": "HAMMING"},
            output_fields=["number", state],
        )
        found = []
        for hit in hits:
            own, key = hit["entity"], hit.get("key", hit.get("id"))
            found.append(Match(own["number"], from_hex(key), round(hit["distance"]), own[state]))
        return found

    def _matching(self, numbers: list[int], where: Where) -> set[int]:
        expression = as_expression(where)
        if isinstance(expression, bool):
            return {*numbers} if expression else set()
        found: set[int] = set()
        for some in batches(numbers, _BATCH):
            rows = self._query(self._name, f"{one_of('number', [*some])} and ({expression})", ["number"])
            found.update(row["number"] for row in rows)
        return found

    def _read(self, numbers: list[int] | None) -> Iterator[Row]:
        columns = [part for c in range(len(self.modalities)) for part in (f"state{c}", f"code{c}")]
        fields = ["key", "number", "metadata", *columns]
        if numbers is not None:
            for some in batches(numbers, _BATCH):
                yield from map(self._row, self._query(self._name, one_of("number", list(some)), fields))
            return
        order = sorted(row["number"] for row in self._all(["number"]))
        for some in batches(order, _BATCH):
            rows = [self._row(row) for row in self._query(self._name, one_of("number", list(some)), fields)]
            yield from sorted(rows, key=lambda row: row.number)

    def _all(self, fields: list[str]) -> Iterator[dict[str, Any]]:
        pages = self._call("query_iterator", self._name, batch_size=_BATCH, filter="", output_fields=fields)
        with self._said():
            while page := pages.next():
                yield from page
            pages.close()

    def _row(self, row: dict[str, Any]) -> Row:
        states = tuple(row[f"state{column}"] for column in range(len(self.modalities)))
        codes = tuple(None if state == ABSENT else _bytes(row[f"code{column}"]) for column, state in enumerate(states))
        return Row(from_hex(row["key"]), row["metadata"], states, codes, row["number"])

    def _numbers(self, ids: list[str]) -> dict[str, int]:
        found: dict[str, int] = {}
        for some in batches(ids, _BATCH):
            expression = one_of("key", [to_hex(name) for name in some])
            found |= {
                from_hex(row["key"]): row["number"] for row in self._query(self._name, expression, ["key", "number"])
            }
        return found

    def _count(self, column: int | None, states: tuple[int, ...]) -> int:
        expression = "" if column is None else one_of(f"state{column}", list(states))
        return int(self._call("query", self._name, filter=expression, output_fields=["count(*)"])[0]["count(*)"])


def _connected(address: Address) -> tuple[Any, weakref.ref[Any] | None]:
    """Return a client, and the engine that it asks if that is an embedded one."""
    token, _, place = address.place.rpartition("@")
    if not place.startswith("http"):
        token, place = "", address.place
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the embedded engine asks a deprecated module for its version
        pymilvus = require("pymilvus", "this address", "milvus")
        for name in ("pymilvus", "pymilvus.milvus_client.milvus_client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # they write what they also raise on the terminal
        if address.file is not None:
            require("milvus_lite", "this address", "milvus")
            if _has_stopped(_engine_of(address)):
                _engines().release_server(place)
    # (With a name of its own: by default clients of one server share a connection, which the first to close ends.)
    token, alias = token or os.environ.get(_TOKEN, ""), secrets.token_hex(16)
    client = pymilvus.MilvusClient(place, token=token, timeout=_PATIENCE, alias=alias)
    return client, None if address.file is None else _engine_of(address)


def _engines() -> Any:
    """Return what knows the embedded engines of this process, which are processes of their own."""
    return importlib.import_module("milvus_lite.server_manager").server_manager_instance


def _engine_of(address: Address) -> weakref.ref[Any] | None:
    """Return the engine of an address, not to be kept alive: one that is gone would let go of its successor's lock."""
    engine = _engines()._servers.get(str(Path(address.place).resolve()))
    return None if engine is None else weakref.ref(engine)


def _has_stopped(engine: weakref.ref[Any] | None) -> bool:
    """Return whether there was an embedded engine, and is none any more."""
    process = getattr(engine(), "_p", None) if engine is not None else None
    return engine is not None and (process is None or process.poll() is not None)


def _bytes(vector: Any) -> bytes:
    """Return a binary vector as bytes: versions of the client give it bare, or in a list of one."""
    return bytes(vector[0] if isinstance(vector, list) else vector)
