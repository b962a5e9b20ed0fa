"""The `dlfh` command line.

Commands import NumPy and the rest of the library when they run, so that ``--help`` and completion respond at once.
"""

from dlfh.cli.app import main

__all__ = ["main"]
