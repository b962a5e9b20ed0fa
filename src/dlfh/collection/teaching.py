"""Teach a collection: change labels, choose items to label next, and learn again from all labels.

Learning again writes a new model and a new index beside the old ones, and then the card of the collection, which
replaces both at once. Readers that are open keep the old ones. After a crash, the next `relearn` removes leftovers.
"""

from __future__ import annotations

import copy
import secrets
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Integers, Singles
from dlfh._validation import check_integer
from dlfh.codes import unpack
from dlfh.collection.calibration.fit import calibrate
from dlfh.collection.changing import fill_in_codes
from dlfh.collection.collection import Collection
from dlfh.collection.encoder import Encoder
from dlfh.collection.evaluation import EvaluationReport, HeldOut, default_held_out
from dlfh.collection.folder import remove_former_parts, write_card
from dlfh.collection.item_codes import CONTENTS, ItemVectors, Training, column_names, hashed_codes, index_codes
from dlfh.collection.marks import points_of_marks, with_points
from dlfh.collection.query import labels_of
from dlfh.collection.suggesting import fused
from dlfh.collection.supervision import are_enough, named
from dlfh.collection.training import add_label_words, refit
from dlfh.collection.vectors import read_vectors
from dlfh.datasets.items import Items
from dlfh.datasets.label_cells import parse_labels
from dlfh.datasets.problem import LABEL_WORDS
from dlfh.errors import InputError
from dlfh.features.base import Featurizer
from dlfh.index import Index
from dlfh.index.items import Item

#: Maximum numbers of unlabelled items to choose from, and of labelled ones to differ from, drawn at random.
_MAX_POOL = 5000
#: Maximum number of clusters for labelled items.
_MAX_COVERED = 500


@dataclass(frozen=True)
class RelearnResult:
    """What `Collection.relearn` learned from, and how long it took."""

    n_labelled: int
    n_items: int
    n_labels: int
    n_queries: int
    seconds: float

    def __str__(self) -> str:
        marks = f" and the marks of {self.n_queries:,} queries" if self.n_queries else ""
        return f"learned {self.n_labels:,} labels from {self.n_labelled:,} of {self.n_items:,} items{marks}"


def label_items(collection: Collection, ids: Sequence[str], add: Sequence[str], remove: Sequence[str]) -> int:
    """Change the labels of items in one step; see `Collection.label`."""
    added, removed = (_checked(labels, name) for labels, name in ((add, "add"), (remove, "remove")))
    if both := sorted({*added} & {*removed}):
        raise InputError(f"the label {both[0]!r} is both added and removed: name it once")
    if isinstance(ids, str):
        raise InputError(f"ids must be a list of strings: use [{ids!r}]")

    def relabelled(metadata: dict[str, Any]) -> dict[str, Any]:
        kept = [label for label in labels_of(metadata) if label not in removed]
        return metadata | {"labels": list(dict.fromkeys(kept + added))}

    return edit_items(collection, ids, relabelled)


def edit_items(collection: Collection, ids: Sequence[str], edit: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    """Change the labels and columns of items, all or none; return how many changed. Codes follow the labels."""
    items, edited = list[Item](), list[dict[str, Any]]()
    for item in (collection.index.get(name) for name in dict.fromkeys(ids)):
        metadata = edit(dict(item.metadata or {}))
        if not metadata.get("labels"):
            metadata.pop("labels", None)
        if metadata != (item.metadata or {}):
            items.append(item)
            edited.append(metadata)
    if items:
        _put_edited(collection, items, edited)
    return len(items)


def _checked(labels: Sequence[str], name: str) -> list[str]:
    if isinstance(labels, str) or not all(isinstance(label, str) and label.strip() for label in labels):
        raise InputError(f"{name} must be a list of labels, which are not empty, got {labels!r}")
    return parse_labels(list(labels), None)


def _put_edited(collection: Collection, items: list[Item], metadata: list[dict[str, Any]]) -> None:
    encoder, labels = collection.encoder, [labels_of(each) for each in metadata]
    vectors = ItemVectors(len(items), {}, {}, [], [{} for _ in items])
    if LABEL_WORDS in encoder.modalities_:
        add_label_words(encoder.featurizers_[LABEL_WORDS], vectors, labels)
    labels = encoder.with_words(labels, metadata)
    coded = encoder.encode_items(vectors, labels)
    names = encoder.searchable_modalities()
    known = {(row, name): item for row, item in enumerate(items) for name in names if name in item.codes}
    fill_in_codes(collection, coded, labels, known)
    codes = index_codes(encoder, coded, np.arange(len(items)))
    collection.index.put([item.id for item in items], metadata=metadata, **codes)


def label_next(collection: Collection, n: int) -> list[str]:
    """Return the items to label next; see `Collection.label_next`."""
    check_integer(n, "n", 1)
    index, rng = collection.index, np.random.default_rng(0)
    unlabelled = index.matches({"labels": None})
    pools = []
    for which in (unlabelled, ~unlabelled):
        pool = index.positions()[which]
        pools.append(np.sort(rng.choice(pool, min(len(pool), _MAX_POOL), replace=False)))
    ids, features = _beliefs(collection, pools[0])
    if len(ids) <= n:
        return ids
    import faiss  # slow to import

    n_items, covered = len(ids), _beliefs(collection, pools[1])[1]
    features = np.concatenate([features, covered])
    n_clusters = min(n + min(len(covered), _MAX_COVERED), len(features))
    limits = {"min_points_per_centroid": 1, "max_points_per_centroid": len(features)}
    clusters = faiss.Kmeans(features.shape[1], n_clusters, niter=20, seed=0, **limits)
    clusters.train(features)
    distances = faiss.pairwise_distances(features, clusters.centroids)  # squared
    nearest = distances.argmin(axis=1)
    size = np.bincount(nearest[:n_items], minlength=n_clusters)
    size[nearest[n_items:]] = 0
    largest = np.argsort(-size, kind="stable")[: np.count_nonzero(size)]
    typical = distances[:n_items, largest].argmin(axis=0).tolist()
    atypical = np.argsort(-distances[np.arange(n_items), nearest[:n_items]], kind="stable").tolist()
    return [ids[row] for row in [*dict.fromkeys([*typical, *atypical])][:n]]


def _beliefs(collection: Collection, positions: Integers) -> tuple[list[str], Singles]:
    """Return the ids of items, and the points between which to measure distances: label probabilities, or codes.

    The Euclidean distance of the roots of probabilities is Hellinger's distance.
    """
    encoder = collection.encoder
    if encoder.label_model is not None:
        found = [([item.id for item in items], np.sqrt(p)) for items, p in fused(collection, positions)]
        ids = [name for names, _ in found for name in names]
        return ids, np.concatenate([np.empty((0, encoder.label_model.n_labels), np.float32), *(p for _, p in found)])
    items = [item for _, item in collection.index.existing_items(positions.tolist())]
    names = encoder.searchable_modalities()
    features = np.zeros((len(items), len(names) * encoder.n_bits), np.float32)
    for row, item in enumerate(items):
        for name, code in hashed_codes(item, names).items():
            start = names.index(name) * encoder.n_bits
            features[row, start : start + encoder.n_bits] = unpack(code[None], encoder.n_bits)[0]
    return [item.id for item in items], features


def relearn(collection: Collection) -> RelearnResult:
    """Learn again from all labels; see `Collection.relearn`."""
    began, index, path = time.perf_counter(), collection.index, collection.path
    if index.address is not None:
        raise InputError("a collection with its items in a database cannot learn again: build it again")
    if not index.writable:
        raise InputError(f"collection {path} is open for reading: open it with writable=True to learn again")
    remove_former_parts(path)
    stored = list(index.items())
    encoder, groups, n_queries = _learn(collection, stored)
    parts, texts = f"-{secrets.token_hex(8)}", encoder.text_modalities()
    new = Index.create(path / f"index{parts}", encoder.n_bits, column_names(encoder), texts=texts)
    try:
        encoder.save(path / f"model{parts}")
        for rows, vectors, labels, training in groups:
            coded = encoder.encode_items(vectors, labels, training)
            codes = index_codes(encoder, coded, np.arange(len(rows)))
            new.put([stored[row].id for row in rows], metadata=[stored[row].metadata for row in rows], **codes)
        write_card(path, new, parts)
    except BaseException:
        new.close()
        with suppress(OSError):
            for name in ("model", "index"):
                shutil.rmtree(path / f"{name}{parts}")
        raise
    index.close()
    collection.__init__(encoder, new, path)  # type: ignore[misc]
    remove_former_parts(path)
    n_labels = 0 if encoder.label_model is None else encoder.label_model.n_labels
    n_labelled = sum(bool(labels_of(item.metadata or {})) for item in stored)
    return RelearnResult(n_labelled, len(stored), n_labels, n_queries, time.perf_counter() - began)


#: Items, given by their rows, with their vectors and labels; and the training, if they took part in it.
Group = tuple[Integers, ItemVectors, list[list[str]], Training | None]


def _learn(collection: Collection, stored: Sequence[Item]) -> tuple[Encoder, list[Group], int]:
    """Return an encoder that learned from all labels, the items in groups, and the number of queries it learned from.

    The groups are training items and held-out ones. As long as few items have labels, words of texts count as labels;
    without any label, queries with marks are training points. A new calibration holds items out, like a build, and
    takes no marks.
    """
    metadata, old = [item.metadata or {} for item in stored], copy.copy(collection.encoder)
    known = [labels_of(each) for each in metadata]
    words = {} if are_enough(known) else named(old.word_labels_, known)
    if bool(words) != bool(old.word_labels_):
        old.calibration_ = None  # of words
    old.word_labels_ = words
    labels, vectors = old.with_words(known, metadata), _vectors(collection, stored)
    labelled = np.array([*map(bool, labels)])
    complete = np.flatnonzero(np.logical_and.reduce([labelled, *map(vectors.present, vectors.matrices)]))
    n_held_out = default_held_out(len(complete)) if old.calibration_ is None else 0
    held_out = np.sort(np.random.default_rng(0).permutation(complete)[:n_held_out])
    kept = np.setdiff1d(np.arange(len(stored)), held_out)
    points = [] if n_held_out or any(known) else points_of_marks(collection, labels)
    taught = [*(labels[row] for row in kept.tolist()), *(point.labels for point in points)]
    given = [*(known[row] for row in kept.tolist()), *([] for _ in points)] if words else None
    encoder, training = refit(old, with_points(vectors.subset(kept), points), taught, given)
    groups: list[Group] = [(kept, training.vectors, taught, training)]  # queries are no items
    if n_held_out:
        queries, of_queries = vectors.subset(held_out), [labels[row] for row in held_out.tolist()]
        if LABEL_WORDS in encoder.featurizers_:
            add_label_words(encoder.featurizers_[LABEL_WORDS], queries, of_queries)
        groups.append((held_out, queries, of_queries, None))
        names = (*encoder.text_modalities(), *encoder.image_modalities())
        modalities = {name: [each.get(name) for each in metadata] for name in names}
        items = Items([item.id for item in stored], modalities, labels, metadata, [""] * len(stored), [])
        parts = items.take(held_out), items.take(kept), queries, training.vectors
        encoder.calibration_, _ = calibrate(encoder, HeldOut(*parts, training, EvaluationReport()))
    return encoder, groups, len(points)


def _vectors(collection: Collection, items: Sequence[Item]) -> ItemVectors:
    """Return the vectors of all items, but not of label words: from texts, kept vectors or images."""
    encoder = collection.encoder
    matrices, positions = dict[str, Any](), dict[str, Integers]()
    contents = [dict((item.metadata or {}).get(CONTENTS, {})) for item in items]
    for number, (name, featurizer) in enumerate(encoder.featurizers_.items()):
        if name == LABEL_WORDS:  # follows the labels
            continue
        rows = np.array([row for row, item in enumerate(items) if name in item.codes], np.int64)
        if featurizer.takes == "texts":
            matrices[name] = featurizer.transform([str((items[row].metadata or {}).get(name, "")) for row in rows])
        else:
            matrices[name] = _kept(collection, number, name, featurizer, [items[row] for row in rows])
        positions[name] = rows
    return ItemVectors(len(items), matrices, positions, [], contents)


def _kept(collection: Collection, number: int, name: str, featurizer: Featurizer, items: Sequence[Item]) -> Any:
    """Return the kept vectors of a modality; images whose vectors are missing are read again."""
    contents = [(item.metadata or {}).get(CONTENTS, {}).get(name, "") for item in items]
    matrix, places = read_vectors(collection.path, number, contents, featurizer.n_features_)
    missing = np.setdiff1d(np.arange(len(items)), places)
    if not len(missing):
        return matrix
    paths = [(items[row].metadata or {}).get(name) for row in missing]
    found = None
    if featurizer.takes == "images" and all(isinstance(path, str) for path in paths):
        found = featurizer.transform_readable([collection.find_file(str(path)) for path in paths])
    if found is None or len(found.rows) < len(missing):
        first = int(missing[0] if found is None else missing[next(iter(sorted(found.problems)))])
        raise InputError(
            f"the vectors of {len(missing):,} items in the modality {name!r} are not kept, and item "
            f"{items[first].id!r} cannot be read again: build the collection again"
        )
    order = np.argsort(np.concatenate([places, missing]), kind="stable")
    stack = sp.vstack if sp.issparse(matrix) else np.vstack
    return stack([matrix, found.features])[order]
