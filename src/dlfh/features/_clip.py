"""CLIP: vectors in which pictures and words already meet (Radford and others, 2021), through transformers.

PyTorch and transformers are an extra (``pip install "dlfh[clip]"``). A saved model keeps the name of the CLIP model
and a fingerprint of its weights, not the weights.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dlfh._optional import require
from dlfh._progress import progress
from dlfh._validation import check_choice, check_integer
from dlfh.errors import InputError, ModelError
from dlfh.features._base import Arrays, Featurizer, Readable, readable
from dlfh.features._images import open_item, quiet_pillow
from dlfh.features._text import check_text

__all__ = ["Clip"]


class _Loaded(NamedTuple):
    """One tower of a CLIP model: from prepared items to vectors, how to prepare them, and what identifies it."""

    model: Any
    prepare: Any
    n_features: int
    fingerprint: str


class Clip(Featurizer):
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

    fingerprint_: str

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
        check_integer(self.batch_size, "batch_size", 1)
        if not isinstance(self.device, str):
            raise InputError(f"device must be a name such as 'cpu' or 'cuda', got {self.device!r}")

    def _fit(self, items: Any, strict: bool) -> int:
        self._loaded = _load(str(self.name_or_folder), self.tower, self.device)
        self.fingerprint_ = self._loaded.fingerprint
        return self._loaded.n_features

    def _transform(self, items: Any, strict: bool) -> Readable:
        loaded = self._network()
        read = open_item if self.tower == "image" else check_text
        features = np.empty((len(items), loaded.n_features), np.float32)
        rows: list[int] = []
        problems: dict[int, str] = {}
        with quiet_pillow, progress(self.verbose) as bar:
            advance = bar.counter(f"{self.kind} {self.tower}", len(items))
            for start in range(0, len(items), int(self.batch_size)):
                batch = items[start : start + int(self.batch_size)]
                values, places, wrong = readable(batch, read, strict, start)
                if values:
                    features[places] = _vectors(loaded, values, self.tower, self.device)
                rows += places
                problems |= wrong
                advance(len(batch))
        return Readable(features[rows] if problems else features, np.array(rows, np.int64), problems)

    def _network(self) -> _Loaded:
        """Return the network, which a featuriser that was itself loaded from a file opens when it is first needed."""
        if not hasattr(self, "_loaded"):
            loaded = _load(str(self.name_or_folder), self.tower, self.device)
            if loaded.fingerprint != self.fingerprint_:
                raise ModelError(
                    f"the CLIP model {str(self.name_or_folder)!r} is not the one this featuriser was fitted with: "
                    "its weights differ"
                )
            self._loaded = loaded
        return self._loaded

    def __getstate__(self) -> dict[str, Any]:
        # Copies open the network again: it is neither small nor made to be copied.
        return {name: value for name, value in vars(self).items() if name != "_loaded"}

    def _state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        return {"fingerprint": self.fingerprint_}, {}

    def _restore(self, fitted: Mapping[str, Any], arrays: Arrays) -> None:
        fingerprint = fitted["fingerprint"]
        if not isinstance(fingerprint, str) or not re.fullmatch("[0-9a-f]{64}", fingerprint):
            raise ValueError(f"its fingerprint is {fingerprint!r}")
        self.fingerprint_ = fingerprint


def _load(name: str, tower: str, device: str) -> _Loaded:
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
    try:
        model = model.to(torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None
    return _Loaded(model, prepare, int(config.projection_dim), _fingerprint(model, tower))


def _preparation(transformers: Any, name: str, tower: str) -> Any:
    if tower == "text":
        return transformers.AutoTokenizer.from_pretrained(name)
    # By Pillow, whether torchvision is there or not: the two differ in the last digits of a resized picture.
    processor = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    return processor.from_pretrained(name)


def _fingerprint(model: Any, tower: str) -> str:
    """Return a hash of names, shapes and values of a tower's weights."""
    parts = ("text_model.", "text_projection.") if tower == "text" else ("vision_model.", "visual_projection.")
    digest = hashlib.sha256()
    for name, weights in sorted(model.state_dict().items()):
        # (Position ids are counters that some versions save and others do not.)
        if name.startswith(parts) and not name.endswith("position_ids"):
            digest.update(f"{name} {tuple(weights.shape)}".encode())
            digest.update(weights.cpu().contiguous().numpy())
    return digest.hexdigest()


def _vectors(loaded: _Loaded, values: list[Any], tower: str, device: str) -> npt.NDArray[np.float32]:
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
        vectors = getattr(output, "pooler_output", output).float().cpu().numpy()
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
