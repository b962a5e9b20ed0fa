"""Screenshots of the search page for the docs, with the demo's icons: ``make screenshots``."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from tests.service.browsing import Tab, open_browser, tab
from tests.service.conftest import TOKEN, serving

WIDE = {"viewport": {"width": 1280, "height": 860}}
NARROW = {"viewport": {"width": 390, "height": 844}, "has_touch": True}
QUERY = "?q=chess+game"
MAX_BYTES = 300_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--demo", type=Path, default=Path("demo-output"), help="output folder of the demo")
    parser.add_argument("--output", type=Path, default=Path("docs/images"), help="folder for the screenshots")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("screenshots need Chromium")

    def look_closer(page: Page) -> None:
        box = page.locator("canvas").bounding_box()
        assert box
        x, y = box["x"] + 0.42 * box["width"], box["y"] + 0.5 * box["height"]
        page.mouse.move(x, y)
        page.mouse.wheel(0, -260)

    def select(page: Page) -> None:
        for place in (0, 1, 3):
            row = page.locator("#answers li[data-id]").nth(place)
            row.hover()
            row.locator(".tool.select").click()
        page.mouse.move(8, 500)

    def choose(page: Page) -> None:
        page.wait_for_selector(".tag-card")
        while not page.locator(".choice").count():  # items without suggestions
            page.keyboard.press("s")
        page.keyboard.press("1")

    def open_the_panel(page: Page) -> None:
        page.keyboard.press("d")
        page.click("#to-menu")
        page.click("#to-about")
        page.evaluate("document.querySelector('#about').scrollTop = 560")

    pictures: dict[str, tuple[str, dict[str, Any], Callable[[Page], None] | None]] = {
        "page": (QUERY, WIDE, None),
        "page-start": ("", WIDE, None),
        "page-item": (f"{QUERY}&item=chess-king", WIDE, None),
        "page-dark": (QUERY, WIDE | {"color_scheme": "dark"}, None),
        "page-narrow": (QUERY, NARROW, None),
        "page-editing": (QUERY, WIDE, select),
        "page-label": ("?view=label", WIDE, choose),
        "page-map": ("?view=map", WIDE, look_closer),
        "page-about": (QUERY, WIDE, open_the_panel),
    }
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        collection = Path(shutil.copytree(arguments.demo / "collection", Path(folder) / "icons"))
        options = "--writable", "--public"
        with serving(
            collection, Path(folder) / "log", *options, token=TOKEN, pictures=arguments.demo / "icons"
        ) as running:
            browser = open_browser(playwright, chromium)
            for name, (search, settings, act) in pictures.items():
                with tab(browser, running.address, **settings) as opened:
                    if act in (select, choose):  # the others show what visitors without a key see
                        opened.page.add_init_script(f"sessionStorage.setItem('dlfh-token', '{TOKEN}')")
                    opened.go(search)
                    if act:
                        act(opened.page)
                    (arguments.output / f"{name}.png").write_bytes(take(opened))
            browser.close()


def take(opened: Tab) -> bytes:
    """Return a screenshot of the loaded page, with 256 colours if it would be too large."""
    opened.settle().page.evaluate("document.activeElement.blur()")
    opened.page.wait_for_load_state("networkidle")
    opened.page.wait_for_timeout(1000)
    image = Image.open(BytesIO(opened.page.screenshot())).convert("RGB")
    for smaller in (image, image.quantize(256, Image.Quantize.FASTOCTREE)):
        content = BytesIO()
        smaller.save(content, "PNG", optimize=True)
        if content.tell() <= MAX_BYTES:
            break
    return content.getvalue()


if __name__ == "__main__":
    main()
