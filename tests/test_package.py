"""The package as others get it: archives that are the same twice, and a wheel that works without the repository."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email import message_from_bytes
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

import dlfh
from tests.test_docs import blocks, snippets

pytestmark = pytest.mark.package
ROOT = Path(__file__).parent.parent
#: Rooms that are nothing without their extra, which whoever opens them is told of.
NEED_EXTRAS = {"service"}
COMPILING = "compiling the kernels for this machine"


def copy_of_the_sources(folder: Path) -> Path:
    """Copy what git knows, or would: not what was built, cached or measured here."""
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
    ).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, names)):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)  # with the time of the copy
    return folder


def built(sources: Path, to: Path, *kinds: str) -> Path:
    """Build archives, in an environment that has what pyproject.toml asks for to build with, and no more."""
    subprocess.run([sys.executable, "-m", "build", *kinds, "--outdir", to, sources], check=True, capture_output=True)
    return to


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source archive, and the wheel that is built from that."""
    return built(copy_of_the_sources(tmp_path_factory.mktemp("sources")), tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def wheel(archives: Path) -> Path:
    (wheel,) = archives.glob("*.whl")
    return wheel


@dataclass
class Environment:
    """An environment with the wheel, and a folder to work in that is not the repository."""

    scripts: Path
    folder: Path

    def run(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        outside = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "NUMBA", "COV"))}
        paths = os.pathsep.join([str(self.scripts), outside["PATH"]])
        done = subprocess.run(
            command, cwd=self.folder, capture_output=True, text=True, env=outside | {"PATH": paths}, check=False
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done

    def python(self, program: str) -> subprocess.CompletedProcess[str]:
        return self.run(self.scripts / "python", "-c", program)

    def install(self, wheel: Path, *extras: str) -> None:
        lock: list[str | Path] = ["--constraint", ROOT / "requirements" / "ci.txt"]
        self.run(
            self.scripts / "python",
            "-m",
            "pip",
            "install",
            "--quiet",
            *lock,
            f"{wheel}[{','.join(extras)}]" if extras else wheel,
        )


@pytest.fixture(scope="module")
def plain(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """An environment with nothing but the wheel and what it depends on."""
    home = tmp_path_factory.mktemp("empty")
    subprocess.run([sys.executable, "-m", "venv", home / "venv"], check=True)
    environment = Environment(home / "venv" / "bin", home / "work")
    environment.folder.mkdir()
    environment.install(wheel)
    return environment


@pytest.fixture(scope="module")
def searching(plain: Environment, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    """The same with what searching the icons and serving them needs, and the collection of docs/search.md."""
    plain.install(wheel, "icons", "serve")
    return replace(plain, folder=tmp_path_factory.mktemp("searching"))


def contents(archive: Path) -> dict[str, bytes]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as opened:
            return {name: opened.read(name) for name in opened.namelist()}
    with tarfile.open(archive) as opened:
        files = [(member.name.partition("/")[2], opened.extractfile(member)) for member in opened]
        return {name: file.read() for name, file in files if file is not None}


def test_the_same_sources_make_the_same_bytes(archives: Path, tmp_path: Path) -> None:
    again = built(copy_of_the_sources(tmp_path / "elsewhere"), tmp_path / "dist")
    assert sorted(file.name for file in again.iterdir()) == sorted(file.name for file in archives.iterdir())
    for file in archives.iterdir():
        assert (again / file.name).read_bytes() == file.read_bytes(), f"{file.name} differs"


def test_the_wheel_has_every_source_and_nothing_else(wheel: Path, tmp_path: Path) -> None:
    inside = {name for name in contents(wheel) if name.startswith("dlfh/")}
    sources = copy_of_the_sources(tmp_path) / "src"
    assert inside == {file.relative_to(sources).as_posix() for file in sources.rglob("*") if file.is_file()}
    assert {"dlfh/py.typed", "dlfh/service/page/index.html", "dlfh/bench/published.toml"} <= inside


def test_the_source_archive_has_only_the_files_needed_to_build(archives: Path) -> None:
    (archive,) = archives.glob("*.tar.gz")
    top = {name.partition("/")[0] for name in contents(archive)}
    files = {"CHANGELOG.md", "CITATION.cff", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml", ".gitignore"}
    assert top == files | {"src"}


def test_the_metadata_is_complete_for_a_package_index(wheel: Path) -> None:
    (file,) = (data for name, data in contents(wheel).items() if name.endswith("/METADATA"))
    metadata = message_from_bytes(file)
    assert metadata["Version"] == dlfh.__version__
    assert metadata["License-Expression"] == "MIT"
    assert {"Source", "Documentation", "Changelog", "Issues"} == {
        address.partition(",")[0] for address in metadata.get_all("Project-URL", [])
    }
    assert "Typing :: Typed" in metadata.get_all("Classifier", [])
    # A package index has no files of the repository to link to.
    links = re.findall(r"\]\(([^)]+)\)", str(metadata.get_payload()))
    assert len(links) > 20
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_the_quick_start_runs_and_announces_compilation_only_when_it_happens(plain: Environment) -> None:
    program = snippets(ROOT / "README.md")[0] + "\nimport dlfh\nprint(dlfh.__version__, dlfh.__file__)"
    first = plain.python(program)
    score, where = first.stdout.splitlines()
    assert 0.6 < float(score) < 1
    assert where.startswith(f"{dlfh.__version__} {plain.scripts.parent}")
    assert COMPILING in first.stderr
    shutil.rmtree(plain.folder / "model")
    again = plain.python(program)
    assert again.stdout == first.stdout
    assert COMPILING not in again.stderr


def test_without_extras_everything_imports_and_errors_name_the_missing_extra(plain: Environment) -> None:
    rooms = sorted((ROOT / "src" / "dlfh").glob("[a-z]*/__init__.py"))
    doors = [f"dlfh.{file.parent.name}" for file in rooms if file.parent.name not in NEED_EXTRAS]
    plain.python("\n".join(f"import {door}" for door in doors))
    program = (
        "from dlfh.datasets import load_dataset\ntry: load_dataset('icons')\nexcept ValueError as error: print(error)"
    )
    assert plain.python(program).stdout.strip().endswith('pip install "dlfh[icons]"')


def test_the_commands_of_the_readme_run_on_a_folder(plain: Environment, photos: Path, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"^(dlfh build .*?)^dlfh serve", readme, re.DOTALL | re.MULTILINE)
    user = replace(plain, folder=tmp_path)
    shutil.copytree(photos, tmp_path / "photos")
    shutil.move(tmp_path / "photos" / "items.csv", tmp_path)
    build, search, suggest = map(shlex.split, commands.splitlines())
    user.run(*build)
    assert user.run(*search, "--json").stdout.strip() == "[]"  # these pictures are of stripes
    assert ".png" in user.run("dlfh", "search", "shop/", "level", "--json").stdout
    user.run(*suggest)
    assert (tmp_path / "suggestions.csv").exists()


def test_the_page_about_searching_runs_as_it_is_printed(searching: Environment) -> None:
    program = ["import shlex, subprocess"]
    for kind, text in blocks(ROOT / "docs" / "search.md"):
        lines = text.splitlines()
        program += (
            lines if kind == "python" else [f"subprocess.run({shlex.split(line)[1:]!r}, check=True)" for line in lines]
        )
    searching.python("\n".join(program))
    answer = json.loads(searching.run("dlfh", "search", "shop", "chess game", "--json").stdout)
    assert any("chess" in name for name in re.findall(r'"id": "([^"]+)"', json.dumps(answer)))


def test_a_method_of_another_package_and_codes_from_elsewhere_are_in_one_table_with_ours(
    plain: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = replace(plain, folder=tmp_path)
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "own-methods.md").read_text(encoding="utf-8")
    write_module, checks, write_codes = snippets(ROOT / "docs" / "own-methods.md")
    exec(write_module, {})
    (points,) = re.findall(r'^\[project.entry-points."dlfh.methods"\]\n(.*?)^```', page, re.DOTALL | re.MULTILINE)
    wheel, about = tmp_path / "label_signs-1.0-py3-none-any.whl", "label_signs-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.write("label_signs.py")
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: label-signs\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/entry_points.txt", "[dlfh.methods]\n" + points.replace('"', ""))
        archive.writestr(f"{about}/RECORD", "")
    (tmp_path / "label_signs.py").unlink()
    user.run(user.scripts / "python", "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", wheel)
    assert "Signs of projected labels" in user.run("dlfh", "methods", "--json").stdout
    user.python(checks)
    user.python("from pathlib import Path\n" + write_codes)
    data = ["generated:wiki", "--points", "400", "--bits", "16", "--seeds", "1", "--quiet", "--jobs", "1"]
    user.run("dlfh", "bench", "map", *data, "--methods", "LabelSigns,SCM", "--codes", "Theirs=mine", "-o", "report")
    lines = (tmp_path / "report" / "tables" / "map-hashed.csv").read_text(encoding="utf-8").splitlines()[1:]
    maps = {line.split(",")[0]: float(line.split(",")[3]) for line in lines}
    assert list(maps) == ["LabelSigns", "SCM", "Theirs"]
    assert maps["Theirs"] < 0.2 < maps["LabelSigns"]  # random codes, ten classes


@pytest.fixture
def address(searching: Environment) -> Iterator[str]:
    """Where the collection is served."""
    command: list[str | Path] = [searching.scripts / "dlfh", "serve", "shop", "--port", "0"]
    with subprocess.Popen(command, cwd=searching.folder, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        yield re.findall(r"http://[\d.:]+", said)[0]
        process.send_signal(signal.SIGINT)
        process.wait(20)


def test_the_service_answers_and_its_page_is_there(address: str) -> None:
    asked = Request(
        f"{address}/v1/search", json.dumps({"text": "chess game"}).encode(), {"content-type": "application/json"}
    )
    assert "chess" in urlopen(asked).read().decode()
    page = urlopen(address).read().decode()
    for file in re.findall(r'(?:src|href)="([^":]+\.(?:js|css))"', page):
        assert urlopen(f"{address}/{file.lstrip('/')}").status == 200
