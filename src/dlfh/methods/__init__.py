"""One file per method, over a small base.

A method is registered by the line that imports it here; everything else about it stands in its file.
"""

from dlfh.methods._acq import ACQ as ACQ
from dlfh.methods._base import CrossModalHasher, hasher_from_parts
from dlfh.methods._cca_itq import CCAITQ as CCAITQ
from dlfh.methods._cmfh import CMFH as CMFH
from dlfh.methods._cmssh import CMSSH as CMSSH
from dlfh.methods._crh import CRH as CRH
from dlfh.methods._cvh import CVH as CVH
from dlfh.methods._dlfh import DLFH as DLFH
from dlfh.methods._info import MethodInfo
from dlfh.methods._kdlfh import KDLFH as KDLFH
from dlfh.methods._lfh import LFH as LFH
from dlfh.methods._mlbe import MLBE as MLBE
from dlfh.methods._pdh import PDH as PDH
from dlfh.methods._scm import SCM as SCM
from dlfh.methods._seph import SePH as SePH
from dlfh.methods._smfh import SMFH as SMFH

#: The methods by name, as saved models name them.
METHODS: dict[str, type[CrossModalHasher]] = {
    name: value
    for name, value in sorted(globals().items())
    if isinstance(value, type) and issubclass(value, CrossModalHasher) and value is not CrossModalHasher
}

__all__ = ["METHODS", "CrossModalHasher", "MethodInfo", "available", "hasher_from_parts", *METHODS]


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
