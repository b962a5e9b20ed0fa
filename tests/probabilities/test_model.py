"""Label probabilities of fitted methods."""

from __future__ import annotations

import copy
import itertools
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh import DLFH, KDLFH, load
from dlfh._probabilities.fit import by_centroid, matching, sum_tables
from dlfh.blocks import open_blocks
from dlfh.blocks.base import ArrayBlocks
from dlfh.datasets import Paired, make_paired
from dlfh.errors import InputError
from dlfh.methods import BATCH, LFH, SCM, SCRATCH, SePH
from dlfh.metrics import mean_average_precision


@pytest.fixture(scope="module")
def data() -> tuple[Paired, Paired]:
    return make_paired(n_points=1200, n_labels=8, random_state=0).split(test_size=400)


@pytest.fixture(scope="module")
def model(data: tuple[Paired, Paired]) -> DLFH:
    return DLFH(32, hash_function="linear", random_state=0).fit(data[0].modalities, data[0].labels)


def dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sp.issparse(matrix) else np.asarray(matrix)


METHODS = [
    DLFH(16, hash_function="kernel-ridge", random_state=0),
    KDLFH(16, n_bases=60, random_state=0),
    LFH(16, random_state=0),
    SePH(16, n_bases=60, max_iter=10, random_state=0),
    BATCH(16, n_anchors=60, n_other_anchors=90, random_state=0),
    SCRATCH(16, n_anchors=60, random_state=0),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda each: type(each).__name__)
def test_every_regression_predicts_labels_better_than_their_shares(method: Any, data: tuple[Paired, Paired]) -> None:
    train, test = data
    labels = dense(test.labels)
    method.fit(train.modalities, train.labels)
    prior = dense(train.labels).mean(axis=0)
    for name, features in test.modalities.items():
        p = method.label_probabilities({name: features})
        assert p.dtype == np.float32
        assert ((p >= 0) & (p <= 1)).all()
        assert ((p - labels) ** 2).mean() < 0.95 * ((prior - labels) ** 2).mean()


def test_probabilities_of_unseen_points_are_calibrated(model: DLFH, data: tuple[Paired, Paired]) -> None:
    labels = dense(data[1].labels)
    for modalities in ({"text"}, {"image"}, {"image", "text"}):
        p = model.label_probabilities({name: data[1].modalities[name] for name in modalities})
        places = np.clip((p * 10).astype(int), 0, 9)
        for place in range(10):
            chosen = places == place
            if chosen.sum() > 150:
                assert abs(p[chosen].mean() - labels[chosen].mean()) < 0.08


def test_two_modalities_know_more_than_one(model: DLFH, data: tuple[Paired, Paired]) -> None:
    labels = dense(data[1].labels)
    both = model.label_probabilities(data[1].modalities)
    for name, features in data[1].modalities.items():
        one = model.label_probabilities({name: features})
        assert ((both - labels) ** 2).mean() < ((one - labels) ** 2).mean() + 1e-4


@pytest.mark.parametrize("n_bits", [0, 7, 23, 32, 88])
def test_records_restore_the_labels_that_stand_out(model: DLFH, data: tuple[Paired, Paired], n_bits: int) -> None:
    function = model._labels_known().functions["text"]
    p = model.label_probabilities({"text": data[1].modalities["text"]})
    rough = np.full_like(p, 0.5)
    records = function.record(p, n_bits)
    assert records.shape == (len(p), -(-n_bits // 8))
    assert not (np.unpackbits(records, axis=1)[:, n_bits:]).any()
    found = function.read_record(records, n_bits, rough)
    n_recorded = min(8, n_bits // 11)  # 3 bits name one of 8 labels
    mean, deviation, room = function.spread
    above = (function.curves.log_odds(p) - mean) / deviation
    recorded = np.argsort(np.argsort(-above, axis=1), axis=1) < n_recorded
    np.testing.assert_array_equal(found[~recorded], 0.5)
    # At or below average, nothing is recorded; and at most the largest log-odds that a byte covers.
    covered = np.minimum(p, function.curves.of_log_odds(mean + room))
    expected = np.where(above * deviation * 255 > room / 2, covered, rough)
    np.testing.assert_allclose(found[recorded], expected[recorded], atol=0.02)


def test_ranking_by_label_probabilities_is_not_behind_hamming_distance(
    model: DLFH, data: tuple[Paired, Paired]
) -> None:
    test = data[1]
    (query, database), labels = (test.modalities[name] for name in ("text", "image")), test.labels
    items = model.quantize_probabilities(model.label_probabilities({"image": database}))
    tables = model.score_tables(model.label_probabilities({"text": query}))
    hamming = mean_average_precision(model.encode("text", query), model.encode("image", database), labels, labels)
    assert items.shape == (len(items), 4)
    assert mean_average_precision(tables, items, labels, labels) > hamming


@pytest.mark.parametrize("match", ["any", "all"])
def test_probabilities_of_matches_are_calibrated_over_all_items_and_the_first(
    model: DLFH, data: tuple[Paired, Paired], match: Any
) -> None:
    labels = dense(data[1].labels).astype(bool)
    asked, stored = slice(200), slice(200, None)
    sources: list[Any] = ["text", "image", ("image", "text")]
    p: dict[Any, Any] = {name: model.label_probabilities({name: data[1].modalities[name]}) for name in sources[:2]}
    p |= {sources[2]: model.label_probabilities(data[1].modalities), (): labels}
    pairs = []
    for query, item in itertools.permutations([*sources, ()], 2):
        tables = by_centroid(model.score_tables(p[query][asked], match))
        scores = sum_tables(tables, model.quantize_probabilities(p[item][stored]))
        best = np.argsort(-scores, axis=1)
        true = np.take_along_axis(matching(labels[asked], labels[stored].T, match), best, axis=1)
        scores = np.take_along_axis(scores, best, axis=1)
        pairs.append((model.match_probabilities(scores, p[query][asked], match, queries=query, items=item), true))
    for first in (10, 200):
        shown, true = (np.stack([pair[number][:, :first] for pair in pairs]).astype(float) for number in (0, 1))
        gaps = np.bincount(np.minimum(shown * 10, 9).astype(int).ravel(), (shown - true).ravel())
        assert np.abs(gaps).sum() / true.size < (0.06 if first == 10 else 0.03)


def test_rankings_by_any_are_ahead_of_hamming_distance_with_most_labels_missing(data: tuple[Paired, Paired]) -> None:
    train, test = data
    kept = dense(train.labels) * (np.random.default_rng(0).random(dense(train.labels).shape) < 0.4)
    model = DLFH(32, hash_function="linear", random_state=0).fit(train.modalities, kept.astype(np.int8))
    assert model.label_model_ is not None
    assert model.label_model_.lifts["any"] > 0
    (query, database), labels = (test.modalities[name] for name in ("text", "image")), test.labels
    items = model.quantize_probabilities(model.label_probabilities({"image": database}))
    tables = model.score_tables(model.label_probabilities({"text": query}))
    hamming = mean_average_precision(model.encode("text", query), model.encode("image", database), labels, labels)
    assert mean_average_precision(tables, items, labels, labels) > hamming + 0.01


def test_known_labels_rank_items_that_have_all_of_them_first(model: DLFH, data: tuple[Paired, Paired]) -> None:
    labels = dense(data[1].labels)
    has_all = (labels[:20, None] <= labels[None]).all(axis=2)
    exact = model.quantize_probabilities(labels)
    tables = model.score_tables(labels[:20], "all")
    assert mean_average_precision(tables, exact, relevance=has_all.astype(int)) > 0.99


def test_saved_models_keep_their_label_probabilities(model: DLFH, data: tuple[Paired, Paired], tmp_path: Path) -> None:
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert isinstance(loaded, DLFH)
    before, after = (each.label_probabilities(data[1].modalities) for each in (model, loaded))
    np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(model.quantize_probabilities(before), loaded.quantize_probabilities(after))
    np.testing.assert_array_equal(model.score_tables(before[:3], "all"), loaded.score_tables(after[:3], "all"))
    scores = np.linspace(-5, 5, 30).reshape(3, 10)
    found = [each.match_probabilities(scores, before[:3], queries="text", items=()) for each in (model, loaded)]
    np.testing.assert_array_equal(found[0], found[1])
    assert loaded.label_names_ == model.label_names_ == tuple(range(8))


def test_models_of_many_modalities_combine_any_of_them(data: tuple[Paired, Paired], tmp_path: Path) -> None:
    train, test = (
        {f"part {n}": each.modalities["image"][:, n::5] for n in range(5)} | {"text": each.modalities["text"]}
        for each in data
    )
    DLFH(16, hash_function="linear", random_state=0).fit(train, data[0].labels).save(tmp_path / "model")
    model, truth = load(tmp_path / "model"), data[1].labels.toarray() > 0
    losses = []
    for names in (["part 0"], ["part 0", "text"], [*test]):
        p = np.clip(model.label_probabilities({name: test[name] for name in names}), 1e-6, 1 - 1e-6)
        losses.append(-np.where(truth, np.log(p), np.log1p(-p)).mean())
    assert losses[0] > losses[1] > losses[2]


def test_names_of_labels_are_those_given_to_fit() -> None:
    X = np.random.default_rng(0).normal(size=(40, 4))
    model = DLFH(8, hash_function="linear", random_state=0).fit({"a": X, "b": X}, [["red"], ["blue", "big"]] * 20)
    assert model.label_names_ == ("big", "blue", "red")
    assert model.label_probabilities({"a": X[:3]}).shape == (3, 3)


def test_blocks_have_the_probabilities_of_arrays(data: tuple[Paired, Paired], tmp_path: Path) -> None:
    train, test = data
    whole = {name: dense(features) for name, features in train.modalities.items()}
    rows = np.arange(0, len(train) + 1, 200)
    parts = {name: ArrayBlocks(matrix, rows, name) for name, matrix in whole.items()}
    found = [DLFH(16, hash_function="linear", random_state=0).fit(each, train.labels) for each in (whole, parts)]
    image = dense(test.modalities["image"])
    np.save(tmp_path / "image.npy", image)
    probabilities = [each.label_probabilities({"image": image}) for each in found]
    np.testing.assert_allclose(probabilities[0], probabilities[1], atol=2e-3)
    from_file = found[1].label_probabilities({"image": open_blocks(tmp_path / "image.npy")})
    np.testing.assert_allclose(probabilities[1], np.asarray(from_file), atol=1e-6)


def test_partial_fit_keeps_label_probabilities(data: tuple[Paired, Paired]) -> None:
    train, test = data
    names = [[f"label {label}" for label in np.flatnonzero(row)] for row in dense(train.labels)]
    model = DLFH(16, hash_function="linear", keep_sums=True, random_state=0)
    for start, stop in ((0, 500), (500, 800)):
        part = {name: matrix[start:stop] for name, matrix in train.modalities.items()}
        more = [["new"]] if start else []
        model.partial_fit(part, [*names[start : stop - len(more)], *more])
    assert model.label_names_ == (*sorted({label for row in names for label in row}), "new")
    p = model.label_probabilities({"text": test.modalities["text"]})
    labels = dense(test.labels)
    assert ((p[:, :-1] - labels) ** 2).mean() < 0.95 * labels.var()
    np.testing.assert_allclose(p[:, -1], 1 / 800, rtol=1e-4)
    assert model.score_tables(p[:2]).shape == (2, 2, 256)


def test_points_that_lack_a_modality_or_labels_teach_what_they_have(data: tuple[Paired, Paired]) -> None:
    train, test = data
    rng = np.random.default_rng(0)
    present = {"text": rng.random(len(train)) < 0.7}
    labelled = rng.random(len(train)) < 0.7
    model = DLFH(16, hash_function="linear", random_state=0)
    model.fit(train.modalities, train.labels, present=present, labelled=labelled)
    labels = dense(test.labels)
    assert ((model.label_probabilities(test.modalities) - labels) ** 2).mean() < 0.95 * labels.var()


def test_models_without_labels_say_so(data: tuple[Paired, Paired]) -> None:
    train = data[0]
    small = {name: matrix[:60] for name, matrix in train.modalities.items()}
    similarity = np.eye(60)
    pairs = DLFH(8, hash_function="linear", random_state=0).fit(small, similarity=similarity)
    for model in (pairs, SCM(8).fit(train.modalities, train.labels)):
        with pytest.raises(InputError, match=f"this {type(model).__name__} has no label probabilities"):
            model.label_probabilities(small)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.zeros((2, 3)), r"probabilities must have the shape \(n, 8\), got \(2, 3\)"),
        (np.full((2, 8), 1.5), "probabilities must be between 0 and 1"),
        ([["likely"]], "probabilities must be numbers, with one row of 8 for each point"),
        ([[0.5] * 8, [0.5]], "probabilities must be numbers, with one row of 8 for each point"),
        (np.full((2, 8), np.nan), "probabilities must be between 0 and 1"),
    ],
)
def test_wrong_probabilities_are_named(model: DLFH, wrong: Any, message: str) -> None:
    for method in (model.quantize_probabilities, model.score_tables):
        with pytest.raises(InputError, match=message):
            method(wrong)


def test_wrong_scores_are_named(model: DLFH) -> None:
    p = np.full((2, 8), 0.5)
    for scores in (np.zeros((3, 4)), np.zeros(2), np.full((2, 4), np.nan), [["high"], ["low"]]):
        with pytest.raises(InputError, match="scores must be finite numbers, with one row for each of the 2 queries"):
            model.match_probabilities(scores, p, queries="text", items="image")
    with pytest.raises(InputError, match="unknown modality 'sound'"):
        model.match_probabilities(np.zeros((2, 1)), p, queries="sound", items="image")


def test_wrong_modalities_are_named(model: DLFH, data: tuple[Paired, Paired]) -> None:
    text, image = (data[1].modalities[name] for name in ("text", "image"))
    with pytest.raises(InputError, match="unknown modality 'sound'"):
        model.label_probabilities({"sound": text})
    with pytest.raises(InputError, match="same number of rows"):
        model.label_probabilities({"text": text[:3], "image": image[:4]})
    with pytest.raises(InputError, match="pass a dict of modalities"):
        model.label_probabilities(text)


def test_a_model_can_be_copied_and_pickled_before_its_probabilities_are_used() -> None:
    data = make_paired(n_points=200, n_labels=4, random_state=0)
    model = DLFH(16, hash_function="linear", random_state=0).fit(data.modalities, data.labels)
    text = {"text": data.modalities["text"]}
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    expected = model.label_probabilities(text)
    for each in copies:
        np.testing.assert_array_equal(each.label_probabilities(text), expected)
