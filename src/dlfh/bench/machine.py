"""Description of the machine and library versions."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from pathlib import Path
from typing import Any

from dlfh._parallel import available_cores
from dlfh._version import __version__

_LIBRARIES = ("numpy", "scipy", "numba", "faiss-cpu")


def describe_machine() -> dict[str, Any]:
    """Return processor, cores, memory, system and versions."""
    processor = _find("/proc/cpuinfo", r"model name\s*:\s*(.+)")
    kilobytes = _find("/proc/meminfo", r"MemTotal:\s*(\d+) kB")
    return {
        "processor": processor.strip() or platform.processor() or platform.machine(),
        "cores": available_cores(),
        "memory": f"{int(kilobytes) / 2**20:.0f} GiB" if kilobytes else "unknown",
        "system": f"{platform.system()} {platform.machine()}",
        "versions": {
            "dlfh": __version__,
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _LIBRARIES},
        },
    }


def _find(file: str, pattern: str) -> str:
    match = re.search(pattern, Path(file).read_text()) if Path(file).exists() else None
    return match[1] if match else ""
