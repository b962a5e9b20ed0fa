"""Value of training items that lack a text, an image or labels, measured on the icons.

    python -m benchmarks.incomplete_study --write docs/holes.md

Parts of the training icons are hidden. Incomplete icons are either dropped or used with their remaining parts;
databases and queries are the same complete icons in all settings.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.report import fill, machine
from dlfh import DLFH, Encoder
from dlfh.datasets import Items, load_dataset
from dlfh.datasets.icons import Icons
from dlfh.features import BagOfWords, CombinedImage, Vectors
from dlfh.hashing import KernelRidge, LinearRidge
from dlfh.metrics import mean_average_precision

N_BITS = 64
N_QUERIES = 300
SHARES = (0.5, 0.8)
#: Modalities of queries and database.
DIRECTIONS = (("text", "image"), ("image", "text"))


class CompleteOnly(DLFH):
    """DLFH declared as a method that needs complete data, so that an encoder drops incomplete items."""

    info = replace(DLFH.info, takes_incomplete=False)


def encoder(method: type[DLFH], seed: int, **options: Any) -> Encoder:
    """Return the demo's encoder for precomputed image vectors, which all settings share."""
    functions = {"image": KernelRidge(n_bases=2000), "text": LinearRidge(ridge=0.3)}
    features = {"image": Vectors(), "text": BagOfWords(analyzer="word+char", min_df=2)}
    return Encoder(features, method(N_BITS, hash_function=functions, random_state=seed, **options))


def between_halves(queries: np.ndarray, codes: np.ndarray, labels: Any) -> Iterator[float]:
    """Yield MAP of each half as queries for the other, so that no icon finds itself."""
    middle = len(labels) // 2
    for asked, answered in ((slice(0, middle), slice(middle, None)), (slice(middle, None), slice(0, middle))):
        yield mean_average_precision(queries[asked], codes[answered], labels[asked], labels[answered])


def hide(items: Items, what: str, share: float, seed: int) -> Items:
    """Return items with the texts, images or labels of a random share removed."""
    rng = np.random.default_rng(seed)
    hidden = np.zeros(len(items), bool)
    hidden[rng.permutation(len(items))[: round(share * len(items))]] = True
    if what == "labels":
        return replace(
            items, labels=[[] if h else item_labels for h, item_labels in zip(hidden, items.labels or [], strict=True)]
        )
    if what == "texts":
        texts = [None if h else text for h, text in zip(hidden, items.modalities["text"], strict=True)]
        return replace(items, modalities=items.modalities | {"text": texts})
    images = items.modalities["image"].copy()
    images[hidden] = np.nan  # a vector that cannot be read
    return replace(items, modalities=items.modalities | {"image": images})


def scores(fitted: Encoder, train: Items, test: Items) -> list[float]:
    """Return MAP in both directions by Hamming distance, with hashed codes of complete icons.

    Test icons are queries for the training icons, and each half of them for the other half, which is unseen.
    """
    new = {name: fitted.encode(name, test.modalities[name]) for name in test.modalities}
    known = {name: fitted.encode(name, train.modalities[name]) for name in train.modalities}
    labels = test.labels or []
    hashed = [mean_average_precision(new[query], known[other], labels, train.labels) for query, other in DIRECTIONS]
    unseen = [list(between_halves(new[query], new[other], labels)) for query, other in DIRECTIONS]
    return [*hashed, *(float(np.mean(halves)) for halves in unseen)]


def settings(seed: int) -> Iterator[tuple[str, str, str, Encoder]]:
    """Yield the hidden part, the share, the treatment, and an encoder to fit."""
    yield "nothing", "0", "–", encoder(DLFH, seed)
    for what in ("texts", "images", "labels"):
        for share in SHARES:
            yield what, str(share), "dropped", encoder(CompleteOnly, seed)
            # Without self-training an icon without labels changes nothing but its own code: it is as if dropped.
            options = {"self_training": 1} if what == "labels" else {}
            fate = "learned from by self-training" if options else "learned from"
            yield what, str(share), fate, encoder(DLFH, seed, **options)


def run(icons: Icons, seed: int) -> Iterator[tuple[tuple[str, str, str], int, int, list[float]]]:
    """Yield MAP and the numbers of training and incomplete icons by setting, for one split."""
    train_icons, test_icons = icons.split(test_size=N_QUERIES, random_state=seed)
    pictures = CombinedImage().fit(train_icons.images)
    train, test = (
        Items.of({"image": pictures.transform(part.images), "text": list(part.texts)}, list(part.labels))
        for part in (train_icons, test_icons)
    )
    for what, share, fate, unfitted in settings(seed):
        items = train if what == "nothing" else hide(train, what, float(share), seed)
        training = unfitted.fit_items(items)
        values = scores(unfitted, train, test)
        print(seed, what, share, fate, len(training), np.round(values, 3), file=sys.stderr, flush=True)
        yield (what, share, fate), len(training), training.n_incomplete, values


def table(icons: Icons, seeds: int) -> str:
    """Return MAP by hidden part and treatment: mean and standard deviation over seeds."""
    found: dict[tuple[str, str, str], list[tuple[int, int, list[float]]]] = {}
    for seed in range(seeds):
        for setting, n_trained, n_incomplete, values in run(icons, seed):
            found.setdefault(setting, []).append((n_trained, n_incomplete, values))
    lines = [
        "| removed | share | incomplete icons are | training icons | incomplete ones | T→I, hashed | I→T, hashed "
        "| T→I, unseen | I→T, unseen |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for (what, share, fate), results in found.items():
        scored = np.array([values for _, _, values in results])
        cells = " | ".join(f"{m:.3f}±{s:.3f}" for m, s in zip(scored.mean(0), scored.std(0), strict=True))
        shown = f"{float(share):.0%}" if what != "nothing" else "–"
        lines.append(f"| {what} | {shown} | {fate} | {results[0][0]:,} | {results[0][1]:,} | {cells} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document to write the table to")
    parser.add_argument("--seeds", type=int, default=3, help="seeds (default 3)")
    arguments = parser.parse_args()
    tables = {"incomplete": table(load_dataset("icons").labelled(), arguments.seeds), "incomplete-machine": machine()}
    if arguments.write:
        fill(arguments.write, tables)
    else:
        print("\n\n".join(tables.values()))


if __name__ == "__main__":
    main()
