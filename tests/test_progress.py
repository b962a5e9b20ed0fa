"""Progress in a log file."""

from __future__ import annotations

import pytest

from dlfh._progress import progress


def test_a_log_file_gets_a_line_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("dlfh._progress.time.monotonic", lambda: now)
    with progress(show=True) as bar:
        advance = bar.counter("image features", 2000)
        for now in (4.0, 11.0, 15.0, 30.0):  # noqa: B007
            advance(500)
    assert capsys.readouterr().err == "image features: 1,000 of 2,000\nimage features: 2,000 of 2,000\n"


def test_progress_that_is_off_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(show=False) as bar:
        assert list(bar.track([1, 2], "items")) == [1, 2]
    assert capsys.readouterr().err == ""
