"""The `dlfh search` command: tables, pictures, vectors, single modalities and filters."""

from __future__ import annotations

import io
import json
import os
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dlfh import Collection
from dlfh.cli import main
from dlfh.datasets import make_paired, write_arrays
from dlfh.datasets.items import Items


def test_ids_are_never_truncated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"{'very/long/folders/' * number}item-{number} 猫.png" for number in range(1, 9)]
    texts = [f"{'red' if number % 2 else 'blue'} thing {'of many words ' * number}" for number in range(1, 9)]
    from dlfh import DLFH, Encoder
    from dlfh.features import BagOfWords

    items = Items.of({"text": texts, "title": texts}, [["x"], ["y"]] * 4, ids)
    encoder = Encoder(
        {"text": BagOfWords(), "title": BagOfWords()}, DLFH(n_bits=16, random_state=0, hash_function="linear")
    )
    Collection.build(tmp_path / "shop", items, encoder).collection.close()
    for width in ("30", "80", "200"):
        monkeypatch.setenv("COLUMNS", width)
        assert main(["search", str(tmp_path / "shop"), "red", "thing"]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert all(any(f" {name} " in line for line in lines) for name in ids)


def test_titles_and_captions_come_before_numbers(
    shop: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["search", str(shop), "level", "stripes", "--details"]) == 0
    header = next(line for line in capsys.readouterr().out.splitlines() if "text" in line)
    places = [header.find(name) for name in ("text", "labels", "id", "Hamming")]
    assert places == sorted(places)
    assert places[0] >= 0


@pytest.mark.parametrize("name", [None, "Name {}"])
def test_a_title_that_begins_a_text_is_not_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str | None
) -> None:
    from dlfh import DLFH, Encoder
    from dlfh.features import BagOfWords

    texts = [f"{'red' if number % 2 else 'blue'} thing {'of many words ' * 20}{number}" for number in range(8)]
    items = Items.of({"text": texts, "words": texts}, [["x"], ["y"]] * 4, [str(number) for number in range(8)])
    if name is not None:
        for number, metadata in enumerate(items.metadata):
            metadata["columns"] = {"name": name.format(number)}
    features = {"text": BagOfWords(), "words": BagOfWords()}
    encoder = Encoder(features, DLFH(n_bits=16, random_state=0, hash_function="linear"))
    Collection.build(tmp_path / "shop", items, encoder).collection.close()
    assert main(["search", str(tmp_path / "shop"), "red", "thing"]) == 0
    header = next(line for line in capsys.readouterr().out.splitlines() if "labels" in line)
    assert ("title" in header) == (name is not None)


def test_a_picture_and_a_page_are_written(
    shop: Path, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sheet = tmp_path / "found.png"
    assert main(["search", str(shop), "level <b>", "-k", "3", "--modalities", "image", "--output", str(sheet)]) == 0
    assert f"images written to {sheet} and {tmp_path / 'found.html'}\n" in capsys.readouterr().out
    page = (tmp_path / "found.html").read_text(encoding="utf-8")
    assert "<h1>text: level &lt;b&gt;</h1>" in page
    assert page.count("<figure>") == page.count("data:image/jpeg;base64,") == 3
    with Image.open(sheet) as plain:
        three = plain.size
    asked = ["search", str(shop), "--image", str(photos / "8.png"), "-k", "3", "--output", str(sheet)]
    assert main([*asked, "--overwrite"]) == 0
    assert '<figure class="query">' in (tmp_path / "found.html").read_text(encoding="utf-8")
    with Image.open(sheet) as with_query:
        assert with_query.width > three[0]
    assert main(["search", str(shop), "--similar", "8.png", "--output", str(sheet), "--overwrite"]) == 0
    assert "<h1>similar to 8.png</h1>" in (tmp_path / "found.html").read_text(encoding="utf-8")


def test_vectors_are_read_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = make_paired(n_points=80, n_labels=4, random_state=0)
    image, text = data.modalities["image"], data.modalities["text"]
    write_arrays(tmp_path / "data.npz", {"X": image, "Y": text, "L": data.labels})
    vectors = ["--vectors", "image=X", "--vectors", "text=Y", "--labels", "L"]
    shop = str(tmp_path / "shop")
    assert main(["build", str(tmp_path / "data.npz"), *vectors, "-b", "16", "-q", "-o", shop]) == 0
    np.save(tmp_path / "q.npy", image[3])
    write_arrays(tmp_path / "q.npz", {"one": text[[5]], "many": text[:2]})
    capsys.readouterr()
    with Collection.open(shop) as collection:
        for spec, query in (("image=q.npy", ("image", image[3])), ("text=q.npz:one", ("text", text[[5]].toarray()[0]))):
            name, _, file = spec.partition("=")
            assert main(["search", shop, "--query", f"{name}={tmp_path / file}", "--json"]) == 0
            assert json.loads(capsys.readouterr().out) == collection.search(*query).to_dicts()
    for spec, sentence in ((f"text={tmp_path / 'q.npz'}:many", "expected one vector"), ("text=red", "is neither")):
        assert main(["search", shop, "--query", spec]) == 2
        assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("column", ["image", "text"])
def test_items_of_one_modality_are_paired_with_their_labels(
    column: str, photos: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: object) -> Any:
        assert main([*map(str, arguments), "--json"]) == 0, capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    columns = [f"--{column}", {"image": "file", "text": "caption"}[column], "--labels", "tags"]
    shop = tmp_path / "shop"
    built = run("build", photos / "items.csv", *columns, "-b", 16, "-o", shop, "--hold-out", 8)
    assert built["items"] == {"image": 38, "text": 39}[column]
    assert {(each["query"], each["database"]) for each in built["quality"]} == {(column, column), ("label", column)}
    assert all(each["hamming"] > each["chance"] for each in built["quality"])
    # Words find items by their labels, and unlabelled items like the others.
    words = "level" if column == "image" else "level stripes"
    best = run("search", shop, words, "-k", 5)
    assert {tuple(item["metadata"].get("labels", ["level"])) for item in best} == {("level",)}
    everything = run("search", shop, words, "-k", 40)
    assert [item for item in everything if "labels" not in item["metadata"]]
    assert len(everything) == built["items"]
    assert main(["add", str(shop), str(photos / "items.csv"), *columns]) == 0
    assert "replaced" in capsys.readouterr().out
    with Collection.open(shop) as collection:
        assert collection.encoder.modalities_ == (column, "label")
        assert "label" not in (collection.get(everything[0]["id"]).metadata or {})


def test_filters_have_a_short_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "items.csv"
    rows = [f"{n},a thing {n % 3},{'red' if n % 2 else 'blue'},{n},{('Acme', 'Zeta')[n % 2]}" for n in range(40)]
    table.write_text("\n".join(["name,text,label,price,brand", *rows]), encoding="utf-8")
    columns = ["--id", "name", "--text", "text", "--labels", "label"]
    assert main(["build", str(table), *columns, "-b", "16", "-o", str(tmp_path / "shop")]) == 0
    capsys.readouterr()

    def found(*filters: str) -> set[int]:
        options = [option for text in filters for option in ("--where", text)]
        assert main(["search", str(tmp_path / "shop"), "thing", "-k", "100", "--json", *options]) == 0
        return {int(item["id"]) for item in json.loads(capsys.readouterr().out)}

    assert found("price<20", "brand=Acme") == {*range(0, 20, 2)}
    assert found("price>=38") == {38, 39}
    assert found("labels!=red") == {*range(0, 40, 2)}
    assert found("price=[1, 2, 7.0]") == {1, 2, 7}
    assert found('{"or": [{"price": {"<": 2}}, {"price": {">": 38}}]}') == {0, 1, 39}
    assert found("brand=null") == set()
    for wrong, message in (
        ("price", "--where takes NAME=VALUE"),
        ("price<<3", "--where takes NAME=VALUE"),
        ("price==3", "--where takes NAME=VALUE"),
        ("{price", "invalid JSON filter"),
        ("price<[3]", "takes one value"),
    ):
        assert main(["search", str(tmp_path / "shop"), "thing", "--where", wrong]) == 2
        assert message in capsys.readouterr().err
    assert main(["search", str(tmp_path / "shop"), "thing", "--where", "colour=red"]) == 0
    captured = capsys.readouterr()
    assert "nothing found" in captured.out
    assert "the filter names 'colour', but no item" in captured.err


def piped(monkeypatch: pytest.MonkeyPatch, lines: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines.encode("utf-8", "surrogateescape")), "utf-8"))


def test_piped_queries_get_one_line_each(
    shop: Path, photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(
        monkeypatch,
        f"level stripes\n\n:k 2\n:image {photos / '8.png'}\n:similar 8.png\n:modalities text\n:query text=upright\n",
    )
    assert main(["search", str(shop), "--json"]) == 0
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    with Collection.open(shop) as collection:
        assert answers == [
            collection.search("text", "level stripes").to_dicts(),
            collection.search("image", photos / "8.png", 2).to_dicts(),
            collection.similar("8.png", 2).to_dicts(),
            collection.search("text", "upright", 2, modalities="text").to_dicts(),
        ]


def test_an_invalid_line_is_reported_and_the_next_is_read(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wrong = (
        ":similar nobody\n:k many\n:modalities sound\nlevel\n:modalities\n"
        ":frobnicate\n:image\n:image gone.png\n:query x\ncaf\udce9 level\n"
    )
    piped(monkeypatch, wrong)
    assert main(["search", str(shop), "--json"]) == 2
    answers = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [type(answer) for answer in answers] == [dict] * 7 + [list]
    assert "'nobody' is not in the index" in answers[0]["error"]
    assert "unknown modality 'sound'" in answers[2]["error"]
    piped(monkeypatch, ":similar nobody\nlevel\n:quit\nupright\n")
    assert main(["search", str(shop), "-k", "1"]) == 2
    captured = capsys.readouterr()
    assert captured.err == "dlfh: id 'nobody' is not in the index\n"
    assert captured.out.count("level stripes") == 1


def test_no_queries_are_not_an_error(
    shop: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    piped(monkeypatch, "")
    assert main(["search", str(shop)]) == 0
    assert capsys.readouterr().out == ""


def test_a_pipe_gets_each_result_before_the_next_query(shop: Path) -> None:
    command = [sys.executable, "-m", "dlfh", "search", str(shop), "-k", "1", "--json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for words in ("level", "upright"):
            process.stdin.write(words + "\n")
            process.stdin.flush()
            assert words in json.loads(process.stdout.readline())[0]["metadata"]["text"]
        process.stdin.close()
    assert process.returncode == 0


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a pseudo-terminal")
def test_a_terminal_gets_a_prompt_and_ctrl_d_exits(shop: Path) -> None:
    ours, theirs = os.openpty()
    command = [sys.executable, "-m", "dlfh", "search", str(shop), "-k", "1"]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=os.environ | {"TERM": "dumb"})
    os.close(theirs)

    def read_until(*parts: str) -> str:
        """Return the output up to the given parts, which may arrive in pieces."""
        seen = ""
        expected = re.compile(".*".join(map(re.escape, parts)), re.DOTALL)
        deadline = time.monotonic() + 60
        while not expected.search(seen) and time.monotonic() < deadline:
            if select.select([ours], [], [], 1)[0]:
                seen += os.read(ours, 4096).decode().replace("\r", "")
        assert expected.search(seen)
        return seen

    assert "40 items" in read_until("? ")
    os.write(ours, b"level\n")
    assert "level stripes" in read_until(" ms")
    os.write(ours, b":help\n")
    read_until(":quit", "\n? ")  # before the prompt, Ctrl-D could be lost while the terminal switches modes
    os.write(ours, b"\x04")
    assert process.wait(timeout=60) == 0
    os.close(ours)
