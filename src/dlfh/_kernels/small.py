"""Kernels that plain NumPy stands in for while there is little to do: loading Numba takes half a second."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

__all__ = ["SmallFirst"]

#: Elementary steps (about ten nanoseconds each in plain NumPy) that a process takes before it loads Numba.
BUDGET = 20_000_000

_steps_taken = 0


class SmallFirst:
    """A kernel that is loaded when its work, and all that was done without it before, is worth it.

    A command that asks one question of a small collection never loads Numba; a process that goes on asking soon does.
    Both ways give the same results: what stands in is the kernel's twin in `dlfh._reference`.

    Parameters
    ----------
    module, name : str
        Where the kernel is in `dlfh._kernels`.
    steps : callable
        From the arguments to the number of elementary steps.
    """

    def __init__(self, module: str, name: str, steps: Callable[..., int]) -> None:
        self.__name__ = name
        self._module = module
        self._steps = steps
        self._kernel: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self._kernel is None:
            if not _is_worth_loading(self._steps(*arguments)):
                with np.errstate(all="ignore"):  # as compiled code, which leaves it to its caller to look at results
                    return getattr(import_module("dlfh._reference"), self.__name__)(*arguments)
            self._kernel = getattr(import_module(f"dlfh._kernels.{self._module}"), self.__name__)
        return self._kernel(*arguments)


def _is_worth_loading(steps: int) -> bool:
    global _steps_taken
    if "numba" in sys.modules or _steps_taken + steps > BUDGET:
        return True
    _steps_taken += steps
    return False
