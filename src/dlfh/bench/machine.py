"""Where something was computed: processor, system, versions."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from pathlib import Path
from typing import Any

from dlfh._parallel import available_cores
from dlfh._version import __version__

__all__ = ["describe_machine"]

_LIBRARIES = ("numpy", "scipy", "numba", "faiss-cpu")


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, memory, system and versions.

    Examples
    --------
    >>> sorted(describe_machine())
    ['cores', 'memory', 'processor', 'system', 'versions']
    """
    return {
        "processor": _processor(),
        "cores": available_cores(),
        "memory": _memory(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "dlfh": __version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _LIBRARIES},
        },
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text()) if cpuinfo.exists() else None
    return found[1].strip() if found else platform.processor() or platform.machine()


def _memory() -> str:
    meminfo = Path("/proc/meminfo")
    found = re.search(r"MemTotal:\s*(\d+) kB", meminfo.read_text()) if meminfo.exists() else None
    return f"{int(found[1]) / 2**20:.0f} GiB" if found else "unknown"
