"""The notebooks of examples/notebooks run from top to bottom, within two minutes each: `make test-notebooks`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples" / "notebooks").glob("*.py"))
#: Text that the output of each notebook must contain.
PRINTS = {
    "compare_methods": r"\bottomrule",
    "compress_embeddings": "64 bits, text to image",
    "search_your_photos": "image queries, text items: MAP",
}


@pytest.mark.notebooks
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_within_two_minutes(notebook: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", notebook],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert PRINTS[notebook.stem] in done.stdout


def test_every_notebook_has_cells_of_both_kinds() -> None:
    assert {notebook.stem for notebook in NOTEBOOKS} == PRINTS.keys()
    for notebook in NOTEBOOKS:
        text = notebook.read_text(encoding="utf-8")
        assert text.startswith("# %% [markdown]\n# # ")
        assert text.count("\n# %%\n") >= 3
