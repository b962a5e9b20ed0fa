"""Keys: what a client may do. A file lists them, and the service reads it again whenever it changes.

A line has the name of a key, its role and the SHA-256 hash of the key itself: ``alice write 9f86d0...``. Keys are
random, so that their hashes need neither salt nor a slow function. Removing a line revokes the key at once.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Literal, NamedTuple

from dlfh._persistence.files import replace_file
from dlfh.errors import InputError

Role = Literal["read", "write", "admin"]
ROLES: tuple[Role, ...] = ("read", "write", "admin")  #: Each role includes the ones before it.
_LINE = re.compile(r"([\w.@-]{1,64})\s+(read|write|admin)\s+([0-9a-f]{64})")
_MAX_BYTES = 1 << 20
#: Requests that only read although their method is POST, and requests that only an administrator may send.
_READING = ("/v1/search", "/v1/search/image", "/v1/queries/image", "/v1/suggest")
_ADMIN = ("/v1/relearn",)


class Key(NamedTuple):
    """A line of a file of keys."""

    name: str
    role: Role
    digest: str


def required_role(method: str, path: str) -> Role | None:
    """Return the role that a request needs; None for the page and for health checks, which need none."""
    if not path.startswith("/v1/"):
        return "read" if path == "/metrics" else None
    if path in _ADMIN:
        return "admin"
    return "read" if method in ("GET", "HEAD", "OPTIONS") or (method == "POST" and path in _READING) else "write"


def allows(role: Role | None, required: Role | None) -> bool:
    """Return whether a client with a role, or without any, may send a request that requires a role."""
    return required is None or (role is not None and ROLES.index(role) >= ROLES.index(required))


class Keys:
    """The keys of a file, and a token, which is a key with the role admin."""

    def __init__(self, file: str | os.PathLike[str] | None, token: str | None) -> None:
        self._file = None if file is None else Path(file)
        self._token = [] if token is None else [Key("token", "admin", _digest(token.encode()))]
        self._signature: tuple[int, ...] | None = None
        self._keys: list[Key] = []
        if self._file is not None:
            read_keys(self._file)  # an invalid file is an error at the start; later, its valid lines are used
            self._refresh()

    @property
    def needed(self) -> bool:
        """Whether there are keys, so that clients without one may be refused."""
        return self._file is not None or bool(self._token)

    def role_of(self, key: bytes) -> Role | None:
        """Return the role of a key; None if it is unknown."""
        if self._file is not None:
            self._refresh()
        digest, role = _digest(key), None
        for known in [*self._token, *self._keys]:  # all of them, in constant time
            if hmac.compare_digest(known.digest, digest):
                role = known.role
        return role

    def _refresh(self) -> None:
        assert self._file is not None
        try:
            status = os.stat(self._file)
            signature = status.st_ino, status.st_mtime_ns, status.st_size
            if signature != self._signature:
                self._keys = read_keys(self._file, strict=False)
                self._signature = signature
        except (OSError, InputError):
            self._keys, self._signature = [], None  # without the file, no key is valid


def read_keys(file: Path, *, strict: bool = True) -> list[Key]:
    """Read a file of keys; ``strict`` raises InputError for invalid lines, which are skipped otherwise."""
    try:
        with open(file, encoding="utf-8") as opened:
            lines = opened.read(_MAX_BYTES).splitlines()
    except (OSError, ValueError) as error:
        raise InputError(f"the keys cannot be read from {file}: {getattr(error, 'strerror', None) or error}") from None
    keys = []
    for number, line in enumerate(lines, 1):
        found = _LINE.fullmatch(line.strip())
        if found is not None:
            keys.append(Key(*found.groups()))  # type: ignore[arg-type]
        elif strict and line.strip() and not line.strip().startswith("#"):
            raise InputError(f"{file}, line {number}: expected a name, a role ({', '.join(ROLES)}) and a SHA-256 hash")
    return keys


def create_key(file: Path, name: str, role: Role) -> str:
    """Add a key to a file, which is created if necessary, and return it. It is stored nowhere else."""
    keys = read_keys(file) if file.exists() else []
    if any(known.name == name for known in keys):
        raise InputError(f"{file} already has a key called {name!r}: revoke it first, or choose another name")
    key = f"dlfh_{secrets.token_urlsafe(32)}"
    line = f"{name} {role} {_digest(key.encode())}"
    if not _LINE.fullmatch(line):
        raise InputError(f"the name of a key has 1 to 64 letters, digits, '.', '@', '-' and '_', got {name!r}")
    _write(file, [*_lines(file), line])
    return key


def revoke_key(file: Path, name: str) -> None:
    """Remove a key from a file."""
    if not any(known.name == name for known in read_keys(file)):
        raise InputError(f"{file} has no key called {name!r}")
    _write(file, [line for line in _lines(file) if line.split()[:1] != [name]])


def _lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines() if file.exists() else []


def _write(file: Path, lines: list[str]) -> None:
    try:
        replace_file(file, ["".join(f"{line}\n" for line in lines).encode()])
    except OSError as error:
        raise InputError(f"the keys cannot be written to {file}: {error.strerror or error}") from None


def _digest(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()
