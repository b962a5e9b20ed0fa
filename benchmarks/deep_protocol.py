"""DLFH on frozen features in the protocol of deep cross-modal hashing, beside published figures.

    DLFH_DATA=/path/to/folder python -m benchmarks.deep_protocol --write docs/deep-methods.md

Of the 20,015 points of MIRFLICKR-25K, 2,000 at random ask, the other 18,015 are the database, and 10,000 of these are
for training. Queries and database are encoded by the hash functions. Results are kept in a file, so that an
interrupted run continues. The folder has `mirflickr25k.npz` and `mirflickr25k_more.npz`.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.report import fill
from benchmarks.reproduction import spread, table
from dlfh import DLFH
from dlfh._persistence.files import replace_file
from dlfh.bench.tables import summarize
from dlfh.datasets import read_arrays
from dlfh.metrics import mean_average_precision

N_QUERIES, N_TRAIN = 2000, 10_000
BITS = (16, 32, 64)
WAYS = {"I→T": ("image", "text"), "T→I": ("text", "image")}
FEATURES = {"network": "EfficientNet-Lite0", "GIST": "GIST"}
RANKINGS = {"hamming": "Hamming distance", "probabilities": "label probabilities"}

#: MAP by direction at 16, 32 and 64 bits: DCMH as its paper has it, SSAH as later papers quote it.
PUBLISHED = {
    "DCMH (CVPR 2017)": ((0.741, 0.747, 0.749), (0.783, 0.790, 0.793)),
    "SSAH (CVPR 2018)": ((0.775, 0.788, 0.799), (0.786, 0.797, 0.791)),
}

Scores = dict[str, Any]


def load(folder: Path) -> tuple[dict[str, Any], sp.csr_array, sp.csr_array]:
    """Return image features by name, texts and labels."""
    flickr, more = (read_arrays(folder / f"mirflickr25k{end}.npz") for end in ("", "_more"))
    images = {"network": more["image_cnn"].astype(np.float32), "GIST": flickr["image"].astype(np.float32)}
    return images, sp.csr_array(flickr["text"]).astype(np.float32), sp.csr_array(flickr["labels"])


def measure(image: Any, text: Any, labels: Any, n_bits: int, seed: int) -> Scores:
    """Return the MAP of each ranking and direction, and the seconds of training."""
    order = np.random.default_rng(seed).permutation(labels.shape[0])
    queries, database = np.sort(order[:N_QUERIES]), np.sort(order[N_QUERIES:])
    train = np.sort(order[N_QUERIES:][:N_TRAIN])
    modalities = {"image": image, "text": text}
    began = time.perf_counter()
    model = DLFH(n_bits, random_state=seed).fit({name: each[train] for name, each in modalities.items()}, labels[train])
    scores: Scores = {"seconds": time.perf_counter() - began}
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
    images, text, labels = load(folder)
    found: dict[str, Scores] = json.loads(kept.read_text()) if kept.exists() else {}
    for features in FEATURES:
        for n_bits in BITS:
            for seed in range(seeds):
                key = f"{features} {n_bits} {seed}"
                if key not in found:
                    found[key] = measure(images[features], text, labels, n_bits, seed)
                    kept.parent.mkdir(parents=True, exist_ok=True)
                    replace_file(kept, [json.dumps(found, indent=1).encode()])
                    print(key, {name: round(value, 3) for name, value in found[key].items()}, flush=True)
    return found


def lines(found: dict[str, Scores], seeds: int) -> list[list[str]]:
    rows = []
    for name, means in PUBLISHED.items():
        rows.append([name, "a network, trained end to end", "Hamming distance"])
        rows[-1] += [f"{mean:.3f}".replace("0.", ".", 1) for way in means for mean in way]
    for features, title in FEATURES.items():
        for ranking, called in RANKINGS.items():
            rows.append(["`DLFH()`", f"{title}, frozen", called])
            for way in WAYS:
                for n_bits in BITS:
                    runs = [found[f"{features} {n_bits} {seed}"][f"{ranking} {way}"] for seed in range(seeds)]
                    rows[-1].append(spread(summarize(runs)))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--kept", type=Path, default=Path("runs/deep-protocol.json"))
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    found = run(Path(os.environ["DLFH_DATA"]), options.kept, options.seeds)
    seconds = [each["seconds"] for key, each in found.items() if key.startswith("network 64")]
    head = ["method", "image features", "ranking", *(f"{way}, {n_bits} bits" for way in WAYS for n_bits in BITS)]
    text = table(head, lines(found, options.seeds))
    took = f"Training with 64 bits on network features took {np.median(seconds):.0f} seconds (median)."
    if options.write is None:
        print(f"{text}\n\n{took}")
    else:
        fill(options.write, {"deep": text, "seconds": took})


if __name__ == "__main__":
    main()
