"""What goes over the wire: values and items as a service takes them, and what it answers as a collection gives it."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh.client.transport import dump
from dlfh.collection import ResultItem, SearchResult
from dlfh.datasets import Items
from dlfh.errors import InputError
from dlfh.features.images import read_image
from dlfh.index.items import Item

__all__ = ["as_found", "as_image", "as_item", "as_vectors", "item_rows", "parts"]


def as_image(value: Any) -> bytes:
    """Return an image as the bytes of a file: as it is, or as PNG if it is in memory."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, (str, os.PathLike)):
        try:
            return Path(value).read_bytes()
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            raise InputError(f"{str(value)!r} cannot be read: {why}") from None
    from PIL import Image

    content = BytesIO()
    Image.fromarray(read_image(value)).save(content, "PNG", compress_level=1)
    return content.getvalue()


def as_vectors(values: Any) -> list[list[float]]:
    """Return vectors as lists of numbers."""
    try:
        array = np.asarray(values.toarray() if sp.issparse(values) else values, np.float64)
    except (TypeError, ValueError):
        raise InputError("vectors must be an array of numbers, or a list of lists of the same length") from None
    return [row.tolist() for row in np.atleast_2d(array)]


def item_rows(items: Items, takes: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield items as a service takes them."""
    unknown = next((name for name in items.modalities if name not in takes), None)
    if unknown is not None:
        raise InputError(f"unknown modality {unknown!r}: the collection has {', '.join(map(repr, takes))}")
    if not items.named:
        raise InputError("items need ids of their own: the rows of others have the same numbers")
    for row, identifier in enumerate(items.ids):
        new: dict[str, Any] = {"id": identifier}
        for name, values in items.modalities.items():
            value = values[[row]] if sp.issparse(values) else values[row]
            if takes[name] == "vectors":
                new.setdefault("vectors", {})[name] = as_vectors(value)[0]
            elif value is not None and takes[name] == "texts":
                new.setdefault("texts", {})[name] = value
            elif value is not None:
                new["image"] = base64.b64encode(as_image(value)).decode()
        if items.labels is not None and items.labels[row]:
            new["labels"] = items.labels[row]
        if items.metadata[row].get("columns"):
            new["columns"] = items.metadata[row]["columns"]
        yield new


def parts(values: Any, most: int, most_bytes: int) -> Iterator[list[Any]]:
    """Yield values in lists of so many, and of so many bytes as JSON; each has one value at least.

    Examples
    --------
    >>> list(parts(["a", "b", "cdefgh", "i"], 2, 10))
    [['a', 'b'], ['cdefgh'], ['i']]
    """
    together: list[Any] = []
    n_bytes = 0
    for value in values:
        size = len(dump(value)) + 2
        if together and (len(together) >= most or n_bytes + size > most_bytes):
            yield together
            together, n_bytes = [], 0
        together.append(value)
        n_bytes += size
    if together:
        yield together


def as_found(result: Mapping[str, Any]) -> SearchResult:
    """Return what a query found."""
    answers = [
        ResultItem(
            answer["rank"],
            answer["id"],
            answer["hamming_distance"],
            answer["distance"],
            answer["learned"],
            _metadata(answer),
            answer["probability"],
            answer["n_equal"] or 0,
            answer["code"],
        )
        for answer in result["answers"]
    ]
    return SearchResult(answers, result["query"]["code"])


def as_item(item: Mapping[str, Any], modalities: Sequence[str]) -> Item:
    """Return an item with its codes."""
    codes, states = {}, dict.fromkeys(modalities, "absent")
    for name, code in item["codes"].items():
        codes[name] = np.frombuffer(bytearray.fromhex(code["code"]), np.uint8)
        states[name] = "learned" if code["learned"] else "hashed"
    return Item(item["id"], _metadata(item), codes, states)


def _metadata(shown: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"labels": shown["labels"]} if shown["labels"] else {}
    return shown["metadata"] | labels
