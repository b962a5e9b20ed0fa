"""The plain NumPy twins of the kernels; tests/kernels compares what each pair gives."""

from __future__ import annotations

import inspect
from importlib import import_module
from pkgutil import iter_modules

from dlfh import _kernels, _reference
from dlfh._compile import Kernel


def test_every_kernel_has_a_twin_with_the_same_arguments() -> None:
    modules = [import_module(f"dlfh._kernels.{module.name}") for module in iter_modules(_kernels.__path__)]
    kernels = {name: value for module in modules for name, value in vars(module).items() if isinstance(value, Kernel)}
    twins = {name for name, value in inspect.getmembers(_reference, inspect.isfunction) if not name.startswith("_")}
    assert kernels.keys() == twins == {*_kernels.__all__} - {"ONE"}
    for name, kernel in kernels.items():
        twin = getattr(_reference, name)
        assert list(inspect.signature(kernel._dispatcher.py_func).parameters) == list(
            inspect.signature(twin).parameters
        )
