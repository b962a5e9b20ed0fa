"""Every engine agrees with a plain list of items after any sequence of changes."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from dlfh import InputError, StorageError
from dlfh.codes import random_codes
from dlfh.index import Index
from tests.index.engines import DATABASES, ENGINES, Databases
from tests.index.plain_index import MODALITIES, PlainIndex, PlainItem, as_arguments, assert_same
from tests.index.plain_where import FILTERS, METADATA, matches

#: Awkward ids that all engines accept.
IDS = (
    "a",
    "b",
    "A",
    "é",
    "e\u0301",
    "😀",
    "'; DROP TABLE items; --",
    "%s",
    "%(a)s",
    '{"a": 1}',
    "\\",
    '"',
    " ",
    "\n",
    "x" * 500,
)
N_BITS = 100
#: Number and length of the sequences for each engine; `make test-engines` multiplies the number.
EFFORTS = int(os.environ.get("DLFH_EFFORT", "1"))
EFFORT = {"memory": (12, 10), "folder": (5, 8), "duckdb": (6, 8), "postgresql": (10, 10), "milvus": (3, 8)}


class Battery(RuleBasedStateMachine):
    """Apply random changes and queries to an index and to a plain list."""

    make: Callable[[], Any]
    #: Whether items at the same distance are returned in the order they were added.
    ties = True

    @initialize()
    def start(self) -> None:
        self.index = self.make()
        self.model = PlainIndex(N_BITS)

    @rule(data=st.data(), replace=st.booleans())
    def put(self, data: st.DataObject, replace: bool) -> None:
        names = data.draw(st.lists(st.sampled_from(IDS), unique=True, max_size=4))
        rng = np.random.default_rng(data.draw(st.integers(0, 3)))
        codes = np.packbits(rng.random((3, N_BITS)) < 0.5, axis=1)
        new = []
        for name in names:
            states = data.draw(st.tuples(*[st.sampled_from(["learned", "hashed", "absent"])] * 2))
            states = ("hashed", "absent") if states == ("absent", "absent") else states
            by_name = dict(zip(MODALITIES, states, strict=True))
            chosen = {m: codes[data.draw(st.integers(0, 2))] for m, state in by_name.items() if state != "absent"}
            new.append(PlainItem(name, data.draw(METADATA), chosen, by_name))
        known = [name for name in names if name in self.model.ids()]
        if replace:
            self.index.put(**as_arguments(new, N_BITS))
            self.model.update(new)
        elif known:
            with pytest.raises(InputError, match="is already in the index"):
                self.index.add(**as_arguments(new, N_BITS))
        else:
            self.index.add(**as_arguments(new, N_BITS))
            self.model.add(new)

    @rule(names=st.lists(st.sampled_from(IDS), unique=True, max_size=3))
    def remove(self, names: list[str]) -> None:
        if {*names} <= {*self.model.ids()}:
            self.index.remove(names)
            self.model.remove(names)
        else:
            with pytest.raises(InputError, match="is not in the index"):
                self.index.remove(names)

    @precondition(lambda self: self.model.items)
    @rule(data=st.data(), k=st.integers(1, 6), modality=st.sampled_from(MODALITIES), where=st.none() | FILTERS)
    def search(self, data: st.DataObject, k: int, modality: str, where: dict[str, Any] | None) -> None:
        code = next(iter(data.draw(st.sampled_from(self.model.items)).codes.values()))
        query = code ^ np.packbits(np.random.default_rng(data.draw(st.integers(0, 2))).random(N_BITS) < 0.1)
        ids = data.draw(st.none() | st.lists(st.sampled_from(self.model.ids()), unique=True, max_size=4))
        allowed = [
            item.id
            for item in self.model.items
            if (where is None or matches(where, item.metadata)) and (ids is None or item.id in ids)
        ]
        expected = self.model.nearest(query, modality, None, allowed)
        (found,) = self.index.search(modality, query, k, ids=ids, where=where)
        self.compare(found, expected, k)
        radius = data.draw(st.integers(0, N_BITS))
        (hits,) = self.index.search_radius(modality, query, radius, ids=ids, where=where)
        self.compare(hits[0], [hit for hit in expected if hit[0] <= radius], None)
        items = list(self.index.items(hits.positions[0].tolist()))
        assert [item.id for item in items] == hits.ids[0]

    def compare(self, found: list[Any], expected: list[tuple[float, str, bool]], k: int | None) -> None:
        actual = [(hit.distance, hit.id, hit.learned) for hit in found]
        if self.ties:
            assert actual == expected[:k]
            return
        assert [distance for distance, _, _ in actual] == [distance for distance, _, _ in expected[:k]]
        assert {*actual} <= {*expected}

    @precondition(lambda self: self.model.items)
    @rule(data=st.data(), modality=st.sampled_from(MODALITIES))
    def search_by_projection(self, data: st.DataObject, modality: str) -> None:
        query = np.random.default_rng(data.draw(st.integers(0, 9))).normal(size=N_BITS)
        (found,) = self.index.search(modality, query, 3, ranking="asymmetric")
        self.compare(found, self.model.nearest(query, modality, None), 3)

    @rule(names=st.lists(st.sampled_from(IDS), max_size=4))
    def contains(self, names: list[str]) -> None:
        there = self.model.ids()
        assert self.index.contains(names).tolist() == [name in there for name in names]
        assert [name in self.index for name in names] == [name in there for name in names]
        for name in names:
            if name not in there:
                with pytest.raises(InputError, match="is not in the index"):
                    self.index.get(name)

    @invariant()
    def agrees_with_the_list(self) -> None:
        if hasattr(self, "index"):
            assert_same(self.index, self.model)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def opened(databases: Databases) -> Iterator[dict[str, Index]]:
    """One index per engine, since Milvus takes seconds to create one."""
    found: dict[str, Index] = {}
    yield found
    for index in found.values():
        index.close()


@pytest.fixture
def index(engine: str, databases: Databases, opened: dict[str, Index]) -> Index:
    """An empty index."""
    if engine not in opened:
        opened[engine] = databases.create(engine, N_BITS, MODALITIES)
    return emptied(opened[engine])


def emptied(index: Index) -> Index:
    names = index.ids()
    if names:
        index.remove(names)
    return index


def test_any_sequence_of_operations_agrees_with_a_plain_list(engine: str, index: Any) -> None:
    class OfEngine(Battery):
        make = staticmethod(lambda: emptied(index))
        ties = engine != "milvus"

    examples, steps = EFFORT[engine]
    run_state_machine_as_test(
        OfEngine,
        settings=settings(
            max_examples=examples * EFFORTS,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[*HealthCheck],
            phases=[Phase.generate, Phase.shrink] if engine in ("memory", "postgresql", "duckdb") else [Phase.generate],
        ),
    )


def test_filters_have_the_same_meaning_in_every_engine(engine: str, index: Any) -> None:
    @settings(max_examples=8 * EFFORTS, deadline=None, suppress_health_check=[*HealthCheck])
    @given(st.lists(METADATA, min_size=6, max_size=6), st.lists(FILTERS, min_size=10, max_size=10))
    def agrees(metadata: list[dict[str, Any] | None], filters: list[dict[str, Any]]) -> None:
        codes = np.zeros((len(metadata), 13), np.uint8)
        index.put([f"{row}" for row in range(len(metadata))], {"image": codes}, metadata=metadata)
        for where in filters:
            found = index.search("image", codes[:1], 100, where=where).ids[0]
            assert sorted(found) == [f"{row}" for row, item in enumerate(metadata) if matches(where, item)]

    agrees()


@pytest.mark.parametrize("n_bits", [1, 64, 300])
def test_codes_of_any_length_are_stored_and_found(engine: str, n_bits: int, databases: Databases) -> None:
    rng = np.random.default_rng(n_bits)
    bits = rng.random((40, n_bits)) < 0.5
    bits[1] = ~bits[0]  # maximum distance
    codes = np.packbits(bits, axis=1)
    ids = [f"{row}" for row in range(40)]
    local = databases.create("memory", n_bits, ("image",))
    with databases.create(engine, n_bits, ("image",)) as index:
        for each in (local, index):
            each.add(ids, {"image": codes}, learned=rng.random(40) < 2)
        assert np.array_equal([item.codes["image"] for item in index.items()], codes)
        expected, found = (each.search("image", codes[:5], 40) for each in (local, index))
        assert np.array_equal(found.distances, expected.distances)
        if engine != "milvus":
            assert found.ids == expected.ids
        assert [{*names} for names in found.ids] == [{*ids}] * 5


@pytest.mark.parametrize("engine", DATABASES)
def test_an_index_can_be_reopened(engine: str, databases: Databases) -> None:
    address = databases.place(engine)
    with pytest.raises(StorageError, match="there is no index at"):
        Index.open(address)
    with Index.create(address, 16, ["image"]) as index:
        identity, empty = index.identity, index.state
        index.add(["a"], {"image": np.array([[1, 2]], np.uint8)}, metadata=[{"price": 3}])
        assert index.state != empty
        state = index.state
    assert index.closed
    with pytest.raises(StorageError, match="closed"):
        index.get("a")
    with Index.open(address) as again:
        assert (again.identity, again.state, again.n_bits, again.modalities) == (identity, state, 16, ("image",))
        assert again.get("a").metadata == {"price": 3}
    with pytest.raises((InputError, StorageError), match="already"):
        Index.create(address, 16, ["image"])


def test_databases_do_not_rank_by_score_tables(index: Any) -> None:
    rng = np.random.default_rng(0)
    codes, tables = random_codes(rng, 5, 100), rng.integers(0, 9, (1, 13, 256)).astype(np.float32)
    index.add(list("abcde"), {"image": codes})
    scores = tables[0, np.arange(13), codes].sum(axis=1)
    if index.address is None:
        assert index.search("image", tables, 1).distances == -scores.max()
        return
    with pytest.raises(InputError, match="does not support score tables"):
        index.search("image", tables)


def test_invalid_arguments_are_refused_and_change_nothing(index: Any) -> None:
    code = np.zeros((1, 13), np.uint8)
    index.add(["a"], {"image": code})
    before = index.ids()
    for invalid, message in (
        (lambda: index.add(["b", "a"], {"image": np.zeros((2, 13), np.uint8)}), "id 'a' is already"),
        (lambda: index.put(["b", "b"], {"image": np.zeros((2, 13), np.uint8)}), "duplicate id 'b'"),
        (lambda: index.put([""], {"image": code}), "non-empty strings"),
        (lambda: index.put(["b"], {"sound": code}), "has modality 'sound'"),
        (lambda: index.put(["b"], {"image": code}, metadata=[{"a": {1}}]), "dicts of JSON values"),
        (lambda: index.remove(["a", "b"]), "id 'b' is not in the index"),
        (lambda: index.search("sound", code), "got 'sound'"),
        (lambda: index.search("image", code, 0), "k must be"),
        (lambda: index.search("image", code, ids=["zzz"]), "id 'zzz' is not"),
        (lambda: index.search("image", code, where={"a": {"~": 1}}), "operators"),
        (lambda: index.search("image", code, where={"a\ud800": 1}), "strings of valid Unicode"),
        (lambda: index.search("image", [[0], [0, 0]]), "queries must be an array"),
        (lambda: index.search("image", code, ranking="asymmetric"), "needs queries as projections"),
        (lambda: index.get("b"), "id 'b' is not in the index"),
        (lambda: list(index.items([12345])), "positions must refer to"),
        (lambda: index.count("image", "odd"), "state must be"),
    ):
        with pytest.raises(InputError, match=message):
            invalid()
    assert index.ids() == before
    assert 3 not in index


def test_extreme_ids_are_stored_and_found_or_refused(index: Any) -> None:
    code = np.zeros((1, 13), np.uint8)
    for name in ("a\0b", "\0", "x" * 3000, "😀" * 1500):
        metadata = {"words": name, "nested": {"%s": ["'", {"\\": None}]}, "number": 10**30, "half": 1e300}
        try:
            index.put([name], {"image": code}, metadata=[metadata])
        except InputError:
            assert name not in index
        else:
            assert index.ids() == [name]
            assert index.get(name).metadata == metadata
            assert index.search("image", code).ids == [[name]]
            index.remove([name])
        assert len(index) == 0


def damaged(databases: Databases, *statements: str) -> str:
    """Create an index in a DuckDB file called t, change it by statements, and return its address."""
    path = databases.place("duckdb").removeprefix("duckdb:").partition("#")[0]
    with Index.create(f"duckdb:{path}#t", 8, ["image"]) as index:
        index.add(["a", "b"], {"image": np.array([[3], [5]], np.uint8)}, metadata=[{"n": 1}, {"n": 2}])
    with importlib.import_module("duckdb").connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    return f"duckdb:{path}#t"


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["ALTER TABLE t RENAME TO u", "CREATE VIEW t AS SELECT * FROM u"], "t is not a table that dlfh created"),
        (
            [
                "ALTER TABLE t RENAME TO u",
                "CREATE SCHEMA s",
                "CREATE TABLE s.t AS SELECT * FROM u",
                "CREATE VIEW t AS FROM u",
            ],
            "t is not a table that dlfh created",
        ),
        (["ALTER TABLE t_values RENAME TO u", "CREATE VIEW t_values AS SELECT * FROM u"], "t_values is not a table"),
        (["ALTER TABLE t_about RENAME TO u", "CREATE VIEW t_about AS SELECT * FROM u"], "there is no index at"),
        (["ALTER TABLE t ADD COLUMN more INTEGER"], "t is not a table that dlfh created"),
        (["ALTER TABLE t ALTER metadata SET DEFAULT current_query()"], "t is not a table that dlfh created"),
        (
            ["ALTER TABLE t_about ALTER identity SET DEFAULT current_query()"],
            "t_about is not a table that dlfh created",
        ),
        (
            [
                "CREATE TABLE u AS FROM t",
                "DROP TABLE t",
                "CREATE TABLE t (number BIGINT NOT NULL, id VARCHAR NOT NULL, metadata VARCHAR AS (current_query()), "
                "state0 UTINYINT NOT NULL, code0_0 UBIGINT)",
            ],
            "t is not a table that dlfh created",
        ),
        (["DROP TABLE t"], "t is not a table that dlfh created"),
        (["CREATE MACRO bit_count(x) AS 0"], "it has a macro with the name of the built-in function 'bit_count'"),
        (['CREATE MACRO "+"(x, y) AS 0'], r"it has a macro with the name of the built-in function '\+'"),
        (["CREATE MACRO duckdb_tables() AS TABLE SELECT 1"], "the built-in function 'duckdb_tables'"),
        (["UPDATE t_about SET format = 0"], "is damaged: its format version is 0"),
        (
            ["UPDATE t_about SET format = 99"],
            "has format version 99, but this version of dlfh reads up to 1: upgrade dlfh",
        ),
        (["UPDATE t_about SET bits = 0"], "is damaged: n_bits must be an integer"),
        (["UPDATE t_about SET bits = 100"], "t is not a table that dlfh created"),
        (["UPDATE t_about SET modalities = '[]'"], "is damaged: an index needs at least one modality"),
        (["UPDATE t_about SET modalities = '7'"], "is damaged: modalities must be a list of strings, got 7"),
        (["UPDATE t_about SET modalities = '['"], "is damaged: its modalities cannot be read"),
        (["UPDATE t_about SET modalities = NULL"], "is damaged: its modalities cannot be read"),
        (["DELETE FROM t_about"], "is damaged: its description has 0 rows"),
        (["INSERT INTO t_about SELECT * FROM t_about"], "is damaged: its description has 2 rows"),
        (["UPDATE t SET metadata = '{' WHERE id = 'b'"], "the metadata of item 'b' cannot be read"),
        (["UPDATE t SET metadata = '[1]' WHERE id = 'b'"], "the metadata of item 'b' cannot be read"),
        (["UPDATE t SET metadata = repeat('[', 100000) WHERE id = 'b'"], "the metadata of item 'b' cannot be read"),
        (["UPDATE t SET id = '' WHERE id = 'b'"], "item '' has an invalid number, id or state"),
        (["UPDATE t SET state0 = 9 WHERE id = 'b'"], "item 'b' has an invalid number, id or state"),
        (["UPDATE t SET code0_0 = NULL WHERE id = 'b'"], "item 'b' has an invalid code"),
        (["UPDATE t SET state0 = 0 WHERE id = 'b'"], "item 'b' has an invalid code"),
    ],
    ids=lambda value: value[-1][:40] if isinstance(value, list) else "",
)
def test_a_forged_duckdb_file_is_refused(statements: list[str], message: str, databases: Databases) -> None:
    address = damaged(databases, *statements)
    with pytest.raises(StorageError, match=message) as caught, Index.open(address) as index:
        index.verify()
    assert str(caught.value).isprintable()


def test_duckdb_files_may_have_other_tables_views_and_macros(databases: Databases) -> None:
    address = damaged(
        databases, "CREATE TABLE u (x INTEGER)", "CREATE VIEW v AS FROM t", "CREATE MACRO mine(x) AS x + 1"
    )
    with Index.open(address) as index:
        index.verify()
        index.add(["c"], {"image": np.zeros((1, 1), np.uint8)})
        assert index.ids() == ["a", "b", "c"]


def test_a_duckdb_file_accesses_no_other_file(databases: Databases, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("s3cret", encoding="utf-8")
    with Index.open(damaged(databases)) as index:
        engine: Any = index._backend
        for statement in (
            f"SELECT * FROM read_text('{tmp_path}/secret.txt')",
            f"SELECT * FROM '{tmp_path}/secret.csv'",
            f"COPY t TO '{tmp_path}/stolen.csv'",
            f"ATTACH '{tmp_path}/other.duckdb'",
            "INSTALL httpfs",
            "SET enable_external_access = true",
        ):
            with pytest.raises(StorageError, match=r"^DuckDB at "):
                engine._ask(statement)
    assert [path.name for path in tmp_path.iterdir()] == ["secret.txt"]


def test_sessions_that_are_the_first_in_a_postgresql_database_do_not_conflict(databases: Databases) -> None:
    address = databases.new_database()
    together = threading.Barrier(8)

    def create(number: int) -> int:
        together.wait(timeout=30)
        with Index.create(f"{address}#t{number}", 64, ("image",)) as index:
            return len(index)

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(create, range(8))] == [0] * 8


@pytest.mark.parametrize("table", ["", "_about"])
def test_a_view_in_postgresql_is_refused(table: str, databases: Databases) -> None:
    address = databases.place("postgresql")
    server, _, name = address.partition("#")
    name += table
    Index.create(address, 8, ["image"]).close()
    with importlib.import_module("psycopg").connect(server, autocommit=True) as connection:
        connection.execute(f"ALTER TABLE {name} RENAME TO {name}_hidden")
        connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {name}_hidden")
    with pytest.raises(StorageError, match=f"is damaged: {name} is not a table"):
        Index.open(address)


@pytest.mark.parametrize("version", [0, 99])
def test_another_format_in_postgresql_is_refused(version: int, databases: Databases) -> None:
    address = databases.place("postgresql")
    with Index.create(address, 64, ["image"]) as index:
        engine: Any = index._backend
        engine._transaction(lambda cursor: cursor.execute(f"UPDATE {engine._about} SET format = {version}"))
    with pytest.raises(StorageError, match=r"its format version is 0|has format version 99, .*: upgrade dlfh"):
        Index.open(address)
