"""Progress in a log file."""

from __future__ import annotations

import pytest

from dlfh._progress import progress


def test_a_log_file_gets_a_line_at_once_and_every_ten_seconds(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr("dlfh._progress._Lines._printed", -10.0)
    monkeypatch.setattr("dlfh._progress.time.monotonic", lambda: now)
    for start, name in ((0.0, "image features"), (16.0, "codes")):  # many short tasks are one long one
        with progress(show=True) as bar:
            advance = bar.counter(name, 2000)
            for now in (start + 4.0, start + 11.0, start + 12.0):  # noqa: B007
                advance(500)
    assert capsys.readouterr().err.splitlines() == [
        "image features: 0 of 2,000",
        "image features: 1,000 of 2,000",
        "codes: 1,000 of 2,000",
    ]


def test_progress_that_is_off_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress(show=False) as bar:
        assert list(bar.track([1, 2], "items")) == [1, 2]
    assert capsys.readouterr().err == ""
