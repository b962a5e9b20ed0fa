"""Time from `pip install` to a first result in an empty environment (`make first-use`)."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import fill, machine

ROOT = Path(__file__).parent.parent


def snippet() -> str:
    (found,) = re.findall(r"^```python\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return found


def seconds(command: list[str | Path], folder: Path) -> float:
    began = time.perf_counter()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - began


def measured() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        seconds([sys.executable, "-m", "build", "--wheel", "--outdir", folder, ROOT], folder)
        (wheel,) = folder.glob("*.whl")
        python = folder / "venv" / "bin" / "python"
        steps: dict[str, float] = {
            "an empty environment": seconds([sys.executable, "-m", "venv", folder / "venv"], folder)
        }
        steps["`pip install`, packages in pip's cache"] = seconds([python, "-m", "pip", "install", "-q", wheel], folder)
        (folder / "first.py").write_text(snippet(), encoding="utf-8")
        steps["the README's ten lines, first run: kernels are compiled"] = seconds([python, "first.py"], folder)
        steps["the same again"] = seconds([python, "first.py"], folder)
        return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", type=Path, help="document to write the table to")
    arguments = parser.parse_args()
    rows = [f"| {name} | {value:.1f} s |" for name, value in measured().items()]
    table = "\n".join(["| step | time |", "|---|---|", *rows, "", f"{machine()}; `make first-use`."])
    print(table)
    if arguments.write is not None:
        fill(arguments.write, {"first-use": table})


if __name__ == "__main__":
    main()
