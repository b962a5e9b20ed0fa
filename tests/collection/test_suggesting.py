"""Labels are suggested for items that have none, or too few, with the promised precision."""

from __future__ import annotations

import csv
import json
from io import BytesIO, StringIO
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.collection.suggesting import Precision, Suggestion, Suggestions
from dlfh.datasets import Items, Paired, make_paired
from dlfh.errors import InputError
from dlfh.features import Vectors
from dlfh.methods import CCAITQ

N_POINTS, N_HIDDEN, N_LACKING = 700, 140, 30


def generated() -> Paired:
    return make_paired(N_POINTS, n_labels=8, noise=3.0, words_per_point=3, random_state=0)


def precision_of(probabilities: np.ndarray, truth: np.ndarray) -> Precision:
    checked = Precision()
    checked.add(probabilities, truth)
    return checked


@pytest.mark.parametrize("promised", [0.5, 0.8, 0.9])
def test_a_threshold_keeps_its_promise_on_new_points(promised: float) -> None:
    rng = np.random.default_rng(0)
    kept = []
    for _ in range(40):
        probabilities = rng.beta(0.3, 0.6, (800, 5))
        truth = rng.random((800, 5)) < probabilities**1.3  # overconfident
        old, new = slice(0, 400), slice(400, 800)
        threshold = precision_of(probabilities[old], truth[old]).threshold(promised)
        assert threshold is not None
        kept.append(truth[new][probabilities[new] >= threshold].mean())
    assert np.mean(kept) > promised
    assert np.quantile(kept, 0.2) > promised - 0.02


def test_precision_and_recall_are_those_above_the_threshold() -> None:
    probabilities = np.array([[0.9, 0.7, 0.2], [0.8, 0.6, 0.4]])
    truth = np.array([[True, False, True], [True, True, False]])
    assert precision_of(probabilities, truth).at(0.65) == pytest.approx((2 / 3, 1 / 2))


def test_few_right_suggestions_are_no_evidence() -> None:
    five = precision_of(np.full((5, 1), 0.9), np.ones((5, 1), bool))
    assert five.threshold(0.8) is None
    assert five.at(None) == (0.0, 0.0)
    assert precision_of(np.full((50, 1), 0.9), np.ones((50, 1), bool)).threshold(0.8) is not None


@pytest.fixture(scope="module")
def truth() -> list[list[str]]:
    rows = generated().labels.toarray()
    return [[f"label {label}" for label in np.flatnonzero(row)] for row in rows]


@pytest.fixture(scope="module")
def collection(truth: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """A collection whose first items have no labels, and whose last ones lack one."""
    data = generated()
    labels = [[] if row < N_HIDDEN else given for row, given in enumerate(truth)]
    labels[-N_LACKING:] = [given[:-1] or given for given in labels[-N_LACKING:]]
    columns = [
        {"columns": {"half": row % 2}} | ({"labels": given} if given else {}) for row, given in enumerate(labels)
    ]
    items = Items.of(data.modalities, labels=labels)
    items.metadata[:] = columns
    encoder = Encoder({"image": Vectors(), "text": Vectors()}, DLFH(32, hash_function="linear", random_state=0))
    return Collection.build(tmp_path_factory.mktemp("suggesting") / "shop", items, encoder, hold_out=0).collection


def right(found: Suggestions, truth: list[list[str]]) -> np.ndarray:
    return np.array([label in truth[int(identifier)] for identifier, label, _ in found])


def test_suggestions_for_unlabelled_items_keep_the_promise(collection: Collection, truth: list[list[str]]) -> None:
    found = collection.suggest(precision=0.8)
    assert {int(suggestion.id) for suggestion in found} <= {*range(N_HIDDEN)}
    assert len({suggestion.id for suggestion in found}) > 0.8 * N_HIDDEN
    hits = right(found, truth)
    assert hits.mean() > 0.78
    assert hits.sum() / sum(map(len, truth[:N_HIDDEN])) == pytest.approx(found.recall, abs=0.08)
    assert found.n_checked > N_POINTS - N_HIDDEN - 10
    assert found.threshold is not None
    assert min(suggestion.probability for suggestion in found) >= found.threshold
    sure = collection.suggest(precision=0.95)
    assert {*sure} < {*found}
    assert right(sure, truth).mean() > max(hits.mean(), 0.92)


def test_suggestions_of_an_item_are_the_most_probable_first(collection: Collection) -> None:
    found = collection.suggest(precision=0.6)
    order = [(int(suggestion.id), -suggestion.probability) for suggestion in found]
    assert order == sorted(order)
    first = {suggestion.id: suggestion for suggestion in reversed(found)}
    assert [*collection.suggest(precision=0.6, k=1)] == [first[name] for name in dict.fromkeys(s.id for s in found)]


def test_ids_and_filters_select_items(collection: Collection) -> None:
    found = collection.suggest()
    assert [*collection.suggest(ids=["3", "8", "200"])] == [each for each in found if each.id in ("3", "8")]
    assert [*collection.suggest(where={"half": 1})] == [each for each in found if int(each.id) % 2]


def test_missing_labels_are_suggested_on_request(collection: Collection, truth: list[list[str]]) -> None:
    last = [*map(str, range(N_POINTS - N_LACKING, N_POINTS))]
    assert not collection.suggest(last)
    lacking = {(name, truth[int(name)][-1]) for name in last if len(truth[int(name)]) > 1}
    found = {(each.id, each.label) for each in collection.suggest(last, missing=True)}
    assert len(found & lacking) > 0.5 * len(lacking)
    assert len(found & lacking) > 0.7 * len(found)
    known = {(item.id, label) for item in collection for label in (item.metadata or {}).get("labels", [])}
    assert not known & {(each.id, each.label) for each in collection.suggest(missing=True)}


def test_an_item_with_one_label_of_one_lacks_none(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kinds = rng.integers(3, size=120)
    X, Y = (rng.normal(size=(120, 5)) + 4 * rng.normal(size=(3, 5))[kinds] for _ in range(2))
    kinds[:10] = (kinds[:10] + 1) % 3  # wrong labels
    items = Items.of({"image": X, "text": Y}, labels=[[str(kind)] for kind in kinds])
    encoder = Encoder({"image": Vectors(), "text": Vectors()}, DLFH(16, hash_function="linear", random_state=0))
    with Collection.build(tmp_path / "shop", items, encoder, hold_out=0).collection as collection:
        assert not collection.suggest(missing=True, precision=0.5)


def test_without_known_labels_probabilities_predict_the_precision(collection: Collection, tmp_path: Path) -> None:
    data = generated()
    items = Items.of({name: matrix[:N_HIDDEN] for name, matrix in data.modalities.items()})
    with Collection.create(tmp_path / "new", collection.encoder) as new:
        new.add(items)
        found = new.suggest()
    assert found.n_checked == 0
    assert found.precision > 0.8
    assert "predicted" in found.summary
    both = {(each.id, each.label) for each in found} & {(each.id, each.label) for each in collection.suggest()}
    assert len(both) > 0.8 * len(found)


def test_no_suggestion_is_more_likely_wrong_than_right(collection: Collection) -> None:
    found = collection.suggest(precision=0.55, k=8)
    assert min(suggestion.probability for suggestion in found) >= 0.5
    assert min(suggestion.probability for suggestion in collection.suggest(precision=0.3, k=8)) < 0.5


def test_a_precision_out_of_reach_gives_no_suggestions(collection: Collection) -> None:
    found = collection.suggest(precision=0.9999)
    assert (len(found), found.threshold) == (0, None)
    assert found.summary.startswith("no suggestions: no threshold reaches this precision")


@pytest.mark.parametrize("wrong", [{"precision": 1}, {"precision": True}, {"k": 0}, {"missing": 1}, {"ids": ["?"]}])
def test_invalid_arguments_are_named(collection: Collection, wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match="id '\\?'" if "ids" in wrong else next(iter(wrong))):
        collection.suggest(**wrong)  # type: ignore[arg-type]


def test_a_model_without_label_probabilities_says_so(tmp_path: Path) -> None:
    data = make_paired(60, random_state=0)
    encoder = Encoder({"image": Vectors(), "text": Vectors()}, CCAITQ(8))
    built = Collection.build(tmp_path / "shop", Items.of(data.modalities), encoder, hold_out=0)
    with built.collection as collection, pytest.raises(InputError, match="this CCAITQ has no label probabilities"):
        collection.suggest()


def test_files_have_every_suggestion() -> None:
    given = [Suggestion("a,b", "näve", 0.9), Suggestion("c", 'two "words"', 0.8123)]
    found = Suggestions(given, 0.7, 0.82, 0.6, 100)
    head, *rows = csv.reader(StringIO(found.to_file(".csv").decode()))
    assert head == ["id", "label", "probability"]
    assert [Suggestion(name, label, float(p)) for name, label, p in rows] == given
    read = json.loads(found.to_file(".json"))
    assert read == found.to_dict()
    assert [Suggestion(**each) for each in read["suggestions"]] == given
    for each in (found, Suggestions([], None, 0.0, 0.0, 0)):
        table = pyarrow.parquet.read_table(BytesIO(each.to_file(".parquet")))
        assert [Suggestion(**row) for row in table.to_pylist()] == [*each]


def test_notebooks_show_a_table() -> None:
    html = Suggestions([Suggestion("<b>", "x", 0.9)], 0.7, 0.82, 0.6, 100)._repr_html_()
    assert "&lt;b&gt;" in html
    assert "1 label suggested for 1 item; precision 0.82, recall 0.60 (checked on 100 labelled items)" in html
