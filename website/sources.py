"""Assemble the sources of the site: pages of docs/, files of the repository, and generated pages.

Links in the pages work in the repository; the copies made here have links that work in the site.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from website.reference import command_line, reference_pages

__all__ = ["ROOT", "SOURCES", "stage"]

ROOT = Path(__file__).parent.parent
SOURCES = ROOT / "build" / "site-sources"
REPOSITORY = "https://github.com/dlfh/dlfh/blob/main/"
KATEX = "katex@0.16.22"

#: Files of the repository that are pages of the site, and where.
ROOT_PAGES = {
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security.md",
}
LINK = re.compile(r"(?<=\]\()([^)\s#]+)(#[^)\s]*)?(?=\))")
FIGURE = re.compile(r"^!\[([^\]]+)\]\((images/figures/[\w-]+\.svg)\)$", re.MULTILINE)


def stage(to: Path = SOURCES) -> None:
    """Write the changed sources of the site."""
    pages = {"command-line.md": command_line()} | {f"api/{door}.md": text for door, text in reference_pages().items()}
    for file in sorted((ROOT / "docs").rglob("*")):
        name = file.relative_to(ROOT / "docs").as_posix()
        if file.suffix == ".md":
            pages[name] = _page(file, name)
        elif file.is_file() and not file.name.startswith("."):
            _write(to / name, file.read_bytes())
    for source, name in ROOT_PAGES.items():
        pages[name] = _page(ROOT / source, name)
    for notebook in (ROOT / "examples" / "notebooks").glob("*.py"):
        pages[f"notebooks/{notebook.stem.replace('_', '-')}.md"] = _notebook(notebook)
    for name, text in pages.items():
        _write(to / name, text.encode())
    for file in (ROOT / "website" / "theme").iterdir():
        _write(to / "theme" / file.name, file.read_bytes())
    _fetch_katex(to / "theme" / "katex")


def _write(file: Path, content: bytes) -> None:
    if file.exists() and file.read_bytes() == content:
        return  # the server rebuilds only changed files
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def _page(source: Path, name: str) -> str:
    """Return a page with links adapted to the site, and figures in the site's colours."""
    text = source.read_text(encoding="utf-8")

    def completed(link: re.Match[str]) -> str:
        target, anchor = link[1], link[2] or ""
        if "://" in target or target.startswith("mailto:"):
            return link[0]
        file = (source.parent / target).resolve().relative_to(ROOT).as_posix()
        if file in ROOT_PAGES:
            place = ROOT_PAGES[file]
        elif file.startswith("docs/"):
            place = file.removeprefix("docs/")
        elif file == "README.md":
            place = "index.md"
        else:
            return REPOSITORY + file + anchor
        return "../" * name.count("/") + place + anchor

    def inlined(figure: re.Match[str]) -> str:
        drawing = (source.parent / figure[2]).read_text(encoding="utf-8")
        drawing = re.sub(r"<style>.*?</style>", "", drawing[drawing.index("<svg") :], flags=re.DOTALL)
        return f'<figure class="drawing">{" ".join(drawing.split())}</figure>'

    return FIGURE.sub(inlined, LINK.sub(completed, text))


def _notebook(file: Path) -> str:
    """Return a notebook, stored as cells of a Python file, as a page."""
    page = []
    for cell in file.read_text(encoding="utf-8").split("# %%")[1:]:
        kind, _, body = cell.partition("\n")
        if kind.strip() == "[markdown]":
            page.append("\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()))
        else:
            page.append(f"```python\n{body.strip()}\n```")
    title, *rest = page
    said = f"Run it as it is: `{file.relative_to(ROOT)}`, a script that Jupyter opens as a notebook (by jupytext)."
    return "\n\n".join([title, said, *rest]) + "\n"


def _fetch_katex(to: Path) -> None:
    """Download KaTeX from the package registry once, so that browsers contact no other host."""
    if (to / "katex.min.js").exists():
        return
    to.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "pack", "--silent", KATEX], cwd=to, check=True, stdout=subprocess.DEVNULL)
    (archive,) = to.glob("katex-*.tgz")
    shutil.unpack_archive(archive, to, "gztar", filter="data")
    built = to / "package" / "dist"
    for file in (built / "katex.min.js", built / "contrib" / "auto-render.min.js"):
        shutil.move(file, to / file.name)
    style = (built / "katex.min.css").read_text(encoding="utf-8")
    # Browsers that cannot read WOFF2 cannot show this site either.
    (to / "katex.min.css").write_text(re.sub(r",url\([^)]+\) format\(\"(?:woff|truetype)\"\)", "", style), "utf-8")
    (to / "fonts").mkdir(exist_ok=True)
    for font in (built / "fonts").glob("*.woff2"):
        shutil.move(font, to / "fonts" / font.name)
    shutil.rmtree(to / "package")
    archive.unlink()
