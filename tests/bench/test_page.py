"""The report as one page: closed in itself, and readable by a browser."""

from __future__ import annotations

import base64
import re
import subprocess
from dataclasses import replace
from pathlib import Path

from dlfh.bench.page import to_page
from dlfh.bench.plan import Section
from dlfh.bench.tables import Entry, ReportTable, TableRow
from tests.bench.faked import figure


def page() -> str:
    table = ReportTable("map", "MAP <&>", (("image → text", "16"),), (TableRow("DLFH", (Entry(0.5, 0.1, 2, True),)),))
    sections = [Section("one", "One", ("A <paragraph>.",), (table, replace(table, key="more"), figure()))]
    return to_page("Report", ["lead"], sections, {"processor": "a <machine>"}, 'methods = ["DLFH"]\n')


def test_the_report_refers_to_nothing_outside_itself() -> None:
    html = page()
    assert "<script" not in html
    for target in re.findall(r'(?:href|src|url)\s*[=(]\s*"?([^"\s>)]+)', html):
        assert target.startswith(("#", "data:image/svg+xml;base64,")), target
    assert "http" not in html
    for anchor in re.findall(r'href="#([^"]+)"', html):
        assert f'id="{anchor}"' in html
    for encoded in re.findall(r"base64,([A-Za-z0-9+/=]+)", html):
        svg = base64.b64decode(encoded).decode()
        assert not re.findall(r'href="(?!#)', svg)
    assert "A &lt;paragraph&gt;." in html
    assert "a &lt;machine&gt;" in html


def test_the_report_opens_in_a_browser_without_errors(tmp_path: Path, chromium: str) -> None:
    (tmp_path / "report.html").write_text(page(), encoding="utf-8")
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", f"file://{tmp_path / 'report.html'}"]
    seen = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "<strong>0.500</strong>" in seen
    assert seen.count("<figure") == 3
