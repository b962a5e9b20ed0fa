"""Guard against slow code: compare the cost of operations, relative to bare baselines, with the committed ratios.

python -m benchmarks.check            # exits with 1 if an operation is slower than its committed ratio allows
python -m benchmarks.check --write    # measures all ratios and writes them to benchmarks/ratios.json

Both sides of a ratio are measured alternately in one run, in processor time and with one thread each, so that neither
the machine nor its load matters much. A ratio beyond its limit is measured again before it counts.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from operator import matmul
from pathlib import Path

import numpy as np

RATIOS = Path(__file__).with_name("ratios.json")
#: A ratio may exceed the committed one by this factor: medians vary by a tenth to a fifth on a loaded machine.
TOLERANCE = 1.35
ROUNDS = 7

Function = Callable[[], object]


def processor_seconds(function: Function) -> float:
    """Return the processor time of a call, and of the processes that it runs."""
    began = time.process_time(), _children()
    function()
    return time.process_time() - began[0] + _children() - began[1]


def _children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def ratio(ours: Function, bare: Function, rounds: int = ROUNDS) -> float:
    """Return the cost of an operation relative to its baseline: the ratio of medians of alternating runs."""
    for function in (ours, bare):
        function()  # compile, and touch the memory
    times = [[processor_seconds(function) for function in (ours, bare)] for _ in range(rounds)]
    mine, baseline = np.median(times, axis=0)
    return float(mine / baseline)


def regressions(measured: Mapping[str, float], committed: Mapping[str, float]) -> list[str]:
    """Return a sentence for each operation that is slower than allowed, or has no committed ratio."""
    found = []
    for name, value in measured.items():
        if name not in committed:
            found.append(f"{name} has no committed ratio: run python -m benchmarks.check --write")
        elif value > TOLERANCE * committed[name]:
            found.append(
                f"{name} costs {value:.2f} × its baseline, but {committed[name]:.2f} × is committed and at most "
                f"{TOLERANCE * committed[name]:.2f} × is allowed"
            )
    return found


def linear() -> dict[str, tuple[Function, Function]]:
    """Compare linear functions with the products that they need."""
    from benchmarks.run import nus_wide_shaped
    from dlfh import DLFH

    data = nus_wide_shaped(30_000)
    X, Y = data.modalities["image"], data.modalities["text"]
    model = DLFH(64, random_state=0, n_jobs=1, max_iter=5, hash_function="linear").fit(data.modalities, data.labels)
    again = DLFH(64, random_state=0, n_jobs=1, max_iter=5, hash_function="linear")
    W, V = (model.hash_functions_[name].weights for name in ("image", "text"))  # type: ignore[attr-defined]
    return {
        "linear fit": (lambda: again.fit(data.modalities, data.labels), lambda: (X.T @ X, (Y.T @ Y).toarray())),
        "encoding dense features": (partial(model.encode, "image", X), partial(matmul, X, W)),
        "encoding sparse features": (partial(model.encode, "text", Y), partial(matmul, Y, V)),
    }


def kernel() -> dict[str, tuple[Function, Function]]:
    """Compare kernel functions with the products that they need, in the same precision."""
    from benchmarks.run import nus_wide_shaped
    from dlfh import DLFH
    from dlfh.hashing import KernelRidge

    data = nus_wide_shaped(8192)
    X = data.modalities["image"]
    views, learner = {"image": X, "text": X[:, :8]}, KernelRidge(1000, precision="single")
    functions = {"image": learner, "text": KernelRidge(10)}
    model = DLFH(64, random_state=0, n_jobs=1, max_iter=5, hash_function=functions).fit(views, data.labels)
    function = model.hash_functions_["image"]
    bases, weights = function.kernel.bases.T, function.weights  # type: ignore[attr-defined]
    wide, points = bases.astype(np.float64), X.astype(np.float64)

    def products() -> None:
        for start in range(0, len(X), 4096):
            values = X[start : start + 4096] @ bases
            values.T @ values

    return {
        "kernel fit": (lambda: model.fit(views, data.labels), products),
        "kernel encoding": (partial(model.encode, "image", X), lambda: points @ wide @ weights),
    }


def searching() -> dict[str, tuple[Function, Function]]:
    """Compare exact search with faiss, MAP with the usual loop, and the imports of a search with NumPy's."""
    import faiss

    from dlfh.index import Index
    from dlfh.metrics import evaluate

    rng = np.random.default_rng(0)
    codes, queries = rng.integers(0, 256, (200_000, 8), np.uint8), rng.integers(0, 256, (50, 8), np.uint8)
    labels, asked = rng.integers(0, 20, 20_000), rng.integers(0, 20, 50)
    index, bare = Index(64, ["image"]), faiss.IndexBinaryFlat(64)
    index.add([str(number) for number in range(len(codes))], {"image": codes})
    bare.add(codes)
    faiss.omp_set_num_threads(1)
    signs = np.unpackbits(codes[:20_000], axis=1) * 2.0 - 1
    query_signs = np.unpackbits(queries, axis=1) * 2.0 - 1

    def usual_loop() -> list[float]:
        found = []
        for query, label in zip(query_signs, asked, strict=True):
            ranked = (labels == label)[np.argsort(-(signs @ query), kind="stable")]
            ranks = np.flatnonzero(ranked) + 1
            found.append(float(np.mean(np.arange(1, len(ranks) + 1) / ranks)))
        return found

    # The first run writes the compiled modules.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def imported(program: str) -> Function:
        return lambda: subprocess.run([sys.executable, "-c", program], check=True, env=environment)

    return {
        "exact search": (partial(index.search, "image", queries, 10), partial(bare.search, queries, 10)),
        "MAP": (lambda: evaluate(queries, codes[:20_000], asked, labels, n_jobs=1), usual_loop),
        "importing Collection": (imported("from dlfh import Collection"), imported("import numpy")),
    }


GROUPS = (linear, kernel, searching)


def measure(committed: Mapping[str, float]) -> dict[str, float]:
    """Return the ratio of each operation; one beyond its limit is measured twice more, and the best counts."""
    found = {}
    for group in GROUPS:
        for name, (ours, bare) in group().items():
            found[name] = ratio(ours, bare)
            for _ in range(2 if regressions({name: found[name]}, committed) and name in committed else 0):
                found[name] = min(found[name], ratio(ours, bare))
            print(f"{name}: {found[name]:.2f} × (committed {committed.get(name, float('nan')):.2f})", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="write the measured ratios to benchmarks/ratios.json")
    options = parser.parse_args()
    committed: dict[str, float] = json.loads(RATIOS.read_text()) if RATIOS.exists() else {}
    measured = measure({} if options.write else committed)
    if options.write:
        RATIOS.write_text(json.dumps({name: round(value, 3) for name, value in measured.items()}, indent=1) + "\n")
        return 0
    failures = regressions(measured, committed)
    for failure in failures:
        print(f"bench-check: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
