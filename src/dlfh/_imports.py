"""Imports on first use, so that commands start fast, and imports of optional packages, which may be missing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module, util
from typing import Any

from dlfh.errors import InputError

#: SciPy imports every public name of NumPy, these submodules included, and uses none of them in a search.
_UNUSED_IN_SEARCH = ("ctypeslib", "f2py", "ma", "matlib", "polynomial", "testing")
#: Package names that differ from their module names.
_PACKAGES = {"matplotlib": "Matplotlib", "pillow_heif": "pillow-heif", "torch": "PyTorch"}


def import_on_demand(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` (PEP 562) for a package that imports its names on first use.

    package: The package's ``__name__``.
    modules: Space-separated names exported by each module of the package.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{module_of[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *module_of})

    return get, names


def postpone_numpy_submodules() -> None:
    """Import NumPy such that rarely used submodules load on first attribute access.

    This saves 0.09 s of processor time in ``dlfh search`` (medians of ten runs). Call it before
    NumPy is imported; submodules that are already loaded are left alone.
    """
    for submodule in _UNUSED_IN_SEARCH:
        name = f"numpy.{submodule}"
        spec = None if name in sys.modules else util.find_spec(name)
        if spec is None or spec.loader is None:
            continue
        spec.loader = util.LazyLoader(spec.loader)
        module = sys.modules[name] = util.module_from_spec(spec)
        spec.loader.exec_module(module)
        setattr(sys.modules["numpy"], submodule, module)


def require(module: str, purpose: str, extra: str) -> Any:
    """Import an optional module; if missing, raise an InputError: ``purpose`` needs it, ``extra`` installs it."""
    try:
        return import_module(module)
    except ImportError:
        raise missing(module, purpose, extra) from None


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    try:
        return util.find_spec(module) is not None
    except (ImportError, ValueError):  # the parent package is missing, or a test disabled the module
        return False


def missing(module: str, purpose: str, extra: str) -> InputError:
    """Return the error that `require` raises."""
    name = module.partition(".")[0]
    package = _PACKAGES.get(name, name)
    return InputError(f'{purpose} needs {package}, which is not installed: pip install "dlfh[{extra}]"')
