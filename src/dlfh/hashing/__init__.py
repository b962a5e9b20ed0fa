"""Hash functions, which encode points that were not in the training set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._imports import import_on_demand
from dlfh.hashing.base import HashFunction, HashLearner

if TYPE_CHECKING:
    from dlfh.hashing.auto import Auto
    from dlfh.hashing.deep import Deep, TorchHash
    from dlfh.hashing.kernel import KernelLogistic, KernelRidge
    from dlfh.hashing.linear import LinearRidge

__all__ = ["Auto", "Deep", "HashFunction", "HashLearner", "KernelLogistic", "KernelRidge", "LinearRidge", "TorchHash"]

#: Modules of the kinds of hash functions in saved models.
HashFunction._registry.declare(
    __name__,
    {"deep": "deep", "torch": "deep", "kernel": "kernel", "latent-binary": "kernel"}
    | {"linear": "linear", "unit-linear": "linear"},
)
HashLearner._registry.declare(
    __name__,
    {"auto": "auto", "deep": "deep", "kernel-logistic": "kernel", "kernel-ridge": "kernel", "linear-ridge": "linear"},
)

__getattr__, __dir__ = import_on_demand(
    __name__,
    {"auto": "Auto", "deep": "Deep TorchHash", "kernel": "KernelLogistic KernelRidge", "linear": "LinearRidge"},
)
