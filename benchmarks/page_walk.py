"""Ten tasks on the search page, before and after its redesign, and its speed on a slow processor.

    python -m benchmarks.page_walk COLLECTION PICTURES --before WORKTREE --write docs/page.md

COLLECTION is of photographs with colours among their labels, PICTURES the folder of its pictures, WORKTREE a checkout
of the commit before. A browser does each task with a mouse and a keyboard. Actions are clicks, keys, drops and texts
(a typed text is one). Seconds are those of the keystroke-level model (Card, Moran and Newell 1983: 1.1 s to point,
0.2 s for a click or a key, 1.35 s to decide on each action) and the measured time until the page shows the outcome.
"""

from __future__ import annotations

import argparse
import base64
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from benchmarks.report import fill, machine

POINT, PRESS, DECIDE = 1.1, 0.2, 1.35
TOKEN = "a-token-for-the-walk"
TIMEOUT = 20_000
#: What a visitor looks for, in the photographs.
NAME, QUERY, COLOUR, LABEL = "gas freetime", "casual shoes", "Brown", "sale"
SLOWDOWN, REPEATS = 4, 5


class ImpossibleError(Exception):
    """The page cannot do the task."""


@dataclass
class Walk:
    """A page, and what a visitor did on it."""

    page: Page
    pictures: list[Path]
    is_new: bool
    actions: int = 0
    seconds: float = 0.0

    def act(self, seconds: float, work: Callable[[], Any], until: str) -> None:
        """Do something, and wait until a condition in JavaScript holds."""
        began = time.perf_counter()
        work()
        self.page.wait_for_function(f"() => {until}", timeout=TIMEOUT)
        self.actions += 1
        self.seconds += DECIDE + seconds + time.perf_counter() - began

    def click(self, selector: str, until: str, **options: Any) -> None:
        """Click an element; with ``hover``, after pointing at the one around it."""
        target = self.page.locator(selector).first
        if options.pop("hover", False):
            target.locator("xpath=..").hover()
        self.act(POINT + PRESS, lambda: target.click(**options), until)

    def type(self, selector: str, text: str, until: str) -> None:
        """Type a text into a field."""
        self.page.locator(selector).first.focus()
        self.act(POINT + PRESS * (1 + len(text)), lambda: self.page.keyboard.insert_text(text), until)

    def press(self, key: str, until: str) -> None:
        """Press a key."""
        self.act(PRESS, lambda: self.page.keyboard.press(key), until)

    def choose(self, until: str) -> None:
        """Choose a picture: a click on the button, and one in the dialog of the browser."""
        self.actions += 1
        self.seconds += DECIDE + POINT + PRESS
        self.act(POINT + PRESS, lambda: self.page.set_input_files("#file", self.pictures[0]), until)

    def drop(self, until: str) -> None:
        """Drop all pictures on the page."""
        files = {path.name: base64.b64encode(path.read_bytes()).decode() for path in self.pictures}
        self.act(2 * POINT, lambda: self.page.evaluate(_DROP, files), until)

    def new_only(self) -> None:
        """Stop if this is the page before: it could only search."""
        if not self.is_new:
            raise ImpossibleError

    def search(self, text: str) -> None:
        """Search by words."""
        self.type("#text", text, f"{_CARDS}.length > 3 && decodeURIComponent(location.search).includes('q=')")
        self.page.mouse.move(640, 300)  # to the results; this closes completions
        self.page.mouse.move(8, 500)
        self.page.wait_for_timeout(400)  # counts of labels are loaded after the results


_CARDS = "document.querySelectorAll('a.card')"
_DROP = """(files) => {
    const brought = new DataTransfer();
    for (const [name, content] of Object.entries(files)) {
        const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
        brought.items.add(new File([bytes], name, { type: "image/jpeg" }));
    }
    document.body.dispatchEvent(new DragEvent("drop", { bubbles: true, cancelable: true, dataTransfer: brought }));
}"""


def find_known(walk: Walk) -> None:
    walk.type("#text", NAME, f"{_CARDS}[0]?.textContent.toLowerCase().includes('freetime')")


def find_by_picture(walk: Walk) -> None:
    walk.choose(f"{_CARDS}.length > 3 && /(code|image)=/.test(location.search)")


def refine(walk: Walk) -> None:
    walk.search(QUERY)
    labels = f"[...document.querySelectorAll('a.card .labels')].every((each) => each.textContent.includes('{COLOUR}'))"
    done = f"location.search.includes('where') && {labels}"
    if walk.is_new:
        walk.click(f"#chosen .refine:has-text('{COLOUR}')", done)
    else:
        walk.click("#filters-toggle", "!document.querySelector('#filters').hidden")
        walk.click(f".filter .chip:has-text('{COLOUR}')", done)


def share(walk: Walk) -> None:
    """Copy the address of a question by picture; whoever opens it sees the picture and the same answers."""
    walk.choose(f"{_CARDS}.length > 3 && /(code|image)=/.test(location.search)")
    walk.page.wait_for_timeout(400)
    ids = walk.page.eval_on_selector_all("a.card", "cards => cards.slice(0, 24).map(card => card.dataset.id)")
    other = walk.page.context.browser.new_context().new_page()  # type: ignore[union-attr]
    other.add_init_script(f"sessionStorage.setItem('dlfh-token', '{TOKEN}')")
    walk.act(2 * PRESS, lambda: other.goto(walk.page.url), "true")  # two keys: address, copy
    other.wait_for_selector("a.card")
    other.wait_for_timeout(600)
    same = other.eval_on_selector_all("a.card", "cards => cards.slice(0, 24).map(card => card.dataset.id)") == ids
    seen = other.evaluate("document.querySelector('#query-source img')?.naturalWidth > 0")
    other.context.close()
    if not (same and seen):
        raise ImpossibleError


def tag_twenty(walk: Walk) -> None:
    walk.new_only()
    walk.search(QUERY)
    walk.click("#answers .tool.select", "!document.querySelector('#actions').hidden", hover=True)
    twenty = "document.querySelector('#actions strong').textContent === '20 selected'"
    walk.click("#answers li:nth-child(20) a.card", twenty, modifiers=["Shift"])
    walk.click("#edit-labels", "document.querySelector('#labels').open")
    walk.type("#labels .field", LABEL, "true")
    walk.press("Enter", f"document.querySelector('#toast').textContent.includes('Added {LABEL} to 20')")


def delete_and_undo(walk: Walk) -> None:
    walk.new_only()
    walk.search(QUERY)
    walk.click("#answers .tool.select", "!document.querySelector('#actions').hidden", hover=True)
    walk.click("#delete", "document.querySelector('#toast').textContent.includes('Deleted')")
    walk.click("#undo", "document.querySelector('#toast').textContent.includes('Undone')")


def mark_wrong(walk: Walk) -> None:
    walk.new_only()
    walk.search(QUERY)
    first = walk.page.locator("#answers a.card").first.get_attribute("data-id")
    gone = f"{_CARDS}.length > 3 && ![...{_CARDS}].some((card) => card.dataset.id === '{first}')"
    walk.click("#answers .tool.wrong", gone, hover=True)


def add_three(walk: Walk) -> None:
    walk.new_only()
    walk.drop("document.querySelector('#adding').open")
    for place in range(3):
        walk.page.fill(f"#caption-{place}", "")
        walk.type(f"#caption-{place}", f"a new photograph {place}", "true")
    walk.click("#add", "document.querySelector('#toast').textContent.includes('Added 3')")


def label_next(walk: Walk) -> None:
    walk.new_only()
    walk.click("#label-button", "document.querySelector('.tag-card .choice')")
    walk.press("1", "document.querySelector('.choice[aria-pressed=true]')")
    walk.press("Enter", "document.querySelector('#tag-progress').textContent.startsWith('2 ')")


def read_details(walk: Walk) -> None:
    walk.search(QUERY)
    walk.click(
        "#details-toggle" if walk.is_new else "#to-details",
        "document.querySelector('a.card .barcode').checkVisibility()",
    )


TASKS: dict[str, Callable[[Walk], None]] = {
    "find a known item": find_known,
    "find by picture": find_by_picture,
    "refine by colour": refine,
    "share a question with a picture": share,
    "tag twenty items": tag_twenty,
    "delete and undo": delete_and_undo,
    "mark wrong and see it go": mark_wrong,
    "add three pictures": add_three,
    "label what comes next": label_next,
    "read the details of a code": read_details,
}


@contextmanager
def served(source: Path, collection: Path, pictures: Path, *options: str) -> Iterator[str]:
    """Serve a copy of a collection with the package in a checkout; yield the address."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(collection, Path(folder) / collection.name)
        command = [
            sys.executable,
            "-m",
            "dlfh",
            "serve",
            str(copy),
            "--port",
            "0",
            "--pictures",
            str(pictures),
            *options,
        ]
        env = os.environ | {"PYTHONPATH": str(source / "src"), "OPENBLAS_NUM_THREADS": "1"}
        env |= {"DLFH_TOKEN": TOKEN} if options else {}
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
        ) as process:
            try:
                assert process.stdout is not None
                found = re.search(r"http://[^/]+/", process.stdout.readline())
                assert found, f"the service of {source} does not start"
                yield found[0]
            finally:
                process.terminate()


def unlabel(address: str) -> None:
    """Remove the labels of twenty items, so that there is something to label."""
    import httpx

    with httpx.Client(base_url=address, headers={"authorization": f"Bearer {TOKEN}"}, timeout=60) as client:
        items = client.get("/v1/items", params={"start": 100, "n": 20}).json()["items"]
        labels = sorted({label for item in items for label in item["labels"]})
        response = client.post("/v1/label", json={"ids": [item["id"] for item in items], "remove": labels})
        response.raise_for_status()


def walked(browser: Browser, address: str, pictures: list[Path], is_new: bool) -> dict[str, str]:
    """Return the actions and seconds of each task."""
    results = {}
    for name, task in TASKS.items():
        context = browser.new_context(viewport={"width": 1280, "height": 860})
        page = context.new_page()
        page.add_init_script(f"sessionStorage.setItem('dlfh-token', '{TOKEN}')")
        page.goto(address)
        page.wait_for_selector("a.card, canvas")
        page.wait_for_timeout(800)
        walk = Walk(page, pictures, is_new)
        try:
            task(walk)
            results[name] = f"{walk.actions} action{'s' if walk.actions > 1 else ''}, {walk.seconds:.0f} s"
        except ImpossibleError:
            results[name] = "impossible"
        context.close()
    return results


def speed(browser: Browser, address: str, slowdown: int) -> tuple[float, float, float]:
    """Return the times of first paint and of a search in milliseconds, and the size of the page in bytes."""
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    page = context.new_page()
    page.add_init_script(f"sessionStorage.setItem('dlfh-token', '{TOKEN}')")
    context.new_cdp_session(page).send("Emulation.setCPUThrottlingRate", {"rate": slowdown})
    page.goto(address)
    page.wait_for_selector("a.card, canvas")
    page.wait_for_timeout(1500)
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    measured = paint, page.evaluate(_SEARCH, QUERY), page.evaluate(_SIZE)
    context.close()
    return measured


#: Bytes of the page itself: documents, styles and scripts.
_SIZE = """() => performance.getEntries().filter((each) => /navigation|resource/.test(each.entryType))
    .filter((each) => /(\\/|\\.js|\\.css|\\.svg)$/.test(new URL(each.name).pathname))
    .reduce((sum, each) => sum + each.decodedBodySize, 0)"""
#: Time from the last key to the painted results.
_SEARCH = """async (text) => {
    const box = document.querySelector("#text");
    box.focus();
    box.value = text;
    const began = performance.now();
    box.dispatchEvent(new Event("input", { bubbles: true }));
    const isDone = () => /q=/.test(location.search) && document.querySelector("a.card .percent");
    while (!isDone() || document.querySelector("[aria-busy]"))
        await new Promise((done) => setTimeout(done, 5));
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    return performance.now() - began;
}"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    parser.add_argument("pictures", type=Path)
    parser.add_argument("--before", type=Path, required=True, help="checkout of the commit before")
    parser.add_argument("--write", type=Path, help="document to write the tables into")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("the walk needs Chromium")
    pictures = sorted(arguments.pictures.glob("*.jpg"))[:3]
    here = Path(__file__).resolve().parents[1]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        with (
            served(arguments.before, arguments.collection, arguments.pictures) as before,
            served(here, arguments.collection, arguments.pictures, "--writable") as after,
        ):
            unlabel(after)
            old, new = walked(browser, before, pictures, False), walked(browser, after, pictures, True)
            times: dict[tuple[int, str], list[tuple[float, float, float]]] = {}
            for rate in [1, SLOWDOWN] * REPEATS:  # alternately, so that other work on the machine affects both
                for name, address in (("before", before), ("after", after)):
                    times.setdefault((rate, name), []).append(speed(browser, address, rate))
        browser.close()
    walk = ["| task | before | after |", "|---|---|---|"]
    walk += [f"| {name} | {old[name]} | {new[name]} |" for name in TASKS]
    rows = ["| processor | page | first paint | search | page size |", "|---|---|---|---|---|"]
    for (rate, name), measured in times.items():
        paint, search, size = map(statistics.median, zip(*measured, strict=True))
        processor = "full speed" if rate == 1 else f"{rate} times slower"
        rows.append(f"| {processor} | {name} | {paint:.0f} ms | {search:.0f} ms | {size / 1000:.0f} kB |")
    tables = {"walk": "\n".join(walk), "speed": "\n".join([*rows, "", f"Medians of {REPEATS} runs; {machine()}."])}
    print("\n\n".join(tables.values()))
    if arguments.write:
        fill(arguments.write, tables)


if __name__ == "__main__":
    main()
