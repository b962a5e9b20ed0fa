"""Base class of featurisers that use a pretrained network."""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from dlfh._arrays import Array, Singles
from dlfh._validation import check_integer
from dlfh.errors import InputError, ModelError
from dlfh.features.base import Arrays
from dlfh.features.images import BlockFeaturizer


class Network(NamedTuple):
    """A loaded network."""

    called: str  # its name in error messages
    model: Any
    preprocessor: Any
    n_features: int
    fingerprint: str  # hash of the weights


class NetworkFeaturizer(BlockFeaturizer):
    """Base class of featurisers that use a pretrained network; vectors have length 1.

    A saved model contains a hash of the weights, not the weights.

    fingerprint_: Hash of the weights. A network that is loaded later must have the same one.
    """

    device: str
    fingerprint_: str

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
        vectors = self._vectors(self._open_network(), values)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        lengths[lengths == 0] = 1
        return vectors / lengths

    def _open_network(self) -> Network:
        """Return the network; a featuriser restored from a file loads it on first use."""
        if not hasattr(self, "_network"):
            network = self._load()
            if network.fingerprint != self.fingerprint_:
                raise ModelError(f"{network.called} has different weights from those used in training")
            self._network = network
        return self._network

    def __getstate__(self) -> dict[str, Any]:
        # The network is large and not copyable: copies load it again.
        return {name: value for name, value in vars(self).items() if name != "_network"}

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {"fingerprint": self.fingerprint_}, {}

    def _restore(self, fitted: Mapping[str, Any], arrays: Arrays) -> None:
        fingerprint = fitted["fingerprint"]
        if not isinstance(fingerprint, str) or not re.fullmatch("[0-9a-f]{64}", fingerprint):
            raise ValueError(f"its fingerprint is invalid: {fingerprint!r}")
        self.fingerprint_ = fingerprint


def fingerprint_of(weights: Iterable[tuple[str, Any]]) -> str:
    """Return a hash of the names, shapes and values of weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights, key=lambda pair: pair[0]):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().numpy())
    return digest.hexdigest()


def on_device(torch: Any, model: Any, device: str) -> Any:
    """Move a network to a device."""
    try:
        return model.to(torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None
