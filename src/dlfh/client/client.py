"""A client with the methods of a collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any, Self
from urllib.parse import quote

import scipy.sparse as sp

from dlfh._validation import check_choice
from dlfh.client.transport import Transport, dump
from dlfh.client.values import encode_image, encode_items, encode_vectors, read_item, read_result, split
from dlfh.collection import SearchOptions
from dlfh.collection.query import SearchResult, is_single, issue_warnings
from dlfh.collection.suggesting import Suggestion, Suggestions
from dlfh.datasets import Items
from dlfh.datasets.problem import Problem
from dlfh.errors import InputError, ServiceError
from dlfh.index.items import Item

#: Bytes of JSON around the values of a request.
_OVERHEAD = 4096


class Client:
    """A served collection, with the methods of `dlfh.Collection`, over HTTP.

    Results are the same, except that the paths of images are not disclosed. An invalid call raises `InputError`, a
    failure of the service `ServiceError`. Requests that are safe to repeat are repeated when the service is busy or the
    connection is lost.

    Parameters
    ----------
    address : str
        For example ``http://127.0.0.1:8000``.
    token : str, optional
        The token that the service requires.
    timeout : float
        Seconds to wait for a response.
    retries : int
        Number of times to repeat a request.

    Examples
    --------
    >>> from dlfh.client import Client
    >>> with Client("http://127.0.0.1:9", retries=0) as collection:
    ...     collection.search("text", "a red shoe")
    Traceback (most recent call last):
    dlfh.errors.ServiceError: cannot connect to a service at http://127.0.0.1:9
    """

    def __init__(self, address: str, *, token: str | None = None, timeout: float = 60.0, retries: int = 3) -> None:
        self._transport = Transport(address, token, timeout, retries)
        self._known: tuple[dict[str, str], dict[str, int]] | None = None

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._transport.address!r})"

    # Reading

    def about(self) -> dict[str, Any]:
        """Return a description of the collection: contents, training, filters, and the limits of the service."""
        about = self._transport.json("GET", "/v1/collection")
        try:
            self._known = {name: modality["takes"] for name, modality in about["modalities"].items()}, about["limits"]
        except (KeyError, TypeError, AttributeError):
            raise ServiceError(f"{self._transport.address} is not a dlfh service") from None
        return dict(about)

    @property
    def _takes(self) -> dict[str, str]:
        """The kind of values that each modality takes."""
        return self._facts()[0]

    @property
    def _limits(self) -> dict[str, int]:
        return self._facts()[1]

    def _facts(self) -> tuple[dict[str, str], dict[str, int]]:
        """Return the modalities and limits, requested once."""
        if self._known is None:
            self.about()
        assert self._known is not None
        return self._known

    def __len__(self) -> int:
        return int(self.about()["items"])

    def __contains__(self, identifier: object) -> bool:
        if not isinstance(identifier, str) or not identifier:
            return False
        try:
            self.get(identifier)
        except InputError:
            return False
        return True

    def __iter__(self) -> Iterator[Item]:
        """Yield the items in insertion order; raise ServiceError if the collection changes meanwhile."""
        for page in self._pages("GET", "/v1/items", lambda start: {"params": {"start": start}}):
            yield from (read_item(item, [*self._takes]) for item in page["items"])

    def _pages(self, method: str, path: str, request: Callable[[int], dict[str, Any]]) -> Iterator[Any]:
        """Yield the pages of a response, all of one state; ``request`` returns arguments, given the start."""
        start: int | None = 0
        state = None
        while start is not None:
            page = self._transport.json(method, path, **request(start))
            if state not in (None, page["state"]):
                raise ServiceError("the collection changed while its items were read: start again")
            state = page["state"]
            yield page
            start = page["next"]

    def get(self, identifier: str) -> Item:
        """Return an item by its id, as `Collection.get`."""
        return read_item(self._transport.json("GET", _path(identifier)), [*self._takes])

    def thumbnail(self, identifier: str) -> bytes:
        """Return the thumbnail of an item, in WebP."""
        content: bytes = self._transport.response("GET", _path(identifier) + "/thumbnail").content
        return content

    # Searching

    def search(self, modality: str, values: Any, k: int = 10, *, literal: bool = False, **options: Any) -> Any:
        """Find the items that match a text, an image or a vector, as `Collection.search`.

        A batch is sent in as few requests as the service allows, and images one by one. Each request is answered from
        one state of the collection.

        Parameters
        ----------
        modality, values, k, literal
            As for `Collection.search`.
        **options
            Further fields of `dlfh.collection.SearchOptions`. `about` lists the labels and columns for ``where``.

        Returns
        -------
        SearchResult, or list of SearchResult
        """
        check_choice(modality, "modality", tuple(self._takes))
        given = SearchOptions(k=k, **options)
        takes = self._takes[modality]
        single = is_single(values, takes)
        batch = [values] if single else values if sp.issparse(values) else list(values)
        if takes == "images":
            responses = [self._search_by_image(modality, image, given) for image in batch]
        else:
            kind, rows = ("text", batch) if takes == "texts" else ("vector", encode_vectors(batch))
            more = {"literal": True} if literal and kind == "text" else {}
            responses = self._search([{kind: value, "modality": modality, **more} for value in rows], given)
        results = [read_result(response) for response in responses]
        issue_warnings(results)
        return results[0] if single else results

    def similar(self, identifier: str, k: int = 10, **options: Any) -> SearchResult:
        """Find the items most similar to an item of the collection, as `Collection.similar`."""
        (response,) = self._search([{"id": identifier}], SearchOptions(k=k, **options))
        return read_result(response)

    def _search(self, queries: list[dict[str, Any]], options: SearchOptions) -> list[Any]:
        limits, sent = self._limits, _changed(options)
        most = 1 if options.radius is not None else min(limits["batch"], limits["answers"] // options.k)
        max_bytes = int(limits["body_bytes"]) - _OVERHEAD - len(dump(sent))
        responses = []
        for part in split(queries, max(1, int(most)), max(1, max_bytes)):
            body = part[0] if len(part) == 1 else {"queries": part}
            responses += self._transport.json("POST", "/v1/search", json=body | sent)["results"]
        return responses

    def _search_by_image(self, modality: str, image: Any, options: SearchOptions) -> Any:
        form = {"options": dump(_changed(options) | {"modality": modality})}
        files = {"image": encode_image(image)}
        (response,) = self._transport.json("POST", "/v1/search/image", data=form, files=files)["results"]
        return response

    # Suggesting labels

    def suggest(
        self,
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        *,
        precision: float = 0.8,
        k: int = 10,
        missing: bool = False,
    ) -> Suggestions:
        """Suggest labels for items that have none, as `Collection.suggest`."""
        asked = {"ids": ids, "where": where, "precision": precision, "k": k, "missing": missing}
        found: list[Suggestion] = []
        for page in self._pages("POST", "/v1/suggest", lambda start: {"json": asked | {"start": start}}):
            found += [Suggestion(**suggestion) for suggestion in page["suggestions"]]
            about = {name: page[name] for name in ("threshold", "precision", "recall", "n_checked")}
        return Suggestions(found, **about)

    # Changing

    def add(self, items: Items, *, update: bool = False) -> list[Problem]:
        """Add items, as `Collection.add`, to a writable service.

        Each request adds as many items as the service allows, all of them or, on an error, none. The service stores the
        images.

        Parameters
        ----------
        items : Items
            With explicit ids.
        update : bool
            Whether items with an existing id replace the old ones; otherwise they are left out.

        Returns
        -------
        list of Problem
            Items that were left out.
        """
        limits = self._limits
        skipped: set[str] = set()
        rows = encode_items(items, self._takes)
        for part in split(rows, int(limits["batch"]), int(limits["upload_bytes"]) - _OVERHEAD):
            # If repeated, items that were added the first time would count as left out.
            done = self._transport.json("POST", "/v1/items", repeatable=update, json={"items": part, "update": update})
            skipped.update(done["skipped"])
        return [
            Problem(place, "item", f"id {identifier!r} is already in the collection")
            for identifier, place in zip(items.ids, items.places, strict=True)
            if identifier in skipped
        ]

    def remove(self, ids: Sequence[str]) -> None:
        """Remove items; each request removes as many as the service allows, or none if an id is unknown."""
        for part in split(list(ids), int(self._limits["batch"]), int(self._limits["body_bytes"]) - _OVERHEAD):
            self._transport.json("POST", "/v1/remove", repeatable=False, json={"ids": part})


def _changed(options: SearchOptions) -> dict[str, Any]:
    """Return the options that differ from their defaults; the service sets its own limit."""
    values = {field.name: (getattr(options, field.name), field.default) for field in fields(options)}
    return {name: value for name, (value, default) in values.items() if value != default and name != "limit"}


def _path(identifier: str) -> str:
    """Return the path of an item's URL."""
    if not isinstance(identifier, str):
        raise InputError(f"an id must be a string, got {identifier!r}")
    escaped = quote(identifier, safe="")
    return f"/v1/items/{escaped.replace('.', '%2E') if escaped in ('.', '..') else escaped}"
