"""README and docs: every snippet runs, every public name is documented, tables agree."""

from __future__ import annotations

import importlib
import inspect
import os
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import dlfh
from dlfh.cli import main

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = (
    "",
    ".bench",
    ".blocks",
    ".client",
    ".codes",
    ".collection",
    ".datasets",
    ".errors",
    ".features",
    ".hashing",
    ".index",
    ".methods",
    ".metrics",
    ".service",
)


def blocks(document: Path) -> list[tuple[str, str]]:
    """Return the Python and console blocks of a document, in order."""
    text = document.read_text(encoding="utf-8")
    return re.findall(r"^```(python|console)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def snippets(document: Path) -> list[str]:
    return [text for kind, text in blocks(document) if kind == "python"]


@pytest.mark.docs
@pytest.mark.parametrize("document", [d for d in DOCUMENTS[1:] if blocks(d)], ids=lambda d: d.name)
def test_snippets_run(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    for kind, text in blocks(document):
        if kind == "python":
            exec(compile(text, str(document), "exec"), namespace)
            continue
        for line in text.splitlines():
            assert line.startswith("$ dlfh "), f"{document.name} shows {line!r}"
            assert main(shlex.split(line)[2:]) == 0, f"{line}\n{capfd.readouterr().err}"


def test_the_readme_and_the_guide_have_snippets() -> None:
    assert [kind for kind, _ in blocks(ROOT / "README.md")] == ["python"]  # run by the test below
    assert len(snippets(ROOT / "docs" / "guide.md")) >= 7


@pytest.mark.docs
def test_the_readme_snippet_is_short_and_reaches_its_quality(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (snippet,) = snippets(ROOT / "README.md")
    assert len([line for line in snippet.splitlines() if line.strip()]) <= 11
    monkeypatch.chdir(tmp_path)
    exec(snippet, {})
    assert 0.6 < float(capsys.readouterr().out) < 1
    assert (tmp_path / "model" / "config.json").exists()


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_is_documented(module: str) -> None:
    api = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    imported = importlib.import_module("dlfh" + module)
    for name in imported.__all__:
        if name == "__version__":
            continue
        assert f"`{name}`" in api, f"{name} is missing in docs/api.md"
        value = getattr(imported, name)
        if callable(value):
            assert inspect.getdoc(value), f"{name} has no docstring"


def test_errors_md_quotes_the_messages_of_the_source() -> None:
    quoted = re.findall(r"^\| `([^`]+)` \|", (ROOT / "docs" / "errors.md").read_text(encoding="utf-8"), re.MULTILINE)
    source = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    joined = re.sub(r'"\s+f?"', "", source)  # join adjacent string literals
    sentences = [sentence for sentence in quoted if " " in sentence]
    assert len(sentences) >= 8
    for sentence in sentences:
        for piece in sentence.split("…"):
            assert piece.strip(" ,:") in joined, f"no message in src/ contains {piece!r}"


def test_install_md_lists_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    listed = re.findall(r"`dlfh\[(\w+)\]`", (ROOT / "docs" / "install.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(extras.keys() - {"dev"}), "docs/install.md and pyproject.toml differ"


def test_relative_links_have_targets() -> None:
    for document in [*DOCUMENTS, ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md"]:
        for target in re.findall(r"\]\(([^)#]+)\)", document.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (document.parent / target).exists(), f"{document.name} links to {target}"


def security_table(name: str) -> list[list[str]]:
    """Return the rows of a table of SECURITY.md."""
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    table = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", text, re.DOTALL)
    assert table is not None
    return [line.strip("| ").split(" | ") for line in table[1].splitlines()[2:]]


def assert_tests_exist(cell: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", cell)
    assert named
    assert cell == ", ".join(f"`{file}::{name}`" for file, name in named)
    for file, name in named:
        assert f"\ndef {name}(" in (ROOT / file).read_text(encoding="utf-8"), (
            f"SECURITY.md names {file}::{name}, which does not exist"
        )


def test_every_promise_of_the_readme_has_tests() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    section = re.search(r"^## What you can rely on\n(.*?)^## ", readme, re.DOTALL | re.MULTILINE)
    assert section is not None
    promises = [name.rstrip(".") for name in re.findall(r"^- \*\*(.+?)\*\*", section[1], re.MULTILINE)]
    rows = security_table("promises")
    assert [promise for promise, _ in rows] == promises
    for _, tests in rows:
        assert_tests_exist(tests)


def test_every_promise_about_an_untrusted_input_has_tests() -> None:
    rows = security_table("untrusted")
    for _, _, tests in rows:
        assert_tests_exist(tests)
    kinds = {kind.partition(" (")[0] for kind, _, _ in rows}
    assert {"Every file", "Model folders", "Index folders", "Collections", "Data files", "Images"} <= kinds
    assert {"Texts, ids, captions, metadata", "Cached image features", "Requests to the service"} <= kinds


def test_what_must_be_trusted_like_code_is_said_where_it_is_used() -> None:
    reasons = {kind.partition(" (")[0]: reason for kind, reason in security_table("trusted")}
    assert "pickle" in reasons["Dask schedulers and workers"]
    scale = (ROOT / "docs" / "scale.md").read_text(encoding="utf-8")
    section = scale.partition("\n## On a cluster\n")[2].partition("\n## ")[0]
    assert "pickle" in section
    assert "(../SECURITY.md#trust)" in section


def test_the_method_table_matches_the_registry() -> None:
    from benchmarks.methods_study import registry_table

    assert registry_table() in (ROOT / "docs" / "methods.md").read_text(encoding="utf-8")


def test_summary_tables_match_the_recorded_results() -> None:
    from benchmarks.results_summary import DOCUMENTS as SUMMARIES

    for name, tables in SUMMARIES.items():
        text = (ROOT / "docs" / name).read_text(encoding="utf-8")
        for place, table in tables.items():
            assert f"<!-- {place} -->\n{table()}\n<!-- /{place} -->" in text


def test_the_version_is_in_the_changelog_and_the_citation() -> None:
    assert f"## {dlfh.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\nversion: {dlfh.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.docs
def test_the_demo_runs_and_beats_cca_itq(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py", "--every", "4", "--output", tmp_path],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONIOENCODING": "utf-8"},
    )
    rows = re.findall(r"(image → text|text → image)\D+([\d.]+)\D+([\d.]+)\D+([\d.]+)\D+([\d.]+)", result.stdout)
    assert len(rows) == 2
    for _, chance, classic, hamming, asymmetric in rows:
        assert float(chance) + 0.05 < float(hamming)
        assert float(classic) + 0.01 < min(float(hamming), float(asymmetric))
    assert (tmp_path / "answers.png").exists()


def test_importing_the_library_does_not_load_heavy_packages() -> None:
    program = "import sys, dlfh; print(sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    for heavy in ("torch", "matplotlib", "pandas", "rich.progress"):
        assert f"'{heavy}'" not in modules
