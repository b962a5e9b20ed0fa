"""Files of the user in the common layout: read as written, or refused in one sentence."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh.datasets import Paired, Split, load_dataset, make_paired, write_arrays
from dlfh.datasets.loaders import load_file
from dlfh.errors import DataWarning, InputError
from tests.datasets.test_loaders import FORMATS, NAMES, in_one_folder, original, same_points, splits, variables

Arrays = dict[str, Any]
N_POINTS, N_TEST = 12, 4


def user_arrays() -> Arrays:
    rng = np.random.default_rng(0)
    return {
        "image": rng.random((N_POINTS, 5)),
        "text": rng.random((N_POINTS, 3)),
        "labels": np.eye(3)[np.arange(N_POINTS) % 3],
        "is_test": np.arange(N_POINTS) < N_TEST,
    }


def saved(folder: Path, changes: Arrays, name: str = "mine.npz") -> Path:
    np.savez(folder / name, **{key: array for key, array in (user_arrays() | changes).items() if array is not None})
    return folder / name


def about(**fields: Any) -> Any:
    return np.array(json.dumps(fields))


DAMAGED: dict[str, tuple[Any, str]] = {
    "no JSON": (np.array("{"), "it is not a JSON object"),
    "a list": (np.array("[[1, 2]]"), "it is not a JSON object"),
    "a number": (np.array(3.0), "it is not a JSON object"),
    "several texts": (np.array(["{}", "{}"]), "it is not a JSON object"),
    "a deep nest": (np.array("[" * 100_000), "it is not a JSON object"),
    "a number for a name": (about(name=3), "'name' must be a string, got 3"),
    "a text for notes": (about(notes="a note"), "'notes' must be a list of strings, got 'a note'"),
    "a note that is none": (about(notes=["a", 1]), r"'notes' must be a list of strings, got \['a', 1\]"),
    "a number for modalities": (about(modalities=3), "'modalities' must be a list of strings, got 3"),
    "numbers for modalities": (about(modalities=[0, 1]), r"'modalities' must be a list of strings, got \[0, 1\]"),
    "a text for label names": (about(label_names="sea"), "'label_names' must be a list of strings, got 'sea'"),
    "nested label names": (about(label_names=[["a"], []]), r"'label_names' must be a list of strings, got \[\['a'\]"),
    "labels as a modality": (about(modalities=["image", "labels"]), "a modality cannot be called 'labels'"),
    "parts as a modality": (about(modalities=["is_test", "image"]), "a modality cannot be called 'is_test'"),
}


@pytest.mark.parametrize("read", [Paired.read, Split.read, load_file, lambda path: load_dataset("wiki", path)])
@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_about_is_refused(tmp_path: Path, damage: str, read: Callable[[Path], Any]) -> None:
    stored, message = DAMAGED[damage]
    path = saved(tmp_path, {"about": stored})
    with pytest.raises(InputError, match=f"'about' is damaged: {message}") as caught:
        read(path)
    assert str(path) in str(caught.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.sampled_from(["image", "text"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
    max_leaves=6,
)


@in_one_folder
@given(
    json_values
    | st.fixed_dictionaries({}, optional=dict.fromkeys(("name", "notes", "modalities", "label_names"), json_values))
)
def test_any_about_is_read_or_refused_in_one_sentence(tmp_path: Path, value: Any) -> None:
    path = saved(tmp_path, {"about": np.array(json.dumps(value))})
    for read in (Paired.read, load_file):
        refusal = f"{path}: "
        try:
            read(path)
        except InputError as error:
            refusal = str(error)
        assert refusal.startswith(f"{path}: ")


def one_value(array: Arrays, row: int, column: int, value: float) -> Any:
    changed = np.array(array)
    changed[row, column] = value
    return changed


GOOD = user_arrays()
WRONG: dict[str, tuple[Arrays, str]] = {
    "soft labels": (
        {"labels": one_value(GOOD["labels"], 5, 2, 0.6)},
        "labels must be an indicator matrix of 0 and 1, but it also contains 0.6",
    ),
    "soft class ids": ({"labels": np.arange(N_POINTS) / 2}, "labels must contain class ids: whole numbers"),
    "labels in words": ({"labels": np.full((N_POINTS, 3), "sea")}, "labels must be an indicator matrix .* type <U3"),
    "a single label": ({"labels": np.float64(3)}, "'labels' must have one row per point, got a scalar"),
    "labels cut": (
        {"labels": GOOD["labels"][:-1]},
        "the same number of rows: 'image' has 12, 'text' has 12, 'labels' has 11",
    ),
    "no labels": (
        {"labels": None},
        "it has neither the variables .*, nor modalities with 'labels'; it contains 'image'",
    ),
    "queries without labels": ({"labels": GOOD["labels"] * ~GOOD["is_test"][:, None]}, "labels contains no labels"),
    "one modality": ({"text": None}, "at least two modalities are needed, but the file has 'image'$"),
    "a vector for a modality": (
        {"text": np.ones(N_POINTS), "ids": np.arange(N_POINTS)},
        "at least two modalities are needed, but the file has 'image'; not a matrix .*: 'text', 'ids'$",
    ),
    "vectors for modalities": (
        {"text": np.ones(N_POINTS), "image": np.ones(N_POINTS)},
        "at least two modalities are needed, but the file has none; not a matrix .*: 'image', 'text'$",
    ),
    "a value for a modality": (
        {"text": np.float64(2), "about": about(modalities=["image", "text"])},
        "'text' must have one row per point, got a scalar",
    ),
    "NaN": (
        {"text": one_value(GOOD["text"], 5, 2, np.nan)},
        "text of train contains NaN or infinity: 1 value, the first in row 1, column 2",
    ),
    "strings": ({"text": GOOD["text"].astype(str)}, "text of train must be a numeric matrix .* type <U"),
    "complex numbers": ({"image": GOOD["image"] + 1j}, "image of train must be a numeric matrix .* type complex128"),
    "an image of pixels": (
        {"image": np.ones((N_POINTS, 4, 4)), "about": about(modalities=["image", "text"])},
        "image of train must be a numeric matrix .* shape 8 x 4 x 4",
    ),
    "queries alone": (
        {"is_test": np.ones(N_POINTS)},
        "a split file must have the parts 'train' and 'queries' .*, but this one has 'queries'$",
    ),
    "no queries": (
        {"part": np.repeat(["train", "database"], N_POINTS // 2)},
        "a split file must have the parts 'train' and 'queries' .*, but this one has 'train', 'database'$",
    ),
    "half divided": (
        {"part": np.repeat(["train", "queries", "all"], N_POINTS // 3)},
        "a split file must have the parts 'train' and 'queries' .* has 'train', 'queries', 'all'$",
    ),
    "more queries than other points": (
        {"is_test": np.arange(N_POINTS) < 7},
        "image of queries has 7 rows but image of train has only 5: queries and database are swapped",
    ),
    "parts by names": (
        {"is_test": np.full(N_POINTS, "no")},
        "'is_test' must be 1 for queries and 0 for all other points",
    ),
    "parts by halves": (
        {"is_test": np.full(N_POINTS, 0.5)},
        "'is_test' must be 1 for queries and 0 for all other points",
    ),
    "too few parts": ({"is_test": np.ones(3)}, "'is_test' has 3 entries but there are 12 points"),
    "a single point": (
        {name: GOOD[name][:1] for name in ("image", "text", "labels")} | {"is_test": None},
        "at least two points are needed, but there is only one",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_defects_are_one_sentence(tmp_path: Path, wrong: str) -> None:
    changes, message = WRONG[wrong]
    path = saved(tmp_path, changes)
    with pytest.raises(InputError, match=message) as caught:
        load_file(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)


@in_one_folder
@given(splits(), st.sampled_from([".npz", ".parquet"]))
def test_data_are_read_as_written(tmp_path: Path, split: Split, suffix: str) -> None:
    path = tmp_path / f"mine{suffix}"
    split.write(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        loaded = load_file(path)
    assert loaded.name == (split.name or "mine")
    assert loaded.notes[: len(split.notes)] == split.notes
    expected = {"train": split.train, "queries": split.queries}
    if split.database is not split.train:
        expected["database"] = split.database
    assert loaded.parts.keys() == expected.keys()
    for part, points in expected.items():
        same_points(loaded.parts[part], points)
    split.train.write(path)
    if len(split.train) > 1:
        loaded = load_file(path)
        assert (loaded.name, list(loaded.parts)) == ("mine", ["all"])
        same_points(loaded.parts["all"], split.train)


@pytest.mark.parametrize("dialect", NAMES)
@pytest.mark.parametrize("ending", ["5.mat", "7.3.mat", ".npz"])
def test_matlab_variable_names_are_accepted(tmp_path: Path, ending: str, dialect: str) -> None:
    expected = original()
    FORMATS[ending](tmp_path / f"mine{ending}", variables(expected, dialect))
    loaded = load_file(tmp_path / f"mine{ending}")
    assert loaded.name == Path(f"mine{ending}").stem
    same_points(loaded.parts["train"], expected.train)
    same_points(loaded.parts["queries"], expected.queries)


def test_network_features_are_a_modality_if_all_parts_have_them(tmp_path: Path) -> None:
    expected = original()
    network = {"VTest": expected.queries.modalities["image"][:, :7]}
    write_arrays(tmp_path / "mine.mat", variables(expected) | network)
    assert list(load_file(tmp_path / "mine.mat").parts["train"].modalities) == ["image", "text"]
    network["VDatabase"] = expected.train.modalities["image"][:, :7]
    write_arrays(tmp_path / "mine.mat", variables(expected) | network)
    loaded = load_file(tmp_path / "mine.mat")
    assert [list(points.modalities) for points in loaded.parts.values()] == [["image", "text", "cnn"]] * 2


@pytest.mark.parametrize(("stored", "name"), [(None, "mine"), (about(), "mine"), (about(name="Ours"), "Ours")])
def test_the_name_is_the_stored_one_or_the_file_name(tmp_path: Path, stored: Any, name: str) -> None:
    for division in (GOOD["is_test"], None):
        path = saved(tmp_path, {"about": stored, "is_test": division})
        assert load_file(path).name == name
    assert Split.read(saved(tmp_path, {"about": stored})).name == name


def test_class_ids_of_one_array_are_not_compared_between_parts(tmp_path: Path) -> None:
    ids = np.where(GOOD["is_test"], 0, 1) + np.arange(N_POINTS) % 3
    loaded = load_file(saved(tmp_path, {"labels": ids}))
    np.testing.assert_array_equal(loaded.parts["queries"].labels, ids[GOOD["is_test"]])


def test_points_without_labels_are_counted_over_all_parts(tmp_path: Path) -> None:
    labels = GOOD["labels"].copy()
    labels[[0, 5, 6]] = 0
    with pytest.warns(DataWarning, match="mine: 3 rows of labels have no label") as caught:
        loaded = load_file(saved(tmp_path, {"labels": labels}))
    assert [warning.filename for warning in caught] == [__file__]
    assert loaded.notes == ("3 rows of labels have no label, so no point counts as similar to them",)


def test_leaks_are_reported(tmp_path: Path) -> None:
    image, text = GOOD["image"].copy(), GOOD["text"].copy()
    image[9], text[9] = image[2], text[2]
    path = saved(tmp_path, {"image": image, "text": text})
    message = "1 query also occurs in the training set, identical in all modalities: query 2 = row 5"
    with pytest.warns(DataWarning, match=f"mine: {message}") as caught:
        assert load_file(path).notes == (message,)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.raises(InputError, match=f"{path}: {message}"):
        load_file(path, on_leak="error")
    dropped = load_file(path, on_leak="drop")
    np.testing.assert_array_equal(dropped.parts["train"].modalities["image"], np.delete(image, 9, axis=0)[N_TEST:])
    assert dropped.notes == (f"{message}; dropped",)
    with pytest.raises(InputError, match=r"^on_leak must be one of 'warn', 'error', 'drop', got 'no'"):
        load_file(path, on_leak="no")  # type: ignore[arg-type]


def test_a_sparse_is_test_is_read(tmp_path: Path) -> None:
    data = make_paired(20, random_state=0)
    arrays = {**data.modalities, "labels": data.labels, "is_test": sp.csr_array(np.arange(20)[None] < 5)}
    write_arrays(tmp_path / "mine.npz", arrays)
    loaded = load_file(tmp_path / "mine.npz")
    same_points(loaded.parts["queries"], data.take(np.arange(5)))
