"""Hash functions: how a point that training never saw gets its code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._lazy import import_on_demand
from dlfh.hashing._base import FitContext, HashFunction, HashLearner

if TYPE_CHECKING:
    from dlfh.hashing._deep import Deep, DeepHash, TorchHash
    from dlfh.hashing._kernel import KernelHash, KernelLogistic, KernelRidge, RBFMap
    from dlfh.hashing._latent import LatentBinaryHash
    from dlfh.hashing._linear import LinearHash, LinearRidge
    from dlfh.hashing._unit import UnitLinearHash

__all__ = [
    "Deep",
    "DeepHash",
    "FitContext",
    "HashFunction",
    "HashLearner",
    "KernelHash",
    "KernelLogistic",
    "KernelRidge",
    "LatentBinaryHash",
    "LinearHash",
    "LinearRidge",
    "RBFMap",
    "TorchHash",
    "UnitLinearHash",
]

#: In which file each kind is that a saved model may name.
HashFunction.registry.expect(
    __name__,
    {
        "deep": "_deep",
        "kernel": "_kernel",
        "latent-binary": "_latent",
        "linear": "_linear",
        "torch": "_deep",
        "unit-linear": "_unit",
    },
)
HashLearner.registry.expect(
    __name__,
    {"deep": "_deep", "kernel-logistic": "_kernel", "kernel-ridge": "_kernel", "linear-ridge": "_linear"},
)

__getattr__, __dir__ = import_on_demand(
    __name__,
    {
        "_deep": ("Deep", "DeepHash", "TorchHash"),
        "_kernel": ("KernelHash", "KernelLogistic", "KernelRidge", "RBFMap"),
        "_latent": ("LatentBinaryHash",),
        "_linear": ("LinearHash", "LinearRidge"),
        "_unit": ("UnitLinearHash",),
    },
)
