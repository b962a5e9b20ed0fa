"""Compute a cell: accuracy in every protocol from one fit, or training time."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dlfh._arrays import Codes, Integers, Singles
from dlfh._parallel import blas_threads
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
    """Return the unfitted method of a cell; ``memory`` may keep it from running, but does not change its codes."""
    method: Any = METHODS[cell.method]
    given: dict[str, Any] = {"n_jobs": threads}
    if not method.info.is_deterministic:
        given["random_state"] = cell.seed
    if memory is not None and "memory" in method().get_params():
        given["memory"] = memory
    return method(cell.bits, **{**given, **cell.parameters})


def retrieval(cell: Cell, parts: Partition, threads: int = 1, memory: int | None = None) -> Measured:
    """Fit once and measure every protocol in every direction.

    Returns values and seconds of training. ``values["protocols"][protocol][direction]`` has "map", "map_at",
    "precision_at", "ndcg_at", "exact_at", "asymmetric_map" and the curve "ranks", "precision" and "recall".
    Methods that record them also have "objective" and "iterations".
    """
    rows = None
    if cell.train_points is not None and cell.train_points < len(parts.train):
        rows = np.sort(np.random.default_rng(cell.seed).permutation(len(parts.train))[: cell.train_points])
    sample = parts.train if rows is None else parts.train.take(rows)
    model = build(cell, threads, memory).fit(sample.modalities, sample.labels)
    values: dict[str, Any] = {"n_train": len(sample), "n_queries": len(parts.queries)}
    with blas_threads(threads):
        projections = {name: model.project(name, parts.queries.modalities[name]) for name in model.modalities_}
        queries = _encode(model, parts.queries)
        values["protocols"] = _protocols(cell, parts, threads, queries, projections, _databases(model, parts, rows))
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
    _reset_peak()
    model = build(cell, threads, memory).fit(parts.train.modalities, parts.train.labels)
    return {"n_train": len(parts.train)}, {"fit": model.fit_seconds_, "peak_bytes": _peak_bytes()}


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
        role: {name: codes[name, role] for name in modalities}
        for role in ("queries", "learned", "hashed")
        if all((name, role) in codes for name in modalities)
    }
    queries = by_role.pop("queries")
    databases = {protocol: (database, parts.train.labels) for protocol, database in by_role.items()}
    protocols = _protocols(cell, parts, threads, queries, {}, databases)
    return {"protocols": protocols, "n_queries": len(parts.queries)}, {}


_Codes = dict[str, Codes]  # by modality, like the real values
_Values = dict[str, Singles]
_Database = tuple[_Codes, Any]  # codes and labels


class _Search(NamedTuple):
    """Queries (codes by modality, and their real values if known) and the database that they search."""

    query_codes: _Codes
    query_values: _Values
    query_labels: Any
    database: _Codes
    database_labels: Any


def _encode(model: CrossModalHasher, points: Paired) -> dict[str, Codes]:
    return {name: model.encode(name, points.modalities[name]) for name in model.modalities_}


def _databases(model: CrossModalHasher, parts: Partition, rows: Integers | None) -> dict[str, _Database]:
    """Return the database of each protocol; ``rows`` are the training points, or None for all points."""
    hashed, learned, labels = _encode(model, parts.train), model.codes_, parts.train.labels
    if rows is not None:
        learned = {name: codes.copy() for name, codes in hashed.items()}
        for name, codes in model.codes_.items():
            learned[name][rows] = codes
    databases = {"learned": (learned, labels), "hashed": (hashed, labels)}
    if "unified" in model.info.protocols:
        unified = model.encode_unified(parts.train.modalities)
        databases["unified"] = (dict.fromkeys(model.modalities_, unified), labels)
    if parts.unseen is not None:
        databases["unseen"] = (_encode(model, parts.unseen), parts.unseen.labels)
    return databases


def _protocols(
    cell: Cell, parts: Partition, threads: int, queries: _Codes, values: _Values, databases: dict[str, _Database]
) -> dict[str, dict[str, Any]]:
    """Return scores; if there are no unseen points, each half of the queries is the unseen database of the other."""
    labels = parts.queries.labels
    searches = {protocol: [_Search(queries, values, labels, *each)] for protocol, each in databases.items()}
    if parts.unseen is None and len(parts.queries) > 1:

        def rows(arrays: dict[str, Any], half: Integers) -> dict[str, Any]:
            return {name: array[half] for name, array in arrays.items()}

        order = np.random.default_rng(cell.split.seed).permutation(len(parts.queries))
        halves = np.sort(order[::2]), np.sort(order[1::2])
        searches["unseen"] = [
            _Search(rows(queries, half), rows(values, half), labels[half], rows(queries, other), labels[other])
            for half, other in (halves, halves[::-1])
        ]
    directions = list(itertools.permutations(parts.queries.modalities, 2))
    return {
        protocol: {f"{query} → {item}": _scores(each, query, item, cell.k, threads) for query, item in directions}
        for protocol, each in searches.items()
    }


def _scores(searches: list[_Search], query: str, database: str, k: int, threads: int) -> dict[str, Any]:
    """Return means over all queries, with 0 for queries without relevant items; ``k`` is at most the database size."""
    n_items = min(len(search.database[database]) for search in searches)
    k = min(k, n_items)
    ranks = np.unique([*np.geomspace(1, n_items, CURVE_POINTS).round().astype(np.int64), k])
    measures = [AP, AP @ k, nDCG @ k, P(match="all") @ min(EXACT_AT, n_items), PR(ranks=ranks)]
    rows, asymmetric = [], []
    for search in searches:
        items = search.database[database], search.query_labels, search.database_labels
        values = evaluate(search.query_codes[query], *items, measures=measures, n_jobs=threads).per_query
        rows.append(np.column_stack([values[measure] for measure in measures]))
        if query in search.query_values:
            asymmetric.append(evaluate(search.query_values[query], *items, measures=AP, n_jobs=threads).per_query[AP])
    # Row-contiguous, so that the mean adds up queries in order, whatever the memory layout of the measures.
    means = np.ascontiguousarray(np.nan_to_num(np.concatenate(rows))).mean(axis=0)
    precision, recall = np.split(means[4:], 2)
    return {
        "map": float(means[0]),
        "map_at": float(means[1]),
        "precision_at": float(precision[np.searchsorted(ranks, k)]),
        "ndcg_at": float(means[2]),
        "exact_at": float(means[3]),
        "ranks": ranks.tolist(),
        "precision": precision.tolist(),
        "recall": recall.tolist(),
        "asymmetric_map": float(np.nan_to_num(np.concatenate(asymmetric)).mean()) if asymmetric else None,
    }


def _reset_peak() -> None:
    with contextlib.suppress(OSError):  # only on Linux; elsewhere, the peak includes compilation
        Path("/proc/self/clear_refs").write_text("5")


def _peak_bytes() -> int | None:
    kilobytes = find_in_file("/proc/self/status", r"VmHWM:\s*(\d+) kB")
    return 1024 * int(kilobytes) if kilobytes else None
