"""Methods by name, imported on first use: the library's, those of other packages, and any class of a module."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from dlfh._persistence.registry import import_module
from dlfh.errors import InputError
from dlfh.methods.base import CrossModalHasher

_NAMES = [
    "ACQ",
    "BATCH",
    "CCAITQ",
    "CMFH",
    "CMSSH",
    "CRH",
    "CVH",
    "DLFH",
    "DOCH",
    "KDLFH",
    "LEMON",
    "LFH",
    "MLBE",
    "PDH",
    "SCM",
    "SCRATCH",
    "SMFH",
    "SePH",
]
#: Module of each method, by the name under which models are saved.
MODULES = {name: name.lower() for name in _NAMES}
CrossModalHasher._registry.declare("dlfh.methods", MODULES)


class _Methods(Mapping[str, type[CrossModalHasher]]):
    def __getitem__(self, name: str) -> type[CrossModalHasher]:
        if ":" in name:
            return _imported(name)
        if name not in MODULES and name not in CrossModalHasher._registry.packaged:
            raise KeyError(name)
        return CrossModalHasher._registry.find(name)

    def __iter__(self) -> Iterator[str]:
        return iter((*MODULES, *CrossModalHasher._registry.packaged))

    def __len__(self) -> int:
        return len(MODULES) + len(CrossModalHasher._registry.packaged)


def _imported(name: str) -> type[CrossModalHasher]:
    """Return the class that "module:Class" names; modules may be in the current folder, too."""
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())  # last, so that it hides no installed module
    found: Any = getattr(import_module(module), attribute, None)
    if not inspect.isclass(found) or not issubclass(found, CrossModalHasher) or inspect.isabstract(found):
        raise InputError(f"{name} is not a method: it must be a subclass of dlfh.methods.CrossModalHasher with _fit")
    return found


#: Method classes by name; looking one up imports its module. Iterating skips classes named as "module:Class".
METHODS: Mapping[str, type[CrossModalHasher]] = _Methods()
