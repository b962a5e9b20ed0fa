"""Cells, how points are dealt out, what is measured, and how it is kept."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh.bench.cache import Cache, Result
from dlfh.bench.cells import Cell, Deal
from dlfh.bench.cost import Costs
from dlfh.bench.data import Source
from dlfh.bench.measure import build, retrieval
from dlfh.datasets import Paired, make_paired
from dlfh.errors import InputError
from dlfh.metrics import PR, evaluate, mean_average_precision

values = st.one_of(
    st.integers(-100, 100), st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(["", "full", "λ"])
)
deals = st.builds(
    Deal,
    seed=st.integers(0, 9),
    queries=st.none() | st.integers(1, 40),
    unseen_share=st.sampled_from([0.0, 0.2, 0.5]),
    validation=st.sampled_from([0.0, 0.2, 0.5]),
    validation_seed=st.integers(0, 9),
    size=st.none() | st.integers(1, 50),
)


@pytest.fixture(scope="module")
def source() -> Source:
    return Source.of("generated", {"all": make_paired(150, n_labels=5, random_state=0)})


def cell(**changed: object) -> Cell:
    given = {"bits": 16, "seed": 0, "deal": Deal(queries=31)} | changed
    return Cell.make("generated", "0f", str(given.pop("method", "DLFH")), given.pop("parameters", {}), **given)  # type: ignore[arg-type]


def test_a_cells_hash_does_not_change_with_time() -> None:
    fixed = replace(cell(parameters={"scale": 4.0}), version="0.1.0")
    assert fixed.key == "8f6c00a36e99f01d"


@given(st.dictionaries(st.sampled_from("abcλ"), values, max_size=4), deals)
def test_a_cell_comes_back_from_json_with_the_same_hash(parameters: dict[str, object], deal: Deal) -> None:
    original = cell(parameters=parameters, deal=deal)
    again = Cell.from_plain(json.loads(json.dumps(original.plain())))
    assert again == original
    assert again.key == original.key
    assert cell(parameters=dict(reversed(parameters.items())), deal=deal).key == original.key


def test_everything_but_the_name_of_the_data_is_in_the_hash() -> None:
    base = cell()
    others = [
        replace(base, fingerprint="1f"),
        replace(base, method="SCM"),
        cell(parameters={"scale": 1.0}),
        replace(base, bits=32),
        replace(base, seed=1),
        replace(base, deal=Deal(queries=32)),
        replace(base, kind="time"),
        replace(base, k=10),
        replace(base, train_points=100),
        replace(base, version="next"),
    ]
    assert len({base.key, *(each.key for each in others)}) == 1 + len(others)
    assert replace(base, data="other").key == base.key


def numbered(n_points: int) -> Source:
    """Points that tell who they are."""
    ids = np.arange(n_points, dtype=np.float32)[:, None]
    return Source.of("numbered", {"all": Paired({"image": ids, "text": ids}, [0] * n_points)})


@given(deals)
def test_dealt_parts_are_disjoint_and_hold_every_point(deal: Deal) -> None:
    source = numbered(100)
    parts = source.deal(deal)
    own = [parts.train, parts.queries] + ([] if parts.unseen is None else [parts.unseen])
    ids = np.concatenate([each.modalities["text"].ravel() for each in own])
    assert len(np.unique(ids)) == len(ids)
    assert len(parts.train) == source.n_train(deal)
    if deal.size is None and not deal.validation:
        assert len(ids) == 100
    assert (parts.unseen is not None) == (deal.unseen_share > 0)
    again = source.deal(deal)
    np.testing.assert_array_equal(again.train.modalities["image"], parts.train.modalities["image"])


@given(deals)
def test_validation_points_are_never_queries(deal: Deal) -> None:
    source = numbered(100)
    queries = source.deal(replace(deal, validation=0.0)).queries.modalities["text"]
    chosen = source.deal(replace(deal, validation=0.3))
    seen = np.concatenate([chosen.train.modalities["text"], chosen.queries.modalities["text"]])
    assert not np.isin(queries, seen).any()


def test_too_many_queries_are_one_sentence() -> None:
    with pytest.raises(InputError, match="numbered has 10 points: 10 queries leave none to learn from"):
        numbered(10).deal(Deal(queries=10))


def test_the_fingerprint_follows_the_numbers_and_nothing_else(source: Source, tmp_path: Path) -> None:
    again = Source.open(source.save(tmp_path))
    assert again.fingerprint == source.fingerprint
    assert again.modalities == source.modalities
    changed = source.parts["all"].modalities["image"].copy()
    changed[3, 4] += 1
    other = Paired({**source.parts["all"].modalities, "image": changed}, source.parts["all"].labels)
    assert Source.of("generated", {"all": other}).fingerprint != source.fingerprint


@pytest.mark.parametrize(
    "labels",
    [
        ([0, 2, 2], [2, 1]),
        ([["a"], ["c"], ["c"]], [["c"], ["b"]]),
        (np.array([[0], [2], [2]]), np.array([[2], [1]])),
        (np.eye(3)[[0, 2, 2]], sp.csr_array(np.eye(3)[[2, 1]])),
    ],
    ids=["class ids", "lists", "columns of class ids", "indicators"],
)
def test_labels_of_every_form_become_the_same_indicators(labels: tuple[object, object]) -> None:
    def part(own: object, n_points: int) -> Paired:
        return Paired({"image": np.ones((n_points, 2)), "text": np.ones((n_points, 2))}, own)

    source = Source.of("data", {"train": part(labels[0], 3), "queries": part(labels[1], 2)})
    np.testing.assert_array_equal(source.parts["train"].labels.toarray(), np.eye(3)[[0, 2, 2]])
    np.testing.assert_array_equal(source.parts["queries"].labels.toarray(), np.eye(3)[[2, 1]])


@pytest.mark.parametrize("unseen_share", [0.0, 0.25])
def test_one_fit_measures_what_the_metrics_do(source: Source, unseen_share: float) -> None:
    asked = cell(deal=Deal(queries=31, unseen_share=unseen_share), k=7)
    parts = source.deal(asked.deal)
    found, _ = retrieval(asked, parts)
    model = build(asked, 1).fit(parts.train.modalities, parts.train.labels)
    queries, labels = model.encode("text", parts.queries.modalities["text"]), parts.queries.labels
    databases = {
        "learned": (model.codes_["image"], parts.train.labels),
        "hashed": (model.encode("image", parts.train.modalities["image"]), parts.train.labels),
    }
    if parts.unseen is not None:
        databases["unseen"] = (model.encode("image", parts.unseen.modalities["image"]), parts.unseen.labels)
    for protocol, (items, item_labels) in databases.items():
        scores = found["protocols"][protocol]["text → image"]
        arguments = (queries, items, labels, item_labels)
        assert scores["map"] == pytest.approx(mean_average_precision(*arguments), abs=1e-12)
        assert scores["map_at"] == pytest.approx(mean_average_precision(*arguments, k=7), abs=1e-12)
        curve = PR(ranks=scores["ranks"])
        expected = evaluate(*arguments, measures=["nDCG@7", 'P(match="all")@5', "P@7", curve])
        assert scores["ndcg_at"] == pytest.approx(expected["nDCG@7"], abs=1e-12)
        assert scores["exact_at"] == pytest.approx(expected['P(match="all")@5'], abs=1e-12)
        real = model.project("text", parts.queries.modalities["text"])
        asymmetric = mean_average_precision(real, items, labels, item_labels)
        assert scores["asymmetric_map"] == pytest.approx(asymmetric, abs=1e-12)
        assert scores["precision_at"] == pytest.approx(expected["P@7"], abs=1e-12)
        assert scores["precision"] == pytest.approx(expected[curve].precision, abs=1e-12)
        assert scores["recall"] == pytest.approx(expected[curve].recall, abs=1e-12)


def test_a_unified_database_is_encoded_from_all_modalities_by_methods_that_can(source: Source) -> None:
    asked = cell(method="CMFH")
    parts = source.deal(asked.deal)
    found, _ = retrieval(asked, parts)
    model = build(asked, 1).fit(parts.train.modalities, parts.train.labels)
    queries = model.encode("text", parts.queries.modalities["text"])
    unified = model.encode_unified(parts.train.modalities)
    expected = mean_average_precision(queries, unified, parts.queries.labels, parts.train.labels)
    assert found["protocols"]["unified"]["text → image"]["map"] == pytest.approx(expected, abs=1e-12)
    assert "unified" not in retrieval(cell(), parts)[0]["protocols"]


def test_without_held_out_points_every_query_is_asked_once_and_never_of_itself(source: Source) -> None:
    asked = cell()
    parts = source.deal(asked.deal)
    found, _ = retrieval(asked, parts)
    model = build(asked, 1).fit(parts.train.modalities, parts.train.labels)
    text = model.encode("text", parts.queries.modalities["text"])
    image = model.encode("image", parts.queries.modalities["image"])
    order = np.random.default_rng(0).permutation(31)
    halves = np.sort(order[::2]), np.sort(order[1::2])
    for measure, asking in (("map", text), ("asymmetric_map", model.project("text", parts.queries.modalities["text"]))):
        total = sum(
            len(ask)
            * mean_average_precision(
                asking[ask], image[answer], parts.queries.labels[ask], parts.queries.labels[answer]
            )
            for ask, answer in (halves, halves[::-1])
        )
        assert found["protocols"]["unseen"]["text → image"][measure] == pytest.approx(total / 31, abs=1e-12)


def test_a_method_that_learns_from_a_sample_encodes_the_others(source: Source) -> None:
    found, _ = retrieval(cell(train_points=60), source.deal(Deal(queries=31)))
    assert found["n_train"] == 60
    few, _ = retrieval(cell(), source.deal(Deal(queries=31, size=60)))
    everything = found["protocols"]["learned"]["image → text"]["ranks"][-1]
    assert everything == 119  # the database is still the whole training set
    assert few["protocols"]["learned"]["image → text"]["ranks"][-1] == 60


def test_a_result_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    result = Result({"map": 0.5}, {"fit": 1.0}, None, None, {"cores": 2})
    assert cache.get(cell()) is None
    cache.put(cell(), result)
    assert cache.get(cell()) == result
    path = next(cache.cells.glob("*.json"))
    path.write_bytes(path.read_bytes()[:-20])
    assert cache.get(cell()) is None


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl", reason="folders are locked on POSIX systems alone")
    with Cache(tmp_path).alone(), pytest.raises(InputError, match="another run is using"):  # noqa: SIM117
        with Cache(tmp_path).alone():
            pass
    with Cache(tmp_path).alone():
        pass


def test_a_file_in_the_place_of_the_folder_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file; a run needs a folder"):
        Cache(tmp_path / "file")


def test_what_was_stopped_by_a_limit_is_tried_again_under_a_wider_one() -> None:
    stopped = Result({}, {}, "not finished in 5 minutes", {"minutes": 5})
    assert not stopped.may_succeed_with({"minutes": 5, "gigabytes": 99})
    assert stopped.may_succeed_with({"minutes": 6, "gigabytes": 1})
    assert not Result({}, {}, "refused").may_succeed_with({"minutes": 99, "gigabytes": 99})


@given(st.permutations([8, 16, 64]), st.floats(0.1, 100))
def test_expected_seconds_follow_what_was_measured(order: list[int], seconds: float) -> None:
    cells = [cell(bits=bits) for bits in order]
    costs = Costs(dict.fromkeys(cells, 1000))
    assert sorted(cells, key=costs.prior) == sorted(cells, key=lambda each: each.bits)
    costs.add(cells[0], seconds)
    assert costs.expected(cells[0]) == pytest.approx(seconds)
    assert costs.expected(cells[1]) == pytest.approx(seconds * cells[1].bits / cells[0].bits)


def test_nothing_of_a_run_is_left_open(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    with Cache(tmp_path).alone():
        pass
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before
