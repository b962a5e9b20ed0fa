"""Adding and removing items over HTTP. A change is durable when its response is sent."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._persistence.files import replace_file
from dlfh.collection import Collection
from dlfh.collection.folder import open_items
from dlfh.datasets import Items
from dlfh.errors import InputError
from dlfh.index.segment import check_distinct
from dlfh.index.store import LockedError
from dlfh.service.answering import RequestError, unknown_item
from dlfh.service.schemas import ItemWithId
from dlfh.service.settings import Limits
from dlfh.service.states import State, States
from dlfh.service.thumbnails import check_image

_IMAGES = "pictures"  # folder of uploaded images inside the collection, named by their checksums


def put_items(states: States, new: Sequence[ItemWithId], limits: Limits, update: bool = True) -> dict[str, Any]:
    """Add all items or none, like `Collection.add`; with ``update``, replace items with the same ids."""
    if len(new) > limits.batch:
        raise RequestError(422, f"a request can add at most {limits.batch} items")
    state = states.current
    items = _items(state, new, limits)
    vectors = state.encoder.featurize_items(items)  # slow, and needs no lock
    problem = next(iter([*items.problems, *vectors.problems]), None)
    if problem is not None:
        raise InputError(f"nothing was added: {problem}")
    with _writing(state) as collection:
        known = collection.index.contains(items.ids)
        n_known = int(known.sum())
        with _stored_images(collection, items, np.flatnonzero(~known | update), limits):
            problems = collection.add(items, update=update, vectors=vectors)
        assert update is False or not problems, problems
    skipped = [] if update else [name for name, is_known in zip(items.ids, known, strict=True) if is_known]
    return _summary(states, added=len(items) - n_known, replaced=n_known - len(skipped), skipped=skipped)


def remove_items(states: States, ids: Sequence[str], limits: Limits) -> dict[str, Any]:
    """Remove items: all of them or, if an id is unknown, none."""
    ids = list(dict.fromkeys(ids))
    if len(ids) > limits.batch:
        raise RequestError(422, f"a request can remove at most {limits.batch} items")
    with _writing(states.current) as collection:
        missing = next((name for name in ids if name not in collection), None)
        if missing is not None:
            raise unknown_item(missing)
        collection.remove(ids)
    return _summary(states, removed=len(ids))


@contextmanager
def _writing(state: State) -> Iterator[Collection]:
    """Open a collection for a change, unless another process is changing it."""
    try:
        index = open_items(state.collection.path, writable=True)
    except LockedError:
        raise RequestError(409, "another process is changing the collection: try again", retry_after="1") from None
    try:
        if index.identity != state.card.get("index"):
            raise RequestError(409, "the collection was replaced: try again", retry_after="1")
        yield Collection(state.encoder, index, state.collection.path)
    finally:
        index.close()


def _summary(states: States, **counts: Any) -> dict[str, Any]:
    """Load the new state, so that the next search sees the change, and return a summary of the change."""
    states.refresh()
    none = {"added": 0, "replaced": 0, "removed": 0, "skipped": []}
    return {"state": states.current.name, "items": len(states.current.index), **none, **counts}


def _items(state: State, new: Sequence[ItemWithId], limits: Limits) -> Items:
    encoder = state.encoder
    ids = [item.id for item in new]
    check_distinct(ids)
    modalities: dict[str, Any] = {}
    for row, item in enumerate(new):
        for name, value in _texts_and_image(state, item, limits).items():
            modalities.setdefault(name, [None] * len(new))[row] = value
    for name in {name for item in new for name in item.vectors}:
        if encoder.featurizer(name).takes != "vectors":
            raise InputError(f"modality {name!r} takes {encoder.featurizer(name).takes}, not vectors")
        lengths = {len(item.vectors.get(name, ())) for item in new}
        n = encoder.model_.n_features_[name]
        if lengths != {n}:
            raise InputError(f"either all items or none must have a vector for {name!r}, which must have {n} numbers")
        modalities[name] = np.array([item.vectors[name] for item in new], np.float32)
    if not modalities:
        raise InputError("an item must have a text, an image or vectors")
    items = Items.of(modalities, [item.labels for item in new], ids)
    columns = {item.id: dict(item.columns) for item in new if item.columns}
    for identifier, metadata in zip(items.ids, items.metadata, strict=True):
        if identifier in columns:
            metadata["columns"] = columns[identifier]
    return items


def _texts_and_image(state: State, item: ItemWithId, limits: Limits) -> dict[str, Any]:
    values: dict[str, Any] = dict(item.texts)
    if item.text is not None:
        name = state.searcher.default_modality("text")
        if name is None:
            raise InputError("this collection does not take texts")
        values.setdefault(name, item.text)
    known = state.encoder.text_modalities()
    unknown = next((name for name in values if name not in known), None)
    if unknown is not None:
        raise InputError(f"modality {unknown!r} does not take texts: expected {', '.join(map(repr, known))}")
    if item.image is not None:
        name = state.searcher.default_modality("image")
        if not name:
            raise InputError("this collection does not take images")
        try:
            values[name] = base64.b64decode(item.image, validate=True)
        except ValueError:
            raise InputError("the image is not in base64") from None
        check_image(values[name], limits.pixels)
    return values


@contextmanager
def _stored_images(collection: Collection, items: Items, rows: Iterable[int], limits: Limits) -> Iterator[None]:
    """Replace images by files in the collection's folder, named by their checksums; on an error, remove new ones."""
    created: list[Path] = []
    folder = collection.path / _IMAGES
    try:
        for values in items.modalities.values():
            for row in rows:
                if isinstance(values[row], bytes):
                    content: bytes = values[row]
                    kind = check_image(content, limits.pixels)
                    values[row] = path = folder / f"{hashlib.sha256(content).hexdigest()}.{kind}"
                    if not path.exists():
                        folder.mkdir(exist_ok=True)
                        replace_file(path, [content])
                        created.append(path)
        yield
    except BaseException as error:
        for path in created:
            with suppress(OSError):
                path.unlink()
        if isinstance(error, OSError):
            raise RequestError(503, f"the image cannot be stored: {error.strerror}", retry_after="5") from None
        raise
