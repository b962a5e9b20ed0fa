"""Effect of protocols, ties, cut-offs and seeds on MAP, on the icons (docs/report-results.md)."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import fill
from dlfh import DLFH
from dlfh.bench.cells import SplitSpec
from dlfh.bench.data import load_source
from dlfh.codes import hamming_distances
from dlfh.metrics import evaluate
from dlfh.metrics.measures import AP

SEEDS = range(5)
DIRECTIONS = (("image", "text"), ("text", "image"))
DATA = "Icons (GIST and TF-IDF), DLFH with its defaults, five seeds, mean of both directions; 289 queries"


def measured(n_bits: int, seed: int, source: Any) -> dict[str, float]:
    """Return MAP by database, treatment of ties and cut-off."""
    parts = source.split(SplitSpec(seed=seed, unseen_share=0.25))
    train, queries, unseen = parts.train, parts.queries, parts.unseen
    model = DLFH(n_bits=n_bits, random_state=seed).fit(train.modalities, train.labels)
    found: dict[str, list[float]] = {}
    for asking, asked in DIRECTIONS:
        codes = model.encode(asking, queries.modalities[asking])
        databases = {
            "unseen": (model.encode(asked, unseen.modalities[asked]), unseen.labels),
            "hashed": (model.encode(asked, train.modalities[asked]), train.labels),
            "learned": (model.codes_[asked], train.labels),
        }
        for name, (database, labels) in databases.items():
            for ties in ("order", "expected"):
                score = evaluate(codes, database, queries.labels, labels, measures=[AP], ties=ties)
                found.setdefault(f"{name}, {ties}", []).append(float(score[AP]))
        database, labels = databases["unseen"]
        cuts = [AP @ 50, AP(normalize="possible") @ 50]
        score = evaluate(codes, database, queries.labels, labels, measures=cuts)
        for name, cut in zip(("cut, found", "cut, possible"), cuts, strict=True):
            found.setdefault(name, []).append(float(score[cut]))
        distances = hamming_distances(codes, databases["learned"][0])
        right = (queries.labels.astype(int) @ train.labels.astype(int).T).toarray() > 0
        for name, first in (("learned, right first", ~right), ("learned, right last", right)):
            found.setdefault(name, []).append(average_precision(distances, first, right))
    return {name: float(np.mean(values)) for name, values in found.items()}


def average_precision(distances: Any, first: Any, right: Any) -> float:
    """Return MAP with ties in the best or worst order, the range that tie-breaking can cover."""
    order = np.argsort(2 * distances.astype(int) + first, axis=1, kind="stable")
    ranked = np.take_along_axis(right, order, axis=1)
    precisions = np.cumsum(ranked, axis=1) / np.arange(1, ranked.shape[1] + 1)
    return float(np.mean((precisions * ranked).sum(1) / np.maximum(1, ranked.sum(1))))


def shown(values: list[float]) -> str:
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}".replace("0.", ".")


def tables() -> dict[str, str]:
    source = load_source("icons")
    results = {n_bits: [measured(n_bits, seed, source) for seed in SEEDS] for n_bits in (16, 64)}

    def row(label: str, key: str) -> str:
        return " | ".join([f"| {label}", *(shown([run[key] for run in results[bits]]) for bits in results)]) + " |"

    head = ["| {} | 16 bits | 64 bits |", "|---|---|---|"]
    note = f"\n\n{DATA}, mean ± standard deviation."
    protocols = [
        head[0].format("database"),
        head[1],
        *(row(name, f"{name}, order") for name in ("unseen", "hashed", "learned")),
    ]
    ties = [
        head[0].format("ties, *learned*"), head[1],
        row("database order", "learned, order"), row("expectation over all orders", "learned, expected"),
        row("relevant items first among ties", "learned, right first"),
        row("relevant items last among ties", "learned, right last"),
    ]  # fmt: skip
    cuts = [
        head[0].format("*unseen*"), head[1],
        row("MAP, full ranking", "unseen, order"), row("MAP@50, divided by the relevant items found", "cut, found"),
        row("MAP@50, divided by the most possible", "cut, possible"),
    ]  # fmt: skip
    spread = ["| *unseen* | lowest seed | mean | best seed |", "|---|---|---|---|"]
    for bits, runs in results.items():
        values = [run["unseen, order"] for run in runs]
        spread.append(
            f"| {bits} bits | {min(values):.3f} | {np.mean(values):.3f} | {max(values):.3f} |".replace("0.", ".")
        )
    return {
        "protocols": "\n".join(protocols) + note,
        "ties": "\n".join(ties) + note,
        "cuts": "\n".join(cuts) + note,
        "seeds": "\n".join(spread) + f"\n\n{DATA}.",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="document to write the tables to")
    arguments = parser.parse_args()
    found = tables()
    print("\n\n".join(found.values()))
    if arguments.write is not None:
        fill(arguments.write, found)


if __name__ == "__main__":
    main()
