"""`dlfh tune` on raw items, and `dlfh build` with its settings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dlfh import Collection, load
from dlfh.cli import main

COLOURS = {"red": (200, 60, 60), "green": (60, 131, 60), "blue": (71, 90, 240)}


@pytest.fixture(scope="module")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a subfolder of images for each colour, and a table of all."""
    folder = tmp_path_factory.mktemp("coloured")
    rng = np.random.default_rng(0)
    lines = ["file,caption,colour"]
    for name, colour in COLOURS.items():
        (folder / name).mkdir()
        for number in range(34):
            picture = np.clip(np.array(colour) + rng.integers(-60, 60, (8, 8, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(picture).save(folder / name / f"{name} thing{number % 9} {number}.png")
            lines.append(f"{name}/{name} thing{number % 9} {number}.png,a {name} thing{number % 9},{name}")
    (folder / "items.csv").write_text("\n".join(lines) + "\n")
    return folder


GRID = ["--grid", "hash_function=linear", "--grid", "max_iter=0,20", "--bits", "16", "--seeds", "1"]
COLUMNS = ["--image", "file", "--text", "caption", "--labels", "colour"]


@pytest.mark.slow
def test_a_table_is_tuned_and_build_uses_the_settings(
    coloured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best = tmp_path / "best.toml"
    assert main(["tune", "dlfh", str(coloured / "items.csv"), *COLUMNS, *GRID, "--output", str(best)]) == 0
    printed = capsys.readouterr().out
    assert "thumbnail" in printed
    assert f"settings for dlfh build --settings: {best}" in printed.replace("\n", "")
    settings = tomllib.loads(best.read_text())
    assert settings["image_features"] in ("thumbnail", "combined")  # the only ones that depend on colours
    assert settings["parameters"] == {"hash_function": "linear", "max_iter": 20}
    build = ["build", str(coloured / "items.csv"), *COLUMNS, "--settings", str(best), "-q"]
    assert main([*build, "-o", str(tmp_path / "shop")]) == 0
    with Collection.open(tmp_path / "shop") as shop:
        parameters = shop.encoder.model_.get_params(deep=False)
        assert (shop.encoder.n_bits, parameters["max_iter"], shop.encoder.trials_) == (16, 20, ())
        assert type(shop.encoder.featurizers_["image"]).__name__.lower().startswith(settings["image_features"][:8])
    fit = ["fit", str(coloured / "items.csv"), *COLUMNS, "--settings", str(best), "-q"]
    options = ["-b", "8", "--set", "max_iter=3", "--image-features", "thumbnail"]  # take precedence
    assert main([*fit, *options, "-o", str(tmp_path / "model")]) == 0
    model = load(tmp_path / "model")
    assert (model.n_bits, model.model_.max_iter, model.model_.hash_function) == (8, 3, "linear")
    assert repr(model.featurizers_["image"]) == "Thumbnail()"


def test_texts_are_tuned_with_label_words_and_settings_are_printed(
    coloured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["tune", "cca-itq", str(coloured / "items.csv"), "--text", "caption", "--labels", "colour", "--quiet"]
    assert main([*command, "--grid", "ridge=0.1,1", "--bits", "2", "--seeds", "1"]) == 0
    first, *printed = capsys.readouterr().out.splitlines()
    assert first.startswith("best: CCAITQ, ridge = ")
    settings = tomllib.loads("\n".join(printed))
    assert settings.keys() == {"method", "bits", "text_features", "parameters"}
    assert (settings["method"], settings["bits"]) == ("CCAITQ", 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tune", "DLFH"], "no data to tune on"),
        (["tune", "magic", "{table}"], "unknown method 'magic'"),
        (
            ["tune", "DLFH", "{table}", "--text", "caption", "--halving", "size"],
            "--halving applies only to data sets of vectors",
        ),
        (
            ["tune", "DLFH", "{table}", "--text", "caption", "--memory-gb", "3"],
            "--memory-gb applies only to data sets of vectors",
        ),
        (
            ["tune", "DLFH", "{table}", "--text", "caption", "--validation-share", "2"],
            "--validation-share must be between 0 and 1",
        ),
        (["tune", "DLFH", "{table}", "--text", "words", "--labels", "colour"], "has no column 'words'"),
        (
            ["tune", "DLFH", "{table}", "--text", "caption", "--grid", "scale=-1"],
            "scale must be a positive finite number",
        ),
        (["tune", "DLFH", "{table}", "--text", "caption", "--output", "{table}", "--overwrite"], "it is also an input"),
        (["tune", "DLFH", "{table}", *COLUMNS[:4]], "too few items to tune with: 0 have labels"),
        (["build", "{table}", *COLUMNS, "-o", "{out}", "--settings", "{table}"], "cannot read .* as TOML settings"),
        (
            ["build", "{table}", *COLUMNS, "-o", "{out}", "--settings", "no.toml"],
            "settings file no.toml does not exist",
        ),
        (["build", "{table}", *COLUMNS, "-o", "{out}", "--settings", "{scm}", "--method", "CVH"], "is for SCM but"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_invalid_input_gets_one_line_and_writes_nothing(
    coloured: Path, tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "scm.toml").write_text('method = "SCM"\n')
    table = (coloured / "items.csv").read_text()
    places = {
        "folder": coloured,
        "table": coloured / "items.csv",
        "out": tmp_path / "out",
        "scm": tmp_path / "scm.toml",
    }
    assert main([argument.format(**places) for argument in arguments]) == 2
    captured = capsys.readouterr()
    assert re.search(message, captured.err)
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not (tmp_path / "out").exists()
    assert (coloured / "items.csv").read_text() == table
