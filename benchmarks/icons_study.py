"""Choose features, hash functions and code length for the icons, and measure the answers.

    python -m benchmarks.icons_study --write docs/icons.md --picture docs/images/icons.png

Choices are made on validation icons, one after another; only the last table uses test icons.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import fill
from dlfh import DLFH, KDLFH
from dlfh.codes import unpack
from dlfh.collection.pictures import contact_sheet
from dlfh.datasets import load_dataset
from dlfh.datasets.icons import Icons
from dlfh.features import BagOfWords, CombinedImage, Featurizer, Gist
from dlfh.features.combined import Hog
from dlfh.hashing import KernelLogistic, KernelRidge, LinearRidge
from dlfh.methods import CCAITQ
from dlfh.metrics import mean_average_precision

DIRECTIONS = (("text", "image"), ("image", "text"))
HEADER = "T→I, learned | T→I, hashed | T→I, unseen | I→T, learned | I→T, hashed | I→T, unseen"
QUERIES = ("animal", "weather", "money", "arrow left", "hospital")
#: More bases than there are icons: every training icon is one.
ALL = 2000

Data = tuple[dict[str, Any], dict[str, Any], Icons, Icons]


def described(train: Icons, test: Icons, text: Featurizer, image: Featurizer) -> Data:
    """Return feature vectors of both parts, by featurisers fitted to the first, and the parts."""
    known = {"text": text.fit_transform(train.texts), "image": image.fit_transform(train.images)}
    new = {"text": text.transform(test.texts), "image": image.transform(test.images)}
    return known, new, train, test


def measure(model: Any, data: Data, asymmetric: bool = False) -> list[float]:
    """Return MAP with learned, hashed and unseen databases, from texts to icons and from icons to texts."""
    known, new, train, test = data
    model.fit(known, train.labels)
    learns = "learned" in model.info.protocols
    hashed = {name: model.encode(name, known[name]) for name in known}
    codes = {name: model.encode(name, new[name]) for name in new}
    queries = {name: model.project(name, new[name]) for name in new} if asymmetric else codes
    values = []
    for asked, answered in DIRECTIONS:
        for database in (model.codes_ if learns else None, hashed):
            values.append(
                mean_average_precision(queries[asked], database[answered], test.labels, train.labels)
                if database
                else np.nan
            )
        values.append(float(np.mean(list(between_halves(queries[asked], codes[answered], test.labels)))))
    return values


def between_halves(queries: np.ndarray, codes: np.ndarray, labels: Any) -> Iterator[float]:
    """Yield MAP of each half as queries for the other, so that no icon finds itself."""
    middle = len(labels) // 2
    for asked, answered in ((slice(0, middle), slice(middle, None)), (slice(middle, None), slice(0, middle))):
        yield mean_average_precision(queries[asked], codes[answered], labels[asked], labels[answered])


def chance(train: Icons, test: Icons) -> list[float]:
    """Return the expected MAP of a random ranking, computed by expected ties of equal codes."""
    same = np.zeros((max(len(train), len(test)), 1), np.uint8)
    known = mean_average_precision(same[: len(test)], same[: len(train)], test.labels, train.labels, ties="expected")
    middle = len(test) // 2
    parts = (test.labels[:middle], test.labels[middle:])
    new = np.mean(
        [mean_average_precision(same[: len(a)], same[: len(b)], a, b, ties="expected") for a, b in (parts, parts[::-1])]
    )
    return [known, known, float(new)] * 2


def row(labels: str, values: Any) -> str:
    means = np.mean(values, axis=0)
    spread = np.std(values, axis=0)
    cells = ["–" if np.isnan(mean) else f"{mean:.3f}" for mean in means]
    if len(values) > 2:
        cells = [
            cell if cell == "–" else f"{cell}±{deviation:.3f}" for cell, deviation in zip(cells, spread, strict=True)
        ]
    line = f"| {labels} | {' | '.join(cells)} |"
    print(line, file=sys.stderr)
    return line


def merit(values: Any) -> float:
    """Return the mean of hashed and unseen MAP over both directions."""
    return float(np.mean(np.mean(values, axis=0)[[1, 2, 4, 5]]))


def ridge(n_bits: int, n_bases: int = ALL, **options: Any) -> Callable[[int], Any]:
    return lambda seed: DLFH(n_bits, hash_function=KernelRidge(n_bases), random_state=seed, **options)


def mixed(n_bits: int, ridge: float | str = 0.3, **options: Any) -> Callable[[int], Any]:
    """Return a factory of models with linear functions for texts and kernel functions for images."""
    functions = {"text": LinearRidge(ridge), "image": KernelRidge(ALL)}
    return lambda seed: DLFH(n_bits, hash_function=functions, random_state=seed, **options)


TEXTS: dict[str, Callable[[], Featurizer]] = {
    "words": BagOfWords,
    "words in two texts or more": lambda: BagOfWords(min_df=2),
    "words and pieces, in two texts or more": lambda: BagOfWords(analyzer="word+char", min_df=2),
    "words, not weighted": lambda: BagOfWords("binary", min_df=2),
}
IMAGES: dict[str, Callable[[], Featurizer]] = {
    "GIST": Gist,
    "HOG": Hog,
    "GIST, thumbnail": lambda: CombinedImage(("gist", "thumbnail")),
    "GIST, HOG, thumbnail": CombinedImage,
}
FUNCTIONS: dict[str, Callable[[int], Any]] = {
    "linear": lambda seed: DLFH(64, hash_function="linear", random_state=seed),
    "kernel ridge, 500 bases": ridge(64, 500),
    "kernel ridge, all": ridge(64),
    "linear for texts, kernel ridge for images": mixed(64, "auto"),
    "the same, with a ridge of 0.3 for texts": mixed(64),
    "kernel logistic, 500 bases": lambda seed: KDLFH(64, random_state=seed),
    "kernel logistic, all": lambda seed: DLFH(64, hash_function=KernelLogistic(ALL), random_state=seed),
}
CODES: dict[str, Callable[[int], Any]] = {
    "32 bits": mixed(32),
    "64 bits": mixed(64),
    "128 bits": mixed(128),
    "256 bits": mixed(256),
    "256 bits, shared": mixed(256, shared_code=True),
}
BEST_TEXT, BEST_IMAGE = "words in two texts or more", "GIST, HOG, thumbnail"
#: As good, and better with a single word as query; but too wide for CCA-ITQ.
WIDE_TEXT = "words and pieces, in two texts or more"

#: Bits and ridge of CCA-ITQ; the first is its default.
BASELINES = ((64, 1e-4), (64, 1e-2), (64, 1e-1), (128, 1e-2))


def validation_table(pool: Icons) -> str:
    """Compare one choice after another, with the defaults or earlier choices for all others."""
    train, held_out = pool.split(test_size=230, random_state=1)
    lines = [f"| choice | option | {HEADER} | mean |", "|---|---|---|---|---|---|---|---|---|"]

    def compare(choice: str, results: Iterator[tuple[str, Any]]) -> None:
        for option, values in results:
            lines.append(row(f"{choice} | {option}", values) + f" {merit(values):.3f} |")

    def runs(make: Callable[[int], Any], data: Data) -> list[list[float]]:
        return [measure(make(seed), data) for seed in range(2)]

    def data(text: str, image: str) -> Data:
        return described(train, held_out, TEXTS[text](), IMAGES[image]())

    compare("text", ((text, runs(ridge(64), data(text, "GIST"))) for text in TEXTS))
    compare("image", ((image, runs(ridge(64), data(BEST_TEXT, image))) for image in IMAGES))
    chosen = data(BEST_TEXT, BEST_IMAGE)
    compare("function", ((name, runs(make, chosen)) for name, make in FUNCTIONS.items()))
    compare("code", ((name, runs(make, chosen)) for name, make in CODES.items()))
    return "\n".join(lines)


def words_table(pool: Icons) -> str:
    """Compare text features for single-word queries, on validation icons with a hashed database."""
    train, held_out = pool.split(test_size=230, random_state=1)
    rng = np.random.default_rng(0)
    terms = [str(rng.choice(text.split(", "))) for text in held_out.texts]
    categories = sorted({label for labels in train.labels for label in labels})
    names = [category.split(" + ")[0].lower() for category in categories]
    members = np.array([[category in labels for labels in train.labels] for category in categories])
    lines = ["| texts | ranking | one term of an icon | name of a category |", "|---|---|---|---|"]
    for kind in (BEST_TEXT, WIDE_TEXT):
        text = TEXTS[kind]()
        known, _, _, _ = described(train, held_out, text, IMAGES[BEST_IMAGE]())
        model = mixed(256)(0).fit(known, train.labels)
        database = model.encode("image", known["image"])
        rankings = {"Hamming": model.encode, "asymmetric": model.project, "specific": special(model)}
        for ranking, describe in rankings.items():
            asked = describe("text", text.transform(terms)), describe("text", text.transform(names))
            by_term = mean_average_precision(asked[0], database, held_out.labels, train.labels)
            by_name = mean_average_precision(asked[1], database, relevance=members)
            lines.append(f"| {kind} | {ranking} | {by_term:.3f} | {by_name:.3f} |")
            print(lines[-1], file=sys.stderr)
    return "\n".join(lines)


def special(model: Any) -> Callable[[str, Any], Any]:
    """Subtract the mean training code from projections, so that items with many labels do not come first."""
    return lambda name, features: (
        model.project(name, features) - unpack(model.codes_[name], model.n_bits).mean(axis=0, dtype=np.float32)
    )


def tuned_baselines(pool: Icons) -> tuple[str, dict[str, tuple[int, float]]]:
    """Compare bits and ridges of CCA-ITQ on validation icons; return the table and the best by image features."""
    train, held_out = pool.split(test_size=230, random_state=1)
    lines = [f"| images | bits | ridge | {HEADER} | mean |", "|---|---|---|---|---|---|---|---|---|---|"]
    best = {}
    for image in ("GIST", BEST_IMAGE):
        data = described(train, held_out, TEXTS[BEST_TEXT](), IMAGES[image]())
        merits = {}
        for n_bits, strength in BASELINES:
            values = [measure(CCAITQ(n_bits, ridge=strength, random_state=0), data)]
            merits[n_bits, strength] = merit(values)
            lines.append(row(f"{image} | {n_bits} | {strength:g}", values) + f" {merit(values):.3f} |")
        best[image] = max(merits, key=merits.__getitem__)
    return "\n".join(lines), best


def test_table(pool: Icons, test: Icons, seeds: int, tuned: dict[str, tuple[int, float]]) -> str:
    """Compare the chosen settings with the baselines, on test icons."""
    plain = described(pool, test, TEXTS[BEST_TEXT](), Gist())
    rich = described(pool, test, TEXTS[BEST_TEXT](), IMAGES[BEST_IMAGE]())
    wide = described(pool, test, TEXTS[WIDE_TEXT](), IMAGES[BEST_IMAGE]())

    def ccaitq(n_bits: int, strength: float) -> Callable[[int], Any]:
        return lambda seed: CCAITQ(n_bits, ridge=strength, random_state=seed)

    # The seed of CCA-ITQ turns nothing but its rotation, and its fits are the slow ones: two of them will do.
    rows: list[tuple[str, Callable[[int], Any], Data, bool, int]] = [
        ("CCA-ITQ, default | TF-IDF, GIST | 64", ccaitq(*BASELINES[0]), plain, False, 2),
        (f"CCA-ITQ, tuned | TF-IDF, GIST | {tuned['GIST'][0]}", ccaitq(*tuned["GIST"]), plain, False, 2),
        (f"CCA-ITQ, tuned | all | {tuned[BEST_IMAGE][0]}", ccaitq(*tuned[BEST_IMAGE]), rich, False, 2),
        ("DLFH, default | TF-IDF, GIST | 64", lambda seed: DLFH(64, random_state=seed), plain, False, seeds),
        ("DLFH, chosen | TF-IDF, GIST | 64", mixed(64), plain, False, seeds),
        ("DLFH, chosen | all | 64", mixed(64), rich, False, seeds),
        ("DLFH, chosen | all | 128", mixed(128), rich, False, seeds),
        ("DLFH, chosen | all | 256", mixed(256), rich, False, seeds),
        ("DLFH, chosen | all, pieces of words | 256", mixed(256), wide, False, seeds),
        ("DLFH, chosen, asymmetric | all, pieces of words | 256", mixed(256), wide, True, seeds),
    ]
    lines = [
        f"| method | features | bits | {HEADER} |",
        "|---|---|---|---|---|---|---|---|---|",
        row("chance | | ", [chance(pool, test)]),
    ]
    for label, make, data, asymmetric, n in rows:
        lines.append(row(label, [measure(make(seed), data, asymmetric) for seed in range(n)]))
    return "\n".join(lines)


def picture(icons: Icons, pool: Icons) -> Any:
    """Return a contact sheet of the answers to free queries among all icons, by hashed codes."""
    text, image = TEXTS[WIDE_TEXT](), CombinedImage()
    modalities = {"text": text.fit_transform(pool.texts), "image": image.fit_transform(pool.images)}
    model = mixed(256)(0).fit(modalities, pool.labels)
    queries = special(model)("text", text.transform(QUERIES))
    database = unpack(model.encode("image", image.transform(icons.images)), model.n_bits)
    best = np.argsort(-(queries @ database.T), axis=1, kind="stable")[:, :10]
    pictures: list[Any] = []
    captions: list[str] = []
    for query, rows in zip(QUERIES, best, strict=True):
        pictures += [np.ones((8, 8)), *icons.images[rows]]
        captions += [f"{query}:", *(icons.ids[found] for found in rows)]
    return contact_sheet(pictures, captions, columns=11, size=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="seeds of the models on test icons (default 5)")
    parser.add_argument("--only", choices=("validation", "test"), help="make only this part")
    parser.add_argument("--write", type=Path, help="document to write the tables to")
    parser.add_argument("--picture", type=Path, help="file for a picture of the answers to a few queries")
    options = parser.parse_args()
    icons = load_dataset("icons", size=128)
    pool, test = icons.labelled().split(test_size=300, random_state=0)
    tables = {}
    if options.only in (None, "validation"):
        tables["validation"] = validation_table(pool)
        tables["words"] = words_table(pool)
    if options.only in (None, "test"):
        tables["baselines"], tuned = tuned_baselines(pool)
        tables["test"] = test_table(pool, test, options.seeds, tuned)
    if options.picture:
        picture(icons, pool).save(options.picture, optimize=True)
    if options.write:
        fill(options.write, tables)
    else:
        print("\n\n".join(tables.values()))


if __name__ == "__main__":
    main()
