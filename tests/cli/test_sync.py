"""The command that makes a collection equal to a folder or a table, and goes on if asked to."""

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
from dlfh.cli.sync import Watch
from tests.cli.conftest import COLUMNS


@pytest.fixture
def mine(photos: Path, shop: Path, tmp_path: Path) -> Path:
    """The photos and their collection, to be changed."""
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


def test_a_table_is_synced_by_what_changed_in_it(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = synced(mine, capsys)  # pictures are elsewhere than when the collection was made: paths, not contents
    assert first["described"] == {"image": 2, "text": 0}  # two are broken, and may have been mended
    table = mine / "photos" / "items.csv"
    lines = table.read_text(encoding="utf-8").splitlines()
    lines[2] = lines[2].replace("level stripes", "lying stripes")
    del lines[20]
    table.write_text("\n".join(lines), encoding="utf-8")
    planned = synced(mine, capsys, "--dry-run")
    second = synced(mine, capsys)
    assert {**planned, "dry_run": False, "problems": second["problems"]} == second
    assert (second["added"], second["updated"], second["removed"]) == ([], ["1.png"], ["19.png"])
    assert second["described"] == {"image": 0, "text": 1}
    assert main(arguments(mine)) == 0
    assert "0 added, 0 updated, 0 removed, " in capsys.readouterr().out


def test_wrong_options_are_said_in_a_sentence(mine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for options, words in (
        (["--interval", "0"], "must be positive"),
        (["--max-removed", "2"], "must be between 0 and 1"),
    ):
        assert main(arguments(mine, *options)) == 2
        assert words in capsys.readouterr().err


def test_a_watched_folder_is_synced_again_when_it_has_come_to_rest(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    looks: list[int] = []

    def files() -> list[Path]:
        looks.append(1)
        if len(looks) in (3, 4):  # it is being written
            file.write_bytes(b"." * len(looks))
        return [file]

    watch = Watch(files, interval=0.001)
    watch.poll()
    watch.wait()
    assert len(looks) == 5
    assert not watch.poll()
    watch.reset()
    assert watch.poll()


def test_what_never_comes_to_rest_is_taken_as_it_is(tmp_path: Path) -> None:
    looks: list[Path] = []

    def files() -> list[Path]:
        looks.append(tmp_path / f"{len(looks)}.png")
        return looks

    watch = Watch(files, interval=0.001)
    watch.poll()
    watch.wait()
    assert len(looks) == 12


@pytest.mark.skipif(os.name == "nt", reason="needs signals")
def test_a_watching_process_follows_its_source_and_leaves_when_it_is_told(mine: Path) -> None:
    command = [sys.executable, "-m", "dlfh", *arguments(mine, "--watch", "--interval", "0.05", "--json")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        decoder, text = json.JSONDecoder(), ""

        def said() -> dict[str, object]:
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

        said()
        table = mine / "photos" / "items.csv"
        table.write_text(table.read_text(encoding="utf-8") + "\nnew.png,level stripes again,level", encoding="utf-8")
        assert said()["added"] == ["new.png"]
        time.sleep(0.2)
        shutil.copy(mine / "photos" / "1.png", mine / "photos" / "new.png")  # a picture that the table waited for
        later = said()
        assert later["updated"] == ["new.png"]
        assert later["described"] == {"image": 0, "text": 0}  # it is that of 1.png
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 130
