"""Methods by name, imported on first use (built-in, from other packages, or any "module:Class"), and citations."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from dlfh._persistence.registry import import_module
from dlfh._validation import check_choice
from dlfh.errors import InputError
from dlfh.methods.base import CrossModalHasher

_NAMES = "ACQ BATCH CCAITQ CMFH CMSSH CRH CVH DLFH DOCH KDLFH LEMON LFH MLBE PDH SCM SCRATCH SMFH SePH"
#: Module of each method, by the name under which models are saved.
MODULES = {name: name.lower() for name in _NAMES.split()}
CrossModalHasher._registry.declare("dlfh.methods", MODULES)


class _Methods(Mapping[str, type[CrossModalHasher]]):
    def __getitem__(self, name: str) -> type[CrossModalHasher]:
        if name in MODULES or name in CrossModalHasher._registry.packaged:
            return CrossModalHasher._registry.find(name)
        if ":" not in name:
            raise KeyError(name)
        module, _, attribute = name.partition(":")
        if os.getcwd() not in sys.path:  # modules may be in the current folder, too
            sys.path.append(os.getcwd())  # last, so that it hides no installed module
        found: Any = getattr(import_module(module), attribute, None)
        if inspect.isclass(found) and issubclass(found, CrossModalHasher) and not inspect.isabstract(found):
            return found
        raise InputError(f"{name} is not a method: it must be a subclass of dlfh.methods.CrossModalHasher with _fit")

    def __iter__(self) -> Iterator[str]:
        return iter((*MODULES, *CrossModalHasher._registry.packaged))

    def __len__(self) -> int:
        return len(MODULES) + len(CrossModalHasher._registry.packaged)


#: Method classes by name; looking one up imports its module. Iterating skips classes named as "module:Class".
METHODS: Mapping[str, type[CrossModalHasher]] = _Methods()
_IN_PAPER_OF = {"KDLFH": "DLFH"}  #: Methods published in the paper of another method.


def citations(methods: Iterable[str] | None = None) -> str:
    """Return the BibTeX entries of the given methods, or of all; each paper appears once."""
    text = Path(__file__).with_name("citations.bib").read_text(encoding="utf-8")
    entries = {entry[1]: entry[0] for entry in re.finditer(r"^@\w+\{(\w+),\n.*?^\}", text, re.DOTALL | re.MULTILINE)}
    names = list(MODULES if methods is None else methods)
    for name in names:
        check_choice(name, "method", tuple(MODULES))
    papers = dict.fromkeys(_IN_PAPER_OF.get(name, name) for name in names)
    return "\n\n".join(entries[paper] for paper in papers)
