"""Hash functions: how a point that training never saw gets its code."""

from dlfh.hashing.base import FitContext, HashFunction, HashLearner, Targets
from dlfh.hashing.deep import Deep, DeepHash, TorchHash
from dlfh.hashing.kernel import KernelHash, KernelLogistic, KernelRidge, RBFMap
from dlfh.hashing.linear import LinearHash, LinearRidge

__all__ = [
    "Deep",
    "DeepHash",
    "FitContext",
    "HashFunction",
    "HashLearner",
    "KernelHash",
    "KernelLogistic",
    "KernelRidge",
    "LinearHash",
    "LinearRidge",
    "RBFMap",
    "Targets",
    "TorchHash",
]
