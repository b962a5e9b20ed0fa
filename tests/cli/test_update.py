"""The `dlfh sync` command, once and with --watch."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dlfh.cli import main
from dlfh.cli.update import Watch
from tests.cli.conftest import COLUMNS


@pytest.fixture
def workspace(photos: Path, shop: Path, tmp_path: Path) -> Path:
    """Return a folder with a copy of the photos and their collection."""
    shutil.copytree(photos, tmp_path / photos.name)
    shutil.copytree(shop, tmp_path / "cli" / "shop")
    (tmp_path / photos.name).rename(tmp_path / "photos")
    return tmp_path


def arguments(place: Path, *more: str) -> list[str]:
    return ["sync", str(place / "cli" / "shop"), str(place / "photos" / "items.csv"), *COLUMNS, *more]


def synced(place: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, object]:
    capsys.readouterr()
    assert main(arguments(place, "--json", *more)) == 0
    return json.loads(capsys.readouterr().out)


def test_sync_applies_the_changes_of_a_table(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = synced(workspace, capsys)  # the images have moved since the build, with the same content
    assert first["described"] == {"image": 2, "text": 0}  # two are unreadable, and may have been repaired
    table = workspace / "photos" / "items.csv"
    lines = table.read_text(encoding="utf-8").splitlines()
    lines[2] = lines[2].replace("level stripes", "lying stripes")
    del lines[20]
    table.write_text("\n".join(lines), encoding="utf-8")
    planned = synced(workspace, capsys, "--dry-run")
    second = synced(workspace, capsys)
    assert {**planned, "dry_run": False, "problems": second["problems"]} == second
    assert (second["added"], second["updated"], second["removed"]) == ([], ["1.png"], ["19.png"])
    assert second["described"] == {"image": 0, "text": 1}
    assert main(arguments(workspace)) == 0
    assert "0 added, 0 updated, 0 removed, " in capsys.readouterr().out


def test_invalid_options_are_rejected(workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, message in (
        (["--interval", "0"], "must be positive"),
        (["--max-removed", "2"], "must be between 0 and 1"),
    ):
        assert main(arguments(workspace, *options)) == 2
        assert message in capsys.readouterr().err


def test_watch_waits_until_files_stop_changing(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    polls: list[int] = []

    def files() -> list[Path]:
        polls.append(1)
        if len(polls) in (3, 4):  # while it is being written
            file.write_bytes(b"." * len(polls))
        return [file]

    watch = Watch(files, interval=0.001)
    watch.poll()
    watch.wait()
    assert len(polls) == 5
    assert not watch.poll()
    watch.reset()
    assert watch.poll()


def test_files_that_never_stop_changing_are_read_as_they_are(tmp_path: Path) -> None:
    polls: list[Path] = []

    def files() -> list[Path]:
        polls.append(tmp_path / f"{len(polls)}.png")
        return polls

    watch = Watch(files, interval=0.001)
    watch.poll()
    watch.wait()
    assert len(polls) == 12


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_a_watching_process_follows_its_source_until_terminated(workspace: Path) -> None:
    command = [sys.executable, "-m", "dlfh", *arguments(workspace, "--watch", "--interval", "0.05", "--json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        decoder, text = json.JSONDecoder(), ""

        def next_report() -> dict[str, object]:
            nonlocal text
            while True:
                assert process.stdout is not None
                line = process.stdout.readline()
                assert line
                text += line
                if line == "}\n":
                    found, _ = decoder.raw_decode(text)
                    text = ""
                    return found

        next_report()
        table = workspace / "photos" / "items.csv"
        table.write_text(table.read_text(encoding="utf-8") + "\nnew.png,level stripes again,level", encoding="utf-8")
        assert next_report()["added"] == ["new.png"]
        time.sleep(0.2)
        shutil.copy(workspace / "photos" / "1.png", workspace / "photos" / "new.png")  # the table names it already
        later = next_report()
        assert later["updated"] == ["new.png"]
        assert later["described"] == {"image": 0, "text": 0}  # its content is that of 1.png
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
