"""Data sets of runs: by name and from files, splits, fingerprints and labels."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh.bench.cells import SplitSpec
from dlfh.bench.data import Source, compare_splits, load_source, splits_of
from dlfh.bench.plan import Plan
from dlfh.bench.settings import Settings
from dlfh.cli import main
from dlfh.datasets import Paired, Split, load_dataset, make_paired, write_arrays
from dlfh.datasets.descriptions import DATA_SETS, canonical_name
from dlfh.datasets.layout import write_parts
from dlfh.datasets.paired import stack
from dlfh.errors import DataWarning, InputError
from tests.bench.test_cells import specs


def numbered(n_points: int) -> Source:
    """Return points whose features are their row numbers."""
    ids = np.arange(n_points, dtype=np.float32)[:, None]
    return Source.of("numbered", {"all": Paired({"image": ids, "text": ids}, [0] * n_points)})


@given(specs)
def test_the_parts_of_a_split_are_disjoint_and_hold_every_point(spec: SplitSpec) -> None:
    source = numbered(100)
    parts = source.split(spec)
    points = [parts.train, parts.queries] + ([] if parts.unseen is None else [parts.unseen])
    ids = np.concatenate([each.modalities["text"].ravel() for each in points])
    assert len(np.unique(ids)) == len(ids)
    assert len(parts.train) == source.n_train(spec)
    if spec.size is None and not spec.validation_share:
        assert len(ids) == 100
    assert (parts.unseen is not None) == (spec.unseen_share > 0)
    again = source.split(spec)
    np.testing.assert_array_equal(again.train.modalities["image"], parts.train.modalities["image"])


@given(specs)
def test_validation_points_are_never_queries(spec: SplitSpec) -> None:
    source = numbered(100)
    queries = source.split(replace(spec, validation_share=0.0)).queries.modalities["text"]
    tuned = source.split(replace(spec, validation_share=0.3))
    seen = np.concatenate([tuned.train.modalities["text"], tuned.queries.modalities["text"]])
    assert not np.isin(queries, seen).any()


def test_too_many_queries_are_rejected() -> None:
    with pytest.raises(InputError, match="numbered has 10 points: 10 queries leave none for training"):
        numbered(10).split(SplitSpec(queries=10))


def test_the_fingerprint_depends_on_the_arrays_alone(source: Source, tmp_path: Path) -> None:
    again = Source.open(source.save(tmp_path))
    assert again.fingerprint == source.fingerprint
    assert again.modalities == source.modalities
    changed = source.parts["all"].modalities["image"].copy()
    changed[3, 4] += 1
    other = Paired({**source.parts["all"].modalities, "image": changed}, source.parts["all"].labels)
    assert Source.of("generated", {"all": other}).fingerprint != source.fingerprint


def test_labels_of_every_form_become_the_same_indicators() -> None:
    def part(labels: object, n_points: int) -> Paired:
        return Paired({"image": np.ones((n_points, 2)), "text": np.ones((n_points, 2))}, labels)

    for train, queries in (
        ([0, 2, 2], [2, 1]),
        ([["a"], ["c"], ["c"]], [["c"], ["b"]]),
        (np.array([[0], [2], [2]]), np.array([[2], [1]])),
        (np.eye(3)[[0, 2, 2]], sp.csr_array(np.eye(3)[[2, 1]])),
    ):
        source = Source.of("data", {"train": part(train, 3), "queries": part(queries, 2)})
        np.testing.assert_array_equal(source.parts["train"].labels.toarray(), np.eye(3)[[0, 2, 2]])
        np.testing.assert_array_equal(source.parts["queries"].labels.toarray(), np.eye(3)[[2, 1]])


ALIASES = {
    "Wiki": "wiki",
    "WIKI": "wiki",
    "IAPR": "iapr-tc12",
    "IAPR TC-12": "iapr-tc12",
    "mirflickr": "mirflickr-25k",
    "MIRFLICKR-25K": "mirflickr-25k",
    "nuswide": "nus-wide",
    "NUS-WIDE": "nus-wide",
}


@pytest.mark.parametrize(("alias", "key"), ALIASES.items())
def test_a_data_set_of_several_names_has_one(alias: str, key: str) -> None:
    assert canonical_name(alias) == key
    assert canonical_name(f"generated:{alias}") == f"generated:{key}"


@pytest.mark.parametrize("name", ["icons", "own.npz", "wiki.npz", "own/wiki", "./iapr", "iapr.mat", "coco", ""])
def test_other_names_are_returned_unchanged(name: str) -> None:
    assert canonical_name(name) == name


@given(st.text(max_size=6) | st.sampled_from([*ALIASES, *DATA_SETS]))
def test_canonical_names_are_returned_unchanged(name: str) -> None:
    assert canonical_name(canonical_name(name)) == canonical_name(name)


def test_nothing_unknown_is_generated() -> None:
    with pytest.raises(InputError, match="unknown data set 'coco': the known ones are 'wiki'"):
        canonical_name("generated:coco")


def message_for(name: str, file: Path | None = None, **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        load_source(name, file, **options)
    return str(caught.value)


@pytest.mark.parametrize(("alias", "key"), ALIASES.items())
def test_a_missing_data_set_file_is_requested_under_any_alias(alias: str, key: str) -> None:
    expected = f"{key} does not come with dlfh: name its file with --file, or try generated:{key}"
    assert message_for(alias) == message_for(key) == expected


def test_a_file_for_data_that_come_from_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "wiki.npz"
    load_dataset("generated:wiki", n_points=60).write(path)
    expected = "generated:wiki is generated, not read: omit --file, or load the file as wiki"
    assert message_for("generated:Wiki", path) == message_for("generated:wiki", path, n_points=60) == expected
    assert message_for("icons", path) == 'the icons come with the extra "icons", not from a file: omit --file'
    assert message_for("own.npz", path).startswith("unknown data set 'own.npz': the known ones are 'wiki'")


def test_only_generated_data_have_any_number_of_points(tmp_path: Path) -> None:
    make_paired(20, random_state=0).write(tmp_path / "own.npz")
    for name in ("icons", "wiki", str(tmp_path / "own.npz")):
        assert message_for(name, n_points=10).startswith("--points applies only to generated data")
    assert len(load_source("generated:Wiki", n_points=60).parts["train"]) == 45


def test_unknown_data_sets_and_files_are_refused(tmp_path: Path) -> None:
    expected = "no data set or file 'coco': data sets are icons, wiki, mirflickr-25k, nus-wide, iapr-tc12, "
    assert message_for("coco").startswith(expected)
    (tmp_path / "own.npz").write_bytes(b"nothing")
    assert "own.npz: it is damaged, truncated or not a NumPy archive" in message_for(str(tmp_path / "own.npz"))


def test_generated_data_from_a_file_are_not_the_data_set(tmp_path: Path) -> None:
    split = load_dataset("generated:mirflickr-25k", n_points=200)
    split.write(tmp_path / "like.npz")
    source = load_source("mirflickr", tmp_path / "like.npz")
    assert (source.name, source.like, source.as_published) == (split.name, "mirflickr-25k", False)
    assert source.notes[:1] == split.notes


@pytest.mark.parametrize(("n_train", "expected"), [(2173, True), (2000, False)])
def test_a_data_set_knows_whether_it_is_as_published(tmp_path: Path, n_train: int, expected: bool) -> None:
    like = load_dataset("generated:wiki")
    train = like.train.take(np.arange(n_train))
    Split("Wiki", train, like.queries, train).write(tmp_path / "wiki.npz")
    assert load_source("wiki", tmp_path / "wiki.npz").as_published is expected


def test_a_data_set_without_a_split_gets_the_papers_number_of_queries_anew_for_each_seed(tmp_path: Path) -> None:
    like = load_dataset("generated:wiki")
    write_parts(tmp_path / "wiki.npz", {"all": stack([like.train, like.queries])}, name="Wiki")
    source = load_source("wiki", tmp_path / "wiki.npz")
    assert (list(source.parts), source.as_published) == (["all"], True)
    plan = Plan(source, Settings())
    first, second = (source.split(plan.split(seed)).queries for seed in (0, 1))
    assert len(first) == len(second) == 693
    assert (first.modalities["image"] != second.modalities["image"]).any()
    assert len(plan.cells(plan.settings.row("SCM"), 16)) == 5  # deterministic, but not on five splits


def test_generated_data_are_never_as_published() -> None:
    source = load_source("generated:wiki")
    assert (source.as_published, source.like) == (False, "wiki")


def own_arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {
        "image": rng.random((20, 6)),
        "text": rng.random((20, 4)),
        "labels": np.eye(4, dtype=np.int8)[np.arange(20) % 4],
        "is_test": np.arange(20) < 5,
    }


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "soft labels": (
        {"labels": np.full((20, 4), 0.6)},
        "must be an indicator matrix of 0 and 1, but it also contains 0.6",
    ),
    "one modality": (
        {"text": np.ones(20)},
        "at least two modalities are needed, but the file has 'image'; not a matrix .*: 'text'",
    ),
    "NaN": ({"text": np.full((20, 4), np.nan)}, "text of train contains NaN or infinity: 60 values"),
    "strings": ({"image": np.full((20, 6), "0.5")}, "image of train must be a numeric matrix"),
    "complex": ({"image": np.full((20, 6), 1j)}, "image of train must be a numeric matrix"),
    "a damaged split": ({"is_test": np.ones(3)}, "'is_test' has 3 entries but there are 20 points"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_array_files_are_checked(tmp_path: Path, wrong: str) -> None:
    changes, message = WRONG[wrong]
    write_arrays(tmp_path / "own.npz", own_arrays() | changes)
    with pytest.raises(InputError, match=rf"own\.npz: .*{message}"):
        load_source(str(tmp_path / "own.npz"))


def test_array_files_can_be_sources(tmp_path: Path) -> None:
    arrays = own_arrays()
    write_arrays(tmp_path / "own.npz", arrays)
    source = load_source(str(tmp_path / "own.npz"))
    assert (source.name, source.like, source.as_published, source.has_queries) == ("own", "", False, True)
    np.testing.assert_array_equal(source.parts["train"].modalities["image"], arrays["image"][5:])
    np.testing.assert_array_equal(source.parts["queries"].labels.toarray(), arrays["labels"][:5])
    del arrays["is_test"]
    write_arrays(tmp_path / "own.npz", arrays)
    assert list(load_source(str(tmp_path / "own.npz")).parts) == ["all"]


def test_unseen_databases_exclude_training_points(tmp_path: Path) -> None:
    arrays = own_arrays()
    train = np.arange(5, 15)
    rows = np.r_[train, 0:5, 5:20]  # the database holds the training set
    part = np.repeat(["train", "queries", "database"], [10, 5, 15])
    own = {name: arrays[name][rows] for name in ("image", "text", "labels")}
    write_arrays(tmp_path / "own.npz", own | {"part": part})
    source = load_source(str(tmp_path / "own.npz"))
    np.testing.assert_array_equal(source.parts["unseen"].modalities["image"], arrays["image"][15:])
    seen = part != "database"
    seen[-15:-5] = True
    write_arrays(tmp_path / "own.npz", {name: array[seen] for name, array in own.items()} | {"part": part[seen]})
    assert list(load_source(str(tmp_path / "own.npz")).parts) == ["train", "queries"]


def test_leaks_in_array_files_are_reported(tmp_path: Path) -> None:
    arrays = own_arrays()
    for name in ("image", "text"):
        arrays[name][17] = arrays[name][1]
    write_arrays(tmp_path / "own.npz", arrays)
    with pytest.warns(DataWarning, match="own: 1 query also occurs in the training set"):
        source = load_source(str(tmp_path / "own.npz"))
    assert "query 1 = row 12" in source.notes[0]


def test_split_rows_are_the_queries_of_an_experiment(source: Source) -> None:
    rows = splits_of(source, seeds=3, queries=20)["queries"]
    for seed in range(3):
        queries = source.split(SplitSpec(seed=seed, queries=20)).queries
        for name, matrix in queries.modalities.items():
            whole = source.parts["all"].modalities[name][rows[str(seed)]]
            assert (np.asarray(matrix != whole).sum() if isinstance(matrix, np.ndarray) else (matrix != whole).nnz) == 0


def test_other_data_and_other_splits_are_detected(source: Source) -> None:
    published = json.loads(json.dumps(splits_of(source, seeds=2, queries=20)))
    assert compare_splits(published, source) == []
    other = Source.of("generated", {"all": make_paired(60, random_state=1)})
    assert any("labels" in difference for difference in compare_splits(published, other))
    published["queries"]["1"][0] += 1
    assert compare_splits(published, source) == ["queries differ (queries)"]


def test_written_splits_compare_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_paired(60, random_state=0).write(tmp_path / "data.npz")
    command = ["bench", "splits", str(tmp_path / "data.npz")]
    assert main([*command, "-o", str(tmp_path / "splits.json")]) == 0
    assert main([*command, "--check", str(tmp_path / "splits.json")]) == 0
    assert main([*command, "-o", str(tmp_path / "splits.json")]) == 2  # it exists
    (tmp_path / "splits.json").write_text("{}", encoding="utf-8")
    assert main([*command, "--check", str(tmp_path / "splits.json")]) == 2
    assert "not a splits file" in capsys.readouterr().err
