"""What grows with the data and what does not: time, peak memory and MAP, each measured in a process of its own.

python -m benchmarks.scale wide      # 200,000 texts of a million words
python -m benchmarks.scale all --write docs/scale.md
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.report import fill, machine
from dlfh import DLFH
from dlfh.metrics import mean_average_precision

Rows = list[tuple[str, ...]]


def peak_mb() -> float:
    """Return the largest resident memory that this process has had, in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1000


def in_process(measure: str, **arguments: Any) -> dict[str, Any]:
    """Run a function of this module in a process of its own, so that its peak is its own; return what it says."""
    command = [sys.executable, "-m", "benchmarks.scale", "--measure", measure, "--arguments", json.dumps(arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


# Wide text


def texts(n_points: int, n_words: int, n_classes: int = 20, length: int = 30) -> tuple[Any, Any, Any]:
    """Return texts as counts, vectors that go with them, and classes; words are as frequent as Zipf says.

    A third of a text's words are of its class's own, frequent among themselves as all words are.
    """
    rng = np.random.default_rng(0)
    classes = rng.integers(n_classes, size=n_points)
    running = np.cumsum(1 / np.arange(1, n_words + 1))
    drawn = np.searchsorted(running, rng.random((n_points, length), np.float32) * running[-1]).clip(0, n_words - 1)
    own = rng.random(drawn.shape) < 1 / 3
    drawn[own] = (drawn[own] * 7919 + (1 + classes[np.nonzero(own)[0]]) * 104729) % n_words
    starts = np.arange(0, n_points * length + 1, length)
    matrix = sp.csr_array(
        (np.ones(drawn.size, np.float32), drawn.ravel().astype(np.int32), starts), (n_points, n_words)
    )
    matrix.sum_duplicates()
    vectors = (
        rng.standard_normal((n_points, 64), np.float32) + rng.standard_normal((n_classes, 64), np.float32)[classes]
    )
    return matrix, vectors, classes


def measure_wide(n_points: int, n_words: int, hash_function: str, largest_matrix: int | None = None) -> dict[str, Any]:
    """Fit and encode texts; say how long it took, the peak, and the MAP of texts that ask for unseen images."""
    from dlfh.mathematics import _ridge

    if largest_matrix is not None:
        _ridge._LARGEST_MATRIX = largest_matrix
    text, image, classes = texts(n_points + 2000, n_words)
    before = peak_mb()
    model = DLFH(64, hash_function=hash_function, random_state=0)
    began = time.perf_counter()
    model.fit({"image": image[:n_points], "text": text[:n_points]}, classes[:n_points])
    seconds = time.perf_counter() - began
    codes = {name: model.encode(name, data[n_points:]) for name, data in (("image", image), ("text", text))}
    unseen = classes[n_points:]
    return {
        "seconds": seconds,
        "peak": peak_mb(),
        "data": before,
        "map": mean_average_precision(codes["text"], codes["image"], unseen, unseen),
        "words": len(np.unique(text[:n_points].indices)),
    }


def bench_wide() -> Rows:
    header = ("texts, words (of them met)", "hash functions", "by", "fit", "peak memory", "MAP, unseen")
    rows: Rows = [header]
    for n_points, n_words, function, largest in (
        (200_000, 1_000_000, "auto", None),
        (200_000, 1_000_000, "linear", None),
        (6_000, 100_000, "linear", None),
        (6_000, 100_000, "linear", 0),
    ):
        found = in_process("wide", n_points=n_points, n_words=n_words, hash_function=function, largest_matrix=largest)
        by = "matrix of points" if largest is None and n_points < 8192 else "products with the features"
        rows.append(
            (
                f"{n_points:,}, {n_words:,} ({found['words']:,})",
                function,
                by,
                f"{found['seconds']:.0f} s",
                f"{found['peak']:,.0f} MB ({found['data']:,.0f} before `fit`)",
                f"{found['map']:.4f}",
            )
        )
    return rows


def as_table(rows: Rows) -> str:
    header, *others = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([header, "|" + "---|" * len(rows[0]), *others])


MEASURES: dict[str, Callable[..., dict[str, Any]]] = {"wide": measure_wide}
BENCHES: dict[str, Callable[[], Rows]] = {"wide": bench_wide}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="?", choices=[*BENCHES, "all"])
    parser.add_argument("--write", type=Path, help="document whose tables to fill in")
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    parser.add_argument("--arguments", default="{}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(MEASURES[options.measure](**json.loads(options.arguments))))
        return
    for name in BENCHES if options.which == "all" else [options.which]:
        table = f"{machine()}.\n\n{as_table(BENCHES[name]())}"
        print(table, flush=True)
        if options.write:
            fill(options.write, {name: table})


if __name__ == "__main__":
    main()
