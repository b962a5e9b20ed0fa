"""The summaries that `dlfh build` and `dlfh fit` print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh import DLFH, Encoder
from dlfh.cli import main
from dlfh.cli.build import BuildSettings, quality_sentences
from dlfh.collection.evaluation import fit_and_evaluate
from dlfh.datasets import Items, make_paired
from dlfh.errors import InputError
from dlfh.features import Vectors
from tests.cli.conftest import COLUMNS
from tests.cli.test_cli import run


def fitted(features: Any, n_items: int, **options: Any) -> list[str]:
    data = make_paired(n_points=n_items, n_labels=4, random_state=0)
    labels = [[str(label) for label in np.flatnonzero(row)] for row in data.labels.toarray()]
    image, text = np.asarray(data.modalities["image"]), np.asarray(data.modalities["text"].toarray())
    items = Items.of({"image": image, "text": text}, labels)
    encoder = Encoder({"image": features, "text": Vectors()}, DLFH(n_bits=16, random_state=0, **options))
    evaluated = fit_and_evaluate(encoder, items)
    return [*quality_sentences(encoder, evaluated.report)]


def test_a_build_reports_choices_expected_quality_and_the_gain_of_more_bits() -> None:
    chosen, expected, calibrated, more = fitted([Vectors(), Vectors()], 300, hash_function="kernel")
    assert chosen == (
        "Features: Vectors() for image, Vectors() for text (chosen by trials). Code length: 16 bits (2 bytes per code)."
    )
    assert expected.startswith("Expected mean average precision (MAP) for new, unlabelled items: image → text ")
    assert "random order" in expected
    assert "of the first five" in expected
    assert calibrated.startswith("Calibration error of the probabilities of the first ten results: at most 0.")
    assert more.startswith("In trials, --bits 32 (4 bytes per code) changed MAP by ")


def test_a_build_without_trials_reports_what_was_not_measured() -> None:
    chosen, expected, more = fitted(Vectors(), 60, hash_function="linear")
    assert chosen.startswith("Features: Vectors() for image")
    assert expected == "Search quality was not measured: too few labelled items to hold any out (see --hold-out)."
    assert more.startswith("Without --fast")


def test_fast_skips_all_trials(photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    built = run(capsys, "build", photos / "items.csv", *COLUMNS, "-o", tmp_path / "light", "--fast")
    assert built["bits"] == 64
    assert built["features"]["image"] == "Gist()"
    assert built["chosen"] == {}
    whole = run(capsys, "build", photos / "items.csv", *COLUMNS, "-o", tmp_path / "whole")
    assert whole["bits"] == 128
    assert whole["features"] == {"image": "CombinedImage()", "text": "BagOfWords()"}
    assert main(["build", str(photos / "items.csv"), *COLUMNS, "-o", str(tmp_path / "none"), "--bits", "0"]) == 2
    assert "n_bits" in capsys.readouterr().err


_names = st.one_of(st.none(), st.text(max_size=9))
_values = st.one_of(
    st.booleans(), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), st.text()
)


@given(
    st.builds(
        BuildSettings,
        st.text(max_size=9),
        st.one_of(st.none(), st.integers(1, 512)),
        _names,
        _names,
        st.dictionaries(st.text(max_size=9), _values, max_size=4),
    )
)
def test_settings_are_read_back_unchanged(tmp_path_factory: pytest.TempPathFactory, settings: BuildSettings) -> None:
    file = tmp_path_factory.mktemp("settings") / "best.toml"
    file.write_text(settings.to_toml(), encoding="utf-8")
    assert BuildSettings.read(file) == settings


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("method = ", "cannot read .* as TOML settings"),
        ("bit = 64", "unknown build setting 'bit'; settings are method, bits"),
        ("bits = true", "bits must be a whole number, got True"),
        ("bits = 6.5", "must be a whole number"),
        ("method = 3", "must be a string, got 3"),
        ("parameters = 3", "must be a table"),
        ("[parameters]\nscale = 4", "has parameters but does not name their method"),
        ("methods = ['DLFH']\nresplit = false", "unknown build setting 'methods'"),
    ],
)
def test_invalid_settings_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "best.toml").write_text(text)
    with pytest.raises(InputError, match=message):
        BuildSettings.read(tmp_path / "best.toml")


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    assert BuildSettings.read(None) == BuildSettings()
    with pytest.raises(InputError, match=r"settings file .*best\.toml does not exist"):
        BuildSettings.read(tmp_path / "best.toml")
    with pytest.raises(InputError, match=r"cannot read .* as TOML settings"):
        BuildSettings.read(tmp_path)


@pytest.mark.parametrize(
    "columns", [["--image", "file"], ["--text", "caption"], ["--image", "file", "--text", "caption"]]
)
def test_a_collection_needs_no_labels(
    columns: list[str], photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [str(photos / "items.csv"), *columns, "-b", "16", "--fast", "-q", "--labels", "words"]
    assert main(["build", *table, "-o", str(tmp_path / "shop")]) == 0
    assert "Learned from" in capsys.readouterr().out
