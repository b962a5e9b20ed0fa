"""Make a collection equal to its source: add new items, replace changed ones, remove missing ones.

The index stores content hashes (`dlfh.collection.contents`) with the codes of each item, so no further bookkeeping is
needed. An item has changed if its stored metadata would change: texts, labels, columns, paths, or the hashes of images
and vectors. Codes belong to contents: an image that was moved, or whose caption changed, keeps its code.

Items are written in blocks and removals come last. After a crash the collection is closer to its source than before,
and the next run continues from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dlfh.collection.adding import fill_in_codes, metadata_of
from dlfh.collection.columns import CONTENTS, index_codes
from dlfh.collection.contents import FileHashes, content_hashes
from dlfh.datasets.items import Items
from dlfh.datasets.problem import LABEL_WORDS, Problem, check_skipped
from dlfh.errors import InputError
from dlfh.index.items import Item

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection
    from dlfh.collection.item_vectors import ItemVectors

#: Number of items that are written in one step.
_BLOCK = 512

Metadata = dict[str, Any]
#: A modality and the content (a text or a hash) whose code can be reused.
Content = tuple[str, str]


@dataclass(frozen=True)
class SyncResult:
    """The changes that `Collection.sync` made, or would make.

    added, updated, removed: Ids.
    n_unchanged: Number of all other items.
    described: By modality, the number of texts, images and vectors whose features were computed.
    problems: Items and values that were left out.
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
    """The changes to make: rows to write, ids to remove, and the items whose codes can be reused, by content.

    ``rescued`` holds items that are overwritten before other items reuse their codes.
    """

    metadata: list[Metadata]
    added: list[int]
    changed: list[int]
    gone: list[str]
    n_before: int
    id_of_content: dict[Content, str]
    rescued: dict[Content, Item]


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
    metadata = [_as_stored(metadata_of(collection, items, row, hashed)) for row, hashed in enumerate(contents)]
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


def _as_stored(metadata: Metadata) -> Metadata:
    """Return metadata as they are after writing and reading them."""
    return json.loads(json.dumps(metadata))


def _content(metadata: Metadata, modality: str) -> str:
    """Return an item's content in a modality: the hash of an image or a vector, or a text."""
    if modality == LABEL_WORDS and modality not in metadata:
        return ", ".join(metadata.get("labels", []))
    return str(metadata.get(CONTENTS, {}).get(modality) or metadata.get(modality) or "")


def _without_known(
    collection: Collection, items: Items, plan: _Plan, rows: list[int]
) -> tuple[Items, dict[tuple[int, str], Item]]:
    """Return the items without texts and images whose codes are known, and the items that have these codes.

    Vectors stay: they need no features to be computed.
    """
    known: dict[tuple[int, str], Item] = {}
    modalities = dict(items.modalities)
    for name, values in items.modalities.items():
        if isinstance(values, list):
            modalities[name] = list(values)
            for place, row in enumerate(rows):
                owner = _owner(collection, plan, name, _content(plan.metadata[row], name))
                if owner is not None:
                    known[place, name], modalities[name][place] = owner, None
    return replace(items, modalities=modalities), known


def _owner(collection: Collection, plan: _Plan, modality: str, content: str) -> Item | None:
    """Return an item that has the code of a content, or had it before it was overwritten."""
    identifier = plan.id_of_content.get((modality, content))
    if identifier is None:
        return None
    return plan.rescued.get((modality, content)) or collection.index.get(identifier)


def _check_readable(items: Items, problems: list[Problem]) -> None:
    """Raise InputError if too large a share of a modality of the source, not of a block, cannot be read."""
    for name in items.modalities:
        failed = [problem for problem in problems if problem.skipped == name]
        if failed:
            n_values = int(items.present(name).sum())
            check_skipped(len(failed), n_values, items.max_skipped, f"values of {name!r}", failed[0])


def _put_block(
    collection: Collection,
    items: Items,
    vectors: ItemVectors,
    metadata: list[Metadata],
    known: Mapping[tuple[int, str], Item],
) -> tuple[list[Problem], set[str]]:
    """Write items in one step; return the problems, and the ids of items in which nothing can be read."""
    index, encoder = collection.index, collection.encoder
    metadata = [_described(stored, items, row, vectors.contents[row]) for row, stored in enumerate(metadata)]
    labels = [list(stored.get("labels", [])) for stored in metadata]
    coded = encoder.encode_items(vectors, labels)
    fill_in_codes(collection, coded, labels, known)
    described = [mask for name, mask in coded.present.items() if name != LABEL_WORDS]
    has_code = np.logical_or.reduce([np.zeros(len(items), bool), *described])
    rows = np.flatnonzero(has_code)
    problems = [*vectors.problems, *_unreadable(items, has_code)]
    if len(rows):
        ids, kept = [items.ids[row] for row in rows], [metadata[row] for row in rows]
        columns: dict[str, Any] = index_codes(encoder, coded, rows)
        index.put(ids, metadata=kept, **columns)
    return problems, {items.ids[row] for row in np.flatnonzero(~has_code)}


def _described(metadata: Metadata, items: Items, row: int, contents: dict[str, str]) -> Metadata:
    """Return metadata with the hashes of what was described: a file may have changed since the plan was made."""
    reused = {
        name: content for name, content in metadata.get(CONTENTS, {}).items() if items.modalities[name][row] is None
    }
    rest = {key: value for key, value in metadata.items() if key != CONTENTS}
    return rest | ({CONTENTS: reused | contents} if reused or contents else {})


def _unreadable(items: Items, has_code: Any) -> Iterator[Problem]:
    for row in np.flatnonzero(~has_code):
        yield Problem(items.places[row], "item", "nothing in it can be read")
