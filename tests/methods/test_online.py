"""Online methods: continuing after earlier chunks and after saving, and invalid chunks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import InputError, ModelError, load
from dlfh.datasets import Paired
from dlfh.methods.base import hasher_from_parts
from dlfh.methods.catalogue import METHODS
from dlfh.methods.online import OnlineHasher
from tests.methods.small_data import small

NAMES = ["DOCH", "LEMON"]
BOUNDS = ((0, 70), (70, 120), (120, 150))


def make(name: str, **parameters: Any) -> OnlineHasher:
    method: Any = METHODS[name]
    return method(12, **{"random_state": 4, **parameters})


def rows(data: Paired, bounds: tuple[int, int]) -> dict[str, Any]:
    return {name: matrix[slice(*bounds)] for name, matrix in data.modalities.items()}


def learn(model: OnlineHasher, data: Paired, bounds: Any = BOUNDS, labels: Any = None) -> OnlineHasher:
    for start_stop in bounds:
        model.partial_fit(rows(data, start_stop), (data.labels if labels is None else labels)[slice(*start_stop)])
    return model


@pytest.mark.parametrize("name", NAMES)
def test_partial_fit_keeps_old_codes_and_updates_hash_functions(name: str) -> None:
    data = small(1)
    model = learn(make(name), data, BOUNDS[:2])
    before, seconds = model.codes_["text"].copy(), model.fit_seconds_
    projected = model.project("text", data.modalities["text"])
    learn(model, data, BOUNDS[2:])
    np.testing.assert_array_equal(model.codes_["text"][:120], before)
    assert model.codes_["text"].shape == (150, 2)
    assert model.stream_.starts.tolist() == [0, 70, 120, 150]
    assert model.fit_seconds_ > seconds
    assert not np.array_equal(model.project("text", data.modalities["text"]), projected)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("labels", ["indicator", "numbers", "words"])
def test_saving_between_chunks_does_not_change_the_result(name: str, labels: str, tmp_path: Path) -> None:
    data = small(2)
    classes = data.labels.toarray().argmax(axis=1)
    given: Any = {"indicator": data.labels, "numbers": classes, "words": np.array(list("abcd"))[classes]}[labels]
    model: Any = make(name)
    for bounds in BOUNDS:
        learn(model, data, [bounds], given)
        model.save(tmp_path / f"until-{bounds[1]}")
        model = load(tmp_path / f"until-{bounds[1]}")
    straight = learn(make(name), data, labels=given)
    np.testing.assert_array_equal(model.codes_["image"], straight.codes_["image"])
    for modality, matrix in data.modalities.items():
        np.testing.assert_array_equal(model.project(modality, matrix), straight.project(modality, matrix))
    assert model.stream_.label_names == straight.stream_.label_names


@pytest.mark.parametrize("name", NAMES)
def test_fit_discards_earlier_chunks(name: str) -> None:
    data = small(1)
    model = learn(make(name), data)
    model.fit(data.modalities, data.labels)
    np.testing.assert_array_equal(model.codes_["image"], make(name).fit(data.modalities, data.labels).codes_["image"])


@pytest.mark.parametrize("name", NAMES)
def test_an_invalid_chunk_raises_a_one_line_error_and_changes_nothing(name: str) -> None:
    data = small(1)
    model = learn(make(name), data, BOUNDS[:2])
    before = {key: array.copy() for key, array in model._to_parts()[1].items()}
    last, labels = rows(data, BOUNDS[2]), data.labels[120:]
    broken = {**last, "image": np.where(np.arange(30)[:, None] == 4, np.nan, last["image"])}
    for modalities, given, message in (
        ({"image": last["image"], "sound": last["text"]}, labels, "earlier chunks had the modalities"),
        ({**last, "image": last["image"][:, :3]}, labels, "has 3 features but the model expects 6"),
        (broken, labels, "modality 'image' has NaN or infinity in row 4"),
        (last, labels[:, :3], "labels has 3 label columns but earlier points had 4"),
        (last, ["a"] * 30, "labels must have the same form as in earlier calls"),
        (last, labels[:9], "labels has 9 rows but modality 'image' has 30"),
        (last, None, f"{name} learns from labels"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            model.partial_fit(modalities, given)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="was n_bits changed"):
        model.set_params(n_bits=20).partial_fit(last, labels)
    after = model.set_params(n_bits=12)._to_parts()[1]
    assert before.keys() == after.keys()
    for key, array in before.items():
        np.testing.assert_array_equal(array, after[key])
    with pytest.raises(TypeError, match="present"):
        model.partial_fit(last, labels, present={})  # type: ignore[call-arg]


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_modalities_in_a_chunk_does_not_matter(name: str) -> None:
    data = small(1)
    model, other = learn(make(name), data, BOUNDS[:1]), learn(make(name), data, BOUNDS[:1])
    learn(model, data, BOUNDS[1:])
    for bounds in BOUNDS[1:]:
        other.partial_fit(dict(reversed(rows(data, bounds).items())), data.labels[slice(*bounds)])
    assert other.modalities_ == ("image", "text")
    np.testing.assert_array_equal(model._to_parts()[1]["hash/text/weights"], other._to_parts()[1]["hash/text/weights"])


@pytest.mark.parametrize("name", NAMES)
def test_a_generator_continues_between_chunks_and_no_seed_is_random(name: str) -> None:
    data = small(1)
    one, two = (learn(make(name, random_state=np.random.default_rng(7)), data) for _ in range(2))
    np.testing.assert_array_equal(one.codes_["text"], two.codes_["text"])
    three, four = (learn(make(name, random_state=None), data) for _ in range(2))
    assert not np.array_equal(three.codes_["text"], four.codes_["text"])


def damaged(name: str, key: str, array: Any) -> None:
    config, arrays = learn(make(name), small(1))._to_parts()
    assert key in arrays
    hasher_from_parts(config, {**arrays, key: array})


@pytest.mark.parametrize(
    ("name", "key", "array"),
    [
        ("LEMON", "stream/starts", np.array([0, 90, 70, 150])),
        ("LEMON", "stream/starts", np.array([0, 70, 149])),
        ("LEMON", "stream/n_labels", np.array([0])),
        ("LEMON", "stream/sums/GB", np.zeros((5, 12))),
        ("LEMON", "stream/gram/text", np.zeros((9, 8))),
        ("LEMON", "stream/cross/text", np.full((9, 12), np.nan)),
        ("DOCH", "stream/label_starts", np.zeros(151, np.int64)),
        ("DOCH", "stream/label_starts", np.arange(150)),
        ("DOCH", "stream/labels", np.array([-1], np.int32)),
    ],
)
def test_a_damaged_stream_is_refused(name: str, key: str, array: Any) -> None:
    with pytest.raises((ValueError, ModelError)):
        damaged(name, key, array)


def test_saving_refuses_label_names_that_are_not_text_or_numbers(tmp_path: Path) -> None:
    data = small(1)
    classes = np.array([b"a", b"b"])[data.labels.toarray()[:, 0]]
    model = make("LEMON").fit(data.modalities, classes)
    with pytest.raises(InputError, match="label names must be strings or numbers to be saved"):
        model.save(tmp_path / "model")
