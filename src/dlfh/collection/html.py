"""HTML of what was found: every word escaped, and nothing in it that asks another host for anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

__all__ = ["html_page", "html_table"]

#: A browser that reads the page loads nothing, runs nothing, and sends nothing.
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'"

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2126; --soft: #5b6470; --line: #d9dde2; --paper: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7eb; --soft: #9aa4b0; --line: #363d46; --paper: #14171a; } }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 80rem; color: var(--ink); background: var(--paper);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.4rem; margin: 0 0 1.2rem; overflow-wrap: anywhere; }
main { display: grid; gap: 1.2rem; grid-template-columns: repeat(auto-fill, minmax(15rem, 1fr)); }
figure { margin: 0; padding: .7rem; border: 1px solid var(--line); border-radius: .5rem; }
figure.query { border: 2px solid var(--ink); }
figure .frame { height: 15rem; display: grid; place-items: center; color: var(--soft); background: #fff; }
figure img { max-width: 100%; max-height: 15rem; }
figcaption p { margin: .25rem 0; overflow-wrap: anywhere; }
code { user-select: all; overflow-wrap: anywhere; }
.soft { color: var(--soft); font-size: .875rem; }
"""


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Return a table as HTML.

    Examples
    --------
    >>> html_table(["id"], [["<b>"]])
    '<table><thead><tr><th>id</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    head = "".join(f"<th>{escape(str(column))}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def html_page(title: str, body: str) -> str:
    """Return a page of its own around HTML that is escaped already."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(_POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )
