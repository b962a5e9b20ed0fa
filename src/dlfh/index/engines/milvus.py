"""Items in Milvus: binary vectors compared by Hamming distance, on a server or in a file with the embedded engine.

Milvus has no transactions. A batch of items is written completely or not at all; if a writer stops between batches, the
earlier ones remain. `put` can be repeated. Items at the same distance from a query are returned in insertion order, but
if not all of them fit into the result, Milvus decides which ones it returns.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dlfh._imports import require
from dlfh.codes import n_bytes
from dlfh.errors import InputError, StorageError
from dlfh.index.backend import Request, check_known
from dlfh.index.engines.address import Address
from dlfh.index.engines.engine import FORMAT, Engine, Match, Row, batches
from dlfh.index.engines.expressions import as_expression, fields_of, from_hex, one_of, to_hex
from dlfh.index.segment import ABSENT
from dlfh.index.where import Where

_MAX_BYTES, _MAX_FOUND = 65_535, 16_384  # limits of Milvus: bytes of a string, and items that a search returns
_BATCH = 1_000  # number of items that are written, read or looked up at a time
#: Seconds to wait for a connection; number of attempts per request, which together take about ten seconds.
_PATIENCE, _ATTEMPTS = 5.0, 8
_RESTARTS = 3  # maximum number of restarts of an embedded engine per request
_NO_REASON = "Unexpected error in RPC handling"  # the message of an embedded engine that failed for an unknown reason
_TOKEN = "MILVUS_TOKEN"  # environment variable that may hold the password


class MilvusEngine(Engine):
    """Items in Milvus."""

    def __init__(self, address: Address) -> None:
        super().__init__(address)
        self._about = f"{address.name}_about"
        self._writing, self._last = threading.RLock(), 0
        self._incomplete: set[int] = set()  # columns known to have items without a code
        exceptions = require("pymilvus.exceptions", "this address", "milvus")
        grpc = importlib.import_module("grpc")  # a dependency of pymilvus
        self._errors = (exceptions.MilvusException, grpc.RpcError, ConnectionError)
        self._client: Any = None
        self._embedded: weakref.ref[Any] | None = None
        with self._translated():
            self._connect()

    def _create(self) -> None:
        types = require("pymilvus", "this address", "milvus").DataType
        if self._call("has_collection", self._name):
            raise InputError(f"collection {self._name!r} already exists in {self.address}: choose another name")
        fields: dict[str, tuple[Any, dict[str, Any]]] = {
            "key": (types.VARCHAR, {"is_primary": True, "max_length": _MAX_BYTES}),
            "number": (types.INT64, {}),
            "metadata": (types.VARCHAR, {"max_length": _MAX_BYTES}),
            "fields": (types.JSON, {}),
        }
        for column in range(len(self.modalities)):
            fields[f"state{column}"] = (types.INT8, {})
            fields[f"code{column}"] = (types.BINARY_VECTOR, {"dim": 8 * n_bytes(self.n_bits)})
        self._create_collection(self._name, fields)
        about = {
            "key": (types.VARCHAR, {"is_primary": True, "max_length": 16}),
            "about": (types.JSON, {}),
            "vector": (types.BINARY_VECTOR, {"dim": 8}),  # every collection needs one
        }
        self._create_collection(self._about, about)
        description = {"format": FORMAT, "identity": secrets.token_hex(16), "bits": self.n_bits}
        self._set_about("about", description | {"modalities": [*self.modalities]})
        self._change_state()

    def _create_collection(self, name: str, fields: dict[str, tuple[Any, dict[str, Any]]]) -> None:
        with self._translated():
            schema, indexes = self._client.create_schema(auto_id=False), self._client.prepare_index_params()
            for field, (kind, options) in fields.items():
                schema.add_field(field, kind, **options)
                if set(options) == {"dim"}:
                    indexes.add_index(field, index_type="BIN_FLAT", metric_type="HAMMING")
            self._client.create_collection(name, schema=schema, index_params=indexes, consistency_level="Strong")

    def _read_about(self) -> tuple[Any, Any, Any] | None:
        if not self._call("has_collection", self._about):
            return None
        with self._translated():
            self._load()
        about = self._get_about("about")
        return about.get("format"), about.get("bits"), about.get("modalities")

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
        return str(self._get_about("about")["identity"])

    @property
    def state(self) -> str:
        return f"{self.identity}-{self._get_about('state')['state']}"

    def _change_state(self) -> None:
        self._set_about("state", {"state": secrets.token_hex(8)})

    def _set_about(self, key: str, about: dict[str, Any]) -> None:
        self._call("upsert", self._about, [{"key": key, "about": about, "vector": b"\0"}])

    def _get_about(self, key: str) -> dict[str, Any]:
        rows = self._query(self._about, f'key == "{key}"', ["about"])
        if not rows:
            raise self._damaged("its description is missing")
        return dict(rows[0]["about"])

    def _connect(self) -> None:
        token, _, place = self._address.place.rpartition("@")
        if not place.startswith("http"):
            token, place = "", self._address.place
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the embedded engine imports a deprecated module
            pymilvus = require("pymilvus", "this address", "milvus")
            for name in ("pymilvus", "pymilvus.milvus_client.milvus_client"):
                logging.getLogger(name).setLevel(logging.CRITICAL)  # they print errors that are also raised
            if self._address.file is not None:
                require("milvus_lite", "this address", "milvus")
                if _has_stopped(_embedded_server(place)):
                    _servers().release_server(place)
        # Clients with the same alias share a connection, and closing one would close it for all.
        token, alias = token or os.environ.get(_TOKEN, ""), secrets.token_hex(16)
        self._client = pymilvus.MilvusClient(place, token=token, timeout=_PATIENCE, alias=alias)
        self._embedded = None if self._address.file is None else _embedded_server(place)

    def _load(self) -> None:
        for name in (self._name, self._about):
            self._client.load_collection(name, retry_times=self._attempts)

    @property
    def _attempts(self) -> int:
        return _ATTEMPTS if self._embedded is None else 1

    def _call(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method of the client. If an embedded engine was killed, restart it and repeat the call."""
        # All calls can be repeated, since items are written by their ids.
        self.check_open()
        restarts = _RESTARTS
        with self._translated():
            while True:
                try:
                    if _has_stopped(self._embedded):
                        self._restart()
                    return getattr(self._client, method)(*arguments, retry_times=self._attempts, **options)
                except self._errors:
                    if not restarts or not _has_stopped(self._embedded):
                        raise
                    restarts -= 1

    def _restart(self) -> None:
        with self._writing:
            if _has_stopped(self._embedded):  # unless another thread restarted it
                self._connect()
                self._load()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn errors of Milvus into a `StorageError` of one line."""
        try:
            yield
        except self._errors as error:
            text = self._address.without_secrets(getattr(error, "message", "") or str(error) or type(error).__name__)
            message = text.strip().splitlines()[0].rpartition("message=")[2]  # without the number of attempts
            if self._embedded is not None and (message == _NO_REASON or _has_stopped(self._embedded)):
                message = "the embedded engine failed without a reason, as it does when the disk is full"
            raise StorageError(f"Milvus at {self.address}: {message}") from None

    def _check(self, row: Row) -> None:
        if 2 * len(row.id.encode()) > _MAX_BYTES:
            raise InputError(f"an id in Milvus must have at most {_MAX_BYTES // 2:,} bytes, got {row.id[:50]!r}…")
        if len(row.metadata.encode()) > _MAX_BYTES:
            message = f"metadata in Milvus must have at most {_MAX_BYTES:,} bytes as JSON"
            raise InputError(f"{message}, but item {row.id!r} has more")

    def _write(self, rows: list[Row], *, replace: bool) -> None:
        with self._writing:
            if not replace:
                names = [row.id for row in rows]
                known = self._numbers(names)
                check_known(names, [name in known for name in names], expected=False)
            first = max(time.time_ns(), self._last + 1)
            self._last = first + len(rows)
            entities = [self._entity(row, first + place) for place, row in enumerate(rows)]
            with self._changing():
                for batch in batches(entities, _BATCH):
                    self._call("upsert", self._name, list(batch))

    def _delete(self, ids: list[str]) -> None:
        with self._writing:
            known = self._numbers(ids)
            check_known(ids, [name in known for name in ids])
            with self._changing():
                for batch in batches(ids, _BATCH):
                    self._call("delete", self._name, filter=one_of("key", [*map(to_hex, batch)]))

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Set a new state before and after a change, so that readers also notice an interrupted change."""
        try:
            self._change_state()
            yield
            self._change_state()
        except StorageError:
            if self._embedded is not None:  # until it restarts, it returns items that it failed to write
                with suppress(StorageError), self._translated():
                    _servers().release_server(self._address.place)
                    self._connect()
                    self._load()
            raise

    def _entity(self, row: Row, number: int) -> dict[str, Any]:
        empty = bytes(n_bytes(self.n_bits))
        entity = {"key": to_hex(row.id), "number": number, "metadata": row.metadata, "fields": fields_of(row)}
        for column, (state, code) in enumerate(zip(row.states, row.codes, strict=True)):
            entity |= {f"state{column}": state, f"code{column}": code or empty}
        return entity

    def _query(self, name: str, expression: str, fields: list[str]) -> list[dict[str, Any]]:
        return list(self._call("query", name, filter=expression, output_fields=fields, limit=_MAX_FOUND))

    def _nearest(self, request: Request, code: bytes, limit: int | None, radius: int | None) -> list[Match]:
        if limit is not None and limit > _MAX_FOUND:
            raise InputError(f"Milvus returns at most {_MAX_FOUND:,} items at a time, got {limit:,}")
        conditions = [] if request.positions is None else [one_of("number", request.positions.tolist())]
        expression = True if request.where is None else as_expression(request.where)
        if expression is False:
            return []
        if isinstance(expression, str):
            conditions.append(f"({expression})")
        column, found = request.column, list[Match]()
        if column not in self._incomplete:
            found = self._search(column, code, limit or _MAX_FOUND, conditions)
            if any(match.state == ABSENT for match in found):
                self._incomplete.add(column)
        if column in self._incomplete:  # only then, because a filter makes a search ten times slower
            found = self._search(column, code, limit or _MAX_FOUND, [f"state{column} > {ABSENT}", *conditions])
        if radius is not None:
            if len(found) == _MAX_FOUND and max(match.distance for match in found) <= radius:
                many = f"more than {_MAX_FOUND:,} items are within Hamming distance {radius}"
                raise InputError(f"{many}, more than Milvus can return")
            found = [match for match in found if match.distance <= radius]
        return sorted(found, key=lambda match: (match.distance, match.number))

    def _search(self, column: int, code: bytes, limit: int, conditions: list[str]) -> list[Match]:
        """Return the nearest items that meet the conditions. Items without a code are stored with zeros."""
        state = f"state{column}"
        options = {"anns_field": f"code{column}", "search_params": {"metric_type": "HAMMING"}, "limit": limit}
        options |= {"filter": " and ".join(conditions), "output_fields": ["number", state]}
        (hits,) = self._call("search", self._name, [code], **options)
        found = []
        for hit in hits:
            entity, key = hit["entity"], hit.get("key", hit.get("id"))
            found.append(Match(entity["number"], from_hex(key), round(hit["distance"]), entity[state]))
        return found

    def _matching(self, numbers: list[int], where: Where) -> set[int]:
        expression = as_expression(where)
        if isinstance(expression, bool):
            return {*numbers} if expression else set()
        return {row["number"] for row in self._select("number", numbers, ["number"], f" and ({expression})")}

    def _select(
        self, field: str, values: Sequence[Any], fields: list[str], condition: str = ""
    ) -> Iterator[dict[str, Any]]:
        for batch in batches(values, _BATCH):
            yield from self._query(self._name, one_of(field, batch) + condition, fields)

    def _read(self, numbers: list[int] | None) -> Iterator[Row]:
        columns = [name for column in range(len(self.modalities)) for name in (f"state{column}", f"code{column}")]
        for batch in batches(self._all_numbers() if numbers is None else numbers, _BATCH):
            found = self._query(self._name, one_of("number", batch), ["key", "number", "metadata", *columns])
            yield from sorted(map(self._row, found), key=lambda row: row.number)

    def _all_numbers(self) -> list[int]:
        pages = self._call("query_iterator", self._name, batch_size=_BATCH, filter="", output_fields=["number"])
        found: list[int] = []
        with self._translated():
            while page := pages.next():
                found += [row["number"] for row in page]
            pages.close()
        return sorted(found)

    def _row(self, entity: dict[str, Any]) -> Row:
        states = tuple(entity[f"state{column}"] for column in range(len(self.modalities)))
        codes = (None if state == ABSENT else _bytes(entity[f"code{column}"]) for column, state in enumerate(states))
        return Row(from_hex(entity["key"]), entity["metadata"], states, tuple(codes), entity["number"])

    def _numbers(self, ids: list[str]) -> dict[str, int]:
        rows = self._select("key", [*map(to_hex, ids)], ["key", "number"])
        return {from_hex(row["key"]): row["number"] for row in rows}

    def count(self, column: int | None, states: tuple[int, ...]) -> int:
        expression = "" if column is None else one_of(f"state{column}", states)
        return int(self._call("query", self._name, filter=expression, output_fields=["count(*)"])[0]["count(*)"])


def _servers() -> Any:
    """Return the manager of the embedded engines of this process, each of which is a child process."""
    return importlib.import_module("milvus_lite.server_manager").server_manager_instance


def _embedded_server(place: str) -> weakref.ref[Any] | None:
    """Return a weak reference, so that a stopped engine is deleted before it can release the lock of its successor."""
    server = _servers()._servers.get(str(Path(place).resolve()))
    return None if server is None else weakref.ref(server)


def _has_stopped(server: weakref.ref[Any] | None) -> bool:
    process = getattr(server(), "_p", None) if server is not None else None
    return server is not None and (process is None or process.poll() is not None)


def _bytes(vector: Any) -> bytes:
    """Return a binary vector as bytes; some versions of the client wrap it in a list."""
    return bytes(vector[0] if isinstance(vector, list) else vector)
