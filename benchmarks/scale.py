"""Time, peak memory and MAP by size of the data, each measured in a separate process.

python -m benchmarks.scale wide      # 200,000 texts of a million words
python -m benchmarks.scale arriving  # ten parts, one fit, and LEMON (DLFH_DATA)
python -m benchmarks.scale growth    # 1, 3 and 10 million points in files of up to 12 GB, in DLFH_SCRATCH
python -m benchmarks.scale functions # every kind of hash function, in memory and in blocks
python -m benchmarks.scale workers   # two workers, compared with one
python -m benchmarks.scale sets      # one label set per point, partitioned and in memory
python -m benchmarks.scale logistic  # KDLFH in memory, in blocks, and on two workers (DLFH_DATA)
python -m benchmarks.scale collections  # 100,000, 1 and 10 million texts; about 10 GB in DLFH_SCRATCH
python -m benchmarks.scale equal     # 1,000 searches, compared with exhaustive comparison
python -m benchmarks.scale codes     # an index of 1, 10 and 100 million codes, beside faiss; 3 GB in DLFH_SCRATCH
python -m benchmarks.scale all --write docs/scale.md
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.report import fill, machine
from dlfh import DLFH, KDLFH
from dlfh.blocks import open_blocks
from dlfh.datasets import make_paired
from dlfh.metrics import mean_average_precision

Rows = list[tuple[str, ...]]


def peak_mb() -> float:
    """Return the peak resident memory of this process in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmHWM:")[1].split()[0]) / 1000


def reset_peak_mb() -> float:
    """Reset the peak and return the current resident memory."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    return peak_mb()


def in_process(measure: str, **arguments: Any) -> dict[str, Any]:
    """Run a function of this module in a separate process, with a separate peak; return its result."""
    command = [sys.executable, "-m", "benchmarks.scale", "--measure", measure, "--arguments", json.dumps(arguments)]
    began = time.perf_counter()
    report_progress(f"{measure} {arguments} ...")
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    report_progress(f"{measure} took {time.perf_counter() - began:.0f} s: {found}")
    return found


def report_progress(progress: str) -> None:
    """Report progress."""
    print(progress, file=sys.stderr, flush=True)


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a temporary folder for large files, in DLFH_SCRATCH if it is set."""
    with tempfile.TemporaryDirectory(dir=os.environ.get("DLFH_SCRATCH")) as folder:
        yield Path(folder)


# Wide text


def texts(n_points: int, n_words: int, n_classes: int = 20, length: int = 30) -> tuple[Any, Any, Any]:
    """Return texts as counts, matching vectors, and classes; word frequencies follow Zipf's law.

    A third of a text's words belong to its class only, with the same distribution.
    """
    rng = np.random.default_rng(0)
    classes = rng.integers(n_classes, size=n_points)
    running = np.cumsum(1 / np.arange(1, n_words + 1))
    drawn = np.searchsorted(running, rng.random((n_points, length), np.float32) * running[-1]).clip(0, n_words - 1)
    by_class = rng.random(drawn.shape) < 1 / 3
    drawn[by_class] = (drawn[by_class] * 7919 + (1 + classes[np.nonzero(by_class)[0]]) * 104729) % n_words
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
    """Fit and encode texts; return times, peak memory, and MAP of text queries for unseen images."""
    from dlfh._mathematics import ridge

    if largest_matrix is not None:
        ridge._LARGEST_MATRIX = largest_matrix
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


def bench_wide(share: float) -> Rows:
    header = (
        "texts, vocabulary (words that occur)",
        "hash functions",
        "solved by",
        "fit",
        "peak memory",
        "MAP, unseen",
    )
    rows: Rows = [header]
    for n_points, n_words, function, largest in (
        (200_000, 1_000_000, "auto", None),
        (200_000, 1_000_000, "linear", None),
        (6_000, 100_000, "linear", None),
        (6_000, 100_000, "linear", 0),
    ):
        n_points, n_words = int(share * n_points), int(share * n_words)
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


# Points that go on arriving


def measure_arriving(method: str, n_parts: int, seed: int) -> dict[str, Any]:
    """Learn IAPR TC-12 at once or in parts; return times and MAP of unseen queries."""
    from dlfh.datasets import load_dataset
    from dlfh.methods import LEMON

    warnings.simplefilter("ignore")  # of queries that are alike
    data = load_dataset("iapr-tc12", Path(os.environ["DLFH_DATA"]) / "iapr_tc12.npz", random_state=seed)
    train, test = data.train, data.queries
    names = list(train.modalities)[:2]
    train_data = {name: train.modalities[name] for name in names}
    bounds = np.linspace(0, len(train), n_parts + 1).astype(int).tolist()
    if method == "LEMON":
        model: Any = LEMON(64, random_state=seed)
    else:
        model = DLFH(64, hash_function="linear", keep_sums=True, random_state=seed)
    times: list[float] = []
    before: dict[str, Any] = {}
    for start, stop in itertools.pairwise(bounds):
        part = {name: matrix[start:stop] for name, matrix in train_data.items()}
        began = time.process_time()
        model.partial_fit(part, train.labels[start:stop])
        times.append(time.process_time() - began)
        for name, codes in before.items():
            assert np.array_equal(model.codes_[name][: len(codes)], codes), "old codes have changed"
        before = dict(model.codes_)
    found = {"seconds": sum(times), "last": times[-1]}
    for asking, asked in (names, names[::-1]):
        queries = model.encode(asking, test.modalities[asking])
        hashed = model.encode(asked, test.modalities[asked])
        found[f"{asking} unseen"] = mean_average_precision(queries, hashed, test.labels, test.labels)
        found[f"{asking} learned"] = mean_average_precision(queries, model.codes_[asked], test.labels, train.labels)
    return found | {"names": names}


def bench_arriving(_: float) -> Rows:
    rows: Rows = []
    for method, n_parts in (("DLFH", 1), ("DLFH", 10), ("LEMON", 10)):
        found = [in_process("arriving", method=method, n_parts=n_parts, seed=seed) for seed in range(3)]
        image, text = found[0]["names"]

        def mean(key: str, found: list[dict[str, Any]] = found) -> float:
            return float(np.mean([run[key] for run in found]))

        if not rows:
            asking = (f"{image}→{text}", f"{text}→{image}")
            rows.append(
                (
                    "IAPR TC-12, 64 bits, mean of 3 splits",
                    "total processor time",
                    "last part",
                    *(f"MAP {way}, {database}" for database in ("unseen", "learned") for way in asking),
                )
            )
        rows.append(
            (
                f"{method}, " + ("one fit" if n_parts == 1 else f"{n_parts} parts"),
                f"{mean('seconds'):.1f} s",
                f"{mean('last'):.1f} s",
                *(f"{mean(f'{name} {kind}'):.4f}" for kind in ("unseen", "learned") for name in (image, text)),
            )
        )
    return rows


# Growth


def write_growing(folder: Path, n_points: int) -> None:
    """Write points to files by repeating a generated block of 64,000."""
    report_progress(f"writing {n_points:,} points ...")
    from dlfh.datasets import write_arrays

    data = make_paired(64_000, n_labels=10, n_label_sets=700, image_features=500, text_features=1000, random_state=0)
    image, labels = data.modalities["image"].astype(np.float16), data.labels.toarray().astype(np.int8)
    (folder / "text.parquet").mkdir(parents=True)
    write_arrays(folder / "block.parquet", {"text": data.modalities["text"]})
    files = {
        name: np.lib.format.open_memmap(folder / f"{name}.npy", "w+", block.dtype, (n_points, block.shape[1]))
        for name, block in (("image", image), ("labels", labels))
    }
    for number, start in enumerate(range(0, n_points, 64_000)):
        n = min(64_000, n_points - start)
        files["image"][start : start + n], files["labels"][start : start + n] = image[:n], labels[:n]
        part = folder / "text.parquet" / f"{number:06}.parquet"
        if n == 64_000:
            os.link(folder / "block.parquet", part)
        else:
            write_arrays(part, {"text": data.modalities["text"][:n]})


def open_growing(folder: Path) -> tuple[dict[str, Any], Any]:
    names = {"image": "image.npy", "text": "text.parquet"}
    return {name: open_blocks(folder / file) for name, file in names.items()}, open_blocks(folder / "labels.npy")


def measure_growth(folder: str) -> dict[str, Any]:
    """Fit and encode the data in files."""
    features, labels = open_growing(Path(folder))
    began = time.perf_counter()
    model = DLFH(64, hash_function="linear", random_state=0).fit(features, labels)
    fitted = time.perf_counter() - began
    n_encoded = 0
    for number in range(features["image"].n_blocks):
        n_encoded += len(model.encode("image", features["image"].read(number)))
    assert n_encoded == len(features["image"])
    return {"fit": fitted, "encode": time.perf_counter() - began - fitted, "peak": peak_mb()}


def measure_bare(folder: str) -> dict[str, Any]:
    """Read the same blocks and compute only the two products that every fit needs."""
    features, _ = open_growing(Path(folder))
    began = time.perf_counter()
    gram: Any = np.zeros((500, 500), np.float32)
    for _, (block,) in features["image"].read_ahead():
        for start in range(0, len(block), 4096):
            rows = block[start : start + 4096].astype(np.float32)
            gram += rows.T @ rows
    words: Any = 0
    for _, (block,) in features["text"].read_ahead():
        words = words + (block.T @ block).toarray()
    return {"bare": time.perf_counter() - began}


def bench_growth(share: float) -> Rows:
    billion = "a billion points at this rate"
    rows: Rows = [
        ("points", "fit", "fit per million points", "bare", "bare / fit", "encode images", "peak memory", billion)
    ]
    for size in (1_000_000, 3_000_000, 10_000_000):
        n_points = int(share * size)
        with scratch() as folder:
            write_growing(folder, n_points)
            bare = in_process("bare", folder=str(folder))["bare"]
            run = in_process("growth", folder=str(folder))
        rows.append(
            (
                f"{n_points:,}",
                f"{run['fit']:.1f} s",
                f"{run['fit'] / n_points * 1e6:.2f} s",
                f"{bare:.1f} s",
                f"{bare / run['fit']:.2f}",
                f"{run['encode']:.1f} s",
                f"{run['peak']:,.0f} MB",
                f"{run['fit'] / n_points * 1e9 / 3600:.1f} h",
            )
        )
    return rows


# Hash functions by blocks


def measure_functions(folder: str, model: str, by_blocks: bool) -> dict[str, Any]:
    """Fit one kind of hash function to files, in memory or in blocks, and encode a part."""
    features, labels = open_growing(Path(folder))
    known: dict[str, Any] = {"DLFH": DLFH(64, hash_function="linear", random_state=0)}
    known |= {"DLFH, kernel ridge": DLFH(64, hash_function="kernel-ridge", random_state=0)}
    known |= {"DLFH, defaults": DLFH(64, random_state=0), "KDLFH": KDLFH(64, random_state=0)}
    given: Any = features
    if not by_blocks:
        texts = sp.csr_array(sp.vstack([block for _, (block,) in features["text"].read_ahead()]))
        given, labels = {"image": np.asarray(features["image"]), "text": texts}, np.asarray(labels)
    before = reset_peak_mb()
    began = time.perf_counter()
    fitted = known[model].fit(given, labels)
    seconds = time.perf_counter() - began
    codes = np.concatenate([fitted.encode(name, blocks.read(0)[:5000]) for name, blocks in features.items()])
    return {"seconds": seconds, "grown": peak_mb() - before, "codes": codes.tobytes().hex()}


def bench_functions(share: float) -> Rows:
    n_points = int(share * 200_000)
    rows: Rows = [
        (
            f"{n_points:,} points, 64 bits",
            "fit in memory",
            "fit by blocks",
            "additional memory of the fit in memory",
            "total memory of the fit by blocks",
            "equal bits in 10,000 encoded points",
        )
    ]
    with scratch() as folder:
        write_growing(folder / "all", n_points)
        for model in ("DLFH", "DLFH, kernel ridge", "DLFH, defaults", "KDLFH"):
            whole, ours = (
                in_process("functions", folder=str(folder / "all"), model=model, by_blocks=by_blocks)
                for by_blocks in (False, True)
            )
            bits = (np.unpackbits(np.frombuffer(bytes.fromhex(run["codes"]), np.uint8)) for run in (whole, ours))
            rows.append(
                (
                    model,
                    f"{whole['seconds']:.1f} s",
                    f"{ours['seconds']:.1f} s",
                    f"{whole['grown']:,.0f} MB",
                    f"{ours['grown']:,.0f} MB",
                    f"{100 * np.mean(np.equal(*bits)):.3f} %",
                )
            )
    return rows


# Workers


def local_cluster(n_workers: int) -> Any:
    """Start a cluster of processes on this machine, one thread each."""
    distributed: Any = importlib.import_module("distributed")
    return distributed.LocalCluster(
        n_workers=n_workers, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    )


def measure_workers(n_workers: int, folder: str, small: str) -> dict[str, Any]:
    """Fit on a local cluster; return the peak memory of the process of client and scheduler."""
    distributed: Any = importlib.import_module("distributed")
    with local_cluster(n_workers) as cluster, distributed.Client(cluster):
        for source in (small, folder):  # first, workers import and compile
            features, labels = open_growing(Path(source))
            before = reset_peak_mb()
            began = time.perf_counter()
            DLFH(64, hash_function="linear", random_state=0).fit(features, labels)
            seconds = time.perf_counter() - began
        return {"seconds": seconds, "grown": peak_mb() - before}


def bench_workers(share: float) -> Rows:
    n_points = int(share * 3_000_000)
    with scratch() as folder:
        write_growing(folder / "all", n_points)
        write_growing(folder / "small", 128_000)
        places = {"folder": str(folder / "all"), "small": str(folder / "small")}
        found = {n: in_process("workers", n_workers=n, **places) for n in (1, 2)}
    rows: Rows = [
        (
            "workers (one thread each)",
            f"fit of {n_points:,} points",
            "against one",
            "peak additional memory of client and scheduler",
        )
    ]
    for number, run in found.items():
        ratio = found[1]["seconds"] / run["seconds"]
        rows.append((str(number), f"{run['seconds']:.1f} s", f"{ratio:.2f} ×", f"{run['grown']:.1f} MB"))
    return rows


# Many label sets


def measure_sets(n_points: int) -> dict[str, Any]:
    """Fit with nearly one label set per point, of 291 labels: in memory, and partitioned on a cluster."""
    distributed: Any = importlib.import_module("distributed")
    from dlfh._labels import LabelSets
    from dlfh.methods.code_learning import CodeLearning

    rng = np.random.default_rng(0)
    labels = np.zeros((n_points, 291), np.int8)
    labels[np.arange(n_points), rng.integers(291, size=n_points)] = 1
    for start in range(0, n_points, 10_000):
        part = labels[start : start + 10_000]
        part |= rng.random(part.shape, np.float32) < 0.015
    vectors = rng.standard_normal((n_points, 32), np.float32)
    parts: list[Any] = []
    learn_in_parts = CodeLearning.learn_in_parts

    def kept(*arguments: Any) -> Any:
        parts.append(learn_in_parts(*arguments))
        return parts[-1]

    CodeLearning.learn_in_parts = kept  # type: ignore[assignment, method-assign]

    def fit(features: Any, indicators: Any) -> tuple[DLFH, float]:
        began = time.perf_counter()
        model = DLFH(64, hash_function="linear", random_state=0).fit({"a": features, "b": features}, indicators)
        return model, time.perf_counter() - began

    fit(vectors[:5000], labels[:5000])  # compiles
    whole, in_memory = fit(vectors, labels)
    with scratch() as folder, local_cluster(2) as cluster, distributed.Client(cluster):
        np.save(folder / "labels.npy", labels)
        np.save(folder / "vectors.npy", vectors)
        x, y = (
            open_blocks(folder / name).on_cluster().result().rechunk((20_000, -1))
            for name in ("vectors.npy", "labels.npy")
        )
        fit(x[:5000], y[:5000])  # workers import
        ours, in_parts = fit(x, y)
        equal = all(np.array_equal(np.asarray(ours.codes_[name]), whole.codes_[name]) for name in "ab")
    (learned, _), *more = parts
    assert not more, "the small fit was in parts, too"
    return {
        "sets": LabelSets.from_labels(labels).n_sets,
        "memory": in_memory,
        "parts": in_parts,
        "received": max(learned.received),
        "iterations": len(learned.received),
        "equal": equal,
    }


def bench_sets(share: float) -> Rows:
    n_points = int(share * 200_000)
    found = in_process("sets", n_points=n_points)
    header = (
        "points, 291 labels, 64 bits",
        "label sets",
        "fit in memory, 2 threads",
        "fit in parts, 2 workers",
        "codes",
        "sent to each part per iteration",
    )
    row = (
        f"{n_points:,}",
        f"{found['sets']:,}",
        f"{found['memory']:.1f} s",
        f"{found['parts']:.1f} s",
        "equal" if found["equal"] else "**not equal**",
        f"{found['received'] / 1000:,.0f} KB",
    )
    return [header, row]


# Kernel logistic functions


def measure_logistic(way: str, share: float, folder: str) -> dict[str, Any]:
    """Fit KDLFH to IAPR TC-12; return times, the number of sums over the points, and MAP of unseen points.

    The codes remain in the folder.
    """
    from dlfh import KDLFH
    from dlfh._mathematics.classifiers import Classifiers
    from dlfh.blocks.base import ArrayBlocks
    from dlfh.datasets import load_dataset
    from dlfh.hashing import KernelLogistic
    from dlfh.hashing.kernel_rows import KernelRows

    warnings.simplefilter("ignore")  # of queries that are alike
    data = load_dataset("iapr-tc12", Path(os.environ["DLFH_DATA"]) / "iapr_tc12.npz", random_state=0)
    train, test = data.train, data.queries
    names, n = list(train.modalities)[:2], int(share * len(train))
    features: dict[str, Any] = {name: train.modalities[name][:n] for name in names}
    labels, starts = train.labels[:n], [*range(0, n, 2048), n]
    sums: list[int] = []
    solve, loss_sums = Classifiers.solve, KernelRows.loss_sums

    def solving(*arguments: Any, **options: Any) -> Any:
        found = solve(*arguments, **options)
        sums.append(found.n_iter)
        return found

    def summing(rows: KernelRows, weights: Any, columns: Any) -> Any:
        if not weights.any():
            sums.append(0)
        sums[-1] += 1
        return loss_sums(rows, weights, columns)

    Classifiers.solve, KernelRows.loss_sums = solving, summing  # type: ignore[assignment,method-assign]
    model: Any = KDLFH(64, random_state=0)
    if way == "again":
        model = DLFH(64, hash_function=KernelLogistic(memory=0), random_state=0)
    with contextlib.ExitStack() as stack:
        if way == "workers":
            distributed: Any = importlib.import_module("distributed")
            stack.enter_context(distributed.Client(stack.enter_context(local_cluster(2))))
        if way != "memory":
            features = {name: ArrayBlocks(matrix, starts, name) for name, matrix in features.items()}
        if way == "workers":
            features = {name: matrix.on_cluster() for name, matrix in features.items()}
        began = time.perf_counter()
        model.fit(features, labels)
        seconds = time.perf_counter() - began
    codes = {name: model.encode(name, test.modalities[name]) for name in names}
    maps = [mean_average_precision(codes[a], codes[b], test.labels, test.labels) for a, b in (names, names[::-1])]
    np.save(Path(folder) / f"{way}.npy", [codes[name] for name in names])
    return {"names": names, "seconds": seconds, "sums": sums, "maps": maps}


def bench_logistic(share: float) -> Rows:
    ways = {
        "memory": "in memory, 2 threads",
        "kept": "blocks of 2,048 points, kernel values kept",
        "again": "the same, computed again for each sum",
        "workers": "the same blocks, on 2 workers",
    }
    with scratch() as folder:
        found = {way: in_process("logistic", way=way, share=share, folder=str(folder)) for way in ways}
        bits = {way: np.unpackbits(np.load(folder / f"{way}.npy"), axis=2) for way in ways}
    image, text = found["memory"]["names"]
    header = (
        "KDLFH, IAPR TC-12, 64 bits, 500 bases, one split",
        "fit",
        f"iterations: {image}, {text}",
        f"MAP {image}→{text}, unseen",
        f"MAP {text}→{image}, unseen",
        "equal bits of unseen points, compared with memory",
    )
    rows: Rows = [header]
    for way, called in ways.items():
        run = found[way]
        values = (f"{value:.4f}" for value in run["maps"])
        iterations = ", ".join(str(number - (way != "memory")) for number in run["sums"])  # one sum is before the first
        rows.append(
            (called, f"{run['seconds']:.1f} s", iterations, *values, f"{(bits[way] == bits['memory']).mean():.3%}")
        )
    return rows


def as_table(rows: Rows) -> str:
    header, *others = ("| " + " | ".join(row) + " |" for row in rows)
    return "\n".join([header, "|" + "---|" * len(rows[0]), *others])


# Collections

N_LABELS, N_LABEL_SETS, N_WORDS, N_LEARNED = 20, 50, 50_000, 2_000
QUESTIONS: dict[str, Callable[[int], str]] = {
    "rare words": lambda n: f"t0topic{n} t{31234 + n} t{42222 + n}",
    "common words": lambda n: f"t1topic{n} t{3 + n % 3} t{7 + n % 4} t{12 + n % 5}",
}


def texts_with_labels(rng: np.random.Generator, n: int) -> tuple[dict[str, list[str]], list[list[str]]]:
    """Return titles and bodies of about 7 and 11 words: one for each of 1 to 3 labels, the others by Zipf's law."""
    sets = [np.random.default_rng(s).choice(N_LABELS, 1 + s % 3, replace=False).tolist() for s in range(N_LABEL_SETS)]
    of_items = rng.integers(N_LABEL_SETS, size=n).tolist()
    running = np.cumsum(1 / np.arange(1, N_WORDS + 1))
    found = {}
    for name, length in (("title", 5), ("body", 9)):
        drawn = np.searchsorted(running, rng.random((n, length)) * running[-1]).clip(0, N_WORDS - 1).tolist()
        found[name] = [
            " ".join(
                [
                    *(
                        f"{name[0]}{label}topic{(words[0] * 7 + place) % 30}"
                        for place, label in enumerate(sets[chosen])
                    ),
                    *(f"{name[0]}{word}" for word in words),
                ]
            )
            for words, chosen in zip(drawn, of_items, strict=True)
        ]
    return found, [[f"label{label}" for label in sets[chosen]] for chosen in of_items]


def fill_collection(folder: Path, n_items: int, few_codes: bool) -> None:
    """Create a collection of generated texts.

    The model learns from 2,000 of them. To save time, the others are not encoded: they reuse these codes if
    ``few_codes``, and otherwise mix the bytes of several, so that hardly any two are equal.
    """
    from dlfh import Collection, Encoder
    from dlfh.datasets import Items
    from dlfh.features import BagOfWords

    rng = np.random.default_rng(0)
    texts, labels = texts_with_labels(rng, N_LEARNED)
    encoder = Encoder({name: BagOfWords() for name in texts}, DLFH(128, hash_function="linear", random_state=0))
    ids = [f"l{row}" for row in range(N_LEARNED)]
    collection = Collection.build(folder / "learned", Items.of(texts, labels, ids), encoder).collection
    items, index = list(collection.index.items()), collection.index
    codes = {
        name: np.stack([item.codes.get(name, items[0].codes["title"]) for item in items]) for name in index.modalities
    }
    collection.close()
    with Collection.create(folder / "shop", encoder) as collection:
        for start in range(0, n_items, 100_000):
            n = min(100_000, n_items - start)
            texts, labels = texts_with_labels(rng, n)
            chosen, columns = rng.integers(len(items), size=n), {}
            for name, known in codes.items():
                columns[name] = known[chosen]
                if not few_codes:
                    places = rng.integers(known.shape[1], size=(n, 6))
                    columns[name][np.arange(n)[:, None], places] = known[rng.integers(len(items), size=(n, 6)), places]
            collection.index.add(
                [f"i{start + row}" for row in range(n)],
                columns,
                learned=dict.fromkeys(["title", "body", "labels"], few_codes),
                metadata=[
                    {"title": title, "body": body, "labels": given if few_codes else []}
                    for title, body, given in zip(texts["title"], texts["body"], labels, strict=True)
                ],
                present={f"{name}:hashed": np.full(n, few_codes) for name in ("title", "body")},
            )
        collection.index.compact()


def measure_collections(n_items: int, few_codes: bool, folder: str | None = None) -> dict[str, Any]:
    """Return median processor times of 15 different searches in one thread, in ms, and other measurements.

    A folder that contains the collection from an earlier `fill_collection` saves the time to create it.
    """
    from dlfh import Collection
    from dlfh.datasets import Items

    def median(call: Callable[[int], Any]) -> float:
        times = []
        for number in range(15):
            began = time.process_time()
            call(number)
            times.append(1000 * (time.process_time() - began))
        return float(np.median(times))

    found: dict[str, Any] = {}
    with contextlib.nullcontext(Path(folder)) if folder else scratch() as place:
        if not (place / "shop").exists():
            fill_collection(place, n_items, few_codes)
        found["bytes"] = sum(file.stat().st_size for file in (place / "shop" / "index").iterdir()) / n_items
        began = time.process_time()
        collection = Collection.open(place / "shop", writable=True)
        found["open"] = 1000 * (time.process_time() - began)
        before = reset_peak_mb()
        for _ in range(2):  # the first search in a process uses no compiled kernels
            for question in QUESTIONS.values():
                collection.search("title", question(29), modalities=["title", "body"])
            collection.similar("i77")

        def search(question: Callable[[int], str], modalities: list[str], number: int) -> None:
            collection.search("title", question(number), modalities=modalities)

        for name, question in QUESTIONS.items():
            for modalities in (["title"], ["title", "body"]):
                found[f"{name} {len(modalities)}"] = median(partial(search, question, modalities))
        found["similar"] = median(lambda number: collection.similar(f"i{number}"))
        code = collection.index.get("i77").codes["title"]
        collection.index.search("title", code, n_jobs=1)
        found["index"] = median(lambda _: collection.index.search("title", code, n_jobs=1))
        found["memory"] = peak_mb() - before

        def add_one_and_search(number: int) -> None:
            name = str(len(collection))
            collection.add(Items.of({"title": [f"t0topic1 new{name}"], "body": ["b3 b9"]}, None, [name]))
            collection.search("title", QUESTIONS["rare words"](number), modalities=["title"])

        add_one_and_search(29)
        found["one"] = median(add_one_and_search)
        n = 100_000
        texts, labels = texts_with_labels(np.random.default_rng(1), n)
        items = Items.of(texts, labels, [f"n{row}" for row in range(n)])
        collection.add(items.take(range(100)))
        began = time.process_time()
        collection.add(items)
        found["rate"] = (n - 100) / (time.process_time() - began)
        collection.close()
    return found


def measure_equal(n_items: int, few_codes: bool, n_questions: int, seed: int) -> dict[str, Any]:
    """Compare searches with exhaustive comparison: ids, order, numbers of equal items and probabilities.

    Some items lack a modality, some were removed, and questions have filters and all kinds of options.
    """
    from dlfh import Collection
    from dlfh.collection.ranking import Ranker

    rng, scans, equal = np.random.default_rng(seed), 0, 0
    scan, possible = Ranker._scan, Ranker._possible

    def counting(self: Ranker, *given: Any) -> Any:
        nonlocal scans
        scans += 1
        return scan(self, *given)

    def everything(self: Ranker, comparison: Any, candidates: Any) -> Any:
        words = self._options.match == "words"
        if words or candidates is not None:
            return possible(self, comparison, candidates) if words else np.flatnonzero(candidates)
        return np.arange(len(self._items))

    with scratch() as folder:
        fill_collection(folder, n_items, few_codes)
        with Collection.open(folder / "shop", writable=True) as collection:
            index, some = collection.index, [f"i{row}" for row in rng.choice(n_items, 3000, replace=False)]
            items = [index.get(name) for name in some[:2000]]
            codes = {
                name: np.stack([item.codes.get(name, items[0].codes["title"]) for item in items])
                for name in index.modalities
            }
            present = {name: np.array([name in item.codes for item in items]) for name in index.modalities}
            present["title"] = present["title"] & (np.arange(2000) % 3 > 0)
            metadata = [item.metadata for item in items]
            index.put([item.id for item in items], codes, metadata=metadata, present=present)
            collection.remove(some[2000:])
            Ranker._scan = counting  # type: ignore[assignment, method-assign]
            collection.search("title", "t1")
            for number in range(n_questions):
                words = [f"{'tb'[rng.integers(2)]}{rng.integers(N_LABELS)}topic{rng.integers(30)}"]
                words += [f"t{int(word)}" for word in np.exp(rng.uniform(0, np.log(N_WORDS), rng.integers(0, 4)))]
                options: dict[str, Any] = {"k": int(rng.choice([1, 10, 50]))}
                options |= ({}, {"modalities": "title"}, {"modalities": ["title", "body"]}, {"modalities": "body"})[
                    rng.integers(4)
                ]
                options |= ({}, {}, {"match": "codes"}, {"ranking": "any"}, {"ranking": "asymmetric"})[rng.integers(5)]
                options |= (
                    {"where": {"labels": f"label{rng.integers(N_LABELS)}"}} if few_codes and rng.random() < 0.3 else {}
                )
                call = partial(collection.search, "title", " ".join(words), **options)
                if number % 5 == 0:
                    call = partial(collection.similar, f"i{rng.integers(n_items)}", options["k"])
                    if call.args[0] not in collection:
                        call = partial(collection.similar, some[0], options["k"])
                results = []
                for way in (possible, everything):
                    Ranker._possible = way  # type: ignore[method-assign]
                    results.append(call())
                equal += results[0] == results[1]
    return {"questions": n_questions, "equal": equal, "scans": scans}


def bench_equal(share: float) -> Rows:
    rows: Rows = [("items", "questions", "equal to exhaustive comparison", "scans")]
    for few_codes in (True, False):
        n = int(share * 80_000)
        runs = [in_process("equal", n_items=n, few_codes=few_codes, n_questions=250, seed=seed) for seed in (2, 3)]
        found = {name: sum(run[name] for run in runs) for name in runs[0]}
        called = f"{n:,}, {'50 label sets' if few_codes else 'few equal codes'}"
        rows.append((called, *(f"{found[name]:,}" for name in ("questions", "equal", "scans"))))
    return rows


def bench_collections(share: float) -> Rows:
    header = ["", *(f"{name}, {n} modalit{'y' if n == 1 else 'ies'}" for name in QUESTIONS for n in (1, 2))]
    header += ["`similar`", "`Index.search`", "one item added, and a search", "items added per second", "open"]
    rows: Rows = [(*header, "bytes per item", "memory for the first searches")]
    for n_items in (100_000, 1_000_000, 10_000_000):
        for few_codes in (True, False) if n_items <= 1_000_000 else (True,):
            n = int(share * n_items)
            found = in_process("collections", n_items=n, few_codes=few_codes)
            times = [f"{found[f'{name} {n}']:.1f} ms" for name in QUESTIONS for n in (1, 2)]
            times += [f"{found[name]:.1f} ms" for name in ("similar", "index", "one")]
            rest = (
                f"{found['rate']:,.0f}",
                f"{found['open']:.0f} ms",
                f"{found['bytes']:.0f}",
                f"{found['memory']:.0f} MB",
            )
            rows.append((f"{n:,} (measured), {'50 label sets' if few_codes else 'few equal codes'}", *times, *rest))
    return rows


# Codes


def measure_codes(n_codes: int, n_queries: int = 10) -> dict[str, Any]:
    """Fill an index in a folder with random codes, open it, and search it and faiss alternately, in processor time."""
    import faiss

    from dlfh.index import Index

    rng = np.random.default_rng(0)
    codes, queries = np.empty((n_codes, 8), np.uint8), rng.integers(0, 256, (n_queries, 8), np.uint8)
    step = min(n_codes, 5_000_000)
    found: dict[str, Any] = {"add": 0.0}
    with scratch() as root:
        with Index.create(root / "index", 64, ["image"]) as index:
            for start in range(0, n_codes, step):
                part = slice(start, min(start + step, n_codes))
                codes[part] = rng.integers(0, 256, codes[part].shape, np.uint8)
                ids = [str(number) for number in range(part.start, part.stop)]
                began = time.process_time()
                index.add(ids, {"image": codes[part]})
                found["add"] += time.process_time() - began
                report_progress(f"{part.stop:,} codes, {found['add']:.0f} s")
        found["bytes"] = sum(path.stat().st_size for path in (root / "index").iterdir()) / n_codes
        for name, verify in (("open", True), ("unverified", False)):
            began = time.process_time()
            Index.open(root / "index", verify=verify).close()
            found[name] = time.process_time() - began
        index, bare = Index.open(root / "index", verify=False), faiss.IndexBinaryFlat(64)
        bare.add(codes)
        faiss.omp_set_num_threads(1)
        times, found["equal"] = [], True
        for number in range(-1, n_queries):  # the first search maps the files
            query = queries[[max(number, 0)]]
            began = time.process_time()
            ours = index.search("image", query, 10)
            between = time.process_time()
            theirs = bare.search(query, 10)
            times.append((between - began, time.process_time() - between))
            found["equal"] &= bool(np.array_equal(ours.positions, theirs[1]))
        found["ours"], found["faiss"] = map(float, np.median(times[1:], axis=0))
    return found


def bench_codes(share: float) -> Rows:
    rows: Rows = [
        (
            *("codes of 64 bits, processor time", "added per second", "bytes an item, with its id"),
            *("opened, checksums verified", "unverified", "one search, k = 10", "faiss", "results"),
        )
    ]
    for size in (1_000_000, 10_000_000, 100_000_000):
        n_codes = int(share * size)
        run = in_process("codes", n_codes=n_codes)
        rows.append(
            (
                *(f"{n_codes:,} (measured)", f"{n_codes / run['add']:,.0f}", f"{run['bytes']:.0f}"),
                *(f"{run['open']:.2f} s", f"{run['unverified']:.2f} s", f"{1000 * run['ours']:.1f} ms"),
                *(f"{1000 * run['faiss']:.1f} ms", "equal" if run["equal"] else "DIFFERENT"),
            )
        )
    billion = (f"{10 * n_codes:,} (extrapolated)", rows[-1][1], rows[-1][2])
    times = (f"{10 * run['open']:.1f} s", f"{10 * run['unverified']:.1f} s", f"{10 * run['ours']:.2f} s")
    return [*rows, (*billion, *times, f"{10 * run['faiss']:.2f} s", "")]


MEASURES: dict[str, Callable[..., dict[str, Any]]] = {
    "wide": measure_wide,
    "arriving": measure_arriving,
    "growth": measure_growth,
    "functions": measure_functions,
    "bare": measure_bare,
    "workers": measure_workers,
    "sets": measure_sets,
    "logistic": measure_logistic,
    "collections": measure_collections,
    "equal": measure_equal,
    "codes": measure_codes,
}

BENCHES: dict[str, Callable[[float], Rows]] = {
    "wide": bench_wide,
    "arriving": bench_arriving,
    "growth": bench_growth,
    "functions": bench_functions,
    "workers": bench_workers,
    "sets": bench_sets,
    "logistic": bench_logistic,
    "collections": bench_collections,
    "equal": bench_equal,
    "codes": bench_codes,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", nargs="?", choices=[*BENCHES, "all"])
    parser.add_argument("--write", type=Path, help="document to write the tables to")
    parser.add_argument(
        "--share", type=float, default=1.0, help="share of the points of a full run, such as 0.1 for a trial"
    )
    parser.add_argument("--measure", choices=MEASURES, help=argparse.SUPPRESS)
    parser.add_argument("--arguments", default="{}", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(MEASURES[options.measure](**json.loads(options.arguments))))
        return
    for name in BENCHES if options.which == "all" else [options.which]:
        table = f"{machine()}.\n\n{as_table(BENCHES[name](options.share))}"
        print(table, flush=True)
        if options.write:
            fill(options.write, {name: table})


if __name__ == "__main__":
    main()
