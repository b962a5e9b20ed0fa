"""`dlfh evaluate` on codes in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh.cli import main
from dlfh.codes import random_codes
from dlfh.datasets.parquet import write_parquet
from dlfh.metrics import evaluate

MEASURES = ["AP", "P@10", 'P(match="all")@3', "nDCG@10", "PR"]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, ...]:
    """Write codes of two modalities as `dlfh encode` does, query codes, and the labels of both."""
    rng = np.random.default_rng(0)
    codes = {name: random_codes(rng, 90, 16) for name in ("image", "text")}
    (tmp_path / "codes.parquet").mkdir()
    for part in range(3):
        rows = {name: matrix[30 * part : 30 * part + 30] for name, matrix in codes.items()}
        path = tmp_path / "codes.parquet" / f"part-{part:06}.parquet"
        path.write_bytes(write_parquet(rows))
    queries = random_codes(rng, 7, 16)
    query_labels, labels = ((rng.random((n, 5)) < 0.3).astype(np.int8) for n in (7, 90))
    for name, array in (("queries", queries), ("query_labels", query_labels), ("labels", labels)):
        np.save(tmp_path / f"{name}.npy", array)
    (tmp_path / "labels.parquet").write_bytes(write_parquet({"labels": sp.csr_array(labels)}))
    monkeypatch.chdir(tmp_path)
    return queries, codes["image"], query_labels, labels


def command(*changes: str) -> list[str]:
    labels = ["--query-labels", "query_labels.npy", "--database-labels", "labels.npy"]
    return ["evaluate", "codes.parquet:image", "queries.npy", *labels, *changes]


@pytest.mark.parametrize("ties", ["order", "expected"])
def test_codes_in_files_are_evaluated_like_arrays(
    files: tuple[Any, ...], capsys: pytest.CaptureFixture[str], ties: Any
) -> None:
    expected = evaluate(*files, measures=MEASURES, ties=ties)
    options = [f"--measure={name}" for name in MEASURES] + ["--ties", ties]
    assert main(command(*options)) == 0
    assert capsys.readouterr().out.strip() == repr(expected)
    assert main(command(*options, "--json")) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["queries"], found["items"], found["ties"]) == (7, 90, ties)
    np.testing.assert_allclose(found["measures"]["PR"]["recall"], expected["PR"].recall, rtol=1e-12)
    assert found["measures"]["nDCG@10"] == pytest.approx(expected["nDCG@10"], rel=1e-12)


def test_labels_may_have_other_blocks_and_ap_is_the_default(
    files: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    queries, images, query_labels, labels = files
    np.save("images.npy", images)
    options = ["--query-labels", "query_labels.npy", "--database-labels", "labels.parquet"]
    assert main(["evaluate", "images.npy", "queries.npy", *options]) == 0
    assert capsys.readouterr().out.strip() == repr(evaluate(queries, images, query_labels, labels, measures="AP"))


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--measure", "MAP"], "unknown measure 'MAP'"),
        (["--measure", "AP@91"], "the database has only 90 items"),
        (["--ties", "random"], "ties must be one of 'order', 'expected'"),
        (["--query-labels", "nothing.npy"], "cannot read nothing.npy: no such file or folder"),
        (["--query-labels", "labels.npy"], "query_labels has 90 rows but there are 7 queries"),
        (["--database-labels", "query_labels.npy"], "query_labels.npy has 7 rows"),
        (["--cluster", "nowhere://x"], "no Dask scheduler answers"),
    ],
)
def test_invalid_input_gets_one_line(changes: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "--cluster" in changes:
        pytest.importorskip("distributed")
    assert main(command(*changes)) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert captured.out == ""


@pytest.mark.usefixtures("files")
def test_a_file_with_several_columns_needs_a_name(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = [each.removesuffix(":image") for each in command()]
    assert main(wrong) == 2
    assert "has 2 columns: select one of 'image', 'text'" in capsys.readouterr().err


@pytest.mark.cluster
@pytest.mark.filterwarnings("ignore")
def test_a_cluster_gives_the_same_values(files: tuple[Any, ...], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("distributed")
    assert main(command("--measure", "AP", "--measure", "PR", "--cluster", "local")) == 0
    assert capsys.readouterr().out.strip() == repr(evaluate(*files, measures=["AP", "PR"]))
