"""A service in use for a while neither leaks nor answers differently from brute force."""

from __future__ import annotations

from pathlib import Path

from tests.service.soak import run


def test_a_service_in_use_neither_leaks_nor_errs(tmp_path: Path) -> None:
    report = run(tmp_path, seconds=2)
    assert not report.findings, report.findings[:5]
    assert report.requests["200"] > 10
    assert report.compared > 0
