"""Addresses of engines, and what of them may be shown: never a secret."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit, urlunsplit

from dlfh.errors import InputError

__all__ = ["ENGINES", "Address", "is_address", "parse_address"]

#: What an address begins with, and the engine that it is of.
ENGINES = {"postgresql://": "postgresql", "postgres://": "postgresql", "duckdb:": "duckdb", "milvus:": "milvus"}

#: What tables are called if an address does not say, and what they may be called.
_NAME, _NAMES = "dlfh", re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")
#: Parameters of PostgreSQL that are secrets.
_SECRET = {"password", "sslpassword", "oauth_client_secret"}


@dataclass(frozen=True)
class Address:
    """Where an engine keeps items.

    Attributes
    ----------
    engine : {"postgresql", "duckdb", "milvus"}
    place : str
        As the engine takes it; with secrets, so that it is never shown.
    name : str
        Of the table.
    shown : str
        The address without secrets, which may be written down: what is missing then comes from the environment.
    secrets : tuple of str
        What must be taken out of messages of others.

    Examples
    --------
    >>> address = parse_address("postgresql://ann:s3cret@db.example.org/shop#photos")
    >>> address
    Address('postgresql://ann@db.example.org/shop#photos')
    >>> address.without_secrets('no user "ann" with s3cret')
    'no user "ann" with ***'
    """

    engine: str
    place: str = field(repr=False)
    name: str
    shown: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"

    @property
    def file(self) -> Path | None:
        """The file that has everything; None if there is a server, or nothing but memory."""
        return Path(self.place) if self.engine != "postgresql" and self.place.startswith(os.sep) else None

    def without_secrets(self, text: str) -> str:
        """Return a message of others without what must not be shown."""
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def is_address(text: object) -> bool:
    """Return whether a text is the address of an engine, and not of a folder.

    Examples
    --------
    >>> is_address("duckdb:shop.duckdb"), is_address("shop/")
    (True, False)
    """
    return isinstance(text, str) and text.startswith(tuple(ENGINES))


def parse_address(text: str) -> Address:
    """Return what an address says; it is not repeated in messages, for it may hold a password."""
    if not is_address(text):
        raise InputError(f"an address begins with {', '.join(ENGINES)}: this one does not")
    start = next(start for start in ENGINES if text.startswith(start))
    engine = ENGINES[start]
    rest, _, name = text.partition("#")
    name = name or _NAME
    if not _NAMES.fullmatch(name):
        raise InputError(
            f"the name of a table, after # in an address, is of letters, digits and _, at most 40, got {name!r}"
        )
    if engine == "postgresql":
        return _of_postgres(rest, name)
    place = rest.removeprefix(start)
    if engine == "milvus" and place.startswith("//"):
        return _of_milvus(place, name)
    file = str(Path(place).absolute()) if place else ""
    if engine == "milvus" and not file.endswith(".db"):
        raise InputError("an address of Milvus is milvus://HOST:PORT, or milvus:FILE.db for the embedded engine")
    return Address(engine, file, name, f"{engine}:{file}#{name}")


def _of_postgres(rest: str, name: str) -> Address:
    try:
        parts = urlsplit(rest)
        options = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError:
        sentence = "this address of PostgreSQL cannot be read: it is postgresql://USER@HOST:PORT/DATABASE#TABLE"
        raise InputError(sentence) from None
    user, colon, password = parts.netloc.rpartition("@")[0].partition(":")
    host = parts.netloc.rpartition("@")[2]
    secrets = [value for key, value in options if key.lower() in _SECRET and value]
    secrets += [password, unquote(password)] if colon and password else []
    kept = urlencode([(key, value) for key, value in options if key.lower() not in _SECRET], quote_via=quote, safe="/")
    netloc = f"{user}@{host}" if user else host
    shown = urlunsplit(("postgresql", netloc, parts.path, kept, ""))
    shown = shown if "//" in shown else shown.replace("postgresql:", "postgresql://", 1)
    return Address("postgresql", rest, name, f"{shown}#{name}", tuple(dict.fromkeys(secrets)))


def _of_milvus(place: str, name: str) -> Address:
    credentials, _, host = place.removeprefix("//").rpartition("@")
    user, _, password = credentials.partition(":")
    secrets = tuple(dict.fromkeys(part for part in (password, unquote(password), credentials) if part))
    shown = f"milvus://{user + '@' if user else ''}{host}#{name}"
    return Address("milvus", f"{unquote(credentials)}@http://{host}", name, shown, secrets)
