"""Imports follow the layers that CONTRIBUTING.md draws, and public names are documented."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "dlfh"
FILES = sorted(PACKAGE.rglob("*.py"))

#: Packages with commands instead of public names.
PROGRAMS = ("cli",)


def layers() -> list[list[str]]:
    """Return the packages and modules of each layer in CONTRIBUTING.md, the highest first."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawing = re.search(r"<!-- layers -->\n```\n(.*?)```\n<!-- /layers -->", text, re.DOTALL)
    assert drawing is not None
    blocks = drawing[1].strip().split("\n\n")
    names = [[name for line in block.splitlines() for name in line.split("  ")[0].split(", ")] for block in blocks]
    return [[name.removesuffix("/") for name in layer] for layer in names]


def module_of(file: Path) -> str:
    parts = list(file.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(["dlfh", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def top_level(module: str) -> str:
    """Return the package or module directly in `dlfh` that contains a module."""
    return module.split(".")[1] if "." in module else ""


def imports_of(file: Path) -> list[tuple[int, str]]:
    """Return the modules of the library that a file imports anywhere, with line numbers."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            known = [name for name in names if (PACKAGE / Path(*name.split(".")[1:])).with_suffix(".py").exists()]
            packages = [name for name in names if node.module == "dlfh" and (PACKAGE / name.split(".")[-1]).is_dir()]
            found += [(node.lineno, name) for name in known + packages or [node.module]]
    return [(line, name) for line, name in found if name.split(".")[0] == "dlfh"]


def test_the_drawing_is_complete() -> None:
    drawn = [name for layer in layers() for name in layer]
    existing = {top_level(module_of(file)) for file in FILES} - {"", "__main__", "_version"}
    assert len(drawn) == len(set(drawn))
    assert set(drawn) == existing


def test_imports_point_downwards() -> None:
    drawn = layers()
    height = {name: -number for number, layer in enumerate(drawn) for name in layer}
    upwards = []
    for file in FILES:
        source = top_level(module_of(file))
        if source in ("", "__main__", "_version"):
            continue  # the package itself, and `python -m dlfh`
        for line, imported in imports_of(file):
            target = top_level(imported)
            if target in (source, "", "_version") or {source, target} <= set(drawn[-1]):
                continue  # modules of the lowest layer may import each other
            if height[target] >= height[source]:
                upwards.append(f"{file}:{line} imports {imported}")
    assert upwards == []


def test_imports_have_no_cycles() -> None:
    graph: dict[str, set[str]] = {}
    for file in FILES:
        for _, imported in imports_of(file):
            graph.setdefault(top_level(module_of(file)), set()).add(top_level(imported))

    def reaches(start: str, goal: str, seen: frozenset[str] = frozenset()) -> bool:
        return any(
            step == goal or (step not in seen and reaches(step, goal, seen | {step}))
            for step in graph.get(start, set()) - {start, "", "__main__"}
        )

    names = set(graph) - {"", "__main__"}
    assert [name for name in sorted(names) if reaches(name, name)] == []


def test_packages_without_public_names_are_private_by_name() -> None:
    for file in sorted(PACKAGE.glob("*/__init__.py")):
        name = file.parent.name
        public = "__all__ = [" in file.read_text(encoding="utf-8")
        assert public or name.startswith("_") or name in PROGRAMS, f"{name}/ has no public names"


def test_examples_import_public_names_only() -> None:
    for file in sorted((ROOT / "examples").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dlfh":
                assert not any(part.startswith("_") for part in node.module.split("."))
                package = __import__(node.module, fromlist=["__all__"])
                assert {alias.name for alias in node.names} <= set(package.__all__)


def test_the_api_page_lists_the_public_modules() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## `(dlfh[.\w]*)`$", text, re.MULTILINE)
    public = {"dlfh", *(module_of(file) for file in FILES if _is_public(file))}
    assert set(sections) | {"dlfh.errors"} == public


def _is_public(file: Path) -> bool:
    """Return whether a file lists public names and has a public module name."""
    module = module_of(file)
    public = not any(part.startswith("_") for part in module.split(".")) and top_level(module) not in PROGRAMS
    top = file.parent == PACKAGE or (file.name == "__init__.py" and file.parent.parent == PACKAGE)
    return public and top and "__all__ = [" in file.read_text(encoding="utf-8")


def test_nothing_is_unpickled() -> None:
    """Unpickling can run arbitrary code, so no module imports an unpickler or calls a function that unpickles."""
    assert [place for file in FILES for place in _unpicklers(file)] == []


def _unpicklers(file: Path) -> list[str]:
    unsafe = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    loaders = {"np.load", "numpy.load", "np.lib.npyio.NpzFile", "torch.load", "torch.hub.load", "joblib.load"}
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            bad = bool(unsafe & {alias.name.split(".")[0] for alias in node.names})
        elif isinstance(node, ast.ImportFrom):
            bad = (node.module or "").split(".")[0] in unsafe
        elif isinstance(node, ast.Call):
            keywords = {word.arg: word.value for word in node.keywords}
            weights_only = _constant(keywords.get("weights_only")) is True
            allow_pickle = "allow_pickle" in keywords and _constant(keywords["allow_pickle"]) is not False
            bad = allow_pickle or (ast.unparse(node.func) in loaders and not weights_only)
        else:
            continue
        if bad:
            found.append(f"{file}:{node.lineno}")
    return found


def _constant(node: ast.expr | None) -> object:
    return node.value if isinstance(node, ast.Constant) else None
