"""Deep hash functions: a small network per modality, trained on the learned codes with PyTorch.

PyTorch is an extra (``pip install "dlfh[deep]"``) that only training needs: a trained network is stored as a list of
matrices, and encoding is plain NumPy. With a custom ``torch.nn.Module``, encoding needs PyTorch, too.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Floats, Integers, Singles
from dlfh._imports import require
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh._validation import Features, check_integer, check_positive, raise_if_not_finite
from dlfh.errors import InputError, ModelError
from dlfh.hashing.base import ChunkedFunction, FitContext, HashFunction, HashLearner, check_array

_CHUNK_ROWS = 4096


def _torch() -> Any:
    return require("torch", "learning a deep hash function", "deep")


class DeepHash(ChunkedFunction):
    """A network with rectified linear units, evaluated in NumPy; its layers are weights (inputs, outputs) and bias."""

    kind = "deep"

    def __init__(self, layers: list[tuple[Singles, Singles]]) -> None:
        self.layers = layers
        self.n_features, self.n_bits = layers[0][0].shape[0], layers[-1][0].shape[1]

    def _values(self, rows: Features, modality: str, workers: Workers) -> Floats:
        # Double precision, so that a point's bits do not depend on the other rows of its batch.
        values: Any = rows.astype(np.float64)
        for number, (weights, bias) in enumerate(self.layers):
            if number:
                values = np.maximum(values, 0)
            values = values @ weights.astype(np.float64) + bias
        return values

    def to_arrays(self) -> dict[str, Array]:
        arrays: dict[str, Array] = {}
        for number, (weights, bias) in enumerate(self.layers):
            arrays |= {f"weights{number}": weights, f"bias{number}": bias}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> DeepHash:
        layers: list[tuple[Singles, Singles]] = []
        width: int | None = None
        for number in range(len(arrays) // 2):
            weights = check_array(arrays, f"weights{number}", np.float32, (width, None))
            width = weights.shape[1]
            layers.append((weights, check_array(arrays, f"bias{number}", np.float32, (width,))))
        if not layers:
            raise ValueError("its network has no layers")
        return cls(layers)


class TorchHash(ChunkedFunction):
    """A custom network. A saved model keeps its parameters; `attach` loads them into a network again."""

    kind = "torch"

    def __init__(self, module: Any, state: dict[str, Array], n_features: int, n_bits: int) -> None:
        self.module, self._state, self.n_features, self.n_bits = module, state, n_features, n_bits

    def attach(self, module: Any) -> None:
        """Load the saved parameters into ``module`` and use it for encoding."""
        torch = _torch()
        try:
            module.load_state_dict({name: torch.from_numpy(array.copy()) for name, array in self._state.items()})
        except RuntimeError as error:
            raise ModelError(f"the network does not fit the saved parameters: {error}") from None
        self.module = module.eval()

    def project(self, features: Features, modality: str, workers: Workers) -> Singles:
        if self.module is None:
            raise ModelError(
                f"modality {modality!r} needs a custom network, which is not saved with the model: "
                f"call model.hash_functions_[{modality!r}].attach(network)"
            )
        return super().project(features, modality, workers)

    def _values(self, rows: Features, modality: str, workers: Workers) -> Singles:
        torch = _torch()
        device = next((p.device for p in self.module.parameters()), torch.device("cpu"))
        with torch.no_grad():
            return self.module(torch.from_numpy(_dense(rows)).to(device)).float().cpu().numpy()

    def to_arrays(self) -> dict[str, Array]:
        shape = {"shape": np.array([self.n_features, self.n_bits])}
        return shape | {f"state/{name}": array for name, array in self._state.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> TorchHash:
        """Restore a hash function without its network: see `attach`."""
        state = {name.removeprefix("state/"): array for name, array in arrays.items() if name.startswith("state/")}
        n_features, n_bits = check_array(arrays, "shape", np.int64, (2,)).tolist()
        return cls(None, state, n_features, n_bits)


@dataclass(eq=False, repr=False)
class Deep(HashLearner):
    """A network trained on the learned codes by the cross-entropy of each bit.

    Features are standardised. Training uses Adam with weight decay and stops when the loss on held-out points no longer
    decreases; the best network is kept.

    Parameters
    ----------
    hidden : tuple of int, default (512,)
        Sizes of the hidden layers.
    dropout : float, default 0.3
    learning_rate, weight_decay : float
    batch_size : int
    max_epochs : int
    patience : int
        Number of epochs without improvement after which training stops.
    validation : float
        Share of the points that is held out for early stopping.
    device : str, optional
        PyTorch device; by default a GPU if available.
    module : torch.nn.Module, optional
        A custom network, from float32 features (batch, n_features) to log-odds (batch, n_bits); a copy of it is
        trained, on features that are not standardised. A saved model has its parameters, not the network.
    """

    kind = "deep"
    unsaved_parameters = ("module",)

    hidden: tuple[int, ...] = (512,)
    _: KW_ONLY
    dropout: float = 0.3
    learning_rate: float = 1e-3
    weight_decay: float = 1e-4
    batch_size: int = 256
    max_epochs: int = 100
    patience: int = 5
    validation: float = 0.1
    device: str | None = None
    module: Any = None

    def check_parameters(self) -> None:
        for size in self.hidden:
            check_integer(size, "hidden", 1)
        check_positive(self.dropout, "dropout", allow_zero=True)
        check_positive(self.learning_rate, "learning_rate")
        check_positive(self.weight_decay, "weight_decay", allow_zero=True)
        for name in ("batch_size", "max_epochs", "patience"):
            check_integer(getattr(self, name), name, 1)
        if self.dropout >= 1 or not 0 < check_positive(self.validation, "validation") < 1:
            raise InputError("dropout and validation must be less than 1")

    def check_installed(self) -> None:
        _torch()

    def fit(self, features: Features, targets: Targets, modality: str, context: FitContext) -> HashFunction:
        torch = _torch()
        raise_if_not_finite(features, modality)
        width = features.shape[1]
        mean, scale = _standardisation(features) if self.module is None else (np.zeros(width), np.ones(width))

        def inputs(rows: Integers) -> Singles:
            return ((_dense(features[rows]) - mean) / scale).astype(np.float32)

        threads = torch.get_num_threads()
        torch.set_num_threads(context.workers.n_jobs)
        try:
            with torch.random.fork_rng():
                torch.manual_seed(context.seed % 2**63)
                network = self._network(torch, width, targets.n_bits)
                self._train(network, inputs, targets, modality, context)
        finally:
            torch.set_num_threads(threads)
        if self.module is not None:
            state = {name: value.cpu().numpy() for name, value in network.state_dict().items()}
            return TorchHash(network, state, width, targets.n_bits)
        layers = [
            (layer.weight.detach().cpu().numpy().T.astype(np.float64), layer.bias.detach().cpu().numpy())
            for layer in network
            if isinstance(layer, torch.nn.Linear)
        ]
        # The first layer includes (x - mean) / scale, so that sparse features stay sparse.
        weights, bias = layers[0]
        weights = weights / scale[:, None]
        layers[0] = weights, bias - mean @ weights
        return DeepHash([(np.ascontiguousarray(w, np.float32), b.astype(np.float32)) for w, b in layers])

    def _network(self, torch: Any, n_features: int, n_bits: int) -> Any:
        device = self.device or ("cuda" if torch.cuda.is_available() else "cpu")
        if self.module is not None:
            return copy.deepcopy(self.module).to(device)
        layers: list[Any] = []
        width = n_features
        for size in self.hidden:
            layers += [torch.nn.Linear(width, size), torch.nn.ReLU(), torch.nn.Dropout(self.dropout)]
            width = size
        return torch.nn.Sequential(*layers, torch.nn.Linear(width, n_bits)).to(device)

    def _train(
        self, network: Any, inputs: Callable[[Integers], Singles], targets: Targets, modality: str, context: FitContext
    ) -> None:
        torch, device = _torch(), next(network.parameters()).device
        rng = np.random.default_rng(context.seed)
        order = rng.permutation(len(targets.row_of_point))
        n_held = min(max(1, int(self.validation * len(order))), len(order) - 1)
        held, rest = np.sort(order[:n_held]), order[n_held:]
        loss_of = torch.nn.BCEWithLogitsLoss()

        def loss_at(rows: Integers) -> Any:
            bits = np.unpackbits(targets.codes[targets.row_of_point[rows]], axis=1, count=targets.n_bits)
            outputs = network(torch.from_numpy(inputs(rows)).to(device))
            if outputs.shape != bits.shape:
                raise InputError(
                    f"the network for modality {modality!r} returns outputs of shape {tuple(outputs.shape)} for "
                    f"{len(rows)} points; expected {bits.shape}"
                )
            return loss_of(outputs, torch.from_numpy(bits.astype(np.float32)).to(device))

        optimiser = torch.optim.AdamW(network.parameters(), lr=self.learning_rate, weight_decay=self.weight_decay)
        best, best_state, waited = np.inf, copy.deepcopy(network.state_dict()), 0
        advance = context.bar.counter(f"deep: {modality}", self.max_epochs)
        for _ in range(self.max_epochs):
            network.train()
            rng.shuffle(rest)
            for start in range(0, len(rest), self.batch_size):
                optimiser.zero_grad()
                loss_at(rest[start : start + self.batch_size]).backward()
                optimiser.step()
            network.eval()
            with torch.no_grad():
                chunks = [held[start : start + _CHUNK_ROWS] for start in range(0, n_held, _CHUNK_ROWS)]
                held_loss = sum(float(loss_at(chunk)) * len(chunk) for chunk in chunks) / max(n_held, 1)
            advance()
            if held_loss < best:
                best, best_state, waited = held_loss, copy.deepcopy(network.state_dict()), 0
            else:
                waited += 1
                if waited >= self.patience:
                    break
        network.load_state_dict(best_state)
        network.eval()


def _dense(rows: Features) -> Singles:
    return np.asarray(rows.toarray() if sp.issparse(rows) else rows, np.float32)


def _standardisation(features: Features) -> tuple[Floats, Floats]:
    """Return means and standard deviations, with 1 for constant features."""
    squares = np.zeros(features.shape[1])
    mean = np.asarray(features.mean(axis=0, dtype=np.float64)).ravel()
    for start in range(0, features.shape[0], _CHUNK_ROWS):
        rows = _dense(features[start : start + _CHUNK_ROWS]) - mean
        squares += (rows**2).sum(axis=0)
    deviation = np.sqrt(squares / features.shape[0])
    return mean, np.where(deviation > 1e-9 * (np.abs(mean) + 1), deviation, 1.0)
