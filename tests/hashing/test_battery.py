"""The laws of the core hold for every kind of hash function."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from dlfh import DLFH, KDLFH, InputError, ModelError, load
from dlfh._persistence.model_folder import config_checksum
from dlfh.codes import n_bytes, pack
from dlfh.datasets import Paired
from dlfh.hashing import KernelLogistic, KernelRidge, LinearRidge
from dlfh.metrics import mean_average_precision

Split = tuple[Paired, Paired]
MODELS: dict[str, Any] = {
    "linear": DLFH(20, random_state=0, max_iter=20, hash_function="linear"),
    "kernel logistic": KDLFH(20, n_bases=60, random_state=0, max_iter=20),
    "kernel logistic, k-means": KDLFH(20, n_bases=60, bases="kmeans", random_state=0, max_iter=20),
    "kernel ridge": DLFH(20, hash_function=KernelRidge(60), random_state=0, max_iter=20),
    "mixed": DLFH(20, hash_function={"image": "kernel-ridge", "text": LinearRidge(1.0)}, random_state=0, max_iter=20),
    "shared": KDLFH(20, n_bases=60, shared_code=True, random_state=0, max_iter=20),
}
every_kind = pytest.mark.parametrize("name", MODELS)


def fitted(name: str, data: Paired) -> Any:
    return clone(MODELS[name]).fit(data.modalities, data.labels)


@every_kind
def test_it_learns(name: str, paired: Split) -> None:
    train, test = paired
    model = fitted(name, train)
    chance = ((test.labels @ train.labels.T) > 0).mean()
    for asked, answered in (("image", "text"), ("text", "image")):
        for queries in (model.encode(asked, test.modalities[asked]), model.project(asked, test.modalities[asked])):
            for database in (model.codes_[answered], model.encode(answered, train.modalities[answered])):
                assert mean_average_precision(queries, database, test.labels, train.labels) > chance + 0.15


@every_kind
def test_same_seed_same_codes_and_functions(name: str, paired: Split) -> None:
    train, test = paired
    first, second = fitted(name, train), fitted(name, train)
    for modality, features in test.modalities.items():
        np.testing.assert_array_equal(first.codes_[modality], second.codes_[modality])
        np.testing.assert_array_equal(first.project(modality, features), second.project(modality, features))


@every_kind
def test_threads_change_no_code(name: str, paired: Split) -> None:
    train, test = paired
    first = clone(MODELS[name]).set_params(n_jobs=1).fit(train.modalities, train.labels)
    second = clone(MODELS[name]).set_params(n_jobs=3).fit(train.modalities, train.labels)
    for modality, features in test.modalities.items():
        np.testing.assert_array_equal(first.codes_[modality], second.codes_[modality])
        np.testing.assert_allclose(first.project(modality, features), second.project(modality, features), atol=5e-3)


@every_kind
def test_save_and_load_encode_the_same(name: str, paired: Split, tmp_path: Path) -> None:
    train, test = paired
    model = fitted(name, train)
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert type(loaded) is type(model)
    assert str(loaded.get_params()) == str(model.get_params())
    for modality, features in test.modalities.items():
        np.testing.assert_array_equal(loaded.project(modality, features), model.project(modality, features))
        np.testing.assert_array_equal(loaded.encode(modality, features), model.encode(modality, features))


@every_kind
def test_code_is_the_sign_of_the_projection_and_independent_of_the_batch(name: str, paired: Split) -> None:
    train, test = paired
    model = fitted(name, train)
    order = np.random.default_rng(0).permutation(100)
    for modality, features in test.modalities.items():
        codes = model.encode(modality, features)
        assert codes.shape == (100, n_bytes(20))
        np.testing.assert_array_equal(codes, pack(model.project(modality, features)))
        np.testing.assert_array_equal(model.encode(modality, features[order]), codes[order])
        np.testing.assert_array_equal(model.encode(modality, features[7:8]), codes[7:8])


@every_kind
def test_bad_input(name: str, paired: Split) -> None:
    train, _ = paired
    model = fitted(name, train)
    with pytest.raises(InputError, match="modality 'image' has 3 features but the model expects 64"):
        model.encode("image", np.zeros((2, 3)))
    with pytest.raises(InputError, match="modality 'image' has NaN or infinity in row 1"):
        model.encode("image", np.vstack([np.zeros(64), np.full(64, np.nan)]))
    huge = 1e200 * train.modalities["image"].astype(np.float64)
    with pytest.raises(InputError, match="modality 'image' has values too large or too small to compute with"):
        clone(MODELS[name]).fit(train.modalities | {"image": huge}, train.labels)
    bad = train.modalities["image"].copy()
    bad[3, 5] = np.inf
    with pytest.raises(InputError, match="modality 'image' has NaN or infinity in row 3"):
        clone(MODELS[name]).fit(train.modalities | {"image": bad}, train.labels)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (KDLFH(8, n_bases=0), "n_bases must be an integer of at least 1, got 0"),
        (KDLFH(8, bases="grid"), "bases must be one of 'random', 'kmeans', got 'grid'"),  # type: ignore[arg-type]
        (KDLFH(8, penalty=0), "penalty must be a positive finite number, got 0"),
        (DLFH(8, hash_function=KernelLogistic(tol=-1)), "tol must be a positive finite number"),
        (DLFH(8, hash_function=KernelRidge(ridge=-1)), "ridge must be a non-negative finite number"),
        (DLFH(8, hash_function=7), "hash_function must be one of .* got 7"),
    ],
)
def test_bad_parameters(model: Any, message: str, paired: Split) -> None:
    with pytest.raises(InputError, match=message):
        model.fit(paired[0].modalities, paired[0].labels)


def test_a_saved_model_with_an_unknown_kind_of_function(paired: Split, tmp_path: Path) -> None:
    fitted("linear", paired[0]).save(tmp_path / "model")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    config["hash_functions"] = ["alien", "linear"]
    config["checksum"] = config_checksum(config)
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelError, match="cannot be loaded: unknown hash function 'alien'"):
        load(tmp_path / "model")


def test_kdlfh_is_dlfh_with_a_kernel(paired: Split) -> None:
    train, test = paired
    named = KDLFH(16, n_bases=40, random_state=1).fit(train.modalities, train.labels)
    spelled = DLFH(16, hash_function=KernelLogistic(40), random_state=1).fit(train.modalities, train.labels)
    for modality, features in test.modalities.items():
        np.testing.assert_array_equal(named.encode(modality, features), spelled.encode(modality, features))


def test_progress_counts_the_bits_that_are_done(
    paired: Split, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("dlfh._progress._LINE_INTERVAL", 0.0)
    train, _ = paired
    KDLFH(16, n_bases=20, verbose=True, random_state=0).fit(train.modalities, train.labels)
    shown = capsys.readouterr().err
    assert "bits: image" in shown
    assert "16 of 16" in shown
