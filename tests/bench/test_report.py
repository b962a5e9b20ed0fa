"""Reports are self-contained pages that a browser can open."""

from __future__ import annotations

import base64
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from dlfh.bench import report
from dlfh.bench.plan import Section
from dlfh.bench.report import Report
from dlfh.bench.tables import ReportTable, Summary, TableRow
from tests.bench.faked import figure


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(report, "describe_machine", lambda: {"processor": "a <machine>", "versions": {}})
    entry = Summary(0.5, 0.1, 2, True)
    table = ReportTable("map", "MAP <&>", (("image → text", "16"),), (TableRow("DLFH", (entry,)),))
    sections = [Section("one", "One", ("A <paragraph>.",), (table, replace(table, key="more"), figure()))]
    return Report("Report", ["lead"], sections, 'methods = ["DLFH"]\n').to_html()


def test_a_report_refers_to_nothing_outside_itself(page: str) -> None:
    assert "<script" not in page
    for target in re.findall(r'(?:href|src|url)\s*[=(]\s*"?([^"\s>)]+)', page):
        assert target.startswith(("#", "data:image/svg+xml;base64,")), target
    assert "http" not in page
    for anchor in re.findall(r'href="#([^"]+)"', page):
        assert f'id="{anchor}"' in page
    for encoded in re.findall(r"base64,([A-Za-z0-9+/=]+)", page):
        svg = base64.b64decode(encoded).decode()
        assert not re.findall(r'href="(?!#)', svg)
    assert "A &lt;paragraph&gt;." in page
    assert "a &lt;machine&gt;" in page


def test_a_report_opens_in_a_browser_without_errors(page: str, tmp_path: Path, chromium: str) -> None:
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", f"file://{tmp_path / 'report.html'}"]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "<strong>0.500</strong>" in seen
    assert seen.count("<figure") == 3
