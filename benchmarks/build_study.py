"""Compare `dlfh build` with its former default, the recommended configuration and other methods.

    DLFH_DATA=/path/to/folder python -m benchmarks.build_study --write docs/answers.md

A fifth of the items is unseen and searches itself, by text or by image; every method learns from the rest. A method is
measured by a matrix of scores for each query modality. Results are kept in ``--work``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from benchmarks.answers_data import Setting, settings, without_labels
from benchmarks.report import code_version, fill
from dlfh import DLFH, Collection, Encoder
from dlfh._labels import LabelSets
from dlfh._mathematics.correlation import Whitening, canonical_directions
from dlfh.codes import n_bytes, pack, unpack
from dlfh.collection.choosing import N_BITS, candidate_featurizers, choose_featurizers
from dlfh.datasets import Items
from dlfh.features import BagOfWords, CombinedImage, Featurizer, Gist, Vectors
from dlfh.features.cache import cached
from dlfh.features.combined import Hog
from dlfh.hashing import KernelRidge, LinearRidge
from dlfh.metrics import evaluate
from dlfh.metrics.measures import AP, P, nDCG

Floats = npt.NDArray[np.float64]
Scores = dict[str, Floats]

#: How many items learn and ask where ridges of others are chosen: the share of the training items that asks.
VALIDATION = 0.3
RIDGES = (1e-2, 1e-1, 1.0)


@dataclass(frozen=True)
class MethodResult:
    """Results of a method by query modality: MAP, nDCG@10, exact P@5, and the median rank of the query's item.

    Attributes
    ----------
    measured : dict of str to list of float
    n_bytes : float
        Storage per item.
    seconds : float
        Processor time for features and training.
    """

    measured: dict[str, list[float]]
    n_bytes: float
    seconds: float


def measure(scores: Scores, labels: list[list[str]]) -> dict[str, list[float]]:
    """Return the measures of rankings; an item is not an answer to itself, except for the rank of the own item."""
    sets = LabelSets.from_labels(labels)
    rows = sets.rows()[sets.set_of_point]
    shared = (rows @ rows.T).toarray()
    sizes = np.diff(rows.indptr)
    exact = (shared == sizes[:, None]) & (shared == sizes[None, :])
    found = {}
    for name, matrix in scores.items():
        rank = np.median([1 + np.count_nonzero(line > line[row]) for row, line in enumerate(matrix)])
        others = np.where(np.eye(len(matrix), dtype=bool), -np.inf, matrix)
        order = np.argsort(-others, axis=1, kind="stable")[:, :-1]
        grades = np.take_along_axis(shared, order, axis=1)
        right = grades > 0
        n_right = right.sum(axis=1)
        precision = np.cumsum(right, axis=1) / np.arange(1, right.shape[1] + 1)
        average = (precision * right).sum(axis=1) / np.maximum(n_right, 1)
        discounts = 1 / np.log2(np.arange(2, 12))
        gains = 2.0**grades - 1
        best = (np.sort(gains, axis=1)[:, ::-1][:, :10] * discounts).sum(axis=1)
        graded = (gains[:, :10] * discounts).sum(axis=1) / np.maximum(best, 1e-12)
        exactly = np.take_along_axis(exact, order[:, :5], axis=1).mean(axis=1)
        found[name] = [float(average.mean()), float(graded.mean()), float(exactly.mean()), float(rank)]
    return found


def train(setting: Setting) -> Items:
    """Return the training items."""
    return joined(setting.first, setting.later)


def joined(a: Items, b: Items) -> Items:
    modalities = {
        name: [*values, *b.modalities[name]] if isinstance(values, list) else np.vstack([values, b.modalities[name]])
        for name, values in a.modalities.items()
    }
    return Items.of(modalities, [*(a.labels or []), *(b.labels or [])], [*a.ids, *b.ids])


def described(featurizers: dict[str, Featurizer], seen: Items, asking: Items) -> tuple[Any, Any]:
    known = {name: featurizer.fit_transform(seen.modalities[name]) for name, featurizer in featurizers.items()}
    return known, {name: featurizer.transform(asking.modalities[name]) for name, featurizer in featurizers.items()}


def other(name: str) -> str:
    return "image" if name == "text" else "text"


def by_codes(encoder: Encoder, asking: Items) -> Scores:
    """Return the inner products of the queries' projections with the codes of the other modality."""
    vectors = encoder.featurize_items(asking)
    return agreement({name: encoder.model_.project(name, vectors.matrices[name]) for name in ("text", "image")})


def agreement(values: dict[str, npt.NDArray[np.float32]]) -> Scores:
    codes = {name: unpack(pack(projections), projections.shape[1]) for name, projections in values.items()}
    return {name: (projections @ codes[other(name)].T).astype(np.float64) for name, projections in values.items()}


def built(setting: Setting, encoder: Encoder) -> dict[str, tuple[Scores, float]]:
    """Return the scores of codes alone and, for a collection, of a default search."""
    asking = setting.queries
    with tempfile.TemporaryDirectory() as place:
        Collection.build(Path(place, "shop"), train(setting), encoder).collection.close()
        with Collection.open(Path(place, "shop"), writable=True) as collection:
            collection.add(without_labels(asking))
            places = collection.index.positions(asking.ids)
            vectors = encoder.featurize_items(asking)
            whole = {}
            for name in ("text", "image"):
                texts = asking.modalities["text"] if name == "text" else None
                answered = collection.searcher.log_odds(name, vectors.matrices[name], texts)
                assert answered is not None
                whole[name] = answered[0][:, places]
    size = n_bytes(encoder.n_bits)
    letters = float(np.mean([len(text.encode()) for text in asking.modalities["text"]]))
    return {"codes": (by_codes(encoder, asking), size), "search": (whole, 2 * size + letters)}


def image_features(setting: Setting, kind: Callable[[], Featurizer]) -> Featurizer:
    return kind() if isinstance(setting.first.modalities["image"], list) else Vectors()


def by_default(setting: Setting) -> dict[str, tuple[Scores, float]]:
    return built(setting, setting.encoder())


def former(setting: Setting) -> dict[str, tuple[Scores, float]]:
    """Return the former default of `dlfh build`: GIST, 64 bits, linear functions, unbalanced pairs."""
    model = DLFH(64, hash_function="linear", balance=False, step="bound", random_state=0)
    encoder = Encoder({"image": image_features(setting, Gist), "text": BagOfWords()}, model)
    encoder.fit_items(train(setting))
    return {"codes": (by_codes(encoder, setting.queries), 8)}


def by_hand(setting: Setting) -> dict[str, tuple[Scores, float]]:
    """Return the configuration of examples/demo.py, chosen on validation icons."""
    functions = {"image": KernelRidge(2000), "text": LinearRidge(0.3)}
    encoder = Encoder(
        {"image": image_features(setting, CombinedImage), "text": BagOfWords(min_df=2)},
        DLFH(128, hash_function=functions, random_state=0),
    )
    encoder.fit_items(train(setting))
    return {"codes": (by_codes(encoder, setting.queries), 16)}


def captions(setting: Setting) -> dict[str, tuple[Scores, float]]:
    """Return TF-IDF cosines between texts; images cannot be queries."""
    words = BagOfWords().fit(train(setting).modalities["text"])
    matrix = words.transform(setting.queries.modalities["text"])
    return {"captions": ({"text": (matrix @ matrix.T).toarray().astype(np.float64)}, 8 * matrix.nnz / matrix.shape[0])}


def cosines(a: Floats, b: Floats) -> Floats:
    lengths = [np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12) for rows in (a, b)]
    return (a / lengths[0]) @ (b / lengths[1]).T


def across(values: dict[str, Floats]) -> Scores:
    return {name: cosines(vectors, values[other(name)]) for name, vectors in values.items()}


def dense(matrix: Any) -> Floats:
    return np.asarray(matrix.toarray() if sp.issparse(matrix) else matrix, np.float64)


def correlated(known: Any, new: Any, labels: Any, ridge: float, sizes: Sequence[int]) -> list[Scores]:
    """Return cosines of the first canonical variates, each weighted by its correlation, for each number of them."""
    x, y = ({name: dense(matrix[name]) for name in ("image", "text")} for matrix in (known, new))
    means = {name: matrix.mean(axis=0) for name, matrix in x.items()}
    centred = {name: matrix - means[name] for name, matrix in x.items()}
    n = len(labels)
    whitening = {}
    for name, matrix in centred.items():
        covariance = matrix.T @ matrix / n
        whitening[name] = Whitening(covariance, ridge * float(np.trace(covariance)) / len(covariance))
    cross = centred["image"].T @ centred["text"] / n
    every = canonical_directions(whitening["image"], whitening["text"], cross)
    scores = []
    for k in sizes:
        found = every.first(k)
        ways = {"image": found.x, "text": found.y}
        scores.append(
            across({name: (matrix - means[name]) @ ways[name] * found.correlations for name, matrix in y.items()})
        )
    return scores


def to_labels(known: Any, new: Any, labels: Any, ridge: float, _: Sequence[int]) -> list[Scores]:
    """Return cosines of label scores predicted by ridge regression."""
    sets = LabelSets.from_labels(labels)
    targets = dense(sets.rows()[sets.set_of_point])
    mean = targets.mean(axis=0)
    said = {}
    for name in ("image", "text"):
        x, y = dense(known[name]), dense(new[name])
        centre = x.mean(axis=0)
        x, y = x - centre, y - centre
        kernel = x @ x.T
        strength = ridge * float(np.trace(kernel)) / len(kernel)
        weights = np.linalg.solve(kernel + strength * np.eye(len(kernel)), targets - mean)
        said[name] = y @ (x.T @ weights)
    return [across(said)]


def merit(scores: Scores, asking: Items) -> float:
    return float(np.mean([measures[0] for measures in measure(scores, asking.labels or []).values()]))


def best_of(merits: dict[float, list[float]]) -> list[float]:
    """Return the best ridge for each number of dimensions."""
    return [max(merits, key=lambda ridge: merits[ridge][place]) for place in range(len(next(iter(merits.values()))))]


def real_valued(kind: Any, sizes: tuple[int, ...]) -> Callable[[Setting], dict[str, tuple[Scores, float]]]:
    """Return the results of a real-valued method, with the ridge that is best on a part of the training items."""

    def way(setting: Setting) -> dict[str, tuple[Scores, float]]:
        items = train(setting)
        order = np.random.default_rng(0).permutation(len(items))
        n = int(VALIDATION * len(items))
        asking, seen = items.take(np.sort(order[:n])), items.take(np.sort(order[n:]))
        features = {"image": image_features(setting, CombinedImage), "text": BagOfWords(max_features=1000)}
        trial, whole = described(features, seen, asking), described(features, items, setting.queries)
        n_labels = len({label for item_labels in items.labels or [] for label in item_labels})
        names = [f"{size} numbers" if size else "all labels" for size in sizes]
        merits = {
            ridge: [merit(option_scores, asking) for option_scores in kind(*trial, seen.labels, ridge, sizes)]
            for ridge in RIDGES
        }
        answers = {ridge: kind(*whole, items.labels, ridge, sizes) for ridge in {*best_of(merits)}}
        return {
            name: (answers[best][place], 4 * (sizes[place] or n_labels))
            for place, (name, best) in enumerate(zip(names, best_of(merits), strict=True))
        }

    return way


WAYS: dict[str, Callable[[Setting], dict[str, tuple[Scores, float]]]] = {
    "`dlfh build`": by_default,
    "former default": former,
    "recommended by hand": by_hand,
    "TF-IDF over captions": captions,
    "CCA": real_valued(correlated, (4, 64)),
    "ridge to labels": real_valued(to_labels, (0,)),
}


def results(setting: Setting, work: Path) -> dict[str, MethodResult]:
    """Return the results of every method, reading cached ones."""
    found: dict[str, MethodResult] = {}
    for name, way in WAYS.items():
        file = work / "ways" / code_version() / f"{setting.name} {name.strip('`')}.json".replace(" ", "-")
        if not file.exists():
            began = time.process_time()
            scores = way(setting)
            spent = time.process_time() - began
            ways = {
                option: asdict(MethodResult(measure(matrix, setting.queries.labels or []), size, spent))
                for option, (matrix, size) in scores.items()
            }
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(json.dumps(ways), encoding="utf-8")
        for option, fields in json.loads(file.read_text(encoding="utf-8")).items():
            found[name if option == "captions" else f"{name}, {option}"] = MethodResult(**fields)
            print(setting.name, name, option, fields, file=sys.stderr, flush=True)
    return found


def comparison(found: dict[str, dict[str, MethodResult]]) -> str:
    lines = [
        "| data | method | T: MAP | nDCG@10 | exact | known item "
        "| I: MAP | nDCG@10 | exact | known item | bytes | seconds |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, ways in found.items():
        for way, result in ways.items():
            cells = []
            for modality in ("text", "image"):
                values = result.measured.get(modality)
                cells += (
                    ["–"] * 4 if values is None else [*(f"{value:.3f}" for value in values[:3]), f"{values[3]:.0f}"]
                )
            lines.append(f"| {name} | {way} | {' | '.join(cells)} | {result.n_bytes:.0f} | {result.seconds:.0f} |")
    return "\n".join(lines)


def bits_table(all_settings: list[Setting], seeds: int = 3) -> str:
    """Compare code lengths on validation items, a part of the training items."""
    lines = [
        "| data | bits | bytes per code | unseen: MAP | nDCG@10 | exact | learned: MAP | nDCG@10 | exact |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    measures = [AP, nDCG @ 10, P(match="all") @ 5]
    functions = {"image": KernelRidge(shrinkage=0.01, scaling="standard"), "text": LinearRidge(shrinkage=0.3)}
    for setting in all_settings:
        items = train(setting)
        for n_bits in (64, 128, 256, 512):
            rows = []
            for seed in range(seeds):
                order = np.random.default_rng(100 + seed).permutation(len(items))
                n = int(VALIDATION * len(items))
                asking, seen = items.take(np.sort(order[:n])), items.take(np.sort(order[n:]))
                features = {"image": image_features(setting, CombinedImage), "text": BagOfWords()}
                known, new = described(features, seen, asking)
                model = DLFH(n_bits, hash_function=functions, random_state=seed).fit(known, seen.labels)
                values = {name: model.project(name, new[name]) for name in new}
                unseen = measure(agreement(values), asking.labels or [])
                for name in ("text", "image"):
                    codes = model.codes_[other(name)]
                    learned = evaluate(values[name], codes, asking.labels, seen.labels, measures=measures)
                    rows.append([*unseen[name][:3], *(learned[each] for each in measures)])
            cells = " | ".join(f"{value:.3f}" for value in np.mean(rows, axis=0))
            lines.append(f"| {setting.name} | {n_bits} | {n_bytes(n_bits)} | {cells} |")
            print(lines[-1], file=sys.stderr, flush=True)
    return "\n".join(lines)


def features_table(all_settings: list[Setting]) -> str:
    """Compare image features by the trials of `dlfh build`, on training items."""
    lines = ["| data | image features | MAP | nDCG@10 | exact | seconds |", "|---|---|---|---|---|---|"]
    for setting in all_settings:
        several = candidate_featurizers(setting.first, text="tfidf")
        several["image"].insert(2, Hog())
        items = setting.first
        _, trials = choose_featurizers(several, DLFH(N_BITS, random_state=0), items.modalities, items.labels)
        for trial in trials:
            if trial.setting == "image":
                values = " | ".join(f"{value:.3f}" for value in trial.scores)
                option = f"**`{trial.option}`**" if trial.chosen else f"`{trial.option}`"
                lines.append(f"| {setting.name} | {option} | {values} | {trial.seconds:.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document to write the tables to")
    parser.add_argument(
        "--work", type=Path, default=Path("runs/answers"), help="folder for unpacked archives and results"
    )
    parser.add_argument("--only", choices=("ways", "bits", "features"), help="make only this table")
    arguments = parser.parse_args()
    data, work = Path(os.environ.get("DLFH_DATA", "")), arguments.work
    work.mkdir(parents=True, exist_ok=True)
    tables = {}
    with cached(work / "descriptions"):
        found = [*settings(data, work)]
        pictures = [setting for setting in found if setting.name != "IAPR TC-12"]
        if arguments.only in (None, "ways"):
            tables["ways"] = comparison({setting.name: results(setting, work) for setting in found})
        if arguments.only in (None, "bits"):
            tables["bits"] = bits_table(pictures)
        if arguments.only == "features":
            tables["features"] = features_table(pictures)
    if arguments.write:
        fill(arguments.write, tables)
    else:
        print("\n\n".join(tables.values()))


if __name__ == "__main__":
    main()
