"""What featurisers over networks have in common: batches, and weights that are named and known by a fingerprint."""

from __future__ import annotations

import hashlib
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dlfh._progress import progress
from dlfh._validation import check_integer
from dlfh.errors import InputError, ModelError
from dlfh.features.base import Arrays, Featurizer, Readable, readable
from dlfh.features.cache import described
from dlfh.features.images import quiet_pillow

__all__ = ["Loaded", "NetworkFeaturizer", "fingerprint_of", "on_device"]


class Loaded(NamedTuple):
    """A network: from prepared items to vectors, how to prepare them, and what identifies it."""

    model: Any
    prepare: Any
    n_features: int
    fingerprint: str


class NetworkFeaturizer(Featurizer):
    """Describes items by a network that was trained elsewhere: vectors of length 1, a batch at a time.

    There is nothing to learn, so any items will do for `fit`, none too. What is saved is a fingerprint of the weights,
    not the weights. Subclasses say how the network is loaded, what reads an item, and how a batch becomes vectors.

    Attributes
    ----------
    fingerprint_ : str
        A hash of the weights. A network that is loaded later must have it.
    """

    batch_size: int
    device: str
    fingerprint_: str

    def check_parameters(self) -> None:
        super().check_parameters()
        check_integer(self.batch_size, "batch_size", 1)
        if not isinstance(self.device, str):
            raise InputError(f"device must be a name such as 'cpu' or 'cuda', got {self.device!r}")

    @abstractmethod
    def _load(self) -> Loaded:
        """Return the network."""

    @abstractmethod
    def _called(self) -> str:
        """Return what to call the network in an error."""

    @abstractmethod
    def _reader(self) -> Callable[[Any, int], Any]:
        """Return what reads an item at a position, or raises InputError."""

    @abstractmethod
    def _vectors(self, loaded: Loaded, values: list[Any]) -> npt.NDArray[np.float32]:
        """Return a row for each value that was read."""

    def _fit(self, items: Any, strict: bool) -> int:
        self._loaded = self._load()
        self.fingerprint_ = self._loaded.fingerprint
        return self._loaded.n_features

    def _transform(self, items: Any, strict: bool) -> Readable:
        if self.takes != "images":
            return self._describe_all(items, strict)
        describe = partial(self._describe_all, strict=strict)
        return described(self, items, self.n_features_, describe, self.fingerprint_)

    def _describe_all(self, items: Any, strict: bool) -> Readable:
        loaded = self._network()
        features = np.empty((len(items), loaded.n_features), np.float32)
        rows: list[int] = []
        problems: dict[int, str] = {}
        with quiet_pillow, progress(self.verbose) as bar:
            advance = bar.counter(f"{self.kind} {self.takes}", len(items))
            for start in range(0, len(items), int(self.batch_size)):
                batch = items[start : start + int(self.batch_size)]
                values, places, wrong = readable(batch, self._reader(), strict, start)
                if values:
                    vectors = self._vectors(loaded, values)
                    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
                    features[places] = vectors / np.where(lengths > 0, lengths, 1)
                rows += places
                problems |= wrong
                advance(len(batch))
        return Readable(features[rows] if problems else features, np.array(rows, np.int64), problems)

    def _network(self) -> Loaded:
        """Return the network, which a featuriser that was itself loaded from a file opens when it is first needed."""
        if not hasattr(self, "_loaded"):
            loaded = self._load()
            if loaded.fingerprint != self.fingerprint_:
                raise ModelError(f"{self._called()} is not the one this featuriser was fitted with: its weights differ")
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


def fingerprint_of(weights: Iterable[tuple[str, Any]]) -> str:
    """Return a hash of names, shapes and values of weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(weights, key=lambda pair: pair[0]):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.cpu().contiguous().numpy())
    return digest.hexdigest()


def on_device(torch: Any, model: Any, device: str) -> Any:
    """Return a network where PyTorch is to compute."""
    try:
        return model.to(torch.device(device))
    except (RuntimeError, AssertionError) as error:
        raise InputError(f"device {device!r} cannot be used: {str(error).splitlines()[0]}") from None
