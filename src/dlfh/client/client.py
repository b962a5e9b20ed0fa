"""A client with the methods of a collection."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from io import BytesIO
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import numpy as np
import scipy.sparse as sp

from dlfh._validation import check_choice
from dlfh.client.transport import Transport, dump
from dlfh.collection import SearchOptions
from dlfh.collection.query import ResultItem, SearchResult, is_single, issue_warnings
from dlfh.collection.suggesting import Suggestion, Suggestions
from dlfh.collection.understanding import Understanding
from dlfh.datasets import Items
from dlfh.datasets.problem import Problem
from dlfh.errors import InputError, ServiceError
from dlfh.features.images import read_image
from dlfh.index.items import Item

_MAX_LABELLED = 1000  # items in a request that changes labels
_OVERHEAD = 4096  # maximum size of the JSON around the values of a request, in bytes


class Client:
    """A served collection, with the methods of `dlfh.Collection`, over HTTP.

    Results are the same, except that the paths of images are omitted. Invalid calls raise `InputError`; failures of the
    service raise `ServiceError`. If the service is busy or the connection is lost, requests are repeated, unless that
    could apply a change twice.

    Parameters
    ----------
    address : str
        For example ``http://127.0.0.1:8000``.
    token : str, optional
        A key of the service, with a role that permits the requests.
    timeout : float
        Seconds to wait for a response.
    retries : int
        Maximum number of retries of a request.

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
        self._known: tuple[dict[str, str], dict[str, int]] | None = None  # modalities and limits

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._transport.address!r})"

    def about(self) -> dict[str, Any]:
        """Return a description of the collection: contents, training, filters, and the limits of the service."""
        about = self._transport.json("GET", "/v1/collection")
        try:
            self._known = {name: modality["takes"] for name, modality in about["modalities"].items()}, about["limits"]
        except (KeyError, TypeError, AttributeError):
            raise ServiceError(f"{self._transport.address} is not a dlfh service") from None
        return dict(about)

    def _facts(self) -> tuple[dict[str, str], dict[str, int]]:
        """Return the kind of values that each modality takes, and the limits of the service; both are cached."""
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
            yield from (_read_item(item, [*self._facts()[0]]) for item in page["items"])

    def _pages(self, method: str, path: str, request: Callable[[int], dict[str, Any]]) -> Iterator[Any]:
        """Yield the pages of a response, all from one state; ``request(start)`` returns the content of each request."""
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
        """Return an item by its id, like `Collection.get`."""
        return _read_item(self._transport.json("GET", _path(identifier)), [*self._facts()[0]])

    def thumbnail(self, identifier: str) -> bytes:
        """Return the thumbnail of an item, in WebP."""
        content: bytes = self._transport.response("GET", _path(identifier) + "/thumbnail").content
        return content

    def search(
        self, modality: str, values: Any, k: int = 10, *, text: str | None = None, literal: bool = False, **options: Any
    ) -> Any:
        """Find the items that match a text, an image or a vector, like `Collection.search`.

        A batch is sent in as few requests as the service allows; images go one by one. Each request is answered from
        one state of the collection.

        Parameters
        ----------
        modality, values, k, text, literal
            As for `Collection.search`.
        **options
            Further fields of `dlfh.collection.SearchOptions`. `about` lists the labels and columns for ``where``.

        Returns
        -------
        SearchResult, or list of SearchResult
        """
        known, _ = self._facts()
        check_choice(modality, "modality", tuple(known))
        given = SearchOptions(k=k, **options)
        takes = known[modality]
        single = is_single(values, takes)
        batch = [values] if single else values if sp.issparse(values) else list(values)
        more: dict[str, Any] = {} if text is None else {"text": text}
        if literal and (text is not None or takes == "texts"):
            more["literal"] = True
        if takes == "images":
            form = {"options": dump(_changed(given) | {"modality": modality} | more)}
            files = ({"image": _encode_image(image)} for image in batch)
            found = (self._transport.json("POST", "/v1/search/image", data=form, files=each) for each in files)
            responses = [response for each in found for response in each["results"]]
        else:
            kind, rows = ("text", batch) if takes == "texts" else ("vector", _encode_vectors(batch))
            if text is not None and kind == "text":
                raise InputError(f"text is for images and vectors: add its words to the text of {modality!r}")
            responses = self._search([{kind: value, "modality": modality, **more} for value in rows], given)
        results = [_read_result(response) for response in responses]
        issue_warnings(results)
        return results[0] if single else results

    def similar(self, identifier: str, k: int = 10, *, text: str | None = None, **options: Any) -> SearchResult:
        """Find the items most similar to an item of the collection, as `Collection.similar`."""
        query = {"id": identifier} if text is None else {"id": identifier, "text": text}
        (response,) = self._search([query], SearchOptions(k=k, **options))
        return _read_result(response)

    def _search(self, queries: list[dict[str, Any]], options: SearchOptions) -> list[Any]:
        (_, limits), sent = self._facts(), _changed(options)
        most = 1 if options.radius is not None else min(limits["batch"], limits["answers"] // options.k)
        max_bytes = int(limits["body_bytes"]) - _OVERHEAD - len(dump(sent))
        responses = []
        for part in _split(queries, max(1, int(most)), max(1, max_bytes)):
            body = part[0] if len(part) == 1 else {"queries": part}
            responses += self._transport.json("POST", "/v1/search", json=body | sent)["results"]
        return responses

    def suggest(
        self,
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        *,
        precision: float = 0.8,
        k: int = 10,
        missing: bool = False,
    ) -> Suggestions:
        """Suggest labels for items that have none, like `Collection.suggest`."""
        asked = {"ids": ids, "where": where, "precision": precision, "k": k, "missing": missing}
        found: list[Suggestion] = []
        for page in self._pages("POST", "/v1/suggest", lambda start: {"json": asked | {"start": start}}):
            found += [Suggestion(**suggestion) for suggestion in page["suggestions"]]
            about = {name: page[name] for name in ("threshold", "precision", "recall", "n_checked")}
        return Suggestions(found, **about)

    def add(self, items: Items, *, update: bool = False) -> list[Problem]:
        """Add items to a writable service, like `Collection.add`.

        Each request adds as many items as the service allows, all of them or, on an error, none. The service stores the
        images.

        Parameters
        ----------
        items : Items
            With explicit ids.
        update : bool
            Whether items with an existing id replace the old ones; otherwise they are skipped.

        Returns
        -------
        list of Problem
            Items that were skipped.
        """
        takes, limits = self._facts()
        skipped: set[str] = set()
        rows = _encode_items(items, takes)
        for part in _split(rows, int(limits["batch"]), int(limits["upload_bytes"]) - _OVERHEAD):
            # Without ``update``, a repeated request would skip and report the items that it added the first time.
            done = self._transport.json("POST", "/v1/items", repeatable=update, json={"items": part, "update": update})
            skipped.update(done["skipped"])
        return [
            Problem(place, "item", f"id {identifier!r} is already in the collection")
            for identifier, place in zip(items.ids, items.places, strict=True)
            if identifier in skipped
        ]

    def label(self, ids: Sequence[str], *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> int:
        """Add and remove labels of items, like `Collection.label`; a request changes at most a thousand items."""
        _, limits = self._facts()
        parts = _split(list(ids), _MAX_LABELLED, int(limits["body_bytes"]) - _OVERHEAD)
        bodies = ({"ids": part, "add": [*add], "remove": [*remove]} for part in parts)
        return sum(self._transport.json("POST", "/v1/label", json=body)["replaced"] for body in bodies)

    def label_next(self, n: int = 20) -> list[str]:
        """Return the ids of items to label next, like `Collection.label_next`."""
        return [item["id"] for item in self._transport.json("GET", "/v1/label/next", params={"n": n})["items"]]

    def mark(self, modality: str, value: Any, *, relevant: Sequence[str] = (), irrelevant: Sequence[str] = ()) -> int:
        """Keep which results of a query are right or wrong, like `Collection.mark`."""
        takes = self._facts()[0]
        check_choice(modality, "modality", tuple(takes))
        if not is_single(value, takes[modality]):
            raise InputError("marks are kept for one query at a time: pass a single text, image or vector")
        if takes[modality] == "texts":
            query = {"text": value}
        elif takes[modality] == "images":
            files = {"image": _encode_image(value)}
            query = {"image": self._transport.json("POST", "/v1/queries/image", files=files)["key"]}
        else:
            query = {"vector": _encode_vectors([value])[0]}
        marks = {"relevant": [*relevant], "irrelevant": [*irrelevant]}
        return int(self._transport.json("POST", "/v1/feedback", json=query | {"modality": modality} | marks)["queries"])

    def relearn(self) -> dict[str, Any]:
        """Let the service learn again from all labels, which may take minutes; needs a key with the role admin."""
        return dict(self._transport.json("POST", "/v1/relearn", repeatable=False, timeout=None))

    def complete(self, text: str, n: int = 10) -> list[str]:
        """Return labels, then titles of items, in which a word starts with a text."""
        found = self._transport.json("GET", "/v1/complete", params={"q": text, "n": n})["completions"]
        return [each["text"] for each in found]

    def remove(self, ids: Sequence[str]) -> None:
        """Remove items; each request removes as many as the service allows, or none if an id is unknown."""
        _, limits = self._facts()
        for part in _split(list(ids), int(limits["batch"]), int(limits["body_bytes"]) - _OVERHEAD):
            self._transport.json("POST", "/v1/remove", repeatable=False, json={"ids": part})


def _changed(options: SearchOptions) -> dict[str, Any]:
    """Return the options that differ from their defaults; ``limit`` is set by the service."""
    values = {field.name: (getattr(options, field.name), field.default) for field in fields(options)}
    return {name: value for name, (value, default) in values.items() if value != default and name != "limit"}


def _path(identifier: str) -> str:
    if not isinstance(identifier, str):
        raise InputError(f"an id must be a string, got {identifier!r}")
    escaped = quote(identifier, safe="")
    return f"/v1/items/{escaped.replace('.', '%2E') if escaped in ('.', '..') else escaped}"


def _encode_image(value: Any) -> bytes:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (str, os.PathLike)):
        try:
            return Path(value).read_bytes()
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise InputError(f"{str(value)!r} cannot be read: {reason}") from None
    from PIL import Image

    content = BytesIO()
    Image.fromarray(read_image(value)).save(content, "PNG", compress_level=1)
    return content.getvalue()


def _encode_vectors(values: Any) -> list[list[float]]:
    try:
        array = np.asarray(values.toarray() if sp.issparse(values) else values, np.float64)
    except (TypeError, ValueError):
        raise InputError("vectors must be an array of numbers, or lists of the same length") from None
    return [row.tolist() for row in np.atleast_2d(array)]


def _encode_items(items: Items, takes: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    unknown = next((name for name in items.modalities if name not in takes), None)
    if unknown is not None:
        raise InputError(f"unknown modality {unknown!r}: the collection has {', '.join(map(repr, takes))}")
    if not items.named:
        raise InputError("the items need ids: row numbers would clash with the ids of other items")
    for row, identifier in enumerate(items.ids):
        encoded: dict[str, Any] = {"id": identifier}
        for name, values in items.modalities.items():
            value = values[[row]] if sp.issparse(values) else values[row]
            if takes[name] == "vectors":
                encoded.setdefault("vectors", {})[name] = _encode_vectors(value)[0]
            elif value is not None and takes[name] == "texts":
                encoded.setdefault("texts", {})[name] = value
            elif value is not None:
                encoded["image"] = base64.b64encode(_encode_image(value)).decode()
        if items.labels is not None and items.labels[row]:
            encoded["labels"] = items.labels[row]
        if items.metadata[row].get("columns"):
            encoded["columns"] = items.metadata[row]["columns"]
        yield encoded


def _split(values: Any, max_values: int, max_bytes: int) -> Iterator[list[Any]]:
    """Split values into lists of limited length and size in JSON; each list has at least one value."""
    part: list[Any] = []
    n_bytes = 0
    for value in values:
        size = len(dump(value)) + 2
        if part and (len(part) >= max_values or n_bytes + size > max_bytes):
            yield part
            part, n_bytes = [], 0
        part.append(value)
        n_bytes += size
    if part:
        yield part


def _read_result(response: Mapping[str, Any]) -> SearchResult:
    names = ("rank", "id", "probability", "n_equal", "hamming_distance", "distance", "learned", "code")
    answers = response["answers"]
    items = [ResultItem(metadata=_metadata(each), **{name: each[name] for name in names}) for each in answers]
    about = {name: response["query"][name] for name in ("code", "modality", "match")}
    about["modalities"] = tuple(response["query"]["modalities"])
    understood, understanding = response["understanding"], None
    if understood is not None:
        alternatives = {word: tuple(others) for word, others in understood["alternatives"].items()}
        lists = {name: tuple(understood[name]) for name in ("excluded", "unknown")}
        understanding = Understanding(**understood | lists | {"alternatives": alternatives})
    notes = {"warning": response["warning"], "notes": tuple(response["notes"])}
    return SearchResult(items, understanding=understanding, **about, **notes)


def _read_item(item: Mapping[str, Any], modalities: Sequence[str]) -> Item:
    codes, states = {}, dict.fromkeys(modalities, "absent")
    for name, code in item["codes"].items():
        codes[name] = np.frombuffer(bytearray.fromhex(code["code"]), np.uint8)
        states[name] = "learned" if code["learned"] else "hashed"
    return Item(item["id"], _metadata(item), codes, states)


def _metadata(item: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"labels": item["labels"]} if item["labels"] else {}
    return item["metadata"] | labels
