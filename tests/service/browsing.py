"""Browser tabs that show the search page, and record its errors and requests."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axe_playwright_python.base import AXE_FILE_PATH  # type: ignore[import-untyped]
from playwright.sync_api import Browser, ConsoleMessage, Page, Playwright, expect

from dlfh import DLFH, Collection, Encoder
from dlfh.datasets import Items, load_dataset, read_items
from dlfh.features import BagOfWords
from dlfh.features.combined import Thumbnail

#: Timeout in milliseconds, long enough for busy machines.
TIMEOUT = 30_000
expect.set_options(TIMEOUT)

#: An id that would run a script if it were parsed as HTML.
WICKED = "<img src=x onerror=document.title='wicked'>&amp;/#?"


#: Columns with the names of properties that every object in JavaScript has.
PROPERTIES = ["constructor", "toString", "__proto__", "hasOwnProperty", "length"]


def build_icons(folder: Path) -> Path:
    """Build a collection of icons with columns and a malicious id; return its folder."""
    icons = load_dataset("icons", size=64).labelled()
    table = icons.take(range(0, len(icons), 7)).write(folder / "icons")
    read = read_items(table, id="name", image="file", text="words", labels="categories")
    metadata = [
        fields | {"columns": dict.fromkeys(["row", *PROPERTIES], row % 3)} for row, fields in enumerate(read.metadata)
    ]
    ids = [WICKED, *read.ids[1:]]
    items = Items(ids, read.modalities, read.labels, metadata, read.places, read.problems)
    features = {"image": Thumbnail(8), "text": BagOfWords()}
    encoder = Encoder(features, DLFH(n_bits=40, random_state=0, hash_function="linear"))
    Collection.build(folder / "icons-collection", items, encoder, hold_out=50).collection.close()
    return folder / "icons-collection"


def open_browser(playwright: Playwright, path: str) -> Browser:
    """Start the installed browser, with access to this machine only."""
    arguments = ["--no-sandbox", "--disable-gpu", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"]
    return playwright.chromium.launch(executable_path=path, args=arguments)


@dataclass
class Tab:
    """A page in a browser."""

    page: Page
    address: str
    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def go(self, search: str = "") -> Tab:
        """Open an address of the service, and wait until it is shown."""
        self.page.goto(self.address + search)
        return self.settle()

    def settle(self) -> Tab:
        self.page.wait_for_function(
            "() => document.querySelector(':is(#answers, #item, #notice, #map, #tagging):not([hidden])"
            " :is(a.card, article, .notice h2, .swatch)') && !document.querySelector('[aria-busy]')"
        )
        return self

    def type(self, text: str) -> Tab:
        """Type a query, and wait for its results."""
        self.page.locator("#text").press_sequentially(text, delay=5)
        expect(self.page.locator("#heading")).to_have_text(f"Results for {text}")
        return self.settle()

    @property
    def ids(self) -> list[str]:
        """Ids of the results, in their order."""
        ids: list[str] = self.page.eval_on_selector_all(
            "#answers a.card", "cards => cards.map(card => card.dataset.id)"
        )
        return ids

    @property
    def search(self) -> str:
        return self.page.url.removeprefix(self.address)

    def texts(self, selector: str) -> list[str]:
        return self.page.locator(selector).all_text_contents()

    def bring(self, kind: str, picture: bytes, name: str = "picture.png", of: str = "image/png") -> Tab:
        """Drop or paste a file."""
        self.page.evaluate(
            """([kind, content, name, type]) => {
                const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
                const brought = new DataTransfer();
                brought.items.add(new File([bytes], name, { type }));
                const options = { bubbles: true, cancelable: true };
                document.body.dispatchEvent(kind === "paste"
                    ? new ClipboardEvent("paste", { ...options, clipboardData: brought })
                    : new DragEvent(kind, { ...options, dataTransfer: brought }));
            }""",
            [kind, base64.b64encode(picture).decode(), name, of],
        )
        return self

    def drop(self, files: dict[str, bytes]) -> Tab:
        """Drop several files."""
        self.page.evaluate(
            """(files) => {
                const brought = new DataTransfer();
                for (const [name, content] of Object.entries(files)) {
                    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
                    const type = name.endsWith(".png") ? "image/png" : "text/plain";
                    brought.items.add(new File([bytes], name, { type }));
                }
                const options = { bubbles: true, cancelable: true, dataTransfer: brought };
                document.body.dispatchEvent(new DragEvent("drop", options));
            }""",
            {name: base64.b64encode(content).decode() for name, content in files.items()},
        )
        return self

    def wait_for_another_map(self, before: bytes) -> None:
        """Wait until the map has been redrawn."""
        for _ in range(TIMEOUT // 100):
            if self.page.locator("canvas").screenshot() != before:
                return
            self.page.wait_for_timeout(100)
        raise AssertionError("the map has not changed")

    def faults(self) -> list[str]:
        """Return the serious and critical accessibility violations that axe reports."""
        if not self.page.evaluate("typeof axe === 'object'"):
            self.page.evaluate(Path(AXE_FILE_PATH).read_text(encoding="utf-8"))
        # Results are pale while a search replaces them.
        self.page.wait_for_function("!document.querySelector('.answers[aria-busy=\"true\"]')")
        report: dict[str, Any] = self.page.evaluate("axe.run({ resultTypes: ['violations'] })")
        return [
            f"{rule['impact']}: {rule['help']}: {[node['html'][:200] for node in rule['nodes'][:3]]}"
            for rule in report["violations"]
            if rule["impact"] in ("serious", "critical")
        ]

    def is_wider_than_the_screen(self) -> bool:
        wide: bool = self.page.evaluate("document.scrollingElement.scrollWidth > innerWidth")
        return wide

    def forgive(self, message: str) -> None:
        """Remove expected errors from the list; at least one must have occurred."""
        assert any(message in error for error in self.errors), self.errors
        self.errors = [error for error in self.errors if message not in error]


@contextmanager
def tab(browser: Browser, address: str, **options: Any) -> Iterator[Tab]:
    """Open a tab; check at the end that it logged no errors and sent requests to its service only."""
    context = browser.new_context(**{"reduced_motion": "reduce", "viewport": {"width": 1200, "height": 800}, **options})
    context.set_default_timeout(TIMEOUT)
    opened = Tab(context.new_page(), address)

    def note(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            opened.errors.append(message.text)

    opened.page.on("console", note)
    opened.page.on("pageerror", lambda error: opened.errors.append(str(error)))
    context.on("request", lambda request: opened.requests.append(request.url))
    try:
        yield opened
        assert opened.errors == [], opened.errors
        assert [url for url in opened.requests if not url.startswith((address, "blob:" + address, "data:"))] == []
    finally:
        context.close()
