"""Evaluation agrees with the metrics, and its report survives a file."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.collection.evaluation import (
    EvaluationReport,
    fit_and_evaluate,
    hold_out,
    warn_of_disjoint_labels,
    warn_of_labels,
)
from dlfh.datasets import Items
from dlfh.errors import DataWarning, InputError
from dlfh.features import BagOfWords, Gist
from dlfh.metrics import mean_average_precision


def encoder(n_bits: int = 16) -> Encoder:
    return Encoder(
        {"image": Gist(size=64), "text": BagOfWords()}, DLFH(n_bits=n_bits, random_state=0, hash_function="linear")
    )


def test_held_out_quality_agrees_with_the_metrics(items: Items, tmp_path: Path) -> None:
    built = Collection.build(tmp_path / "shop", items, encoder(), hold_out=10)
    with built.collection as collection:
        assert len(collection) == 40
        first, held = collection.index.ids()[:30], collection.index.ids()[30:]
        asking = [row for row, name in enumerate(items.ids) if name in held and row not in (3, 4)]
        asked = [row for row, name in enumerate(items.ids) if name in first and row not in (5, 7)]
        queries = collection.encoder.encode("image", [items.modalities["image"][row] for row in asking])
        database = collection.encoder.encode("text", [items.modalities["text"][row] for row in asked])
        labels = items.labels or []
        expected = mean_average_precision(queries, database, [labels[r] for r in asking], [labels[r] for r in asked])
        quality = built.evaluation.quality[0]
        assert (quality.query, quality.database, quality.codes) == ("image", "text", "hashed")
        assert (quality.n_queries, quality.n_items) == (len(asking), len(asked))
        assert quality.hamming == pytest.approx(expected)


def test_held_out_items_are_complete_and_not_in_the_database(items: Items) -> None:
    queries, others = hold_out(items, 10, random_state=3)
    assert sorted([*queries.ids, *others.ids]) == sorted(items.ids)
    assert len(queries) == 10
    assert not {"5.png", "7.png"} & {*queries.ids}
    assert [*queries.ids] == [name for name in items.ids if name in {*queries.ids}]
    parts = fit_and_evaluate(encoder(), items, 10, random_state=3)
    assert (parts.queries.ids, parts.database.ids) == (queries.ids, others.ids)
    assert len(parts.report.quality) == 2
    assert fit_and_evaluate(encoder(), items).report.quality == []


def test_a_collection_is_evaluated_with_items_that_it_does_not_contain(items: Items, tmp_path: Path) -> None:
    renamed = Items(
        [f"q{name}" for name in items.ids], items.modalities, items.labels, items.metadata, items.places, []
    )
    with Collection.build(tmp_path / "shop", items, encoder()).collection as collection:
        report = collection.evaluate(renamed)
        assert len(report.problems) == 2  # images that cannot be read
        assert {(quality.query, quality.database) for quality in report.quality} == {
            ("image", "text"),
            ("text", "image"),
        }
        assert all(quality.hamming > 0.9 > quality.chance for quality in report.quality)
        assert report.quality[0].codes == "learned"
        with pytest.raises(InputError, match="every query is in the collection itself"):
            collection.evaluate(items)


@pytest.mark.parametrize("hold_out", [0, 10])
def test_build_stores_its_evaluation_in_the_folder(items: Items, tmp_path: Path, hold_out: int) -> None:
    built = Collection.build(tmp_path / "shop", items, encoder(), hold_out=hold_out)
    built.collection.close()
    assert bool(built.evaluation.quality) == bool(hold_out)
    assert EvaluationReport.read(tmp_path / "shop") == built.evaluation
    assert (tmp_path / "shop" / "evaluation.json").exists() == bool(hold_out)


ROW: dict[str, object] = {"query": "image", "codes": "hashed", "n_pairs": 9, "calibration_error": 0.1}
ROW |= {"first_ten": 0.1, "brier": 0.1, "share": 0.2}


@pytest.mark.parametrize(
    "change", [{"brier": True}, {"n_pairs": 0.5}, {"codes": 1}, {"share": 10**400}, {"missing": None}]
)
def test_a_damaged_evaluation_file_reads_as_an_empty_report(tmp_path: Path, change: dict[str, object]) -> None:
    file = tmp_path / "evaluation.json"
    assert EvaluationReport.read(tmp_path) == EvaluationReport()
    file.write_text(json.dumps({"quality": [], "calibration": [ROW]}))
    assert len(EvaluationReport.read(tmp_path).calibration) == 1
    damaged = {"query": "image"} if "missing" in change else ROW | change
    whole = json.dumps({"quality": [], "calibration": [ROW]})
    contents = json.dumps({"quality": [], "calibration": [damaged]}), whole.replace("0.1", "NaN")
    for content in (*contents, "[" * 10_000, "{}", '{"quality": {}}', "[1]"):
        file.write_text(content)
        assert EvaluationReport.read(tmp_path) == EvaluationReport()


TEXTS = ["a red car", "a blue car", "a small dog", "a big dog"]


def text_encoder() -> Encoder:
    return Encoder(
        {"text": BagOfWords(), "title": BagOfWords()}, DLFH(n_bits=8, random_state=0, hash_function="linear")
    )


def four_items(labels: list[list[str]]) -> Items:
    return Items.of({"text": TEXTS, "title": TEXTS}, labels, ["a", "b", "c", "d"])


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([["x"]] * 4, "all 4 items have the label 'x'"),
        ([["x", "a"], ["x"], ["b", "x"], ["x"]], "all 4 items have the label 'x'"),
        ([["a"], ["b"], ["c"], ["d"]], "no two of 4 items share a label"),
    ],
)
def test_labels_of_all_items_or_of_one_each_cause_a_warning(
    labels: list[list[str]], message: str, tmp_path: Path
) -> None:
    with pytest.warns(DataWarning, match=message):
        Collection.build(tmp_path / "shop", four_items(labels), text_encoder()).collection.close()


def test_labels_that_some_items_share_cause_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for labels in ([["a"], ["a"], ["b"]], [["a"], ["a", "b"], ["b"]], [["a"], []], []):
            warn_of_labels(labels)
        for queries, database in (([["a"]], [["b"], ["a"]]), ([[]], [["a"]]), ([], [])):
            warn_of_disjoint_labels(queries, database)


def test_queries_without_a_label_of_the_database_cause_a_warning(tmp_path: Path) -> None:
    built = Collection.build(tmp_path / "shop", four_items([["car"], ["car"], ["dog"], ["dog"]]), text_encoder())
    asked = replace(four_items([["Car"], ["Car"], ["Dog"], ["Dog"]]), ids=["e", "f", "g", "h"])
    with built.collection as collection, pytest.warns(DataWarning, match="share no label, .* 'Car' .* has 'car'"):
        collection.evaluate(asked)
