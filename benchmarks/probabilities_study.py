"""Rankings by label probabilities beside Hamming and asymmetric ranking, and the calibration of the probabilities.

    DLFH_DATA=/path/to/folder python -m benchmarks.probabilities_study --write docs/label-probabilities.md

A fifth of the points are queries and a fifth the unseen database; the rest is for training. Constants of the library
were not chosen on these points. The folder has `wiki.mat`, `iapr_tc12.npz`, `mirflickr25k.npz`,
`mirflickr25k_more.npz` and `photos.tar.xz`; missing files are skipped.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.answers_data import icons, photographs
from benchmarks.report import fill
from dlfh import DLFH
from dlfh._labels import LabelSets
from dlfh._probabilities.scores import MATCHES, label_scores, probability_of
from dlfh.datasets import Items, load_dataset, read_arrays
from dlfh.features import BagOfWords, CombinedImage
from dlfh.features.base import Featurizer
from dlfh.metrics import mean_average_precision

WAYS = (("image", "text"), ("text", "image"))
MAX_QUERIES = 1000
#: Pairs whose scores are computed at once.
CHUNK_PAIRS = 1 << 15


@dataclass(frozen=True)
class Data:
    """Features of two modalities, and an indicator matrix of labels."""

    name: str
    modalities: dict[str, Any]
    labels: sp.csr_array

    def take(self, rows: np.ndarray) -> dict[str, Any]:
        """Return the features of some points."""
        return {name: matrix[rows] for name, matrix in self.modalities.items()}


def indicator(labels: Any) -> sp.csr_array:
    sets = LabelSets.from_labels(labels)
    return sets.rows()[sets.set_of_point]


def data_sets(folder: Path, work: Path) -> Iterator[Data]:
    yield _described("icons", icons(work))
    if (folder / "photos.tar.xz").exists():
        yield _described("photographs", photographs(folder, work))
    if (folder / "wiki.mat").exists():
        wiki = load_dataset("wiki", folder / "wiki.mat")
        parts = [wiki.train, wiki.queries]
        labels = np.concatenate([part.labels for part in parts])
        names = wiki.train.modalities
        yield Data(
            "Wiki", {name: np.concatenate([p.modalities[name] for p in parts]) for name in names}, indicator(labels)
        )
    if (folder / "iapr_tc12.npz").exists():
        iapr = read_arrays(folder / "iapr_tc12.npz")
        texts, labels = sp.csr_array(iapr["english"]), sp.csr_array(iapr["labels"])
        yield Data("IAPR TC-12", {"image": iapr["image"].astype(np.float32), "text": texts.astype(np.float32)}, labels)
    if (folder / "mirflickr25k.npz").exists() and (folder / "mirflickr25k_more.npz").exists():
        flickr, more = (read_arrays(folder / f"mirflickr25k{end}.npz") for end in ("", "_more"))
        texts, labels = (sp.csr_array(flickr[name]) for name in ("text", "labels"))
        for name, image in (("MIRFLICKR, GIST", flickr["image"]), ("MIRFLICKR, network", more["image_cnn"])):
            yield Data(name, {"image": np.asarray(image, np.float32), "text": texts.astype(np.float32)}, labels)


def _described(name: str, items: Items) -> Data:
    """Return images and texts by fixed features, which need no training."""
    featurizers: dict[str, Featurizer] = {"image": CombinedImage(), "text": BagOfWords()}
    matrices = {each: featurizer.fit_transform(items.modalities[each]) for each, featurizer in featurizers.items()}
    return Data(name, matrices, indicator(items.labels))


def measure(data: Data, n_bytes: int, seed: int) -> dict[str, list[float]]:
    """Return MAP by ranking, for shared labels and for all labels, and calibration errors; means over directions."""
    order = np.random.default_rng(seed).permutation(data.labels.shape[0])
    queries, database, training = np.split(order, [len(order) // 5, 2 * (len(order) // 5)])
    queries = queries[:MAX_QUERIES]
    model = DLFH(8 * n_bytes, random_state=seed).fit(data.take(training), data.labels[training])
    asked, items = data.labels[queries].toarray().astype(bool), data.labels[database].toarray().astype(bool)
    shared = asked.astype(np.float32) @ items.T.astype(np.float32)
    relevance = {"any": (shared > 0).astype(np.int8), "all": (shared == asked.sum(axis=1)[:, None]).astype(np.int8)}
    found: dict[str, list[list[float]]] = {}
    for one, other in WAYS:
        Q, X = data.modalities[one][queries], data.modalities[other][database]
        q, p = model.label_probabilities({one: Q}), model.label_probabilities({other: X})
        stored = model.quantize_probabilities(p)
        rankings: dict[str, tuple[Any, Any]] = {"Hamming": (model.encode(one, Q), model.encode(other, X))}
        rankings["asymmetric"] = model.project(one, Q), rankings["Hamming"][1]
        rankings |= {match: (model.score_tables(q, match), stored) for match in MATCHES}
        for name, pair in rankings.items():
            maps = [mean_average_precision(*pair, relevance=each) for each in relevance.values()]
            found.setdefault(name, []).append(maps)
        scores = exact_scores(model, q, p)
        found.setdefault("any, real-valued", []).append(
            [average_precision(scores["any"], relevance["any"]), average_precision(scores["all"], relevance["all"])]
        )
        exclusive = model._labels_known().exclusive
        errors = [calibration_error(p, items), calibration_error(q, asked)]
        for match in MATCHES:
            shown = probability_of(scores[match], match, exclusive=exclusive)
            first = np.argsort(-shown, axis=1)[:, :10]
            top = [np.take_along_axis(each, first, axis=1) for each in (shown, relevance[match])]
            errors += [calibration_error(shown, relevance[match]), calibration_error(*top)]
        found.setdefault("calibration", []).append(errors)
    both = model.label_probabilities(data.take(database))
    found["calibration, both modalities"] = [[calibration_error(both, items)]]
    return {name: np.mean(values, axis=0).tolist() for name, values in found.items()}


def exact_scores(model: DLFH, q: np.ndarray, p: np.ndarray) -> dict[str, np.ndarray]:
    labels = model._labels_known()
    rows = max(1, CHUNK_PAIRS // len(p))

    def scores(match: Any) -> np.ndarray:
        parts = [
            label_scores(q[start : start + rows], p, labels.weights, match, exclusive=labels.exclusive).sum(axis=2)
            for start in range(0, len(q), rows)
        ]
        return np.concatenate(parts)

    return {match: scores(match) for match in MATCHES}


def average_precision(scores: np.ndarray, relevant: np.ndarray) -> float:
    ranked = np.take_along_axis(relevant, np.argsort(-scores, axis=1, kind="stable"), axis=1)
    precision = np.cumsum(ranked, axis=1) / np.arange(1, ranked.shape[1] + 1)
    return float(((precision * ranked).sum(axis=1) / np.maximum(ranked.sum(axis=1), 1)).mean())


def calibration_error(probabilities: np.ndarray, happened: np.ndarray) -> float:
    """Return the expected calibration error: the mean of |probability - frequency| over ten equal intervals."""
    p, y = probabilities.ravel().astype(np.float64), happened.ravel().astype(np.float64)
    places = np.minimum((10 * p).astype(int), 9)
    counts = np.bincount(places, minlength=10)
    gaps = np.abs(np.bincount(places, p, 10) - np.bincount(places, y, 10))
    return float(gaps[counts > 0].sum() / len(p))


def shown(value: float) -> str:
    return f"{value:.3f}".lstrip("0")


def tables(data: Iterator[Data], lengths: list[int], seeds: int) -> dict[str, str]:
    rankings = ["Hamming", "asymmetric", "any", "all", "any, real-valued"]
    ranking = [f"| data | bytes | {' | '.join(rankings)} |", "|---|---|" + "---|" * len(rankings)]
    calibration = [
        "| data | single labels | two modalities | any | any, first ten | all | all, first ten |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in data:
        for n_bytes in lengths:
            runs = [measure(each, n_bytes, seed) for seed in range(seeds)]
            mean = {name: np.mean([run[name] for run in runs], axis=0) for name in runs[0]}
            cells = " | ".join(" / ".join(map(shown, mean[name])) for name in rankings)
            ranking.append(f"| {each.name} | {n_bytes} | {cells} |")
            print(ranking[-1], file=sys.stderr, flush=True)
            if n_bytes == lengths[-1]:
                image, text, any_, any_ten, all_, all_ten = mean["calibration"]
                errors = [(image + text) / 2, *mean["calibration, both modalities"], any_, any_ten, all_, all_ten]
                calibration.append(f"| {each.name} | {' | '.join(map(shown, errors))} |")
                print(calibration[-1], file=sys.stderr, flush=True)
    return {"rankings": "\n".join(ranking), "calibration": "\n".join(calibration)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, nargs="+", default=[4, 8, 16], help="lengths of codes")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--sets", nargs="*", help="names of data sets; by default all")
    parser.add_argument("--write", type=Path, help="document with places for the tables")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        sets = data_sets(Path(os.environ.get("DLFH_DATA", ".")), Path(work))
        chosen = (each for each in sets if not given.sets or each.name in given.sets)
        found = tables(chosen, given.bytes, given.seeds)
    if given.write:
        fill(given.write, found)
    else:
        print("\n\n".join(found.values()))


if __name__ == "__main__":
    main()
