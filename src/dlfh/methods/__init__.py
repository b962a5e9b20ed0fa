"""Cross-modal hashing methods, one module each, over a common base class.

To add a method, write its module and name it in `catalogue`. To use your own method, see docs/own-methods.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._imports import import_on_demand
from dlfh.methods.base import CrossModalHasher
from dlfh.methods.catalogue import METHODS, MODULES
from dlfh.methods.method import MethodInfo

if TYPE_CHECKING:
    from dlfh.methods.acq import ACQ
    from dlfh.methods.batch import BATCH
    from dlfh.methods.ccaitq import CCAITQ
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

__all__ = ["CrossModalHasher", "MethodInfo", "available"]
__all__ += ["ACQ", "BATCH", "CCAITQ", "CMFH", "CMSSH", "CRH", "CVH", "DLFH", "DOCH"]
__all__ += ["KDLFH", "LEMON", "LFH", "MLBE", "PDH", "SCM", "SCRATCH", "SMFH", "SePH"]

__getattr__, __dir__ = import_on_demand(__name__, {module: name for name, module in MODULES.items()})


def available() -> dict[str, MethodInfo]:
    """Return the properties of every method, by name: title, paper, supervision, protocols, complexity and limits.

    Examples
    --------
    >>> [name for name, info in available().items() if info.title.startswith("DLFH with")]
    ['KDLFH']
    >>> available()["DLFH"].supervised
    True
    """
    return {name: method.info for name, method in METHODS.items()}
