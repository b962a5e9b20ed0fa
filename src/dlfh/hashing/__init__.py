"""Hash functions: how a point that training never saw gets its code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._lazy import import_on_demand
from dlfh.hashing._base import FitContext, HashFunction, HashLearner

if TYPE_CHECKING:
    from dlfh.hashing._auto import Auto
    from dlfh.hashing._deep import Deep, TorchHash
    from dlfh.hashing._kernel import KernelLogistic, KernelRidge
    from dlfh.hashing._linear import LinearRidge

__all__ = [
    "Auto",
    "Deep",
    "FitContext",
    "HashFunction",
    "HashLearner",
    "KernelLogistic",
    "KernelRidge",
    "LinearRidge",
    "TorchHash",
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
    {
        "auto": "_auto",
        "deep": "_deep",
        "kernel-logistic": "_kernel",
        "kernel-ridge": "_kernel",
        "linear-ridge": "_linear",
    },
)

__getattr__, __dir__ = import_on_demand(
    __name__,
    {
        "_auto": "Auto",
        "_deep": "Deep TorchHash",
        "_kernel": "KernelLogistic KernelRidge",
        "_linear": "LinearRidge",
    },
)
