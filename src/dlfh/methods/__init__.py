"""One file per method, over a small base.

A method is registered by the line that names it here; everything else about it stands in its file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dlfh._lazy import import_on_demand
from dlfh.methods.base import CrossModalHasher
from dlfh.methods.info import MethodInfo

if TYPE_CHECKING:
    from dlfh.methods.acq import ACQ
    from dlfh.methods.batch import BATCH
    from dlfh.methods.cca_itq import CCAITQ
    from dlfh.methods.cmfh import CMFH
    from dlfh.methods.cmssh import CMSSH
    from dlfh.methods.crh import CRH
    from dlfh.methods.cvh import CVH
    from dlfh.methods.dlfh import DLFH
    from dlfh.methods.doch import DOCH
    from dlfh.methods.kdlfh import KDLFH
    from dlfh.methods.lemon import LEMON
    from dlfh.methods.lfh import LFH
    from dlfh.methods.mlbe import MLBE
    from dlfh.methods.pdh import PDH
    from dlfh.methods.scm import SCM
    from dlfh.methods.scratch import SCRATCH
    from dlfh.methods.seph import SePH
    from dlfh.methods.smfh import SMFH

__all__ = [
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
    "METHODS",
    "MLBE",
    "PDH",
    "SCM",
    "SCRATCH",
    "SMFH",
    "CrossModalHasher",
    "MethodInfo",
    "SePH",
    "available",
]

#: The methods, and the file of each. They are imported when they are asked for: searching needs one of them.
_FILES = {
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
CrossModalHasher.registry.expect(__name__, _FILES)
__getattr__, __dir__ = import_on_demand(__name__, {file: name for name, file in _FILES.items()})


class _Methods(Mapping[str, type[CrossModalHasher]]):
    """The library's methods by name, as saved models name them."""

    def __getitem__(self, name: str) -> type[CrossModalHasher]:
        if name not in _FILES:
            raise KeyError(name)
        return CrossModalHasher.registry.find(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_FILES)

    def __len__(self) -> int:
        return len(_FILES)


METHODS: Mapping[str, type[CrossModalHasher]] = _Methods()


def available() -> dict[str, MethodInfo]:
    """Return what there is to know of every method, by name.

    Examples
    --------
    >>> [name for name, info in available().items() if info.title.startswith("DLFH with")]
    ['KDLFH']
    >>> available()["DLFH"].supervised
    True
    """
    return {name: method.info for name, method in METHODS.items()}
