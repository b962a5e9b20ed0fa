"""The library's methods by name, imported on first use: a search needs only one of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dlfh.methods.base import CrossModalHasher

#: Module of each method, by the name under which models are saved.
MODULES = {
    "ACQ": "acq",
    "BATCH": "batch",
    "CCAITQ": "cca_itq",
    "CMFH": "cmfh",
    "CMSSH": "cmssh",
    "CRH": "crh",
    "CVH": "cvh",
    "DLFH": "dlfh",
    "DOCH": "doch",
    "KDLFH": "kdlfh",
    "LEMON": "lemon",
    "LFH": "lfh",
    "MLBE": "mlbe",
    "PDH": "pdh",
    "SCM": "scm",
    "SCRATCH": "scratch",
    "SMFH": "smfh",
    "SePH": "seph",
}
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
