"""Frozen vectors and labels in 8, 16 and 32 bytes: DLFH and quantisers, binary codes and supervised projections.

    DLFH_DATA=/path/to/folder python -m benchmarks.embeddings_study --write docs/embeddings.md

The folder has `iapr_tc12.npz`, `mirflickr25k.npz` and `mirflickr25k_more.npz`. The package wordllama, from which only
its table of token vectors and its tokenizer are read, must be installed (`make study-embeddings` does that). Cached
cells are not measured again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from benchmarks.probabilities_study import average_precision, rabitq, shown
from benchmarks.report import code_version, fill, machine
from dlfh import DLFH
from dlfh._persistence.files import replace_file
from dlfh._probabilities.fit import by_centroid, sum_tables
from dlfh.bench.tables import summarize
from dlfh.codes import pack
from dlfh.datasets import read_arrays

N_QUERIES, N_DATABASE, N_TRAIN = 250, 1500, 1200
#: Number of training points on which the settings of baselines are chosen, and of queries among them.
N_VALIDATION, N_VALIDATION_QUERIES = 400, 120
SIZES = {"unseen": (8, 16, 32), "labels": (16,), "itself": (8, 16, 32)}
SEEDS = 5
#: Share of the labels that are held out of training, in the protocol "labels".
HELD_OUT = 1 / 3
CROSSED = (16,)  # if queries and items have different modalities
#: Weight of another image in a query for an image itself; the query's cosine with the image is then about .55.
BLENDED = 1.5
#: Number of results by sign bits that are scored again by the float32 vectors.
RESCORED = 100
#: Dimensions of the linear adapter.
ADAPTED = 64
RIDGES = (0.01, 0.1, 1.0, 10.0, 100.0)
SHRINKAGES, COMPONENTS = (0.1, 0.5, 0.9), (16, 64, 256)
RATE, MAX_STEPS, STEPS_BETWEEN, BATCH = 1e-3, 200, 50, 512

PROTOCOLS = {"unseen": "unseen items", "labels": "unseen labels", "itself": "the item itself"}
#: Rows of the tables, and the bytes per item if fixed; {labels} is four times the number of labels.
ROWS = {
    "raw": "raw float32, cosine",
    "sign": "sign bits of the first numbers, Hamming distance",
    "sign, float query": "the same, float query",
    "sign, re-scored": f"the same, first {RESCORED} re-scored by float32",
    "PCA-ITQ": "PCA-ITQ, Hamming distance",
    "PQ": "PQ",
    "OPQ": "OPQ",
    "RaBitQ": "PCA and RaBitQ",
    "ridge": "ridge to labels, float32",
    "ridge, PQ": "ridge to labels, PQ",
    "LDA": "LDA to labels, float32",
    "LDA, PQ": "LDA to labels, PQ",
    "adapter": f"linear adapter, float32 ({4 * ADAPTED} bytes)",
    "adapter, PQ": "linear adapter, PQ",
    "DLFH": "**`DLFH()`**, Hamming distance",
    "DLFH, float query": "**`DLFH()`**, float query",
    "DLFH, any": "**`DLFH()`**, label probabilities",
}

Scores = Callable[[np.ndarray], np.ndarray]  # of query vectors: scores of all items


@dataclass(frozen=True)
class Data:
    """Vectors of each modality, an indicator matrix of labels, and the searches to measure."""

    name: str
    vectors: dict[str, np.ndarray]
    labels: np.ndarray
    #: Modalities of queries and items, by name.
    tasks: dict[str, tuple[str, str]]
    texts: list[list[str]] = field(default_factory=list)


@cache
def _token_vectors() -> tuple[Any, np.ndarray]:
    """Return the tokenizer and the token vectors in the files of wordllama, without its loader."""
    import safetensors.numpy
    from tokenizers import Tokenizer

    found = importlib.util.find_spec("wordllama")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("wordllama is not installed: make study-embeddings installs it")
    folder = Path(found.submodule_search_locations[0])
    weights = safetensors.numpy.load_file(folder / "weights" / "l2_supercat_256.safetensors")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizers" / "l2_supercat_tokenizer_config.json"))
    return tokenizer, next(iter(weights.values())).astype(np.float32)


def embed(texts: list[list[str]]) -> np.ndarray:
    """Return the mean of the token vectors of each text, which is a list of words."""
    tokenizer, table = _token_vectors()
    tokens = tokenizer.encode_batch([" ".join(words) for words in texts], add_special_tokens=False)
    return np.stack([table[each.ids].mean(axis=0) for each in tokens])


def data_sets(folder: Path) -> Iterator[Data]:
    iapr = read_arrays(folder / "iapr_tc12.npz")
    labels = sp.csr_array(iapr["labels"]).toarray() > 0
    tasks = {"IAPR TC-12, images": ("image", "image")}
    yield Data("IAPR TC-12", {"image": iapr["image_cnn"].astype(np.float32)}, labels, tasks)
    flickr, more = (read_arrays(folder / f"mirflickr25k{end}.npz") for end in ("", "_more"))
    words = [bytes(each).decode().split(",") for each in more["tags"]]
    rows = [i for i, each in enumerate(words) if len(each) > 1]
    texts = [words[i] for i in rows]
    vectors = {"image": more["image_cnn"][rows].astype(np.float32), "text": embed(texts)}
    tasks = {
        "MIRFLICKR, images": ("image", "image"),
        "MIRFLICKR, tags": ("text", "text"),
        "MIRFLICKR, tags find images": ("text", "image"),
    }
    yield Data("MIRFLICKR", vectors, np.asarray(flickr["labels"])[rows] > 0, tasks, texts)


def unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), np.float32)


@dataclass(frozen=True)
class Split:
    """Rows of a run, and the labels that training uses."""

    queries: np.ndarray
    database: np.ndarray
    training: np.ndarray
    known: np.ndarray  # mask of the labels that training uses
    seed: int

    @classmethod
    def of(cls, data: Data, protocol: str, seed: int) -> Split:
        """Draw a split; with unseen labels, every query has at least one, and only these define relevance."""
        rng = np.random.default_rng(1000 + seed)
        order, n_labels = rng.permutation(len(data.labels)), data.labels.shape[1]
        known = np.ones(n_labels, bool)
        if protocol == "labels":
            known[rng.permutation(n_labels)[: round(HELD_OUT * n_labels)]] = False
        wanted = data.labels[order][:, known if protocol == "unseen" else ~known].any(axis=1)
        queries, rest = order[wanted][:N_QUERIES], np.concatenate([order[wanted][N_QUERIES:], order[~wanted]])
        rest = rng.permutation(rest)
        training = rest[N_DATABASE : N_DATABASE + N_TRAIN]
        # Points without any of these labels cannot be used for training.
        training = training[data.labels[training][:, known].any(axis=1)]
        return cls(queries, rest[:N_DATABASE], training, known, seed)


@dataclass(frozen=True)
class Search:
    """Vectors of one search: training pairs with labels, and items to rank; centred and of length 1."""

    Q: np.ndarray
    X: np.ndarray
    Y: np.ndarray
    items: np.ndarray
    seed: int
    is_crossed: bool  # whether queries and items have different modalities
    known: dict[float, np.ndarray] = field(default_factory=dict)  # axes of LDA by shrinkage

    @cached_property
    def quantised(self) -> np.ndarray:
        """Training vectors of quantisers, which need no labels: the training set and the database."""
        return np.concatenate([self.X, self.items])

    def discriminants(self, shrinkage: float) -> np.ndarray:
        """Return the axes of LDA; a point counts once for each of its labels."""
        if shrinkage not in self.known:
            frequent = np.flatnonzero(self.Y.sum(axis=0) > 1)
            rows, classes = np.nonzero(self.Y[:, frequent])
            method = LinearDiscriminantAnalysis(solver="eigen", shrinkage=shrinkage).fit(self.X[rows], classes)
            size = min(len(frequent) - 1, self.X.shape[1])
            self.known[shrinkage] = np.asarray(method.scalings_[:, :size], np.float32)
        return self.known[shrinkage]

    def validation(self) -> tuple[Search, np.ndarray, np.ndarray]:
        """Return a search among validation points, trained on the others, its queries, and the relevance mask."""
        fit, asking = slice(0, -N_VALIDATION), slice(-N_VALIDATION, -N_VALIDATION + N_VALIDATION_QUERIES)
        asked = slice(-N_VALIDATION + N_VALIDATION_QUERIES, None)
        search = Search(self.Q[fit], self.X[fit], self.Y[fit], self.X[asked], self.seed, self.is_crossed)
        relevant = (self.Y[asking].astype(np.float32) @ self.Y[asked].T.astype(np.float32)) > 0
        return search, self.Q[asking], relevant


def solve_ridge(X: np.ndarray, Y: np.ndarray, alpha: float) -> np.ndarray:
    """Return the matrix of ridge regression without an intercept; features are centred."""
    gram = X.T.astype(np.float64) @ X + alpha * np.eye(X.shape[1])
    return np.asarray(np.linalg.solve(gram, X.T @ Y), np.float32)


# Supervised projections: functions from a setting to a map of queries and a map of items.
Maps = tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray]]


def ridge_maps(search: Search, setting: tuple[float, str]) -> Maps:
    """Map both sides to predicted labels, compared by cosine or by inner product."""
    alpha, form = setting
    mean = search.Y.mean(axis=0, dtype=np.float32)
    weights = [solve_ridge(each, search.Y - mean, alpha) for each in (search.Q, search.X)]

    if form == "cosine":
        return partial(projected, weights[0]), partial(projected, weights[1])
    return partial(predicted, mean, weights[0]), partial(predicted, mean, weights[1])


def predicted(mean: np.ndarray, W: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors @ W + mean, np.float32)


def lda_maps(search: Search, setting: tuple[float, int]) -> Maps:
    """Map to the first discriminants of the labels."""
    axes = search.discriminants(setting[0])[:, : setting[1]]
    return partial(projected, axes), partial(projected, axes)


def adapter_maps(search: Search, last: int) -> Maps:
    return next(trained for steps, trained in _trained(search, last) if steps == last)


def _trained(search: Search, last: int) -> Iterator[tuple[int, Maps]]:
    """Yield linear adapters after every `STEPS_BETWEEN` steps of Adam: logistic loss of the cosines of pairs."""
    rng = np.random.default_rng(search.seed)
    start = np.linalg.svd(search.X, full_matrices=False)[2][:ADAPTED].T
    n_sides = 2 if search.is_crossed else 1
    weights = [start.copy() for _ in range(n_sides)]
    values = [*weights, np.array([5.0, 0.0], np.float32)]  # then the factor of cosines and the intercept
    moments = [(np.zeros_like(each), np.zeros_like(each)) for each in values]
    for step in range(1, last + 1):
        rows = [rng.choice(len(search.X), BATCH, replace=False) for _ in range(2)]
        sides = [search.Q[rows[0]], search.X[rows[1]]]
        outputs = [side @ values[i % n_sides] for i, side in enumerate(sides)]
        lengths = [np.linalg.norm(each, axis=1, keepdims=True) + 1e-9 for each in outputs]
        units = [each / length for each, length in zip(outputs, lengths, strict=True)]
        similar = (search.Y[rows[0]].astype(np.float32) @ search.Y[rows[1]].T.astype(np.float32)) > 0
        cosines, (factor, intercept) = units[0] @ units[1].T, values[-1]
        share = np.clip(similar.mean(), 1e-3, 1 - 1e-3)
        errors = (expit(factor * cosines + intercept) - similar) * np.where(similar, 0.5 / share, 0.5 / (1 - share))
        errors /= similar.size
        gradients = [np.zeros_like(each) for each in values]
        for i, (one, other) in enumerate(((errors, units[1]), (errors.T, units[0]))):
            slope = factor * (one @ other)
            slope = (slope - (slope * units[i]).sum(axis=1, keepdims=True) * units[i]) / lengths[i]
            gradients[i % n_sides] += sides[i].T @ slope
        gradients[-1] += np.array([(errors * cosines).sum(), errors.sum()], np.float32)
        for value, (first, second), gradient in zip(values, moments, gradients, strict=True):
            first += 0.1 * (gradient - first)
            second += 0.01 * (gradient**2 - second)
            pace = 10 * RATE if value is values[-1] else RATE
            value -= pace * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-9)
        if step % STEPS_BETWEEN == 0:
            W = [np.array(values[i % n_sides]) for i in range(2)]
            yield step, (partial(projected, W[0]), partial(projected, W[1]))


def chosen_maps(search: Search, kind: str) -> tuple[Maps, Any]:
    """Return the maps with the setting that ranks best on validation points, fitted to all training points."""
    part, asking, relevant = search.validation()

    def score(maps: Maps) -> float:
        return average_precision(maps[0](asking) @ maps[1](part.items).T, relevant)

    if kind == "ridge":
        settings = [(alpha, form) for alpha in RIDGES for form in ("cosine", "inner product")]
        best = max(settings, key=lambda setting: score(ridge_maps(part, setting)))
        return ridge_maps(search, best), best
    if kind == "LDA":
        sizes = [(shrinkage, size) for shrinkage in SHRINKAGES for size in COMPONENTS]
        small = max(sizes, key=lambda setting: score(lda_maps(part, setting)))
        return lda_maps(search, small), small
    found = {steps: score(maps) for steps, maps in _trained(part, MAX_STEPS)}
    last = max(found, key=lambda steps: found[steps])
    return adapter_maps(search, last), last


def product_quantised(training: np.ndarray, items: np.ndarray, n_bytes: int) -> np.ndarray:
    """Return items, quantised to ``n_bytes`` by product quantisation and decoded again."""
    width = -(-items.shape[1] // n_bytes) * n_bytes
    padded = [np.pad(each, ((0, 0), (0, width - each.shape[1]))) for each in (training, items)]
    quantiser: Any = faiss.ProductQuantizer(width, n_bytes, 8)
    quantiser.cp.min_points_per_centroid = 1
    quantiser.cp.niter = 8
    quantiser.train(padded[0])
    return np.asarray(quantiser.decode(quantiser.compute_codes(padded[1])))[:, : items.shape[1]]


def hamming(queries: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return the negated Hamming distances between the signs of real vectors."""
    signs = [np.where(each > 0, np.float32(1), np.float32(-1)) for each in (queries, items)]
    return signs[0] @ signs[1].T


def inner_products(items: np.ndarray, queries: np.ndarray) -> np.ndarray:
    return queries @ items.T


def by_signs(n_bits: int, items: np.ndarray, queries: np.ndarray) -> np.ndarray:
    return hamming(queries[:, :n_bits], items[:, :n_bits])


def by_float_query(signs: np.ndarray, queries: np.ndarray) -> np.ndarray:
    return queries[:, : signs.shape[1]] @ signs.T


def rescored(n_bits: int, items: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Return scores by signs, with the first results ordered by exact scores."""
    first, exact = by_signs(n_bits, items, queries), queries @ items.T
    top = np.argsort(-first, axis=1, kind="stable")[:, :RESCORED]
    np.put_along_axis(first, top, np.take_along_axis(exact, top, axis=1) + first.max() + 2, axis=1)
    return first


def transformed(transform: Any, scores: Scores, queries: np.ndarray) -> np.ndarray:
    return scores(transform.apply(np.ascontiguousarray(queries)))


def by_rabitq(search: Search, n_bytes: int, queries: np.ndarray) -> np.ndarray:
    return np.asarray(rabitq(queries, search.items, search.quantised, n_bytes))


def mapped(of_queries: Callable[[np.ndarray], np.ndarray], items: np.ndarray, queries: np.ndarray) -> np.ndarray:
    return of_queries(queries) @ items.T


def projected(W: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return unit(vectors @ W)


def unsupervised(search: Search, sizes: tuple[int, ...]) -> Iterator[tuple[str, Scores]]:
    """Yield rankings by the vectors alone; their queries are in the items' space."""
    items = search.items
    yield "raw", partial(inner_products, items)
    for n_bytes in sizes:
        n_bits = 8 * n_bytes
        yield f"sign {n_bytes}", partial(by_signs, n_bits, items)
        yield f"sign, float query {n_bytes}", partial(by_float_query, np.sign(items[:, :n_bits]))
        yield f"sign, re-scored {n_bytes}", partial(rescored, n_bits, items)
        rotation = faiss.ITQTransform(items.shape[1], n_bits, True)
        rotation.itq.max_iter = 25
        rotation.train(search.quantised)
        rotated = rotation.apply(items)
        yield f"PCA-ITQ {n_bytes}", partial(transformed, rotation, partial(by_signs, n_bits, rotated))
        decoded = product_quantised(search.quantised, items, n_bytes)
        yield f"PQ {n_bytes}", partial(inner_products, decoded)
        matrix = faiss.OPQMatrix(items.shape[1], n_bytes)
        inner = faiss.ProductQuantizer(items.shape[1], n_bytes, 8)
        inner.cp.min_points_per_centroid = 1
        matrix.niter, matrix.niter_pq_0, matrix.niter_pq, matrix.pq = 5, 8, 4, inner
        matrix.train(search.quantised)
        turned = [matrix.apply(each) for each in (search.quantised, items)]
        decoded = product_quantised(turned[0], turned[1], n_bytes)
        yield f"OPQ {n_bytes}", partial(transformed, matrix, partial(inner_products, decoded))
        if n_bytes > 8:
            yield f"RaBitQ {n_bytes}", partial(by_rabitq, search, n_bytes)


def supervised(search: Search, sizes: tuple[int, ...], choices: dict[str, Any]) -> Iterator[tuple[str, Scores]]:
    """Yield rankings by linear projections that are learned from labels, in float32 and in bytes."""
    for kind in ("ridge", "LDA", "adapter"):
        if kind == "LDA" and search.is_crossed:
            continue  # the discriminants of two modalities are two spaces
        (of_queries, of_items), choices[kind] = chosen_maps(search, kind)
        items, training = of_items(search.items), of_items(search.quantised)
        yield kind, partial(mapped, of_queries, items)
        for n_bytes in sizes:
            decoded = product_quantised(training, items, n_bytes)
            yield f"{kind}, PQ {n_bytes}", partial(mapped, of_queries, decoded)


def learned(model: DLFH, n_bytes: int, asking: str, asked: str, items: np.ndarray) -> Iterator[tuple[str, Scores]]:
    """Yield rankings by a model of raw vectors."""
    codes = model.project(asked, items)
    yield f"DLFH {n_bytes}", lambda Q: hamming(model.project(asking, Q), codes)
    yield f"DLFH, float query {n_bytes}", lambda Q: model.project(asking, Q) @ np.where(codes > 0, 1, -1).T
    assert (pack(codes[:5]) == model.encode(asked, items[:5])).all()
    stored = model.quantize_probabilities(model.label_probabilities({asked: items}))

    def by_labels(Q: np.ndarray) -> np.ndarray:
        return sum_tables(by_centroid(model.score_tables(model.label_probabilities({asking: Q}), "any")), stored)

    yield f"DLFH, any {n_bytes}", by_labels


def perturbed(data: Data, split: Split, asking: str, asked: str) -> tuple[np.ndarray, np.ndarray]:
    """Return one query for each of the first items of the database, and the positions of these items.

    In a search among texts, queries are half of an item's words; among images, sums of an item's image and a training
    image; and from texts to images, the item's whole text.
    """
    rng = np.random.default_rng(2000 + split.seed)
    places = np.arange(N_QUERIES)
    rows = split.database[places]
    if asking != asked:
        return data.vectors[asking][rows], places
    if asking == "text":
        halves = [[each[i] for i in np.sort(rng.permutation(len(each))[: (len(each) + 1) // 2])] for each in
                  (data.texts[row] for row in rows)]  # fmt: skip
        return embed(halves), places
    vectors = data.vectors[asking]
    mean = vectors[split.training].mean(axis=0)
    others = rng.choice(split.training, len(rows), replace=False)
    size = np.linalg.norm(vectors[split.training] - mean, axis=1).mean()
    return mean + size * (unit(vectors[rows] - mean) + BLENDED * unit(vectors[others] - mean)), places


def found_at_ten(scores: np.ndarray, places: np.ndarray) -> float:
    """Return the share of queries whose item is among the first ten; ties in database order."""
    own = scores[np.arange(len(places)), places][:, None]
    before = (scores > own).sum(axis=1) + ((scores == own) & (np.arange(scores.shape[1]) < places[:, None])).sum(axis=1)
    return float((before < 10).mean())


def measure(data: Data, protocol: str, seed: int) -> dict[str, Any]:
    """Return, by task and ranking, MAP and precision of the first ten; with unseen items, also for the item itself."""
    split = Split.of(data, protocol, seed)
    asked_labels, item_labels = (
        data.labels[rows][:, split.known if protocol == "unseen" else ~split.known]
        for rows in (split.queries, split.database)
    )
    relevant = (asked_labels.astype(np.float32) @ item_labels.T.astype(np.float32)) > 0
    Y = data.labels[split.training][:, split.known]
    modalities: dict[str, Any] = {name: each[split.training] for name, each in data.vectors.items()}
    functions: Any = "auto"
    if len(modalities) == 1:  # as docs/embeddings.md advises
        modalities["label"] = sp.csr_array(Y.astype(np.float32))
        functions = {"image": "auto", "label": "linear"}
    models = {n: DLFH(8 * n, hash_function=functions, random_state=seed).fit(modalities, Y) for n in SIZES[protocol]}
    found: dict[str, Any] = {}
    for task, (asking, asked) in data.tasks.items():
        means = {name: data.vectors[name][split.training].mean(axis=0) for name in (asking, asked)}
        own, places = perturbed(data, split, asking, asked)
        sets = [data.vectors[asking][split.queries], own]
        raw_items = data.vectors[asked][split.database]
        Q, X = (unit(data.vectors[name][split.training] - means[name]) for name in (asking, asked))
        queries = [unit(each - means[asking]) for each in sets]
        search = Search(Q, X, Y.astype(np.int8), unit(raw_items - means[asked]), seed, asking != asked)
        aligned, choices = queries, found.setdefault(f"{task}/choices", {})
        if search.is_crossed:
            # The two modalities have different vector spaces: regression on the training pairs maps queries to items.
            alpha = _best_alignment(search)
            choices["alignment"] = alpha
            aligned = [unit(each @ solve_ridge(Q, X, alpha)) for each in queries]
        sizes = CROSSED if search.is_crossed else SIZES[protocol]
        rankings = [(unsupervised(search, sizes), aligned), (supervised(search, sizes, choices), queries)]
        rankings += [(learned(model, n, asking, asked, raw_items), sets) for n, model in models.items() if n in sizes]
        for each, (asks, itself) in rankings:
            for name, scores in each:
                ranked = scores(asks)
                result = accuracy(ranked, relevant)
                if protocol == "unseen":
                    result.append(found_at_ten(scores(itself), places))
                found[f"{task}/{name}"] = result
        found[f"{task}/chance"] = [float(relevant.mean())] * 2
    return found


def _best_alignment(search: Search) -> float:
    part, asking, relevant = search.validation()

    def score(alpha: float) -> float:
        return average_precision(unit(asking @ solve_ridge(part.Q, part.X, alpha)) @ part.items.T, relevant)

    return max(RIDGES, key=score)


def accuracy(scores: np.ndarray, relevant: np.ndarray) -> list[float]:
    """Return MAP and the precision of the first ten, ties in database order."""
    ranked = np.take_along_axis(relevant, np.argsort(-scores, axis=1, kind="stable"), axis=1)
    precision = np.cumsum(ranked, axis=1, dtype=np.float32) / np.arange(1, ranked.shape[1] + 1, dtype=np.float32)
    mean = (precision * ranked).sum(axis=1) / np.maximum(ranked.sum(axis=1), 1)
    return [float(mean.mean()), float(ranked[:, :10].mean())]


def tables(cells: dict[tuple[str, str, int], dict[str, Any]], sets: list[Data]) -> dict[str, str]:
    """Return the tables of the page."""
    made = {}
    for data in sets:
        for task in data.tasks:
            name = task.split(", ")[1].replace(" ", "-") + ("-iapr" if "IAPR" in task else "")
            made[name] = _table(cells, data, task)
    made["first-ten"] = _first_ten(cells, sets)
    processor = sum(cell["seconds"] for cell in cells.values())
    made["setting"] = (
        f"Means and standard deviations over {len({seed for *_, seed in cells})} runs, which together took "
        f"{processor / 60:.0f} minutes of processor time on a loaded machine: {machine()}, faiss {faiss.__version__}."
    )
    return made


def _runs(cells: dict[tuple[str, str, int], Any], data: Data, protocol: str, key: str, measure: int) -> list[float]:
    where = "labels" if protocol == "labels" else "unseen"
    found = (cell.get(key) for (name, kind, _), cell in cells.items() if (name, kind) == (data.name, where))
    return [each[measure] for each in found if each is not None]


def _text(runs: list[float]) -> str:
    summary = summarize(runs)
    if summary.mean is None:
        return "–"
    return shown(summary.mean) + (f" ±{shown(summary.std)}" if summary.std is not None else "")


def _lines(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---", *["---:"] * (len(head) - 1)], *rows])


def _table(cells: dict[tuple[str, str, int], Any], data: Data, task: str) -> str:
    is_crossed = len(set(data.tasks[task])) > 1
    sizes = {protocol: CROSSED if is_crossed else SIZES[protocol] for protocol in PROTOCOLS}
    head = [task, *(f"{said}, {n} bytes" for kind, said in PROTOCOLS.items() for n in sizes[kind])]
    size = {"raw": data.vectors["image"].shape[1], "ridge": data.labels.shape[1]}
    rows = []
    for key, label in ROWS.items():
        row = []
        for protocol in PROTOCOLS:
            measure = 2 if protocol == "itself" else 0
            whole = _runs(cells, data, protocol, f"{task}/{key}", measure)
            parts = [_text(_runs(cells, data, protocol, f"{task}/{key} {n}", measure)) for n in sizes[protocol]]
            row += [_text(whole), *[""] * (len(parts) - 1)] if whole else parts
        if any(each.strip("–") for each in row):
            rows.append([label + (f" ({4 * size[key]:,} bytes)" if key in size else ""), *row])
    row = ["a random order"]
    for protocol in PROTOCOLS:
        chance = [10 / N_DATABASE] if protocol == "itself" else _runs(cells, data, protocol, f"{task}/chance", 0)
        row += [_text(chance), *[""] * (len(sizes[protocol]) - 1)]
    return _lines(head, [*rows, row])


def _first_ten(cells: dict[tuple[str, str, int], Any], sets: list[Data]) -> str:
    """Return the precision of the first ten results with 16 bytes."""
    tasks = [(data, task, protocol) for data in sets for task in data.tasks for protocol in ("unseen", "labels")]
    head = ["precision of the first ten, 16 bytes", *(f"{task}: {PROTOCOLS[kind]}" for _, task, kind in tasks)]
    rows = []
    for key, label in ROWS.items():
        row = []
        for data, task, protocol in tasks:
            found = (_runs(cells, data, protocol, f"{task}/{key}{end}", 1) for end in (" 16", ""))
            row.append(_text(next((each for each in found if each), [])))
        rows.append([label, *row])
    return _lines(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--cache", type=Path, default=Path("runs/embeddings"))
    parser.add_argument("--write", type=Path, help="document with places for the tables")
    given = parser.parse_args()
    sets = [*data_sets(Path(os.environ["DLFH_DATA"]))]
    given.cache.mkdir(parents=True, exist_ok=True)
    cells: dict[tuple[str, str, int], dict[str, Any]] = {}
    for seed in range(given.seeds):
        for data in sets:
            for protocol in ("unseen", "labels"):
                file = given.cache / f"{data.name} {protocol} {seed}.json"
                if not file.exists():
                    began = time.process_time()
                    cell = measure(data, protocol, seed)
                    cell |= {"seconds": time.process_time() - began, "version": code_version()}
                    replace_file(file, [json.dumps(cell, indent=1).encode()])
                    print(f"{file.stem}: {cell['seconds']:.0f} s of processor time", file=sys.stderr, flush=True)
                cells[data.name, protocol, seed] = json.loads(file.read_text())
    found = tables(cells, sets)
    if given.write:
        fill(given.write, found)
    else:
        print("\n\n".join(found.values()))


if __name__ == "__main__":
    main()
