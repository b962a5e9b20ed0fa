"""Every layout of data files in every command that reads vectors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io

from dlfh.cli import main
from dlfh.datasets import Paired, make_paired, read_arrays, write_arrays
from tests.datasets.matlab73 import write_matlab73

TRAIN, QUERIES = (make_paired(n, n_labels=4, image_features=12, text_features=20, random_state=0) for n in (300, 60))


def named(points: Paired, image: str, text: str, labels: str) -> dict[str, Any]:
    return {
        image: points.modalities["image"],
        text: points.modalities["text"].toarray(),
        labels: points.labels.toarray().astype(np.float64),
    }


ALL = named(TRAIN, "XAll", "YAll", "LAll")
DATABASE = named(TRAIN, "XDatabase", "YDatabase", "databaseL") | named(QUERIES, "XTest", "YTest", "testL")
SUFFIXED = named(TRAIN, "I_tr", "T_tr", "L_tr") | named(QUERIES, "I_te", "T_te", "L_te")
OWN = named(TRAIN, "image", "text", "labels")


def three_files(folder: Path, arrays: dict[str, Any]) -> None:
    folder.mkdir()
    for name, array in arrays.items():
        scipy.io.savemat(folder / f"mirflickr25k-{name.lower()}.mat", {name: array})


def npy_files(folder: Path, arrays: dict[str, Any]) -> None:
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)


#: File or folder, how it is written, its arrays, and the names of the two modalities.
LAYOUTS: dict[str, tuple[str, Callable[[Path, dict[str, Any]], None], dict[str, Any], tuple[str, str]]] = {
    "XTest, MATLAB 5": ("data.mat", scipy.io.savemat, DATABASE, ("XTest", "YTest")),
    "XTest, MATLAB 7.3": ("data.mat", write_matlab73, DATABASE, ("XTest", "YTest")),
    "XTest, .npz": ("data.npz", write_arrays, DATABASE, ("XTest", "YTest")),
    "I_tr, MATLAB 5": ("data.mat", scipy.io.savemat, SUFFIXED, ("I_te", "T_te")),
    "XAll, MATLAB 5": ("data.mat", scipy.io.savemat, ALL, ("XAll", "YAll")),
    "XAll, .npz": ("data.npz", write_arrays, ALL, ("XAll", "YAll")),
    "IAll, three files": ("data", three_files, named(TRAIN, "IAll", "YAll", "LAll"), ("IAll", "YAll")),
    "image, .npz": ("data.npz", write_arrays, OWN, ("image", "text")),
    "image, .npy files": ("data", npy_files, OWN, ("image", "text")),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    write_arrays(folder / "data.npz", OWN)
    assert main(["fit", str(folder / "data.npz"), "--method", "SCM", "--bits", "16", "-o", str(folder / "m")]) == 0
    return folder / "m"


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    monkeypatch.chdir(tmp_path)
    file, write, arrays, names = LAYOUTS[request.param]
    write(Path(file), arrays)
    return file, "XTest" in arrays or "I_te" in arrays, names


def succeed(*command: str) -> None:
    assert main([*command, "--quiet"]) == 0


def test_fit_learns_from_the_training_points(layout: tuple[Any, ...], capsys: pytest.CaptureFixture[str]) -> None:
    succeed("fit", layout[0], "--method", "SCM", "--bits", "16", "--hold-out", "20", "-o", "model", "--json")
    assert json.loads(capsys.readouterr().out)["trained"] == 280


def test_evaluate_asks_with_the_queries(
    layout: tuple[Any, ...], model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, is_split, _ = layout
    succeed("evaluate", str(model), file, "--queries", "20", "--json")
    quality = json.loads(capsys.readouterr().out)["quality"]
    assert {each["n_queries"] for each in quality} == {20}
    assert {each["n_items"] for each in quality} == {40 if is_split else 280}


def test_encode_takes_all_points_or_named_ones(layout: tuple[Any, ...], model: Path) -> None:
    file, is_split, (image, text) = layout
    succeed("encode", str(model), file, "-o", "codes.npz")
    assert read_arrays("codes.npz")["text"].shape == (360 if is_split else 300, 2)
    named = ["--vectors", f"image={image}", "--vectors", f"text={text}"]
    for output in ("some.npz", "some.parquet"):
        succeed("encode", str(model), file, *named, "-o", output)
    (part,) = Path("some.parquet").glob("*.parquet")
    np.testing.assert_array_equal(read_arrays(part)["image"], read_arrays("some.npz")["image"])
    assert len(read_arrays(part)["text"]) == (60 if is_split else 300)


def test_evaluate_takes_labels_and_codes_by_name(
    layout: tuple[Any, ...], model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, is_split, (image, text) = layout
    succeed("encode", str(model), file, "--vectors", f"image={image}", "--vectors", f"text={text}", "-o", "codes.npz")
    labels = {"XTest": "testL", "I_te": "L_te", "image": "labels"}.get(image, "LAll")
    capsys.readouterr()
    named = [f"--{role}-labels={file}:{labels}" for role in ("query", "database")]
    succeed("evaluate", "codes.npz:image", "codes.npz:text", *named, "--json")
    assert json.loads(capsys.readouterr().out)["items"] == (60 if is_split else 300)


@pytest.mark.slow
def test_bench_and_tune_load_the_same_points(layout: tuple[Any, ...], capsys: pytest.CaptureFixture[str]) -> None:
    file, is_split, _ = layout
    succeed("bench", "splits", file, "--seeds", "1")
    splits = json.loads(capsys.readouterr().out)
    assert splits["points"] == (360 if is_split else 300)
    assert len(next(iter(splits["queries"].values()))) == 60
    succeed("tune", "SCM", file, "--grid", "ridge=1", "--seeds", "1", "--bits", "8", "--jobs", "1", "-o", "best.toml")
    assert "ridge" in Path("best.toml").read_text()
