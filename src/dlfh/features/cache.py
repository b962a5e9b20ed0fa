"""A cache of image features, keyed by file content, so that a rebuild does not compute them again.

The command line always uses the cache; in Python it is active inside `cached`. Results do not depend on it: missing or
damaged entries are computed again.
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

from dlfh._arrays import Singles
from dlfh._limits import check_regular_file, read_file
from dlfh._version import __version__
from dlfh.errors import InputError
from dlfh.features.base import Featurizer, PartialFeatures, new_hash

_MIN_IMAGES = 8  # smaller batches bypass the cache: query images come one by one and rarely repeat
_BLOCK = 2048  # images per stored block: an interrupted build resumes after the last block
_KEYS_AT_ONCE = 500  # keys per database query
_IRRELEVANT = {"verbose", "n_jobs", "batch_size", "device"}  #: Parameters that do not affect the features.
#: Default size limit in bytes, and the share that remains after old entries are evicted.
_MAX_BYTES, _SHARE_KEPT = 1 << 30, 0.8
_TABLE = "CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB, sum INTEGER, used REAL)"
_current: ContextVar[FeatureCache | None] = ContextVar("_current", default=None)


@contextmanager
def cached(folder: str | os.PathLike[str] | None = None) -> Iterator[None]:
    """Cache image features inside a ``with`` block.

    folder: By default the value of the environment variable ``DLFH_CACHE`` ("off" disables the cache), or else ``dlfh``
        in the user's cache folder. The cache holds at most one gigabyte (``DLFH_CACHE_BYTES``) of the most recently
        used features.
    """
    place = _default_folder() if folder is None else Path(folder)
    token = _current.set(None if place is None else FeatureCache(place))
    try:
        yield
    finally:
        _current.reset(token)


def with_cache(
    featurizer: Featurizer,
    items: Sequence[Any],
    n_features: int,
    compute: Callable[[Sequence[Any]], PartialFeatures],
    fitted: str | None = None,
) -> PartialFeatures:
    """Return features of images, cached if all are files; ``fitted`` is a hash of the network's weights, if any."""
    cache = _current.get()
    if cache is None or len(items) < _MIN_IMAGES or not all(isinstance(item, (str, os.PathLike)) for item in items):
        return compute(items)
    import PIL

    # The identity is a hash of everything else that determines the features: the featuriser and the code.
    chosen = featurizer.get_params(deep=False)
    parameters = {name: repr(value) for name, value in chosen.items() if name not in _IRRELEVANT}
    versions = [__version__, PIL.__version__, np.__version__, sys.byteorder, _code()]
    identity = hashlib.sha256(json.dumps([featurizer.kind, parameters, fitted, versions]).encode()).digest()
    looked_up = [_content(item) for item in items]
    known = cache.get([_key(identity, content) for content in looked_up if content], n_features)
    features = np.empty((len(items), n_features), np.float32)
    contents: dict[int, str] = {}
    done, missing = [], []
    for row, content in enumerate(looked_up):
        if content and (vector := known.get(_key(identity, content))) is not None:
            features[row], contents[row] = vector, content
            done.append(row)
        else:
            missing.append(row)
    problems: dict[int, str] = {}
    for start in range(0, len(missing), _BLOCK):
        rows = missing[start : start + _BLOCK]
        new = compute([items[row] for row in rows])
        computed = [rows[place] for place in new.rows]
        features[computed] = new.features
        done += computed
        problems |= {rows[place]: reason for place, reason in new.problems.items()}
        # Use the hash of the decoded bytes: the file may have been replaced after the lookup.
        contents |= {rows[place]: content for place, content in new.contents.items()}
        cache.put([(_key(identity, contents[row]), features[row]) for row in computed if row in contents])
    places = np.array(sorted(done), np.int64)
    return PartialFeatures(features[places] if problems else features, places, problems, contents)


def _content(item: Any) -> str | None:
    """Return the hash of an image file; None if it cannot be read."""
    try:
        return new_hash(read_file(Path(item), "it")).hexdigest()
    except InputError:
        return None


def _key(identity: bytes, content: str) -> bytes:
    return hashlib.sha256(identity + content.encode()).digest()


@functools.cache
def _code() -> str:
    """Return a hash of the source files in this package."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _default_folder() -> Path | None:
    if (chosen := os.environ.get("DLFH_CACHE")) is not None:
        return None if chosen.lower() in ("", "off") else Path(chosen)
    if os.name == "nt":
        base = os.environ.get("LOCALAPPDATA") or "~\\AppData\\Local"
    elif sys.platform == "darwin":
        base = "~/Library/Caches"
    else:
        base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        return Path(base).expanduser() / "dlfh"
    except RuntimeError:  # no home folder
        return None


class FeatureCache:
    """The most recently used vectors, by key, in an SQLite file that several processes may share.

    An entry with a wrong checksum is ignored, and a file that is not a database is replaced. Failures (a full disk, a
    read-only folder) disable the cache without an error. The folder is created with access for the user only.
    """

    def __init__(self, folder: Path) -> None:
        self.file = folder / "features.sqlite3"

    def get(self, keys: Sequence[bytes], n_features: int) -> dict[bytes, Singles]:
        """Return the stored vectors, by key; keys without an entry are omitted."""
        found: dict[bytes, Singles] = {}

        def look_up(database: sqlite3.Connection) -> None:
            for start in range(0, len(keys), _KEYS_AT_ONCE):
                some = keys[start : start + _KEYS_AT_ONCE]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, vector, sum FROM vectors WHERE key IN ({marks}) AND length(vector) = ?"
                for key, content, checksum in database.execute(query, [*some, 4 * n_features]).fetchall():
                    if isinstance(content, bytes) and checksum == _checksum(key, content):
                        found[key] = np.frombuffer(content, np.float32)
                database.execute(f"UPDATE vectors SET used = ? WHERE key IN ({marks})", [time.time(), *some])

        self._run(look_up)
        return {key: vector for key, vector in found.items() if np.isfinite(vector).all()}

    def put(self, rows: Sequence[tuple[bytes, Singles]]) -> None:
        """Store vectors."""
        now = time.time()
        contents = [(key, vector.tobytes()) for key, vector in rows]
        entries = [(key, content, _checksum(key, content), now) for key, content in contents]

        def store(database: sqlite3.Connection) -> None:
            database.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?, ?)", entries)
            # Delete the least recently used entries above the size limit; SQLite reuses their space.
            text = os.environ.get("DLFH_CACHE_BYTES", "")
            limit = int(text) if text.isdecimal() and len(text) < 20 else _MAX_BYTES
            (total,) = database.execute("SELECT coalesce(sum(length(vector) + 64), 0) FROM vectors").fetchone()
            if total > limit:
                sums = "SELECT key, sum(length(vector) + 64) OVER (ORDER BY used DESC, key) AS total FROM vectors"
                evicted = f"SELECT key FROM ({sums}) WHERE total > ?"
                database.execute(f"DELETE FROM vectors WHERE key IN ({evicted})", [_SHARE_KEPT * limit])

        if entries:
            self._run(store)

    def _run(self, action: Callable[[sqlite3.Connection], None]) -> None:
        """Run an action in a transaction; delete a damaged file, and ignore a file that cannot be used."""
        with suppress(InputError, OSError, sqlite3.OperationalError):  # locked for too long, disk full, no permission
            self.file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.file.exists():
                check_regular_file(self.file)
            try:
                with closing(sqlite3.connect(self.file, timeout=5)) as database, database:
                    database.execute(_TABLE)
                    action(database)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                os.unlink(self.file)


def _checksum(key: bytes, content: bytes) -> int:
    return zlib.crc32(content, zlib.crc32(key))
