"""Hash functions: how a point that training never saw gets its code."""

from dlfh.hashing._base import FitContext, HashFunction, HashLearner
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
