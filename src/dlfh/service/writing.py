"""Changes over HTTP: items come and go one request after the other, durable when they are answered."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._persistence.files import replace_file
from dlfh.collection import Collection
from dlfh.collection.folder import open_items
from dlfh.datasets import Items
from dlfh.errors import InputError, StorageError
from dlfh.index.batch import check_distinct
from dlfh.service.errors import Refusal
from dlfh.service.schemas import NamedItem
from dlfh.service.settings import Limits
from dlfh.service.states import State, States
from dlfh.service.thumbnails import check_pixels

#: Where the collection keeps pictures that came over HTTP, by what is in them.
PICTURES = "pictures"


def put_items(states: States, new: Sequence[NamedItem], limits: Limits, update: bool = True) -> dict[str, Any]:
    """Add items, or replace those that have their ids: all of them or, on an error, none.

    Doing it again changes nothing. What an item had and the new one does not bring stays, as for `Collection.add`.
    Without ``update``, what is there already stays as it is, and is named.
    """
    if len(new) > limits.batch:
        raise Refusal(422, f"at most {limits.batch} items are added in one step")
    state = states.current
    items = _items(state, new, limits)
    vectors = state.encoder.featurize_items(items)  # takes long, and needs no lock
    problem = next(iter([*items.problems, *vectors.problems]), None)
    if problem is not None:
        raise InputError(f"nothing was added: {problem}")
    with _writing(state) as collection:
        known = collection.index.contains(items.ids)
        n_known = int(known.sum())
        problems = collection.add(items, update=update, vectors=vectors)
        assert update is False or not problems, problems
    if update:
        return _changed(states, added=len(items) - n_known, replaced=n_known)
    left_out = [name for name, was_there in zip(items.ids, known, strict=True) if was_there]
    return _changed(states, added=len(items) - n_known, left_out=left_out)


def remove_items(states: States, ids: Sequence[str], limits: Limits) -> dict[str, Any]:
    """Remove items: all or, if one is not there, none."""
    if len(ids) > limits.batch:
        raise Refusal(422, f"at most {limits.batch} items are removed in one step")
    with _writing(states.current) as collection:
        missing = next((name for name in ids if name not in collection), None)
        if missing is not None:
            raise Refusal(404, f"there is no item {missing[:200]!r}")
        collection.remove(ids)
    return _changed(states, removed=len(ids))


class _writing:  # noqa: N801 - a block of code
    """A collection that may be changed, in a block of code: one writer at a time, in whatever process."""

    def __init__(self, state: State) -> None:
        try:
            self._index = open_items(state.collection.path, writable=True)
        except StorageError:
            raise Refusal(409, "another process is changing the collection: try again", {"retry-after": "1"}) from None
        self._collection = Collection(state.encoder, self._index, state.collection.path)
        if self._index.identity != state.card.get("index"):
            self._index.close()
            raise Refusal(409, "the collection was replaced by another one: try again", {"retry-after": "1"})

    def __enter__(self) -> Collection:
        return self._collection

    def __exit__(self, *error: object) -> None:
        self._index.close()  # not the collection, which would write all words anew after every item


def _changed(
    states: States, *, added: int = 0, replaced: int = 0, removed: int = 0, left_out: Sequence[str] = ()
) -> dict[str, Any]:
    """Return what was done, once the next question sees it."""
    states.refresh()
    counts = {"added": added, "replaced": replaced, "removed": removed, "left_out": list(left_out)}
    return {"state": states.current.name, "items": len(states.current.index), **counts}


def _items(state: State, new: Sequence[NamedItem], limits: Limits) -> Items:
    encoder = state.encoder
    ids = [item.id for item in new]
    check_distinct(ids)
    modalities: dict[str, Any] = {}
    for row, item in enumerate(new):
        for name, text in _texts(state, item).items():
            modalities.setdefault(name, [None] * len(new))[row] = text
        if item.image is not None:
            name = state.searcher.default_modality("image") or ""
            if not name:
                raise InputError("this collection has no images")
            modalities.setdefault(name, [None] * len(new))[row] = _picture(state, item.image, limits)
    for name in {name for item in new for name in item.vectors}:
        if encoder.featurizer(name).takes != "vectors":
            raise InputError(f"{name!r} takes {encoder.featurizer(name).takes}, not vectors")
        lengths = {len(item.vectors.get(name, ())) for item in new}
        n = encoder.model_.n_features_[name]
        if lengths != {n}:
            raise InputError(f"every item of a request must have a vector of {n} numbers in {name!r}, or none of them")
        modalities[name] = np.array([item.vectors[name] for item in new], np.float32)
    if not modalities:
        raise InputError("an item needs a text, an image or vectors")
    items = Items.of(modalities, [item.labels for item in new], ids)
    columns = {item.id: dict(item.columns) for item in new if item.columns}
    for identifier, metadata in zip(items.ids, items.metadata, strict=True):
        if identifier in columns:
            metadata["columns"] = columns[identifier]
    return items


def _texts(state: State, item: NamedItem) -> dict[str, str]:
    """Return an item's texts by modality."""
    texts = dict(item.texts)
    if item.text is not None:
        name = state.searcher.default_modality("text")
        if name is None:
            raise InputError("this collection has no texts")
        texts.setdefault(name, item.text)
    known = state.encoder.text_modalities()
    unknown = next((name for name in texts if name not in known), None)
    if unknown is not None:
        raise InputError(f"{unknown!r} is no modality of texts: this collection has {', '.join(map(repr, known))}")
    return texts


def _picture(state: State, encoded: str, limits: Limits) -> Path:
    """Keep a picture in the collection's folder, under a name that its content gives, and return where it is."""
    try:
        content = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise InputError("the image is not in base64") from None
    kind = check_pixels(content, limits.pixels)
    folder = state.collection.path / PICTURES
    folder.mkdir(exist_ok=True)
    path = folder / f"{hashlib.sha256(content).hexdigest()}.{kind}"
    if not path.exists():
        replace_file(path, [content])
    return path
