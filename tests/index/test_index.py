"""The index returns the same items in the same order as a search of every item."""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dlfh import InputError
from dlfh.codes import hamming_distances, n_bytes, pack, random_codes, unpack
from dlfh.errors import StorageError
from dlfh.index import ApproximateSearch, Index, nearest
from dlfh.metrics.ranking import byte_tables
from tests.index.plain_index import (
    MODALITIES,
    PlainIndex,
    as_arguments,
    assert_same,
    assert_search_agrees,
    parts_of,
    random_items,
)
from tests.strategies import code_lengths, seeds


def make(rng: np.random.Generator, n: int, n_bits: int) -> tuple[Index, PlainIndex]:
    items = random_items(rng, [f"item {i}" for i in range(n)], n_bits)
    index, model = Index(n_bits, MODALITIES), PlainIndex(n_bits, items)
    half = n // 2
    index.add(**as_arguments(items[:half], n_bits))
    index.add(**as_arguments(items[half:], n_bits))
    return index, model


kinds = st.sampled_from(["codes", "projections", "tables"])


def random_query(rng: np.random.Generator, n_bits: int, kind: str) -> np.ndarray:
    if kind == "tables":  # few distinct values, so that scores are often equal
        return rng.integers(-3, 4, (n_bytes(n_bits), 256)).astype(np.float32)
    return rng.standard_normal(n_bits) if kind == "projections" else random_codes(rng, 1, n_bits)[0]


@given(seeds, code_lengths, st.integers(0, 25), st.integers(1, 30), kinds)
def test_search_equals_brute_force(seed: int, n_bits: int, n: int, k: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    index, model = make(rng, n, n_bits)
    for modality in MODALITIES:
        assert_search_agrees(index, model, random_query(rng, n_bits, kind), modality, k)


@given(seeds, code_lengths, st.integers(1, 25), st.integers(1, 30), kinds)
def test_a_filtered_search_equals_brute_force_on_the_subset(seed: int, n_bits: int, n: int, k: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    index, model = make(rng, n, n_bits)
    ids = [str(name) for name in rng.choice(model.ids(), rng.integers(0, n + 1))]
    assert_search_agrees(index, model, random_query(rng, n_bits, kind), "image", k, ids=ids)


@given(seeds, code_lengths, st.integers(0, 25), st.booleans())
def test_radius_search_equals_brute_force(seed: int, n_bits: int, n: int, filtered: bool) -> None:
    rng = np.random.default_rng(seed)
    index, model = make(rng, n, n_bits)
    query, radius = random_query(rng, n_bits, "codes"), int(rng.integers(0, n_bits + 2))
    ids = model.ids()[::2] if filtered else None
    (hits,) = index.search_radius("text", query, radius, ids=ids)
    expected = [entry for entry in model.nearest(query, "text", None, ids) if entry[0] <= radius]
    assert [(hit.distance, hit.id, hit.learned) for hit in hits[0]] == expected


@given(seeds, code_lengths)
def test_xor_of_one_mask_into_queries_and_database_changes_nothing(seed: int, n_bits: int) -> None:
    rng = np.random.default_rng(seed)
    codes, queries, mask = (random_codes(rng, n, n_bits) for n in (40, 5, 1))
    projections = rng.standard_normal((5, n_bits))
    flipped = projections * (1 - 2.0 * np.unpackbits(mask, axis=1, count=n_bits))
    ids = [str(i) for i in range(40)]
    found = []
    for database, packed, real in ((codes, queries, projections), (codes ^ mask, queries ^ mask, flipped)):
        index = Index(n_bits, ["image"])
        index.add(ids, {"image": database})
        found.append([index.search("image", packed), index.search("image", real, ranking="asymmetric")])
    for before, after in zip(*found, strict=True):
        assert before.ids == after.ids
        np.testing.assert_array_equal(before.distances, after.distances)


@given(seeds, code_lengths)
def test_asymmetric_search_ranks_by_decreasing_inner_product(seed: int, n_bits: int) -> None:
    rng = np.random.default_rng(seed)
    codes, projections = random_codes(rng, 60, n_bits), rng.standard_normal((4, n_bits)).astype(np.float32)
    index = Index(n_bits, ["image"])
    index.add([str(i) for i in range(60)], {"image": codes})
    hits = index.search("image", projections, k=60, ranking="asymmetric")
    products = projections.astype(np.float64) @ unpack(codes, n_bits).T
    ranked = np.take_along_axis(products, hits.positions, axis=1)
    tolerance = n_bits * 2.0**-22 * np.abs(projections).max()
    assert (np.diff(ranked, axis=1) <= tolerance).all()
    totals = np.abs(projections).sum(axis=1, dtype=np.float64)[:, None]
    np.testing.assert_allclose(totals - 2 * hits.distances, ranked, atol=tolerance)


@given(seeds, code_lengths, st.integers(1, 40))
def test_a_shortlist_of_all_items_equals_asymmetric_search(seed: int, n_bits: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    index, _ = make(rng, 30, n_bits)
    projections = rng.standard_normal((3, n_bits))
    reranked = index.search("image", projections, k=k, ranking="asymmetric", shortlist=max(k, 30))
    exact = index.search("image", projections, k=k, ranking="asymmetric")
    assert reranked.ids == exact.ids
    np.testing.assert_array_equal(reranked.distances, exact.distances)


@given(seeds, code_lengths)
def test_tables_of_projections_give_the_asymmetric_ranking(seed: int, n_bits: int) -> None:
    rng = np.random.default_rng(seed)
    index, _ = make(rng, 30, n_bits)
    projections = rng.integers(-9, 10, (3, n_bits)).astype(np.float32)  # sums are exact
    by_tables = index.search("text", byte_tables(projections), k=30)
    by_projections = index.search("text", projections, k=30, ranking="asymmetric")
    assert by_tables.ids == by_projections.ids
    totals = np.abs(projections).sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(by_tables.distances, 2 * by_projections.distances - totals)


@given(seeds, st.integers(1, 30))
def test_the_best_of_two_indexes_are_the_best_of_both_together(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    codes, tables = random_codes(rng, 60, 32), rng.standard_normal((1, 4, 256)).astype(np.float32)
    parts = slice(0, 25), slice(25, 60), slice(0, 60)
    hits = []
    for part in parts:
        index = Index(32, ["labels"])
        index.add([str(i) for i in range(60)][part], {"labels": codes[part]})
        hits.append(index.search("labels", tables, k)[0])
    first, second, whole = hits
    assert sorted([*first, *second], key=lambda hit: hit.distance)[:k] == whole


@given(seeds, code_lengths, st.integers(1, 30), kinds)
def test_distances_equal_those_of_a_search(seed: int, n_bits: int, n: int, kind: str) -> None:
    rng = np.random.default_rng(seed)
    present = rng.random(n) < 0.7
    index = Index(n_bits, ["image", "text"])
    codes = random_codes(rng, n, n_bits)
    names = [f"i{row}" for row in range(n)]
    index.add(names, {"image": codes, "text": codes}, present={"text": present}, learned={"text": present})
    index.remove(names[::5])
    queries = np.stack([random_query(rng, n_bits, kind) for _ in range(2)])
    distances = index.distances("text", queries)
    hits = index.search("text", queries, n, ranking="hamming" if kind == "codes" else "asymmetric")
    np.testing.assert_array_equal(np.take_along_axis(distances, hits.positions, axis=1), hits.distances)
    assert np.isinf(distances).sum() == 2 * (len(index) - hits.positions.shape[1])
    has_code, learned = index.states("text")
    np.testing.assert_array_equal(has_code, np.isfinite(distances[0]))
    np.testing.assert_array_equal(learned, has_code)
    some = rng.permutation(len(index))[:7]
    ids = index.ids()
    assert index.positions([ids[place] for place in some]).tolist() == some.tolist()


def test_asymmetric_search_stays_within_the_shortlist() -> None:
    rng = np.random.default_rng(0)
    codes, projections = random_codes(rng, 500, 64), rng.standard_normal((20, 64))
    index = Index(64, ["image"])
    index.add([str(i) for i in range(500)], {"image": codes})
    shortlist = index.search("image", projections, k=30)
    reranked = index.search("image", projections, k=30, ranking="asymmetric", shortlist=30)
    assert reranked.ids != shortlist.ids
    assert [sorted(row) for row in reranked.ids] == [sorted(row) for row in shortlist.ids]


def test_equal_weights_give_hamming_distances() -> None:
    rng = np.random.default_rng(0)
    index, _ = make(rng, 30, 20)
    codes = random_codes(rng, 5, 20)
    weighted = index.search("image", 3.0 * unpack(codes, 20), k=30, ranking="asymmetric")
    plain = index.search("image", codes, k=30)
    assert weighted.ids == plain.ids
    np.testing.assert_array_equal(weighted.distances, 3 * plain.distances)


def test_codes_of_maximum_length() -> None:
    n_bits = 16_384
    codes = pack([[1] * n_bits, [-1] * n_bits, [1] + [-1] * (n_bits - 1)])
    index = Index(n_bits, ["image"])
    index.add(["all", "none", "first"], {"image": codes})
    expected = [("none", 0), ("first", 1), ("all", n_bits)]
    assert [hit[:2] for hit in index.search("image", codes[1])[0]] == expected
    assert [hit[:2] for hit in index.search("image", -np.ones(n_bits), ranking="asymmetric")[0]] == expected
    with pytest.raises(InputError, match="n_bits must be an integer from 1 to 16384"):
        Index(n_bits + 1, ["image"])


@pytest.mark.parametrize("scale", [1e-310, 1e-200, 1e200, 4e307])
def test_the_scale_of_a_projection_does_not_matter(scale: float) -> None:
    rng = np.random.default_rng(0)
    index, _ = make(rng, 30, 16)
    z = rng.integers(-4, 5, 16).astype(float)
    expected = index.search("image", z, ranking="asymmetric")
    assert index.search("image", z * scale, ranking="asymmetric").ids == expected.ids
    assert index.search("image", np.zeros(16), k=2, ranking="asymmetric").distances.tolist() == [[0, 0]]


@pytest.fixture(scope="module")
def large() -> tuple[Index, np.ndarray]:
    """An index with many equal distances, and more codes than two threads search in one block each."""
    codes = random_codes(np.random.default_rng(0), 600_000, 16)
    index = Index(16, ["image"])
    index.add([str(i) for i in range(len(codes))], {"image": codes})
    return index, codes


@pytest.mark.parametrize("n_jobs", [1, 2, 3])
@pytest.mark.parametrize("n_queries", [1, 4])
def test_large_searches_equal_brute_force_with_any_number_of_threads(
    large: tuple[Index, np.ndarray], n_jobs: int, n_queries: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nearest, "_MIN_BY_HAMMING", 1 << 18)
    index, codes = large
    projections = np.random.default_rng(n_queries).standard_normal((n_queries, 16))
    distances = hamming_distances(pack(projections), codes)
    expected = np.argsort(distances, axis=1, kind="stable")[:, :50]
    np.testing.assert_array_equal(index.search("image", projections, 50, n_jobs=n_jobs).positions, expected)
    weighted = index.search("image", projections, 50, ranking="asymmetric", n_jobs=n_jobs)
    again = index.search("image", projections, 50, ranking="asymmetric", shortlist=20_000, n_jobs=n_jobs)
    np.testing.assert_array_equal(weighted.positions, again.positions)
    tables = np.random.default_rng(0).integers(0, 9, (n_queries, 2, 256)).astype(np.float32)
    scores = tables[:, 0][:, codes[:, 0]] + tables[:, 1][:, codes[:, 1]]
    best = index.search("image", tables, 50, n_jobs=n_jobs)
    np.testing.assert_array_equal(best.positions, np.argsort(-scores, axis=1, kind="stable")[:, :50])
    (near, *_) = index.search_radius("image", projections, 1, n_jobs=n_jobs)
    np.testing.assert_array_equal(np.sort(near.positions[0]), np.flatnonzero(distances[0] <= 1))


def assert_few_parts(index: Index) -> None:
    sizes = [len(part) for part in parts_of(index)]
    assert all(size >= 1.5 * following for size, following in itertools.pairwise(sizes))  # O(log n) segments
    for part in parts_of(index):
        assert len(part.segment) - len(part) <= len(part.segment) / 4


class IndexMachine(RuleBasedStateMachine):
    """Compare any sequence of changes, in memory and on disk, with a list of items."""

    def __init__(self) -> None:
        super().__init__()
        self.root = tempfile.TemporaryDirectory()
        self.folder = Path(self.root.name) / "index"

    @initialize(seed=seeds, n_bits=st.sampled_from([1, 7, 8, 20, 64, 100]))
    def create(self, seed: int, n_bits: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.model = PlainIndex(n_bits)
        self.seen = self.model.copy()
        self.memory = Index(n_bits, MODALITIES)
        self.disk = Index.create(self.folder, n_bits, MODALITIES)
        self.reader = Index.open(self.folder)
        self.n_ever = 0

    def some_ids(self, most: int) -> list[str]:
        size = int(self.rng.integers(1, min(most, len(self.model.items)) + 1))
        return [str(name) for name in self.rng.choice(self.model.ids(), size, replace=False)]

    def change(self, method: str, *arguments: Any, **options: Any) -> None:
        for index in (self.memory, self.disk):
            getattr(index, method)(*arguments, **options)

    @rule(n=st.integers(0, 12))
    def add(self, n: int) -> None:
        items = random_items(self.rng, [f"é{self.n_ever + i}" for i in range(n)], self.model.n_bits)
        self.n_ever += n
        self.change("add", **as_arguments(items, self.model.n_bits))
        self.model.add(items)

    @precondition(lambda self: self.model.items)
    @rule(most=st.integers(1, 12))
    def remove(self, most: int) -> None:
        ids = self.some_ids(most)
        self.change("remove", ids)
        self.model.remove(ids)

    @precondition(lambda self: self.model.items)
    @rule(most=st.integers(1, 5), n=st.integers(0, 5))
    def put(self, most: int, n: int) -> None:
        ids = [*self.some_ids(most), *(f"é{self.n_ever + i}" for i in range(n))]
        self.rng.shuffle(ids)
        self.n_ever += n
        items = random_items(self.rng, ids, self.model.n_bits)
        self.change("put", **as_arguments(items, self.model.n_bits))
        known = {*self.model.ids()}
        self.model.remove([name for name in ids if name in known])
        self.model.add(items)

    @precondition(lambda self: self.model.items)
    @rule()
    def add_existing(self) -> None:
        items = random_items(self.rng, ["brand new", self.some_ids(1)[0]], self.model.n_bits)
        for index in (self.memory, self.disk):
            with pytest.raises(InputError, match="already in the index"):
                index.add(**as_arguments(items, self.model.n_bits))

    @rule()
    def remove_unknown(self) -> None:
        ids = [*self.model.ids()[:1], "unknown"]
        for index in (self.memory, self.disk):
            with pytest.raises(InputError, match="'unknown' is not in the index"):
                index.remove(ids)

    @rule()
    def compact(self) -> None:
        self.change("compact")

    @rule()
    def reopen(self) -> None:
        self.disk.close()
        self.disk = Index.open(self.folder, writable=True)
        self.disk.verify()

    @rule()
    def refresh(self) -> None:
        self.reader.refresh()
        self.seen = self.model.copy()

    @rule(k=st.integers(1, 20), kind=kinds, filtered=st.booleans())
    def search(self, k: int, kind: str, filtered: bool) -> None:
        query = random_query(self.rng, self.model.n_bits, kind)
        for modality in MODALITIES:
            for index, model in ((self.memory, self.model), (self.disk, self.model), (self.reader, self.seen)):
                options = {"ids": model.ids()[::3]} if filtered else {}
                assert_search_agrees(index, model, query, modality, k, **options)

    @invariant()
    def has_the_same_items(self) -> None:
        if hasattr(self, "model"):
            assert_same(self.disk, self.model)
            assert self.memory.ids() == self.model.ids()
            assert self.reader.ids() == self.seen.ids()
            assert_few_parts(self.disk)

    def teardown(self) -> None:
        if hasattr(self, "model"):
            assert_same(self.memory, self.model)
            self.disk.close()
            self.reader.close()
        self.root.cleanup()


TestAnySequenceOfChanges = IndexMachine.TestCase
TestAnySequenceOfChanges.settings = settings(max_examples=20, stateful_step_count=30)


@given(seed=seeds, n=st.integers(0, 80))
def test_items_equals_get(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    index = Index(20, MODALITIES)
    for start in range(0, n, 17):
        ids = [str(i) for i in range(start, min(start + 17, n))]
        index.add(**as_arguments(random_items(rng, ids, 20), 20))
    index.remove(index.ids()[::5])
    positions = rng.integers(0, len(index), 50).tolist() if len(index) else []
    for selected in (None, positions, []):
        ids = index.ids() if selected is None else [index.ids()[place] for place in selected]
        for item, name in zip(index.items(selected), ids, strict=True):
            single = index.get(name)
            assert (item.id, item.metadata, item.states) == (name, single.metadata, single.states)
            assert {m: code.tolist() for m, code in item.codes.items()} == {
                m: code.tolist() for m, code in single.codes.items()
            }
    names = [*index.ids(), "unknown"]
    assert index.contains(names).tolist() == [name in index for name in names]
    with pytest.raises(InputError, match="positions must be an array, got"):
        list(index.items([[0], [0, 1]]))  # type: ignore[list-item]
    with pytest.raises(InputError, match="positions must refer to items in the index"):
        list(index.items([len(index)]))


def test_adding_one_at_a_time_keeps_few_segments() -> None:
    index = Index(8, ["image"])
    for i in range(1000):
        index.add([str(i)], {"image": np.array([[i % 256]], np.uint8)})
    assert_few_parts(index)
    assert index.ids() == [str(i) for i in range(1000)]


def test_ids_with_equal_hashes_are_distinguished() -> None:
    names = ["a", "A", "á", "a\u0301", "a ", " a", "日本", "🐈", "x" * 10_000, "\0"]
    index = Index(8, ["image"])
    index.add(names, {"image": np.arange(len(names), dtype=np.uint8)[:, None]})
    assert index.ids() == names
    for i, name in enumerate(names):
        assert name in index
        assert index.get(name).codes["image"].tolist() == [i]
    assert "b" not in index
    for never in ("", 3, "\ud800"):
        assert never not in index


def test_searching_from_several_threads_while_the_index_changes() -> None:
    rng = np.random.default_rng(0)
    codes = random_codes(rng, 2000, 64)
    index = Index(64, ["image"])
    index.add([str(i) for i in range(1000)], {"image": codes[:1000]})
    failures: list[Any] = []

    def search() -> None:
        for i in range(100):
            hits = index.search("image", codes[i], k=1)
            if hits.ids != [[str(i)]] or hits.distances[0, 0] != 0:
                failures.append(hits.ids)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(1000, 1100):
        index.add([str(i)], {"image": codes[i : i + 1]})
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_searches_but_does_not_write(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    codes = random_codes(rng, 300_000, 64)
    index = Index.create(tmp_path / "index", 64, ["image"])
    index.add([str(i) for i in range(len(codes))], {"image": codes})
    index.search("image", codes[:50])
    child = os.fork()
    if child == 0:  # pragma: no cover
        status = 1
        try:
            found = index.search("image", codes[:50], k=1).positions[:, 0].tolist() == list(range(50))
            try:
                index.remove(["1"])
            except StorageError:
                status = 0 if found else 2
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    index.remove(["1"])
    index.close()


def clustered(rng: np.random.Generator, n: int, n_bits: int) -> np.ndarray:
    centres = rng.random((20, n_bits)) < 0.5
    return np.packbits(centres[rng.integers(0, 20, n)] ^ (rng.random((n, n_bits)) < 0.05), axis=1)


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("ivf", {"n_lists": 16, "n_probe": 16}),
        ("multihash", {"n_tables": 1, "bits": 4, "n_flips": 4}),
        ("hnsw", {"breadth": 600, "n_links": 32}),
    ],
)
def test_approximate_search_with_exhaustive_settings_is_exact(kind: Any, options: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    codes, learned = clustered(rng, 600, 64), rng.random(600) < 0.5
    index = Index(64, ["image"])
    index.add([str(i) for i in range(600)], {"image": codes}, learned=learned)
    fast = ApproximateSearch(index, "image", kind, random_state=0, n_jobs=1, **options)
    queries = clustered(rng, 50, 64)
    found, exact = fast.search(queries, k=10), index.search("image", queries, k=10)
    assert fast.recall_ == 1
    np.testing.assert_array_equal(found.distances, exact.distances)
    np.testing.assert_array_equal(found.learned, learned[found.positions])
    for i, row in enumerate(found.positions):
        np.testing.assert_array_equal(hamming_distances(queries[i : i + 1], codes[row])[0], found.distances[i])
        nearer = exact.distances[i] < exact.distances[i, -1]
        np.testing.assert_array_equal(row[nearer], exact.positions[i][nearer])


@pytest.mark.parametrize("kind", ["ivf", "multihash", "hnsw"])
@pytest.mark.parametrize(("n", "n_bits"), [(1, 1), (3, 5), (50, 8), (2000, 20)])
def test_approximate_search_measures_its_recall(kind: Any, n: int, n_bits: int) -> None:
    rng = np.random.default_rng(0)
    index = Index(n_bits, ["image"])
    codes = random_codes(rng, n, n_bits)
    index.add([str(i) for i in range(n)], {"image": codes})
    queries = random_codes(rng, 30, n_bits)
    fast = ApproximateSearch(index, "image", kind, k=5, queries=queries, n_jobs=1)
    found = fast.search(queries, k=5).distances
    exact = index.search("image", queries, k=5).distances
    assert fast.recall_ == pytest.approx((found <= exact[:, -1:]).mean())
    assert 0 < fast.recall_ <= 1
    assert f"recall {fast.recall_:.3f}" in repr(fast)
    assert (np.diff(found, axis=1) >= 0).all()


def test_approximate_search_does_not_follow_changes() -> None:
    index = Index(8, ["image"])
    index.add(["a", "b"], {"image": np.array([[0], [255]], np.uint8)})
    fast = ApproximateSearch(index, "image", "hnsw")
    index.remove(["a"])
    assert fast.search(np.array([1], np.uint8), k=1).ids == [["a"]]


CODES = {"image": np.zeros((2, 1), np.uint8)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((["a"], CODES), "modality 'image' has 2 codes, but there are 1 ids"),
        ((["a", "a"], CODES), "duplicate id 'a' in rows 0 and 1"),
        ((["a", ""], CODES), "ids must be non-empty strings, got '' in row 1"),
        ((["a", 3], CODES), "ids must be non-empty strings, got 3 in row 1"),
        ((["a", "\ud800"], CODES), "ids must be valid Unicode"),
        (("ab", CODES), "ids must be a list of strings, got str"),
        ((["a", "b"], {"sound": CODES["image"]}), "codes has modality 'sound', but the index has"),
        ((["a", "b"], {}), "item 'a' has no code in any modality"),
        ((["a", "b"], CODES["image"]), "codes must be a dict"),
        ((["a", "b"], {"image": np.zeros((2, 2), np.uint8)}), "must be packed codes of 5 bits"),
        ((["a", "b"], {"image": np.zeros((2, 1))}), "must be packed codes of 5 bits"),
        ((["a", "b"], {"image": np.array([[0], [4]], np.uint8)}), "row 1 has bits set beyond bit"),
        (
            (["a", "b"], {"image": [[0], [0, 8]]}),
            r"codes of modality 'image' must be an array, got \[\[0\], \[0, 8\]\]",
        ),
    ],
)
def test_invalid_items_are_refused(arguments: Any, message: str) -> None:
    index = Index(5, MODALITIES)
    with pytest.raises(InputError, match=message):
        index.add(*arguments)
    assert len(index) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"learned": "yes"}, "learned must be True, False or an array of 2"),
        ({"learned": [True]}, "learned must be True, False or an array of 2"),
        ({"learned": [[True], [True, False]]}, "learned must be an array"),
        ({"present": {"image": [[True], []]}}, "present of modality 'image' must be an array"),
        ({"learned": {"sound": True}}, "learned has modality 'sound'"),
        ({"present": {"image": [True, False]}}, "item 'b' has no code in any modality"),
        ({"present": [True, False]}, "present must be a dict"),
        ({"metadata": [{}]}, "metadata has 1 entries, but there are 2 ids"),
        ({"metadata": {"a": 1}}, "metadata must be a list of dicts or Nones, got dict"),
        ({"metadata": [{}, 3]}, "metadata must be dicts of JSON values, got 3 in row 1"),
        ({"metadata": [{1: 2}, None]}, "metadata must be dicts of JSON values"),
        ({"metadata": [{"a": [{1: 2, "1": 3}]}, None]}, "metadata must be dicts of JSON values"),
        ({"metadata": [{"a": 10**5000}, None]}, "metadata must be dicts of JSON values, got a dict in row 0"),
        ({"metadata": [{"a": float("nan")}, None]}, "metadata must be dicts of JSON values"),
        ({"metadata": [{"a": {1, 2}}, None]}, "metadata must be dicts of JSON values"),
        ({"metadata": [{"a": "\ud800"}, None]}, "metadata must be dicts of JSON values"),
    ],
)
def test_invalid_options_are_refused(options: Any, message: str) -> None:
    index = Index(5, MODALITIES)
    with pytest.raises(InputError, match=message):
        index.add(["a", "b"], CODES, **options)
    assert len(index) == 0


def test_denormal_projections_rank_items() -> None:
    index = Index(3, ["image"])
    index.add(["near", "far", "between"], {"image": pack([[1, 1, 1], [-1, -1, 1], [1, -1, 1]])})
    query = np.array([[4.0, 2.0, 1.0]]) * 5e-324
    (found,) = index.search("image", query, 3, ranking="asymmetric")
    assert [hit.id for hit in found] == ["near", "between", "far"]
    assert [hit.distance for hit in found] == [0.0, 2 * 5e-324, 6 * 5e-324]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("image", np.zeros(2, np.uint8)), {}, "queries must be packed codes of 5 bits"),
        (("sound", np.zeros(1, np.uint8)), {}, r"the index has the modalities \['image', 'text'\], got 'sound'"),
        (("image", np.zeros(1, np.uint8), 0), {}, "k must be an integer of at least 1, got 0"),
        (("image", np.zeros(1, np.uint8)), {"ranking": "cosine"}, "ranking must be one of"),
        (("image", np.zeros(1, np.uint8)), {"ranking": "asymmetric"}, "needs queries as projections"),
        (("image", [[0.5] * 5, [0.5] * 4]), {}, r"queries must be an array, got \[\[0.5, "),
        (("image", np.zeros(4)), {}, "queries as projections must have 5 values each"),
        (("image", np.full((2, 5), np.nan)), {}, "queries have NaN or infinity in row 0"),
        (("image", np.full((2, 5), np.longdouble("1e-4000"))), {}, "too large or too small in row 0"),
        (("image", np.full((2, 5), np.longdouble("1e4000"))), {}, "too large or too small in row 0"),
        (("image", np.zeros((2, 2, 256))), {}, r"score tables must have the shape \(n, 1, 256\), got \(2, 2, 256\)"),
        (("image", np.full((2, 1, 256), 1e39)), {}, "queries have NaN or infinity in row 0"),
        (("image", np.zeros((2, 1, 256)), 3), {"shortlist": 5}, "shortlist applies only to projections"),
        (("image", np.ma.masked_array(np.ones((2, 5)))), {}, "queries is a masked array"),
        (
            ("image", np.zeros(5), 7),
            {"ranking": "asymmetric", "shortlist": 6},
            "shortlist must be an integer of at least",
        ),
        (("image", np.zeros(1, np.uint8)), {"ids": ["a", "unknown"]}, "id 'unknown' is not in the index"),
        (("image", np.zeros(1, np.uint8)), {"ids": "a"}, "ids must be a list of strings, got str"),
    ],
)
def test_invalid_searches_are_refused(arguments: Any, options: Any, message: str) -> None:
    index = Index(5, MODALITIES)
    index.add(["a", "b"], CODES)
    with pytest.raises(InputError, match=message):
        index.search(*arguments, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, ["image"]), "n_bits must be an integer"),
        ((8, []), "needs at least one modality"),
        ((8, ["a", "a"]), "modalities must be distinct"),
        ((8, ["a", 3]), "modalities must be non-empty strings"),
        ((8, None), "modalities must be a list of strings, got None"),
    ],
)
def test_invalid_schemas_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Index(*arguments)


def test_score_tables_have_no_hamming_distance() -> None:
    index, tables = Index(8, ["labels"]), np.zeros((1, 1, 256), np.float32)
    index.add(["a"], {"labels": np.zeros((1, 1), np.uint8)})
    for search in (ApproximateSearch(index, "labels").search, lambda q: index.search_radius("labels", q, 1)):
        with pytest.raises(InputError, match="this search does not support score tables"):
            search(tables)


def test_invalid_approximate_searches_are_refused() -> None:
    index = Index(16, MODALITIES)
    index.add(["a"], {"image": np.zeros((1, 2), np.uint8)})
    for options, message in (
        ({"modality": "text"}, "no item has a code in modality 'text': there is nothing to search"),
        ({"kind": "annoy"}, "kind must be one of"),
        ({"breadth": 3, "kind": "ivf"}, "kind 'ivf' has the options n_lists, n_probe, got 'breadth'"),
        ({"kind": "hnsw", "breadth": 0}, "breadth must be an integer"),
        ({"kind": "multihash", "n_tables": 3, "bits": 8}, r"n_tables \* bits must be at most 16"),
    ):
        with pytest.raises(InputError, match=message):
            ApproximateSearch(index, **({"modality": "image"} | options))


def test_a_closed_index_refuses_all_operations() -> None:
    with Index(8, ["image"]) as index:
        pass
    with pytest.raises(StorageError, match="the index is closed"):
        len(index)
    assert "closed" in repr(index)


def test_unknown_ids_and_states() -> None:
    index = Index(8, ["image"])
    with pytest.raises(InputError, match="id 'a' is not in the index"):
        index.get("a")
    with pytest.raises(InputError, match="state must be one of"):
        index.count("image", "gone")
