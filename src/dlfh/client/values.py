"""Encode values and items for requests, and read items and results from responses."""

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
from dlfh.collection.query import ResultItem, SearchResult
from dlfh.collection.understanding import Understanding
from dlfh.datasets import Items
from dlfh.errors import InputError
from dlfh.features.images import read_image
from dlfh.index.items import Item


def encode_image(value: Any) -> bytes:
    """Return the content of an image file, or an image in memory as PNG."""
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


def encode_vectors(values: Any) -> list[list[float]]:
    """Return vectors as lists of numbers."""
    try:
        array = np.asarray(values.toarray() if sp.issparse(values) else values, np.float64)
    except (TypeError, ValueError):
        raise InputError("vectors must be an array of numbers, or lists of the same length") from None
    return [row.tolist() for row in np.atleast_2d(array)]


def encode_items(items: Items, takes: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield items as JSON values; ``takes`` maps each modality to its kind of values."""
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
                encoded.setdefault("vectors", {})[name] = encode_vectors(value)[0]
            elif value is not None and takes[name] == "texts":
                encoded.setdefault("texts", {})[name] = value
            elif value is not None:
                encoded["image"] = base64.b64encode(encode_image(value)).decode()
        if items.labels is not None and items.labels[row]:
            encoded["labels"] = items.labels[row]
        if items.metadata[row].get("columns"):
            encoded["columns"] = items.metadata[row]["columns"]
        yield encoded


def split(values: Any, max_values: int, max_bytes: int) -> Iterator[list[Any]]:
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


def read_result(response: Mapping[str, Any]) -> SearchResult:
    """Return the result of a query."""
    names = ("rank", "id", "probability", "n_equal", "hamming_distance", "distance", "learned", "code")
    items = [
        ResultItem(metadata=_metadata(answer), **{name: answer[name] for name in names})
        for answer in response["answers"]
    ]
    query = response["query"]
    about = {name: query[name] for name in ("code", "modality", "modalities", "match")}
    understood = response["understanding"]
    understanding = None
    if understood is not None:
        alternatives = {word: tuple(others) for word, others in understood["alternatives"].items()}
        lists = {name: tuple(understood[name]) for name in ("excluded", "unknown")}
        understanding = Understanding(**understood | lists | {"alternatives": alternatives})
    notes = {"warning": response["warning"], "understanding": understanding, "notes": response["notes"]}
    return SearchResult(items, **about, **notes)


def read_item(item: Mapping[str, Any], modalities: Sequence[str]) -> Item:
    """Return an item with its codes."""
    codes, states = {}, dict.fromkeys(modalities, "absent")
    for name, code in item["codes"].items():
        codes[name] = np.frombuffer(bytearray.fromhex(code["code"]), np.uint8)
        states[name] = "learned" if code["learned"] else "hashed"
    return Item(item["id"], _metadata(item), codes, states)


def _metadata(item: Mapping[str, Any]) -> dict[str, Any]:
    labels = {"labels": item["labels"]} if item["labels"] else {}
    return item["metadata"] | labels
