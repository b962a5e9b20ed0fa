"""The floor plan that CONTRIBUTING.md draws: imports point downwards, and interiors stay inside."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "dlfh"
FILES = sorted(PACKAGE.rglob("*.py"))

#: Programs: they have commands instead of public names.
PROGRAMS = ("cli", "bench")


def floors() -> list[list[str]]:
    """Return the rooms of each floor, the highest first, as CONTRIBUTING.md draws them."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawing = re.search(r"<!-- floors -->\n```\n(.*?)```\n<!-- /floors -->", text, re.DOTALL)
    assert drawing is not None
    found: list[list[str]] = [[]]
    for line in drawing[1].splitlines():
        if not line.strip():
            found.append([])
        elif not line.startswith(" "):
            found[-1].append(line.split()[0].rstrip("/").removesuffix(".py"))
    return [floor for floor in found if floor]


def module_of(file: Path) -> str:
    parts = list(file.relative_to(PACKAGE).with_suffix("").parts)
    return ".".join(["dlfh", *(parts[:-1] if parts[-1] == "__init__" else parts)])


def room_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imports_of(file: Path) -> list[tuple[int, str]]:
    """Return the modules of the library that a file imports, wherever it does so, with their lines."""
    found = []
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            known = [name for name in names if (PACKAGE / Path(*name.split(".")[1:])).with_suffix(".py").exists()]
            rooms = [name for name in names if node.module == "dlfh" and (PACKAGE / name.split(".")[-1]).is_dir()]
            found += [(node.lineno, name) for name in known + rooms or [node.module]]
    return [(line, name) for line, name in found if name.split(".")[0] == "dlfh"]


def test_the_drawing_has_every_room() -> None:
    drawn = [room for floor in floors() for room in floor]
    there = {room_of(module_of(file)) for file in FILES} - {"", "__main__", "_version"}
    assert len(drawn) == len(set(drawn))
    assert set(drawn) == there


def test_imports_point_downwards() -> None:
    layers = floors()
    height = {room: -number for number, floor in enumerate(layers) for room in floor}
    upwards = []
    for file in FILES:
        room = room_of(module_of(file))
        if room in ("", "__main__", "_version"):
            continue  # the package itself, and `python -m dlfh`
        for line, imported in imports_of(file):
            target = room_of(imported)
            if target in (room, "", "_version") or {room, target} <= set(layers[-1]):
                continue  # modules of the lowest layer may import each other
            if height[target] >= height[room]:
                upwards.append(f"{file}:{line} imports {imported}")
    assert upwards == []


def test_rooms_of_one_floor_do_not_import_each_other_in_a_circle() -> None:
    graph: dict[str, set[str]] = {}
    for file in FILES:
        for _, imported in imports_of(file):
            graph.setdefault(room_of(module_of(file)), set()).add(room_of(imported))

    def reaches(start: str, goal: str, seen: frozenset[str] = frozenset()) -> bool:
        return any(
            step == goal or (step not in seen and reaches(step, goal, seen | {step}))
            for step in graph.get(start, set()) - {start, "", "__main__"}
        )

    rooms = set(graph) - {"", "__main__"}
    assert [room for room in sorted(rooms) if reaches(room, room)] == []


def test_packages_without_public_names_are_private_by_name() -> None:
    for door in sorted(PACKAGE.glob("*/__init__.py")):
        name = door.parent.name
        public = "__all__ = [" in door.read_text(encoding="utf-8")
        assert public or name.startswith("_") or name in PROGRAMS, f"{name}/ has no public names"


def test_examples_use_public_names_alone() -> None:
    for file in sorted((ROOT / "examples").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dlfh":
                assert not any(part.startswith("_") for part in node.module.split("."))
                door = __import__(node.module, fromlist=["__all__"])
                assert {alias.name for alias in node.names} <= set(door.__all__)


def test_what_is_public_is_documented_and_nothing_else_is() -> None:
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## `(dlfh[.\w]*)`$", text, re.MULTILINE)
    doors = {"dlfh", *(module_of(file) for file in FILES if _is_door(file))}
    assert set(sections) | {"dlfh.errors"} == doors


def _is_door(file: Path) -> bool:
    """Tell whether a file lists public names under a name that a user may import."""
    module = module_of(file)
    public = not any(part.startswith("_") for part in module.split(".")) and room_of(module) not in PROGRAMS
    top = file.parent == PACKAGE or (file.name == "__init__.py" and file.parent.parent == PACKAGE)
    return public and top and "__all__ = [" in file.read_text(encoding="utf-8")


def test_nothing_is_unpickled() -> None:
    """Unpickling can run arbitrary code: no module imports an unpickler, or calls a function that unpickles."""
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
