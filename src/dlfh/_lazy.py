"""Imports that wait until they are needed, so that nobody waits for what is not used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module, util
from typing import Any

__all__ = ["import_on_demand", "postpone"]


def import_on_demand(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` (PEP 562) of a package whose names are those of its modules.

    Parameters
    ----------
    package : str
        Its ``__name__``.
    modules : dict of str to str
        The names that each module has, with spaces between them.

    Examples
    --------
    >>> get, names = import_on_demand("dlfh", {"codes": "pack unpack"})
    >>> get("pack")([[1, -1]])
    array([[128]], dtype=uint8)
    """
    homes = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{homes[name]}"), name)
        setattr(sys.modules[package], name, value)
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    return get, names


def postpone(*modules: str) -> None:
    """Let modules be loaded when something of theirs is first used, and not when they are imported.

    For a program's own start: of NumPy, SciPy imports all, and uses little. A module that is loaded stays loaded.

    Parameters
    ----------
    *modules : str
        Modules of packages, which are imported. What is not installed is left alone.
    """
    for name in modules:
        package, _, own = name.rpartition(".")
        found = None if name in sys.modules or not package else util.find_spec(name)
        if found is None or found.loader is None:
            continue
        found.loader = util.LazyLoader(found.loader)
        module = sys.modules[name] = util.module_from_spec(found)
        found.loader.exec_module(module)
        setattr(sys.modules[package], own, module)
