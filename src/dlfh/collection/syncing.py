"""A collection made equal to its source: what is new comes, what changed is replaced, what is gone goes, and only that.

The index remembers what each item was made of (`dlfh.collection.contents`), in the same step that writes its codes, so
that nothing has to be remembered beside it. An item is the same if what the index keeps of it would be the same: texts,
labels, further columns, paths, and hashes of images and vectors. Codes go by content: a picture that was moved, or
whose caption changed, keeps the code that it has.

Items are put in blocks, and what is gone is removed last: a kill at any moment leaves a collection that is nearer to
its source than before, and the next run goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dlfh.collection.adding import fill_in_codes, metadata_of
from dlfh.collection.columns import index_codes
from dlfh.collection.contents import CONTENTS, FileHashes, contents_of
from dlfh.datasets.items import Items
from dlfh.datasets.problem import LABEL_WORDS, Problem
from dlfh.errors import InputError
from dlfh.index.items import Item

if TYPE_CHECKING:
    from dlfh.collection.collection import Collection

__all__ = ["SyncResult", "sync_items"]

#: So many items are written in one step.
_BLOCK = 512

Metadata = dict[str, Any]
#: A modality and what is in it, by which the code of the same thing is found.
Content = tuple[str, str]


@dataclass(frozen=True)
class SyncResult:
    """What `Collection.sync` did, or would do.

    Attributes
    ----------
    added, updated, removed : list of str
        The ids of items that were new, had changed, and were gone.
    n_unchanged : int
        How many others there are.
    described : dict of str to int
        By modality, how many texts, images or vectors were described: those that the collection had no code of.
    problems : list of Problem
        What of the items was left out, and why.
    """

    added: list[str]
    updated: list[str]
    removed: list[str]
    n_unchanged: int
    described: dict[str, int]
    problems: list[Problem]

    @property
    def changed(self) -> bool:
        """Whether anything was to be done."""
        return bool(self.added or self.updated or self.removed)

    def __str__(self) -> str:
        counts = {"added": self.added, "updated": self.updated, "removed": self.removed}
        done = ", ".join(f"{len(ids):,} {what}" for what, ids in counts.items())
        described = ", ".join(f"{n:,} {name}" for name, n in self.described.items() if n) or "nothing"
        return f"{done}, {self.n_unchanged:,} unchanged; described {described}"


@dataclass(frozen=True)
class _Plan:
    """What is to be done: rows of the items to put, ids to remove, and which items have the codes of what contents.

    ``rescued`` are items as they were whose codes others need that are put after them.
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
    """Make a collection equal to items; `Collection.sync` says how."""
    hashes = FileHashes(collection.path, trust=not rehash)
    plan = _plan(collection, items, hashes)
    gone = plan.gone if remove else []
    if len(gone) > max_removed * plan.n_before:
        raise InputError(
            f"{len(gone):,} of the {plan.n_before:,} items of the collection are not among the {len(items):,} that it "
            f"is to be equal to, and at most {max_removed:.0%} may go: is it the right source? "
            "(max_removed=1, --max-removed 1 if it is)"
        )
    rows = sorted([*plan.added, *plan.changed])
    described = dict.fromkeys(items.modalities, 0)
    problems: list[Problem] = list(items.problems)
    lost: set[str] = set()
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        left, known = _unknown(collection, items.take(block), plan, block)
        for name in left.modalities:
            described[name] += int(left.present(name).sum())
        if not dry_run:
            unread, ids = _put_block(collection, left, [plan.metadata[row] for row in block], known)
            problems += unread
            lost |= ids
    removed = [*gone, *sorted(lost & {items.ids[row] for row in plan.changed})]
    if removed and not dry_run:
        collection.remove(removed)
    hashes.keep()
    added = [items.ids[row] for row in plan.added if items.ids[row] not in lost]
    updated = [items.ids[row] for row in plan.changed if items.ids[row] not in lost]
    n_unchanged = plan.n_before - len(plan.changed) - len(gone)
    return SyncResult(added, updated, removed, n_unchanged, described, problems)


def _plan(collection: Collection, items: Items, hashes: FileHashes) -> _Plan:
    """Compare what the index keeps of items with what it would keep."""
    contents = contents_of(collection.encoder.featurizers_, items, hashes)
    metadata = [_plain(metadata_of(collection, items, row, own)) for row, own in enumerate(contents)]
    before: dict[str, Metadata] = {}
    id_of_content: dict[Content, str] = {}
    for item in collection.index.items():
        before[item.id] = item.metadata or {}
        for content in _contents(before[item.id], item.codes):
            id_of_content.setdefault(content, item.id)
    known = [before.get(name) for name in items.ids]
    added = [row for row, old in enumerate(known) if old is None]
    changed = [row for row, old in enumerate(known) if old is not None and old != metadata[row]]
    wanted = {content for row in [*added, *changed] for content in _contents(metadata[row], items.modalities)}
    rescued: dict[Content, Item] = {}
    for row in changed:
        name = items.ids[row]
        overwritten = _contents(before[name], items.modalities) - _contents(metadata[row], items.modalities)
        mine = {content for content in overwritten & wanted if id_of_content.get(content) == name}
        rescued |= dict.fromkeys(mine, collection.index.get(name)) if mine else {}
    ids = {*items.ids}
    gone = [name for name in before if name not in ids]
    return _Plan(metadata, added, changed, gone, len(before), id_of_content, rescued)


def _contents(metadata: Metadata, modalities: Iterable[str]) -> set[Content]:
    return {(name, content) for name in modalities if (content := _content(metadata, name))}


def _plain(metadata: Metadata) -> Metadata:
    """Return metadata as they are when they have been written and read."""
    return json.loads(json.dumps(metadata))


def _content(metadata: Metadata, modality: str) -> str:
    """Return what an item has in a modality: the hash of an image or a vector, or a text."""
    if modality == LABEL_WORDS and modality not in metadata:
        return ", ".join(metadata.get("labels", []))
    return str(metadata.get(CONTENTS, {}).get(modality) or metadata.get(modality) or "")


def _unknown(
    collection: Collection, items: Items, plan: _Plan, rows: list[int]
) -> tuple[Items, dict[tuple[int, str], Item]]:
    """Return items without the texts and images whose codes are known, and the items that have these.

    Vectors are left as they are: they describe themselves.
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
    """Return an item that has the code of a content, or had it before others were put; none if there is none."""
    identifier = plan.id_of_content.get((modality, content))
    if identifier is None:
        return None
    return plan.rescued.get((modality, content)) or collection.index.get(identifier)


def _put_block(
    collection: Collection, items: Items, metadata: list[Metadata], known: Mapping[tuple[int, str], Item]
) -> tuple[list[Problem], set[str]]:
    """Put items into the index, in one step; return what was left out, and the ids of items that nothing is left of."""
    index, encoder = collection.index, collection.encoder
    vectors = encoder.describe(items)
    labels = [list(own.get("labels", [])) for own in metadata]
    coded = encoder.encode_items(vectors, labels)
    fill_in_codes(collection, coded, labels, known)
    described = [mask for name, mask in coded.present.items() if name != LABEL_WORDS]
    has_code = np.logical_or.reduce([np.zeros(len(items), bool), *described])
    rows = np.flatnonzero(has_code)
    lost = [items.ids[row] for row in np.flatnonzero(~has_code)]
    problems = [*vectors.problems, *_unreadable(items, has_code)]
    if len(rows):
        ids, kept = [items.ids[row] for row in rows], [metadata[row] for row in rows]
        index.put(ids, metadata=kept, **index_codes(coded, rows))  # type: ignore[arg-type]
    return problems, {*lost}


def _unreadable(items: Items, has_code: Any) -> Iterator[Problem]:
    for row in np.flatnonzero(~has_code):
        yield Problem(items.places[row], "item", "nothing of it can be read")
