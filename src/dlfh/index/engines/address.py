"""Database addresses: parsing, display without passwords, and creating or opening the index at an address."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from dlfh.errors import InputError, StorageError

if TYPE_CHECKING:
    from dlfh.index.engines.engine import Engine

#: Prefixes of addresses, and their engines.
ENGINES = {"postgresql://": "postgresql", "postgres://": "postgresql", "duckdb:": "duckdb", "milvus:": "milvus"}
_CLASSES = {"duckdb": "duckdb.DuckEngine", "postgresql": "postgres.PostgresEngine", "milvus": "milvus.MilvusEngine"}
_DEFAULT_NAME, _NAME = "dlfh", re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
_SECRET = {"password", "sslpassword", "oauth_client_secret"}  # connection parameters of PostgreSQL that are secret


@dataclass(frozen=True, repr=False)
class Address:
    """The address of an index in a database."""

    engine: str
    place: str  # may contain a password
    name: str
    shown: str  # safe to print and store
    secrets: tuple[str, ...] = ()  # to be removed from messages

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    @property
    def file(self) -> Path | None:
        """The file of an embedded database; None for a server or a database in memory."""
        return Path(self.place) if self.engine != "postgresql" and self.place.startswith(os.sep) else None

    def without_secrets(self, text: str) -> str:
        """Return a message from the database with secrets replaced by ``***``."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def is_address(text: object) -> bool:
    """Return whether a value is the address of a database, as opposed to a folder."""
    return isinstance(text, str) and text.startswith(tuple(ENGINES))


def create_engine(text: str, n_bits: int, modalities: tuple[str, ...]) -> Engine:
    """Create an empty index at an address."""
    address = parse_address(text)
    return _class_of(address).create(address, n_bits, modalities)


def open_engine(text: str) -> Engine:
    """Open the index at an address."""
    address = parse_address(text)
    if address.file is not None and not address.file.exists():
        raise StorageError(f"there is no index at {address.shown}: no such file")
    return _class_of(address).open(address)


def _class_of(address: Address) -> type[Engine]:
    module, name = _CLASSES[address.engine].split(".")
    found: type[Engine] = getattr(import_module(f"dlfh.index.engines.{module}"), name)
    return found


def parse_address(text: str) -> Address:
    """Parse an address. Errors do not quote it, since it may contain a password."""
    prefix = next((prefix for prefix in ENGINES if text.startswith(prefix)), None)
    if prefix is None:
        raise InputError(f"a database address must begin with one of {', '.join(ENGINES)}")
    engine = ENGINES[prefix]
    location, _, name = text.partition("#")
    name = name or _DEFAULT_NAME
    if not _NAME.fullmatch(name):
        allowed = "at most 40 letters, digits and underscores"
        raise InputError(f"the table name after # in an address must have {allowed}, got {name!r}")
    if engine == "postgresql":
        return _postgres_address(location, name)
    place = location.removeprefix(prefix)
    if engine == "milvus" and place.startswith("//"):
        return _milvus_address(place, name)
    file = str(Path(place).absolute()) if place else ""
    if engine == "milvus" and not file.endswith(".db"):
        raise InputError("a Milvus address must be milvus://HOST:PORT, or milvus:FILE.db for the embedded engine")
    return Address(engine, file, name, f"{engine}:{file}#{name}")


def _postgres_address(location: str, name: str) -> Address:
    try:
        parts = urlsplit(location)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        message = "this address of PostgreSQL is not valid: expected postgresql://USER@HOST:PORT/DATABASE#TABLE"
        raise InputError(message) from None
    credentials, _, host = parts.netloc.rpartition("@")
    user, _, password = credentials.partition(":")
    secrets = [value for key, value in options if key.lower() in _SECRET and value]
    secrets += [password, unquote(password)] if password else []
    public = [(key, value) for key, value in options if key.lower() not in _SECRET]
    query = urlencode(public, quote_via=quote, safe="/")
    shown = urlunsplit(("postgresql", f"{user}@{host}" if user else host, parts.path, query, ""))
    shown = shown if "//" in shown else shown.replace("postgresql:", "postgresql://", 1)
    return Address("postgresql", location, name, f"{shown}#{name}", tuple(dict.fromkeys(secrets)))


def _milvus_address(place: str, name: str) -> Address:
    credentials, _, host = place.removeprefix("//").rpartition("@")
    user, _, password = credentials.partition(":")
    secrets = tuple(dict.fromkeys(part for part in (password, unquote(password), credentials) if part))
    shown = f"milvus://{user + '@' if user else ''}{host}#{name}"
    return Address("milvus", f"{unquote(credentials)}@http://{host}", name, shown, secrets)
