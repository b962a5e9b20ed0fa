"""Tests mirror the source: `tests/PACKAGE/test_MODULE.py` tests `dlfh/PACKAGE/MODULE.py`."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src" / "dlfh"
EXCEPTIONS = {
    "test_architecture.py": "the layers",
    "test_deploy.py": "the files in deploy/",
    "test_docs.py": "README, docs and examples",
    "test_site.py": "the documentation site",
    "test_notebooks.py": "the notebooks among the examples",
    "test_package.py": "the wheel and the source archive",
    "test_mirror.py": "the tests themselves",
    "test_bench_check.py": "the benchmark that guards the speed",
    "fuzz/test_fuzz.py": "every format that is read",
    "service/test_fuzz.py": "every request that a service takes",
    "service/test_kills.py": "services that are killed",
    "service/test_page_editing.py": "changing a collection on the page",
    "service/test_soak.py": "a service over a long time",
    "cli/test_layouts.py": "every layout of data files in every command",
    "collection/test_shortlist.py": "collections with items in a database",
    "features/test_battery.py": "every featuriser",
    "features/test_clip.py": "CLIP, in an environment with PyTorch",
    "features/test_efficientnet.py": "EfficientNet, in an environment with PyTorch",
    "hashing/test_battery.py": "every kind of hash function",
    "index/test_disks.py": "an index on disks that are full, fail or lose power",
    "index/test_engine_disks.py": "engines whose disk is full, or whose embedded process is killed",
    "index/test_engine_faults.py": "engines whose servers are killed, whose writers meet, and what they say",
    "index/test_kills.py": "an index whose writers are killed",
    "methods/test_battery.py": "every method of the registry",
    "methods/test_by_blocks.py": "methods on data in blocks",
    "methods/test_wiki.py": "agreement with public codes on Wiki",
}


def modules(file: Path) -> list[Path]:
    """Return the possible paths of the tested module; a test may also cover a whole package."""
    *packages, name = file.relative_to(TESTS).with_suffix("").parts
    module = name.removeprefix("test_")
    package = SOURCE.joinpath(*packages)
    folders = [package, package.with_name("_" + package.name)] if packages else [SOURCE]
    found = [folder / (mark + module + end) for folder in folders for mark in ("", "_") for end in (".py", "")]
    return [*found, *folders] if packages and module == packages[-1] else found


def test_every_test_file_mirrors_a_module() -> None:
    files = {file.relative_to(TESTS).as_posix(): file for file in TESTS.rglob("test_*.py")}
    strays = [
        name
        for name, file in sorted(files.items())
        if name not in EXCEPTIONS and not any(path.exists() for path in modules(file))
    ]
    assert not strays, f"no such module of dlfh: {', '.join(strays)}"
