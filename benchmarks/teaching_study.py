"""Collections without labels, with few labels, taught by suggestions, and corrected by marked results.

    DLFH_DATA=/path/to/folder python -m benchmarks.teaching_study --cache runs/teaching --write docs/labels.md

Data: icons, product photographs, and 2,500 points each (20,000 for the part "large"), drawn at random, of IAPR TC-12
(GIST) and MIRFLICKR-25K (network features and raw tags). Half of the items are for training, a third is an unseen
database without labels, the rest are queries (at most 120). Images are vectors that were computed once; texts are bags
of words. Results are cached by part, data set and seed, so an interrupted study continues.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.answers_data import icons, photographs, without_labels
from benchmarks.queries_study import questions
from benchmarks.report import fill
from dlfh import DLFH, Collection, Encoder
from dlfh._probabilities.scores import Match
from dlfh.collection import supervision, training
from dlfh.collection.feedback import similarities, updated
from dlfh.collection.query import Query, ResultItem, SearchOptions
from dlfh.collection.ranking import Ranker
from dlfh.datasets import Items, make_paired, read_arrays
from dlfh.features import BagOfWords, CombinedImage, Vectors
from dlfh.hashing import KernelRidge, LinearRidge
from dlfh.methods import CCAITQ, CMFH
from dlfh.metrics import mean_average_precision

N_BITS, N_POINTS, MANY_POINTS, MAX_QUERIES = 64, 2500, 20_000, 120
SETS = ("icons", "photographs", "IAPR TC-12", "MIRFLICKR")
SHARES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
MODALITIES = ("image", "text")
#: Fixed learners for the label curves, so that differences come from labels alone.
LEARNERS = {"image": KernelRidge(shrinkage=0.03, scaling="standard"), "text": LinearRidge(shrinkage=0.3)}


def load(name: str, data: Path, work: Path, n_points: int = N_POINTS) -> Items:
    """Return items whose images are vectors."""
    if name in ("icons", "photographs"):
        items = icons(work) if name == "icons" else photographs(data, work)
        computed = work / f"{name}.npy"
        if not computed.exists():
            np.save(computed, CombinedImage().fit_transform(items.modalities["image"]))
        metadata = [{key: value for key, value in each.items() if key != "image"} for each in items.metadata]
        return replace(
            items, modalities={"image": np.load(computed), "text": items.modalities["text"]}, metadata=metadata
        )
    if name == "IAPR TC-12":
        file = read_arrays(data / "iapr_tc12.npz")
        images, captions, labels = file["image"], sp.csr_array(file["english"]), sp.csr_array(file["labels"])
        texts = [_repeat(captions, row) for row in range(captions.shape[0])]
    else:
        file, more = (read_arrays(data / f"mirflickr25k{end}.npz") for end in ("", "_more"))
        images, labels = more["image_cnn"], sp.csr_array(file["labels"])
        texts = [bytes(tags).decode(errors="replace").replace(",", " ") for tags in more["tags"]]
    ends = [slice(*labels.indptr[row : row + 2]) for row in range(len(texts))]
    names = [[f"label{label}" for label in labels.indices[end]] for end in ends]
    usable = np.array([bool(text.strip()) and bool(given) for text, given in zip(texts, names, strict=True)])
    rows = np.random.default_rng(17).permutation(np.flatnonzero(usable))[:n_points]
    values: dict[str, Any] = {"image": images[rows].astype(np.float32), "text": [texts[row] for row in rows]}
    return Items.of(values, [names[row] for row in rows], [f"p{row}" for row in rows])


def _repeat(captions: sp.csr_array, row: int) -> str:
    part = slice(*captions.indptr[row : row + 2])
    counts = zip(captions.indices[part], captions.data[part], strict=True)
    return " ".join(f"w{word}" for word, n in counts for _ in range(int(n)))


def split(items: Items, seed: int) -> tuple[Items, Items, Items]:
    """Return training items, an unseen database, and queries."""
    order = np.random.default_rng(seed).permutation(len(items))
    first, second = len(order) // 2, len(order) // 2 + len(order) // 3
    parts = order[:first], order[first:second], order[second:][:MAX_QUERIES]
    return tuple(items.take(np.sort(part)) for part in parts)  # type: ignore[return-value]


def new_encoder(model: Any = None, fixed: bool = True) -> Encoder:
    model = model or DLFH(N_BITS, random_state=0, hash_function=LEARNERS if fixed else "auto")
    return Encoder({"image": Vectors(), "text": BagOfWords(min_df=2)}, model)


def unseen(encoder: Encoder, queries: Items, database: Items) -> dict[str, float]:
    """Return MAP across modalities, for shared labels: by codes, and by label probabilities."""
    found, known, model = {}, (queries.labels, database.labels), encoder.label_model
    for one, other in (MODALITIES, MODALITIES[::-1]):
        q, p = encoder.featurize(one, queries.modalities[one]), encoder.featurize(other, database.modalities[other])
        codes = encoder.model_.project(one, q), encoder.model_.encode(other, p)
        found[f"codes {one}"] = mean_average_precision(*codes, *known)
        if model is not None:
            scores = model.tables(encoder.label_probabilities(one, q), "any")
            stored = model.encode(encoder.label_probabilities(other, p))
            found[f"labels {one}"] = mean_average_precision(scores, stored, *known)
    return found


def suggested(encoder: Encoder, items: Items, given: set[str]) -> float:
    """Return the mean average precision of the true labels among the predicted ones that some training item has."""
    model = encoder.label_model
    if model is None:
        return 0.0
    vectors = {name: encoder.featurize(name, items.modalities[name]) for name in MODALITIES}
    found = model.fuse({name: encoder.label_probabilities(name, vectors[name]) for name in MODALITIES})
    names, scores = np.array([*map(str, model.names or ())]), []
    found, names = found[:, (kept := np.isin(names, [*given]))], names[kept]
    for row, true in zip(found, items.labels or [], strict=True):
        right = np.isin(names[np.argsort(-row)], true)
        hits = np.flatnonzero(right)
        scores.append(float(((np.arange(len(hits)) + 1) / (hits + 1)).sum() / len(true)))
    return float(np.mean(scores))


def searched(collection: Collection, name: str, queries: Items, database: Items, **options: Any) -> dict[str, Any]:
    """Return MAP of whole texts, the reciprocal rank of items by half of their words, and answers to questions."""
    truth = dict(zip(database.ids, database.labels or [], strict=True))
    options |= {"ids": database.ids}

    def ask(text: str, k: int, literal: bool = True) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # texts without any known word
            return collection.search("text", text, k=k, literal=literal, **options)

    scores, ranks, shares = [], [], []
    for text, given in zip(queries.modalities["text"], queries.labels or [], strict=True):
        is_right = [bool({*truth[item.id]} & {*given}) for item in ask(text, len(truth))]
        hits, total = np.flatnonzero(is_right), sum(bool({*each} & {*given}) for each in truth.values())
        scores.append(float(((np.arange(len(hits)) + 1) / (hits + 1)).sum() / max(total, 1)))
    rng = np.random.default_rng(0)
    for identifier, text in [*zip(database.ids, database.modalities["text"], strict=True)][:MAX_QUERIES]:
        words = text.split()
        ids = ask(" ".join(rng.permutation(words)[: max(1, len(words) // 2)]), 100).ids
        ranks.append(1 / (ids.index(identifier) + 1) if identifier in ids else 0.0)
    texts = dict(zip(database.ids, database.modalities["text"], strict=True))
    for question in questions():
        right = {
            identifier
            for identifier, text in texts.items()
            if question.answered_by(ResultItem(1, identifier, {"text": text, "labels": truth[identifier]}))
        }
        if question.collection == name and right:
            found = ask(question.text, 5, literal=False).ids
            shares.append(len(right & {*found}) / min(5, len(right)))
    return {
        "MAP": float(np.mean(scores)),
        "known item": float(np.mean(ranks)),
        "questions": float(np.mean(shares)) if shares else None,
    }


# Parts of the study


def label_free(name: str, items: Items, seed: int) -> dict[str, Any]:
    """Build without labels, beside unsupervised methods, words alone, and the build with labels."""
    train, database, queries = split(items, seed)
    rows: dict[str, Any] = {}
    for row, part, encoder in (
        ("without labels", without_labels(train), new_encoder(fixed=False)),
        ("CCA-ITQ", without_labels(train), new_encoder(CCAITQ(N_BITS, random_state=0))),
        ("CMFH", without_labels(train), new_encoder(CMFH(N_BITS, random_state=0))),
        ("with labels", train, new_encoder(fixed=False)),
    ):
        with tempfile.TemporaryDirectory() as folder:
            began = time.process_time()
            built = Collection.build(Path(folder) / "shop", part, encoder)
            built.collection.close()
            with Collection.open(Path(folder) / "shop", writable=True) as collection:
                collection.add(without_labels(database))
                rankings = collection.calibration.rankings
                found = unseen(collection.encoder, queries, database)
                rows[row] = {
                    "across": {
                        one: found[f"{'labels' if rankings.get(one) in ('all', 'any') else 'codes'} {one}"]
                        for one in MODALITIES
                    },
                    **searched(collection, name, queries, database),
                    "seconds": time.process_time() - began,
                    "learned from": built.learned_from,
                }
                if row == "without labels":
                    rows["words alone"] = searched(collection, name, queries, database, match="words")
    return rows


def curves(name: str, items: Items, seed: int, shares: Sequence[float] = (0.0, *SHARES)) -> dict[str, Any]:
    """Label a growing share of the training items, at random."""
    train, database, queries = split(items, seed)
    order, rows = np.random.default_rng(seed).permutation(len(train)), dict[str, Any]()
    for share in shares:
        labelled = {*order[: round(share * len(train))].tolist()}
        labels = [given if row in labelled else [] for row, given in enumerate(train.labels or [])]
        free, names = without_labels(train), {label for given in labels for label in given}
        about = [{**each, "labels": given} for each, given in zip(free.metadata, labels, strict=True)]
        part = replace(free, labels=labels, metadata=about)
        for way in ("labelled alone", "all items") if 0 < share < 1 else ("all items",):
            encoder = new_encoder()
            taught = part
            if way == "all items":
                taught, _ = supervision.supervise(encoder, part)
            with _guessing(way == "all items"):
                encoder.fit_items(taught)
            rows[f"{way} {share:g}"] = unseen(encoder, queries, database)
            rows[f"{way} {share:g}"]["suggested"] = suggested(encoder, queries, names)
    return rows


def large(name: str, items: Items, seed: int) -> dict[str, Any]:
    """Label none, 5 %, or all of many training items."""
    return curves(name, items, seed, (0.0, 0.05, 1.0))


def chosen(name: str, items: Items, seed: int) -> dict[str, Any]:
    """Label a growing share of the training items, by what to label next."""
    train, database, queries = split(items, seed)
    rows: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        Collection.build(Path(folder) / "shop", without_labels(train), new_encoder(), hold_out=0).collection.close()
        truth = dict(zip(train.ids, train.labels or [], strict=True))
        with Collection.open(Path(folder) / "shop", writable=True) as collection:
            n, names = 0, set[str]()
            for share in SHARES[:-2]:
                for identifier in collection.label_next(round(share * len(train)) - n):
                    n += collection.label([identifier], add=truth[identifier])
                    names |= {*truth[identifier]}
                collection.relearn()
                found = unseen(collection.encoder, queries, database)
                rows[f"next {share:g}"] = {**found, "suggested": suggested(collection.encoder, queries, names)}
    return rows


@contextmanager
def _guessing(allowed: bool) -> Iterator[None]:
    least = training._MIN_LABELLED
    training._MIN_LABELLED = least if allowed else 1 << 60
    try:
        yield
    finally:
        training._MIN_LABELLED = least


def teaching(name: str, items: Items, seed: int, n_rounds: int = 20) -> dict[str, Any]:
    """Label 20 items a round: suggestions are accepted or corrected from the truth."""
    train, database, queries = split(items, seed)
    truth, rounds = dict(zip(train.ids, train.labels or [], strict=True)), []
    with tempfile.TemporaryDirectory() as folder:
        Collection.build(
            Path(folder) / "shop", without_labels(train), new_encoder(fixed=False), hold_out=0
        ).collection.close()
        with Collection.open(Path(folder) / "shop", writable=True) as collection:
            rounds.append(unseen(collection.encoder, queries, database))
            for _ in range(n_rounds):
                ids, guesses = collection.label_next(20), dict[str, set[str]]()
                for identifier, label, _ in collection.suggest(ids, precision=0.5):
                    guesses.setdefault(identifier, set()).add(label)
                counts = np.zeros(3, int)  # accepted, wrong, typed
                for identifier in ids:
                    right, guessed = {*truth[identifier]}, guesses.get(identifier, set())
                    counts += [len(right & guessed), len(guessed - right), len(right - guessed)]
                    collection.label([identifier], add=sorted(right))
                began = time.process_time()
                collection.relearn()
                about = dict(zip(("accepted", "wrong", "typed"), counts.tolist(), strict=True))
                about["seconds"] = time.process_time() - began
                rounds.append(unseen(collection.encoder, queries, database) | about)
    return {"rounds": rounds}


def relearning(name: str, items: Items, seed: int) -> dict[str, Any]:
    """Processor time of learning again, of generated items with 512-dimensional images and texts of 1,000 words."""
    found = {}
    for n in (2_000, 100_000):
        data = make_paired(n, n_labels=24, random_state=seed)
        labels = [[f"label {label}" for label in np.flatnonzero(row)] for row in data.labels.toarray()]
        rng = np.random.default_rng(seed)
        mixed = data.modalities["image"] @ rng.normal(size=(data.modalities["image"].shape[1], 512))
        image = (mixed + rng.normal(size=mixed.shape)).astype(np.float32)
        given = [each if row < n // 10 else [] for row, each in enumerate(labels)]
        everything = Items.of({"image": image, "text": data.modalities["text"]}, given)
        encoder = Encoder({"image": Vectors(), "text": Vectors()}, DLFH(128, random_state=0))
        with tempfile.TemporaryDirectory() as folder:
            Collection.build(Path(folder) / "shop", everything, encoder).collection.close()
            with Collection.open(Path(folder) / "shop", writable=True) as collection:
                for row in range(n // 10, n // 10 + 20):
                    collection.label([str(row)], add=labels[row])
                began = time.process_time()
                collection.relearn()
                found[str(n)] = time.process_time() - began
    return found


def feedback(name: str, items: Items, seed: int) -> dict[str, Any]:
    """MAP of the rest of an unlabelled database after the first 1, 3 or 5 results were marked, beside Rocchio."""
    train, database, queries = split(items, seed)
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        Collection.build(Path(folder) / "shop", train, new_encoder(fixed=False)).collection.close()
        with Collection.open(Path(folder) / "shop", writable=True) as collection:
            collection.add(without_labels(database))
            searcher, encoder = collection.searcher, collection.encoder
            places = collection.index.positions(database.ids)
            vectors = {each: _unit(encoder.featurize(each, database.modalities[each])) for each in MODALITIES}
            for modality, row in itertools.product(MODALITIES, range(min(60, len(queries)))):
                value, wanted = queries.modalities[modality][row], {*(queries.labels or [])[row]}
                query = Query("text" if modality == "text" else "vector", value, modality, literal=True)
                options = searcher.resolve(query, SearchOptions())
                searcher.encode([query])
                asked = searcher._encoded(query, options)
                ranker = Ranker(searcher.index, encoder, modality, options, searcher.words.matches)
                every, space = ranker.log_odds(asked), searcher._local_space(options)
                every = searcher._first_results.shown(every, np.arange(len(every)), query, asked, options, space)
                match: Match = "all" if options.ranking == "all" else "any"
                log_odds = every[places]
                test = wanted.issubset if match == "all" else wanted.intersection
                right = np.array([bool(test(given)) for given in database.labels or []])
                order = np.argsort(-log_odds, kind="stable")
                own = _unit(encoder.featurize(modality, [value] if modality == "text" else value[None]))
                for n in (1, 3, 5):
                    first, rest = order[:n], order[n:]
                    marked = first if match == "any" else first[right[first]]  # as a search does
                    if not right[rest].any():
                        continue
                    marks = [collection.index.get(database.ids[place]) for place in marked]
                    covariance = similarities(collection.index, encoder, marks, match, searcher.words.matches)[
                        :, places
                    ]
                    after = updated(log_odds, covariance, log_odds[marked], covariance[:, marked], right[marked])
                    ways = {"before": log_odds, "marks": after}
                    ways |= _rocchio(vectors[modality], own, first, right[first], log_odds)
                    for way, values in ways.items():
                        best = rest[np.argsort(-values[rest], kind="stable")]
                        hits = np.flatnonzero(right[best])
                        precision = float(((np.arange(len(hits)) + 1) / (hits + 1)).mean())
                        found.setdefault(f"{modality} {n} {way}", []).append(precision)
    return {key: float(np.mean(values)) for key, values in found.items()}


def _unit(matrix: Any) -> Any:
    values = matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix, np.float64)
    return values / np.maximum(np.linalg.norm(values, axis=1, keepdims=True), 1e-12)


def _rocchio(items: Any, query: Any, marked: Any, right: Any, log_odds: Any) -> dict[str, Any]:
    """Return scores by Rocchio's query (weights 1, 0.75 and 0.15), alone and added to the ranking's standard scores."""
    moved = query[0].copy()
    for chosen, weight in ((marked[right], 0.75), (marked[~right], -0.15)):
        if len(chosen):
            moved += weight * items[chosen].mean(axis=0)
    cosine = items @ moved
    standard = (log_odds - log_odds.mean()) / log_odds.std() + (cosine - cosine.mean()) / (cosine.std() + 1e-12)
    return {"Rocchio": cosine, "ranking + Rocchio": standard}


def kept(name: str, items: Items, seed: int) -> dict[str, Any]:
    """Keep marks of the first five results of half of the queries, and learn again: MAP of these and of the others."""
    train, database, queries = split(items, seed)
    halves = [queries.take(range(start, len(queries), 2)) for start in (0, 1)]
    truth, found = dict(zip(train.ids, train.labels or [], strict=True)), dict[str, Any]()
    with tempfile.TemporaryDirectory() as folder:
        Collection.build(Path(folder) / "shop", without_labels(train), new_encoder()).collection.close()
        with Collection.open(Path(folder) / "shop", writable=True) as collection:
            for way in ("without marks", "with marks"):
                found[way] = {"learned": collection.relearn().n_queries}
                for key, half in zip(("marked", "others"), halves, strict=True):
                    found[way][key] = unseen(collection.encoder, half, database)
                for one, row in itertools.product(MODALITIES, range(len(halves[0]))):
                    value, wanted = halves[0].modalities[one][row], {*(halves[0].labels or [])[row]}
                    test = wanted.issubset if one == "text" else wanted.intersection
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # texts without any known word
                        ids = collection.search(one, value, k=5, literal=one == "text").ids
                    right = [each for each in ids if test(truth[each])]
                    collection.mark(one, value, relevant=right, irrelevant=[each for each in ids if each not in right])
    return found


PARTS: dict[str, tuple[Callable[..., dict[str, Any]], tuple[str, ...], int]] = {
    "label-free": (label_free, SETS, 3),
    "teaching": (teaching, ("photographs",), 1),
    "feedback": (feedback, SETS, 3),
    "curves": (curves, SETS, 5),
    "large": (large, SETS[2:], 3),
    "chosen": (chosen, SETS, 5),
    "kept": (kept, SETS, 3),
    "relearning": (relearning, ("generated",), 1),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--part", choices=[*PARTS], action="append")
    parser.add_argument(
        "--minutes", type=float, default=1e9, help="stop after the first unit that ends later than this"
    )
    given = parser.parse_args()
    given.cache.mkdir(parents=True, exist_ok=True)
    data, began = Path(os.environ["DLFH_DATA"]), time.time()
    loaded: dict[tuple[str, int], Items] = {}
    units = [
        (seed, part, name)
        for seed, part in itertools.product(range(5), given.part or PARTS)
        for name in PARTS[part][1]
        if seed < PARTS[part][2]
    ]
    for seed, part, name in units:
        file = given.cache / f"{part}-{name}-{seed}.json"
        claim = file.with_suffix(".claim")  # several processes may run the study together
        if file.exists() or claim.exists() or time.time() - began > 60 * given.minutes:
            continue
        claim.touch()
        try:
            key = name, MANY_POINTS if part == "large" else N_POINTS
            if key not in loaded and name in SETS:
                loaded[key] = load(name, data, given.cache, key[1])
            started = time.process_time()
            result = PARTS[part][0](name, loaded.get(key), seed)
            file.write_text(json.dumps(result | {"processor seconds": time.process_time() - started}))
            print(f"{file.name}: {time.process_time() - started:.0f} s", flush=True)
        finally:
            claim.unlink()
    if given.write:
        fill(given.write, tables(given.cache))


def tables(cache: Path) -> dict[str, str]:
    """Return the tables of the docs, from what is cached; a value is a mean over seeds."""
    free = [
        "| data, seeds | row | across, image / text asks | MAP of texts | known item | questions |",
        "|---|---|---|---|---|---|",
    ]
    curve = ["| data, seeds | labels | labelled alone | all items | chosen by `label_next` |", "|---|---|---|---|---|"]
    many = ["| data, seeds | labels | labelled alone | all items |", "|---|---|---|---|"]
    marks = [
        "| data, seeds | query | marks | before | re-ranked | ranking + Rocchio | Rocchio |",
        "|---|---|---|---|---|---|---|",
    ]
    relearned = [
        "| data, seeds | learned queries | marked ones, before | after | others, before | after |",
        "|---|---|---|---|---|---|",
    ]
    for name in SETS:
        parts = {
            part: [json.loads(f.read_text()) for f in sorted(cache.glob(f"{part}-{name}-*.json"))] for part in PARTS
        }
        if found := parts["label-free"]:
            for row in ("without labels", "CCA-ITQ", "CMFH", "words alone", "with labels"):
                across = " / ".join(_mean(found, row, "across", one) for one in MODALITIES)
                rest = " | ".join(_mean(found, row, key) for key in ("MAP", "known item", "questions"))
                free.append(f"| {name}, {len(found)} | {row} | {across} | {rest} |")
        for part, table in (("curves", curve), ("large", many)):
            found = parts[part]
            for share in (0, *SHARES) if found else ():
                cells = []
                for way in ("labelled alone", "all items", "next")[: 3 if part == "curves" else 2]:
                    keys = [f"labels {one}" for one in MODALITIES]
                    of_way = parts["chosen"] if way == "next" else found
                    values = [_mean(of_way, f"{way} {share:g}", key) for key in (*keys, "suggested")]
                    cells.append(f"{values[0]} / {values[1]}; {values[2]}" if values[0] else "")
                if any(cells):
                    table.append(f"| {name}, {len(found)} | {share:.0%} | {' | '.join(cells)} |")
        if found := parts["feedback"]:
            for modality, n in itertools.product(MODALITIES, (1, 3, 5)):
                ways = ("before", "marks", "ranking + Rocchio", "Rocchio")
                shown = " | ".join(_mean(found, f"{modality} {n} {way}") for way in ways)
                marks.append(f"| {name}, {len(found)} | {modality} | {n} | {shown} |")
        if found := parts["kept"]:
            cells = [
                " / ".join(_mean(found, f"{way} marks", key, f"labels {one}") for one in MODALITIES)
                for key, way in itertools.product(("marked", "others"), ("without", "with"))
            ]
            n_learned = float(_mean(found, "with marks", "learned"))
            relearned.append(f"| {name}, {len(found)} | {n_learned:.0f} | {' | '.join(cells)} |")
    rounds = [
        "| round | labelled | MAP, image / text asks | accepted | wrong | typed | seconds |",
        "|---|---|---|---|---|---|---|",
    ]
    for file in cache.glob("teaching-*.json"):
        for number, each in enumerate(json.loads(file.read_text())["rounds"]):
            best = " / ".join(f"{each[f'labels {one}']:.3f}" for one in MODALITIES)
            counts = " | ".join(str(each.get(key, "")) for key in ("accepted", "wrong", "typed"))
            rounds.append(f"| {number} | {20 * number} | {best} | {counts} | {each.get('seconds', 0):.1f} |")
    return {
        name: "\n".join(rows)
        for name, rows in {
            "free": free,
            "curve": curve,
            "large": many,
            "rounds": rounds,
            "marks": marks,
            "kept": relearned,
        }.items()
    }


def _mean(results: list[dict[str, Any]], *keys: str) -> str:
    """Return the mean of a value over seeds; empty if it was not measured."""
    values = []
    for result in results:
        value: Any = result
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        values += [] if value is None else [value]
    return f"{np.mean(values):.3f}" if values else ""


if __name__ == "__main__":
    main()
