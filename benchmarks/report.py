"""Tables between markers in a document: `<!-- name -->` ... `<!-- /name -->`."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
from pathlib import Path


def fill(document: Path, tables: dict[str, str]) -> None:
    """Replace the text between the markers of a table in a document."""
    text = document.read_text(encoding="utf-8")
    for name, table in tables.items():
        start, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        if text.count(start) != 1 or text.count(end) != 1:
            raise SystemExit(f"{document} has no place for the table {name!r}")
        before, rest = text.split(start)
        text = f"{before}{start}{table}\n{end}{rest.split(end)[1]}"
    document.write_text(text, encoding="utf-8")


def machine() -> str:
    """Describe the machine: processor, cores, system, versions."""
    import numba
    import numpy
    import scipy

    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        found = re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text())
        model = found[1] if found else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return (
        f"{model}, {cores} cores, {platform.system()}, Python {platform.python_version()}, "
        f"NumPy {numpy.__version__}, SciPy {scipy.__version__}, Numba {numba.__version__}"
    )


@functools.cache
def code_version() -> str:
    """Return a short hash of the library's source, to recognise cached results of another version."""
    import dlfh

    digest = hashlib.sha256()
    for path in sorted(Path(dlfh.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]
