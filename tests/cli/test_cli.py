"""The command line: output, exit codes, and messages for invalid input."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image

from dlfh import Collection, Index, load
from dlfh._persistence import outputs
from dlfh.cli import main
from dlfh.cli.app import COMMANDS, make_app
from dlfh.datasets import make_paired, read_arrays, write_arrays
from dlfh.methods.catalogue import METHODS
from tests.cli.conftest import COLUMNS


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> Any:
    """Run a command that must succeed; return the JSON that it prints."""
    code = main([*map(str, arguments), "--json"])
    captured = capsys.readouterr()
    assert code == 0, captured.err
    return json.loads(captured.out)


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Run a command that must fail; return its one line of output."""
    assert main([*map(str, arguments)]) == 2
    captured = capsys.readouterr()
    lines = [line for line in captured.err.splitlines() if "compiling the kernels" not in line]
    assert len(lines) == 1, captured.err
    assert lines[0].startswith("dlfh: ")
    assert captured.out == ""
    return lines[0]


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# ---------------------------------------------------------------------------------------------- success


def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for command in COMMANDS:
        assert main([command, "--help"]) == 0
        shown = capsys.readouterr().out
        assert "Usage: " in shown
        assert f"$ dlfh {command}" in shown


def test_help_imports_nothing_heavy() -> None:
    program = "import sys; from dlfh.cli import main; main(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    modules = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stderr
    for heavy in ("numpy", "scipy", "sklearn", "numba", "faiss", "PIL", "torch"):
        assert f"'{heavy}'" not in modules


HEAVY = {
    *("sklearn", "scipy.stats", "scipy.optimize", "scipy.linalg", "scipy.fft", "numba"),
    *("torch", "matplotlib", "pandas", "pyarrow", "h5py", "PIL", "pydantic"),
    # Parts of NumPy that SciPy imports, and modules of this library that a search does not need.
    *("numpy.f2py.crackfortran", "numpy.ma.core", "numpy.polynomial.polynomial", "unittest"),
    *("dlfh.cli.bench", "dlfh.cli.build", "dlfh.cli.update", "dlfh.collection.changing"),
    *("dlfh.collection.evaluation", "dlfh.datasets.items", "dlfh.datasets.tables", "dlfh.features.network"),
    *("dlfh._mathematics.classifiers", "dlfh.metrics"),
}

SEARCH = """
import io, json, sys
from contextlib import redirect_stdout
from dlfh.cli import main
with redirect_stdout(io.StringIO()) as out:
    code = main(sys.argv[1:])
print(json.dumps([code, out.getvalue(), sorted(sys.modules)]))
"""


@pytest.mark.parametrize("ranking", ["any", "asymmetric", "hamming"])
def test_a_text_search_imports_nothing_heavy(shop: Path, ranking: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["search", str(shop), "red", "--ranking", ranking, "--json"]
    done = subprocess.run([sys.executable, "-c", SEARCH, *arguments], check=True, capture_output=True, text=True)
    code, printed, modules = json.loads(done.stdout)
    assert code == 0
    assert HEAVY & {*modules} == set()
    others = {METHODS[name].__module__ for name in METHODS if name != "DLFH"}
    assert others & {*modules} == set()
    # NumPy alone gives the same result as the compiled kernels, which this process has imported.
    assert json.loads(printed) == run(capsys, *arguments)


@pytest.mark.parametrize("kind", [str, int, float, Path, list[str], bool])
def test_values_are_converted_as_by_pydantic(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    parameter: Any = getattr(typer.core, "_TyperParameter", None)
    if not hasattr(parameter, "convert_by_pydantic"):
        pytest.skip("this version of Typer converts values without Pydantic")

    def given(value: Any = typer.Option(None)) -> Any:  # noqa: B008
        return value

    def results() -> list[Any]:
        found = []
        for text in ("", "7", "-7", "07", "1.5", ".5", "1e3", "nan", "1_0", " 8", "a b/c", "٣", "9" * 12):
            app = typer.Typer()
            app.command()(given)
            try:
                found.append(app([f"--value={text}"] if kind is not bool else [], standalone_mode=False))
            except Exception as error:
                found.append(error.format_message())  # type: ignore[attr-defined]
        return found

    given.__annotations__["value"] = kind
    ours = results()
    monkeypatch.setattr(parameter, "get_runtime_param", parameter.convert_by_pydantic)
    assert repr(ours) == repr(results())


def test_the_installed_program_reports_its_version() -> None:
    program = Path(sys.executable).parent / "dlfh"
    for command in ([str(program)], [sys.executable, "-m", "dlfh"]):
        result = subprocess.run([*command, "--version"], check=True, capture_output=True, text=True)
        assert result.stdout.startswith("dlfh ")


def test_build_search_and_evaluate_work_from_the_shell(photos: Path, tmp_path: Path) -> None:
    def dlfh(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "dlfh", *map(str, arguments)],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "150", "PYTHONIOENCODING": "utf-8"},
        )

    built = dlfh("build", photos, "--table", photos / "items.csv", *COLUMNS, "-o", "shop/", "--hold-out", 6, "-b", 16)
    assert "shop: 40 items, 33 (1 incomplete) used for training (DLFH, 16 bits; " in built.stdout
    assert " for learning codes)" in built.stdout
    assert "image → text" in built.stdout
    serve = f"dlfh serve shop --pictures ../{photos.name}"
    assert built.stdout.endswith(f"Next: dlfh search shop red shoes, or {serve}\n")
    assert "items.csv, line 6 (image): " in built.stderr
    assert "4.png is not an image" in built.stderr
    found = dlfh("search", "shop", "level stripes", "-k", 3, "--output", "found.png")
    assert found.stdout.count("level") >= 3
    assert "upright" not in found.stdout
    with Image.open(tmp_path / "found.png") as picture:
        assert picture.width > 100
    measured = dlfh("evaluate", "shop", photos / "items.csv", *COLUMNS, "--id", "caption")
    assert "text → image" in measured.stdout


def test_a_model_can_be_trained_further(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hash functions are those of `partial_fit`, and existing codes are kept."""
    X, names = np.random.default_rng(0).standard_normal((90, 6)).astype(np.float32), np.array(["a", "b", "c", "d"])
    labels = names[np.r_[np.arange(60) % 3, np.arange(30) % 4]]
    for name, rows in (("first", slice(0, 60)), ("later", slice(60, 90))):
        write_arrays(tmp_path / f"{name}.npz", {"image": X[rows], "text": X[rows, :3], "tag": labels[rows]})
    options = ["--vectors", "image=image", "--vectors", "text=text", "--labels", "tag", "-q"]
    settings = ["-b", "16", "--hold-out", "0", "--set", "hash_function=linear"]
    model = str(tmp_path / "model")
    assert main(["fit", str(tmp_path / "first.npz"), *options, *settings, "--set", "keep_sums=true", "-o", model]) == 0
    more = ["fit", str(tmp_path / "later.npz"), *options, "--more"]
    capsys.readouterr()
    assert main([*more, model, "-o", str(tmp_path / "grown")]) == 0
    assert "trained on 30 more items" in capsys.readouterr().out
    before, grown = load(model), load(tmp_path / "grown")
    expected = before.model_.partial_fit({"image": X[60:], "text": X[60:, :3]}, [[label] for label in labels[60:]])
    np.testing.assert_array_equal(grown.model_.project("image", X), expected.project("image", X))
    assert grown.model_.codes_of_labels([["d"]])[1].all()
    assert main(["fit", str(tmp_path / "first.npz"), *options, *settings, "-o", str(tmp_path / "plain")]) == 0
    for wrong, message in (
        ([*more, model, "-o", model], "the folder contains a model"),
        ([*more, str(tmp_path / "plain"), "-o", str(tmp_path / "new")], "without keep_sums=True"),
    ):
        capsys.readouterr()
        assert main(wrong) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "new").exists()


def test_vectors_are_fitted_encoded_and_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = make_paired(n_points=600, n_labels=8, random_state=0).split(test_size=60)
    for name, part in (("train", train), ("test", test)):
        write_arrays(
            tmp_path / f"{name}.npz", {"X": part.modalities["image"], "Y": part.modalities["text"], "L": part.labels}
        )
    vectors = ["--vectors", "image=X", "--vectors", "text=Y"]
    fitted = run(
        capsys,
        "fit",
        tmp_path / "train.npz",
        *vectors,
        "--labels",
        "L",
        "-b",
        12,
        "-o",
        tmp_path / "model",
        "--hold-out",
        40,
    )
    assert fitted["trained"] == 500
    assert {quality["query"] for quality in fitted["quality"]} == {"image", "text"}
    coded = run(capsys, "encode", tmp_path / "model", tmp_path / "test.npz", *vectors, "-o", tmp_path / "codes.npz")
    assert coded["codes"] == {"image": 60, "text": 60}
    model = load(tmp_path / "model")
    codes = read_arrays(tmp_path / "codes.npz")
    np.testing.assert_array_equal(codes["text"], model.encode("text", test.modalities["text"]))
    assert codes["text_ids"].tolist() == [str(row) for row in range(60)]
    run(
        capsys,
        "encode",
        tmp_path / "model",
        tmp_path / "test.npz",
        "--vectors",
        "text=Y",
        "--real",
        "-o",
        tmp_path / "z.npy",
    )
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), model.project("text", test.modalities["text"]))
    measured = run(
        capsys, "evaluate", tmp_path / "model", tmp_path / "test.npz", *vectors, "--labels", "L", "--queries", 20
    )
    assert [quality["n_queries"] for quality in measured["quality"]] == [20, 20]
    for quality in measured["quality"]:
        assert quality["codes"] == "hashed"
        assert quality["hamming"] > quality["chance"] + 0.05
    # Rows have no ids, so rows of another file are other items.
    built = ["build", tmp_path / "train.npz", *vectors, "--labels", "L", "-b", 12, "-o", tmp_path / "shop"]
    assert run(capsys, *built)["items"] == 540
    assert run(capsys, "add", tmp_path / "shop", tmp_path / "test.npz", *vectors)["new"] == 60
    asked = run(capsys, "evaluate", tmp_path / "shop", tmp_path / "test.npz", *vectors, "--labels", "L")
    assert [quality["n_queries"] for quality in asked["quality"]] == [60, 60]


@pytest.mark.parametrize("method", ["kdlfh", "cca-itq", "SCM"])
def test_other_methods_are_chosen_by_name(
    method: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fitted = run(capsys, "fit", photos / "items.csv", *COLUMNS, "--method", method, "-b", 4, "-o", tmp_path / "model")
    assert fitted["method"].lower() == method.replace("-", "").lower()


def test_parameters_are_set_by_name(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = ["--set", "scale=4", "--set", "solver=full", "--set", "hash_function=kernel-ridge", "--seed", 3]
    run(capsys, "fit", photos / "items.csv", *COLUMNS, *settings, "-o", tmp_path / "model")
    model = load(tmp_path / "model").model_
    assert (model.scale, model.solver, model.random_state) == (4, "full", 3)
    shown = run(capsys, "info", tmp_path / "model")
    assert shown["modalities"]["image"]["n_features"] == 1792


def test_items_are_added_and_removed(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(capsys, "fit", photos / "items.csv", *COLUMNS, "-b", 16, "-o", tmp_path / "model")
    made = run(capsys, "build", photos / "items.csv", *COLUMNS, "--model", tmp_path / "model", "-o", tmp_path / "shop")
    assert made["items"] == 40
    for name in ("a", "b"):
        Image.new("L", (70, 50), 30).save(tmp_path / f"{name}.png")
    table = tmp_path / "new.csv"
    table.write_text("file,caption\na.png,level new\nb.png,\nc.png,upright new\n")
    added = run(capsys, "add", tmp_path / "shop", table, "--image", "file", "--text", "caption")
    assert (added["items"], added["new"], added["learned"]) == (43, 3, 0)
    assert [problem["skipped"] for problem in added["problems"]] == ["image", "text"]
    again = run(capsys, "add", tmp_path / "shop", table, "--image", "file", "--text", "caption")
    assert (again["new"], len(again["problems"])) == (0, 5)
    updated = run(capsys, "add", tmp_path / "shop", table, "--image", "file", "--text", "caption", "--update")
    assert (updated["items"], updated["replaced"], len(updated["problems"])) == (43, 3, 2)
    assert run(capsys, "remove", tmp_path / "shop", "a.png", "b.png")["items"] == 41
    shown = run(capsys, "info", tmp_path / "shop", "--verify")
    assert shown["codes"] == {"image": {"learned": 37, "hashed": 1}, "text": {"learned": 38, "hashed": 2}}
    assert run(capsys, "info", tmp_path / "shop") == shown
    table.write_text("file,caption,tags\na.png,level new,level\nb.png,both,level;upright\n,neither,diagonal\n")
    added = run(capsys, "add", tmp_path / "shop", table, *COLUMNS)
    assert (added["new"], added["learned"]) == (3, 2)  # one of them with a new set of known labels


def test_searches_print_json(shop: Path, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = run(capsys, "search", shop, "--image", photos / "8.png", "--modalities", "text", "-k", 2)
    assert [item["rank"] for item in found] == [1, 2]
    assert all("upright" in item["metadata"]["text"] for item in found)
    near = run(capsys, "search", shop, "--query", "text=level", "--radius", 16, "--ranking", "hamming")
    assert len(near) == 38
    by_labels = run(capsys, "search", shop, "stripes", "-k", 2, "--ranking", "any")
    with Collection.open(shop) as collection:
        assert by_labels == collection.search("text", "stripes", 2, ranking="any").to_dicts()
    assert run(capsys, "search", shop, "--similar", "8.png", "--ids", "10.png", "--ids", "8.png")[0]["id"] == "10.png"


def test_reported_seconds_are_wall_clock_time(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.perf_counter()
    fitted = run(capsys, "fit", photos / "items.csv", *COLUMNS, "-o", tmp_path / "model")
    waited = time.perf_counter() - began
    assert fitted["learning_seconds"] < fitted["seconds"] < waited + 0.001
    assert fitted["seconds"] > 0.5 * waited


def test_skipped_input_is_listed_in_full(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = ["--problems", tmp_path / "left.jsonl"]
    fitted = run(capsys, "fit", photos / "items.csv", *COLUMNS, "-o", tmp_path / "model", *written)
    lines = (tmp_path / "left.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == fitted["problems"]
    assert (fitted["trained"], fitted["incomplete"]) == (39, 3)
    assert len(lines) == 3


def test_info_describes_a_bare_index(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Index.create(tmp_path / "index", n_bits=8, modalities=["image"]) as index:
        index.add(["a", "b"], {"image": np.array([[7], [1]], np.uint8)})
    shown = run(capsys, "info", tmp_path / "index", "--verify")
    assert (shown["items"], shown["bits"], shown["codes"]) == (2, 8, {"image": {"learned": 0, "hashed": 2}})
    assert main(["info", str(tmp_path / "index"), "--verify"]) == 0
    assert "2 items, 8 bits, all checksums match" in " ".join(capsys.readouterr().out.split())


def test_info_describes_tables_and_arrays(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "info", photos / "items.csv")["filled"] == {"file": 40, "caption": 39, "tags": 39}
    write_arrays(tmp_path / "data.mat", {"X": np.zeros((3, 2))})
    assert run(capsys, "info", tmp_path / "data.mat")["arrays"]["X"]["shape"] == [3, 2]
    assert "DLFH" in run(capsys, "methods")
    for command in (["info", tmp_path / "data.mat"], ["info", photos / "items.csv"], ["methods"]):
        assert main([*map(str, command)]) == 0
    assert "Jiang" in capsys.readouterr().out


# ------------------------------------------------------------------------------------------ wrong input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fit"], "Missing option '--output' / '-o'"),
        (["frobnicate"], "No such command 'frobnicate'"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--colour", "red"], r"No such option:? .?--colour"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "-b", "many"], "Invalid value for '--bits' / '-b'"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "-b", "0"], "n_bits must be an integer"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--seed", "-1"], "random_state must be"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--method", "magic"], "unknown method 'magic'"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--set", "scale"], "--set takes NAME=VALUE"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--set", "colour=1"], "has no parameter 'colour'"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--set", "scale=-1"], "scale must be"),
        (
            ["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--image-features", "magic"],
            "the features of 'image' must be auto, combined, .* or clip:FOLDER, got 'magic'",
        ),
        (
            ["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--text-features", "gist"],
            "the features of 'text' must be auto, tfidf, .* or clip:FOLDER, got 'gist'",
        ),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--hold-out", "39"], "cannot hold out 39"),
        (["fit", "{photos}/items.csv", "--text", "nothing", "-o", "{out}"], "has no column 'nothing'"),
        (["fit", "{photos}/gone.csv", *COLUMNS, "-o", "{out}"], "does not exist"),
        (["fit", "-o", "{out}"], "nothing to read"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{photos}"], "cannot save a model in"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{photos}/items.csv"], "it is a file, not a folder"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--encoding", "klingon"], "unknown encoding"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--vectors", "x=gone.npy"], "cannot read gone.npy"),
        (["build", "{photos}/items.csv", *COLUMNS, "-o", "{photos}"], "it is not an empty folder"),
        (["encode", "{photos}", "{photos}/items.csv", "--text", "caption", "-o", "{out}.npz"], "is not a model"),
        (["encode", "{shop}", "{photos}/items.csv", "--text", "caption", "-o", "{out}.txt"], "must end in"),
        (["encode", "{shop}", "{photos}/items.csv", *COLUMNS, "-o", "{out}.npy"], "a .npy file holds one modality"),
        (["encode", "{shop}", "{photos}/items.csv", "--text", "x=caption", "-o", "{out}.npz"], "unknown modality 'x'"),
        (["encode", "{shop}", "{photos}/items.csv", "--text", "caption", "-o", "{out}/no/x.npz"], "does not exist"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--problems", "{out}/no/p"], "does not exist"),
        (["build", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--problems", "{out}/no/p"], "does not exist"),
        (["fit", "{photos}/items.csv", *COLUMNS, "-o", "{out}", "--separator", ""], "separator is empty"),
        (["fit", "{photos}/items.csv", "--text", "labels=caption", "-o", "{out}"], "cannot be called 'labels'"),
        (["search", "{shop}", "level", "--similar", "8.png", "--radius", "3"], "takes neither a radius nor a code"),
        (["search", "{shop}", "level", "--match", "sounds"], "match must be one of"),
        (["search", "{shop}", "level", "--min-probability", "0.5"], "min_probability needs probabilities"),
        (["search", "{shop}", "--similar", "8.png", "--ranking", "asymmetric"], "does not support ranking"),
        (["search", "{shop}", "--similar", "8.png", "--match", "words"], "does not support match"),
        (["search", "{shop}", "level", "--output", "{out}/no/x.png"], "does not exist"),
        (["search", "{shop}", "--image", "x", "--similar", "b"], "expected one of --image, --similar and --query"),
        (["search", "{photos}", "a"], "is not a collection"),
        (["search", "{out}", "a"], "there is no collection at"),
        (["search", "{shop}", "level", "-k", "0"], "k must be an integer"),
        (["search", "{shop}", "level", "--radius", "-1"], "radius must be an integer"),
        (["search", "{shop}", "level", "--modalities", "sound"], "unknown modality 'sound'"),
        (["search", "{shop}", "level", "--ranking", "best"], "ranking must be one of"),
        (["search", "{shop}", "--image", "{photos}/items.csv"], "not an image"),
        (["search", "{shop}", "--image", "{out}"], "does not exist"),
        (["search", "{shop}", "--similar", "nobody"], "'nobody' is not in the index"),
        (["search", "{shop}", "--query", "text"], "--query takes NAME=VALUE"),
        (["search", "{shop}", "level", "--output", "{out}.doc"], "must end in .png"),
        (["search", "{shop}", "level", "--ids", "nobody"], "'nobody' is not in the index"),
        (["build", "{photos}/items.csv", *COLUMNS, "--model", "{shop}", "-o", "{shop}"], "it is not an empty folder"),
        (
            ["build", "{photos}/items.csv", *COLUMNS, "--model", "{shop}", "-b", "8", "-o", "{out}"],
            "--bits applies to training",
        ),
        (["build", "{photos}/items.csv", *COLUMNS, "--model", "{out}", "-o", "{out}2"], "there is no model at"),
        (["add", "{shop}", "{photos}/items.csv", "--text", "nothing"], "has no column 'nothing'"),
        (["add", "{photos}", "{photos}/items.csv", "--text", "caption"], "is not a collection"),
        (["remove", "{shop}", "8.png", "nobody"], "'nobody' is not in the index"),
        (["remove", "{shop}"], "Missing argument"),
        (["info", "{photos}", "--verify"], "--verify applies only to collections and indexes"),
        (["evaluate", "{shop}", "{photos}/items.csv", *COLUMNS], "every query is in the collection itself"),
        (["evaluate", "{shop}", "{photos}/items.csv", *COLUMNS, "--queries", "3"], "--queries applies only to models"),
        (["evaluate", "{shop}/model", "{photos}/items.csv", *COLUMNS], "set --queries"),
        (
            ["evaluate", "{shop}/model", "{photos}/items.csv", "--text", "caption", "--queries", "3"],
            "cannot hold out 3",
        ),
        (
            ["add", "{shop}", "{shop}", "--table", "{photos}/items.csv", *COLUMNS],
            r"the 40 images that column 'file' names are not in \S*shop but in \S*photos\S*: pass that folder",
        ),
        (
            ["build", "{shop}", "--table", "{photos}/items.csv", *COLUMNS, "-o", "{out}"],
            r"the 40 images that column 'file' names are not in \S*shop but in \S*photos\S*: pass that folder",
        ),
        (["info", "{out}"], "does not exist"),
        (["info", "{photos}"], "is not a model"),
        (["info", "{photos}/8.png"], "cannot read"),
    ],
)
def test_invalid_input_gets_one_line_and_changes_nothing(
    arguments: list[str], message: str, photos: Path, shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = files_in(photos) | files_in(shop)
    written = [part.format(photos=photos, shop=shop, out=tmp_path / "out") for part in arguments]
    assert re.search(message, refused(capsys, *written))
    assert files_in(photos) | files_in(shop) == before
    assert os.listdir(tmp_path) == []


@pytest.fixture
def workspace(photos: Path, shop: Path, tmp_path: Path) -> Path:
    """Return a folder with photos, a collection, a model and other files of a user."""
    for name, source in (("photos", photos), ("shop", shop)):
        shutil.copytree(source, tmp_path / name)
    shutil.copytree(shop / "model", tmp_path / "model")
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "config.json").write_text("port = 8080")
    (tmp_path / "left.jsonl").write_text("of an earlier run")
    (tmp_path / "codes.npz").write_text("of an earlier run")
    (tmp_path / "linked.csv").hardlink_to(tmp_path / "photos" / "items.csv")
    os.mkfifo(tmp_path / "pipe")  # instead of a device, which a test must not be able to replace
    (tmp_path / "link.csv").symlink_to(tmp_path / "photos" / "items.csv")
    return tmp_path


TABLE = ["photos/items.csv", *COLUMNS]
EXISTS = "it exists; use --overwrite to replace it"
IS_INPUT = "it is also an input"


@pytest.mark.parametrize(
    ("arguments", "message", "replaceable"),
    [
        (["fit", *TABLE, "-o", "app"], "its config.json was not written by dlfh", False),
        (["fit", *TABLE, "-o", "model"], "the folder contains a model; use --overwrite to replace it", True),
        (["fit", *TABLE, "-o", "new", "--problems", "photos/items.csv"], IS_INPUT, False),
        (["fit", *TABLE, "-o", "new", "--problems", "linked.csv"], IS_INPUT, False),
        (["fit", *TABLE, "-o", "new", "--problems", "link.csv"], IS_INPUT, False),
        (["fit", *TABLE, "-o", "new", "--problems", "left.jsonl"], EXISTS, True),
        (["build", *TABLE, "-o", "new", "--problems", "photos/items.csv"], IS_INPUT, False),
        (
            ["build", "photos", *TABLE[1:], "--table", *TABLE[:1], "-o", "new", "--problems", "photos/9.png"],
            "it is inside the input folder photos",
            False,
        ),
        (["build", *TABLE, "-o", "new", "--problems", "left.jsonl"], EXISTS, True),
        (["build", *TABLE, "-o", "shop"], "it is not an empty folder", False),
        (["build", *TABLE, "--model", "model", "-o", "new", "--problems", "left.jsonl"], EXISTS, True),
        (
            ["build", *TABLE, "--model", "model", "-o", "new", "--problems", "model/config.json"],
            "it is inside the input folder model",
            False,
        ),
        (["add", "shop", *TABLE, "--problems", "photos/items.csv"], IS_INPUT, False),
        (["add", "shop", *TABLE, "--problems", "shop/collection.json"], "it is inside the input folder shop", False),
        (["encode", "model", *TABLE, "-o", "codes.npz"], EXISTS, True),
        (["encode", "model", *TABLE, "-o", "new.npz", "--problems", "new.npz"], "another output has the same", False),
        (["encode", "model", *TABLE, "-o", "new.npz", "--problems", "pipe"], "it is not a regular file", False),
        (
            ["search", "shop", "--image", "photos/9.png", "--modalities", "text", "--output", "photos/9.png"],
            IS_INPUT,
            False,
        ),
    ],
)
def test_outputs_never_replace_inputs_and_replace_other_files_only_on_request(
    arguments: list[str],
    message: str,
    replaceable: bool,
    workspace: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(workspace)
    before = files_in(workspace)
    assert message in refused(capsys, *arguments)
    assert files_in(workspace) == before
    if replaceable:
        assert main([*arguments, "--overwrite"]) == 0
        assert files_in(workspace) != before
    else:
        refused(capsys, *arguments, "--overwrite")
        assert files_in(workspace) == before


def test_a_picture_never_replaces_an_image_of_the_collection(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    run(capsys, "build", *TABLE, "-o", "new", "-b", 16)
    (workspace / "linked.png").hardlink_to(workspace / "photos" / "9.png")
    before = files_in(workspace)
    search = ["search", "new", "level", "-k", 2, "--output"]
    for name in ("photos/9.png", "linked.png", "photos/39.png"):
        assert EXISTS in refused(capsys, *search, name)
        assert IS_INPUT in refused(capsys, *search, name, "--overwrite")
    assert files_in(workspace) == before
    for options in ([], ["--overwrite"]):
        assert main([*map(str, search), "found.png", *options]) == 0
    assert EXISTS in capsys.readouterr().err + refused(capsys, *search, "found.png")
    os.unlink(workspace / "found.png")  # the page beside it still exists
    assert f"found.html: {EXISTS}" in refused(capsys, *search, "found.png")


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        (["fit", *TABLE, "-o", "new"], "new/config.json"),
        (["fit", *TABLE, "-o", "new", "--problems", "new.jsonl"], "new.jsonl"),
        (["build", *TABLE, "-o", "new", "--problems", "new.jsonl"], "new.jsonl"),
        (["build", *TABLE, "-o", "new"], "new/mine"),
        (["encode", "model", *TABLE, "-o", "new.npz"], "new.npz"),
        (["search", "shop", "level", "--output", "new.png"], "new.png"),
        (["search", "shop", "level", "--output", "new.png"], "new.html"),
    ],
)
def test_files_created_while_a_command_runs_are_kept(
    arguments: list[str],
    output: str,
    workspace: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Outputs are checked before the work, which may take hours, and again when they are written."""
    real, content = outputs.check_outputs, (workspace / "model" / "config.json").read_bytes()

    def check_outputs(*given: Any, **options: Any) -> None:
        real(*given, **options)
        (workspace / output).parent.mkdir(exist_ok=True)
        (workspace / output).write_bytes(content)  # a model may only replace a model

    monkeypatch.chdir(workspace)
    monkeypatch.setattr(outputs, "check_outputs", check_outputs)
    assert main(arguments) == 2
    assert re.search("use --overwrite|not an empty folder", capsys.readouterr().err)
    assert (workspace / output).read_bytes() == content


def test_images_named_in_a_table_are_inputs_too(
    workspace: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)
    before = files_in(workspace)
    for command in (["fit", *TABLE, "-o", "new"], ["encode", "model", *TABLE, "-o", "new.npz"]):
        assert IS_INPUT in refused(capsys, *command, "--problems", "photos/9.png", "--overwrite")
    assert files_in(workspace) == before


def test_every_command_that_writes_a_file_has_overwrite() -> None:
    import typer.main

    def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
        for name, command in getattr(group, "commands", {}).items():
            yield from commands(command, (*path, name)) if hasattr(command, "commands") else [((*path, name), command)]

    writing = {}
    for path, command in commands(typer.main.get_command(make_app())):
        options = {option for parameter in command.params for option in parameter.opts}
        files = options & {"--output", "--problems"}
        if files and path != ("copy",):  # which makes a folder, and refuses one that exists
            writing[" ".join(path)] = files
            assert "--overwrite" in options, path
    assert writing == {
        "build": {"--output", "--problems"},
        "fit": {"--output", "--problems"},
        "encode": {"--output", "--problems"},
        "search": {"--output"},
        "suggest": {"--output"},
        "add": {"--problems"},
        "sync": {"--problems"},
        "export": {"--output"},
        "tune": {"--output"},
        "bench": {"--output"},
    }


def test_a_second_writer_is_rejected(shop: Path, photos: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Collection.open(shop, writable=True):
        assert "already has a writer" in refused(capsys, "remove", shop, "8.png")


def test_a_closed_pipe_is_not_an_error(shop: Path) -> None:
    command = f"{sys.executable} -m dlfh methods | head -n 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert "Traceback" not in result.stderr


def test_modalities_can_have_other_names(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns = ["--image", "photo=file", "--text", "words=caption", "--labels", "tags"]
    built = run(capsys, "build", photos / "items.csv", *columns, "-b", 16, "-o", tmp_path / "shop")
    assert built["items"] == 40
    found = run(capsys, "search", tmp_path / "shop", "--query", "words=level", "-k", 2, "--output", tmp_path / "x.png")
    assert all("photo" in item["metadata"] for item in found)
    assert (tmp_path / "x.png").exists()
    assert "a folder of images has the modalities image and text" in refused(capsys, "add", tmp_path / "shop", photos)


def test_paths_are_printed_verbatim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "[b]we["
    folder.mkdir()
    (folder / "items.csv").write_text("caption\ncafé\n", encoding="latin-1")
    assert main(["info", str(folder / "items.csv"), "--encoding", "latin-1"]) == 0
    assert "[b]we[" in capsys.readouterr().out.replace("\n", "")


def test_a_terminal_may_lack_characters(shop: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "dlfh", "search", str(shop), "level", "-k", "1", "--json"],
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert json.loads(result.stdout)[0]["rank"] == 1


def test_a_terminated_command_leaves_no_partial_output(photos: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "dlfh", "build", str(photos / "items.csv"), *COLUMNS, "-o", str(tmp_path / "shop")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not os.listdir(tmp_path):
        time.sleep(0.001)
    process.terminate()
    _, errors = process.communicate(timeout=60)
    if process.returncode == 0:  # it had finished
        assert os.listdir(tmp_path) == ["shop"]
    else:
        assert process.returncode == 130, errors
        assert os.listdir(tmp_path) in ([], ["shop"])
