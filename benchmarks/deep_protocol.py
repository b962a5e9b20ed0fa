"""DLFH on frozen features in the protocol of deep cross-modal hashing, beside published figures.

    DLFH_DATA=/path/to/folder python -m benchmarks.deep_protocol --write docs/deep-methods.md

Of the 20,015 points of MIRFLICKR-25K, 2,000 at random ask, the other 18,015 are the database, and 10,000 of these are
for training. Queries and database are encoded by the hash functions. Results are kept in a file, so that an
interrupted run continues. The folder has `mirflickr25k.npz` and `mirflickr25k_more.npz`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.report import fill
from benchmarks.reproduction import digits, spread, table
from dlfh import DLFH
from dlfh._persistence.files import replace_file
from dlfh.bench.tables import summarize
from dlfh.datasets import read_arrays
from dlfh.metrics import mean_average_precision

N_QUERIES, N_TRAIN = 2000, 10_000
BITS = (16, 32, 64)
WAYS = {"I→T": ("image", "text"), "T→I": ("text", "image")}
RANKINGS = {"hamming": "Hamming distance", "probabilities": "label probabilities"}

#: MAP by direction at 16, 32 and 64 bits: DCMH as its paper has it, SSAH as table 2 of QDCMH (2021) quotes it.
PUBLISHED = {
    "DCMH (CVPR 2017)": ((0.741, 0.747, 0.749), (0.783, 0.790, 0.793)),
    "SSAH (CVPR 2018)": ((0.775, 0.788, 0.799), (0.786, 0.797, 0.791)),
}

Scores = dict[str, Any]


def load(folder: Path) -> tuple[dict[str, Any], sp.csr_array]:
    """Return modalities and labels."""
    flickr, more = (read_arrays(folder / f"mirflickr25k{end}.npz") for end in ("", "_more"))
    texts = sp.csr_array(flickr["text"]).astype(np.float32)
    return {"image": more["image_cnn"].astype(np.float32), "text": texts}, sp.csr_array(flickr["labels"])


def measure(modalities: dict[str, Any], labels: Any, n_bits: int, seed: int) -> Scores:
    """Return the MAP of each ranking and direction."""
    order = np.random.default_rng(seed).permutation(labels.shape[0])
    queries, database = np.sort(order[:N_QUERIES]), np.sort(order[N_QUERIES:])
    train = np.sort(order[N_QUERIES:][:N_TRAIN])
    model = DLFH(n_bits, random_state=seed).fit({name: each[train] for name, each in modalities.items()}, labels[train])
    scores: Scores = {}
    for way, (asking, asked) in WAYS.items():
        both = modalities[asking][queries], modalities[asked][database]
        codes = model.encode(asking, both[0]), model.encode(asked, both[1])
        posteriors = (model.label_probabilities({name: each}) for name, each in zip((asking, asked), both, strict=True))
        tables = model.score_tables(next(posteriors)), model.quantize_probabilities(next(posteriors))
        searches: dict[str, tuple[Any, Any]] = {"hamming": codes, "probabilities": tables}
        for ranking, (ask, items) in searches.items():
            scores[f"{ranking} {way}"] = mean_average_precision(ask, items, labels[queries], labels[database])
    return scores


def run(folder: Path, kept: Path, seeds: int) -> dict[str, Scores]:
    """Return the scores of all runs; compute those that are not in the file."""
    modalities, labels = load(folder)
    found: dict[str, Scores] = json.loads(kept.read_text()) if kept.exists() else {}
    for n_bits, seed in itertools.product(BITS, range(seeds)):
        if f"{n_bits} {seed}" not in found:
            found[f"{n_bits} {seed}"] = measure(modalities, labels, n_bits, seed)
            kept.parent.mkdir(parents=True, exist_ok=True)
            replace_file(kept, [json.dumps(found, indent=1).encode()])
    return found


def lines(found: dict[str, Scores], seeds: int) -> list[list[str]]:
    """Return the rows of the table."""
    rows = []
    for name, means in PUBLISHED.items():
        rows.append([name, "a network, trained end to end", RANKINGS["hamming"]])
        rows[-1] += [digits(mean) for way in means for mean in way]
    for ranking, called in RANKINGS.items():
        rows.append(["`DLFH()`", "EfficientNet-Lite0, frozen", called])
        for way, n_bits in itertools.product(WAYS, BITS):
            runs = [found[f"{n_bits} {seed}"][f"{ranking} {way}"] for seed in range(seeds)]
            rows[-1].append(spread(summarize(runs)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kept", type=Path, default=Path("runs/deep-protocol.json"))
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    found = run(Path(os.environ["DLFH_DATA"]), options.kept, options.seeds)
    head = ["method", "image features", "ranking", *(f"{way}, {n_bits} bits" for way in WAYS for n_bits in BITS)]
    text = table(head, lines(found, options.seeds))
    if options.write is None:
        print(text)
    else:
        fill(options.write, {"deep": text})


if __name__ == "__main__":
    main()
