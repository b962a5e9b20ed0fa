"""The library's methods by name, imported on first use: a search needs only one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

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
        if name not in MODULES:
            raise KeyError(name)
        return CrossModalHasher._registry.find(name)

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


#: Method classes by name; looking one up imports its module.
METHODS: Mapping[str, type[CrossModalHasher]] = _Methods()
