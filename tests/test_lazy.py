"""Packages that import their names on first use show the same names to readers, type checkers and `dir`."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import dlfh

LAZY = [
    importlib.import_module(name)
    for name in ("dlfh", "dlfh.collection", "dlfh.datasets", "dlfh.features", "dlfh.hashing", "dlfh.methods")
]


def checked_imports(package: ModuleType) -> dict[str, str]:
    """Return the imports that type checkers see: each name and its module."""
    tree = ast.parse(Path(str(package.__file__)).read_text(encoding="utf-8"))
    blocks = [node.body for node in tree.body if isinstance(node, ast.If)]
    found = [line for block in blocks for line in block if isinstance(line, ast.ImportFrom)]
    return {alias.name: str(line.module) for line in found for alias in line.names}


@pytest.mark.parametrize("package", LAZY, ids=lambda package: package.__name__)
def test_type_checkers_see_the_names_that_exist(package: ModuleType) -> None:
    for name, module in checked_imports(package).items():
        assert getattr(package, name) is getattr(importlib.import_module(module), name)
    assert {*checked_imports(package)} <= {*package.__all__} <= {*dir(package)}
    assert all(hasattr(package, name) for name in package.__all__)


def test_unknown_names_raise_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'dlfh' has no attribute 'nothing'"):
        dlfh.nothing  # noqa: B018


def test_importing_one_method_imports_no_other() -> None:
    program = "import sys; from dlfh.methods import SCM; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    others = {f"dlfh.methods.{name}" for name in ("acq", "cmfh", "cvh", "dlfh", "seph", "smfh")}
    assert not others & {*done.stdout.split()}


def test_postponed_submodules_load_on_first_use() -> None:
    program = """
import sys
from dlfh._lazy import postpone_numpy_submodules
postpone_numpy_submodules()
import numpy as np
assert "numpy.ma.core" not in sys.modules
assert np.ma.masked_array([1, 2], [True, False]).sum() == 2
assert "numpy.ma.core" in sys.modules
postpone_numpy_submodules()
assert np.ma.masked_array([1, 2], [True, False]).sum() == 2
"""
    subprocess.run([sys.executable, "-c", program], check=True)
