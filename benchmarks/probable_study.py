"""Effect of `min_probability`, and calibration of probabilities: tables and a reliability diagram.

    make study-probable DLFH_DATA=/path/to/folder

The settings are those of `benchmarks.answers_study`: a fifth of the items are queries and in no collection; a tenth of
the others are added later, without their labels.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.answers_data import Setting, settings
from benchmarks.answers_study import with_later
from benchmarks.report import fill, machine
from dlfh import Collection
from dlfh.collection.calibration.model import CalibrationReport, probability

K = 10
LEAST = (None, 0.25, 0.5, 0.75)
N_BINS = 10


@dataclass(frozen=True)
class Pairs:
    """Pairs of a query and an item: predicted probabilities, and whether the item is right.

    Attributes
    ----------
    name : str
        Data set and query modality.
    probabilities : ndarray of float64
    right : ndarray of bool
    """

    name: str
    probabilities: np.ndarray
    right: np.ndarray

    def bins(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the mean probability and the share of right pairs in each bin of probabilities."""
        bins = np.minimum((self.probabilities * N_BINS).astype(int), N_BINS - 1)
        counts = np.bincount(bins, minlength=N_BINS)
        enough = counts >= 100
        sums = (np.bincount(bins, values, N_BINS)[enough] for values in (self.probabilities, self.right))
        said, true = (total / counts[enough] for total in sums)
        return said, true


def queries_of(setting: Setting, modality: str) -> Any:
    return setting.queries.modalities[modality]


def answers_rows(setting: Setting, collection: Collection, truth: dict[str, set[str]]) -> list[str]:
    """Return the rows of answers among the first ten that reach a minimum probability."""
    rows = []
    asking = [{*item_labels} for item_labels in setting.queries.labels or []]
    for modality in ("text", "image"):
        for least in LEAST:
            batch = collection.search(modality, queries_of(setting, modality), K, min_probability=least)
            n_found = [len(found) for found in batch]
            right = [
                item_labels <= truth[name] if modality == "text" else bool(truth[name] & item_labels)
                for item_labels, found in zip(asking, batch, strict=True)
                for name in found.ids
            ]
            precision = f"{np.mean(right):.3f}" if right else "-"
            shown = "none" if least is None else f"{least:g}"
            nothing = np.mean([n == 0 for n in n_found])
            rows.append(
                f"| {setting.name} | {modality} | {shown} | {np.mean(n_found):.1f} | {nothing:.1%} | {precision} |"
            )
    return rows


def pairs_of(setting: Setting, collection: Collection, truth: dict[str, set[str]], modality: str) -> Pairs:
    """Return all pairs, with the probabilities of a default search."""
    searcher = collection.searcher
    vectors = collection.encoder.featurize_items(setting.queries).matrices[modality]
    texts = queries_of(setting, modality) if modality == "text" else None
    answered = searcher.log_odds(modality, vectors, texts)
    assert answered is not None
    ids = collection.index.ids()
    names = sorted({label for item_labels in truth.values() for label in item_labels})
    places = {name: place for place, name in enumerate(names)}

    def marks(sets: list[Any]) -> np.ndarray:
        marked = np.zeros((len(sets), len(names)), np.float32)
        for row, item_labels in enumerate(sets):
            marked[row, [places[label] for label in item_labels if label in places]] = 1
        return marked

    asked = marks(list(setting.queries.labels or []))
    least = asked.sum(axis=1, keepdims=True) if modality == "text" else 1.0  # all labels of a text
    right = asked @ marks([truth[name] for name in ids]).T >= least
    found = np.isfinite(answered[0])
    return Pairs(f"{setting.name}, {modality} asks", probability(answered[0][found]), right[found])


def draw(all_pairs: list[Pairs], picture: Path) -> None:
    """Draw the reliability diagram."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(5.2, 4.8), layout="constrained")
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1, linestyle=":", label="as said")
    for pairs, mark in zip(all_pairs, "osD^v<>", strict=False):
        axes.plot(*pairs.bins(), marker=mark, markersize=4, linewidth=1.2, label=pairs.name)
    axes.set(xlabel="probability that was said", ylabel="share of right pairs", xlim=(0, 1), ylim=(0, 1))
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(picture, dpi=110, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document to write the tables to")
    parser.add_argument("--picture", type=Path, help="file for the reliability diagram")
    arguments = parser.parse_args()
    rows = [
        f"| data | query | `min_probability` | results per query, of {K} | queries without results | precision |",
        "|---|---|---|---|---|---|",
    ]
    scores = [
        "| data | share of relevant pairs | Brier score | constant | calibration error |",
        "|---|---|---|---|---|",
    ]
    all_pairs = []
    with tempfile.TemporaryDirectory() as place:
        for setting in settings(Path(os.environ.get("DLFH_DATA", "")), Path(place)):
            truth = {
                name: {*labels}
                for items in (setting.first, setting.later)
                for name, labels in zip(items.ids, items.labels or [], strict=True)
            }
            collection = with_later(setting, Path(place), labels=False).collection
            rows += answers_rows(setting, collection, truth)
            for modality in ("text", "image"):
                pairs = pairs_of(setting, collection, truth, modality)
                log_odds = np.log(pairs.probabilities / (1 - pairs.probabilities))
                report = CalibrationReport.from_results(modality, "hashed", [log_odds], [pairs.right])
                constant = report.share * (1 - report.share)
                scores.append(
                    f"| {pairs.name} | {report.share:.3f} | {report.brier:.3f} | {constant:.3f} | "
                    f"{report.calibration_error:.3f} |"
                )
                all_pairs.append(pairs)
            print("\n".join([*rows, *scores]), flush=True)
    if arguments.picture:
        draw(all_pairs, arguments.picture)
    if arguments.write:
        fill(
            arguments.write,
            {"probable-machine": machine(), "probable": "\n".join(rows), "reliability": "\n".join(scores)},
        )


if __name__ == "__main__":
    main()
