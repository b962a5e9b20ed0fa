"""What is measured of one cell: accuracy in every protocol from one fit, or training time."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._parallel import blas_threads
from dlfh.bench.cells import Cell
from dlfh.bench.data import Parts
from dlfh.codes import Codes
from dlfh.datasets.paired import Paired
from dlfh.methods import CrossModalHasher
from dlfh.methods.catalogue import METHODS
from dlfh.metrics import AP, PR, P, evaluate, nDCG

__all__ = ["EXACT_AT", "build", "directions", "retrieval", "training_time"]

#: Points on a precision-recall curve, evenly in log scale of rank.
CURVE_POINTS = 60

#: Where the ranking is cut to see how many items have the query's labels, all of them and no others.
EXACT_AT = 5

#: Methods that this process has fitted before, so that what they need is compiled and loaded.
_compiled: set[str] = set()


def directions(modalities: tuple[str, ...]) -> list[str]:
    """Return the ways to ask across modalities.

    Examples
    --------
    >>> directions(("image", "text"))
    ['image → text', 'text → image']
    """
    return [f"{asked} → {answered}" for asked, answered in itertools.permutations(modalities, 2)]


def build(cell: Cell, threads: int, memory: int | None = None) -> CrossModalHasher:
    """Return the unfitted method of a cell.

    A method that states how much memory it may use is told; that changes whether it runs, not what it gives.
    """
    method: Any = METHODS[cell.method]
    known = method().get_params()
    given: dict[str, Any] = {"n_jobs": threads}
    if not method.info.is_deterministic:
        given["random_state"] = cell.seed
    if memory is not None and "memory" in known:
        given["memory"] = memory
    return method(cell.bits, **{**given, **cell.values})


def retrieval(
    cell: Cell, parts: Parts, threads: int = 1, memory: int | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fit once, and measure every protocol in every direction.

    Returns
    -------
    values : dict
        ``values["protocols"][protocol][direction]`` holds "map", "map_at", "precision_at", "ndcg_at" and "exact_at",
        "asymmetric_map", and the curve "ranks", "precision", "recall"; "objective" and "iterations" are there for
        methods that keep them.
    times : dict
        Seconds of training and of encoding.
    """
    rows = _learned_rows(cell, len(parts.train))
    sample = parts.train if rows is None else parts.train.take(rows)
    model = build(cell, threads, memory).fit(sample.modalities, sample.labels)
    values: dict[str, Any] = {"protocols": {}, "n_train": len(sample), "n_queries": len(parts.queries)}
    with blas_threads(threads):
        queries = Queries.of(model, parts.queries)
        hashed = {name: model.encode(name, parts.train.modalities[name]) for name in model.modalities_}
        learned = model.codes_ if rows is None else _put(hashed, rows, model.codes_)
        for protocol, halves in _databases(model, parts, queries, learned, hashed, cell.deal.seed).items():
            values["protocols"][protocol] = {
                f"{asked} → {answered}": _scores(
                    [(query.codes[asked], items[answered], query.labels, labels) for query, items, labels in halves],
                    cell.k,
                    threads,
                )
                | _asymmetric_scores(
                    [(query.values[asked], items[answered], query.labels, labels) for query, items, labels in halves],
                    threads,
                )
                for asked, answered in itertools.permutations(model.modalities_, 2)
            }
    for name, key in (("objective_", "objective"), ("n_iter_", "iterations")):
        if hasattr(model, name):
            values[key] = np.asarray(getattr(model, name)).tolist()
    return values, {"fit": model.fit_seconds_}


def training_time(
    cell: Cell, parts: Parts, threads: int, memory: int | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Fit once on a few points, so that everything is compiled, then fit and time it."""
    if cell.method not in _compiled:
        few = parts.train.take(np.arange(min(300, len(parts.train))))
        build(cell, threads, memory).fit(few.modalities, few.labels)
        _compiled.add(cell.method)
    _forget_peak()
    model = build(cell, threads, memory).fit(parts.train.modalities, parts.train.labels)
    return {"n_train": len(parts.train)}, {"fit": model.fit_seconds_, "peak_bytes": _peak_bytes()}


@dataclass(frozen=True)
class Queries:
    """Points that ask: by modality their codes, and the values whose signs these are."""

    codes: dict[str, Codes]
    values: dict[str, npt.NDArray[np.float32]]
    labels: Any

    @classmethod
    def of(cls, model: CrossModalHasher, points: Paired) -> Queries:
        """Encode points by a method."""
        asked = {name: points.modalities[name] for name in model.modalities_}
        return cls(
            {name: model.encode(name, features) for name, features in asked.items()},
            {name: model.project(name, features) for name, features in asked.items()},
            points.labels,
        )

    def take(self, rows: npt.NDArray[np.int64]) -> Queries:
        """Return some of them."""
        return Queries(_rows(self.codes, rows), _rows(self.values, rows), self.labels[rows])


#: Who asks, what is searched, and its labels.
Half = tuple[Queries, dict[str, Codes], Any]


def _databases(
    model: CrossModalHasher,
    parts: Parts,
    queries: Queries,
    learned: dict[str, Codes],
    hashed: dict[str, Codes],
    seed: int,
) -> dict[str, list[Half]]:
    """Return, by protocol, who asks and what is searched."""
    train_labels = parts.train.labels
    found: dict[str, list[Half]] = {
        "learned": [(queries, learned, train_labels)],
        "hashed": [(queries, hashed, train_labels)],
    }
    if "unified" in model.info.protocols:
        unified = dict.fromkeys(model.modalities_, model.encode_unified(parts.train.modalities))
        found["unified"] = [(queries, unified, train_labels)]
    if parts.unseen is not None:
        unseen: Paired = parts.unseen
        codes = {name: model.encode(name, unseen.modalities[name]) for name in model.modalities_}
        found["unseen"] = [(queries, codes, unseen.labels)]
    elif len(parts.queries) > 1:
        order = np.random.default_rng(seed).permutation(len(parts.queries))
        halves = np.sort(order[::2]), np.sort(order[1::2])
        found["unseen"] = [
            (queries.take(ask), _rows(queries.codes, answer), queries.labels[answer])
            for ask, answer in (halves, halves[::-1])
        ]
    return found


def _learned_rows(cell: Cell, n_points: int) -> npt.NDArray[np.int64] | None:
    """Return which training points a method learns from; None for all."""
    if cell.train_points is None or cell.train_points >= n_points:
        return None
    return np.sort(np.random.default_rng(cell.seed).permutation(n_points)[: cell.train_points])


def _put(codes: dict[str, Codes], rows: npt.NDArray[np.int64], learned: dict[str, Codes]) -> dict[str, Codes]:
    """Return codes with the learned ones in some rows."""
    changed = {name: each.copy() for name, each in codes.items()}
    for name, each in learned.items():
        changed[name][rows] = each
    return changed


def _rows(arrays: dict[str, npt.NDArray[Any]], rows: npt.NDArray[np.int64]) -> dict[str, npt.NDArray[Any]]:
    return {name: each[rows] for name, each in arrays.items()}


def _scores(halves: list[tuple[Codes, Codes, Any, Any]], k: int, threads: int) -> dict[str, Any]:
    """Return the means over all queries of what one ranking gives; queries that nothing is relevant to count 0.

    Where a database has fewer than k items, k is their number; the report says so.
    """
    n_items = min(len(database) for _, database, _, _ in halves)
    k = min(k, n_items)
    ranks = np.unique([*np.geomspace(1, n_items, CURVE_POINTS).round().astype(np.int64), k])
    measures = [AP, AP @ k, nDCG @ k, P(match="all") @ min(EXACT_AT, n_items), PR(ranks=ranks)]
    rows = []
    for half in halves:
        values = evaluate(*half, measures=measures, n_jobs=threads).per_query
        rows.append(np.column_stack([values[each] for each in measures]))
    # In memory row by row, so that means add one query after another, whatever the measures' own layout.
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
    }


def _asymmetric_scores(halves: list[tuple[npt.NDArray[Any], Codes, Any, Any]], threads: int) -> dict[str, float]:
    """Return MAP by the inner product of the queries' values with the codes: the same database, byte for byte."""
    rows = [evaluate(*half, measures=AP, n_jobs=threads).per_query[AP] for half in halves]
    return {"asymmetric_map": float(np.nan_to_num(np.concatenate(rows)).mean())}


def _forget_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w") as file:
            file.write("5")
    except OSError:  # not Linux: the peak is that of the process, compiling included
        pass


def _peak_bytes() -> int | None:
    try:
        with open("/proc/self/status") as file:
            return next(1024 * int(line.split()[1]) for line in file if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return None
