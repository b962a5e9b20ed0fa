"""Deep hash functions. Training needs PyTorch; what does not need it is tested without it."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh import DLFH, InputError, ModelError, load
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh.codes import pack
from dlfh.datasets import Paired, make_paired
from dlfh.hashing import Deep
from dlfh.hashing.base import FitContext
from dlfh.hashing.deep import DeepHash
from dlfh.metrics import mean_average_precision

try:
    import torch
except ImportError:
    torch = None

needs_torch = pytest.mark.skipif(torch is None, reason='PyTorch is not installed: pip install "dlfh[deep]"')
small = Deep((64,), batch_size=64, max_epochs=40)


@pytest.fixture(scope="module")
def split() -> tuple[Paired, Paired]:
    return make_paired(n_points=700, n_labels=8, random_state=1).split(test_size=100)


def fit(data: Paired, learner: Any = small, **parameters: Any) -> DLFH:
    return DLFH(16, hash_function=learner, random_state=0, **parameters).fit(data.modalities, data.labels)


def test_parameters_are_checked_without_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    DLFH(8, hash_function="deep").check_parameters()  # as loading a model does, which needs no PyTorch
    with pytest.raises(InputError, match="patience must be an integer"):
        DLFH(8, hash_function=Deep(patience=0)).check_parameters()


def test_deep_without_pytorch_names_the_package_to_install(
    split: tuple[Paired, Paired], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r"learning a deep hash function needs PyTorch, which is not installed"):
        fit(split[0], "deep")


def random_network(seed: int = 0) -> DeepHash:
    rng = np.random.default_rng(seed)
    sizes = (7, 5, 3)
    return DeepHash(
        [
            (rng.standard_normal((a, b)).astype(np.float32), rng.standard_normal(b).astype(np.float32))
            for a, b in pairwise(sizes)
        ]
    )


def test_a_network_is_evaluated_in_numpy_sparse_or_dense_in_any_order() -> None:
    network, rng = random_network(), np.random.default_rng(1)
    X = rng.standard_normal((50, 7)) * (rng.random((50, 7)) < 0.5)
    (first, first_bias), (second, second_bias) = network.layers
    log_odds = np.maximum(X @ first + first_bias, 0) @ second + second_bias
    with Workers(1) as workers:
        projections = network.project(X, "image", workers)
        np.testing.assert_allclose(projections, 2 / (1 + np.exp(-log_odds)) - 1, atol=1e-6)
        np.testing.assert_allclose(network.project(sp.csr_array(X), "image", workers), projections, atol=1e-6)
        order = rng.permutation(50)
        np.testing.assert_array_equal(
            network.encode(X[order], "image", workers), network.encode(X, "image", workers)[order]
        )
        np.testing.assert_array_equal(network.encode(X, "image", workers), pack(projections))
        again = DeepHash.from_arrays(network.to_arrays())
        np.testing.assert_array_equal(again.project(X, "image", workers), projections)


@pytest.mark.parametrize(
    "changes",
    [{"weights1": np.zeros((4, 3), np.float32)}, {"bias0": np.zeros(3, np.float32)}, {"weights0": np.zeros((7, 5))}],
)
def test_damaged_networks_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="its array"):
        DeepHash.from_arrays(random_network().to_arrays() | changes)


@needs_torch
def test_it_learns_and_beats_chance_in_both_directions(split: tuple[Paired, Paired]) -> None:
    train, test = split
    model = fit(train)
    chance = ((test.labels @ train.labels.T) > 0).mean()
    for asked, answered in (("image", "text"), ("text", "image")):
        queries = model.encode(asked, test.modalities[asked])
        for database in (model.codes_[answered], model.encode(answered, train.modalities[answered])):
            assert mean_average_precision(queries, database, test.labels, train.labels) > chance + 0.15


@needs_torch
def test_it_learns_what_a_linear_function_cannot() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 2))
    signs = np.where(X[:, :1] * X[:, 1:] > 0, 1, -1)
    targets = Targets(pack(signs[:1500]), np.arange(1500), 1)
    with Workers(2) as workers:
        hashed = Deep((64,), dropout=0.0).fit(X[:1500], targets, "image", FitContext(workers, 0))
        assert (np.sign(hashed.project(X[1500:], "image", workers)) == signs[1500:]).mean() > 0.93


@needs_torch
def test_the_same_seed_gives_the_same_network_and_leaves_the_global_generator_unchanged(
    split: tuple[Paired, Paired],
) -> None:
    train, test = split
    torch.manual_seed(123)
    expected = torch.rand(3)
    torch.manual_seed(123)
    first, second = fit(train, n_jobs=1), fit(train, n_jobs=1)
    assert torch.equal(torch.rand(3), expected)
    for name, features in test.modalities.items():
        np.testing.assert_array_equal(first.project(name, features), second.project(name, features))


@needs_torch
def test_saved_networks_encode_the_same_without_pytorch(split: tuple[Paired, Paired], tmp_path: Path) -> None:
    train, test = split
    model = fit(train)
    model.save(tmp_path / "model")
    features = test.modalities["image"]
    np.save(tmp_path / "features.npy", features)
    program = (
        "import sys\n"
        "class NoTorch:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch': raise ImportError('no torch here')\n"
        "sys.meta_path.insert(0, NoTorch())\n"
        "import numpy as np; from dlfh import load\n"
        "np.save(sys.argv[3], load(sys.argv[1]).encode('image', np.load(sys.argv[2])))"
    )
    paths = [str(tmp_path / name) for name in ("model", "features.npy", "codes.npy")]
    subprocess.run([sys.executable, "-c", program, *paths], check=True)
    np.testing.assert_array_equal(np.load(tmp_path / "codes.npy"), model.encode("image", features))
    loaded = load(tmp_path / "model")
    assert loaded.get_params()["hash_function"].get_params() == small.get_params()


@needs_torch
def test_custom_networks_can_be_trained_and_attached(split: tuple[Paired, Paired], tmp_path: Path) -> None:
    train, test = split
    own = torch.nn.Sequential(torch.nn.Linear(64, 24), torch.nn.Tanh(), torch.nn.Linear(24, 16))
    before = {name: value.clone() for name, value in own.state_dict().items()}
    learner = {"image": Deep(module=own, max_epochs=10), "text": "kernel-ridge"}
    model = fit(train, learner)
    assert all(torch.equal(before[name], value) for name, value in own.state_dict().items())
    codes = model.encode("image", test.modalities["image"])
    assert mean_average_precision(codes, model.codes_["text"], test.labels, train.labels) > 0.6
    model.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    with pytest.raises(ModelError, match=r"call model\.hash_functions_\['image'\]\.attach\(network\)"):
        loaded.encode("image", test.modalities["image"])
    with pytest.raises(ModelError, match="does not fit the saved parameters"):
        loaded.hash_functions_["image"].attach(torch.nn.Linear(64, 16))
    loaded.hash_functions_["image"].attach(own)
    np.testing.assert_array_equal(loaded.encode("image", test.modalities["image"]), codes)
    wrong = torch.nn.Linear(64, 15)
    with pytest.raises(InputError, match=r"returns outputs of shape \(\d+, 15\) for \d+ points; expected \(\d+, 16\)"):
        fit(train, {"image": Deep(module=wrong), "text": "linear"})


@needs_torch
@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"hidden": (0,)}, "hidden must be an integer of at least 1, got 0"),
        ({"dropout": 1.0}, "less than 1"),
        ({"validation": 1.5}, "less than 1"),
        ({"learning_rate": 0}, "learning_rate must be a positive finite number"),
        ({"patience": 0}, "patience must be an integer of at least 1"),
    ],
)
def test_bad_parameters(split: tuple[Paired, Paired], parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        fit(split[0], Deep(**parameters))


@needs_torch
def test_progress_is_shown_and_nan_is_named(
    split: tuple[Paired, Paired], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlfh._progress._LINE_INTERVAL", 0.0)
    train, _ = split
    fit(train, Deep((8,), max_epochs=2), verbose=True)
    assert "deep: image" in capsys.readouterr().err
    bad = train.modalities["image"].copy()
    bad[5, 3] = np.nan
    with pytest.raises(InputError, match="modality 'image' has NaN or infinity in row 5"):
        fit(Paired(train.modalities | {"image": bad}, train.labels))
