"""Learn codes for paired images and texts, search across the two, and measure how well it works.

The data is generated: images are vectors, texts are bags of words, both depend on hidden labels.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from dlfh import DLFH, load
from dlfh.codes import hamming_distances
from dlfh.datasets import make_paired
from dlfh.metrics import mean_average_precision

TOPICS = ("sea", "sky", "city", "forest", "portrait", "food", "sport", "night", "snow", "animal")


def names(labels: np.ndarray) -> str:
    return ", ".join(TOPICS[j] for j in np.flatnonzero(labels))


def main() -> None:
    console = Console()
    console.rule("dlfh: cross-modal hashing")
    data = make_paired(
        n_points=22_000, n_labels=10, image_features=256, text_features=1000, words_per_point=25, random_state=0
    )
    train, test = data.split(test_size=2_000)
    console.print(f"{len(train):,} images with texts and labels to learn from, {len(test):,} unseen ones to ask with")

    model = DLFH(n_bits=64, random_state=0, verbose=True).fit(train.modalities, train.labels)
    console.print(f"learned 64-bit codes in {model.fit_seconds_:.2f} s: 8 bytes an item\n")

    chance = float(((test.labels @ train.labels.T) > 0).mean())
    table = Table(title=f"MAP over 2,000 unseen queries (chance: {chance:.3f})")
    for column in ("query → database", "ranking", "learned codes", "hashed codes"):
        table.add_column(column)
    for asked, found in (("text", "image"), ("image", "text")):
        features = test.modalities[asked]
        for ranking, queries in (
            ("Hamming", model.encode(asked, features)),
            ("asymmetric", model.project(asked, features)),
        ):
            values = [
                mean_average_precision(queries, database, test.labels, train.labels)
                for database in (model.codes_[found], model.encode(found, train.modalities[found]))
            ]
            table.add_row(f"{asked} → {found}", ranking, *(f"{value:.3f}" for value in values))
    console.print(table)

    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        model = load(Path(folder) / "model")
    console.print("\nA few texts, and the images that a saved and loaded model finds for them:")
    train_truth, test_truth = train.labels.toarray(), test.labels.toarray()
    database = model.encode("image", train.modalities["image"])
    for query in (3, 14, 159):
        code = model.encode("text", test.modalities["text"][[query]])
        nearest = np.argsort(hamming_distances(code, database)[0], kind="stable")[:3]
        answers = "; ".join(f"image {i} ({names(train_truth[i])})" for i in nearest)
        console.print(f"  text {query} about [b]{names(test_truth[query])}[/b] → {answers}")
    console.print("\nGo on with README.md (ten lines of Python) and docs/.")


if __name__ == "__main__":
    main()
