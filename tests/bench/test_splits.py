from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from dlfh.bench.cells import SplitSpec
from dlfh.bench.data import Source
from dlfh.bench.splits import compare_splits, splits_of
from dlfh.cli import main
from dlfh.datasets import make_paired


@pytest.fixture
def source() -> Source:
    return Source.of("generated", {"all": make_paired(60, random_state=0)})


def test_split_rows_are_the_queries_of_an_experiment(source: Source) -> None:
    rows = splits_of(source, seeds=3, queries=20)["queries"]
    for seed in range(3):
        queries = source.split(SplitSpec(seed=seed, queries=20)).queries
        for name, matrix in queries.modalities.items():
            whole = source.parts["all"].modalities[name][rows[str(seed)]]
            assert (np.asarray(matrix != whole).sum() if isinstance(matrix, np.ndarray) else (matrix != whole).nnz) == 0


def test_other_data_and_other_splits_are_detected(source: Source) -> None:
    published = json.loads(json.dumps(splits_of(source, seeds=2, queries=20)))
    assert compare_splits(published, source) == []
    other = Source.of("generated", {"all": make_paired(60, random_state=1)})
    assert any("labels" in difference for difference in compare_splits(published, other))
    published["queries"]["1"][0] += 1
    assert compare_splits(published, source) == ["queries differ (queries)"]


def test_written_splits_compare_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_paired(60, random_state=0).write(tmp_path / "data.npz")
    command = ["bench", "splits", str(tmp_path / "data.npz")]
    assert main([*command, "-o", str(tmp_path / "splits.json")]) == 0
    assert main([*command, "--check", str(tmp_path / "splits.json")]) == 0
    assert main([*command, "-o", str(tmp_path / "splits.json")]) == 2  # it exists
    (tmp_path / "splits.json").write_text("{}", encoding="utf-8")
    assert main([*command, "--check", str(tmp_path / "splits.json")]) == 2
    assert "not a splits file" in capsys.readouterr().err
