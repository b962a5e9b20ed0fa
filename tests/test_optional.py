"""Packages that are not installed are asked for by the extra that brings them."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest

from dlfh import InputError
from dlfh._optional import missing, require

ROOT = Path(__file__).parent.parent


def test_a_module_that_is_there_is_returned() -> None:
    assert require("json.decoder", "reading", "x") is sys.modules["json.decoder"]


@pytest.mark.parametrize(
    ("module", "package"), [("torch", "PyTorch"), ("pyarrow.parquet", "pyarrow"), ("matplotlib", "Matplotlib")]
)
def test_one_sentence_says_what_to_install(module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    sentence = rf'^this needs {package}, which is not installed: pip install "dlfh\[some\]"$'
    with pytest.raises(InputError, match=sentence):
        require(module, "this", "some")
    with pytest.raises(InputError, match=sentence):
        raise missing(module, "this", "some")


def test_extras_that_are_asked_for_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {"clip", "deep", "icons", "matlab", "parquet", "plots"} <= extras.keys()
