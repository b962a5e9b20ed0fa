"""Codes written block by block are those of the whole data, byte for byte, however often a run is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh import DLFH
from dlfh._persistence.files import replace_file
from dlfh.blocks import dask as clusters
from dlfh.blocks import open_blocks
from dlfh.cli import main
from dlfh.collection import block_codes
from dlfh.datasets import write_arrays

pytest.importorskip("pyarrow")


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, DLFH, dict[str, Any]]:
    """Write a model, and twelve files of 50 points with dense and sparse vectors and an unrelated column."""
    folder = tmp_path_factory.mktemp("blocks")
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 8)).astype(np.float32)
    data: dict[str, Any] = {"image": X, "text": sp.csr_array(np.where(X > 0.5, X, 0))}
    model = DLFH(16, hash_function="linear", random_state=0).fit(data, X.argmax(axis=1))
    model.save(folder / "model")
    (folder / "data.parquet").mkdir()
    for start in range(0, 600, 50):
        rows = slice(start, start + 50)
        part = {name: own[rows] for name, own in data.items()} | {"price": np.arange(50)}
        write_arrays(folder / "data.parquet" / f"{start:04}.parquet", part)
    return folder, model, data


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def command(folder: Path, output: Path, *more: str) -> list[str]:
    return ["encode", str(folder / "model"), str(folder / "data.parquet"), "-o", str(output), "-q", *more]


def test_codes_of_blocks_are_those_of_the_whole(
    scene: tuple[Path, DLFH, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, model, data = scene
    assert main(command(folder, tmp_path / "codes.parquet")) == 0
    assert "600 codes for image, text in 12 blocks" in capsys.readouterr().out
    for name, own in data.items():
        codes = np.asarray(open_blocks(tmp_path / "codes.parquet", name))
        np.testing.assert_array_equal(codes, model.encode(name, own))
    only = ["--real", "--vectors", "image=image"]
    assert main(command(folder, tmp_path / "real.parquet", *only)) == 0
    real = np.asarray(open_blocks(tmp_path / "real.parquet"))
    np.testing.assert_allclose(real, model.project("image", data["image"]), atol=1e-5)
    np.save(tmp_path / "x.npy", data["image"])
    from_file = ["encode", str(folder / "model"), "--vectors", f"image={tmp_path / 'x.npy'}"]
    assert main([*from_file, "-o", str(tmp_path / "one.parquet")]) == 0
    np.testing.assert_array_equal(
        np.asarray(open_blocks(tmp_path / "one.parquet")), model.encode("image", data["image"])
    )


def test_a_failed_run_resumes_to_the_same_bytes(
    scene: tuple[Path, DLFH, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder, _, _ = scene
    assert main(command(folder, tmp_path / "whole.parquet")) == 0
    written: list[Path] = []

    def full(path: Path, parts: Any) -> None:
        if len(written) > 4:
            raise OSError(28, "No space left on device", str(path))
        written.append(path)
        replace_file(path, parts)

    with monkeypatch.context() as patch:
        patch.setattr(block_codes, "replace_file", full)
        assert main(command(folder, tmp_path / "codes.parquet")) == 2
    before = content(tmp_path / "codes.parquet")
    assert len(before) == 5
    capsys.readouterr()
    assert main(command(folder, tmp_path / "codes.parquet")) == 0
    assert "4 of them from an earlier run" in capsys.readouterr().out
    assert content(tmp_path / "codes.parquet") == content(tmp_path / "whole.parquet")
    assert main(command(folder, tmp_path / "codes.parquet")) == 2
    assert "use --overwrite to replace it" in capsys.readouterr().err
    assert main(command(folder, tmp_path / "codes.parquet", "--overwrite")) == 0
    assert content(tmp_path / "codes.parquet") == content(tmp_path / "whole.parquet")


def test_errors_are_one_sentence_and_leave_no_files(
    scene: tuple[Path, DLFH, dict[str, Any]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(clusters, "_TIMEOUT", 0.3)
    folder, _, data = scene
    output = tmp_path / "codes.parquet"
    np.save(tmp_path / "narrow.npy", data["image"][:, 1:])
    np.save(tmp_path / "short.npy", data["image"][:70])
    broken = tmp_path / "broken.parquet"
    broken.mkdir()
    (broken / "0.parquet").write_bytes(b"PAR1 and nothing else")
    model = ["encode", str(folder / "model")]
    source = str(folder / "data.parquet")
    for arguments, said in (
        ([*model, "--vectors", f"image={tmp_path / 'narrow.npy'}"], "the model expects 8 features"),
        ([*model, source, "--vectors", "image=price"], "has shape (600,)"),
        ([*model, source, "--vectors", "sound=image"], "unknown modality 'sound'"),
        ([*model, source, "--vectors", f"image={tmp_path / 'short.npy'}", "--vectors", "text=text"], "rows but"),
        ([*model, str(broken)], "it is damaged, truncated or not a Parquet table"),
        ([*model, str(tmp_path / "nowhere.parquet")], "no such file or folder"),
        ([*model, source, "--id", "price"], "--id does not apply"),
        ([*model], "no input: name a file"),
        ([*model, source, "--cluster", "tcp://127.0.0.1:1"], "no Dask scheduler responds at 'tcp://127.0.0.1:1'"),
    ):
        if "--cluster" in arguments:
            pytest.importorskip("distributed")
        assert main([*arguments, "-o", str(output), "-q"]) == 2, arguments
        error = capsys.readouterr().err
        assert said in error
        assert "Traceback" not in error
        assert not output.exists()
    output.mkdir()
    (output / "mine.txt").write_text("mine")
    assert main(command(folder, output, "--overwrite")) == 2
    assert "the folder has other contents" in capsys.readouterr().err
    assert content(output) == {"mine.txt": b"mine"}
    assert main([*command(folder, tmp_path / "codes.npz"), "--cluster", "local"]) == 2
    assert "--cluster requires an output folder" in capsys.readouterr().err


def test_a_run_on_other_data_is_not_resumed(
    scene: tuple[Path, DLFH, dict[str, Any]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, _, data = scene
    np.save(tmp_path / "x.npy", data["image"])
    arguments = ["encode", str(folder / "model"), "--vectors", f"image={tmp_path / 'x.npy'}"]
    arguments += ["-o", str(tmp_path / "codes.parquet"), "-q"]
    assert main(arguments) == 0
    before = content(tmp_path / "codes.parquet")
    np.save(tmp_path / "x.npy", -data["image"])
    assert main(arguments) == 2
    assert "codes of other data or another model" in capsys.readouterr().err
    assert content(tmp_path / "codes.parquet") == before
    assert main([*arguments, "--overwrite"]) == 0
    assert content(tmp_path / "codes.parquet") != before


@pytest.mark.cluster
@pytest.mark.parametrize("where", [[], ["--cluster", "local"]])
def test_a_killed_run_resumes_to_the_same_bytes(
    scene: tuple[Path, DLFH, dict[str, Any]], tmp_path: Path, where: list[str]
) -> None:
    """SIGKILL arrives while blocks are written."""
    folder, _, _ = scene
    many = tmp_path / "many.parquet"
    many.mkdir()
    for number in range(40):
        for part in (folder / "data.parquet").iterdir():
            os.link(part, many / f"{number:02}-{part.name}")
    arguments = ["encode", str(folder / "model"), str(many), "-q", *where]
    assert main(["encode", str(folder / "model"), str(many), "-q", "-o", str(tmp_path / "whole.parquet")]) == 0
    output, kills = tmp_path / "codes.parquet", 0
    while True:
        before = len(list(output.glob("part-*"))) if output.exists() else 0
        running = subprocess.Popen([sys.executable, "-m", "dlfh", *arguments, "-o", str(output)])
        while running.poll() is None and (not output.exists() or len(list(output.glob("part-*"))) < before + 170):
            time.sleep(0.001)
        if running.poll() is not None:
            break
        running.send_signal(signal.SIGKILL)
        running.wait()
        kills += 1
        time.sleep(1)  # a killed command's workers notice that they are alone
    assert running.returncode == 0
    assert kills >= 2
    assert content(output) == content(tmp_path / "whole.parquet")
