"""Published data sets are read from files as they circulate; defects are one sentence."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dlfh._labels import LabelSets
from dlfh.datasets import Paired, Split, load_dataset, make_paired
from dlfh.datasets.descriptions import describe
from dlfh.datasets.leakage import shared_points
from dlfh.errors import DataWarning, InputError
from tests.datasets.matlab73 import write_matlab73
from tests.strategies import seeds

in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
Variables = dict[str, Any]

N_QUERIES, N_DATABASE, N_LABELS = 6, 30, 4
NAMES = {
    "X, Y": {"queries": ("XTest", "YTest", "testL"), "train": ("XDatabase", "YDatabase", "databaseL")},
    "I, T": {"queries": ("I_te", "T_te", "L_te"), "train": ("I_tr", "T_tr", "L_tr")},
}
FORMATS: dict[str, Callable[[Path, Variables], Any]] = {
    "5.mat": lambda path, variables: scipy.io.savemat(path, variables),
    "5 compressed.mat": lambda path, variables: scipy.io.savemat(path, variables, do_compression=True),
    "7.3.mat": write_matlab73,
    ".npz": lambda path, variables: np.savez(
        path, **{name: v.toarray() if sp.issparse(v) else v for name, v in variables.items()}
    ),
}


def original(data_set: str = "wiki") -> Split:
    rng = np.random.default_rng(0)
    widths = describe(data_set).widths
    parts = []
    for n in (N_DATABASE, N_QUERIES):
        text = rng.random((n, widths["text"])) * (rng.random((n, widths["text"])) < 0.05)
        indicator = np.zeros((n, N_LABELS), np.int8)
        indicator[np.arange(n), np.arange(n) % N_LABELS] = 1
        parts.append(Paired({"image": rng.random((n, widths["image"])), "text": text}, indicator))
    return Split("original", parts[0], parts[1], parts[0])


LABELS: dict[str, Callable[[Any], Any]] = {
    "indicator": lambda L: L.astype(float),
    "logical": lambda L: L.astype(bool),
    "sparse": lambda L: sp.csc_array(L.astype(float)),
    "ids from 0": lambda L: L.argmax(axis=1).astype(float),
    "ids from 1": lambda L: L.argmax(axis=1).astype(np.uint8) + 1,
    "row of ids": lambda L: L.argmax(axis=1).reshape(1, -1) + 1.0,
}


def variables(split: Split, dialect: str = "X, Y", form: str = "indicator") -> Variables:
    return {
        name: array
        for part, points in (("queries", split.queries), ("train", split.train))
        for name, array in zip(
            NAMES[dialect][part],
            (points.modalities["image"], points.modalities["text"], LABELS[form](points.labels)),
            strict=True,
        )
    }


def dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else matrix


def same_points(found: Paired, expected: Paired) -> None:
    assert list(found.modalities) == list(expected.modalities)
    for name, matrix in expected.modalities.items():
        np.testing.assert_array_equal(dense(found.modalities[name]), dense(matrix))
    np.testing.assert_array_equal(
        LabelSets.from_labels(found.labels).set_of_point, LabelSets.from_labels(expected.labels).set_of_point
    )


@pytest.mark.parametrize("form", LABELS)
@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize("ending", FORMATS)
def test_every_convention_format_and_form_of_labels_yields_the_same_data(
    tmp_path: Path, ending: str, dialect: str, form: str
) -> None:
    expected = original()
    path = tmp_path / f"wiki{ending}"
    FORMATS[ending](path, variables(expected, dialect, form))
    split = load_dataset("wiki", path)
    assert split.name == "Wiki"
    same_points(split.train, expected.train)
    same_points(split.queries, expected.queries)
    assert split.database is split.train


@pytest.mark.parametrize("ending", ["5.mat", "7.3.mat"])
def test_a_separate_database_and_network_features_are_read(tmp_path: Path, ending: str) -> None:
    expected = original()
    whole = variables(expected, "I, T") | {
        f"{letter}_db": array
        for letter, array in zip("ITL", (*expected.train.modalities.values(), expected.train.labels + 0.0), strict=True)
    }
    for name in ("I_tr", "T_tr", "L_tr"):
        whole[name] = whole[name][:10]
    FORMATS[ending](tmp_path / f"a{ending}", whole)
    split = load_dataset("wiki", tmp_path / f"a{ending}")
    assert len(split.train) == 10
    same_points(split.database, expected.train)

    network = {"VTest": np.random.default_rng(1).random((N_QUERIES, 7)), "VDatabase": np.eye(N_DATABASE, 7)}
    FORMATS[ending](tmp_path / f"b{ending}", variables(expected) | network)
    split = load_dataset("wiki", tmp_path / f"b{ending}", modalities={"image": "cnn", "text": "text"})
    np.testing.assert_array_equal(dense(split.queries.modalities["image"]), network["VTest"])
    assert "modality 'image' has 7 features; Wiki as published has 128" in split.notes


def test_network_features_can_replace_the_image_features(tmp_path: Path) -> None:
    expected = original()
    data = variables(expected)
    for part in ("Test", "Database"):
        data[f"V{part}"] = data.pop(f"X{part}")
    scipy.io.savemat(tmp_path / "wiki.mat", data)
    split = load_dataset("wiki", tmp_path / "wiki.mat", modalities={"image": "cnn", "text": "text"})
    same_points(split.train, expected.train)
    same_points(split.queries, expected.queries)


@pytest.mark.parametrize("form", LABELS)
def test_a_single_query_keeps_its_labels(tmp_path: Path, form: str) -> None:
    expected = original()
    one = replace(expected, queries=expected.queries.take(np.array([2])))
    scipy.io.savemat(tmp_path / "wiki.mat", variables(one, form=form))
    found = load_dataset("wiki", tmp_path / "wiki.mat")
    np.testing.assert_array_equal(
        np.ravel(dense(found.queries.labels)), np.ravel(dense(found.train.labels[np.array([2])]))
    )


def swap(a: str, b: str) -> Callable[[Variables], None]:
    def change(data: Variables) -> None:
        data[a], data[b] = data[b], data[a]

    return change


def put(name: str, new: Callable[[Any], Any]) -> Callable[[Variables], None]:
    def change(data: Variables) -> None:
        data[name] = new(data[name])

    return change


def both(*changes: Callable[[Variables], None]) -> Callable[[Variables], None]:
    def change(data: Variables) -> None:
        for one in changes:
            one(data)

    return change


def with_value(row: int, column: int, value: float) -> Callable[[Any], Any]:
    def change(matrix: Any) -> Any:
        matrix = np.array(matrix, float)
        matrix[row, column] = value
        return matrix

    return change


TRANSPOSED = "XTest has shape 128 x 6 but there are 6 points: transpose it"
WRONG: dict[str, tuple[Callable[[Variables], Any], str]] = {
    "modalities swapped everywhere": (
        both(swap("XTest", "YTest"), swap("XDatabase", "YDatabase")),
        "XDatabase and YDatabase are swapped: they have 10 and 128 features, but Wiki has 128 image features",
    ),
    "modalities swapped in the queries": (swap("XTest", "YTest"), "XTest and YTest are swapped: they have 10 and 128"),
    "other features, swapped in the queries": (
        both(put("XTest", lambda X: X[:, :30]), put("XDatabase", lambda X: X[:, :30]), swap("XTest", "YTest")),
        "XDatabase and YDatabase have 30 and 10 features, but XTest and YTest have 10 and 30: one of",
    ),
    "queries and database swapped": (
        both(*(swap(a, b) for a, b in zip(*NAMES["X, Y"].values(), strict=True))),
        "XTest has 30 rows but XDatabase has only 6: queries and database are swapped",
    ),
    "features cut": (put("YDatabase", lambda Y: Y[:-1]), "the same number of rows: XDatabase has 30, YDatabase has 29"),
    "labels cut": (put("testL", lambda L: L[:-2]), "the same number of rows: XTest has 6, YTest has 6, testL has 4"),
    "columns cut": (put("XTest", lambda X: X[:, :-1]), "XDatabase has 128 features but XTest has 127"),
    "transposed": (put("XTest", np.transpose), TRANSPOSED),
    "labels transposed": (put("testL", np.transpose), "testL has shape 4 x 6 but there are 6 points: transpose it"),
    "all transposed": (
        both(*(put(name, np.transpose) for name in ("XTest", "YTest", "testL"))),
        TRANSPOSED.split(" but")[0],
    ),
    "missing": (
        lambda data: data.pop("YTest"),
        "the variable 'YTest' is missing; the file contains 'XDatabase', 'XTest', ",
    ),
    "NaN": (
        put("XDatabase", with_value(7, 3, np.nan)),
        "XDatabase contains NaN or infinity: 1 value, the first in row 7, column 3",
    ),
    "infinity": (put("YTest", with_value(0, 2, np.inf)), "YTest contains NaN or infinity: 1 value, the first in row 0"),
    "labels of -1": (
        put("testL", lambda L: 2 * L - 1),
        "testL must be an indicator matrix of 0 and 1, but it also contains -1",
    ),
    "no labels": (put("testL", lambda L: 0 * L), "testL contains no labels"),
    "fewer labels": (put("testL", lambda L: L[:, :3]), "databaseL has 4 labels but testL has 3"),
    "half ids": (put("testL", lambda L: L.argmax(1) + 0.5), "testL must contain class ids: whole numbers"),
    "two forms": (put("testL", lambda L: L.argmax(1)), "databaseL and testL use different label formats"),
    "ids from 0 and 1": (
        both(put("testL", lambda L: L.argmax(1)), put("databaseL", lambda L: L.argmax(1) + 1)),
        "databaseL has class ids 1 to 4 but testL has 0 to 3: one starts at 0, the other at 1",
    ),
    "text for features": (put("XTest", lambda X: "none"), "XTest must be a numeric matrix with one row per point"),
    "complex": (put("XTest", lambda X: X + 1j), "XTest must be a numeric matrix .* type complex128"),
    "features in a row": (
        both(put("YTest", lambda Y: np.ones((1, N_QUERIES))), put("YDatabase", lambda Y: np.ones((1, N_DATABASE)))),
        f"YDatabase has shape 1 x {N_DATABASE} but there are {N_DATABASE} points: transpose it",
    ),
    "sparse labels in a row": (
        put("testL", lambda L: sp.csr_array(np.ones((1, N_QUERIES)))),
        f"testL has shape 1 x {N_QUERIES} but there are {N_QUERIES} points: transpose it",
    ),
    "labels without columns": (
        put("testL", lambda L: L[:, :0]),
        "testL must be a matrix with one row per point or a vector of class ids, got shape 6 x 0",
    ),
    "labels with three dimensions": (
        put("testL", lambda L: np.ones((N_QUERIES, 2, 2))),
        "testL must be a matrix with one row per point or a vector of class ids, got shape 6 x 2 x 2",
    ),
    "names and ids": (
        both(put("testL", lambda L: np.full(len(L), "sea", object)), put("databaseL", lambda L: L.argmax(1))),
        "databaseL and testL use different label formats",
    ),
    "network features for the queries only": (
        lambda data: data.update(VTest=data.pop("XTest")),
        "the variable 'XTest' is missing; the file contains 'VTest', ",
    ),
    "network features only": (
        lambda data: data.update(VTest=data.pop("XTest"), VDatabase=data.pop("XDatabase")),
        "there is no modality 'image'; the file has 'text', 'cnn'",
    ),
    "empty": (put("XTest", lambda X: np.zeros((0, 0))), "XTest must be a numeric matrix with one row per point"),
    "unknown names": (
        lambda data: [data.pop(name) for name in list(data)] and data.update(A=np.eye(3)),
        "it has neither the variables XTest, .*; it contains 'A'$",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("ending", ["5.mat", "7.3.mat"])
def test_defects_are_one_sentence(tmp_path: Path, ending: str, wrong: str) -> None:
    change, message = WRONG[wrong]
    data = variables(original())
    change(data)
    path = tmp_path / f"wiki{ending}"
    FORMATS[ending](path, data)
    with pytest.raises(InputError, match=message) as caught:
        load_dataset("wiki", path)
    assert str(caught.value).startswith(f"{path} is not Wiki as expected: ")
    assert "\n" not in str(caught.value)


def test_unknown_names_and_options_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "wiki.mat"
    scipy.io.savemat(path, variables(original()))
    with pytest.raises(InputError, match=r"unknown data set 'coco': the known ones are 'wiki', 'mirflickr-25k', .*"):
        load_dataset("coco", path)
    with pytest.raises(InputError, match="on_leak must be one of 'warn', 'error', 'drop', got 'ignore'"):
        load_dataset("wiki", path, on_leak="ignore")  # type: ignore[call-overload]


ARGUMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "no such modality": (
        {"modalities": {"image": "cnn", "text": "text"}},
        r"modalities does not match .*wiki\.mat: there is no modality 'cnn'; the file has 'image', 'text'",
    ),
    "one modality": (
        {"modalities": {"image": "image"}},
        "modalities must name at least two modalities, got {'image': 'image'}",
    ),
    "names alone": ({"modalities": ["image", "text"]}, "modalities must map new names to names in the file"),
    "numbers": ({"modalities": {"image": 0, "text": 1}}, "modalities must map new names to names in the file"),
    "all points": ({"n_queries": 36}, "n_queries is 36 but there are only 36 points"),
    "no queries": ({"n_queries": 0}, "n_queries must be an integer of at least 1, got 0"),
    "half a query": ({"n_queries": 0.5}, "n_queries must be an integer of at least 1, got 0.5"),
    "a seed in words": ({"random_state": "one"}, "random_state must be None, a non-negative integer .*, got 'one'"),
}


@pytest.mark.parametrize("wrong", ARGUMENTS)
def test_wrong_arguments_are_not_blamed_on_the_file(tmp_path: Path, wrong: str) -> None:
    options, message = ARGUMENTS[wrong]
    scipy.io.savemat(tmp_path / "wiki.mat", variables(original()))
    with pytest.raises(InputError, match=f"^{message}"):
        load_dataset("wiki", tmp_path / "wiki.mat", **options)


def test_points_without_labels_cause_a_warning(tmp_path: Path) -> None:
    data = variables(original())
    data["databaseL"][[2, 5, 6]] = 0
    scipy.io.savemat(tmp_path / "wiki.mat", data)
    with pytest.warns(DataWarning, match="3 rows of databaseL have no label"):
        split = load_dataset("wiki", tmp_path / "wiki.mat")
    assert any("3 rows of databaseL have no label" in note for note in split.notes)


@pytest.fixture
def leaking(tmp_path: Path) -> Path:
    data = variables(original())
    for modality in "XY":
        data[f"{modality}Test"][[1, 4]] = data[f"{modality}Database"][[9, 3]]
    data["XTest"][0] = data["XDatabase"][0]  # identical in one modality only
    scipy.io.savemat(tmp_path / "wiki.mat", data)
    return tmp_path / "wiki.mat"


def test_leaks_are_reported(leaking: Path) -> None:
    message = "2 queries also occur in the training set, identical in all modalities: query 1 = row 9, query 4 = row 3"
    with pytest.warns(DataWarning, match=message):
        assert len(load_dataset("wiki", leaking).train) == N_DATABASE
    with pytest.raises(InputError, match=message):
        load_dataset("wiki", leaking, on_leak="error")


def test_leaks_can_be_dropped(leaking: Path) -> None:
    split = load_dataset("wiki", leaking, on_leak="drop")
    kept = np.setdiff1d(np.arange(N_DATABASE), [3, 9])
    same_points(split.train, original().train.take(kept))
    assert split.database is split.train
    assert len(split.queries) == N_QUERIES
    assert any(note.endswith("; dropped") for note in split.notes)


@pytest.mark.parametrize(("part", "called"), [("train", "training set"), ("database", "database")])
def test_dropping_leaks_must_leave_some_points(tmp_path: Path, part: str, called: str) -> None:
    train, queries = original().train.take(np.arange(N_QUERIES)), original().queries
    parts = {"train": train, "database": train, part: queries}
    Split("Wiki", parts["train"], queries, parts["database"]).write(tmp_path / "wiki.npz")
    with pytest.raises(InputError, match=f'every point of the {called} is also a query, so on_leak="drop" would'):
        load_dataset("wiki", tmp_path / "wiki.npz", on_leak="drop")


def test_notes_state_whether_leaks_were_dropped(leaking: Path) -> None:
    with pytest.warns(DataWarning, match="2 queries also occur in the training set"):
        split = load_dataset("wiki", leaking)
    converted = leaking.with_suffix(".npz")
    split.write(converted)
    with pytest.warns(DataWarning, match="2 queries also occur in the training set"):
        assert load_dataset("wiki", converted).notes == split.notes
    notes = load_dataset("wiki", converted, on_leak="drop").notes
    assert notes == (*split.notes[:-1], f"{split.notes[-1]}; dropped")


def test_leaks_into_a_separate_database_are_reported_separately(tmp_path: Path) -> None:
    expected = original()
    whole = variables(expected, "I, T") | {
        "I_db": np.concatenate([expected.train.modalities["image"], expected.queries.modalities["image"][:2]]),
        "T_db": np.concatenate([expected.train.modalities["text"], expected.queries.modalities["text"][:2]]),
        "L_db": np.concatenate([expected.train.labels, expected.queries.labels[:2]]),
    }
    scipy.io.savemat(tmp_path / "wiki.mat", whole)
    with pytest.raises(InputError, match="2 queries also occur in the database"):
        load_dataset("wiki", tmp_path / "wiki.mat", on_leak="error")
    split = load_dataset("wiki", tmp_path / "wiki.mat", on_leak="drop")
    same_points(split.database, expected.train)
    same_points(split.train, expected.train)


@given(seeds, st.booleans(), st.booleans())
def test_shared_points_equal_those_of_a_direct_search(seed: int, query_sparse: bool, database_sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    items = {"a": rng.integers(-1, 2, (40, 2)).astype(np.float32), "b": rng.integers(0, 2, (40, 3)) * -0.0}
    items["b"] += rng.integers(0, 2, (40, 3))
    queries = {"b": rng.integers(0, 2, (9, 3)).astype(float), "a": rng.integers(-1, 2, (9, 2)).astype(float)}
    expected = [
        (q, i) for q in range(9) for i in range(40) if all((queries[name][q] == items[name][i]).all() for name in items)
    ]
    found = shared_points(
        {name: sp.csr_array(matrix) if query_sparse else matrix for name, matrix in queries.items()},
        {name: sp.csr_array(matrix) if database_sparse else matrix for name, matrix in items.items()},
    )
    assert list(zip(*(rows.tolist() for rows in found), strict=True)) == expected


@given(seeds, st.integers(1, 49), st.integers(1, 10))
def test_a_split_by_protocol_contains_each_point_once(seed: int, n_queries: int, n_unseen: int) -> None:
    n = 60
    ids = np.arange(n, dtype=float).reshape(-1, 1)
    data = Paired({"image": ids, "text": ids}, np.arange(n))
    split = Split.by_protocol(data, n_queries, random_state=seed)
    again = Split.by_protocol(data, n_queries, random_state=seed)
    np.testing.assert_array_equal(split.queries.labels, again.queries.labels)
    assert len(split.queries) == n_queries
    assert split.database is split.train
    assert sorted([*split.train.labels, *split.queries.labels]) == list(range(n))
    unseen = split.with_unseen_database(n_unseen, random_state=seed)
    assert len(unseen.database) == n_unseen
    assert sorted([*unseen.train.labels, *unseen.database.labels]) == sorted(split.train.labels)
    np.testing.assert_array_equal(unseen.queries.labels, split.queries.labels)


def test_each_seed_draws_different_queries(tmp_path: Path) -> None:
    expected = original()
    scipy.io.savemat(tmp_path / "wiki.mat", variables(expected))
    one, two, again = (load_dataset("wiki", tmp_path / "wiki.mat", random_state=seed) for seed in (1, 2, 1))
    assert len(one.queries) == N_QUERIES
    np.testing.assert_array_equal(one.queries.modalities["image"], again.queries.modalities["image"])
    assert (one.queries.modalities["image"] != two.queries.modalities["image"]).any()
    points = np.concatenate([dense(part.modalities["image"]) for part in (one.train, one.queries)])
    whole = np.concatenate([expected.train.modalities["image"], expected.queries.modalities["image"]])
    np.testing.assert_array_equal(np.sort(points[:, 0]), np.sort(whole[:, 0]))


def test_a_file_without_a_split_is_split_by_the_papers_protocol(tmp_path: Path) -> None:
    data = make_paired(1000, image_features=500, text_features=1000, random_state=0)
    data.write(tmp_path / "nus.npz")
    split = load_dataset("nus-wide", tmp_path / "nus.npz")
    assert (len(split.train), len(split.queries)) == (990, 10)
    np.testing.assert_array_equal(
        split.queries.modalities["image"], Split.by_protocol(data, 10, random_state=0).queries.modalities["image"]
    )


@st.composite
def splits(draw: st.DrawFn) -> Split:
    rng = np.random.default_rng(draw(seeds))
    n = draw(st.integers(4, 12))
    form = draw(st.sampled_from(["indicator", "sparse", "ids", "names", "lists"]))
    indicator = rng.random((n, 3)) < 0.5
    indicator[:, 0] |= ~indicator.any(axis=1)
    ids = indicator.argmax(axis=1)
    words = np.array(["sea", "Übersee", "tree"])
    labels = {
        "indicator": indicator.astype(np.int8),
        "sparse": sp.csr_array(indicator.astype(np.int8)),
        "ids": ids,
        "names": words[ids],
        "lists": [list(words[row]) for row in indicator],
    }[form]
    names = tuple(words) if form in ("indicator", "sparse") and draw(st.booleans()) else None
    image = rng.random((n, 3)).astype(draw(st.sampled_from([np.float16, np.float32, np.float64])))
    text = sp.csr_array((rng.integers(0, 2, (n, 4)) * rng.random((n, 4))).astype(np.float32))
    data = Paired({"image": image, "the text": text, "a": rng.random((n, 1))}, labels, names)
    split = Split.by_protocol(data, 1, random_state=0, name=draw(st.text(max_size=4)), notes=("a note",))
    return split.with_unseen_database(1) if draw(st.booleans()) else split


def identical(found: Paired, expected: Paired) -> None:
    assert list(found.modalities) == list(expected.modalities)
    for name, matrix in expected.modalities.items():
        assert sp.issparse(found.modalities[name]) == sp.issparse(matrix)
        assert found.modalities[name].dtype == matrix.dtype
        np.testing.assert_array_equal(dense(found.modalities[name]), dense(matrix))
    if isinstance(expected.labels, list):
        assert found.label_names is not None
        lists = [[found.label_names[label] for label in np.flatnonzero(row)] for row in dense(found.labels)]
        assert lists == [sorted(row) for row in expected.labels]
        return
    assert sp.issparse(found.labels) == sp.issparse(expected.labels)
    np.testing.assert_array_equal(dense(found.labels), dense(expected.labels))
    assert found.label_names == expected.label_names


@in_one_folder
@given(splits(), st.sampled_from([".npz", ".parquet"]))
def test_splits_are_read_as_written(tmp_path: Path, split: Split, suffix: str) -> None:
    split.write(tmp_path / f"data{suffix}")
    found = Split.read(tmp_path / f"data{suffix}")
    assert (found.name, found.notes) == (split.name, split.notes)
    assert (found.database is found.train) == (split.database is split.train)
    for part in ("train", "queries", "database"):
        identical(getattr(found, part), getattr(split, part))
    split.train.write(tmp_path / f"all{suffix}")
    identical(Paired.read(tmp_path / f"all{suffix}"), split.train)
    with pytest.raises(InputError, match=f"all{suffix} is not split: it has no 'train' points; use Paired.read"):
        Split.read(tmp_path / f"all{suffix}")


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".mat"])
def test_a_converted_matlab_file_contains_the_same_data(tmp_path: Path, suffix: str) -> None:
    write_matlab73(tmp_path / "wiki.mat", variables(original(), "I, T", "ids from 1"))
    split = load_dataset("wiki", tmp_path / "wiki.mat")
    split.write(tmp_path / f"converted{suffix}")
    again = load_dataset("wiki", tmp_path / f"converted{suffix}")
    same_points(again.train, split.train)
    same_points(again.queries, split.queries)
    assert again.notes == split.notes


def wiki_of(n_train: int, n_queries: int, widths: tuple[int, int] = (128, 10), name: str = "Wiki") -> Split:
    rng = np.random.default_rng(0)
    parts = [
        Paired({"image": rng.random((n, widths[0])), "text": rng.random((n, widths[1]))}, np.arange(n) % 10)
        for n in (n_train, n_queries)
    ]
    return Split(name, parts[0], parts[1], parts[0])


AS_PUBLISHED: dict[str, tuple[Split, dict[str, Any], bool]] = {
    "all as it should be": (wiki_of(2173, 693), {}, True),
    "without a name": (wiki_of(2173, 693, name=""), {}, True),
    "queries drawn anew": (wiki_of(2173, 693), {"n_queries": 500}, True),
    "another name": (wiki_of(2173, 693, name="Wiki-shaped (generated)"), {}, False),
    "a point too few": (wiki_of(2172, 693), {}, False),
    "an image feature too many": (wiki_of(2173, 693, (129, 10)), {}, False),
    "a text feature too few": (wiki_of(2173, 693, (128, 9)), {}, False),
    "text for the image": (wiki_of(2173, 693), {"modalities": {"image": "text", "text": "text"}}, False),
    "modalities under other names": (wiki_of(2173, 693), {"modalities": {"a": "image", "text": "text"}}, False),
}


@pytest.mark.parametrize("case", AS_PUBLISHED)
def test_as_published_requires_the_name_and_the_published_numbers(tmp_path: Path, case: str) -> None:
    split, options, expected = AS_PUBLISHED[case]
    split.write(tmp_path / "wiki.npz")
    found = load_dataset("wiki", tmp_path / "wiki.npz", **options)
    assert found.name == (split.name or "Wiki")
    assert found.as_published is expected


def test_dropping_leaks_keeps_as_published(tmp_path: Path) -> None:
    split = wiki_of(2173, 693)
    for name, matrix in split.queries.modalities.items():
        matrix[0] = split.train.modalities[name][5]
    split.write(tmp_path / "wiki.npz")
    found = load_dataset("wiki", tmp_path / "wiki.npz", on_leak="drop")
    assert (len(found.train), found.as_published) == (2172, True)


def test_files_without_a_data_set_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", x=np.eye(3))
    with pytest.raises(InputError, match=r"a\.npz: it has neither .* nor modalities with 'labels'; it contains 'x'"):
        Paired.read(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", image=np.eye(3), labels=np.arange(2))
    with pytest.raises(InputError, match=r"a\.npz: .* the same number of rows: 'image' has 3, 'labels' has 2"):
        Paired.read(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", image=np.eye(3), labels=np.arange(3), about=np.array("{"))
    with pytest.raises(InputError, match=r"a\.npz: 'about' is damaged"):
        Paired.read(tmp_path / "a.npz")
    np.savez(tmp_path / "a.npz", image=np.eye(3), labels=np.arange(3), part=np.array(["train", "dev", "train"]))
    with pytest.raises(
        InputError, match=r"'part' must contain only 'train', 'queries' and 'database', got \['dev', 'train'\]"
    ):
        Paired.read(tmp_path / "a.npz")
    with pytest.raises(InputError, match="a modality stored in a file cannot be called 'labels'"):
        Paired({"labels": np.eye(2), "b": np.eye(2)}, [0, 1]).write(tmp_path / "a.npz")


SHAPES = [("wiki", 500), ("mirflickr", 900), ("nus-wide", 2000), ("iapr-tc12", 600)]


@pytest.mark.parametrize(("name", "n_points"), SHAPES)
def test_generated_data_have_the_shape_of_the_original_and_are_marked(name: str, n_points: int, tmp_path: Path) -> None:
    description, split = describe(name), load_dataset(f"generated:{name}", n_points=n_points)
    assert "generated" in split.name
    assert "generated" in split.notes[0]
    assert len(split.train) + len(split.queries) == n_points
    assert len(split.queries) == round(n_points * description.n_queries / description.n_points)
    for modality, width in description.widths.items():
        assert split.train.modalities[modality].shape[1] == width
    labels = LabelSets.from_labels(split.train.labels)
    per_point = np.diff(labels.starts)[labels.set_of_point].mean()
    assert per_point == pytest.approx(description.labels_per_point, rel=0.1)
    again = load_dataset(f"generated:{name}", n_points=n_points)
    np.testing.assert_array_equal(again.queries.modalities["image"], split.queries.modalities["image"])
    split.write(tmp_path / "like.npz")
    loaded = load_dataset(name, tmp_path / "like.npz")
    assert len(loaded.train) == len(split.train)
    assert (loaded.name, loaded.notes[:1], loaded.as_published) == (split.name, split.notes, False)
    loaded.write(tmp_path / "again.npz")
    assert load_dataset(name, tmp_path / "again.npz").notes == loaded.notes


def test_generated_data_at_full_size_have_the_label_sets_of_the_original() -> None:
    split = load_dataset("generated:mirflickr-25k", random_state=1)
    description = describe("mirflickr-25k")
    assert len(split.train) + len(split.queries) == description.n_points
    labels = sp.vstack([split.train.labels, split.queries.labels])
    assert LabelSets.from_labels(labels).n_sets == description.n_label_sets
    text = split.train.modalities["text"]
    assert text.nnz / text.shape[0] == pytest.approx(description.words_per_text, rel=0.1)


def test_every_data_set_has_its_title_and_notes(tmp_path: Path) -> None:
    for name in ("mirflickr-25k", "nus-wide", "iapr-tc12"):
        scipy.io.savemat(tmp_path / "a.mat", variables(original(name)))
        split = load_dataset(name, tmp_path / "a.mat")
        assert split.name == describe(name).title
        assert sp.issparse(split.train.modalities["text"])
        assert f"the file has 36 points; {split.name} as published has" in " ".join(split.notes)


@pytest.mark.data
def test_wiki_is_as_described(data_folder: Path) -> None:
    split, description = load_dataset("wiki", data_folder / "wiki.mat", on_leak="error"), describe("wiki")
    assert split.notes == ()
    assert len(split.queries) == description.n_queries
    assert LabelSets.from_labels(split.train.labels).n_sets == description.n_label_sets


@pytest.mark.data
def test_iapr_is_as_described(data_folder: Path, tmp_path: Path) -> None:
    with pytest.warns(DataWarning, match="19 queries also occur in the training set"):
        split = load_dataset("iapr-tc12", data_folder / "iapr_tc12.npz")
    description = describe("iapr-tc12")
    labels = LabelSets.from_labels(sp.vstack([split.train.labels, split.queries.labels]))
    assert (labels.n_points, labels.n_sets) == (description.n_points, description.n_label_sets)
    assert np.diff(labels.starts)[labels.set_of_point].mean() == pytest.approx(description.labels_per_point, abs=0.05)
    assert len(split.notes) == len(description.notes) + 1
    split.write(tmp_path / "iapr.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        same_points(load_dataset("iapr-tc12", tmp_path / "iapr.parquet").queries, split.queries)


def test_a_user_file_is_split_as_stored_or_drawn(tmp_path: Path) -> None:
    original().write(tmp_path / "mine.npz")
    split = load_dataset(tmp_path / "mine.npz")
    assert (split.name, split.as_published) == ("original", False)
    same_points(split.queries, original().queries)
    make_paired(50, random_state=0).write(tmp_path / "mine.npz")
    drawn = load_dataset(tmp_path / "mine.npz")
    assert (drawn.name, len(drawn.queries), len(drawn.train)) == ("mine", 5, 45)
    assert len(load_dataset(tmp_path / "mine.npz", n_queries=7, random_state=1).queries) == 7


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("wiki",), "wiki does not come with dlfh: pass the path of its file, or load 'generated:wiki'"),
        (("coco",), "there is no data set or file 'coco': use icons, wiki, "),
        (("generated:wiki", "x.npz"), "generated:wiki is not read from a file: omit path, or load .* 'wiki'"),
        (("icons", "x.npz"), "the icons come with the extra 'icons', not from a file"),
    ],
)
def test_names_without_a_file_and_files_without_a_name_are_refused(arguments: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_dataset(*arguments)
    with pytest.raises(InputError, match="n_points applies to generated data only"):
        load_dataset("wiki", "x.npz", n_points=5)
