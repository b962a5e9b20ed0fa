"""Rankings by label probabilities beside Hamming and asymmetric ranking, and the calibration of the probabilities.

    DLFH_DATA=/path/to/folder python -m benchmarks.probabilities_study --write docs/label-probabilities.md

A fifth of the points are queries and a fifth the unseen database; the rest is for training. Constants of the library
were not chosen on these points. The folder has `wiki.mat`, `iapr_tc12.npz`, `mirflickr25k.npz`,
`mirflickr25k_more.npz` and `photos.tar.xz`; missing files are skipped. Cells that the cache has are not measured again.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import scipy.sparse as sp
from sklearn.decomposition import TruncatedSVD

from benchmarks.answers_data import icons, photographs
from benchmarks.report import fill
from dlfh import DLFH
from dlfh._labels import LabelSets
from dlfh._probabilities.fit import by_centroid, matching, sum_tables
from dlfh._probabilities.scores import MATCHES
from dlfh.codes import pack
from dlfh.datasets import Items, load_dataset, read_arrays
from dlfh.features import BagOfWords, CombinedImage
from dlfh.features.base import Featurizer
from dlfh.methods import CCAITQ
from dlfh.metrics import mean_average_precision

#: The first split: the constants of the library were not chosen on these.
FIRST_SEED = 100
WAYS = (("image", "text"), ("text", "image"))
MAX_POINTS, MAX_QUERIES = 4000, 500
#: Terms of the scores by probabilities that are not quantised; fewer queries where labels are many.
MAX_TERMS = 1 << 26
#: Pairs whose scores are computed at once.
CHUNK_PAIRS = 1 << 15
#: Code length at which labels are missing, ceilings are measured and probabilities are calibrated.
MAIN_BYTES = 8
MISSING = (0.3, 0.6)
OWN = ("Hamming", "asymmetric", "any", "all")
OTHERS = ("PQ, labels", "PQ, CCA", "ITQ", "RaBitQ")
#: Of pairs: their probabilities come from these modalities, for queries and for items.
CALIBRATED = (("image", "text"), ("text", "image"), (("image", "text"), ("image", "text")))


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


def measure(data: Data, n_bytes: int, seed: int, missing: float) -> dict[str, Any]:
    """Return MAP for shared labels and for all labels, by database and ranking, and calibration, see `_calibration`."""
    order = np.random.default_rng(seed).permutation(data.labels.shape[0])[:MAX_POINTS]
    queries, database, training = np.split(order, [len(order) // 5, 2 * (len(order) // 5)])
    queries = queries[:MAX_QUERIES]
    known = without(data.labels[training], missing, seed)
    model = DLFH(8 * n_bytes, random_state=seed).fit(data.take(training), known)
    asked, items, learned = (data.labels[rows].toarray().astype(bool) for rows in (queries, database, training))
    relevance = {match: matching(asked, items.T, match).astype(np.int8) for match in MATCHES}
    rows = {"queries": queries, "database": database, "training": training}
    cca = {} if missing else _correlated(data, rows, n_bytes, seed)
    found: dict[str, Any] = {}
    for one, other in WAYS:
        Q, X = data.modalities[one][queries], data.modalities[other][database]
        q, p = model.label_probabilities({one: Q}), model.label_probabilities({other: X})
        stored, tables = model.quantize_probabilities(p), {match: model.score_tables(q, match) for match in MATCHES}
        z, codes = model.project(one, Q), model.encode(other, X)
        rankings: dict[str, tuple[Any, Any]] = {"Hamming": (pack(z), codes), "asymmetric": (z, codes)}
        _add(found, "unseen", rankings | {match: (tables[match], stored) for match in MATCHES}, relevance)
        if missing:
            continue
        labels = model.quantize_probabilities(known.toarray())
        rankings = {"Hamming": (pack(z), model.codes_[other]), "asymmetric": (z, model.codes_[other])}
        rankings |= {match: (tables[match], labels) for match in MATCHES}
        _add(
            found, "learned", rankings, {match: matching(asked, learned.T, match).astype(np.int8) for match in MATCHES}
        )
        fitted = model.label_probabilities({other: data.modalities[other][training]})
        cq, cx, embedded = cca[one, "queries"], cca[other, "database"], cca[other, "training"]
        scores = {
            "PQ, labels": quantised(q, p, fitted, n_bytes),
            "PQ, CCA": quantised(cq, cx, embedded, n_bytes),
            "RaBitQ": rabitq(q, p, fitted, n_bytes),
        }
        _add(found, "unseen", {"ITQ": (pack(cq), pack(cx))}, relevance)
        for name, inner in scores.items():
            if inner is not None:
                maps = [average_precision(inner, each) for each in relevance.values()]
                found.setdefault(f"unseen/{name}", []).append(maps)
        if n_bytes == MAIN_BYTES:
            few = max(50, MAX_TERMS // p.size)
            exact = exact_scores(model, q[:few], p)
            maps = [average_precision(exact[match], relevance[match][:few]) for match in MATCHES]
            found.setdefault("unseen/real-valued", []).append(maps)
    result: dict[str, Any] = {name: np.mean(values, axis=0).tolist() for name, values in found.items()}
    if not missing and n_bytes == MAIN_BYTES:
        result["bins"] = _calibration(model, data, queries, database, asked, items)
    return result


def _add(found: dict[str, Any], where: str, rankings: dict[str, Any], relevance: dict[Any, np.ndarray]) -> None:
    for name, pair in rankings.items():
        maps = [mean_average_precision(*pair, relevance=each) for each in relevance.values()]
        found.setdefault(f"{where}/{name}", []).append(maps)


def without(labels: sp.csr_array, missing: float, seed: int) -> sp.csr_array:
    """Return labels of which a share is missing at random."""
    entries = labels.tocoo()
    kept = np.random.default_rng(seed).random(entries.nnz) >= missing
    row, column = (each[kept] for each in entries.coords)
    return sp.csr_array((np.ones(len(row)), (row, column)), labels.shape)


def _correlated(data: Data, rows: dict[str, np.ndarray], n_bytes: int, seed: int) -> dict[tuple[str, str], Any]:
    """Return the rotated CCA projections of points, by modality and part, from 256 principal components."""
    components: dict[str, dict[str, Any]] = {part: {} for part in rows}
    for name, matrix in data.modalities.items():
        fitted = matrix[rows["training"]]
        size = min(256, *(n - 1 for n in fitted.shape))
        reduced = TruncatedSVD(size, random_state=seed, n_iter=3).fit(sp.csr_array(fitted))
        scale = np.linalg.norm(reduced.transform(fitted), axis=1).mean()
        for part, numbers in rows.items():
            components[part][name] = reduced.transform(matrix[numbers]) / scale
    method = CCAITQ(8 * n_bytes, random_state=seed).fit(components["training"])
    return {(name, part): method.project(name, values) for part in rows for name, values in components[part].items()}


def quantised(queries: np.ndarray, items: np.ndarray, training: np.ndarray, n_bytes: int) -> np.ndarray:
    """Return inner products of queries and items in bytes by product quantisation."""
    width = -(-queries.shape[1] // n_bytes) * n_bytes
    q, x, fitted = (_padded(each, width) for each in (queries, items, training))
    quantiser: Any = faiss.ProductQuantizer(width, n_bytes, 8)
    quantiser.cp.min_points_per_centroid = 1  # small data sets are not worth a warning
    quantiser.train(fitted[:5000])
    decoded: Any = quantiser.decode(quantiser.compute_codes(x))
    return q @ decoded.T


def rabitq(queries: np.ndarray, items: np.ndarray, training: np.ndarray, n_bytes: int) -> np.ndarray | None:
    """Return inner products of queries and items by RaBitQ, which takes 8 bytes and a bit per dimension."""
    width = 8 * (n_bytes - 8)
    if width <= 0 or not hasattr(faiss, "IndexRaBitQ"):
        return None
    mean = training.mean(axis=0)
    axes = np.linalg.svd(training[:5000] - mean, full_matrices=False)[2][:width].T
    rotation = np.linalg.qr(np.random.default_rng(0).normal(size=(width, width)))[0]
    q, x, fitted = (_padded((each - mean) @ axes, width) @ rotation for each in (queries, items, training))
    q, x, fitted = (np.ascontiguousarray(each, np.float32) for each in (q, x, fitted))
    index = faiss.IndexRaBitQ(width, faiss.METRIC_INNER_PRODUCT)
    index.train(fitted)
    index.add(x)
    scores, numbers = index.search(q, len(x))
    found = np.full(scores.shape, -np.inf, np.float32)
    np.put_along_axis(found, numbers, scores, axis=1)
    return found + np.asarray(items @ mean, np.float32)


def _padded(values: np.ndarray, width: int) -> np.ndarray:
    return np.pad(np.asarray(values, np.float32), ((0, 0), (0, width - values.shape[1])))


def _calibration(model: DLFH, data: Data, queries: Any, database: Any, asked: Any, items: Any) -> dict[str, Any]:
    """Return the bins of single labels, from one modality and from two, and of matches, over all items and the first.

    Bins have the numbers, the sums of probabilities and the sums of outcomes in ten equal intervals.
    """
    found: dict[str, Any] = {}

    def add(name: str, probabilities: np.ndarray, happened: np.ndarray) -> None:
        found.setdefault(name, []).append(bins(probabilities, happened))

    chosen = {name: (name,) if isinstance(name, str) else name for way in CALIBRATED for name in way}
    p = {
        name: [
            model.label_probabilities({each: data.modalities[each][rows] for each in names})
            for rows in (queries, database)
        ]
        for name, names in chosen.items()
    }
    for name, (_, values) in p.items():
        add("single labels" if isinstance(name, str) else "two modalities", values, items)
    for one, other in CALIBRATED:
        kind = "" if isinstance(one, str) else ", two modalities"
        for match in MATCHES:
            relevant = matching(asked, items.T, match)
            tables = by_centroid(model.score_tables(p[one][0], match))
            scores = sum_tables(tables, model.quantize_probabilities(p[other][1]))
            shown = model.match_probabilities(scores, p[one][0], match, queries=one, items=other)
            first = np.argsort(-scores, axis=1, kind="stable")[:, :10]
            add(f"{match}{kind}", shown, relevant)
            add(f"{match}{kind}, first ten", *(np.take_along_axis(each, first, axis=1) for each in (shown, relevant)))
    return found


def exact_scores(model: DLFH, q: np.ndarray, p: np.ndarray) -> dict[Any, np.ndarray]:
    """Return scores by probabilities that are not quantised."""
    labels, rows = model._labels_known(), max(1, CHUNK_PAIRS // len(p))
    starts = range(0, len(q), rows)
    return {
        match: np.concatenate([labels.terms(q[start : start + rows], p, match).sum(axis=2) for start in starts])
        for match in MATCHES
    }


def average_precision(scores: np.ndarray, relevant: np.ndarray) -> float:
    ranked = np.take_along_axis(relevant, np.argsort(-scores, axis=1, kind="stable"), axis=1)
    precision = np.cumsum(ranked, axis=1) / np.arange(1, ranked.shape[1] + 1)
    return float(((precision * ranked).sum(axis=1) / np.maximum(ranked.sum(axis=1), 1)).mean())


def bins(probabilities: np.ndarray, happened: np.ndarray) -> list[list[float]]:
    p, y = probabilities.ravel().astype(np.float64), happened.ravel().astype(np.float64)
    places = np.minimum((10 * p).astype(int), 9)
    return [np.bincount(places, weights, 10).tolist() for weights in (np.ones(len(p)), p, y)]


def calibration_error(each: list[Any]) -> float:
    """Return the expected calibration error of bins: the mean of |probability - frequency|."""
    counts, sums, outcomes = np.sum(each, axis=0)
    return float(np.abs(sums - outcomes).sum() / counts.sum())


def shown(value: float) -> str:
    return f"{value:.3f}".lstrip("0")


def tables(cells: dict[tuple[str, int, int, float], dict[str, Any]]) -> dict[str, str]:
    """Return the tables of the document from measured cells by data, bytes, seed and share of missing labels."""
    names = list(dict.fromkeys(name for name, *_ in cells))
    found: dict[str, list[str]] = {}

    def line(table: str, *parts: str) -> None:
        found.setdefault(table, []).append(f"| {' | '.join(parts)} |")

    def head(table: str, *parts: str) -> None:
        line(table, *parts)
        found[table].append("|" + "---|" * len(parts))

    def mean(name: str, n_bytes: int, missing: float, ranking: str) -> str:
        runs = [
            cell[ranking]
            for key, cell in cells.items()
            if key[:2] == (name, n_bytes) and key[3] == missing and ranking in cell
        ]
        return " / ".join(map(shown, np.mean(runs, axis=0))) if runs else "–"

    head("rankings", "data", "bytes", *OWN, *OTHERS, "real-valued")
    head("learned", "data", "bytes", *OWN)
    head("missing", "data", "labels missing", *OWN)
    columns = ["single labels", "two modalities"]
    columns += [f"{match}{end}" for match in MATCHES for end in ("", ", first ten")]
    columns += [f"{match}, two modalities{end}" for match in MATCHES for end in ("", ", first ten")]
    head("calibration", "data", *columns)
    for name in names:
        for n_bytes in sorted({key[1] for key in cells if key[0] == name and not key[3]}):
            for table, where, rankings in (
                ("rankings", "unseen", (*OWN, *OTHERS, "real-valued")),
                ("learned", "learned", OWN),
            ):
                values = [mean(name, n_bytes, 0.0, f"{where}/{each}") for each in rankings]
                line(table, name, str(n_bytes), *values)
        for missing in (0.0, *MISSING):
            values = [mean(name, MAIN_BYTES, missing, f"unseen/{each}") for each in OWN]
            line("missing", name, f"{100 * missing:.0f} %", *values)
        runs = [cell["bins"] for key, cell in cells.items() if key[0] == name and "bins" in cell]
        pooled = (
            [calibration_error([each for run in runs for each in run[column]]) for column in columns] if runs else []
        )
        line("calibration", name, *map(shown, pooled))
    return {name: "\n".join(lines) for name, lines in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, nargs="+", default=[4, 8, 16, 32], help="lengths of codes")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--sets", nargs="*", help="names of data sets; by default all")
    parser.add_argument("--cache", type=Path, help="folder of measured cells, to continue a run")
    parser.add_argument("--write", type=Path, help="document with places for the tables")
    given = parser.parse_args()
    cells: dict[tuple[str, int, int, float], dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as work:
        cache = given.cache or Path(work) / "cells"
        cache.mkdir(exist_ok=True)
        sets = [*data_sets(Path(os.environ.get("DLFH_DATA", ".")), Path(work))]
        for seed, data in itertools.product(range(FIRST_SEED, FIRST_SEED + given.seeds), sets):
            wanted = [(n_bytes, seed, 0.0) for n_bytes in given.bytes]
            wanted += [(MAIN_BYTES, seed, missing) for missing in MISSING]
            for cell in wanted if not given.sets or data.name in given.sets else []:
                file = cache / f"{data.name} {' '.join(map(str, cell))}.json"
                if not file.exists():
                    began = time.process_time()
                    file.write_text(json.dumps(measure(data, *cell)))
                    print(file.stem, f"{time.process_time() - began:.0f} s", file=sys.stderr, flush=True)
                cells[data.name, *cell] = json.loads(file.read_text())
    found = tables(cells)
    if given.write:
        fill(given.write, found)
    else:
        print("\n\n".join(found.values()))


if __name__ == "__main__":
    main()
