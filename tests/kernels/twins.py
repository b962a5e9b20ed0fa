"""Comparison of a compiled kernel with its NumPy twin."""

from __future__ import annotations

import copy
import functools
from importlib import import_module
from typing import Any

import numpy as np

from dlfh._kernels import MODULES, SMALL_INPUTS, small_inputs
from tests.kernels import reference

MODULE_OF_KERNEL = {name: module for module, names in MODULES.items() for name in names.split()}


def compiled(name: str) -> Any:
    """Return a compiled kernel, without dispatch by size."""
    return getattr(import_module(f"dlfh._kernels.{MODULE_OF_KERNEL[name]}"), name)


def twin_of(name: str) -> Any:
    """Return the NumPy version of a kernel."""
    return getattr(small_inputs, name).in_numpy if name in SMALL_INPUTS.split() else getattr(reference, name)


def assert_twins_agree(name: str, *arguments: Any, exact: bool = True, tolerance: float = 0.0) -> None:
    """Call kernel and twin on copies of the arguments; compare return values and modified arguments."""
    outcomes = []
    for function in (compiled(name), twin_of(name)):
        passed = [copy.deepcopy(argument) for argument in arguments]
        outcomes.append((function(*passed), passed))
    (kernel_result, kernel_arrays), (twin_result, twin_arrays) = outcomes
    compare: Any = np.testing.assert_array_equal if exact else np.testing.assert_allclose
    if tolerance:
        compare = functools.partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance)
    for kernel, twin in zip(_arrays(kernel_result, kernel_arrays), _arrays(twin_result, twin_arrays), strict=True):
        compare(kernel, twin)


def _arrays(*values: Any) -> list[Any]:
    """Return all arrays and numbers in nested tuples and lists."""
    found = []
    for value in values:
        found += _arrays(*value) if isinstance(value, (tuple, list)) else [] if value is None else [value]
    return found
