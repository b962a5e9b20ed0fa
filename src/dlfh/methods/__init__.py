"""One file per method, over a small base.

A method is registered by the line that names it here; everything else about it stands in its file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dlfh._lazy import import_on_demand
from dlfh.methods._base import CrossModalHasher
from dlfh.methods._info import MethodInfo

if TYPE_CHECKING:
    from dlfh.methods._acq import ACQ
    from dlfh.methods._batch import BATCH
    from dlfh.methods._cca_itq import CCAITQ
    from dlfh.methods._cmfh import CMFH
    from dlfh.methods._cmssh import CMSSH
    from dlfh.methods._crh import CRH
    from dlfh.methods._cvh import CVH
    from dlfh.methods._dlfh import DLFH
    from dlfh.methods._doch import DOCH
    from dlfh.methods._kdlfh import KDLFH
    from dlfh.methods._lemon import LEMON
    from dlfh.methods._lfh import LFH
    from dlfh.methods._mlbe import MLBE
    from dlfh.methods._pdh import PDH
    from dlfh.methods._scm import SCM
    from dlfh.methods._scratch import SCRATCH
    from dlfh.methods._seph import SePH
    from dlfh.methods._smfh import SMFH

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
    "ACQ": "_acq",
    "BATCH": "_batch",
    "CCAITQ": "_cca_itq",
    "CMFH": "_cmfh",
    "CMSSH": "_cmssh",
    "CRH": "_crh",
    "CVH": "_cvh",
    "DLFH": "_dlfh",
    "DOCH": "_doch",
    "KDLFH": "_kdlfh",
    "LEMON": "_lemon",
    "LFH": "_lfh",
    "MLBE": "_mlbe",
    "PDH": "_pdh",
    "SCM": "_scm",
    "SCRATCH": "_scratch",
    "SMFH": "_smfh",
    "SePH": "_seph",
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
