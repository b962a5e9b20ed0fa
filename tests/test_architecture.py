"""The floor plan that CONTRIBUTING.md draws: imports point downwards, and interiors stay inside."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "dlfh"
FILES = sorted(PACKAGE.rglob("*.py"))

#: Programs: nothing is imported from them, so their files need no underscore. And the room that is read with the paper.
PLAIN_NAMES = ("cli", "bench", "factorization")


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


@pytest.mark.parametrize("file", FILES, ids=lambda file: module_of(file).removeprefix("dlfh."))
def test_imports_point_downwards(file: Path) -> None:
    height = {room: -number for number, floor in enumerate(floors()) for room in floor}
    room = room_of(module_of(file))
    if room in ("", "__main__", "_version"):
        return  # the front door, and what runs it
    for line, imported in imports_of(file):
        target = room_of(imported)
        if target in (room, "", "_version"):
            continue
        below = height[target] < height[room] or _on_the_ground(room, target)
        assert below, f"{file}:{line} imports {imported} from above"


def _on_the_ground(room: str, target: str) -> bool:
    """Tell whether two rooms are on the ground floor, whose small modules may use each other."""
    return {room, target} <= set(floors()[-1])


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


@pytest.mark.parametrize("file", [file for file in FILES if file.parent != PACKAGE], ids=lambda file: module_of(file))
def test_interiors_are_private_by_name(file: Path) -> None:
    room = room_of(module_of(file))
    assert file.stem.startswith("_") or room.startswith("_") or room in PLAIN_NAMES


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
    public = not any(part.startswith("_") for part in module.split(".")) and room_of(module) not in PLAIN_NAMES
    return public and "__all__ = [" in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: module_of(file).removeprefix("dlfh."))
def test_nothing_is_unpickled(file: Path) -> None:
    """Unpickling runs what a file says: nothing that can do it is imported, or called so that it does."""
    unsafe = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
    loaders = {"np.load", "numpy.load", "np.lib.npyio.NpzFile", "torch.load", "torch.hub.load", "joblib.load"}
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not unsafe & {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert (node.module or "").split(".")[0] not in unsafe
        elif isinstance(node, ast.Call):
            only = [word.value for word in node.keywords if word.arg == "weights_only"]
            tensors_alone = any(isinstance(value, ast.Constant) and value.value is True for value in only)
            assert ast.unparse(node.func) not in loaders or tensors_alone, f"{file}:{node.lineno}"
            allowed = [word.value for word in node.keywords if word.arg == "allow_pickle"]
            assert all(isinstance(value, ast.Constant) and value.value is False for value in allowed)
