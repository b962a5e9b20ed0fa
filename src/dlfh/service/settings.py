"""What a service is told: where it listens, who may ask, and how much."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from dlfh.errors import InputError

#: The names by which a machine calls itself.
LOOPBACK = ("127.0.0.1", "localhost", "::1")

#: A shorter token can be guessed.
_LEAST_TOKEN, _MOST_TOKEN = 16, 4096


@dataclass(frozen=True)
class Limits:
    """How much one request may ask for, and all of them together.

    Attributes
    ----------
    body_bytes : int
        Of a request with JSON.
    upload_bytes : int
        Of a request with an image, or with items to add.
    pixels : int
        Of an image.
    text : int
        Characters of a text.
    batch : int
        Queries of one request, and items to add.
    k : int
        Answers to a query.
    answers : int
        Answers to all queries of one request.
    waiting : int
        Requests that wait for an answer; one more is told to come back later.
    connections : int
        That are open at a time.
    read_seconds, answer_seconds : float
        For a request to arrive, and for its answer to be found.
    map_points : int
        Items on the map.

    Examples
    --------
    >>> Limits(k=50).k
    50
    """

    body_bytes: int = 1 << 20
    upload_bytes: int = 16 << 20
    pixels: int = 32_000_000
    text: int = 10_000
    batch: int = 100
    k: int = 1000
    answers: int = 10_000
    waiting: int = 256
    connections: int = 512
    read_seconds: float = 15.0
    answer_seconds: float = 30.0
    map_points: int = 5000


@dataclass(frozen=True)
class Settings:
    """How a collection is served.

    Attributes
    ----------
    token : str or None
        What requests must carry as ``Authorization: Bearer ...``; without one, everybody may ask.
    writable : bool
        Whether items may be added and removed; needs a token.
    hosts : tuple of str
        The names by which the service may be called, besides those of the machine itself; ``*`` for any.
    workers : int
        Threads that find answers.
    refresh_seconds : float
        How often to look whether another process changed the collection.
    drain_seconds : float
        How long connections that are open may still ask when the service is told to end.
    limits : Limits

    Examples
    --------
    >>> Settings(hosts=("search.example.org",)).writable
    False
    >>> Settings(writable=True)
    Traceback (most recent call last):
    dlfh.errors.InputError: a writable service needs a token: set DLFH_TOKEN, or name a file with --token-file
    """

    token: str | None = field(default=None, repr=False)  # never printed
    writable: bool = False
    hosts: tuple[str, ...] = ()
    workers: int = field(default_factory=lambda: max(2, min(8, os.cpu_count() or 2)))
    refresh_seconds: float = 1.0
    drain_seconds: float = 1.0
    limits: Limits = field(default_factory=Limits)

    def __post_init__(self) -> None:
        if self.writable and self.token is None:
            raise InputError("a writable service needs a token: set DLFH_TOKEN, or name a file with --token-file")
        if self.token is not None:
            _check_token(self.token)


def _check_token(token: str) -> None:
    if not _LEAST_TOKEN <= len(token) <= _MOST_TOKEN or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(
            f"the token must have {_LEAST_TOKEN} or more printable ASCII characters and no spaces, such as "
            "python -c 'import secrets; print(secrets.token_urlsafe())' prints"
        )


def read_token(file: Path | None) -> str | None:
    """Return the token: what a file holds, or what the environment variable ``DLFH_TOKEN`` says; None for none."""
    if file is None:
        return os.environ.get("DLFH_TOKEN") or None
    try:
        with open(file, encoding="utf-8") as opened:
            return opened.read(_MOST_TOKEN + 2).strip()
    except (OSError, ValueError) as error:
        raise InputError(f"the token cannot be read from {file}: {getattr(error, 'strerror', None) or error}") from None
