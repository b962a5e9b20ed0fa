"""Speed, recall and memory of the index.

python -m benchmarks.index exact         # batches, compared with faiss
python -m benchmarks.index single        # single queries, compared with faiss, usearch and NumPy
python -m benchmarks.index rankings      # asymmetric ranking with and without a shortlist, compared with Hamming
python -m benchmarks.index tables        # ranking by label probabilities, compared with Hamming
python -m benchmarks.index approximate   # recall and speed of approximate search
python -m benchmarks.index storage       # building, opening, changing, memory per item
python -m benchmarks.index all --write docs/performance.md
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from benchmarks.report import fill, machine
from benchmarks.run import interleaved, seconds
from dlfh import DLFH
from dlfh.codes import unpack
from dlfh.datasets import make_paired
from dlfh.index import ApproximateSearch, Index
from dlfh.index.approximate import KINDS

N_ITEMS, N_BITS = 1_000_000, 64
Rows = list[tuple[str, str]]


def clustered_codes(n: int, seed: int, n_clusters: int = 1000) -> np.ndarray:
    """Return codes around centres, with each bit flipped with probability 0.12, like learned codes."""
    centres = np.random.default_rng(0).random((n_clusters, N_BITS)) < 0.5
    rng = np.random.default_rng(seed)
    blocks = []
    for start in range(0, n, 100_000):
        size = min(100_000, n - start)
        chosen = centres[rng.integers(0, n_clusters, size)]
        blocks.append(np.packbits(chosen ^ (rng.random((size, N_BITS), dtype=np.float32) < 0.12), axis=1))
    return np.concatenate(blocks)


def projections_near(codes: np.ndarray, seed: int) -> np.ndarray:
    """Return real values whose signs are the codes."""
    rng = np.random.default_rng(seed)
    return np.abs(rng.standard_normal((len(codes), N_BITS), np.float32)) * unpack(codes, N_BITS)


def index_of(codes: np.ndarray) -> Index:
    index = Index(N_BITS, ["image"])
    index.add([f"item-{i}" for i in range(len(codes))], {"image": codes})
    return index


def bench_exact() -> Rows:
    codes, queries = clustered_codes(N_ITEMS, 1), clustered_codes(1000, 2)
    index, bare = index_of(codes), faiss.IndexBinaryFlat(N_BITS)
    bare.add(codes)

    def ids_found(k: int) -> object:
        return index.search("image", queries, k).ids

    rows: Rows = []
    for k in (10, 100):
        ours, theirs = interleaved(partial(ids_found, k), partial(bare.search, queries, k))
        same = np.array_equal(index.search("image", queries, k).positions, bare.search(queries, k)[1])
        rows += [
            (f"faiss `IndexBinaryFlat`, 1M codes of 64 bits, 1,000 queries, k = {k}", f"{theirs:.2f} s"),
            (f"`Index.search`, the same, with ids (results {'equal' if same else 'DIFFER'})", f"{ours:.2f} s"),
            (f"**exact batches, against bare faiss, k = {k}**", f"**{ours / theirs:.2f} ×**"),
        ]
    return rows


def bench_single() -> Rows:
    from usearch.compiled import MetricKind, ScalarKind
    from usearch.index import search as usearch_search

    codes, queries = clustered_codes(N_ITEMS, 1), clustered_codes(20, 2)
    index, bare = index_of(codes), faiss.IndexBinaryFlat(N_BITS)
    bare.add(codes)
    words, query_words = codes.view(np.uint64)[:, 0], queries.view(np.uint64)[:, 0]

    def each(search: Callable[[int], object]) -> Callable[[], object]:
        return lambda: [search(i) for i in range(len(queries))]

    def numpy_loop(i: int) -> np.ndarray:
        return np.argsort(np.bitwise_count(words ^ query_words[i]), kind="stable")[:10]

    def usearch_exact(i: int) -> object:
        return usearch_search(codes, queries[i], 10, MetricKind.Hamming, exact=True, dtype=ScalarKind.B1)

    names = ("`Index.search`", "faiss `IndexBinaryFlat`", "usearch, exact", "NumPy: XOR, popcount, stable argsort")
    times = interleaved(
        each(lambda i: index.search("image", queries[i], 10).ids),
        each(lambda i: bare.search(queries[i : i + 1], 10)),
        each(usearch_exact),
        each(numpy_loop),
    )
    return [
        (f"one query, 1M codes of 64 bits, k = 10: {name}", f"{1000 * spent / len(queries):.2f} ms")
        for name, spent in zip(names, times, strict=True)
    ]


def rankings(k: int) -> dict[str, dict[str, Any]]:
    """Return the options of `Index.search` for each ranking."""
    shortlist = {"ranking": "asymmetric", "shortlist": max(5 * k, 200)}
    return {"hamming": {}, "asymmetric": {"ranking": "asymmetric"}, "shortlist": shortlist}


def bench_rankings() -> Rows:
    codes = clustered_codes(N_ITEMS, 1)
    index = index_of(codes)
    projections = projections_near(clustered_codes(200, 2), 3)
    rows: Rows = []
    exact = index.search("image", projections, 10, ranking="asymmetric").positions
    for k in (10, 100):
        hamming, asymmetric, reranked = interleaved(
            *(
                lambda options=options, k=k: index.search("image", projections, k, **options)
                for options in rankings(k).values()
            )
        )
        rows += [
            (f"Hamming, 1M clustered codes of 64 bits, 200 queries, k = {k}", f"{5 * hamming:.2f} ms a query"),
            (f"**asymmetric, against the Hamming scan, k = {k}**", f"**{asymmetric / hamming:.2f} ×**"),
            (f"**re-ranked shortlist, against the Hamming scan, k = {k}**", f"**{reranked / hamming:.2f} ×**"),
        ]
    for ranking in ("hamming", "shortlist"):
        found = index.search("image", projections, 10, **rankings(10)[ranking]).positions
        shared = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found, exact, strict=True)])
        rows.append((f"share of the asymmetric 10 nearest found: {ranking}", f"{shared:.3f}"))
    return rows + mean_average_precisions()


def bench_tables() -> Rows:
    """Rank a million items by label probabilities in 8 bytes, by one thread, beside a Hamming scan of 8-byte codes."""
    data = make_paired(N_ITEMS + 21_000, n_labels=24, n_label_sets=500, noise=4.0, random_state=0)
    train, rest = data.take(np.arange(20_000)), np.arange(20_000, len(data))
    model = DLFH(N_BITS, random_state=0, hash_function="linear").fit(train.modalities, train.labels)
    asked, items = data.take(rest[:200]).modalities, data.take(rest[1000:]).modalities
    index = Index(N_BITS, ["image", "labels"])
    blocks = [items["image"][start : start + 50_000] for start in range(0, N_ITEMS, 50_000)]
    stored = [model.quantize_probabilities(model.label_probabilities({"image": block})) for block in blocks]
    codes = {"image": model.encode("image", items["image"]), "labels": np.concatenate(stored)}
    index.add([f"item-{i}" for i in range(N_ITEMS)], codes)
    hashed, probabilities = model.encode("text", asked["text"]), model.label_probabilities({"text": asked["text"]})
    rows: Rows = []
    for k in (10, 100):
        for match in ("any", "all"):
            tables = model.score_tables(probabilities, match)
            hamming, by_tables = interleaved(
                partial(index.search, "image", hashed, k, n_jobs=1),
                partial(index.search, "labels", tables, k, n_jobs=1),
            )
            scores = np.zeros((10, N_ITEMS), np.float32)
            for byte, values in enumerate(codes["labels"].T):
                scores += tables[:10, byte][:, values]
            best = -np.sort(-scores, axis=1)[:, :k]
            found = np.take_along_axis(scores, index.search("labels", tables[:10], k).positions, axis=1)
            same = np.allclose(best, found, rtol=1e-6, atol=1e-6)
            what = f"*{match}*, 1M items of 8 bytes, 200 queries, one thread, k = {k}"
            rows += [
                (f"Hamming, the same items as codes, k = {k}", f"{5 * hamming:.2f} ms a query"),
                (f"{what} (results {'as' if same else 'NOT as'} by float tables)", f"{5 * by_tables:.2f} ms a query"),
                (f"***{match}*, against the Hamming scan, k = {k}**", f"**{by_tables / hamming:.2f} ×**"),
            ]
    return rows


def mean_average_precisions() -> Rows:
    """Return the MAP of the rankings on codes learned by DLFH."""
    data = make_paired(21_000, n_labels=24, n_label_sets=500, noise=4.0, random_state=0)
    train, test = data.split(test_size=1000)
    rows: Rows = []
    for n_bits in (16, 64):
        model = DLFH(n_bits, random_state=0, hash_function="linear").fit(train.modalities, train.labels)
        relevant = (test.labels.astype(np.int32) @ train.labels.astype(np.int32).T).toarray() > 0
        ids = [str(i) for i in range(len(train))]
        for state, codes in (
            ("learned", model.codes_["image"]),
            ("hashed", model.encode("image", train.modalities["image"])),
        ):
            index = Index(n_bits, ["image"])
            index.add(ids, {"image": codes}, learned=state == "learned")
            queries = model.project("text", test.modalities["text"])
            values = []
            for options in rankings(100).values():
                found = index.search("image", queries, 100, **options).positions
                gains = np.take_along_axis(relevant, found, axis=1)
                precisions = np.cumsum(gains, axis=1) / np.arange(1, 101)
                values.append(((precisions * gains).sum(axis=1) / np.maximum(1, gains.sum(axis=1))).mean())
            what = (
                f"MAP@100, text → image, 20,000 generated items, {n_bits} bits, {state}: Hamming, asymmetric, re-ranked"
            )
            rows.append((what, ", ".join(f"{value:.3f}" for value in values)))
    return rows


def bench_approximate() -> Rows:
    codes, queries = clustered_codes(N_ITEMS, 1), clustered_codes(1000, 2)
    index = index_of(codes)
    rows: Rows = []
    settings: list[tuple[Any, dict[str, Any]]] = [
        *((kind, {}) for kind in KINDS),
        ("ivf", {"n_probe": 8}),
        ("multihash", {"n_flips": 2}),
        ("hnsw", {"breadth": 200}),
    ]
    for kind, options in settings:
        began = time.perf_counter()
        built = ApproximateSearch(index, "image", kind, queries=queries, **options)
        build = time.perf_counter() - began
        fast, exact = interleaved(
            partial(built.search, queries, 10), lambda: index.search("image", queries, 10), rounds=3
        )
        chosen = ", ".join(f"{name} {value}" for name, value in built.options_.items())
        rows.append(
            (
                f"{kind} ({chosen})",
                f"recall@10 {built.recall_:.3f}, {exact / fast:.1f} × as fast as exact, built in {build:.0f} s",
            )
        )
    return rows


MEMORY = """
import sys
import numpy as np
from dlfh.index import Index
import faiss

def resident(kind):
    return int(open("/proc/self/status").read().split(kind + ":")[1].split()[0]) * 1024

small = Index(64, ["image"])
small.add(["a"], {"image": np.zeros((1, 8), np.uint8)})
small.search("image", np.zeros(8, np.uint8))
before = resident("RssAnon"), resident("RssFile")
index = Index.open(sys.argv[1])
index.search("image", np.zeros((10, 8), np.uint8)).ids
index.get("item-7")
print((resident("RssAnon") - before[0]) / len(index), (resident("RssFile") - before[1]) / len(index))
"""


def bench_storage() -> Rows:
    codes = clustered_codes(N_ITEMS, 1)
    ids = [f"item-{i}" for i in range(N_ITEMS)]
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "index"

        def build() -> None:
            with Index.create(folder, N_BITS, ["image"]) as index:
                index.add(ids, {"image": codes})

        index_of(codes[:10])  # compile
        built = seconds(build)
        size = sum(path.stat().st_size for path in folder.iterdir()) / N_ITEMS
        opened, unverified = interleaved(
            lambda: Index.open(folder).close(), lambda: Index.open(folder, verify=False).close()
        )
        rows = [
            ("building an index of 1M codes of 64 bits in a folder, ids included", f"{built:.2f} s"),
            ("its size on disk (8 bytes are the code, 11 the id)", f"{size:.0f} bytes an item"),
            ("**opening an index of a million codes, checksums verified**", f"**{1000 * opened:.0f} ms**"),
            ("opening it unverified", f"{1000 * unverified:.0f} ms"),
        ]
        with Index.open(folder, writable=True) as index:
            add = [seconds(partial(index.add, [f"new-{i}"], {"image": codes[:1]})) for i in range(20)]
            remove = [seconds(partial(index.remove, [f"item-{i}"])) for i in range(10, 30)]
            verify = seconds(index.verify)
        rows += [
            ("adding one item to it, durably", f"{1000 * np.median(add):.1f} ms"),
            ("removing one, durably", f"{1000 * np.median(remove):.1f} ms"),
            ("verifying every byte", f"{verify:.2f} s"),
        ]
        if Path("/proc/self/status").exists():
            with Index.open(folder, writable=True) as index:
                index.compact()
            command = [sys.executable, "-c", MEMORY, str(folder)]
            printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            private, mapped = map(float, printed.split())
            what = "memory of a reader that has searched: of its own; mapped, which all readers share"
            rows.append((what, f"{private:.1f}; {mapped:.1f} bytes an item"))
    return rows


BENCHMARKS = {
    "exact": bench_exact,
    "single": bench_single,
    "rankings": bench_rankings,
    "tables": bench_tables,
    "approximate": bench_approximate,
    "storage": bench_storage,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=(*BENCHMARKS, "all"))
    parser.add_argument("--write", type=Path, help="document to write the tables to")
    options = parser.parse_args()
    about = f"{machine()}, faiss {faiss.__version__}"
    print(about)
    tables = {"index machine": about}
    for name in BENCHMARKS if options.which == "all" else [options.which]:
        lines = BENCHMARKS[name]()
        tables[f"index {name}"] = "\n".join(
            ["| measurement | result |", "|---|---|", *(f"| {what} | {value} |" for what, value in lines)]
        )
        print(f"\n{name}\n" + "\n".join(f"  {what}: {value}" for what, value in lines).replace("**", ""), flush=True)
    if options.write:
        fill(options.write, tables)


if __name__ == "__main__":
    main()
