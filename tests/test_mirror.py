"""Tests mirror the source: the tests of `dlfh/ROOM/_MODULE.py` are in `tests/ROOM/test_MODULE.py`."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "dlfh"
OF_NO_SINGLE_MODULE = {
    "test_architecture.py": "the layers",
    "test_docs.py": "README, docs and examples",
    "test_site.py": "the documentation site",
    "test_notebooks.py": "the notebooks among the examples",
    "test_package.py": "the wheel and the source archive",
    "test_mirror.py": "the tests themselves",
    "fuzz/test_fuzz.py": "every format that is read",
    "service/test_fuzz.py": "every request that a service takes",
    "features/test_battery.py": "every featuriser",
    "hashing/test_battery.py": "every kind of hash function",
    "index/test_disks.py": "an index on disks that are full, fail, or lose power",
    "index/test_engine_disks.py": "engines whose disk is full, or whose embedded process is killed",
    "index/test_engine_faults.py": "engines whose servers are killed, whose writers meet, and what they say",
    "index/test_kills.py": "an index whose writers are killed",
    "methods/test_battery.py": "every method of the registry",
    "methods/test_by_blocks.py": "methods on data in blocks",
    "methods/test_wiki.py": "agreement with public codes on Wiki",
}


def modules(file: Path) -> list[Path]:
    """Return where the module may be that a file of tests is about; a room may be tested as a whole."""
    *rooms, name = file.relative_to(TESTS).with_suffix("").parts
    module = name.removeprefix("test_")
    room = SOURCE.joinpath(*rooms)
    folders = [room, room.with_name("_" + room.name)] if rooms else [SOURCE]
    found = [folder / (mark + module + end) for folder in folders for mark in ("", "_") for end in (".py", "")]
    return [*found, room] if rooms and module == rooms[-1] else found


def test_every_file_of_tests_is_about_a_module() -> None:
    files = {file.relative_to(TESTS).as_posix(): file for file in TESTS.rglob("test_*.py")}
    strays = [
        name
        for name, file in sorted(files.items())
        if name not in OF_NO_SINGLE_MODULE and not any(path.exists() for path in modules(file))
    ]
    assert not strays, f"of no module of dlfh: {', '.join(strays)}"
