"""Cost of label probabilities: many labels, and data of NUS-WIDE's shape, in processor seconds on one thread.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.many_labels 1500 10000
    OPENBLAS_NUM_THREADS=1 python -m benchmarks.many_labels nus

`nus` measures the default fit, and the linear fit relative to the two Gram matrices. To compare with another commit,
set PYTHONPATH to the `src` folder of its checkout. Give one case per process to measure its peak memory.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.robustness_study import many_labels
from dlfh import DLFH
from dlfh._mathematics.moments import sparse_gram
from dlfh.datasets import make_paired


def seconds(function: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    result = function()
    return time.process_time() - began, result


def labels(n_labels: int, n_runs: int) -> str:
    """Measure fit and calibration with 64 image features and 500 text features."""
    data = many_labels(0, n_labels, 5000 if n_labels <= 1500 else 7000)
    assert data.unseen is not None
    few = np.arange(300)
    DLFH(64, random_state=0, n_jobs=1).fit(data.train.take(few).modalities, data.train.take(few).labels)  # compile
    runs = []
    for _ in range(n_runs):
        model = DLFH(64, random_state=0, n_jobs=1)
        fit = seconds(partial(model.fit, data.train.modalities, data.train.labels))[0]
        first = seconds(partial(model.label_probabilities, data.unseen.modalities))[0]
        runs.append((fit, first, fit + first))
    fit, first, whole = np.median(runs, axis=0)
    gigabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1e6
    times = f"fit {fit:.1f} s, calibration {first:.1f} s, whole {whole:.1f} s"
    return (
        f"{len(data.train.labels.indptr) - 1:,} points, {n_labels:,} labels: {times}, {gigabytes:.2f} GB, {size:.0f} MB"
    )


def nus(n_runs: int) -> str:
    """Measure fits to 184,710 points with 500 image features and 1,000 text features."""
    data = make_paired(184_710, n_labels=10, n_label_sets=700, image_features=500, text_features=1000, random_state=0)
    image, text = data.modalities["image"], data.modalities["text"]
    image = image - image.mean(axis=0, dtype=np.float64).astype(image.dtype)
    means = np.asarray(text.mean(axis=0)).ravel()
    sparse_gram(text[:100], means)  # compile
    DLFH(64, hash_function="linear", random_state=0).fit(data.take(np.arange(3000)).modalities, data.labels[:3000])
    ratios, whole = [], []
    for _ in range(n_runs):
        grams = seconds(lambda: (image.T @ image, sparse_gram(text, means)))[0]
        linear = DLFH(64, hash_function="linear", random_state=0, n_jobs=1)
        ratios.append(seconds(partial(linear.fit, data.modalities, data.labels))[0] / grams)
        default = DLFH(64, random_state=0, n_jobs=1)
        whole.append(seconds(partial(default.fit, data.modalities, data.labels))[0])
    return f"linear fit / Gram matrices {np.median(ratios):.2f}, default fit {np.median(whole):.1f} s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+", help="numbers of labels, or nus")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    for case in given.cases:
        print(nus(given.runs) if case == "nus" else labels(int(case), given.runs), flush=True)


if __name__ == "__main__":
    main()
