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

from dlfh._arrays import Floats, Integers
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
from dlfh.collection.suggesting import predicted
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

#: Maximum number of items to choose from, drawn at random.
_MAX_POOL = 5000
#: Smallest weight of an item in clustering, relative to the most uncertain item.
_MIN_UNCERTAINTY = 0.05


@dataclass(frozen=True)
class RelearnResult:
    """What `Collection.relearn` learned from, and how long it took."""

    n_labelled: int
    n_items: int
    n_labels: int
    n_questions: int
    seconds: float

    def __str__(self) -> str:
        marks = f" and the marks of {self.n_questions:,} questions" if self.n_questions else ""
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
    index, encoder = collection.index, collection.encoder
    pool = index.positions()[index.matches({"labels": None})]
    if len(pool) > _MAX_POOL:
        pool = np.sort(np.random.default_rng(0).choice(pool, _MAX_POOL, replace=False))
    items = [item for _, item in index.existing_items(pool.tolist())]
    if len(items) <= n:
        return [item.id for item in items]
    import faiss  # slow to import

    names = encoder.searchable_modalities()
    features = np.zeros((len(items), len(names) * encoder.n_bits), np.float32)
    for row, item in enumerate(items):
        for name, code in hashed_codes(item, names).items():
            start = names.index(name) * encoder.n_bits
            features[row, start : start + encoder.n_bits] = unpack(code[None], encoder.n_bits)[0]
    weights = _uncertainty(collection, items)
    limits = {"min_points_per_centroid": 1, "max_points_per_centroid": len(items)}
    clusters = faiss.Kmeans(features.shape[1], n, niter=20, seed=0, **limits)
    clusters.train(features, weights=weights.astype(np.float32))
    distances = faiss.pairwise_distances(features, clusters.centroids)  # squared
    chosen = dict.fromkeys(int(row) for row in np.argmin(distances / weights[:, None], axis=0))
    more = (row for row in np.argsort(-weights, kind="stable").tolist() if row not in chosen)
    return [items[row].id for row in [*chosen, *more][:n]]


def _uncertainty(collection: Collection, items: Sequence[Item]) -> Floats:
    """Return the entropy of the labels of items, relative to the largest; 1 if labels are not predicted."""
    weights = dict.fromkeys((item.id for item in items), 1.0)
    if collection.encoder.label_model is not None:
        positions = collection.index.positions([item.id for item in items])
        for ids, probabilities, _ in predicted(collection, positions):
            p = np.clip(probabilities.astype(np.float64), 1e-6, 1 - 1e-6)
            entropy = -(p * np.log(p) + (1 - p) * np.log1p(-p)).sum(axis=1)
            weights |= dict(zip(ids, entropy.tolist(), strict=True))
    values = np.array([*weights.values()])
    return np.maximum(values / max(float(values.max()), 1e-12), _MIN_UNCERTAINTY)


def relearn(collection: Collection) -> RelearnResult:
    """Learn again from all labels; see `Collection.relearn`."""
    began, index, path = time.perf_counter(), collection.index, collection.path
    if index.address is not None:
        raise InputError("a collection with its items in a database cannot learn again: build it again")
    if not index.writable:
        raise InputError(f"collection {path} is open for reading: open it with writable=True to learn again")
    remove_former_parts(path)
    stored = list(index.items())
    encoder, groups, n_questions = _learn(collection, stored)
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
    return RelearnResult(n_labelled, len(stored), n_labels, n_questions, time.perf_counter() - began)


#: Items, given by their rows, with their vectors and labels; and the training, if they took part in it.
Group = tuple[Integers, ItemVectors, list[list[str]], Training | None]


def _learn(collection: Collection, stored: Sequence[Item]) -> tuple[Encoder, list[Group], int]:
    """Return an encoder that learned from all labels, the items in groups, and the number of questions it learned from.

    The groups are training items and held-out ones. As long as few items have labels, words of texts count as labels,
    and questions with marks are training points. A new calibration holds items out, like a build, and takes no marks.
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
    points = [] if n_held_out or are_enough(known) else points_of_marks(collection, labels)
    taught = [*(labels[row] for row in kept.tolist()), *(point.labels for point in points)]
    given = None
    if words:
        labels_given = {label for each in known for label in each}
        of_points = ([label for label in point.labels if label in labels_given] for point in points)
        given = [*(known[row] for row in kept.tolist()), *of_points]
    encoder, training = refit(old, with_points(vectors.subset(kept), points), taught, given)
    groups: list[Group] = [(kept, training.vectors, taught, training)]  # questions are no items
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
