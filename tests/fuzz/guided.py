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
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

#: Where to start from: what the parsers look for.
_SEEDS = {
    "layout": b'{"name": "x", "modalities": ["image", "text"], "notes": ["n"], "label_names": ["a", 1]}',
    "json-lines": b'{"caption": "a", "tags": ["b"], "id": 1.5}\n{"caption": null, "x": {"y": [true]}}\n',
    "table": b'\x90file;caption\n"a ""b""\n";c\n',
}


#: The part of a workbook that has its cells.
_SHEET = "xl/worksheets/sheet1.xml"


def _seeds(name: str) -> list[bytes]:
    if name == "workbook":
        from tests.fuzz.data_files import WORKBOOK

        return [WORKBOOK[_SHEET].encode()]
    if name != "matlab5":
        return [_SEEDS[name]]
    from tests.fuzz.data_files import _matlab5_seeds

    return [seed[128:] for seed in _matlab5_seeds()]


def _reader(name: str) -> Callable[[bytes], object]:
    """Return what reads bytes as a format; called while imports are instrumented."""
    from dlfh.datasets.arrays import read_arrays
    from dlfh.datasets.layout import contents_of
    from dlfh.datasets.tables import read_table

    place = Path(tempfile.mkdtemp(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))

    def matlab5(content: bytes) -> object:
        path = place / "x.mat"
        path.write_bytes(b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + content)
        return read_arrays(path)

    def table(content: bytes) -> object:
        path = place / ("x.tsv" if content[:1] < b"\x80" else "x.csv")
        path.write_bytes(content[1:])
        return list(map(str, read_table(path).problems))

    def json_lines(content: bytes) -> object:
        path = place / "x.jsonl"
        path.write_bytes(content)
        return list(map(str, read_table(path).problems))

    def workbook(content: bytes) -> object:
        from tests.fuzz.data_files import WORKBOOK

        path = place / "x.xlsx"
        with zipfile.ZipFile(path, "w") as archive:
            for part, text in WORKBOOK.items():
                archive.writestr(part, content if part == _SHEET else text)
        return list(map(str, read_table(path).problems))

    def layout(content: bytes) -> object:
        matrix = np.zeros((2, 3))
        about = np.array(content.decode("utf-8", "replace"))
        return contents_of({"image": matrix, "text": matrix, "labels": matrix, "about": about})

    readers = {"matlab5": matlab5, "table": table, "layout": layout, "json-lines": json_lines, "workbook": workbook}
    return readers[name]


def main() -> None:
    import atheris

    _, name, folder, *options = sys.argv
    with atheris.instrument_imports(include=["dlfh.datasets"]):
        read = _reader(name)
    from dlfh.errors import DLFHError

    Path(folder).mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(_seeds(name)):
        (Path(folder) / f"seed-{number}").write_bytes(seed)
    warnings.simplefilter("error")

    def run(content: bytes) -> None:
        try:
            read(content)
        except DLFHError as error:
            if not str(error).isprintable():
                raise AssertionError(f"no single line: {str(error)!r}") from None

    atheris.Setup([sys.argv[0], folder, f"-artifact_prefix={folder}/", *options], run)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
