"""Methods by name: those of modules in the current folder, and of installed packages."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dlfh
from dlfh import InputError
from dlfh.bench.data import load_source
from dlfh.bench.plan import Plan
from dlfh.bench.settings import Settings
from dlfh.datasets import make_paired
from dlfh.methods import CrossModalHasher, available
from dlfh.methods.catalogue import METHODS
from tests.bench.test_battery import LabelSigns

KIND = "LabelSigns of a package"

HEAD = """
from dataclasses import KW_ONLY, dataclass
from typing import Any
import numpy as np
from dlfh.methods import CrossModalHasher, MethodInfo
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module with a method, in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [each for each in sys.path if each])
    path = tmp_path / "label_signs.py"
    path.write_text(HEAD + inspect.getsource(LabelSigns).replace("of the tests", "of a package"))
    yield path
    forget()


def forget() -> None:
    sys.modules.pop("label_signs", None)
    CrossModalHasher._registry._classes.pop(KIND, None)
    vars(CrossModalHasher._registry).pop("packaged", None)


def test_a_class_of_a_module_in_the_current_folder_is_a_method(module: Path) -> None:
    data = make_paired(200, random_state=0)
    method: Any = METHODS["label_signs:LabelSigns"]
    model = method(16).fit(data.modalities, data.labels)
    assert model.codes_["text"].shape == (200, 2)
    assert "label_signs:LabelSigns" not in list(METHODS)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_such_module:X", "cannot import no_such_module: ModuleNotFoundError"),
        (":X", "cannot import : ValueError"),
        ("label_signs:Nothing", "label_signs:Nothing is not a method: it must be a subclass of"),
        ("label_signs:CrossModalHasher", "label_signs:CrossModalHasher is not a method"),
        ("label_signs:np", "label_signs:np is not a method"),
        ("broken:X", "cannot import broken: SyntaxError"),
    ],
)
def test_a_name_that_is_not_a_method_is_refused(module: Path, name: str, message: str) -> None:
    (module.parent / "broken.py").write_text("class X(:")
    with pytest.raises(InputError, match=message) as caught:
        Settings.from_plain({"methods": [name]})
    assert "\n" not in str(caught.value)


def test_entry_points_make_a_packages_methods_known_by_name(module: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    about = module.parent / "label_signs-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: label_signs\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[dlfh.methods]\n{KIND} = label_signs:LabelSigns\n")
    monkeypatch.syspath_prepend(module.parent)
    forget()
    assert list(METHODS)[-1] == KIND
    assert available()[KIND].title == "Signs of projected labels"
    data = make_paired(100, random_state=0)
    method: Any = METHODS[KIND]
    method(16, random_state=0).fit(data.modalities, data.labels).save("model")
    forget()
    assert type(dlfh.load("model")).__module__ == "label_signs"  # the module is imported to load the model


def test_cells_of_a_method_are_computed_again_when_its_source_changes(module: Path) -> None:
    def key() -> str:
        sys.modules.pop("label_signs", None)
        settings = Settings.from_plain({"methods": ["label_signs:LabelSigns"]})
        (row,) = settings.rows()
        assert row.title == "LabelSigns"
        return Plan(load_source("generated:wiki", n_points=60), settings).cell(row, 16, 0).key

    before = key()
    assert key() == before
    module.write_text(module.read_text() + "\n# changed\n")
    assert key() != before
