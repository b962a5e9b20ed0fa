"""Suggested labels beside k nearest neighbours, logistic regression and ridge regression on the same features.

    DLFH_DATA=/path/to/folder python -m benchmarks.suggestions_study --cache runs/suggestions --write docs/suggest.md

The labels of a fifth of the items are hidden and then predicted. The settings and thresholds of the baselines are
chosen on a fifth of the other items, their settings at the first split only. The data sets are those of
`benchmarks.probabilities_study`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from benchmarks.probabilities_study import Data, data_sets, shown
from benchmarks.report import fill
from dlfh import DLFH, Collection, Encoder
from dlfh.collection.suggesting import Precision
from dlfh.datasets import Items
from dlfh.features import Vectors

#: Default code length of a collection: probabilities take 16 bytes, and records of the most distinctive labels 16 more.
N_BITS = 128
STORED = "DLFH, 32 bytes"
PROMISED = 0.8
#: Items that the settings of baselines are chosen with.
MAX_TUNING = 6000
#: Points of a large data set.
LARGE = 5000
SOURCES = {"image": ("image",), "text": ("text",), "image and text": ("image", "text")}
SCALINGS = ("plain", "root")
NEIGHBOURS = (5, 10, 20, 40, 80)
RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
PENALTIES = (1e-3, 2e-4, 4e-5, 8e-6, 1.6e-6, 3e-7)

Blocks = list[Any]


def prepare(matrices: Sequence[Any], training: np.ndarray, scaling: str) -> Blocks:
    """Scale the features of each modality to rows of length about 1.

    plain: Sparse rows have length 1; dense features have variance 1 over the training points.
    root: The same, after square roots of features that are not negative.
    """
    scaled: Blocks = []
    for matrix in matrices:
        values = matrix.data if sp.issparse(matrix) else matrix
        if scaling == "root" and values.min() >= 0:
            matrix = np.sqrt(matrix)
            scaled.append(sp.csr_array(normalize(matrix)) if sp.issparse(matrix) else normalize(matrix))
        elif sp.issparse(matrix):
            scaled.append(sp.csr_array(normalize(matrix)))
        else:
            mean, deviation = matrix[training].mean(axis=0), matrix[training].std(axis=0)
            scaled.append((matrix - mean) / np.maximum(deviation, 1e-6) / np.sqrt(matrix.shape[1]))
    return [block.astype(np.float32) for block in scaled]


def rows_of(blocks: Blocks, rows: np.ndarray) -> Blocks:
    return [block[rows] for block in blocks]


def dense(blocks: Blocks) -> np.ndarray:
    return np.hstack([block.toarray() if sp.issparse(block) else block for block in blocks])


def neighbours(X: Blocks, Y: np.ndarray, test: Blocks, settings: Sequence[float]) -> Iterator[np.ndarray]:
    """Yield the share of each label among the k most similar points, weighted by their cosine similarity."""
    unit = [[sp.csr_array(normalize(b)) if sp.issparse(b) else normalize(b) for b in side] for side in (X, test)]
    similarity = np.zeros((test[0].shape[0], len(Y)), np.float32)
    for one, other in zip(*unit, strict=True):
        product = other @ one.T
        similarity += product.toarray() if sp.issparse(product) else product
    most = int(max(settings))
    first = np.argpartition(-similarity, min(most, len(Y) - 1), axis=1)[:, :most]
    values = np.take_along_axis(similarity, first, axis=1)
    order = np.argsort(-values, axis=1, kind="stable")
    first, values = (np.take_along_axis(each, order, axis=1) for each in (first, np.maximum(values, 1e-6)))
    for k in map(int, settings):
        weights = values[:, :k] / values[:, :k].sum(axis=1, keepdims=True)
        starts = np.arange(0, weights.size + 1, weights.shape[1])
        yield sp.csr_array((weights.ravel(), first[:, :k].ravel(), starts), (len(weights), len(Y))) @ Y


def ridge(X: Blocks, Y: np.ndarray, test: Blocks, settings: Sequence[float]) -> Iterator[np.ndarray]:
    """Yield the predictions of linear ridge regression."""
    points, others = dense(X), dense(test)
    for alpha in settings:
        yield Ridge(alpha=alpha, solver="cholesky").fit(points, Y).predict(others)


def logistic(X: Blocks, Y: np.ndarray, test: Blocks, settings: Sequence[float]) -> Iterator[np.ndarray]:
    """Yield the probabilities of one logistic regression per label, all of which are minimised together.

    In the principal axes of the features, scaled by the bound 1/4 on the curvature of the loss, few steps suffice.
    """
    points, others = dense(X), dense(test)
    mean, n = points.mean(axis=0), len(Y)
    points, others = points - mean, others - mean
    if n < points.shape[1]:
        variances, axes = np.linalg.eigh(points @ points.T / n)
        axes = points.T @ (axes / np.sqrt(np.maximum(variances, 1e-9) * n))
    else:
        variances, axes = np.linalg.eigh(points.T @ points / n)
    kept = variances > 1e-6 * variances[-1]
    variances, axes = variances[kept], axes[:, kept]
    points, others = points @ axes, others @ axes
    prior = (Y.sum(axis=0) + 0.5) / (n + 1)
    shape = (len(variances) + 1, Y.shape[1])
    for penalty in settings:
        scale = 1 / np.sqrt(variances / 4 + penalty)
        Z = np.hstack([points * scale, np.full((n, 1), 2.0)]).astype(np.float32)
        weights = np.append(penalty * scale**2, 0.0)[:, None]

        def loss(flat: np.ndarray, Z: np.ndarray = Z, weights: np.ndarray = weights) -> tuple[float, np.ndarray]:
            V = flat.reshape(shape)
            values = Z @ V.astype(np.float32)
            residuals = expit(values)
            total = float(np.logaddexp(0, values).sum(dtype=np.float64) - values[Y > 0].sum(dtype=np.float64)) / n
            residuals -= Y
            gradient = (Z.T @ residuals).astype(np.float64) / n + weights * V
            return total + float((weights * V**2).sum()) / 2, gradient.ravel()

        start = np.zeros(shape)
        start[-1] = np.log(prior / (1 - prior)) / 2
        options = {"maxiter": 40, "gtol": 1e-6, "ftol": 1e-7}
        V = minimize(loss, start.ravel(), method="L-BFGS-B", jac=True, options=options).x.reshape(shape)
        yield expit((others * scale) @ V[:-1] + 2 * V[-1])


Baseline = Callable[[Blocks, np.ndarray, Blocks, Sequence[float]], Iterator[np.ndarray]]
BASELINES: dict[str, tuple[Baseline, tuple[float, ...]]] = {
    "k nearest": (neighbours, NEIGHBOURS),
    "ridge": (ridge, RIDGES),
    "logistic": (logistic, PENALTIES),
}


def average_precision(scores: np.ndarray, truth: np.ndarray) -> float:
    """Return the area under the curve of precision and recall; ties count as one step."""
    order = np.argsort(-scores, kind="stable")
    ordered, hits = scores[order], np.cumsum(truth[order])
    last = np.flatnonzero(np.append(np.diff(ordered) != 0, True))
    precision, recall = hits[last] / (last + 1), hits[last] / hits[-1]
    return float((np.diff(recall, prepend=0) * precision).sum())


def macro_micro(scores: np.ndarray, truth: np.ndarray) -> list[float]:
    """Return average precision: the mean over labels that occur, and over all pairs together."""
    used = np.flatnonzero(truth.any(axis=0))
    by_label = [average_precision(scores[:, label], truth[:, label]) for label in used]
    return [float(np.mean(by_label)), average_precision(scores.ravel(), truth.ravel())]


def threshold_for(scores: np.ndarray, truth: np.ndarray) -> float:
    """Return the threshold that a collection would choose after it saw these scores; infinity if it finds none."""
    checked = Precision()
    checked.add(scores, truth)
    threshold = checked.threshold(PROMISED)
    return np.inf if threshold is None else threshold


def precision_recall(scores: np.ndarray, truth: np.ndarray, threshold: float) -> list[float]:
    suggested = scores >= threshold
    hits = int((suggested & truth).sum())
    return [hits / max(int(suggested.sum()), 1), hits / int(truth.sum())]


def chosen_settings(matrices: Sequence[Any], Y: np.ndarray, training: np.ndarray) -> dict[str, tuple[str, float]]:
    """Return the scaling and setting of each baseline with the best average precision on a fifth of the points."""
    part = training[:MAX_TUNING]
    validation, rest = np.split(part, [len(part) // 5])
    found: dict[str, tuple[str, float]] = {}
    for name, (fit, settings) in BASELINES.items():
        scalings = (found["ridge"][0],) if name == "logistic" else SCALINGS  # logistic regression takes long
        trials = {}
        for scaling in scalings:
            X = prepare(matrices, rest, scaling)
            scores = fit(rows_of(X, rest), Y[rest], rows_of(X, validation), settings)
            for setting, each in zip(settings, scores, strict=True):
                trials[scaling, setting] = sum(macro_micro(each, Y[validation] > 0))
        found[name] = max(trials, key=lambda trial: trials[trial])
    return found


def measure(data: Data, seed: int, settings: dict[str, Any]) -> dict[str, list[float]]:
    """Return macro and micro average precision, and precision and recall at the promised precision, by method."""
    Y = data.labels.toarray().astype(np.float32)
    order = np.random.default_rng(seed).permutation(len(Y))
    hidden, training = np.split(order, [len(order) // 5])
    truth = Y[hidden] > 0
    found: dict[str, list[float]] = {}
    began = time.perf_counter()
    models = [DLFH(N_BITS, random_state=seed).fit(data.take(training), data.labels[training])]
    validation, rest = np.split(training, [len(training) // 5])
    models.append(DLFH(N_BITS, random_state=seed).fit(data.take(rest), data.labels[rest]))
    print(f"  DLFH {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    for source, names in SOURCES.items():
        probabilities, stored = [], []
        for model, rows in zip(models, (hidden, validation), strict=True):
            parts = {name: model.label_probabilities({name: data.modalities[name][rows]}) for name in names}
            known = model._labels_known()
            probabilities.append(known.fuse(parts))
            bytes_of = {name: known.encode_suggested(name, p) for name, p in parts.items()}
            decoded = {name: known.decode_suggested(name, each) for name, each in bytes_of.items()}
            stored.append(known.fuse(decoded))
        for kind, (p, left_out) in (("DLFH", probabilities), (STORED, stored)):
            threshold = threshold_for(left_out, Y[validation] > 0)
            found[f"{kind}|{source}"] = [*macro_micro(p, truth), *precision_recall(p, truth, threshold)]
        matrices = [data.modalities[name] for name in names]
        if source not in settings:
            settings[source] = chosen_settings(matrices, Y, training)
            print(f"  {source}: {settings[source]}", file=sys.stderr, flush=True)
        for name, (fit, _) in BASELINES.items():
            began = time.perf_counter()
            scaling, setting = settings[source][name]
            X = prepare(matrices, training, scaling)
            (left_out,) = fit(rows_of(X, rest), Y[rest], rows_of(X, validation), [setting])
            (scores,) = fit(rows_of(X, training), Y[training], rows_of(X, hidden), [setting])
            threshold = threshold_for(left_out, Y[validation] > 0)
            found[f"{name}|{source}"] = [*macro_micro(scores, truth), *precision_recall(scores, truth, threshold)]
            print(f"  {name} {source} {time.perf_counter() - began:.0f} s", file=sys.stderr, flush=True)
    return found


def averaged(runs: list[list[float]]) -> np.ndarray:
    """Return the mean precision of the runs that suggest anything, and the mean recall of all."""
    precision, recall = np.array(runs).T
    return np.array([precision[recall > 0].mean() if recall.any() else 0.0, recall.mean()])


def in_collection(data: Data, seed: int, work: Path) -> dict[str, list[float]]:
    """Return precision and recall of what a collection suggests, for unlabelled items and for missing labels."""
    rng = np.random.default_rng(seed)
    truth = [{*part.tolist()} for part in np.split(data.labels.indices, data.labels.indptr[1:-1])]
    hidden = {*rng.permutation(len(truth))[: len(truth) // 5].tolist()}
    whole = [set() if row in hidden else labels for row, labels in enumerate(truth)]
    # A fifth of the labels, but never the last one of an item.
    fewer = [{label for place, label in enumerate(labels) if not place or rng.random() > 0.2} for labels in truth]
    found = {}
    for kind, given in (("unlabelled", whole), ("missing", fewer)):
        items = Items.of(data.modalities, labels=[[str(label) for label in labels] for labels in given])
        encoder = Encoder(dict.fromkeys(data.modalities, Vectors()), DLFH(N_BITS, random_state=seed))
        wanted = {(row, label) for row, labels in enumerate(truth) for label in labels - given[row]}
        if not wanted:  # one label per item
            continue
        with Collection.build(work / f"{data.name}-{seed}-{kind}", items, encoder).collection as collection:
            for promised in (0.8, 0.95):
                suggested = collection.suggest(precision=promised, k=100, missing=kind == "missing")
                pairs = {(int(item), int(label)) for item, label, _ in suggested}
                hits = len(pairs & wanted)
                found[f"{kind}|{promised}"] = [hits / max(len(pairs), 1), hits / max(len(wanted), 1)]
    return found


def measured(data: Data, seed: int, settings: dict[str, Any], cache: Path | None) -> dict[str, list[float]]:
    """Return the result of `measure`, from the cache if it is there."""
    file = None if cache is None else cache / f"{data.name}-{seed}.json"
    if file is not None and file.exists():
        kept = json.loads(file.read_text())
    else:
        kept = {"found": measure(data, seed, settings), "settings": settings}
        if data.labels.shape[0] <= LARGE:
            with tempfile.TemporaryDirectory() as work:
                kept["found"] |= in_collection(data, seed, Path(work))
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(kept, indent=1))
    settings |= kept["settings"]
    found: dict[str, list[float]] = kept["found"]
    return found


def tables(sets: Iterator[Data], seeds: int, large_seeds: int, cache: Path | None) -> dict[str, str]:
    methods = ["DLFH", STORED, *BASELINES]
    heading = [f"| data | splits | from | {' | '.join(methods)} |", "|---|---|---|" + "---|" * len(methods)]
    found = {"suggestions": [*heading], "promise": [*heading]}
    cases = [f"{kind}|{promised}" for kind in ("unlabelled", "missing") for promised in (0.8, 0.95)]
    found["collections"] = [
        "| data | splits | target .8 | target .95 | missing labels, .8 | missing labels, .95 |",
        "|---|---|---|---|---|---|",
    ]
    for data in sets:
        settings: dict[str, Any] = {}
        n = seeds if data.labels.shape[0] <= LARGE else large_seeds
        runs = [measured(data, seed, settings, cache) for seed in range(n)]
        if cases[0] in runs[0]:
            means = {case: averaged([run[case] for run in runs]) for case in cases if case in runs[0]}
            cells = " | ".join(" / ".join(map(shown, means[case])) if case in means else "–" for case in cases)
            found["collections"].append(f"| {data.name} | {n} | {cells} |")
        for source in SOURCES:
            means = {name: np.mean([run[f"{name}|{source}"] for run in runs], axis=0) for name in methods}
            for table, part in (("suggestions", slice(0, 2)), ("promise", slice(2, 4))):
                cells = " | ".join(" / ".join(map(shown, means[name][part])) for name in methods)
                found[table].append(f"| {data.name} | {n} | {source} | {cells} |")
                print(found[table][-1], file=sys.stderr, flush=True)
    return {name: "\n".join(lines) for name, lines in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--large-seeds", type=int, default=1, help=f"for data sets of more than {LARGE:,} points")
    parser.add_argument("--sets", nargs="*", help="names of data sets; by default all")
    parser.add_argument("--cache", type=Path, help="folder of results, from which an interrupted run continues")
    parser.add_argument("--write", type=Path, help="document with places for the tables")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        sets = data_sets(Path(os.environ.get("DLFH_DATA", ".")), Path(work))
        chosen = (each for each in sets if not given.sets or each.name in given.sets)
        found = tables(chosen, given.seeds, given.large_seeds, given.cache)
    if given.write:
        fill(given.write, found)
    else:
        print("\n\n".join(found.values()))


if __name__ == "__main__":
    main()
