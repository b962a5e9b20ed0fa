"""The command line: what `dlfh` does in a terminal.

Nothing heavy is imported before a command needs it, so that help and completion answer at once.
"""

from dlfh.cli.app import main

__all__ = ["main"]
