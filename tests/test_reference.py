"""The plain NumPy twins of the kernels; tests/kernels compares what each pair gives."""

from __future__ import annotations

import inspect

from dlfh import _kernels, _reference
from dlfh._compile import Kernel


def test_every_kernel_has_a_twin_with_the_same_arguments() -> None:
    kernels = {name for name, value in vars(_kernels).items() if isinstance(value, Kernel)}
    twins = {name for name, value in inspect.getmembers(_reference, inspect.isfunction) if not name.startswith("_")}
    assert kernels == twins
    for name in kernels:
        kernel, twin = getattr(_kernels, name), getattr(_reference, name)
        assert list(inspect.signature(kernel._dispatcher.py_func).parameters) == list(
            inspect.signature(twin).parameters
        )
