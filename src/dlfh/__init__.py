"""Cross-modal hashing: short binary codes that let a query in one modality find items of another.

>>> from dlfh import DLFH, load
>>> DLFH(n_bits=32).n_bits
32
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._imports import import_on_demand
from dlfh._version import __version__

if TYPE_CHECKING:
    from dlfh.collection import Collection, Encoder, load
    from dlfh.errors import DLFHError, InputError, ModelError, NotFittedError, StorageError
    from dlfh.index import Index
    from dlfh.methods import DLFH, KDLFH
    from dlfh.metrics import evaluate

__all__ = ["DLFH", "KDLFH", "Collection", "Encoder", "Index", "__version__", "evaluate", "load"]
__all__ += ["DLFHError", "InputError", "ModelError", "NotFittedError", "StorageError"]

# Public names are imported on first use: NumPy, SciPy and Numba take about a second to load, and `dlfh --help` needs
# none of them.
__getattr__, __dir__ = import_on_demand(
    __name__,
    {
        "collection": "Collection Encoder load",
        "errors": "DLFHError InputError ModelError NotFittedError StorageError",
        "index": "Index",
        "methods": "DLFH KDLFH",
        "metrics": "evaluate",
    },
)
