"""CLIP embeddings, with a tiny model that the test creates."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from dlfh import InputError, ModelError, NotFittedError
from dlfh.features import Clip, Featurizer

try:
    import torch
    import transformers
except ImportError:
    torch = None

needs_clip = pytest.mark.skipif(
    torch is None, reason='PyTorch and transformers are not installed: pip install "dlfh[clip]"'
)

PICTURES = list(np.random.default_rng(0).integers(0, 256, (5, 40, 60, 3), np.uint8))
WORDS = ["a cat", "a dog", "", "cat " * 100, "日本"]
ITEMS: dict[str, list[Any]] = {"image": PICTURES, "text": WORDS}


def test_without_its_packages_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(InputError, match=r'CLIP needs PyTorch, which is not installed: pip install "dlfh\[clip\]"'):
        Clip("some/model").fit([])


def test_unfitted_clip_raises_not_fitted_error() -> None:
    with pytest.raises(NotFittedError, match="not fitted"):
        Clip("some/model").transform([])


def make_model(folder: Path, seed: int) -> Path:
    """Save a CLIP model with random weights, a few letters as tokens, and all files of a real one."""
    letters = [chr(code) for code in range(33, 127)]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters), "<|startoftext|>", "<|endoftext|>"]
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\nc a\nca t</w>\n")
    vocabulary = {**{token: number for number, token in enumerate(tokens)}, "ca": 190, "cat</w>": 191}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    transformers.CLIPTokenizer.from_pretrained(folder).save_pretrained(folder)
    small = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = {**small, "vocab_size": 192, "max_position_embeddings": 12, "eos_token_id": 189, "bos_token_id": 188}
    config = transformers.CLIPConfig(
        text_config={**text, "pad_token_id": 189},
        vision_config={**small, "image_size": 32, "patch_size": 8},
        projection_dim=8,
    )
    torch.manual_seed(seed)
    transformers.CLIPModel(config).save_pretrained(folder)
    processor = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    processor(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("clip") / "tiny", seed=0)


@needs_clip
@pytest.mark.parametrize("tower", ["image", "text"])
def test_vectors_have_length_one_and_do_not_depend_on_the_batch(folder: Path, tower: Any) -> None:
    vectors = [Clip(folder, tower, batch_size=size).fit_transform(ITEMS[tower]) for size in (1, 2, 32)]
    assert vectors[0].shape == (5, 8)
    assert vectors[0].dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors[0], axis=1), 1, rtol=1e-5)
    for other in vectors[1:]:
        np.testing.assert_allclose(vectors[0], other, atol=1e-5)


@needs_clip
def test_vectors_equal_those_of_the_model(folder: Path) -> None:
    model = transformers.CLIPModel.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with torch.inference_mode():
        output = model.get_text_features(**tokenizer(["a cat"], return_tensors="pt"))
    expected = getattr(output, "pooler_output", output).numpy()
    found = Clip(str(folder), "text").fit_transform(["a cat"])
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-6)


@needs_clip
@pytest.mark.parametrize("tower", ["image", "text"])
def test_a_saved_featuriser_loads_its_model(folder: Path, tower: Any) -> None:
    fitted = Clip(folder, tower).fit([])
    config, arrays = fitted.to_parts()
    assert not arrays
    again = Featurizer.from_parts(json.loads(json.dumps(config)), arrays)
    np.testing.assert_array_equal(again.transform(ITEMS[tower]), fitted.transform(ITEMS[tower]))
    assert clone(fitted).get_params() == fitted.get_params()


@needs_clip
def test_another_model_of_the_same_name_is_refused(folder: Path, tmp_path: Path) -> None:
    place = tmp_path / "model"
    shutil.copytree(folder, place)
    parts = Clip(place, "text").fit([]).to_parts()
    shutil.rmtree(place)
    make_model(place, seed=1)
    with pytest.raises(ModelError, match="has different weights from those used in training"):
        Featurizer.from_parts(*parts).transform(["a cat"])


@needs_clip
def test_a_damaged_fingerprint_is_refused(folder: Path) -> None:
    config, arrays = Clip(folder).fit([]).to_parts()
    for fingerprint in ("", None, "../x"):
        with pytest.raises(ModelError, match="damaged: its fingerprint is invalid"):
            Featurizer.from_parts({**config, "fitted": {"fingerprint": fingerprint}}, arrays)


@needs_clip
def test_unreadable_items_are_reported(folder: Path) -> None:
    found = Clip(folder, batch_size=2).fit_transform_readable([b"", *PICTURES[:2], "no such.png"])
    assert found.rows.tolist() == [1, 2]
    assert found.problems == {0: "image 0 is empty", 3: "no such.png does not exist"}
    np.testing.assert_allclose(found.features, Clip(folder).fit_transform(PICTURES[:2]), atol=1e-5)
    with pytest.raises(InputError, match="text 1 must be a string, got int"):
        Clip(folder, "text").fit_transform(["a", 1])


@needs_clip
def test_other_models_are_refused_in_one_sentence(folder: Path, tmp_path: Path) -> None:
    other, broken, incomplete = (tmp_path / name for name in ("other", "broken", "incomplete"))
    for place in (other, broken, incomplete):
        shutil.copytree(folder, place)
    (other / "config.json").write_text('{"model_type": "bert"}')
    (broken / "model.safetensors").write_bytes(b"not weights")
    (incomplete / "config.json").unlink()
    for place, reason in (
        (other, "is a model of type 'bert', not CLIP"),
        (broken, "cannot load the CLIP model"),
        (incomplete, "cannot load the CLIP model"),
        (tmp_path / "missing", "no such folder"),
    ):
        with pytest.raises(InputError, match=reason) as error:
            Clip(place).fit([])
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="device 'abacus' cannot be used"):
        Clip(folder, device="abacus").fit([])
