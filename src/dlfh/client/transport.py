"""Requests and what becomes of them: an answer, another try where that is safe, or one sentence."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from dlfh._optional import require
from dlfh.errors import DLFHError, InputError, ServiceError

__all__ = ["Transport", "dump"]

#: What is wrong with the request itself, and would be next time.
_WRONG = (400, 404, 413, 422)
#: Nobody is told to wait for longer than this.
_MOST_SECONDS = 30.0


class Transport:
    """Asks a service.

    Parameters
    ----------
    address : str
    token : str or None
    seconds : float
        For an answer.
    retries : int
        How often to ask again where that is safe.
    """

    def __init__(self, address: str, token: str | None, seconds: float, retries: int) -> None:
        self._httpx = require("httpx", "a client", "client")
        if not address.startswith(("http://", "https://")):
            raise InputError(f"the address of a service begins with http:// or https://, got {address!r}")
        headers = {"user-agent": "dlfh"} | ({"authorization": f"Bearer {token}"} if token else {})
        try:
            self._client = self._httpx.Client(base_url=address, headers=headers, timeout=seconds)
        except (self._httpx.InvalidURL, UnicodeError):
            raise InputError(f"{address!r} is not an address, or the token cannot be sent") from None
        self.address = address
        self._seconds = seconds
        self._retries = retries

    def close(self) -> None:
        self._client.close()

    def ask(self, method: str, path: str, *, again: bool = True, **content: Any) -> Any:
        """Return what a request gets, as JSON says it.

        Parameters
        ----------
        method, path : str
        again : bool
            Whether it may be asked twice, should nobody know what became of the first time.
        **content : Any
            As httpx takes it; ``json`` may hold NumPy's numbers.
        """
        return self._json(self.response(method, path, again=again, **content))

    def response(self, method: str, path: str, *, again: bool = True, **content: Any) -> Any:
        """Return the answer to a request, if it has one."""
        if "json" in content:
            content["content"] = dump(content.pop("json"))
            content["headers"] = {"content-type": "application/json"}
        for left in range(self._retries, -1, -1):
            try:
                response = self._client.request(method, path, **content)
            except self._httpx.HTTPError as error:
                failure = self._lost(error)
                seconds = 0.1 * 2 ** (self._retries - left) if again or _unsent(error) else None
            else:
                if response.status_code < 300:
                    return response
                failure = self._refused(response)
                # Without the lock of the collection nothing was done; what else is put off may still be done.
                may = again or response.status_code == 409
                seconds = _wait(response.headers.get("retry-after")) if may else None
            if seconds is None or not left:
                raise failure
            time.sleep(seconds)
        raise AssertionError("there is a first time")

    def _lost(self, error: Any) -> DLFHError:
        if isinstance(error, self._httpx.ConnectError | self._httpx.ConnectTimeout):
            return ServiceError(f"there is no service at {self.address}: it cannot be reached")
        if isinstance(error, self._httpx.TimeoutException):
            return ServiceError(f"the service at {self.address} did not answer within {self._seconds:g} seconds")
        return ServiceError(f"the connection to the service at {self.address} was lost: {type(error).__name__}")

    def _refused(self, response: Any) -> DLFHError:
        try:
            sentence = str(response.json()["error"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return ServiceError(f"no dlfh service is at {self.address}: it answered with {response.status_code}")
        kind = InputError if response.status_code in _WRONG else ServiceError
        return kind(sentence)

    def _json(self, response: Any) -> Any:
        try:
            return response.json()
        except (ValueError, RecursionError):
            raise ServiceError(f"no dlfh service is at {self.address}: what it answered is not JSON") from None


def dump(value: Any) -> str:
    """Return a value as JSON, with NumPy's numbers as numbers.

    Examples
    --------
    >>> dump({"k": np.int64(3)})
    '{"k": 3}'
    >>> dump({"k": {3}})
    Traceback (most recent call last):
    dlfh.errors.InputError: {3} cannot be sent to a service: it is no text, number, list or dict
    """
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except InputError:
        raise
    except (ValueError, RecursionError):
        raise InputError("a number that is sent to a service must be finite") from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise InputError(f"{value!r} cannot be sent to a service: it is no text, number, list or dict")


def _unsent(error: Exception) -> bool:
    """Tell whether a request cannot have arrived."""
    return type(error).__name__ in ("ConnectError", "ConnectTimeout", "PoolTimeout")


def _wait(stated: str | None) -> float | None:
    """Return how long a service asks to wait; None if it does not say that asking again helps."""
    return None if stated is None or not stated.isdigit() else min(float(stated), _MOST_SECONDS)
