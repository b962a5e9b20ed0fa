"""CLIP: vectors in which pictures and words already meet (Radford and others, 2021), through transformers.

PyTorch and transformers are an extra (``pip install "dlfh[clip]"``). A saved model keeps the name of the CLIP model
and a fingerprint of its weights, not the weights.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlfh._optional import require
from dlfh._validation import check_choice
from dlfh.errors import InputError
from dlfh.features.images import open_item
from dlfh.features.network import Loaded, NetworkFeaturizer, fingerprint_of, on_device
from dlfh.features.text import check_text

__all__ = ["Clip"]


class Clip(NetworkFeaturizer):
    """Describes images or texts by one tower of a CLIP model, as vectors of length 1.

    Parameters
    ----------
    name_or_folder : str or path
        A folder with the model (``config.json``, weights, tokenizer, preprocessor), or its name on the hub, such as
        ``"openai/clip-vit-base-patch32"``, which is downloaded once.
    tower : {"image", "text"}, default "image"
        Which items it takes: what `read_image` takes, or strings.
    batch_size : int, default 32
        Items that go through the network together.
    device : str, default "cpu"
        Where PyTorch computes, such as "cuda".
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    fingerprint_ : str
        A hash of the tower's weights. A model that is loaded later under the same name must have it.

    Examples
    --------
    >>> images = Clip("openai/clip-vit-base-patch32")
    >>> texts = Clip("openai/clip-vit-base-patch32", tower="text")
    >>> texts.kind, texts.tower
    ('clip', 'text')
    """

    kind = "clip"

    @property
    def takes(self) -> Literal["texts", "images"]:  # type: ignore[override]
        return "images" if self.tower == "image" else "texts"

    def __init__(
        self,
        name_or_folder: str | os.PathLike[str],
        tower: Literal["image", "text"] = "image",
        *,
        batch_size: int = 32,
        device: str = "cpu",
        verbose: bool = False,
    ) -> None:
        self.name_or_folder = name_or_folder
        self.tower = tower
        self.batch_size = batch_size
        self.device = device
        self.verbose = verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        if not isinstance(self.name_or_folder, (str, os.PathLike)) or not str(self.name_or_folder):
            raise InputError(f"name_or_folder must name a CLIP model, got {self.name_or_folder!r}")
        check_choice(self.tower, "tower", ("image", "text"))

    def _load(self) -> Loaded:
        return _load(str(self.name_or_folder), self.tower, self.device)

    def _called(self) -> str:
        return f"the CLIP model {str(self.name_or_folder)!r}"

    def _reader(self) -> Callable[[Any, int], Any]:
        return open_item if self.tower == "image" else check_text

    def _vectors(self, loaded: Loaded, values: list[Any]) -> npt.NDArray[np.float32]:
        return _vectors(loaded, values, self.tower, self.device)


def _load(name: str, tower: str, device: str) -> Loaded:
    torch = require("torch", "CLIP", "clip")
    transformers = require("transformers", "CLIP", "clip")
    if name.startswith((".", "~", os.sep)) or Path(name).exists():
        # Else a mistyped folder would be looked for on the hub.
        name = str(Path(name).expanduser())
        if not Path(name).is_dir():
            raise InputError(f"there is no CLIP model at {name}: no such folder")
    try:
        config = transformers.AutoConfig.from_pretrained(name)
        if config.model_type != "clip":
            raise InputError(f"{name} holds a model of type {config.model_type!r}, not CLIP")
        model = transformers.CLIPModel.from_pretrained(name).float().eval()
        prepare = _preparation(transformers, name, tower)
    except InputError:
        raise
    except Exception as error:  # the hub, the disk and several parsers have their own errors
        reason = " ".join(str(error).split())
        raise InputError(f"the CLIP model {name} cannot be loaded: {reason[:300]}") from None
    model = on_device(torch, model, device)
    return Loaded(model, prepare, int(config.projection_dim), _fingerprint(model, tower))


def _preparation(transformers: Any, name: str, tower: str) -> Any:
    if tower == "text":
        return transformers.AutoTokenizer.from_pretrained(name)
    # By Pillow, whether torchvision is there or not: the two differ in the last digits of a resized picture.
    processor = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    return processor.from_pretrained(name)


def _fingerprint(model: Any, tower: str) -> str:
    """Return a fingerprint of a tower's weights."""
    parts = ("text_model.", "text_projection.") if tower == "text" else ("vision_model.", "visual_projection.")
    # (Position ids are counters that some versions save and others do not.)
    weights = model.state_dict().items()
    return fingerprint_of(
        (name, own) for name, own in weights if name.startswith(parts) and not name.endswith("position_ids")
    )


def _vectors(loaded: Loaded, values: list[Any], tower: str, device: str) -> npt.NDArray[np.float32]:
    torch = require("torch", "CLIP", "clip")
    if tower == "text":
        longest = loaded.model.config.text_config.max_position_embeddings
        inputs = loaded.prepare(values, padding=True, truncation=True, max_length=longest, return_tensors="pt")
        compute = loaded.model.get_text_features
    else:
        inputs = loaded.prepare(images=values, return_tensors="pt")
        compute = loaded.model.get_image_features
    with torch.inference_mode():
        output = compute(**{name: tensor.to(device) for name, tensor in inputs.items()})
        # Newer versions wrap the vectors in an object with hidden states beside them.
        return getattr(output, "pooler_output", output).float().cpu().numpy()
