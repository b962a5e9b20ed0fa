"""Changes to items over HTTP. A change is durable when its response is sent."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._persistence.files import replace_file
from dlfh.collection import Collection
from dlfh.collection.folder import open_items
from dlfh.collection.item_codes import columnar
from dlfh.collection.query import Query
from dlfh.datasets import Items
from dlfh.errors import InputError
from dlfh.index.items import Item
from dlfh.index.segment import check_distinct
from dlfh.index.store import LockedError
from dlfh.service.answering import RequestError, dump, unknown_item
from dlfh.service.schemas import ItemWithId
from dlfh.service.settings import Limits
from dlfh.service.states import State, States
from dlfh.service.thumbnails import check_image

_IMAGES = "pictures"  # folder of uploaded images inside the collection, named by their checksums


#: Items and seconds for which changes can be undone, and the number of responses to repeated requests that are kept.
_MAX_UNDO, _UNDO_SECONDS, _MAX_REPEATED = 10_000, 900.0, 1000
#: The time of a change, the identity of the index, the items before (None: no item), and their metadata after.
Change = tuple[float, str | None, dict[str, Item | None], dict[str, dict[str, Any] | None]]


class Changes:
    """Applies changes one at a time, and remembers them so that they can be undone.

    Parameters
    ----------
    states : States
    limits : Limits
    """

    def __init__(self, states: States, limits: Limits) -> None:
        self._states, self._limits = states, limits
        self._done: dict[str, Change] = {}
        self._responses: dict[str, tuple[str, bytes]] = {}

    def put(self, new: Sequence[ItemWithId], update: bool = True) -> dict[str, Any]:
        """Add all items or none, like `Collection.add`; with ``update``, replace items with the same ids."""
        self._check_number(new, "add")
        self._states.refresh()
        state = self._states.current
        items = _items(state, new, self._limits)
        vectors = state.encoder.featurize_items(items)  # slow, and needs no lock
        problem = next(iter([*items.problems, *vectors.problems]), None)
        if problem is not None:
            raise InputError(f"nothing was added: {problem}")

        def add(collection: Collection) -> list[str]:
            known = collection.index.contains(items.ids)
            with _stored_images(collection, items, np.flatnonzero(~known | update), self._limits):
                problems = collection.add(items, update=update, vectors=vectors)
            assert update is False or not problems, problems
            return [] if update else [name for name, is_known in zip(items.ids, known, strict=True) if is_known]

        return self._apply(items.ids, add, state)

    def remove(self, ids: Sequence[str]) -> dict[str, Any]:
        """Remove items: all of them or, if an id is unknown, none."""
        self._check_number(ids, "remove")
        return self._apply(ids, lambda collection: collection.remove([*dict.fromkeys(ids)]), are_known=True)

    def edit(self, ids: Sequence[str], edit: Callable[[Collection], int]) -> dict[str, Any]:
        """Change the metadata of items: all or, if an id is unknown, none. ``edit`` returns how many changed."""
        changed: list[int] = []
        done = self._apply(ids, lambda collection: changed.append(edit(collection)), are_known=True)
        return done | {"replaced": changed[0]}

    def undo(self, key: str) -> dict[str, Any]:
        """Restore the versions of items before a change, unless they have been changed since."""
        at, identity, before, after = self._done.get(key, (-_UNDO_SECONDS, None, {}, {}))
        is_over = not before or time.monotonic() - at > _UNDO_SECONDS

        def restore(collection: Collection) -> None:
            if is_over or collection.index.identity != identity:
                raise RequestError(404, "this change cannot be undone any more")
            now = _versions(collection, before)
            changed = next((name for name, old in _metadata(now).items() if old != after[name]), None)
            if changed is not None:
                raise RequestError(409, f"item {changed[:200]!r} has been changed since")
            index, items = collection.index, [item for item in before.values() if item is not None]
            if items:
                index.put(**columnar(items, index.n_bits, index.modalities))
            collection.remove([name for name, item in now.items() if item is not None and before[name] is None])

        done = self._apply([*before], restore)
        del self._done[key]
        return done

    def mark(self, query: Query, relevant: Sequence[str], irrelevant: Sequence[str]) -> dict[str, Any]:
        """Keep which results of a query are right or wrong, like `Collection.mark`; this changes no item."""
        self._states.refresh()
        state = self._states.current
        modality = state.searcher.modality_of(query)
        with _writing(state) as collection:
            _check_known(_versions(collection, [*relevant, *irrelevant]))
            n_queries = collection.mark(modality, query.value, relevant=relevant, irrelevant=irrelevant)
        return {"state": state.name, "queries": n_queries}

    def relearn(self) -> dict[str, Any]:
        """Learn again from all labels. Former changes cannot be undone any more, since codes have changed."""
        try:
            opened = Collection.open(self._states.folder, writable=True)
        except LockedError:
            raise _locked() from None
        with opened as collection:
            learned = collection.relearn()
        self._states.refresh()
        counts = {"items": learned.n_items, "labelled": learned.n_labelled, "labels": learned.n_labels}
        return {"state": self._states.current.name, **counts, "seconds": round(learned.seconds, 3)}

    def once(self, key: str | None, request: str, work: Callable[[], dict[str, Any]]) -> bytes:
        """Return the response of ``work`` in JSON; a request with a known idempotency key gets the first response."""
        if key is None:
            return dump(work())
        if key not in self._responses:
            self._responses[key] = request, dump(work())
            if len(self._responses) > _MAX_REPEATED:
                del self._responses[next(iter(self._responses))]
        first, response = self._responses[key]
        if first != request:
            raise RequestError(422, "this Idempotency-Key was used for another request")
        return response

    def _check_number(self, values: Sequence[Any], verb: str) -> None:
        if len(values) > self._limits.batch:
            raise RequestError(422, f"a request can {verb} at most {self._limits.batch} items")

    def _apply(
        self,
        ids: Sequence[str],
        work: Callable[[Collection], list[str] | None],
        state: State | None = None,
        are_known: bool = False,
    ) -> dict[str, Any]:
        """Make a change and load the new state, so that the next search sees it; return a summary of the change.

        ``work`` may return the ids of items that it skipped; ``state`` is the one that it was prepared for, if any.
        """
        states, key = self._states, None
        if state is None:
            states.refresh()
        with _writing(state or states.current) as collection:
            before, former = _versions(collection, ids), collection.index.state
            if are_known:
                _check_known(before)
            skipped = work(collection) or []
            before = {name: item for name, item in before.items() if name not in skipped}
            after = _metadata(_versions(collection, before))
            if collection.index.state != former:
                key = secrets.token_hex(16)
                self._done[key] = time.monotonic(), collection.index.identity, before, after
        while sum(len(old) for _, _, old, _ in self._done.values()) > _MAX_UNDO:
            del self._done[next(iter(self._done))]
        states.refresh()
        kinds = Counter((old is not None, after[name] is not None) for name, old in before.items())
        summary = {"state": states.current.name, "items": len(states.current.index), "added": kinds[False, True]}
        return summary | {"replaced": kinds[True, True], "removed": kinds[True, False], "skipped": skipped, "undo": key}


def _versions(collection: Collection, ids: Iterable[str]) -> dict[str, Item | None]:
    names = [*dict.fromkeys(ids)]
    known = collection.index.contains(names).tolist()
    return {name: collection.index.get(name) if exists else None for name, exists in zip(names, known, strict=True)}


def _check_known(items: Mapping[str, Item | None]) -> None:
    unknown = next((name for name, item in items.items() if item is None), None)
    if unknown is not None:
        raise unknown_item(unknown)


def _metadata(items: Mapping[str, Item | None]) -> dict[str, dict[str, Any] | None]:
    return {name: None if item is None else item.metadata or {} for name, item in items.items()}


def _locked() -> RequestError:
    return RequestError(409, "another process is changing the collection: try again", retry_after="1")


@contextmanager
def _writing(state: State) -> Iterator[Collection]:
    """Open a collection for a change, unless another process is changing it."""
    try:
        index = open_items(state.collection.path, writable=True)
    except LockedError:
        raise _locked() from None
    try:
        if index.identity != state.card.get("index"):
            raise RequestError(409, "the collection was replaced: try again", retry_after="1")
        yield Collection(state.encoder, index, state.collection.path)
    finally:
        index.close()


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
