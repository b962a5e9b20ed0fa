"""`dlfh evaluate` on codes in files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp

from dlfh.cli import main
from dlfh.codes import pack, random_codes, unpack
from dlfh.datasets.arrow import write_parquet
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
        (["--cluster", "nowhere://x"], "no Dask scheduler responds"),
    ],
)
def test_invalid_input_gets_one_line(changes: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    if "--cluster" in changes:
        distributed = pytest.importorskip("distributed")
    assert main(command(*changes)) == 2
    if "--cluster" in changes:  # no client is left that later work would wait for
        assert distributed.client._get_global_client() is None
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


def _mat5(path: str, array: np.ndarray) -> None:
    scipy.io.savemat(path, {"codes": array})


FORMS: dict[str, tuple[str, Any]] = {
    "0 and 1, .npz": (".npz", lambda path, signs: np.savez(path, codes=signs > 0)),
    "-1 and +1, .npy": (".npy", lambda path, signs: np.save(path, signs.astype(np.float64))),
    "0 and 1 bytes, .npy": (".npy", lambda path, signs: np.save(path, (signs > 0).astype(np.uint8))),
    "-1 and +1, MATLAB 5": (".mat", lambda path, signs: _mat5(path, signs.astype(np.float64))),
    "packed, MATLAB 5": (".mat", lambda path, signs: _mat5(path, pack(signs))),
    "packed, .npz": (".npz", lambda path, signs: np.savez(path, codes=pack(signs))),
}


@pytest.mark.parametrize("form", FORMS)
def test_codes_that_other_programs_wrote_are_evaluated(
    files: tuple[Any, ...], capsys: pytest.CaptureFixture[str], form: str
) -> None:
    queries, database, query_labels, labels = files
    suffix, write = FORMS[form]
    for name, codes in (("q", queries), ("d", database)):
        write(name + suffix, unpack(codes, 16))
    scipy.io.savemat("labels.mat", {"q": query_labels, "d": labels})
    options = ["--query-labels", "labels.mat:q", "--database-labels", "labels.mat:d"]
    assert main(["evaluate", f"d{suffix}", f"q{suffix}", *options]) == 0
    assert capsys.readouterr().out.strip() == repr(evaluate(queries, database, query_labels, labels))


def test_real_valued_queries_rank_asymmetrically(files: tuple[Any, ...], capsys: pytest.CaptureFixture[str]) -> None:
    _, database, query_labels, labels = files
    values = np.random.default_rng(0).standard_normal((7, 16)).astype(np.float32)
    np.save("values.npy", values)
    np.save("images.npy", database)
    options = ["--query-labels", "query_labels.npy", "--database-labels", "labels.npy"]
    assert main(["evaluate", "images.npy", "values.npy", *options]) == 0
    assert capsys.readouterr().out.strip() == repr(evaluate(values, database, query_labels, labels))


def test_class_ids_may_be_matlab_columns(files: tuple[Any, ...], capsys: pytest.CaptureFixture[str]) -> None:
    queries, database, _, _ = files
    scipy.io.savemat(
        "codes.mat", {"q": queries, "d": database, "ql": [[i % 3] for i in range(7)], "dl": np.arange(90)[:, None] % 3}
    )
    options = ["--query-labels", "codes.mat:ql", "--database-labels", "codes.mat:dl"]
    assert main(["evaluate", "codes.mat:d", "codes.mat:q", *options]) == 0
    expected = evaluate(queries, database, np.arange(7) % 3, np.arange(90) % 3)
    assert capsys.readouterr().out.strip() == repr(expected)
