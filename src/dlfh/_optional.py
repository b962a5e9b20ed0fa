"""Optional packages: imported where they are used, with an error that names the extra to install."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from dlfh.errors import InputError

#: Package names that differ from their module names.
_PACKAGES = {"matplotlib": "Matplotlib", "pillow_heif": "pillow-heif", "torch": "PyTorch"}


def require(module: str, purpose: str, extra: str) -> Any:
    """Import and return an optional module, or raise an InputError that says how to install it.

    module: Dotted name of the module.
    purpose: The feature that needs it: subject of the error message.
    extra: The extra of ``dlfh`` that installs it.
    """
    try:
        return importlib.import_module(module)
    except ImportError:
        raise missing(module, purpose, extra) from None


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # the parent package is missing, or a test disabled the module
        return False


def missing(module: str, purpose: str, extra: str) -> InputError:
    """Return the error that `require` raises."""
    name = module.partition(".")[0]
    package = _PACKAGES.get(name, name)
    return InputError(f'{purpose} needs {package}, which is not installed: pip install "dlfh[{extra}]"')
