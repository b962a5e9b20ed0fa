"""Hash functions: how a point that training never saw gets its code."""

from dlfh.hashing.base import FitContext, HashFunction, HashLearner, RealTargets, Targets
from dlfh.hashing.centred import Centred
from dlfh.hashing.deep import Deep, DeepHash, TorchHash
from dlfh.hashing.kernel import KernelHash, KernelLogistic, KernelRidge, RBFMap
from dlfh.hashing.latent import LatentBinaryHash
from dlfh.hashing.linear import LinearHash, LinearRidge
from dlfh.hashing.unit import UnitLinearHash

__all__ = [
    "Centred",
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
    "RealTargets",
    "Targets",
    "TorchHash",
    "UnitLinearHash",
]
