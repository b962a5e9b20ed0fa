"""Every engine does what a plain list of items does, after any sequence of changes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
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
from dlfh.index import Index
from tests.index.engines import ENGINES, made, place_of
from tests.index.plain_index import MODALITIES, PlainIndex, PlainItem, as_arguments, assert_same
from tests.index.plain_where import FILTERS, METADATA, holds

#: Awkward ones; all engines take them.
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
#: How many sequences, and how long, each engine is worth in time; `make test-engines` takes more.
EFFORTS = int(os.environ.get("DLFH_EFFORT", "1"))
EFFORT = {"memory": (12, 10), "folder": (5, 8), "duckdb": (6, 8), "postgresql": (10, 10), "milvus": (3, 8)}


class Battery(RuleBasedStateMachine):
    """Changes and questions, to an index and to a plain list."""

    make: Callable[[], Any]
    #: Whether items that are equally far from a query are in the order in which they were added.
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
            own = {m: codes[data.draw(st.integers(0, 2))] for m, state in by_name.items() if state != "absent"}
            new.append(PlainItem(name, data.draw(METADATA), own, by_name))
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
    def ask(self, data: st.DataObject, k: int, modality: str, where: dict[str, Any] | None) -> None:
        code = next(iter(data.draw(st.sampled_from(self.model.items)).codes.values()))
        query = code ^ np.packbits(np.random.default_rng(data.draw(st.integers(0, 2))).random(N_BITS) < 0.1)
        ids = data.draw(st.none() | st.lists(st.sampled_from(self.model.ids()), unique=True, max_size=4))
        allowed = [
            item.id
            for item in self.model.items
            if (where is None or holds(where, item.metadata)) and (ids is None or item.id in ids)
        ]
        expected = self.model.nearest(query, modality, None, allowed)
        (found,) = self.index.search(modality, query, k, ids=ids, where=where)
        self.compare(found, expected, k)
        radius = data.draw(st.integers(0, N_BITS))
        (hits,) = self.index.search_radius(modality, query, radius, ids=ids, where=where)
        self.compare(hits[0], [own for own in expected if own[0] <= radius], None)
        items = list(self.index.items(hits.positions[0].tolist()))
        assert [item.id for item in items] == hits.ids[0]

    def compare(self, found: list[Any], expected: list[tuple[float, str, bool]], k: int | None) -> None:
        own = [(hit.distance, hit.id, hit.learned) for hit in found]
        if self.ties:
            assert own == expected[:k]
            return
        assert [apart for apart, _, _ in own] == [apart for apart, _, _ in expected[:k]]
        assert {*own} <= {*expected}

    @precondition(lambda self: self.model.items)
    @rule(data=st.data(), modality=st.sampled_from(MODALITIES))
    def ask_by_a_projection(self, data: st.DataObject, modality: str) -> None:
        query = np.random.default_rng(data.draw(st.integers(0, 9))).normal(size=N_BITS)
        (found,) = self.index.search(modality, query, 3, ranking="asymmetric")
        self.compare(found, self.model.nearest(query, modality, None), 3)

    @rule(names=st.lists(st.sampled_from(IDS), max_size=4))
    def look(self, names: list[str]) -> None:
        there = self.model.ids()
        assert self.index.contains(names).tolist() == [name in there for name in names]
        assert [name in self.index for name in names] == [name in there for name in names]
        for name in names:
            if name not in there:
                with pytest.raises(InputError, match="is not in the index"):
                    self.index.get(name)

    @invariant()
    def is_as_it_should_be(self) -> None:
        if hasattr(self, "index"):
            assert_same(self.index, self.model)


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def index(engine: str, tmp_path: Path, postgres: str) -> Iterator[Any]:
    with made(engine, tmp_path, postgres, N_BITS, MODALITIES) as index:
        yield index


def test_any_sequence_of_operations_agrees_with_a_plain_list(engine: str, index: Any) -> None:
    def emptied() -> Any:
        left = index.ids()
        if left:
            index.remove(left)
        return index

    class OfEngine(Battery):
        make = staticmethod(emptied)
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


def test_filters_mean_the_same_in_every_engine(engine: str, index: Any) -> None:
    @settings(max_examples=8 * EFFORTS, deadline=None, suppress_health_check=[*HealthCheck])
    @given(st.lists(METADATA, min_size=6, max_size=6), st.lists(FILTERS, min_size=10, max_size=10))
    def agrees(metadata: list[dict[str, Any] | None], filters: list[dict[str, Any]]) -> None:
        codes = np.zeros((len(metadata), 13), np.uint8)
        index.put([f"{row}" for row in range(len(metadata))], {"image": codes}, metadata=metadata)
        for where in filters:
            found = index.search("image", codes[:1], 100, where=where).ids[0]
            assert sorted(found) == [f"{row}" for row, own in enumerate(metadata) if holds(where, own)]

    agrees()


@pytest.mark.parametrize("n_bits", [1, 64, 300])
def test_codes_of_any_length_come_back_and_are_found(engine: str, n_bits: int, tmp_path: Path, postgres: str) -> None:
    rng = np.random.default_rng(n_bits)
    bits = rng.random((40, n_bits)) < 0.5
    bits[1] = ~bits[0]  # as far apart as codes can be
    codes = np.packbits(bits, axis=1)
    ids = [f"{row}" for row in range(40)]
    local = made("memory", tmp_path, postgres, n_bits, ("image",))
    with made(engine, tmp_path, postgres, n_bits, ("image",)) as index:
        for own in (local, index):
            own.add(ids, {"image": codes}, learned=rng.random(40) < 2)
        assert np.array_equal([item.codes["image"] for item in index.items()], codes)
        expected, found = (own.search("image", codes[:5], 40) for own in (local, index))
        assert np.array_equal(found.distances, expected.distances)
        if engine != "milvus":
            assert found.ids == expected.ids
        assert [{*own} for own in found.ids] == [{*ids}] * 5


@pytest.mark.parametrize("engine", [name for name in ENGINES if name not in ("memory", "folder")])
def test_an_index_is_there_when_it_is_opened_again(engine: str, tmp_path: Path, postgres: str) -> None:
    address = place_of(engine, tmp_path, postgres)
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


def test_what_is_wrong_is_said_in_a_sentence_and_changes_nothing(index: Any) -> None:
    code = np.zeros((1, 13), np.uint8)
    index.add(["a"], {"image": code})
    before = index.ids()
    for wrong, sentence in (
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
        (lambda: index.search("image", code, ranking="asymmetric"), "needs queries as projections"),
        (lambda: index.get("b"), "id 'b' is not in the index"),
        (lambda: list(index.items([12345])), "positions must be"),
        (lambda: index.count("image", "odd"), "state must be"),
    ):
        with pytest.raises(InputError, match=sentence):
            wrong()
    assert index.ids() == before
    assert 3 not in index


@pytest.mark.parametrize("name", ["a\0b", "\0", "x" * 3000, "😀" * 1500])
def test_ids_that_are_too_much_are_stored_and_found_or_refused(name: str, index: Any) -> None:
    code = np.zeros((1, 13), np.uint8)
    metadata = {"words": name, "nested": {"%s": ["'", {"\\": None}]}, "number": 10**30, "half": 1e300}
    try:
        index.put([name], {"image": code}, metadata=[metadata])
    except InputError:
        assert name not in index
        assert len(index) == 0
        return
    assert index.ids() == [name]
    assert index.get(name).metadata == metadata
    assert index.search("image", code).ids == [[name]]
    index.remove([name])
    assert len(index) == 0
