"""Settings and limits of a service."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field

from dlfh.errors import InputError

LOOPBACK = ("127.0.0.1", "localhost", "::1")  # host names of the local machine
_MIN_TOKEN, _MAX_TOKEN = 16, 4096  # minimum and maximum length of a token; a shorter one could be guessed
_ORIGIN = re.compile(r"\*|https?://[^/\s]+")
_TOKEN = re.compile(rf"[!-~]{{{_MIN_TOKEN},{_MAX_TOKEN}}}")


@dataclass(frozen=True)
class Limits:
    """Limits of single requests and of the service.

    body_bytes: Largest JSON request.
    upload_bytes: Largest request with an image or with items to add.
    pixels: Largest image.
    text: Longest text, in characters.
    batch: Queries in a search, and items in a change.
    values: Values in a JSON request, such as the numbers in vectors, estimated by counting commas.
    k: Results per query.
    answers: Total number of results of all queries in a search.
    waiting: Requests in the queue; further requests get status 503.
    connections: Open connections.
    read_seconds, answer_seconds: Time for a request to arrive, and for its response to be computed.
    map_points: Points on the map; larger collections are sampled.
    """

    body_bytes: int = 1 << 20
    upload_bytes: int = 16 << 20
    pixels: int = 32_000_000
    text: int = 10_000
    batch: int = 100
    values: int = 500_000
    k: int = 1000
    answers: int = 10_000
    waiting: int = 256
    connections: int = 512
    read_seconds: float = 15.0
    answer_seconds: float = 30.0
    map_points: int = 5000


@dataclass(frozen=True)
class Settings:
    """Settings of a service.

    Attributes
    ----------
    token : str or None
        A key with the role admin, sent as ``Authorization: Bearer KEY``. By default, no key is required.
    keys : path or None
        File of further keys (`dlfh key`); it is read again whenever it changes.
    public : bool
        Whether clients without a key may read; by default, they may not if there are keys.
    writable : bool
        Whether items may be changed; requires keys.
    origins : tuple of str
        Origins of web pages that may use the service, such as ``https://shop.example.org``; ``*`` for any.
    hosts : tuple of str
        Host names that requests may use, besides the names of the local machine; ``*`` for any.
    workers : int
        Number of search threads.
    refresh_seconds : float
        Interval between checks for changes that other processes make to the collection.
    drain_seconds : float
        Time for open connections to send further requests during shutdown.
    stop_seconds : float
        Time for requests to be answered during shutdown; the others get status 503.
    pictures : tuple of path
        Folders whose pictures may be shown, besides the collection's folder.
    queries : path or None
        Folder in which uploaded query images are kept, so that links to searches stay valid after a restart; by
        default, a temporary one.
    originals : bool
        Whether the original files of pictures may be downloaded, with everything that cameras store in them.
    title : str or None
        Column with the titles of items; by default, the choice made when the collection was built.
    limits : Limits
        Such as ``dataclasses.replace(Settings().limits, k=50)``.

    Examples
    --------
    >>> Settings(hosts=("search.example.org",)).writable
    False
    >>> Settings(writable=True)
    Traceback (most recent call last):
    dlfh.errors.InputError: a writable service needs keys: create one with `dlfh key` and use --keys, or set DLFH_TOKEN
    """

    token: str | None = field(default=None, repr=False)  # never printed
    keys: str | os.PathLike[str] | None = None
    public: bool = False
    writable: bool = False
    origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    workers: int = field(default_factory=lambda: max(2, min(8, os.cpu_count() or 2)))
    refresh_seconds: float = 1.0
    drain_seconds: float = 1.0
    stop_seconds: float = 4.0
    pictures: tuple[str | os.PathLike[str], ...] = ()
    queries: str | os.PathLike[str] | None = None
    originals: bool = False
    title: str | None = None
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.writable and self.token is None and self.keys is None:
            message = "a writable service needs keys: create one with `dlfh key` and use --keys, or set DLFH_TOKEN"
            raise InputError(message)
        wrong = next((name for name in self.origins if not _ORIGIN.fullmatch(name)), None)
        if wrong is not None:
            raise InputError(f"an origin looks like https://shop.example.org, without a path, got {wrong!r}")
        if self.token is not None and not _TOKEN.fullmatch(self.token):
            problem = f"the token must have {_MIN_TOKEN} or more printable ASCII characters and no spaces"
            command = "python -c 'import secrets; print(secrets.token_urlsafe())'"
            raise InputError(f"{problem}: create one with {command}")
