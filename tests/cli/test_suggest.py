"""The `dlfh suggest` command: a table, files, and errors."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from dlfh import Collection
from dlfh.cli import main
from dlfh.collection.marks import read_marks


def test_suggestions_are_printed_and_written(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Collection.open(shop) as collection:
        found = collection.suggest(precision=0.6)
    assert [(each.id, each.label) for each in found] == [("7.png", "level")]
    assert main(["suggest", str(shop), "--precision", "0.6"]) == 0
    shown = capsys.readouterr().out
    assert "7.png" in shown
    assert found.summary in " ".join(shown.split())
    assert main(["suggest", str(shop), "--precision", "0.6", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found.to_dict()
    for name in ("tags.csv", "tags.json", "tags.parquet"):
        assert main(["suggest", str(shop), "--precision", "0.6", "--output", str(tmp_path / name)]) == 0
        assert capsys.readouterr().out.strip() == found.summary
    rows = [*csv.DictReader((tmp_path / "tags.csv").read_text(encoding="utf-8").splitlines())]
    assert [row["label"] for row in rows] == ["level"]
    assert main(["suggest", str(shop), "--ids", "8.png"]) == 0
    assert "0 labels suggested" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--precision", "1"], "precision must be a number greater than 0 and less than 1"),
        (["--output", "tags.txt"], "its name must end in .csv, .json or .parquet"),
        (["--output", "no-such-folder/tags.csv"], "no-such-folder does not exist"),
        (["--ids", "nope"], "'nope'"),
    ],
)
def test_mistakes_are_one_sentence(
    shop: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["suggest", str(shop), *options]) == 2
    assert message in capsys.readouterr().err


def test_existing_files_are_kept(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "tags.csv").write_text("mine")
    assert main(["suggest", str(shop), "--output", str(tmp_path / "tags.csv")]) == 2
    assert "it exists; use --overwrite" in capsys.readouterr().err
    assert (tmp_path / "tags.csv").read_text() == "mine"


def test_labels_are_changed_and_learned(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(shutil.copytree(shop, tmp_path / "shop"))
    assert main(["label", str(folder), "--next", "3"]) == 0
    assert capsys.readouterr().out.split() == ["7.png"]
    assert main(["label", str(folder), "7.png", "8.png", "--add", "sale", "--remove", "upright", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["changed"] == 2
    assert main(["label", str(folder), "--next", "3"]) == 0
    assert capsys.readouterr().out.strip() == "every item has labels"
    assert main(["relearn", str(folder)]) == 0
    assert "learned 3 labels from 40 of 40 items" in capsys.readouterr().out
    with Collection.open(folder) as collection:
        assert [(collection.get(name).metadata or {})["labels"] for name in ("7.png", "8.png")] == [["sale"], ["sale"]]
    assert main(["search", str(folder), "level", "--irrelevant", "9.png", "--relevant", "11.png", "--json"]) == 0
    found = [item["id"] for item in json.loads(capsys.readouterr().out)]
    assert "9.png" not in found
    assert "11.png" in found


def test_marks_are_kept_on_request(shop: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(shutil.copytree(shop, tmp_path / "shop"))
    marks = ["--irrelevant", "9.png", "--relevant", "11.png"]
    assert main(["search", str(folder), "level", *marks]) == 0
    assert read_marks(folder) == []
    for wrong in (["level", "--keep"], ["--similar", "1.png", *marks, "--keep"], [*marks, "--keep"]):
        assert main(["search", str(folder), *wrong]) == 2
        assert "--keep needs a text, --image or --query alone" in capsys.readouterr().err
    assert main(["search", str(folder), "level", *marks, "--keep"]) == 0
    (kept,) = read_marks(folder)
    assert (kept.text, kept.relevant, kept.irrelevant) == ("level", ("11.png",), ("9.png",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["1.png"], "labels with --add or --remove"),
        (["--add", "sale"], "name ids of items"),
        (["1.png", "--next", "3"], "--next only prints ids"),
        (["nope", "--add", "sale"], "'nope'"),
    ],
)
def test_mistakes_in_labels_are_one_sentence(
    shop: Path, options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["label", str(shop), *options]) == 2
    assert message in capsys.readouterr().err
