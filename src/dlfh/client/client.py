"""A collection behind a service, asked and changed as one in a folder is."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import scipy.sparse as sp

from dlfh._validation import check_choice
from dlfh.client.transport import Transport, dump
from dlfh.client.values import as_found, as_image, as_item, as_vectors, item_rows, parts
from dlfh.collection import SearchResult
from dlfh.collection.queries import is_single
from dlfh.datasets import Items
from dlfh.datasets.problem import Problem
from dlfh.errors import DataWarning, InputError, ServiceError
from dlfh.index.items import Item

__all__ = ["Client"]

#: What JSON has around values, in bytes.
_AROUND = 4096


class Client:
    """The collection that a service has: `dlfh.Collection`'s calls, over HTTP.

    What they find is the same, but for the paths of images: where these are is the service's business. A call that
    fails raises `InputError` if something is wrong with what was asked, and `ServiceError` if with the service, each
    with one sentence. What is safe to be asked twice is asked again when the service is busy or the connection is lost.

    Parameters
    ----------
    address : str
        Such as ``http://127.0.0.1:8000``.
    token : str, optional
        That the service asks for.
    timeout : float
        Seconds to wait for an answer.
    retries : int
        How often to ask again.

    Examples
    --------
    >>> from dlfh.client import Client
    >>> with Client("http://127.0.0.1:9", retries=0) as collection:
    ...     collection.search("text", "a red shoe")
    Traceback (most recent call last):
    dlfh.errors.ServiceError: there is no service at http://127.0.0.1:9: it cannot be reached
    """

    def __init__(self, address: str, *, token: str | None = None, timeout: float = 60.0, retries: int = 3) -> None:
        self._transport = Transport(address, token, timeout, retries)
        self._known: tuple[dict[str, str], dict[str, int]] | None = None

    # Making and opening

    def close(self) -> None:
        """Let go of the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self._transport.address!r})"

    # Looking

    def about(self) -> dict[str, Any]:
        """Return what the collection holds, how its codes were learned, what to filter by, and the service's limits."""
        about = self._transport.ask("GET", "/v1/collection")
        try:
            self._known = {name: own["takes"] for name, own in about["modalities"].items()}, about["limits"]
        except (KeyError, TypeError, AttributeError):
            raise ServiceError(f"no dlfh service is at {self._transport.address}") from None
        return dict(about)

    @property
    def _takes(self) -> dict[str, str]:
        """What each modality takes."""
        return self._facts()[0]

    @property
    def _limits(self) -> dict[str, int]:
        return self._facts()[1]

    def _facts(self) -> tuple[dict[str, str], dict[str, int]]:
        """Return what modalities take, and how much the service does; asked for once."""
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
        """Yield the items, in the order in which they were added; ServiceError if the collection changes meanwhile."""
        start: int | None = 0
        state = None
        while start is not None:
            page = self._transport.ask("GET", "/v1/items", params={"start": start})
            if state not in (None, page["state"]):
                raise ServiceError("the collection changed while its items were read: begin again")
            state = page["state"]
            yield from (as_item(item, [*self._takes]) for item in page["items"])
            start = page["next"]

    def get(self, identifier: str) -> Item:
        """Return an item by its id, as `Collection.get`."""
        return as_item(self._transport.ask("GET", _address(identifier)), [*self._takes])

    def thumbnail(self, identifier: str) -> bytes:
        """Return the small picture of an item, in WebP."""
        content: bytes = self._transport.response("GET", _address(identifier) + "/thumbnail").content
        return content

    # Asking

    def search(
        self,
        modality: str,
        values: Any,
        k: int = 10,
        *,
        modalities: str | Sequence[str] | None = None,
        match: str | None = None,
        ranking: str | None = None,
        hashed_only: bool = False,
        min_probability: float | None = None,
        radius: int | None = None,
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Any:
        """Find the items that a text, an image or a vector asks for, as `Collection.search`.

        Several values are asked in as few requests as the service allows, and images one by one; each request is
        answered from one state of the collection.

        Parameters
        ----------
        modality, values, k, modalities, match, ranking, hashed_only, min_probability, radius, ids
            As for `Collection.search`.
        where : dict, optional
            What found items have: of each label or column, a value or one of several. `about` says which there are.

        Returns
        -------
        SearchResult, or list of SearchResult
        """
        check_choice(modality, "modality", tuple(self._takes))
        options = {
            "k": k,
            "modalities": modalities if modalities is None or isinstance(modalities, str) else list(modalities),
            "match": match,
            "ranking": ranking,
            "hashed_only": hashed_only,
            "min_probability": min_probability,
            "radius": radius,
            "ids": ids if ids is None else list(ids),
            "where": {} if where is None else dict(where),
        }
        takes = self._takes[modality]
        single = is_single(values, takes)
        batch = [values] if single else values
        if not sp.issparse(batch) and not len(batch):
            return []
        if takes == "images":
            results = [self._ask_by_image(modality, image, options) for image in batch]
        else:
            kind, own = ("text", batch) if takes == "texts" else ("vector", as_vectors(batch))
            results = self._ask([{kind: value, "modality": modality} for value in own], options)
        self._warn(results, batch)
        found = [as_found(result) for result in results]
        return found[0] if single else found

    def similar(
        self,
        identifier: str,
        k: int = 10,
        *,
        modalities: str | None = None,
        hashed_only: bool = False,
        radius: int | None = None,
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> SearchResult:
        """Find items like one of the collection, itself excluded, as `Collection.similar`."""
        options = {
            "k": k,
            "modalities": modalities,
            "hashed_only": hashed_only,
            "radius": radius,
            "ids": ids if ids is None else list(ids),
            "where": {} if where is None else dict(where),
        }
        (result,) = self._ask([{"id": identifier}], options)
        return as_found(result)

    def _ask(self, queries: list[dict[str, Any]], options: dict[str, Any]) -> list[Any]:
        limits, k = self._limits, options["k"]
        most = int(min(limits["batch"], limits["answers"] // k if isinstance(k, int) and k > 0 else 1))
        if options["radius"] is not None:
            most = 1
        around = _AROUND + len(dump(options))
        results = []
        for some in parts(queries, max(1, most), max(1, int(limits["body_bytes"]) - around)):
            asked = some[0] if len(some) == 1 else {"queries": some}
            results += self._transport.ask("POST", "/v1/search", json=asked | options)["results"]
        return results

    def _ask_by_image(self, modality: str, image: Any, options: dict[str, Any]) -> Any:
        asked = {"options": dump(options | {"modality": modality})}
        files = {"image": as_image(image)}
        (result,) = self._transport.ask("POST", "/v1/search/image", data=asked, files=files)["results"]
        return result

    def _warn(self, results: Sequence[Any], values: Any) -> None:
        """Warn of queries that say nothing."""
        said = [row for row, result in enumerate(results) if result["warning"]]
        if said:
            others = f" and {len(said) - 1} more" if len(said) > 1 else ""
            warnings.warn(f"{results[said[0]]['warning']}: {values[said[0]]!r}{others}", DataWarning, stacklevel=3)

    # Changing

    def add(self, items: Items, *, update: bool = False) -> list[Problem]:
        """Add items, as `Collection.add`; the service must be writable.

        As many of them as the service allows are one step: all of these or, on an error, none. Pictures are sent, and
        kept by the service.

        Parameters
        ----------
        items : Items
            With ids of their own.
        update : bool
            Whether items whose id is there already replace the old ones; if not, they are left out.

        Returns
        -------
        list of Problem
            What was left out, and why.
        """
        limits = self._limits
        left_out: set[str] = set()
        for some in parts(item_rows(items, self._takes), int(limits["batch"]), int(limits["upload_bytes"]) - _AROUND):
            # Again, items that were added the first time would be said to be left out.
            done = self._transport.ask("POST", "/v1/items", again=update, json={"items": some, "update": update})
            left_out.update(done["left_out"])
        return [
            Problem(place, "item", f"{identifier!r} is in the collection already")
            for identifier, place in zip(items.ids, items.places, strict=True)
            if identifier in left_out
        ]

    def remove(self, ids: Sequence[str]) -> None:
        """Remove items: all, or none if one is not there; so many at a time as the service allows."""
        for some in parts(list(ids), int(self._limits["batch"]), int(self._limits["body_bytes"]) - _AROUND):
            self._transport.ask("POST", "/v1/remove", again=False, json={"ids": some})


def _address(identifier: str) -> str:
    """Return where an item is."""
    if not isinstance(identifier, str):
        raise InputError(f"an id is a string, got {identifier!r}")
    written = quote(identifier, safe="")
    return f"/v1/items/{written.replace('.', '%2E') if written in ('.', '..') else written}"
