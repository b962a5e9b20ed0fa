"""The prompt of `dlfh search`: one query per line, from a terminal or a pipe."""

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

import pytest

from dlfh import Collection
from dlfh.cli import main


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
