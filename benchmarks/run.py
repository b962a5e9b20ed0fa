"""Speed and memory, as ratios measured side by side in one run.

python -m benchmarks.run fit          # compared with the Gram matrices and the transcription
python -m benchmarks.run recommended  # the defaults, and KDLFH
python -m benchmarks.run pointwise    # the paper's algorithm, compared with the transcription
python -m benchmarks.run growth       # time and memory at 10k, 100k and 1M points
python -m benchmarks.run map          # MAP, compared with a plain loop
python -m benchmarks.run encode       # encoding, compared with the bare matrix product
python -m benchmarks.run holes        # three modalities and two; pairwise similarities
python -m benchmarks.run compile      # time of the first compilation
python -m benchmarks.run all --write docs/performance.md
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from operator import matmul
from pathlib import Path

import numpy as np

from benchmarks.report import fill, machine
from dlfh import DLFH, KDLFH
from dlfh._factorization import paper
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.solver import LabelRows, factorize, random_start
from dlfh._labels import LabelSets
from dlfh._mathematics.classifiers import LOGISTIC, Classifiers, Fit
from dlfh._parallel import Workers
from dlfh.codes import unpack
from dlfh.datasets import Paired, make_paired
from dlfh.hashing.feature_maps import fit_kernel
from dlfh.hashing.kernel import KernelHash
from dlfh.hashing.linear import LinearHash
from dlfh.metrics import evaluate

NUS_WIDE_POINTS = 184_710


def nus_wide_shaped(n_points: int = NUS_WIDE_POINTS) -> Paired:
    """Generate data of NUS-WIDE's shape: 500-D dense, 1000-D with 7 words per point, 10 labels, 700 label sets."""
    return make_paired(n_points, n_labels=10, n_label_sets=700, image_features=500, text_features=1000, random_state=0)


def seconds(function: Callable[[], object]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def interleaved(*functions: Callable[[], object], rounds: int = 5) -> list[float]:
    """Time functions alternately, so that noise affects all alike; return their medians."""
    for function in functions:
        function()  # compile, and touch the memory
    times = [[seconds(function) for function in functions] for _ in range(rounds)]
    return [float(median) for median in np.median(times, axis=0)]


def transcription_seconds(labels: np.ndarray, n_bits: int, max_iter: int, timed_points: int) -> float:
    """Time one iteration on the first points and scale it linearly to all points and iterations."""
    subset = labels[:timed_points].astype(np.float64)
    rng = np.random.default_rng(0)
    U, V = np.where(rng.random((2, len(subset), n_bits)) < 0.5, -1.0, 1.0)

    def iterate() -> None:
        for codes, others in ((U, V), (V, U)):
            sampled = rng.choice(len(subset), n_bits, replace=False)
            paper.update(codes, others[sampled], (subset @ subset[sampled].T > 0).astype(np.float64), 8.0)

    return min(seconds(iterate) for _ in range(2)) * max_iter * len(labels) / len(subset)


def bench_fit() -> list[tuple[str, str]]:
    data = nus_wide_shaped()
    X, Y = data.modalities["image"], data.modalities["text"]

    def gram_matrices() -> None:
        X.T @ X
        (Y.T @ Y).toarray()

    model = DLFH(64, random_state=0, hash_function="linear")
    floor, fit = interleaved(gram_matrices, lambda: model.fit(data.modalities, data.labels))
    plain = transcription_seconds(data.labels.toarray(), 64, 30, timed_points=20_000)
    return [
        ("the two Gram matrices alone (NumPy and SciPy, float32)", f"{floor:.2f} s"),
        ("fit: 184,710 points, 64 bits, linear functions", f"{fit:.2f} s"),
        ("**whole fit, linear functions, against the two Gram matrices alone**", f"**{fit / floor:.2f} ×**"),
        (
            "transcription of the paper's loop (T = 30, m = 64), code learning alone, from 20,000 points",
            f"{plain:.0f} s",
        ),
        ("**NumPy transcription of the paper's loop, against the whole fit**", f"**{plain / fit:.0f} ×**"),
    ]


def bench_recommended() -> list[tuple[str, str]]:
    """Time the defaults and KDLFH alternately, after a small fit that compiles everything."""
    few, data = nus_wide_shaped(2000), nus_wide_shaped()

    def fit(method: type[DLFH | KDLFH], points: Paired) -> None:
        method(64, random_state=0).fit(points.modalities, points.labels)

    for method in (DLFH, KDLFH):
        fit(method, few)
    times = [[seconds(partial(fit, method, data)) for method in (DLFH, KDLFH)] for _ in range(2)]
    ours, kernel = map(float, np.median(times, axis=0))
    return [
        ("`DLFH(64)`: functions tried on 5,000 points, the best ones fitted to all 184,710", f"{ours:.1f} s"),
        ("`KDLFH(64)`, kernel logistic functions with 500 bases", f"{kernel:.1f} s"),
        ("**the defaults (2,000 bases) end to end, against KDLFH (500)**", f"**{ours / kernel:.2f} ×**"),
    ]


def bench_pointwise() -> list[tuple[str, str]]:
    labels = make_paired(20_000, n_labels=24, n_label_sets=2000, random_state=0).labels.toarray()
    sets = LabelSets.from_labels(labels)
    rows = LabelRows.of_points(sets)

    def ours() -> None:
        rng = np.random.default_rng(0)
        with Workers() as workers:
            factorize(
                LatentFactorModel(64, 8.0),
                rows,
                random_start(len(rows), 2, 64, rng),
                max_iter=30,
                sample_size=64,
                rng=rng,
                workers=workers,
            )

    (fast,) = interleaved(ours)
    plain = transcription_seconds(labels, 64, 30, timed_points=20_000)
    return [
        (
            "transcription of the paper's loop, 20,000 points, T = 30, m = c = 64 (one iteration timed)",
            f"{plain:.1f} s",
        ),
        ('`init="random"`, the same setting, code learning alone', f"{fast:.2f} s"),
        (
            "**the same transcription, against ours in the paper's own point-wise setting, 20,000 points**",
            f"**{plain / fast:.0f} ×**",
        ),
    ]


GROWTH = """
import sys, time
from benchmarks.run import DLFH, make_paired, nus_wide_shaped

def peak():
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

small = make_paired(2000, random_state=0)
DLFH(64, hash_function="linear").fit(small.modalities, small.labels)  # compile, load libraries
data = nus_wide_shaped(int(sys.argv[1]))
X, Y, L = data.modalities["image"], data.modalities["text"], data.labels
size = sum(a.nbytes for a in (X, Y.data, Y.indices, Y.indptr, L.data, L.indices, L.indptr)) / 2**20
open("/proc/self/clear_refs", "w").write("5")  # peak memory starts anew
began = time.perf_counter()
DLFH(64, random_state=0, hash_function="linear").fit(data.modalities, data.labels)
print(time.perf_counter() - began, size, peak())
"""


def bench_growth() -> list[tuple[str, str]]:
    if not Path("/proc/self/clear_refs").exists():
        return [("growth", "needs Linux, to measure peak memory")]
    rows = []
    for n_points in (10_000, 100_000, 1_000_000):
        command = [sys.executable, "-c", GROWTH, str(n_points)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        spent, size, peak = map(float, printed.split())
        allowed = 1.3 * size + 300
        rows.append(
            (
                f"{n_points:,} points",
                f"{spent:.2f} s, {1e6 * spent / n_points:.1f} µs a point; input {size:,.0f} MB, peak {peak:,.0f} MB "
                f"in all = {peak / allowed:.2f} × (1.3 × input + 300 MB)",
            )
        )
    return rows


def bench_map() -> list[tuple[str, str]]:
    rng = np.random.default_rng(0)
    data = make_paired(102_000, n_labels=24, n_label_sets=1000, image_features=1, random_state=0)
    labels = data.labels.toarray()
    query_labels, item_labels = labels[:2000], labels[2000:]
    queries, items = rng.integers(0, 256, (2000, 8), np.uint8), rng.integers(0, 256, (100_000, 8), np.uint8)
    query_signs = unpack(queries, 64).astype(np.float64)
    item_signs = unpack(items, 64).astype(np.float64)
    # Double precision, as np.sign and MATLAB files give it.
    query_floats, item_floats = query_labels.astype(np.float64), item_labels.astype(np.float64)
    timed = 100

    def usual_loop() -> np.ndarray:
        values = []
        for i in range(timed):
            distances = 0.5 * (64 - query_signs[i] @ item_signs.T)
            relevant = (item_floats @ query_floats[i]) > 0
            ranked = relevant[np.argsort(distances, kind="stable")]
            ranks = np.flatnonzero(ranked) + 1
            values.append(np.mean(np.arange(1, len(ranks) + 1) / ranks))
        return np.array(values)

    def ours() -> np.ndarray:
        return evaluate(queries, items, query_labels, item_labels).per_query["AP"]

    difference = float(np.abs(usual_loop() - ours()[:timed]).max())
    projections = rng.standard_normal((2000, 64), dtype=np.float32)
    loop, fast, asymmetric = interleaved(
        usual_loop, ours, lambda: evaluate(projections, items, query_labels, item_labels)
    )
    loop *= len(queries) / timed
    return [
        (
            "the usual loop: matrix product, stable argsort, 2,000 queries × 100,000 codes (100 queries timed)",
            f"{loop:.1f} s",
        ),
        ("`mean_average_precision`, Hamming", f"{fast:.2f} s"),
        ("**the usual MAP loop, against ours**", f"**{loop / fast:.0f} ×**, largest difference {difference:.0e}"),
        ("`mean_average_precision`, asymmetric", f"{asymmetric:.2f} s"),
    ]


def bench_encode() -> list[tuple[str, str]]:
    data = nus_wide_shaped()
    rows = []
    model = DLFH(64, random_state=0, max_iter=5, hash_function="linear").fit(data.modalities, data.labels)
    for name, kind in (("image", "dense, 500-D"), ("text", "sparse, 1000-D")):
        features = data.modalities[name]
        function = model.hash_functions_[name]
        assert isinstance(function, LinearHash)
        product, encode = interleaved(
            partial(matmul, features, function.weights), partial(model.encode, name, features)
        )
        rows.append((f"bare matrix product, 184,710 points, {kind}, 64 bits", f"{product:.3f} s"))
        rows.append((f"`encode`, {kind}", f"{encode:.3f} s"))
        rows.append((f"**speed of `encode`, against the bare product: {kind}**", f"**{product / encode:.2f}**"))
    return rows + kernel_encode_rows()


def kernel_encode_rows() -> list[tuple[str, str]]:
    """Time encoding with 500 kernel bases, and the two products it needs, in the same precision."""
    data = nus_wide_shaped(40_000)
    features = data.modalities["image"]
    model = DLFH(64, random_state=0, hash_function="kernel-ridge").fit(data.modalities, data.labels)
    function = model.hash_functions_["image"]
    assert isinstance(function, KernelHash)
    bases = function.kernel.bases.astype(np.float64).T
    points = features.astype(np.float64)
    product, encode = interleaved(
        lambda: points @ bases @ function.weights, lambda: model.encode("image", features), rounds=3
    )
    what = "kernel, 500 bases, 500-D"
    return [
        (f"bare matrix products, double precision, 40,000 points, {what}, 64 bits", f"{product:.3f} s"),
        (f"`encode`, {what}", f"{encode:.3f} s"),
        (f"**speed of `encode`, against the bare products: {what}**", f"**{product / encode:.2f}**"),
    ]


def bench_kernel() -> list[tuple[str, str]]:
    from sklearn.linear_model import LogisticRegression

    data = make_paired(20_000, n_labels=10, n_label_sets=700, image_features=128, random_state=0)
    X = data.modalities["image"]
    model = DLFH(32, random_state=0, hash_function="linear").fit(data.modalities, data.labels)
    signs = unpack(model.codes_["image"], 32)
    penalty, timed_bits = 0.01, 2
    with Workers() as workers:
        kernel = fit_kernel(X, 500, 0, "image")
        K0 = kernel.between_bases()
        K = kernel(X)
        single = K.astype(np.float32)

        def ours() -> Fit:
            return Classifiers(lambda: iter([(0, len(single), single)]), K0, penalty, LOGISTIC, workers).solve(signs)

        # The penalty w'K0 w is an ordinary ridge on the features K L^-T, where K0 = LL'.
        root = np.linalg.cholesky(K0 + 1e-9 * np.eye(len(K0)))
        features = np.linalg.solve(root, K.T).T
        objectives: list[float] = []

        def bit_by_bit() -> None:
            objectives.clear()
            for k in range(timed_bits):
                regression = LogisticRegression(C=1 / (2 * penalty), fit_intercept=False, tol=1e-7, max_iter=20_000)
                regression.fit(features, signs[:, k])
                w = regression.coef_[0]
                loss = np.logaddexp(0, -signs[:, k] * (features @ w)).sum()
                objectives.append(loss + penalty * w @ w)

        fast, slow = interleaved(ours, bit_by_bit, rounds=2)
        solution = ours()
    slow *= signs.shape[1] / timed_bits
    worst = float(np.max(solution.objective[:timed_bits] / np.array(objectives) - 1))
    rows = [
        ("scikit-learn's LogisticRegression, 20,000 points, 500 bases, 32 bits, from 2 bits", f"{slow:.1f} s"),
        ("the joint solver, the same kernel values and objective", f"{fast:.2f} s"),
        (
            "**scikit-learn bit by bit, against the joint kernel logistic solver**",
            f"**{slow / fast:.0f} ×**, its objective at most {worst:+.0e} above",
        ),
    ]
    if Path("/proc/self/clear_refs").exists():
        command = [sys.executable, "-c", KERNEL_FIT]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        spent, peak = map(float, printed.split())
        what = "KDLFH on data of NUS-WIDE's shape (184,710 points), 64 bits, both modalities"
        rows.append((what, f"{spent:.0f} s, peak {peak:,.0f} MB in all"))
    return rows


KERNEL_FIT = """
import time
from benchmarks.run import make_paired, nus_wide_shaped
from dlfh import KDLFH
small = make_paired(2000, random_state=0)
KDLFH(64).fit(small.modalities, small.labels)
data = nus_wide_shaped()
open("/proc/self/clear_refs", "w").write("5")
began = time.perf_counter()
KDLFH(64, random_state=0).fit(data.modalities, data.labels)
spent = time.perf_counter() - began
print(spent, int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) / 1024)
"""


OBSERVED = """
import sys, time
import numpy as np, scipy.sparse as sp
from benchmarks.run import DLFH, make_paired

def peak():
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

def observed(data, share):
    n, rng = len(data), np.random.default_rng(0)
    keys = np.unique(rng.integers(0, n * n, int(share * n * n)))
    rows, columns = keys // n, keys % n
    labels = data.labels.astype(np.int32)
    similar = np.empty(len(keys), np.int8)
    for start in range(0, len(keys), 1 << 18):
        part = slice(start, start + (1 << 18))
        similar[part] = labels[rows[part]].multiply(labels[columns[part]]).sum(axis=1) > 0
    return sp.csr_array((similar, (rows.astype(np.int32), columns.astype(np.int32))), shape=(n, n))

def shape(n):
    return make_paired(n, n_labels=10, n_label_sets=700, image_features=50, text_features=100, random_state=0)

small = shape(500)
for solver in ("full", "stochastic"):
    DLFH(64, solver=solver, hash_function="linear").fit(small.modalities, similarity=observed(small, 0.1))  # compile
data = shape(20_000)
S = observed(data, float(sys.argv[1]))
open("/proc/self/clear_refs", "w").write("5")  # peak memory starts anew
for solver, max_iter in (("full", 5), ("stochastic", 100)):
    began = time.perf_counter()
    model = DLFH(64, solver=solver, max_iter=max_iter, random_state=0, hash_function="linear")
    model.fit(data.modalities, similarity=S)
    print(time.perf_counter() - began)
print(S.nnz)
print(peak())
"""


def bench_holes() -> list[tuple[str, str]]:
    """Time three modalities, two modalities, and pairwise similarities."""
    data = nus_wide_shaped(50_000)
    X = data.modalities["image"]
    three = data.modalities | {"sound": np.ascontiguousarray(X[:, ::-1])}
    two = {"image": X, "sound": three["sound"]}
    rows = []
    for what, parameters in (("", {}), (', `init="random"`', {"init": "random", "max_iter": 10})):

        def fit(modalities: dict[str, object], parameters: dict[str, object] = parameters) -> None:
            DLFH(64, random_state=0, hash_function="linear", **parameters).fit(modalities, data.labels)  # type: ignore[arg-type]

        pair, triple = interleaved(lambda: fit(two), lambda: fit(three), rounds=3)
        rows.append((f"fit of two modalities, 50,000 points{what}", f"{pair:.2f} s"))
        rows.append((f"**fit of three modalities, against two{what}**", f"**{triple / pair:.2f} ×**"))
    if not Path("/proc/self/clear_refs").exists():
        return rows
    for share in (0.005, 0.01, 0.02):
        command = [sys.executable, "-c", OBSERVED, str(share)]
        printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        full, stochastic, entries, peak = map(float, printed.split())
        rows.append(
            (
                f"similarities of 20,000 points, {share:.1%} observed",
                f"full, 5 iterations: {full:.2f} s, {1e9 * full / entries / 5:.0f} ns an entry and iteration; "
                f"stochastic, 100 iterations: {stochastic:.2f} s; peak {peak:,.0f} MB in all",
            )
        )
    return rows


COMPILE = """
import time
from dlfh import DLFH, _compile
from dlfh.datasets import make_paired
from dlfh.metrics import mean_average_precision
spent, real = [], _compile.Kernel._compile
def timed(self, types):
    began = time.perf_counter()
    real(self, types)
    spent.append(time.perf_counter() - began)
_compile.Kernel._compile = timed
data = make_paired(300, random_state=0)
model = DLFH(16, random_state=0, n_jobs=1, hash_function="linear").fit(data.modalities, data.labels)
codes = model.encode("image", data.modalities["image"])
mean_average_precision(codes, model.codes_["text"], data.labels, data.labels, n_jobs=1)
projections = model.project("text", data.modalities["text"])
mean_average_precision(projections, codes, data.labels, data.labels, n_jobs=1)
print(sum(spent))
"""


def bench_compile() -> list[tuple[str, str]]:
    with tempfile.TemporaryDirectory() as cache:
        environment = os.environ | {"NUMBA_CACHE_DIR": cache}
        runs = [
            float(subprocess.run([sys.executable, "-c", COMPILE], env=environment, check=True, stdout=-1).stdout)
            for _ in range(2)
        ]
    return [
        ("compiling all that fit, encode and both rankings need, nothing cached", f"{runs[0]:.1f} s"),
        ("loading the same from the cache", f"{runs[1]:.2f} s"),
    ]


BENCHMARKS = {
    "fit": bench_fit,
    "recommended": bench_recommended,
    "pointwise": bench_pointwise,
    "growth": bench_growth,
    "map": bench_map,
    "encode": bench_encode,
    "kernel": bench_kernel,
    "holes": bench_holes,
    "compile": bench_compile,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=(*BENCHMARKS, "all"))
    parser.add_argument("--write", type=Path, help="document to write the tables to")
    options = parser.parse_args()
    tables = {"machine": machine()}
    print(tables["machine"])
    for name in BENCHMARKS if options.which == "all" else [options.which]:
        lines = BENCHMARKS[name]()
        tables[name] = "\n".join(
            ["| measurement | result |", "|---|---|", *(f"| {what} | {value} |" for what, value in lines)]
        )
        print(f"\n{name}\n" + "\n".join(f"  {what}: {value}" for what, value in lines).replace("**", ""), flush=True)
    if options.write:
        fill(options.write, tables)


if __name__ == "__main__":
    main()
