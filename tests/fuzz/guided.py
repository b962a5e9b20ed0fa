"""Fuzzing guided by coverage, of the parsers that are written in Python: make fuzz-guided.

Atheris watches which lines an input reaches, and keeps inputs that reach new ones. It has an environment of its own,
since it instruments what it imports.

python -m tests.fuzz.guided FORMAT FOLDER [options of libFuzzer]
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["dlfh.datasets"]):
    from dlfh.datasets import read_arrays
    from dlfh.datasets._layout import read_layout
    from dlfh.datasets._tables import read_table

import numpy as np

from dlfh.errors import DLFHError

_PLACE = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))


def _matlab5(content: bytes) -> None:
    path = _PLACE / "x.mat"
    path.write_bytes(b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + content)
    read_arrays(path)


def _table(content: bytes) -> None:
    path = _PLACE / ("x.tsv" if content[:1] < b"\x80" else "x.csv")
    path.write_bytes(content[1:])
    for problem in read_table(path).problems:
        str(problem)


def _layout(content: bytes) -> None:
    about = np.array(content.decode("utf-8", "replace"))
    read_layout({"image": np.zeros((2, 3)), "text": np.zeros((2, 3)), "labels": np.zeros((2, 2)), "about": about})


_FORMATS: dict[str, Callable[[bytes], None]] = {"matlab5": _matlab5, "table": _table, "layout": _layout}
#: Where to start from: what the parsers look for.
_SEEDS = {
    "layout": b'{"name": "x", "modalities": ["image", "text"], "notes": ["n"], "label_names": ["a", 1]}',
    "table": b'\x90file;caption\n"a ""b""\n";c\n',
}


def _seeds(name: str) -> list[bytes]:
    if name != "matlab5":
        return [_SEEDS[name]]
    from tests.fuzz.data_files import _matlab5_seeds

    return [seed[128:] for seed in _matlab5_seeds()]


def main() -> None:
    _, name, folder, *options = sys.argv
    Path(folder).mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(_seeds(name)):
        (Path(folder) / f"seed-{number}").write_bytes(seed)
    warnings.simplefilter("error")

    def run(content: bytes) -> None:
        try:
            _FORMATS[name](content)
        except DLFHError as error:
            if not str(error).isprintable():
                raise AssertionError(f"no single line: {str(error)!r}") from None

    atheris.Setup([sys.argv[0], folder, f"-artifact_prefix={folder}/", *options], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
