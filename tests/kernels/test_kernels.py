"""Every kernel has a NumPy twin with the same signature; the other tests compare their results."""

from __future__ import annotations

import inspect
from importlib import import_module

from dlfh._compile import Kernel
from dlfh._kernels import MODULES
from tests.kernels.twins import twin_of


def test_every_kernel_has_a_twin_with_the_same_arguments() -> None:
    for module, names in MODULES.items():
        kernels = vars(import_module(f"dlfh._kernels.{module}"))
        assert {name for name, value in kernels.items() if isinstance(value, Kernel)} == {*names.split()}
        for name in names.split():
            kernel = kernels[name]._dispatcher.py_func
            assert list(inspect.signature(kernel).parameters) == list(inspect.signature(twin_of(name)).parameters)
