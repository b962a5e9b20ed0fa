"""Check a built site for broken links and anchors, missing pictures, and requests to other hosts."""

from __future__ import annotations

import re
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["Page", "faults"]

#: What makes a browser ask for more, by element: links that a reader follows are not among it.
LOADS = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}
LOADED_LINKS = {"stylesheet", "icon", "preload", "modulepreload", "preconnect", "dns-prefetch", "manifest"}


class Page(HTMLParser):
    """Links, loaded files and anchors of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Record one element."""
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if LOADS.get(tag, "") in given:
            self.loads.append(given[LOADS[tag]])
        if tag == "link" and LOADED_LINKS & set(given.get("rel", "").split()):
            self.loads.append(given["href"])


class _Site:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @cached_property
    def pages(self) -> dict[Path, Page]:
        return {file: Page(file) for file in sorted(self.folder.rglob("*.html"))}

    def file(self, page: Page, path: str) -> Path:
        base = self.folder if path.startswith("/") else page.file.parent
        file = (base / unquote(path).lstrip("/")).resolve()
        return file / "index.html" if file.is_dir() else file


def faults(folder: Path) -> list[str]:
    """Return a sentence for each problem."""
    site = _Site(folder.resolve())
    found = [] if len(site.pages) > 20 else [f"{folder} has {len(site.pages)} pages: it is not built"]
    for page in site.pages.values():
        name = page.file.relative_to(site.folder).as_posix()
        if name == "404.html":
            continue  # its links are from wherever a reader was
        for address in page.loads:
            parts = urlsplit(address)
            if parts.netloc:
                found.append(f"{name} loads {address} from another host")
            elif parts.scheme != "data" and not site.file(page, parts.path).is_file():
                found.append(f"{name} loads {address}, which is not there")
        for address in page.links:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = site.file(page, parts.path) if parts.path else page.file
            if not target.exists():
                found.append(f"{name} links to {address}, which is not there")
            elif parts.fragment and target in site.pages and not _has(site.pages[target], unquote(parts.fragment)):
                found.append(f"{name} links to {address}, whose page has no such place")
    for sheet in site.folder.rglob("*.css"):
        for address in re.findall(r"url\(['\"]?((?:https?:)?//[^)'\"]+)", sheet.read_text(encoding="utf-8")):
            found.append(f"{sheet.relative_to(site.folder)} loads {address} from another host")
    return found


def _has(page: Page, anchor: str) -> bool:
    return anchor in page.anchors or anchor.startswith(":~:")
