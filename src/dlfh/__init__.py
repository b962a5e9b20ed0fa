"""Cross-modal hashing: short binary codes by which a query in one modality finds items of another.

>>> from dlfh import DLFH, load
>>> DLFH(n_bits=32).n_bits
32
"""

from dlfh._version import __version__
from dlfh.errors import DLFHError, InputError, ModelError, NotFittedError
from dlfh.methods import DLFH, KDLFH, CrossModalHasher, load

__all__ = [
    "DLFH",
    "KDLFH",
    "CrossModalHasher",
    "DLFHError",
    "InputError",
    "ModelError",
    "NotFittedError",
    "__version__",
    "load",
]
