"""Packages that not everyone needs: imported where they are used, and asked for by the extra that brings them."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from dlfh.errors import InputError

__all__ = ["is_installed", "missing", "require"]

#: The names of packages whose modules are called otherwise.
_PACKAGES = {"matplotlib": "Matplotlib", "torch": "PyTorch"}


def require(module: str, what: str, extra: str) -> Any:
    """Import an optional module, or say what to install.

    Parameters
    ----------
    module : str
        The module, with dots if it is inside a package.
    what : str
        What needs it: the subject of the sentence.
    extra : str
        The extra of ``dlfh`` that brings it.

    Examples
    --------
    >>> require("math", "counting", "numbers").sqrt(4)
    2.0
    >>> require("no_such_module", "counting", "numbers")
    Traceback (most recent call last):
    dlfh.errors.InputError: counting needs no_such_module, which is not installed: pip install "dlfh[numbers]"
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise missing(module, what, extra) from None


def is_installed(module: str) -> bool:
    """Tell whether a module could be imported, without importing it.

    Examples
    --------
    >>> is_installed("math"), is_installed("no_such_module")
    (True, False)
    """
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # its package is not there, or somebody took it away
        return False


def missing(module: str, what: str, extra: str) -> InputError:
    """Return the error that says what to install; arguments as for `require`."""
    name = module.partition(".")[0]
    package = _PACKAGES.get(name, name)
    return InputError(f'{what} needs {package}, which is not installed: pip install "dlfh[{extra}]"')
