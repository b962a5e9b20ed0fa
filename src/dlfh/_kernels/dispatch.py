"""Kernels that run as plain NumPy on small inputs, because loading Numba takes half a second."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

#: Largest cost for which NumPy is used, in units of about ten nanoseconds: at most a millisecond.
NUMPY_LIMIT = 100_000


class SizeDispatch:
    """A kernel that calls its NumPy twin on small inputs and its compiled version on large ones.

    Both return the same results. The choice depends on the arguments only, so a command that answers one query never
    loads Numba.

    module, name: Module and name of the kernel in `dlfh._kernels`, and of its twin in `dlfh._reference`.
    cost: Estimates the twin's running time from the arguments, in units of about ten nanoseconds.
    """

    def __init__(self, module: str, name: str, cost: Callable[..., int]) -> None:
        self.__name__ = name
        self._module = module
        self._cost = cost

    def __call__(self, *arguments: Any) -> Any:
        if self._cost(*arguments) > NUMPY_LIMIT:
            return self._compiled(*arguments)
        with np.errstate(all="ignore"):  # like compiled code; callers check their results
            return self._twin(*arguments)

    @cached_property
    def _compiled(self) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(import_module(f"dlfh._kernels.{self._module}"), self.__name__)
        return function

    @cached_property
    def _twin(self) -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(import_module(f"dlfh._reference.{self._module}"), self.__name__)
        return function
