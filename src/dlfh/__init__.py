"""Cross-modal hashing: short binary codes by which a query in one modality finds items of another.

>>> from dlfh import DLFH, load
>>> DLFH(n_bits=32).n_bits
32
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dlfh._version import __version__

if TYPE_CHECKING:
    from dlfh.collection import Collection, Encoder, load
    from dlfh.errors import DLFHError, InputError, ModelError, NotFittedError, StorageError
    from dlfh.index import Index
    from dlfh.methods import DLFH, KDLFH
    from dlfh.metrics import evaluate

__all__ = [
    "DLFH",
    "KDLFH",
    "Collection",
    "DLFHError",
    "Encoder",
    "Index",
    "InputError",
    "ModelError",
    "NotFittedError",
    "StorageError",
    "__version__",
    "evaluate",
    "load",
]

#: Where each public name lives. They are imported when they are asked for: NumPy, SciPy, scikit-learn and Numba
#: take about a second to load, and `dlfh --help` needs none of them.
_HOME = {
    "DLFH": "methods",
    "KDLFH": "methods",
    "Collection": "collection",
    "DLFHError": "errors",
    "InputError": "errors",
    "ModelError": "errors",
    "NotFittedError": "errors",
    "Encoder": "collection",
    "Index": "index",
    "StorageError": "errors",
    "evaluate": "metrics",
    "load": "collection",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dlfh' has no attribute {name!r}")
    value = getattr(import_module(f"dlfh.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
