"""HTTP requests: responses, retries and errors."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from dlfh._imports import require
from dlfh.errors import DLFHError, InputError, ServiceError

_INVALID = (400, 404, 413, 422)  # statuses that mean that the request is invalid
_MAX_SECONDS = 30.0  # longest delay before a retry, whatever the service asks for


class Transport:
    """Sends requests to a service, with a timeout; repeatable requests are repeated up to ``retries`` times."""

    def __init__(self, address: str, token: str | None, seconds: float, retries: int) -> None:
        self._httpx = require("httpx", "a client", "client")
        if not address.startswith(("http://", "https://")):
            raise InputError(f"the address of a service must start with http:// or https://, got {address!r}")
        headers = {"user-agent": "dlfh"} | ({"authorization": f"Bearer {token}"} if token else {})
        try:
            self._client = self._httpx.Client(base_url=address, headers=headers, timeout=seconds)
        except (self._httpx.InvalidURL, UnicodeError):
            raise InputError(f"{address!r} is not a valid address, or the token is not ASCII") from None
        self.address, self._seconds, self._retries = address, seconds, retries

    def close(self) -> None:
        self._client.close()

    def json(self, method: str, path: str, *, repeatable: bool = True, **content: Any) -> Any:
        """Return the decoded JSON of a response; parameters as for `response`."""
        response = self.response(method, path, repeatable=repeatable, **content)
        try:
            return response.json()
        except (ValueError, RecursionError):
            raise ServiceError(f"{self.address} is not a dlfh service: its response is not JSON") from None

    def response(self, method: str, path: str, *, repeatable: bool = True, **content: Any) -> Any:
        """Send a request with the arguments of ``httpx.Client.request``; ``json`` may contain NumPy numbers.

        A ``repeatable`` request may be sent again if it is unknown whether it succeeded.
        """
        if "json" in content:
            content["content"] = dump(content.pop("json"))
            content["headers"] = {"content-type": "application/json"}
        attempt = 0
        while True:
            try:
                response = self._client.request(method, path, **content)
            except self._httpx.HTTPError as error:
                failure = self._connection_error(error)
                is_unsent = type(error).__name__ in ("ConnectError", "ConnectTimeout", "PoolTimeout")
                delay = 0.1 * 2**attempt if repeatable or is_unsent else None
            else:
                if response.status_code < 300:
                    return response
                failure = self._response_error(response)
                # 409: another process has the lock; nothing was changed. After other errors, that is unknown.
                may_repeat = repeatable or response.status_code == 409
                after = response.headers.get("retry-after", "")  # in seconds
                delay = min(float(after), _MAX_SECONDS) if may_repeat and after.isdigit() else None
            if delay is None or attempt == self._retries:
                raise failure
            attempt += 1
            time.sleep(delay)

    def _connection_error(self, error: Any) -> DLFHError:
        if isinstance(error, self._httpx.ConnectError | self._httpx.ConnectTimeout):
            return ServiceError(f"cannot connect to a service at {self.address}")
        if isinstance(error, self._httpx.TimeoutException):
            return ServiceError(f"the service at {self.address} did not respond within {self._seconds:g} seconds")
        return ServiceError(f"lost the connection to the service at {self.address}: {type(error).__name__}")

    def _response_error(self, response: Any) -> DLFHError:
        try:
            message = str(response.json()["error"])
        except (ValueError, KeyError, TypeError, RecursionError):
            return ServiceError(f"{self.address} is not a dlfh service: it responded with {response.status_code}")
        kind = InputError if response.status_code in _INVALID else ServiceError
        return kind(message)


def dump(value: Any) -> str:
    """Return a value as JSON, with NumPy numbers converted to Python numbers."""
    try:
        return json.dumps(value, default=_plain, allow_nan=False)
    except InputError:
        raise
    except (ValueError, RecursionError):
        raise InputError("numbers that are sent to a service must be finite") from None


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise InputError(f"{value!r} cannot be sent to a service: expected a string, number, list or dict")
