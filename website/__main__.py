"""`python -m website stage`, `check` and `serve`: see the Makefile's `docs` and `docs-serve`."""

from __future__ import annotations

import subprocess
import sys
import time

from website.checks import faults
from website.sources import ROOT, SOURCES, stage


def main(arguments: list[str]) -> int:
    """Run a command and return the exit code."""
    match arguments:
        case ["stage"]:
            stage()
            return 0
        case ["check"]:
            found = faults(ROOT / "build" / "site")
            print(
                "\n".join(found) or "all links, anchors and pictures of the site exist, and no other host is contacted"
            )
            return int(bool(found))
        case ["serve", *command]:  # zensical serve ...
            return _serve(command)
    print(f"{__doc__}", file=sys.stderr)
    return 2


def _serve(command: list[str]) -> int:
    """Run a server, and update the sources whenever docs/ changes."""
    stage()
    with subprocess.Popen(command, cwd=ROOT) as server:
        try:
            while server.poll() is None:
                time.sleep(1)
                stage()
        except KeyboardInterrupt:
            server.terminate()
    return 0


if __name__ == "__main__":
    assert SOURCES.is_relative_to(ROOT)
    sys.exit(main(sys.argv[1:]))
