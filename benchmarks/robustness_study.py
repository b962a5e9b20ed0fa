"""Data on which defaults may break: repeated and nearly repeated points, few points, many labels, mostly similar pairs.

    DLFH_DATA=/path/to/folder python -m benchmarks.robustness_study --write docs/defaults.md

`DLFH()` beside `KDLFH()`. The folder contains `wiki.mat`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp

from benchmarks.report import fill, machine
from dlfh import DLFH, KDLFH
from dlfh.bench.cells import SplitSpec
from dlfh.bench.data import Partition, Source, load_source
from dlfh.datasets import Paired, make_paired
from dlfh.metrics import mean_average_precision

N_BITS = 64
N_COPIES = 4
#: Standard deviation of the noise of nearly equal copies, relative to that of the features.
NOISE = 0.01
#: Whether training points take the place of the queries, as for choosing constants.
VALIDATION = "DLFH_VALIDATION" in os.environ
METHODS: dict[str, Any] = {"KDLFH": KDLFH, "DLFH": DLFH}

#: A case, a method, and the measurements by seed.
Row: TypeAlias = tuple[str, str, list[list[float]]]


@cache
def source(name: str) -> Source:
    """Load an ordinary data set."""
    if name == "Wiki":
        return load_source("wiki", Path(os.environ["DLFH_DATA"]) / "wiki.mat")
    if name == "icons":
        return load_source("icons")
    if name == "generated":
        return Source.of(name, {"all": make_paired(4000, random_state=7)})
    return load_source("generated:mirflickr-25k", n_points=4000)


def parts(name: str, seed: int, size: int | None = None) -> Partition:
    share = 0.2 if VALIDATION else 0.0
    spec = SplitSpec(seed, unseen_share=0.25, validation_share=share, validation_seed=seed, size=size)
    return source(name).split(spec)


def copied(name: str, seed: int, noise: float = 0.0) -> Partition:
    """Return a data set whose training points occur four times, each copy with noise."""
    found = parts(name, seed)
    rng = np.random.default_rng(seed)
    rows = np.tile(np.arange(len(found.train)), N_COPIES)
    train = found.train.take(rows)
    if noise:
        train.modalities.update({key: noisy(matrix, noise, rng) for key, matrix in train.modalities.items()})
    return Partition(train, found.queries, found.unseen)


def noisy(matrix: Any, noise: float, rng: np.random.Generator) -> Any:
    """Return features with noise relative to their standard deviation; zeros of sparse features stay."""
    matrix = matrix.copy()
    if sp.issparse(matrix):
        matrix.data *= rng.normal(1, noise, len(matrix.data)).astype(matrix.dtype)
        return matrix
    return (matrix + noise * matrix.std(axis=0) * rng.normal(size=matrix.shape)).astype(matrix.dtype)


def labelled(labels: sp.csr_array, seed: int, n_features: int = 64, noise: float = 1.0) -> Partition:
    """Return points whose images are sums of label vectors, with noise, and whose texts are words of their labels."""
    rng = np.random.default_rng(seed)
    n, n_labels = labels.shape
    image = labels @ rng.normal(size=(n_labels, n_features)) + noise * rng.normal(size=(n, n_features))
    rates = labels @ (rng.random((n_labels, 500)) < 0.02) * 0.5 + 0.01
    text = sp.csr_array(rng.poisson(rates).astype(np.float32))
    data = Source.of("labelled", {"all": Paired({"image": image.astype(np.float32), "text": text}, labels)})
    return data.split(SplitSpec(seed=seed, queries=500, unseen_share=500 / (n - 500)))


def many_labels(seed: int, n_labels: int = 1500, n: int = 5000) -> Partition:
    """Return 4,000 training points with a few of many labels each, some labels more popular than others."""
    rng = np.random.default_rng(seed)
    popularity = 1 / np.arange(1, n_labels + 1) ** 0.7
    counts = 1 + rng.poisson(3, n)
    drawn = rng.choice(n_labels, counts.sum(), p=popularity / popularity.sum())
    return labelled(indicator(np.repeat(np.arange(n), counts), drawn, (n, n_labels)), seed)


def many_classes(seed: int, n_classes: int = 1000, n: int = 5000) -> Partition:
    classes = np.random.default_rng(seed).integers(0, n_classes, n)
    return labelled(indicator(np.arange(n), classes, (n, n_classes)), seed)


def mostly_similar(seed: int, share: float = 0.95, n: int = 3000) -> Partition:
    """Return points most of which share a label, so that 95 % of all pairs are similar."""
    rng = np.random.default_rng(seed)
    common = rng.random(n) < np.sqrt(share)
    others = rng.random((n, 20)) < 0.03
    rare = ~common & ~others.any(axis=1)
    others[rare, rng.integers(0, 20, rare.sum())] = True
    return labelled(sp.csr_array(np.column_stack([common, others]).astype(np.int8)), seed)


def indicator(rows: Any, columns: Any, shape: tuple[int, int]) -> sp.csr_array:
    matrix = sp.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix.astype(np.int8)


def cases() -> dict[str, Callable[[int], Partition]]:
    """Return the data of each row by seed."""
    ordinary = ("Wiki", "icons", "generated")
    found: dict[str, Callable[[int], Partition]] = {
        name: partial(parts, name) for name in (*ordinary, "MIRFLICKR-shaped")
    }
    found |= {f"{name}, every point {N_COPIES} times": partial(copied, name) for name in ordinary}
    found |= {f"{name}, {N_COPIES} nearly equal copies": partial(copied, name, noise=NOISE) for name in ordinary}
    found |= {f"{name}, {n} points": partial(parts, name, size=n) for name in ordinary for n in (60, 100, 150)}
    found |= {"1,500 labels": many_labels, "1,000 classes": many_classes, "95 % similar pairs": mostly_similar}
    return found


def measure(data: Partition, method: Any, seed: int) -> list[float]:
    """Return MAP of image and text queries on an unseen database, and the processor seconds of fitting."""
    began = time.process_time()
    model = method(N_BITS, random_state=seed).fit(data.train.modalities, data.train.labels)
    seconds = time.process_time() - began
    assert data.unseen is not None
    scores = [
        mean_average_precision(
            model.encode(asking, data.queries.modalities[asking]),
            model.encode(asked, data.unseen.modalities[asked]),
            data.queries.labels,
            data.unseen.labels,
        )
        for asking, asked in (("image", "text"), ("text", "image"))
    ]
    print(method.__name__, np.round(scores, 4), round(seconds, 2), model.chosen_, file=sys.stderr, flush=True)
    return [*scores, seconds]


def results(names: list[str], methods: list[str], seeds: int) -> Iterator[Row]:
    """Yield each case's measurements by method and seed."""
    first = 100 if VALIDATION else 0
    for method in methods:  # compile
        few = make_paired(300, random_state=0)
        METHODS[method](N_BITS, random_state=0).fit(few.modalities, few.labels)
    for name in names:
        print(name, file=sys.stderr)
        n_seeds = seeds + 2 if name.endswith(" points") else seeds  # few points are quick, and vary more
        data = [cases()[name](first + seed) for seed in range(n_seeds)]
        for method in methods:
            yield name, method, [measure(each, METHODS[method], seed) for seed, each in enumerate(data)]


def table(rows: list[Row]) -> str:
    """Return the means over seeds: MAP of image / text queries, and the processor seconds of fitting."""
    found = {(name, method): np.mean(values, axis=0) for name, method, values in rows}
    lines = [f"| data | {' | '.join(f'{method} | s' for method in METHODS)} |", "|---|" + "---|" * 2 * len(METHODS)]
    for name in dict.fromkeys(name for name, _, _ in rows):
        cells = [
            f"{' / '.join(f'{score:.3f}'.lstrip('0') for score in scores)} | {seconds:.1f}"
            for *scores, seconds in (found[name, method] for method in METHODS)
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", type=Path, help="document to write the table to")
    parser.add_argument("--seeds", type=int, default=3, help="seeds (default 3)")
    parser.add_argument("--cases", nargs="+", default=list(cases()), metavar="NAME", help="rows of the table")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--json", action="store_true", help="print measurements instead of a table, one a line")
    parser.add_argument("--from", type=Path, nargs="+", dest="files", help="measurements printed before, as JSON")
    arguments = parser.parse_args()
    if arguments.json:
        for row in results(arguments.cases, arguments.methods, arguments.seeds):
            print(json.dumps(row), flush=True)
        return
    if arguments.files:
        rows = [tuple(json.loads(line)) for file in arguments.files for line in file.read_text().splitlines()]
    else:
        rows = list(results(arguments.cases, list(METHODS), arguments.seeds))
    tables = {"robustness": table(rows), "robustness-machine": machine()}
    if arguments.write:
        fill(arguments.write, tables)
    else:
        print("\n\n".join(tables.values()))


if __name__ == "__main__":
    main()
