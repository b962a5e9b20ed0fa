"""Where descriptions of images are kept: one SQLite file, bounded, with a checksum for each."""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._limits import check_regular_file
from dlfh.errors import InputError

__all__ = ["DescriptionCache"]

#: What a cache may hold, in bytes, unless DLFH_CACHE_BYTES says otherwise; and what is left when it held more.
_MOST_BYTES, _LEFT = 1 << 30, 0.8

#: Keys that one question to the database names.
_KEYS_AT_ONCE = 500


class DescriptionCache:
    """Vectors by key, in a SQLite file, those that were used last.

    Every vector has a checksum over it and its key; one that does not fit is as good as none, and a file that is no
    database is begun anew. Several processes may use one file. Whatever fails (a full disk, a folder that cannot be
    written) costs the cache, never the work.

    Parameters
    ----------
    folder : Path
        Made if it is not there, for the user alone.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "descriptions.sqlite3"

    def get(self, keys: Sequence[bytes], n_features: int) -> dict[bytes, npt.NDArray[np.float32]]:
        """Return the vectors that are kept for some keys."""
        found: dict[bytes, npt.NDArray[np.float32]] = {}
        with self._safely() as database:
            if database is None:
                return found
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                some = keys[start : start + _KEYS_AT_ONCE]
                marks = ",".join("?" * len(some))
                question = f"SELECT key, vector, sum FROM vectors WHERE key IN ({marks}) AND length(vector) = ?"
                rows = database.execute(question, [*some, 4 * n_features])
                for key, content, checksum in rows.fetchall():
                    vector = _sound(key, content, checksum, n_features)
                    if vector is not None:
                        found[key] = vector
                database.execute(f"UPDATE vectors SET used = ? WHERE key IN ({marks})", [time.time(), *some])
        return found

    def put(self, rows: Sequence[tuple[bytes | None, npt.NDArray[np.float32]]]) -> None:
        """Keep vectors, without those that have no key."""
        now = time.time()
        entries = [(key, own.tobytes(), _checksum(key, own.tobytes()), now) for key, own in rows if key is not None]
        with self._safely() as database:
            if database is None or not entries:
                return
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", entries)
            _shrink(database)

    @contextmanager
    def _safely(self) -> Iterator[sqlite3.Connection | None]:
        """Give the database in a transaction, or None if it cannot be opened; forget a file that is damaged."""
        try:
            database = self._open()
        except (InputError, OSError, sqlite3.Error):
            yield None
            return
        try:
            with closing(database), database:
                yield database
        except sqlite3.OperationalError:
            pass  # locked for long, or the disk is full: nothing is kept
        except sqlite3.DatabaseError:
            for end in ("", "-wal", "-shm"):
                with suppress(OSError):
                    os.unlink(f"{self.file}{end}")

    def _open(self) -> sqlite3.Connection:
        self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.file.exists():
            check_regular_file(self.file)
        database = sqlite3.connect(self.file, timeout=5)
        try:
            _prepare(database)
        except sqlite3.Error as error:
            database.close()
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                with suppress(OSError):
                    os.unlink(self.file)
            raise
        return database


def _prepare(database: sqlite3.Connection) -> None:
    """Make a new file a cache; of one that is a cache already, nothing changes."""
    for wait in (0.05, 0.1, 0.2, 0.4, 0.8, None):
        try:
            database.execute("PRAGMA auto_vacuum = INCREMENTAL")
            database.execute("PRAGMA journal_mode = WAL")
            break
        except sqlite3.OperationalError:  # to change its mode SQLite does not wait for others that do it too
            if wait is None:
                raise
            time.sleep(wait)
    database.execute("PRAGMA synchronous = NORMAL")
    database.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB, sum INTEGER, used REAL)")


def _shrink(database: sqlite3.Connection) -> None:
    """Let go of what was not used for longest, if there is more than there may be."""
    most = _most_bytes()
    total = database.execute("SELECT coalesce(sum(length(vector) + 64), 0) FROM vectors").fetchone()[0]
    if total <= most:
        return
    surplus, given = total - _LEFT * most, []
    for key, size in database.execute("SELECT key, length(vector) + 64 FROM vectors ORDER BY used"):
        if surplus <= 0:
            break
        given.append((key,))
        surplus -= size
    database.executemany("DELETE FROM vectors WHERE key = ?", given)
    database.commit()
    database.execute("PRAGMA incremental_vacuum").fetchall()


def _sound(key: Any, content: Any, checksum: Any, n_features: int) -> npt.NDArray[np.float32] | None:
    if not isinstance(content, bytes) or len(content) != 4 * n_features or checksum != _checksum(key, content):
        return None
    vector = np.frombuffer(content, np.float32)
    return vector if np.isfinite(vector).all() else None


def _checksum(key: bytes, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(key))


def _most_bytes() -> int:
    text = os.environ.get("DLFH_CACHE_BYTES", "")
    return int(text) if text.isdecimal() and len(text) < 20 else _MOST_BYTES
