"""Held-out evaluation: retrieval quality and calibration of an encoder or a collection."""

from __future__ import annotations

import json
import math
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from dlfh._arrays import Array, Codes, Mask
from dlfh._persistence.files import read_regular, replace_file
from dlfh._selection import hold_out_groups
from dlfh._validation import check_integer, check_random_state
from dlfh.codes import pack
from dlfh.collection.calibration.model import CalibrationReport, relevance
from dlfh.collection.collection import Collection
from dlfh.collection.contents import item_groups
from dlfh.collection.encoder import Encoder
from dlfh.collection.item_codes import LABELS, ItemVectors, Training, labels_columns
from dlfh.collection.searcher import Searcher
from dlfh.datasets.items import Items
from dlfh.datasets.problem import LABEL_WORDS, Problem
from dlfh.errors import DataWarning, InputError

#: Minimum number of complete, labelled items to hold out some by default, and maximum number held out by default.
_MIN_ITEMS, _MAX_HELD_OUT = 200, 300
#: Maximum number of queries per modality for measuring calibration.
_MAX_QUERIES = 500

_FILE = "evaluation.json"
_MAX_BYTES = 1 << 16
_TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "int": (int,), "float": (int, float)}


@dataclass(frozen=True)
class RetrievalQuality:
    """Retrieval quality of one direction, from a query modality to a database modality.

    MAP is the mean average precision over the whole database; ties are in database order.

    codes: "learned", "hashed", or the share of the items' codes that is learned.
    chance: Share of relevant items, which is the expected MAP of a random ranking.
    hamming, asymmetric: MAP of each ranking by codes.
    any: MAP by the probability of sharing a label, from one modality of the items; 0 without label probabilities.
    ndcg: nDCG@10 of the asymmetric ranking, graded by the number of shared labels.
    exact: Share of the first five items that have exactly the query's labels, by the asymmetric ranking.
    """

    query: str
    database: str
    n_queries: int
    n_items: int
    codes: str
    chance: float
    hamming: float
    asymmetric: float
    any: float
    ndcg: float
    exact: float


_Row = TypeVar("_Row", RetrievalQuality, CalibrationReport)


@dataclass(frozen=True)
class EvaluationReport:
    """Retrieval quality by direction, and calibration by query modality and kind of codes, measured with unseen items.

    They are empty if no queries were held out, or the encoder is not calibrated.
    """

    quality: list[RetrievalQuality] = field(default_factory=list)
    calibration: list[CalibrationReport] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)  # queries that are in the collection or cannot be read

    def write(self, folder: Path) -> None:
        """Store quality and calibration in a collection's folder, unless both are empty."""
        if self.quality or self.calibration:
            tables = {name: [asdict(row) for row in getattr(self, name)] for name in ("quality", "calibration")}
            replace_file(folder / _FILE, [json.dumps(tables, indent=2).encode()])

    @classmethod
    def read(cls, folder: Path) -> EvaluationReport:
        """Return the stored report; an empty one if the file is missing or damaged, since nothing depends on it."""
        try:
            tables = json.loads(read_regular(folder / _FILE, _MAX_BYTES))
            return cls(_rows(RetrievalQuality, tables["quality"]), _rows(CalibrationReport, tables["calibration"]))
        except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
            return cls()


def _rows(kind: type[_Row], table: Any) -> list[_Row]:
    return [kind(**{column.name: _checked(column.type, row[column.name]) for column in fields(kind)}) for row in table]


def _checked(kind: Any, value: Any) -> Any:
    """Return a value if it is finite and of the annotated type; raise ValueError otherwise."""
    if type(value) not in _TYPES[kind] or not (isinstance(value, str) or math.isfinite(value)):
        raise ValueError(f"not a {kind}")
    return value


@dataclass(frozen=True)
class HeldOut:
    """Held-out items and the others, with their vectors and the report."""

    queries: Items
    database: Items
    query_vectors: ItemVectors
    database_vectors: ItemVectors
    training: Training | None  # None if the encoder was fitted to other items
    report: EvaluationReport
    learned_from: str = ""  # a sentence; empty if the encoder was fitted to other items


def hold_out(items: Items, n_queries: int, random_state: int = 0) -> tuple[Items, Items]:
    """Draw at most half of the complete, labelled items as queries; return the queries and all other items.

    Duplicates of a query are queries too, so there may be slightly fewer queries than requested.
    """
    check_integer(n_queries, "hold_out", 0)
    rng = check_random_state(random_state)
    complete = np.flatnonzero(items.complete())
    if n_queries > len(complete) // 2:
        raise InputError(
            f"cannot hold out {n_queries} of {len(complete)} complete, labelled items: hold out at most half of them"
        )
    order = rng.permutation(complete)
    drawn = np.sort(hold_out_groups(order, item_groups(items.take(order).modalities), n_queries)[0])
    return items.take(drawn), items.take(np.setdiff1d(np.arange(len(items)), drawn))


def default_held_out(n_complete: int) -> int:
    """Return how many of the complete, labelled items to hold out."""
    return min(n_complete // 10, _MAX_HELD_OUT) if n_complete >= _MIN_ITEMS else 0


def fit_and_evaluate(
    encoder: Encoder, items: Items, n_queries: int | None = None, *, fit: bool = True, random_state: int = 0
) -> HeldOut:
    """Fit and calibrate an encoder, in place, and evaluate it with held-out items.

    Without ``fit``, the encoder must be fitted already, and is only evaluated. By default, an encoder that is fitted
    here is evaluated with 10 % of the complete, labelled items, at most 300, if there are at least 200.
    """
    learned_from = ""
    if fit:
        from dlfh.collection.supervision import supervise

        items, learned_from = supervise(encoder, items)
    if n_queries is None:
        n_queries = default_held_out(int(items.complete().sum())) if fit else 0
    queries, others = hold_out(items, n_queries, random_state)
    warn_of_labels(others.labels or [])
    training = encoder.fit_items(others) if fit else None
    vectors = encoder.featurize_items(others) if training is None else training.vectors
    query_vectors = encoder.featurize_items(queries)
    parts = HeldOut(queries, others, query_vectors, vectors, training, EvaluationReport(), learned_from)
    if n_queries:
        databases = _hashed_databases(encoder, others, vectors, training)
        parts.report.quality.extend(_evaluate_queries(encoder, queries, query_vectors, databases))
    if n_queries and training is not None:
        from dlfh.collection.calibration.fit import calibrate  # opening a collection needs only the report

        encoder.calibration_, reports = calibrate(encoder, parts, random_state)
        parts.report.calibration.extend(reports)
    return parts


def evaluate_collection(collection: Collection, queries: Items) -> EvaluationReport:
    """Search a collection with labelled items that it does not contain, and evaluate the results."""
    stored = collection.index.contains(queries.ids) if queries.named else np.zeros(len(queries), bool)
    if stored.all():
        raise InputError("every query is in the collection itself: evaluate with items that it does not contain")
    problems = [
        Problem(queries.places[row], "item", f"{queries.ids[row]!r} is in the collection itself")
        for row in np.flatnonzero(stored)
    ]
    unseen = queries.take(np.flatnonzero(~stored))
    vectors = collection.encoder.featurize_items(unseen)
    quality = _evaluate_queries(collection.encoder, unseen, vectors, _stored_databases(collection))
    calibration = _report_calibration(collection.searcher.in_memory(), unseen, vectors)
    return EvaluationReport(quality, calibration, [*queries.problems, *problems, *vectors.problems])


def _report_calibration(searcher: Searcher, queries: Items, vectors: ItemVectors) -> list[CalibrationReport]:
    """Search with labelled items and compare the probabilities of all labelled items with their relevance."""
    stored = [(item.metadata or {}).get("labels") or [] for item in searcher.index.items()]
    labelled = np.array([bool(labels) for labels in stored], bool)
    reports = []
    for name in vectors.matrices:
        rows = np.intersect1d(vectors.positions[name], np.flatnonzero(queries.labelled()))[:_MAX_QUERIES]
        values = queries.modalities[name]
        is_text = name in searcher.encoder.text_modalities() and not isinstance(values, np.ndarray)
        texts = [values[row] for row in rows] if is_text else None
        found = searcher.log_odds(name, vectors.take(name, rows), texts) if len(rows) else None
        if found is None:
            continue
        log_odds, learned = found
        relevant = relevance(queries.take(rows).labels or [], stored, "all" if is_text else "any")
        for kind, mask in (("learned", learned), ("hashed", ~learned)):
            counted = np.where(mask & labelled, log_odds, -np.inf)
            if np.isfinite(counted).any():
                reports.append(CalibrationReport.from_results(name, kind, [*counted], [*relevant]))
    return reports


@dataclass(frozen=True)
class _Database:
    """Labelled items of one modality: packed codes, label probabilities, labels, and whether each code is learned."""

    codes: Codes
    label_bytes: Codes | None
    labels: list[list[str]]
    learned: Mask


def _hashed_databases(
    encoder: Encoder, items: Items, vectors: ItemVectors, training: Training | None
) -> dict[str, _Database]:
    """Return the labelled items of each modality with leave-one-out hashed codes."""
    coded = encoder.encode_items(vectors, None, training)
    databases = {}
    for name in coded.hashed:
        rows = np.flatnonzero(coded.present[name] & items.labelled())
        labels, suggested = items.take(rows).labels or [], coded.suggested_labels.get(name)
        label_bytes = None if suggested is None else suggested[rows, : coded.labels.shape[1]]
        databases[name] = _Database(coded.hashed[name][rows], label_bytes, labels, np.zeros(len(rows), bool))
    return databases


def _stored_databases(collection: Collection) -> dict[str, _Database]:
    """Return the labelled items of each modality with the codes that a collection stores."""
    rows: dict[str, list[tuple[Codes, Codes | None, list[str], bool]]]
    rows = {name: [] for name in collection.encoder.modalities_}
    for item in collection.index.items():
        labels = (item.metadata or {}).get("labels") or []
        for name in rows if labels else ():
            if name in item.codes:
                label_bytes = item.codes.get(LABELS if item.states[name] == "learned" else labels_columns(name)[0])
                rows[name].append((item.codes[name], label_bytes, labels, item.states[name] == "learned"))
    databases = {}
    for name, stored in rows.items():
        if stored:
            codes, probable, labels, learned = zip(*stored, strict=True)
            has_probable = all(each is not None for each in probable)
            columns = np.stack(codes), np.stack(probable) if has_probable else None
            databases[name] = _Database(*columns, list(labels), np.array(learned, bool))
    return databases


def _evaluate_queries(
    encoder: Encoder, queries: Items, vectors: ItemVectors, databases: Mapping[str, _Database]
) -> list[RetrievalQuality]:
    labelled = np.flatnonzero(queries.labelled())
    database_labels = [labels for database in databases.values() for labels in database.labels]
    warn_of_disjoint_labels(queries.labels or [], database_labels)
    quality = []
    for name in vectors.matrices:
        rows = np.intersect1d(vectors.positions[name], labelled)
        labels = queries.take(rows).labels
        for other, database in databases.items():
            if _is_direction(name, other, encoder.modalities_) and len(rows) and len(database.codes):
                matrix = vectors.take(name, rows)
                quality.append(_evaluate_direction(encoder, name, matrix, labels, other, database))
    if not quality:
        raise InputError("nothing to evaluate: there must be labelled queries, and labelled items of another modality")
    return quality


def _is_direction(query: str, database: str, modalities: tuple[str, ...]) -> bool:
    """Return whether to evaluate a direction: across modalities, or within the only one apart from label words."""
    if LABEL_WORDS not in modalities:
        return query != database
    return database != LABEL_WORDS and (query != database or len(modalities) == 2)


def _evaluate_direction(
    encoder: Encoder, query: str, matrix: Any, query_labels: Any, other: str, database: _Database
) -> RetrievalQuality:
    from dlfh.metrics import evaluate  # reading a report does not need it
    from dlfh.metrics.measures import AP, Measure, P, nDCG

    def rank(queries: Array, *measures: Measure, items: Codes = database.codes) -> Any:
        return evaluate(queries, items, query_labels, database.labels, measures=[AP, P, *measures])

    n_items = len(database.codes)
    graded, exact = nDCG @ min(10, n_items), P(match="all") @ min(5, n_items)
    projections = encoder.model_.project(query, matrix)
    hamming, asymmetric = rank(pack(projections)), rank(projections, graded, exact)
    by_labels, model = 0.0, encoder.label_model
    if model is not None and database.label_bytes is not None:
        tables = model.tables(encoder.label_probabilities(query, matrix), "any")
        by_labels = rank(tables, items=database.label_bytes)["AP"]
    chance = hamming["P"]  # precision over the whole ranking
    scores = chance, hamming["AP"], asymmetric["AP"], by_labels, asymmetric[graded], asymmetric[exact]
    share = float(database.learned.mean())
    codes = {0.0: "hashed", 1.0: "learned"}.get(share, f"{share:.0%} learned")
    return RetrievalQuality(query, other, hamming.n_queries, hamming.n_items, codes, *scores)


def warn_of_labels(labels: Sequence[Sequence[str]]) -> None:
    """Warn if all labelled items share a label, or no two do."""
    labelled = [item for item in labels if item]
    if len(labelled) < 2:
        return
    label, n = Counter(label for item in labelled for label in {*item}).most_common(1)[0]
    if n == len(labelled):
        _warn(
            f"all {n:,} items have the label {label[:60]!r}, so every item is relevant to every other: use labels that "
            "distinguish them"
        )
    elif n == 1:
        _warn(
            f"no two of {len(labelled):,} items share a label, so no item is relevant to another: check the column and "
            "the separator of labels"
        )


def warn_of_disjoint_labels(queries: Sequence[Sequence[str]], database: Sequence[Sequence[str]]) -> None:
    """Warn if queries and database have no label in common."""
    searched, stored = ({label for item in labels for label in item} for labels in (queries, database))
    if searched and stored and not searched & stored:
        _warn(
            "queries and database share no label, so no item is relevant: for example, a query has the label "
            f"{min(searched)[:60]!r} and an item has {min(stored)[:60]!r}"
        )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, DataWarning, stacklevel=3)
