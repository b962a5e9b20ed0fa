"""Rooms that import names when they are asked for: the same names for readers, type checkers and `dir`."""

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


def checked_imports(room: ModuleType) -> dict[str, str]:
    """Return what type checkers are told: each name, and the module it comes from."""
    tree = ast.parse(Path(str(room.__file__)).read_text(encoding="utf-8"))
    blocks = [node.body for node in tree.body if isinstance(node, ast.If)]
    found = [line for block in blocks for line in block if isinstance(line, ast.ImportFrom)]
    return {alias.name: str(line.module) for line in found for alias in line.names}


@pytest.mark.parametrize("room", LAZY, ids=lambda room: room.__name__)
def test_names_are_those_that_type_checkers_see(room: ModuleType) -> None:
    for name, module in checked_imports(room).items():
        assert getattr(room, name) is getattr(importlib.import_module(module), name)
    assert {*checked_imports(room)} <= {*room.__all__} <= {*dir(room)}
    assert all(hasattr(room, name) for name in room.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'dlfh' has no attribute 'nothing'"):
        dlfh.nothing  # noqa: B018


def test_a_method_brings_no_other() -> None:
    program = (
        "import sys; from dlfh.methods import SCM; print(*[m for m in sys.modules if m.startswith('dlfh.methods.')])"
    )
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert {*done.stdout.split()} == {"dlfh.methods.base", "dlfh.methods.info", "dlfh.methods.scm"}


def test_a_postponed_module_is_loaded_when_something_of_it_is_used() -> None:
    program = """
import sys
from dlfh._lazy import postpone
postpone("numpy.ma", "numpy.nothing_of_the_kind", "json")
import numpy as np
assert "numpy.ma.core" not in sys.modules
assert np.ma.masked_array([1, 2], [True, False]).sum() == 2
assert "numpy.ma.core" in sys.modules
postpone("numpy.ma")
assert np.ma.masked_array([1, 2], [True, False]).sum() == 2
"""
    subprocess.run([sys.executable, "-c", program], check=True)
