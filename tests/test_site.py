"""The documentation site, as a browser shows it: `make test-site` builds it first."""

from __future__ import annotations

import functools
import re
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from website.checks import faults
from website.reference import command_line, reference_pages

ROOT = Path(__file__).parent.parent
SITE = ROOT / "build" / "site"
#: The start page, a guide, the API, mathematics and drawings, a table of many columns.
PAGES = ["", "search/", "api/dlfh.metrics/", "how-it-works/", "methods/"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="needs Playwright")
    with playwright.sync_playwright() as started:
        yield started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])


@pytest.mark.site
def test_every_link_anchor_and_picture_is_there_and_no_other_host_is_named() -> None:
    assert faults(SITE) == []


@pytest.mark.site
@pytest.mark.parametrize("page", PAGES)
def test_pages_contact_no_other_host_log_no_error_and_fit_narrow_screens(page: str, address: str, browser: Any) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 800})
    tab = context.new_page()
    asked: list[str] = []
    said: list[str] = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("console", lambda message: said.append(message.text) if message.type == "error" else None)
    tab.goto(address + page)
    tab.wait_for_load_state("networkidle")
    assert [url for url in asked if not url.startswith((address, "data:"))] == []
    assert said == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


@pytest.mark.site
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("page", PAGES)
def test_axe_finds_no_serious_fault(page: str, scheme: str, address: str, browser: Any) -> None:
    axe = axe_source()
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)
    tab = context.new_page()
    tab.goto(address + page)
    tab.wait_for_load_state("networkidle")
    tab.evaluate(axe)
    found = tab.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    serious = [
        (each["id"], [node["target"] for node in each["nodes"]][:5])
        for each in found
        if each["impact"] in ("serious", "critical")
    ]
    assert serious == []
    context.close()


def axe_source() -> str:
    """Return what checks a page's accessibility, from the package that brings it."""
    package = pytest.importorskip("axe_playwright_python.base", reason="needs axe-playwright-python")
    return Path(package.AXE_FILE_PATH).read_text(encoding="utf-8")


@pytest.mark.site
def test_mathematics_is_set_and_search_finds(address: str, browser: Any) -> None:
    tab = browser.new_page()
    tab.goto(address + "how-it-works/")
    tab.wait_for_load_state("networkidle")
    assert tab.locator(".arithmatex").count() >= 3
    assert tab.locator(".arithmatex .katex-html").count() == tab.locator(".arithmatex").count()
    assert tab.locator(".katex-error").count() == 0
    assert tab.locator("figure.drawing svg[role=img]").count() == 5
    tab.close()


def test_the_navigation_has_every_page_of_the_docs_once() -> None:
    listed = re.findall(r"^\s+- (?:[^:\n]+: )?([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE)
    assert len(listed) == len(set(listed))
    generated = {"command-line.md", *(f"api/{door}.md" for door in reference_pages())}
    generated |= {f"notebooks/{file.stem.replace('_', '-')}.md" for file in ROOT.glob("examples/notebooks/*.py")}
    root = {"contributing.md", "security.md", "releasing.md", "changelog.md"}
    there = {file.name for file in (ROOT / "docs").glob("*.md")}
    assert set(listed) == there | generated | root


def test_the_command_line_is_documented_by_its_own_help() -> None:
    page = command_line()
    for command in ("build", "search", "evaluate", "serve", "add", "bench", "tune"):
        assert re.search(rf"^##+ `dlfh {command}`$", page, re.MULTILINE)
    assert "| `--output`, `-o` |" in page
    assert "[b]" not in page
