"""What build measured can be told later; what cannot be read says nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.collection.measured import Measured, read_measured
from dlfh.datasets import read_items
from dlfh.features import BagOfWords, Thumbnail


@pytest.mark.parametrize("hold_out", [0, 10])
def test_what_build_measured_is_kept(photos: Path, tmp_path: Path, hold_out: int) -> None:
    items = read_items(photos / "items.csv", image="file", text="caption", labels="tags")
    encoder = Encoder({"image": Thumbnail(8), "text": BagOfWords()}, DLFH(n_bits=16, hash_function="linear"))
    built = Collection.build(tmp_path / "shop", items, encoder, hold_out=hold_out)
    built.collection.close()
    assert bool(built.qualities) == bool(hold_out)
    assert read_measured(tmp_path / "shop") == Measured(built.qualities, built.calibration_reports)
    assert (tmp_path / "shop" / "measured.json").exists() == bool(hold_out)


ROW = {"query": "image", "codes": "hashed", "n_pairs": 9, "calibration_error": 0.1, "brier": 0.1, "share": 0.2}


@pytest.mark.parametrize(
    "change", [{"brier": True}, {"n_pairs": 0.5}, {"codes": 1}, {"share": 10**400}, {"more": None}]
)
def test_what_cannot_be_read_says_nothing(tmp_path: Path, change: dict[str, object]) -> None:
    file = tmp_path / "measured.json"
    assert read_measured(tmp_path) == Measured([], [])
    file.write_text(json.dumps({"qualities": [], "calibration_reports": [ROW]}))
    assert len(read_measured(tmp_path).calibration_reports) == 1
    damaged = ROW | change if "more" not in change else {"query": "image"}
    for content in (
        json.dumps({"qualities": [], "calibration_reports": [damaged]}),
        "[" * 10_000,
        "{}",
        '{"qualities": {}}',
        "[1]",
    ):
        file.write_text(content)
        assert read_measured(tmp_path) == Measured([], [])
    file.write_text(json.dumps({"qualities": [], "calibration_reports": [ROW]}).replace("0.1", "NaN"))
    assert read_measured(tmp_path) == Measured([], [])
