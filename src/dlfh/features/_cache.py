"""Descriptions of images that were made before, by what is in their files: a rebuild describes nothing twice.

A cache is one SQLite file in a folder of the user's. It is used where `cached` says so: by the command line always, by
Python where a program asks for it. Nothing depends on it: what is not there, or is damaged, is described again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sqlite3
import sys
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._limits import check_limit, check_regular_file
from dlfh._version import __version__
from dlfh.errors import InputError
from dlfh.features._base import Featurizer, Readable

__all__ = ["DescriptionCache", "cached", "described"]

#: With fewer images than this a cache is not asked: questions are single pictures, and seldom asked twice.
_FEW = 8

#: After so many images what was described is kept, so that a build that is stopped goes on from there.
_BLOCK = 2048

#: What a cache may hold, in bytes, unless DLFH_CACHE_BYTES says otherwise; and what is left when it held more.
_MOST_BYTES, _LEFT = 1 << 30, 0.8

#: Parameters that do not change what an image's description is.
_IRRELEVANT = {"verbose", "n_jobs", "batch_size", "device"}

#: Keys that one question to the database names.
_KEYS_AT_ONCE = 500

_current: ContextVar[DescriptionCache | None] = ContextVar("_current", default=None)


@contextmanager
def cached(folder: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Keep descriptions of images, and take those that are kept, in a block of code.

    Parameters
    ----------
    folder : path, optional
        By default what the environment variable ``DLFH_CACHE`` names, where ``off`` means none; or else ``dlfh`` in
        the user's folder of caches. It holds a gigabyte at most (``DLFH_CACHE_BYTES``), those that were used last.

    Examples
    --------
    >>> import tempfile
    >>> from dlfh.features import Thumbnail
    >>> with tempfile.TemporaryDirectory() as folder, cached(folder):
    ...     pictures = Thumbnail(2).fit_transform(["docs/images/icons.png"] * 10)
    ...     again = Thumbnail(2).fit_transform(["docs/images/icons.png"] * 10)  # no picture is opened
    >>> pictures.shape, bool((pictures == again).all())
    ((10, 12), True)
    """
    place = _default_folder() if folder is None else Path(folder)
    token = _current.set(None if place is None else DescriptionCache(place))
    try:
        yield
    finally:
        _current.reset(token)


def described(
    featurizer: Featurizer,
    items: Sequence[Any],
    n_features: int,
    describe: Callable[[Sequence[Any]], Readable],
    fitted: Any = None,
) -> Readable:
    """Return descriptions of images: those that the cache has, and of the others what ``describe`` gives of them.

    Parameters
    ----------
    featurizer : Featurizer
    items : sequence
        Images. Paths are looked up by what is in their files; unless all are paths, all are described.
    n_features : int
    describe : function
        Its problems are by position among what it is given.
    fitted : str, optional
        What else decides a description: a fingerprint of weights.
    """
    cache = _current.get()
    if cache is None or len(items) < _FEW or not all(isinstance(item, (str, os.PathLike)) for item in items):
        return describe(items)
    identity = _identity(featurizer, fitted)
    keys = [_key(identity, item) for item in items]
    known = cache.get([key for key in keys if key is not None], n_features)
    features = np.empty((len(items), n_features), np.float32)
    found, missing = [], []
    for row, key in enumerate(keys):
        if key in known:
            features[row] = known[key]
            found.append(row)
        else:
            missing.append(row)
    problems: dict[int, str] = {}
    for start in range(0, len(missing), _BLOCK):
        rows = missing[start : start + _BLOCK]
        new = describe([items[row] for row in rows])
        read = [rows[place] for place in new.rows]
        features[read] = new.features
        found += read
        problems |= {rows[place]: why for place, why in new.problems.items()}
        cache.put([(keys[row], features[row]) for row in read])
    places = np.array(sorted(found), np.int64)
    return Readable(features[places] if problems else features, places, problems)


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
            database.execute("PRAGMA auto_vacuum = INCREMENTAL")
            database.execute("PRAGMA journal_mode = WAL")
            database.execute("PRAGMA synchronous = NORMAL")
            database.execute(
                "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB, sum INTEGER, used REAL)"
            )
        except sqlite3.Error as error:
            database.close()
            if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
                with suppress(OSError):
                    os.unlink(self.file)
            raise
        return database


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


def _key(identity: bytes, item: Any) -> bytes | None:
    """Return what an image's description is kept by; None for one whose file cannot be read."""
    try:
        size = check_regular_file(item)
        check_limit("DLFH_MAX_BYTES", size, "it")
        return hashlib.sha256(identity + Path(item).read_bytes()).digest()
    except (InputError, OSError, ValueError):
        return None


def _identity(featurizer: Featurizer, fitted: Any) -> bytes:
    """Return a hash of all that decides a description beside the image: the featuriser, and the code that runs it."""
    import PIL

    parameters = {
        name: repr(value) for name, value in featurizer.get_params(deep=False).items() if name not in _IRRELEVANT
    }
    versions = [__version__, PIL.__version__, np.__version__, sys.byteorder, _code()]
    return hashlib.sha256(json.dumps([featurizer.kind, parameters, fitted, versions]).encode()).digest()


@functools.cache
def _code() -> str:
    """Return a hash of the modules that describe images: what another version computed is another description."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _default_folder() -> Path | None:
    asked = os.environ.get("DLFH_CACHE")
    if asked is not None:
        return None if asked.lower() in ("", "off") else Path(asked)
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA") or "~\\AppData\\Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser() / "dlfh"
    except RuntimeError:  # nobody's home
        return None


def _most_bytes() -> int:
    text = os.environ.get("DLFH_CACHE_BYTES", "")
    return int(text) if text.isdecimal() and len(text) < 20 else _MOST_BYTES
