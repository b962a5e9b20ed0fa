"""Stalling of full DLFH, and the cost of hashing: codes compared with real-valued label predictions.

    DLFH_DATA=/path/to/folder python -m benchmarks.codes_study --write

The folder contains `wiki.mat` and `iapr_tc12.npz`. Tables go into docs/how-it-works.md (stalls) and docs/defaults.md
(ceiling). Both use test queries; no choice depends on them.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.report import fill
from dlfh import DLFH
from dlfh._labels import LabelSets
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh.bench.cells import Cell, SplitSpec
from dlfh.bench.data import Partition, Source, load_source
from dlfh.bench.measure import retrieval
from dlfh.codes import pack
from dlfh.datasets import Paired
from dlfh.hashing import HashLearner, KernelRidge, LinearRidge
from dlfh.hashing.base import FitContext

DOCS = Path(__file__).parent.parent / "docs"
FILES = {"Wiki": ("wiki", "wiki.mat"), "icons": ("icons", None), "IAPR TC-12": ("iapr-tc12", "iapr_tc12.npz")}
WAYS = (("image", "text"), ("text", "image"))

#: How full DLFH learns: the paper's step, the exact one, and the exact one of the balanced likelihood.
STEPS: dict[str, dict[str, Any]] = {
    "bound": {"step": "bound", "balance": False},
    "exact": {"step": "exact", "balance": False},
    "exact, balanced": {"step": "exact", "balance": True},
}

#: Who predicts labels, as real values: linear functions, kernel ones, and those that were chosen for codes.
PREDICTORS = ("linear", "kernel", "chosen")


def shown(*values: float) -> str:
    return " / ".join(f"{value:.3f}".lstrip("0") for value in values)


def stalls(sources: dict[str, Source], seeds: int, n_points: int = 2000) -> str:
    """Full DLFH at 8 and 16 bits, scale 8: flips, objective and MAP, with bound and exact steps."""
    heads = [f"{what}, {step}" for step in STEPS for what in ("flips per bit", "objective per pair", "MAP")]
    lines = [f"| data | bits | start | {' | '.join(heads)} |", "|---|---|---|" + "---|" * len(heads)]
    for name, source in sources.items():
        for n_bits, init in product((8, 16), ("random", "labels")):
            cells = []
            for setting in STEPS.values():
                asked = {"init": init, "solver": "full", "track_objective": True, "hash_function": "linear", **setting}
                found = [_full_fit(source, n_bits, asked, seed, n_points) for seed in range(seeds)]
                flips, first, last, *maps = np.mean(found, axis=0)
                cells += [f"{flips:.2f}", f"{first:.3f} → {last:.3f}", shown(*maps)]
            start = "a random code per point" if init == "random" else "a random code per label set"
            lines.append(f"| {name} | {n_bits} | {start} | {' | '.join(cells)} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def _full_fit(source: Source, n_bits: int, setting: dict[str, Any], seed: int, n_points: int) -> list[float]:
    """Return flips per bit, the objective per pair before and after, and MAP unseen, hashed and learned."""
    split = SplitSpec(seed=seed, size=n_points)
    parts = source.split(split)
    model = DLFH(n_bits, random_state=seed, **setting).fit(parts.train.modalities, parts.train.labels)
    n = len(parts.train)
    rows = n if setting["init"] == "random" else LabelSets.from_labels(parts.train.labels).n_sets
    values = _protocols(source, parts, n_bits, setting, split)
    maps = [_mean_map(values, protocol, "map") for protocol in ("unseen", "hashed", "learned")]
    return [model.flips_.sum() / (2 * rows * n_bits), *(model.objective_[[0, -1]] / n**2), *maps]


def _protocols(
    source: Source, parts: Partition, n_bits: int, setting: dict[str, Any], split: SplitSpec
) -> dict[str, Any]:
    cell = Cell(source.name, source.fingerprint, "DLFH", setting, bits=n_bits, seed=split.seed, split=split)
    found, _ = retrieval(cell, parts, threads=os.cpu_count() or 1)
    return found["protocols"]


def _mean_map(protocols: dict[str, Any], protocol: str, measure: str) -> float:
    return float(np.mean([protocols[protocol][f"{asked} → {answered}"][measure] for asked, answered in WAYS]))


def ceiling(sources: dict[str, Source], seeds: dict[str, int]) -> str:
    """Unseen MAP of real-valued label predictions, by cosine, and of codes of 64, 128 and 256 bits."""
    rows: dict[str, list[str]] = {}
    for name, source in sources.items():
        predicted = np.mean(
            [_predictions(source.split(SplitSpec(seed=seed)), seed) for seed in range(seeds[name])], axis=0
        )
        for label, value in zip(PREDICTORS, predicted, strict=True):
            rows.setdefault(f"labels, {label} ridge, cosine", []).append(shown(float(value)))
        for n_bits in (64, 128, 256):
            found = []
            for seed in range(seeds[name]):
                split = SplitSpec(seed=seed)
                protocols = _protocols(source, source.split(split), n_bits, {}, split)
                found.append([_mean_map(protocols, "unseen", each) for each in ("map", "asymmetric_map")])
            for ranking, value in zip(("Hamming", "asymmetric"), np.mean(found, axis=0), strict=True):
                rows.setdefault(f"{n_bits} bits, {ranking}", []).append(shown(float(value)))
        print(name, {label: cells[-1] for label, cells in rows.items()}, file=sys.stderr, flush=True)
    lines = ["| compared values | " + " | ".join(sources) + " |", "|---|" + "---|" * len(sources)]
    return "\n".join([*lines, *(f"| {label} | {' | '.join(cells)} |" for label, cells in rows.items())])


def _predictions(parts: Partition, seed: int) -> list[float]:
    """Return MAP of labels predicted by linear, kernel and automatically chosen functions."""
    names = list(parts.train.modalities)
    chosen = DLFH(64, random_state=seed).fit(parts.train.modalities, parts.train.labels).chosen_
    learners = (dict.fromkeys(names, LinearRidge()), dict.fromkeys(names, KernelRidge()), chosen)
    return [_predicted(parts, each, seed) for each in learners]


def _predicted(parts: Partition, learners: Mapping[str, HashLearner], seed: int) -> float:
    """Return unseen MAP of points ranked by the cosine of their predicted labels."""
    train = parts.train
    indicators = train.labels.toarray() > 0
    targets = Targets(pack(np.where(indicators, 1, -1)), np.arange(len(train)), indicators.shape[1])
    predicted: dict[str, Any] = {}
    with Workers() as workers:
        context = FitContext(workers, seed=seed)
        for name, features in train.modalities.items():
            function = learners[name].fit(features, targets, name, context)
            # Regressions of ±1 with an intercept: (1 + value) / 2 predicts 0 and 1.
            values = (function.project(parts.queries.modalities[name], name, workers) + 1) / 2
            predicted[name] = values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)
    order = np.random.default_rng(seed).permutation(len(parts.queries))
    halves = np.sort(order[::2]), np.sort(order[1::2])  # as `dlfh bench` deals queries without unseen points
    found = [
        _average_precisions(predicted[asked][ask] @ predicted[answered][answer].T, parts.queries, ask, answer)
        for asked, answered in WAYS
        for ask, answer in (halves, halves[::-1])
    ]
    return float(np.concatenate(found).mean())


def _average_precisions(
    scores: npt.NDArray[np.float32], points: Paired, ask: npt.NDArray[np.int64], answer: npt.NDArray[np.int64]
) -> npt.NDArray[np.float64]:
    """Return each query's average precision by real-valued scores, ties in database order."""
    relevant = (points.labels[ask].astype(np.int32) @ points.labels[answer].T).toarray() > 0
    ranked = np.take_along_axis(relevant, np.argsort(-scores, axis=1, kind="stable"), axis=1)
    precision = np.cumsum(ranked, axis=1) / np.arange(1, ranked.shape[1] + 1)
    return (precision * ranked).sum(axis=1) / np.maximum(ranked.sum(axis=1), 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("stalls", "ceiling"), help="make only this table")
    parser.add_argument("--seeds", type=int, default=3, help="seeds (default 3; IAPR TC-12 in the ceiling: one)")
    parser.add_argument("--write", action="store_true", help="write the tables to the documents")
    options = parser.parse_args()
    folder = Path(os.environ.get("DLFH_DATA", ""))
    if not (folder / "wiki.mat").is_file() or not (folder / "iapr_tc12.npz").is_file():
        raise SystemExit("set DLFH_DATA to a folder with wiki.mat and iapr_tc12.npz")
    sources = {title: load_source(key, folder / file if file else None) for title, (key, file) in FILES.items()}
    tables: dict[str, tuple[str, str]] = {}
    if options.only in (None, "stalls"):
        tables["stalls"] = ("how-it-works.md", stalls(sources, options.seeds))
    if options.only in (None, "ceiling"):
        seeds = {name: 1 if name == "IAPR TC-12" else options.seeds for name in sources}
        tables["ceiling"] = ("defaults.md", ceiling(sources, seeds))
    for name, (document, table) in tables.items():
        if options.write:
            fill(DOCS / document, {name: table})
        else:
            print(table)


if __name__ == "__main__":
    main()
