"""Descriptions of images that were made before, by what is in their files: a rebuild describes nothing twice.

A cache (`dlfh.features.descriptions`) is a file in a folder of the user's. It is used where `cached` says so: by the
command line always, by Python where a program asks for it. Nothing depends on it: what is not there, or is damaged, is
described again.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dlfh._limits import check_limit, check_regular_file
from dlfh._version import __version__
from dlfh.errors import InputError
from dlfh.features.base import Featurizer, Readable

if TYPE_CHECKING:
    from dlfh.features.descriptions import DescriptionCache

__all__ = ["cached", "described"]

#: With fewer images than this a cache is not asked: questions are single pictures, and seldom asked twice.
_FEW = 8

#: After so many images what was described is kept, so that a build that is stopped goes on from there.
_BLOCK = 2048

#: Parameters that do not change what an image's description is.
_IRRELEVANT = {"verbose", "n_jobs", "batch_size", "device"}

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
    from dlfh.features.descriptions import DescriptionCache  # searching needs no database

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
