"""The report as one HTML file that needs nothing else: no network, no scripts."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape

from dlfh.bench.figures import Figure
from dlfh.bench.plan import Section

__all__ = ["to_page"]

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2126; --soft: #5b6470; --line: #d9dde2; --paper: #ffffff; --shade: #f5f6f8;
  --accent: #0b62a4; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e4e7eb; --soft: #9aa4b0; --line: #363d46; --paper: #14171a; --shade: #1d2227; --accent: #7cbcf0; }
}
* { box-sizing: border-box; }
html { scroll-behavior: smooth; }
body { margin: 0 auto; padding: 2.5rem 1.25rem 5rem; max-width: 67rem; color: var(--ink); background: var(--paper);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.3rem; margin: 3.2rem 0 .6rem; padding-top: 1rem; border-top: 1px solid var(--line); }
p { margin: .5rem 0; max-width: 46rem; }
.lead { color: var(--soft); }
a { color: var(--accent); text-decoration: none; }
a:hover { text-decoration: underline; }
nav { margin: 1.8rem 0; padding: .9rem 1.2rem; background: var(--shade); border-radius: .5rem; }
nav ol { margin: 0; padding-left: 1.3rem; columns: 2 16rem; }
figure { margin: 1.6rem 0 2.2rem; }
figcaption { font-weight: 600; margin-bottom: .5rem; }
figure.plot img { width: 100%; max-width: 52rem; height: auto; background: #fff; border: 1px solid var(--line);
  border-radius: .4rem; padding: .5rem; display: block; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; white-space: nowrap;
  border-top: 2px solid var(--ink); border-bottom: 2px solid var(--ink); }
th, td { padding: .26rem .5rem; text-align: right; font-weight: 400; }
thead th { font-weight: 600; }
thead tr:last-child th { border-bottom: 1px solid var(--ink); }
th.group { text-align: center; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); }
td.start, th.start { padding-left: 1.1rem; }
tbody tr:hover td, tbody tr:hover th { background: var(--shade); }
tr.published td, tr.published th { color: var(--soft); font-style: italic; }
tr.published th { padding-left: 1.6rem; }
td strong { font-weight: 700; }
td small { color: var(--soft); margin-left: .15em; font-size: .8em; }
td.alone { padding-right: calc(.5rem + 3em); }
sup { font-size: .68em; margin-left: .1em; line-height: 0; color: var(--soft); }
.notes, .remark { font-size: .8rem; color: var(--soft); margin: .5rem 0 0; max-width: 52rem; }
.notes { padding-left: 1.5rem; }
details { margin: 1rem 0; }
summary { cursor: pointer; color: var(--accent); }
pre { background: var(--shade); padding: 1rem; border-radius: .5rem; overflow-x: auto; font-size: .8rem;
  line-height: 1.4; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.2rem; font-size: .9rem; }
dt { color: var(--soft); } dd { margin: 0; }
@media print { body { max-width: none; padding: 0; font-size: 11pt; } h2 { break-after: avoid; }
  figure { break-inside: avoid; } details { display: none; } }
"""


def to_page(title: str, lead: Sequence[str], sections: Sequence[Section], facts: dict[str, str], settings: str) -> str:
    """Return the report.

    Parameters
    ----------
    title : str
    lead : sequence of str
        Paragraphs below the title.
    sections : sequence of Section
    facts : dict of str to str
        Machine and versions.
    settings : str
        TOML.
    """
    links = [(section.key, section.title) for section in sections] + [("settings", "Settings and machine")]
    contents = "".join(f'<li><a href="#{escape(key)}">{escape(name)}</a></li>' for key, name in links)
    said = "".join(f'<p class="lead">{escape(text)}</p>' for text in lead)
    known = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts.items())
    body = "\n".join(map(_section, sections))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<header><h1>{escape(title)}</h1>{said}</header>\n"
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav>\n<main>\n{body}\n'
        f'<section id="settings"><h2>Settings and machine</h2><dl>{known}</dl>\n'
        f"<pre>{escape(settings)}</pre></section>\n</main>\n</body>\n</html>\n"
    )


def _section(section: Section) -> str:
    """Return a section: its first block of each kind in sight, further tables folded away."""
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in section.paragraphs)
    blocks = []
    n_tables = 0
    for block in section.blocks:
        if isinstance(block, Figure):
            blocks.append(_figure(block))
            continue
        n_tables += 1
        html = block.to_html()
        folded = f"<details><summary>{escape(block.title)}</summary>\n{html}\n</details>"
        blocks.append(html if n_tables == 1 else folded)
    mark = ' class="varies"' if section.varies else ""
    return (
        f'<section id="{escape(section.key)}"{mark}><h2>{escape(section.title)}</h2>{paragraphs}\n'
        + "\n".join(blocks)
        + "\n</section>"
    )


def _figure(figure: Figure) -> str:
    encoded = base64.b64encode(figure.svg.encode()).decode()
    remarks = "".join(f'<p class="remark">{escape(remark)}</p>' for remark in figure.remarks)
    return (
        f'<figure class="plot" id="{escape(figure.key)}"><figcaption>{escape(figure.title)}</figcaption>'
        f'<img alt="{escape(figure.title)}" src="data:image/svg+xml;base64,{encoded}">{remarks}</figure>'
    )
