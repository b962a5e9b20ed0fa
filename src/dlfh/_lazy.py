"""Rooms that import a public name when it is asked for, so that nobody waits for what is not used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["import_on_demand"]


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
