"""A kernel and its twin in NumPy, on the same arguments."""

from __future__ import annotations

import copy
import functools
from typing import Any

import numpy as np

from dlfh import _kernels, _reference


def assert_twins_agree(name: str, *arguments: Any, exact: bool = True, tolerance: float = 0.0) -> None:
    """Call kernel and twin on copies of the arguments; compare results and everything written."""
    outcomes = []
    for module in (_kernels, _reference):
        passed = [copy.deepcopy(argument) for argument in arguments]
        outcomes.append((getattr(module, name)(*passed), passed))
    (kernel_result, kernel_arrays), (twin_result, twin_arrays) = outcomes
    compare: Any = np.testing.assert_array_equal if exact else np.testing.assert_allclose
    if tolerance:
        compare = functools.partial(np.testing.assert_allclose, rtol=tolerance, atol=tolerance)
    if isinstance(twin_result, tuple):
        for ours, theirs in zip(kernel_result, twin_result, strict=True):
            compare(ours, theirs)
    elif twin_result is not None:
        compare(kernel_result, twin_result)
    for ours, theirs in zip(kernel_arrays, twin_arrays, strict=True):
        compare(ours, theirs)
