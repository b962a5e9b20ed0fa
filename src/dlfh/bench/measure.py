"""Compute a cell: accuracy in every protocol from one fit, or training time."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dlfh._arrays import Array, Integers
from dlfh._labels import LabelSets
from dlfh._parallel import blas_threads
from dlfh._probabilities.scores import MATCHES
from dlfh.bench.cells import Cell, find_in_file
from dlfh.bench.data import Partition
from dlfh.codes import n_bytes
from dlfh.datasets.code_files import read_code_set
from dlfh.datasets.paired import Paired
from dlfh.errors import InputError
from dlfh.methods import CrossModalHasher
from dlfh.methods.catalogue import METHODS
from dlfh.metrics import evaluate
from dlfh.metrics.measures import AP, PR, P, nDCG

CURVE_POINTS = 60  # number of points on a precision-recall curve, evenly spaced in the logarithm of the rank
EXACT_AT = 5  # cut-off of the precision that counts items with exactly the query's labels
_compiled: set[str] = set()  # methods that this process has fitted, whose kernels are therefore compiled
Measured = tuple[dict[str, Any], dict[str, Any]]


def build(cell: Cell, threads: int, memory: int | None = None) -> CrossModalHasher:
    """Return the unfitted method of a cell; ``memory`` can make it fail, but does not change its codes."""
    method: Any = METHODS[cell.method]
    given: dict[str, Any] = {"n_jobs": threads}
    if not method.info.is_deterministic:
        given["random_state"] = cell.seed
    if memory is not None and "memory" in method().get_params():
        given["memory"] = memory
    return method(cell.bits, **{**given, **cell.parameters})


def retrieval(cell: Cell, parts: Partition, threads: int = 1, memory: int | None = None) -> Measured:
    """Fit once; return ``values["protocols"][protocol][direction]``, as `_scores` does, and the training time."""
    rows = None
    if cell.train_points is not None and cell.train_points < len(parts.train):
        rows = np.sort(np.random.default_rng(cell.seed).permutation(len(parts.train))[: cell.train_points])
    sample = parts.train if rows is None else parts.train.take(rows)
    model = build(cell, threads, memory).fit(sample.modalities, sample.labels)
    values: dict[str, Any] = {"n_train": len(sample), "n_queries": len(parts.queries)}
    with blas_threads(threads):
        queries, databases = _forms(model, parts.queries, asking=True), _databases(model, parts, rows)
        values["protocols"] = _protocols(cell, parts, threads, queries, databases)
    for name, key in (("objective_", "objective"), ("n_iter_", "iterations")):
        if hasattr(model, name):
            values[key] = np.asarray(getattr(model, name)).tolist()
    return values, {"fit": model.fit_seconds_}


def training_time(cell: Cell, parts: Partition, threads: int, memory: int | None = None) -> Measured:
    """Time a fit, after a fit to a few points that compiles the kernels."""
    if cell.method not in _compiled:
        few = parts.train.take(np.arange(min(300, len(parts.train))))
        build(cell, threads, memory).fit(few.modalities, few.labels)
        _compiled.add(cell.method)
    with contextlib.suppress(OSError):  # resets the peak, only on Linux; elsewhere, it includes compilation
        Path("/proc/self/clear_refs").write_text("5")
    model = build(cell, threads, memory).fit(parts.train.modalities, parts.train.labels)
    kilobytes = find_in_file("/proc/self/status", r"VmHWM:\s*(\d+) kB")
    peak_bytes = 1024 * int(kilobytes) if kilobytes else None
    return {"n_train": len(parts.train)}, {"fit": model.fit_seconds_, "peak_bytes": peak_bytes}


def given_codes(cell: Cell, parts: Partition, threads: int, memory: int | None = None) -> Measured:
    """Measure codes that were computed elsewhere, in the protocols that they allow; see `read_code_set`."""
    modalities = tuple(parts.queries.modalities)
    place = Path(cell.parameters["file"])
    codes, n_bits = read_code_set(place, modalities)
    if n_bytes(n_bits) != n_bytes(cell.bits):
        raise InputError(f"{place} has codes of {n_bits} bits, but its name says {cell.bits}")
    for (name, role), matrix in codes.items():
        n_points = len(parts.queries if role == "queries" else parts.train)
        if len(matrix) != n_points:
            called = "queries" if role == "queries" else "points that are not queries"
            raise InputError(f"{place} has {len(matrix)} {name} codes for the {n_points} {called} of this split")
    by_role = {
        role: {"codes": {name: codes[name, role] for name in modalities}}
        for role in ("queries", "learned", "hashed")
        if all((name, role) in codes for name in modalities)
    }
    queries = by_role.pop("queries")
    databases = {protocol: (database, parts.train.labels) for protocol, database in by_role.items()}
    protocols = _protocols(cell, parts, threads, queries, databases)
    return {"protocols": protocols, "n_queries": len(parts.queries)}, {}


#: Points by form and modality: "codes", label probabilities as "bytes"; of queries also real "values" and score tables.
_Forms = dict[str, dict[str, Array]]
_Database = tuple[_Forms, Any]  # with labels
#: Other rankings: the forms of queries and of items. Published results rank by Hamming distance, in separate tables.
_RANKINGS = {"asymmetric_map": ("values", "codes"), "any_map": ("any", "bytes"), "all_map": ("all", "bytes")}


class _Search(NamedTuple):
    queries: _Forms
    query_labels: Any
    database: _Forms
    database_labels: Any


def _forms(model: CrossModalHasher, points: Paired, *, asking: bool = False) -> _Forms:
    """Return points as items or, with ``asking``, as queries."""
    features = points.modalities
    found: _Forms = {"codes": {name: model.encode(name, features[name]) for name in model.modalities_}}
    if asking:
        found["values"] = {name: model.project(name, features[name]) for name in model.modalities_}
    if model.label_model_:
        by_name = {name: model.label_probabilities({name: features[name]}) for name in model.modalities_}
        found["bytes"] = {name: model.quantize_probabilities(each) for name, each in by_name.items()}
        for match in MATCHES if asking else ():
            found[match] = {name: model.score_tables(each, match) for name, each in by_name.items()}
    return found


def _databases(model: CrossModalHasher, parts: Partition, rows: Integers | None) -> dict[str, _Database]:
    """Return the database of each protocol; ``rows`` are the training points if not all are."""
    hashed, labels = _forms(model, parts.train), parts.train.labels
    learned: _Forms = {"codes": model.codes_}
    if model.label_model_:
        sets = LabelSets.from_labels(labels if rows is None else parts.train.take(rows).labels)
        known = model.quantize_probabilities(sets.rows()[sets.set_of_point].toarray())
        learned["bytes"] = dict.fromkeys(model.modalities_, known)
    if rows is not None:
        for form, by_name in learned.items():
            learned[form] = {name: codes.copy() for name, codes in hashed[form].items()}
            for name, codes in by_name.items():
                learned[form][name][rows] = codes
    databases: dict[str, _Database] = {"learned": (learned, labels), "hashed": (hashed, labels)}
    if "unified" in model.info.protocols:
        unified = model.encode_unified(parts.train.modalities)
        databases["unified"] = ({"codes": dict.fromkeys(model.modalities_, unified)}, labels)
    if parts.unseen is not None:
        databases["unseen"] = (_forms(model, parts.unseen), parts.unseen.labels)
    return databases


def _protocols(
    cell: Cell, parts: Partition, threads: int, queries: _Forms, databases: dict[str, _Database]
) -> dict[str, dict[str, Any]]:
    """Return scores; if there are no unseen points, each half of the queries is the unseen database of the other."""
    labels = parts.queries.labels
    searches = {protocol: [_Search(queries, labels, *each)] for protocol, each in databases.items()}
    if parts.unseen is None and len(parts.queries) > 1:

        def rows(half: Integers) -> _Forms:
            return {form: {name: array[half] for name, array in arrays.items()} for form, arrays in queries.items()}

        order = np.random.default_rng(cell.split.seed).permutation(len(parts.queries))
        halves = np.sort(order[::2]), np.sort(order[1::2])
        pairs = (halves, halves[::-1])
        searches["unseen"] = [_Search(rows(one), labels[one], rows(two), labels[two]) for one, two in pairs]
    directions = list(itertools.permutations(parts.queries.modalities, 2))
    return {
        protocol: {f"{query} → {item}": _scores(each, query, item, cell.k, threads) for query, item in directions}
        for protocol, each in searches.items()
    }


def _scores(searches: list[_Search], query: str, database: str, k: int, threads: int) -> dict[str, Any]:
    """Return means over all queries, with 0 for those without relevant items; k is at most the number of items."""
    n_items = min(len(search.database["codes"][database]) for search in searches)
    k = min(k, n_items)
    ranks = np.unique([*np.geomspace(1, n_items, CURVE_POINTS).round().astype(np.int64), k])
    measures = [AP, AP @ k, nDCG @ k, P(match="all") @ min(EXACT_AT, n_items), PR(ranks=ranks)]
    rows: list[Array] = []
    further: dict[str, list[Array]] = {ranking: [] for ranking in _RANKINGS}
    for search in searches:
        labels = search.query_labels, search.database_labels
        pair = search.queries["codes"][query], search.database["codes"][database]
        values = evaluate(*pair, *labels, measures=measures, n_jobs=threads).per_query
        rows.append(np.column_stack([values[measure] for measure in measures]))
        for ranking, (form, other) in _RANKINGS.items():
            if form in search.queries and other in search.database:
                pair = search.queries[form][query], search.database[other][database]
                further[ranking].append(evaluate(*pair, *labels, measures=AP, n_jobs=threads).per_query[AP])
    # Contiguous by row, so that the mean adds one query after another, whatever the layout of the measures.
    means = np.ascontiguousarray(np.nan_to_num(np.concatenate(rows))).mean(axis=0)
    precision, recall = np.split(means[4:], 2)
    numbers = dict(zip(("map", "map_at", "ndcg_at", "exact_at"), means[:4].tolist(), strict=True))
    numbers["precision_at"] = float(precision[np.searchsorted(ranks, k)])
    curve = {"ranks": ranks.tolist(), "precision": precision.tolist(), "recall": recall.tolist()}
    others = {name: np.nan_to_num(np.concatenate(each)).mean() if each else None for name, each in further.items()}
    return numbers | curve | {name: None if mean is None else float(mean) for name, mean in others.items()}
