"""Change a collection: add items, copy them from another collection, or sync with a source.

To detect changes, the index stores content hashes (`dlfh.collection.contents`) with the codes of each item, so no
further bookkeeping is needed. An item has changed if its stored metadata would change: texts, labels, columns, paths,
or the hashes of images and vectors. Codes depend on contents only: an image that was moved, or whose caption changed,
keeps its code.

A sync writes items in blocks and removes items last. After a crash the collection is closer to its source than before,
and the next run continues from there.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dlfh._arrays import Mask
from dlfh.collection.collection import Collection
from dlfh.collection.contents import FileHashes, content_hashes
from dlfh.collection.item_codes import (
    CONTENTS,
    ItemCodes,
    ItemVectors,
    Training,
    columnar,
    hashed_codes,
    index_codes,
    suggested_labels,
)
from dlfh.collection.vectors import keep_vectors, vector_file
from dlfh.datasets.items import Items
from dlfh.datasets.problem import LABEL_WORDS, Problem, check_skipped
from dlfh.errors import InputError
from dlfh.index import Index
from dlfh.index.items import Item

#: Number of items that are copied or synced in one step.
_BATCH, _BLOCK = 5_000, 512
_UNREADABLE = "no readable content"

Metadata = dict[str, Any]
#: A modality, and the content (a text or a hash) whose code can be reused.
Content = tuple[str, str]
#: Items to take known codes from, by row and modality.
Known = dict[tuple[int, str], Item]


def put_items(
    collection: Collection, items: Items, vectors: ItemVectors, training: Training | None = None, update: bool = False
) -> list[Problem]:
    """Add items to a collection in one step; return the problems of skipped items."""
    index, encoder = collection.index, collection.encoder
    problems = list(vectors.problems)
    if not vectors.matrices:
        raise InputError("the items have none of the modalities of this collection")
    has_code = _has_code(len(items), {name: vectors.present(name) for name in vectors.matrices})
    clash = not items.named and index.contains(items.ids).any()
    ids = _unused_numbers(index, len(items)) if clash else items.ids
    exists = index.contains(ids)
    accepted = has_code if update else has_code & ~exists
    for row in np.flatnonzero(~accepted).tolist():
        reason = f"id {ids[row]!r} is already in the collection" if has_code[row] else _UNREADABLE
        problems.append(Problem(items.places[row], "item", reason))
    rows = np.flatnonzero(accepted)
    if not len(rows):
        return problems
    labels = [[]] * len(ids) if items.labels is None else [*items.labels]
    metadata, known, with_paths = list[Metadata](), Known(), _with_paths(items)
    for row in rows.tolist():
        new = _metadata_of(collection, items, row, vectors.contents[row], with_paths)
        if exists[row]:
            item = index.get(ids[row])
            known |= {(row, name): item for name in encoder.modalities_ if name in item.codes}
            old = item.metadata or {}
            contents = old.get(CONTENTS, {}) | new.get(CONTENTS, {})
            new = old | new | ({CONTENTS: contents} if contents else {})
            labels[row] = labels[row] or list(old.get("labels", []))
        metadata.append(new)
    with_words = encoder.with_words([labels[row] for row in rows.tolist()], metadata)
    for row, complete in zip(rows.tolist(), with_words, strict=True):
        labels[row] = complete
    coded = encoder.encode_items(vectors, labels, training)
    if known:
        fill_in_codes(collection, coded, labels, known)
    keep_vectors(collection._folder, encoder.modalities_, vectors)
    index.put([ids[row] for row in rows], metadata=metadata, **index_codes(encoder, coded, rows))
    return problems


def _has_code(n_items: int, present: Mapping[str, Mask]) -> Mask:
    """Return a mask of the items that can be encoded; label words are not enough, because they only serve queries."""
    masks = [mask for name, mask in present.items() if name != LABEL_WORDS]
    return np.logical_or.reduce([np.zeros(n_items, bool), *masks])


def _unused_numbers(index: Index, n: int) -> list[str]:
    start = len(index)
    while True:
        numbers = [str(number) for number in range(start, start + n)]
        taken = np.flatnonzero(index.contains(numbers))
        if not len(taken):
            return numbers
        start += int(taken[-1]) + 1


def fill_in_codes(collection: Collection, coded: ItemCodes, labels: list[list[str]], known: Known) -> None:
    """Copy missing codes from known items; learned codes only if the row's labels have one or equal the item's."""
    by_labels, has_code = collection.encoder.codes_of_labels(labels, len(labels))
    for (row, name), item in known.items():
        if coded.present[name][row]:
            continue
        coded.hashed[name][row], coded.present[name][row] = hashed_codes(item, [name])[name], True
        if (suggested := suggested_labels(item, name)) is not None:
            coded.suggested_labels[name][row] = suggested
        same = (item.metadata or {}).get("labels", []) == labels[row]
        if has_code[row] or (same and item.states[name] == "learned"):
            coded.learned[name][row] = by_labels[name][row] if has_code[row] else item.codes[name]
            coded.is_learned[name][row] = True


def _with_paths(items: Items) -> list[str]:
    """Return the modalities with paths of files."""
    lists = {name: values for name, values in items.modalities.items() if isinstance(values, list)}
    return [name for name, values in lists.items() if any(issubclass(kind, Path) for kind in {*map(type, values)})]


def _metadata_of(
    collection: Collection, items: Items, row: int, contents: dict[str, str], with_paths: Sequence[str]
) -> Metadata:
    """Return the metadata to store; image paths are relative to the collection, so that both can move together."""
    added: Metadata = {CONTENTS: contents} if contents else {}
    for name in with_paths:
        if isinstance(items.modalities[name][row], Path):
            added[name] = os.path.relpath(items.modalities[name][row], collection.path.resolve())
    return items.metadata[row] | added if added else items.metadata[row]


def copy_items(source: Collection, target: Collection) -> None:
    """Copy all items of a collection to another with the same model, in insertion order."""
    items = (item._replace(metadata=_moved(item, source, target)) for item in source.index.items())
    while batch := list(itertools.islice(items, _BATCH)):
        target.index.put(**columnar(batch, target.index.n_bits, target.index.modalities))
    for number in range(len(source.encoder.modalities_)):
        with suppress(FileNotFoundError):
            shutil.copyfile(vector_file(source.path, number), vector_file(target._folder, number))


def _moved(item: Item, source: Collection, target: Collection) -> Metadata | None:
    if item.metadata is None:
        return None
    here, there = source.path.resolve(), target.path.resolve()
    images = {name: item.metadata.get(name) for name in source.encoder.image_modalities()}
    moved = {name: os.path.relpath(here / path, there) for name, path in images.items() if isinstance(path, str)}
    return item.metadata | moved


@dataclass(frozen=True)
class SyncResult:
    """The changes that `Collection.sync` made, or would make: the changed ids, and the number of unchanged items.

    described: By modality, the number of texts, images and vectors whose features were computed.
    problems: Skipped items and values.
    """

    added: list[str]
    updated: list[str]
    removed: list[str]
    n_unchanged: int
    described: dict[str, int]
    problems: list[Problem]

    @property
    def changed(self) -> bool:
        """Whether anything was added, updated or removed."""
        return bool(self.added or self.updated or self.removed)

    def __str__(self) -> str:
        counts = {"added": self.added, "updated": self.updated, "removed": self.removed}
        changes = ", ".join(f"{len(ids):,} {change}" for change, ids in counts.items())
        described = ", ".join(f"{n:,} {name}" for name, n in self.described.items() if n) or "nothing"
        return f"{changes}, {self.n_unchanged:,} unchanged; features computed: {described}"


@dataclass(frozen=True)
class _Plan:
    """The changes to make: rows to write, ids to remove, and the items whose codes can be reused, by content."""

    metadata: list[Metadata]
    added: list[int]
    changed: list[int]
    gone: list[str]
    n_before: int
    id_of_content: dict[Content, str]
    rescued: dict[Content, Item]  # items that are overwritten before other items reuse their codes


def sync_items(
    collection: Collection, items: Items, *, remove: bool, max_removed: float, dry_run: bool, rehash: bool
) -> SyncResult:
    """Make a collection equal to items; see `Collection.sync`."""
    hashes = FileHashes(collection.path, use_cache=not rehash)
    plan = _plan(collection, items, hashes)
    gone = plan.gone if remove else []
    if len(gone) > max_removed * plan.n_before:
        raise InputError(
            f"{len(gone):,} of {plan.n_before:,} items are missing from the source, more than the limit of "
            f"{max_removed:.0%}: check the source, or remove them with max_removed=1 (--max-removed 1)"
        )
    rows = sorted([*plan.added, *plan.changed])
    described = dict.fromkeys(items.modalities, 0)
    problems: list[Problem] = list(items.problems)
    unreadable: set[str] = set()
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        remaining, known = _without_known(collection, items.take(block), plan, block)
        for name in remaining.modalities:
            described[name] += int(remaining.present(name).sum())
        if not dry_run:
            vectors = collection.encoder.featurize_items(replace(remaining, max_skipped=1.0))
            _check_readable(items, [*problems[len(items.problems) :], *vectors.problems])
            metadata = [plan.metadata[row] for row in block]
            block_problems, ids = _put_block(collection, remaining, vectors, metadata, known)
            problems += block_problems
            unreadable |= ids
    removed = [*gone, *sorted(unreadable & {items.ids[row] for row in plan.changed})]
    if removed and not dry_run:
        collection.remove(removed)
    hashes.save()
    added = [items.ids[row] for row in plan.added if items.ids[row] not in unreadable]
    updated = [items.ids[row] for row in plan.changed if items.ids[row] not in unreadable]
    n_unchanged = plan.n_before - len(plan.changed) - len(gone)
    return SyncResult(added, updated, removed, n_unchanged, described, problems)


def _plan(collection: Collection, items: Items, hashes: FileHashes) -> _Plan:
    """Compare the current metadata of the index with its metadata after the sync."""
    contents = content_hashes(collection.encoder.featurizers_, items, lambda path, row, name: hashes(path))
    # In the form that they have after being written and read again.
    with_paths = _with_paths(items)
    metadata = [
        json.loads(json.dumps(_metadata_of(collection, items, row, hashed, with_paths)))
        for row, hashed in enumerate(contents)
    ]
    before: dict[str, Metadata] = {}
    id_of_content: dict[Content, str] = {}
    for item in collection.index.items():
        before[item.id] = item.metadata or {}
        for content in _contents(before[item.id], item.codes):
            id_of_content.setdefault(content, item.id)
    known = [before.get(name) for name in items.ids]
    added = [row for row, old in enumerate(known) if old is None]
    changed = [row for row, old in enumerate(known) if old is not None and old != metadata[row]]
    needed = {content for row in [*added, *changed] for content in _contents(metadata[row], items.modalities)}
    rescued: dict[Content, Item] = {}
    for row in changed:
        name = items.ids[row]
        overwritten = _contents(before[name], items.modalities) - _contents(metadata[row], items.modalities)
        reused = {content for content in overwritten & needed if id_of_content.get(content) == name}
        rescued |= dict.fromkeys(reused, collection.index.get(name)) if reused else {}
    ids = {*items.ids}
    gone = [name for name in before if name not in ids]
    return _Plan(metadata, added, changed, gone, len(before), id_of_content, rescued)


def _contents(metadata: Metadata, modalities: Iterable[str]) -> set[Content]:
    return {(name, content) for name in modalities if (content := _content(metadata, name))}


def _content(metadata: Metadata, modality: str) -> str:
    """Return an item's content in a modality: the hash of an image or a vector, or a text."""
    if modality == LABEL_WORDS and modality not in metadata:
        return ", ".join(metadata.get("labels", []))
    return str(metadata.get(CONTENTS, {}).get(modality) or metadata.get(modality) or "")


def _without_known(collection: Collection, items: Items, plan: _Plan, rows: list[int]) -> tuple[Items, Known]:
    """Return the items without the texts and images whose codes are known, and the items that have these codes."""
    known, modalities = Known(), dict(items.modalities)
    for name, values in items.modalities.items():
        if isinstance(values, list):  # vectors are kept: they need no feature computation
            modalities[name] = list(values)
            for place, row in enumerate(rows):
                content = name, _content(plan.metadata[row], name)
                if content in plan.id_of_content:
                    known[place, name] = plan.rescued.get(content) or collection.index.get(plan.id_of_content[content])
                    modalities[name][place] = None
    return replace(items, modalities=modalities), known


def _check_readable(items: Items, problems: list[Problem]) -> None:
    """Raise InputError if too large a share of a modality cannot be read, over the whole source."""
    for name in items.modalities:
        failed = [problem for problem in problems if problem.skipped == name]
        if failed:
            n_values = int(items.present(name).sum())
            check_skipped(len(failed), n_values, items.max_skipped, f"values of {name!r}", failed[0])


def _put_block(
    collection: Collection, items: Items, vectors: ItemVectors, metadata: list[Metadata], known: Known
) -> tuple[list[Problem], set[str]]:
    """Write items in one step; return the problems, and the ids of items without any readable content."""
    metadata = [_described(stored, items, row, vectors.contents[row]) for row, stored in enumerate(metadata)]
    labels = collection.encoder.with_words([stored.get("labels", []) for stored in metadata], metadata)
    coded = collection.encoder.encode_items(vectors, labels)
    fill_in_codes(collection, coded, labels, known)
    has_code = _has_code(len(items), coded.present)
    rows, unreadable = np.flatnonzero(has_code), np.flatnonzero(~has_code)
    if len(rows):
        ids, kept = [items.ids[row] for row in rows], [metadata[row] for row in rows]
        keep_vectors(collection._folder, collection.encoder.modalities_, vectors)
        collection.index.put(ids, metadata=kept, **index_codes(collection.encoder, coded, rows))
    problems = [Problem(items.places[row], "item", _UNREADABLE) for row in unreadable]
    return [*vectors.problems, *problems], {items.ids[row] for row in unreadable}


def _described(metadata: Metadata, items: Items, row: int, contents: dict[str, str]) -> Metadata:
    """Return metadata with the hashes of the contents that were encoded: files may have changed since planning."""
    reused = {
        name: content for name, content in metadata.get(CONTENTS, {}).items() if items.modalities[name][row] is None
    }
    rest = {key: value for key, value in metadata.items() if key != CONTENTS}
    return rest | ({CONTENTS: reused | contents} if reused or contents else {})
