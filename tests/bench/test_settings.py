"""Settings are read back from TOML, and invalid ones are rejected."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.bench.settings import Settings
from dlfh.errors import InputError


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "methods": st.lists(st.sampled_from(["DLFH", "SCM", "DLFH paper"]), min_size=1, unique=True),
            "bits": st.lists(st.integers(1, 512), min_size=1, max_size=3, unique=True),
            "seeds": st.integers(1, 9),
            "resplit": st.booleans(),
            "unseen_share": st.sampled_from([0.0, 0.25]),
            "queries": st.integers(1, 99),
            "cell_minutes": st.floats(0.1, 99),
            "time": st.fixed_dictionaries({"sizes": st.lists(st.integers(1, 99), unique=True)}),
            "parameters": st.fixed_dictionaries({"SCM": st.just({"ridge": 0.5}), "CRH": st.just({})}),
        },
    )
)
def test_settings_are_read_back_from_toml(plain: dict[str, object]) -> None:
    settings = Settings.from_plain(plain)
    assert Settings.from_plain(tomllib.loads(settings.to_toml())) == settings


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"bit": [8]}, "unknown setting 'bit'; settings are bits, cell_minutes,"),
        ({"time": {"size": [8]}}, r"unknown setting time\.'size'; settings are bits, sizes"),
        ({"bits": 8}, "bits must be a list, got 8"),
        ({"bits": [0]}, "bits must be code lengths from 1 to 512"),
        ({"bits": ["8"]}, "bits must be a whole number, got '8'"),
        ({"seeds": 0}, "seeds must be positive, got 0"),
        ({"seeds": True}, "seeds must be a whole number, got True"),
        ({"unseen_share": 1.5}, "unseen_share must be at least 0 and less than 1"),
        ({"methods": ["DLHF"]}, "unknown method 'DLHF'; methods are ACQ, BATCH"),
        ({"methods": ["DLFH", "DLFH"]}, "methods has DLFH twice"),
        ({"methods": []}, "methods must not be empty"),
        ({"bits": [16, 16]}, "bits has 16 twice"),
        ({"protocols": ["learned", "learned"]}, "protocols has learned twice"),
        ({"memory_gb": float("nan")}, "memory_gb must be finite"),
        ({"time": {"sizes": [-5]}}, r"time\.sizes must be positive, got -5"),
        ({"convergence": {"size": -3}}, r"convergence\.size must be positive"),
        ({"convergence": {"iterations": 0}}, r"convergence\.iterations must be positive"),
        ({"convergence": {"bits": []}}, r"convergence\.bits must not be empty"),
        ({"curves": {"methods": 0}}, r"curves\.methods must be positive"),
        ({"sensitivity": {"rows": []}}, r"sensitivity\.rows must not be empty"),
        ({"sensitivity": {"rows": ["SCM"]}}, r"sensitivity\.rows must be DLFH or KDLFH rows"),
        ({"sensitivity": {"scales": [-1.0]}}, r"sensitivity\.scales must be positive"),
        ({"sensitivity": {"scales": [float("nan")]}}, r"sensitivity\.scales must be finite"),
        ({"parameters": {"DLFH": {"scale": float("inf")}}}, "scale of DLFH must be finite"),
        ({"parameters": {"DLFH": {"scale": [1]}}}, "scale of DLFH must be a number, a string"),
        ({"parameters": {"SePH": {"train_points": "x"}}}, "train_points of SePH must be a positive whole number"),
        ({"parameters": {"SePH": {"train_points": 0}}}, "train_points of SePH must be a positive whole number"),
        ({"protocols": ["seen"]}, "unknown protocol 'seen'; protocols are unseen, hashed, learned, unified"),
        ({"parameters": {"DLFH": {"lambda": 1}}}, "DLFH has no parameter 'lambda'; it has "),
        ({"parameters": 1}, "parameters must be one table per row"),
        ({"time": 1}, r"time must be a table, \[time\], got 1"),
        ({"curves": {"bits": 7}}, r"curves\.bits is 7 but must be one of bits"),
    ],
)
def test_invalid_settings_are_rejected(plain: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Settings.from_plain(plain)


def test_the_papers_data_sets_begin_with_its_methods_as_it_ran_them() -> None:
    settings = Settings.for_data("mirflickr-25k")
    paper = ["DLFH paper", "SMFH paper", "SCM", "CMFH paper", "CCAITQ", "MLBE paper", "KDLFH paper", "SePH paper"]
    assert list(settings.methods[:8]) == paper
    assert settings.row("SMFH paper").parameters["sample_size"] == 5000
    assert (settings.row("MLBE paper").train_points, settings.row("SePH paper").train_points) == (1000, 5000)
    assert Settings.for_data("generated:nus-wide") == settings


def test_folders_of_codes_are_rows_and_are_read_back(tmp_path: Path) -> None:
    settings = Settings.from_plain({"methods": ["SCM"], "codes": {"Mine": str(tmp_path)}})
    assert [(row.label, row.codes) for row in settings.rows()] == [("SCM", None), ("Mine", tmp_path)]
    assert Settings.from_plain(tomllib.loads(settings.to_toml())) == settings
    with pytest.raises(InputError, match="codes must be a table of folders by label"):
        Settings.from_plain({"codes": ["Mine"]})
