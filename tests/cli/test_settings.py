"""Build settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.cli.settings import BuildSettings
from dlfh.errors import InputError

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
