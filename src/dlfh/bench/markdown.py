"""The report as Markdown, for a repository or a wiki: tables in the text, figures as files beside it."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from dlfh.bench.figures import Figure
from dlfh.bench.plan import Section
from dlfh.bench.tables import ReportTable, markdown_text

__all__ = ["to_markdown"]


def to_markdown(
    title: str, lead: Sequence[str], sections: Sequence[Section], facts: dict[str, str], settings: str
) -> str:
    """Return the report; what it takes is what `dlfh.bench.page.to_page` takes."""
    known = markdown_text(", ".join(f"{name} {value}" for name, value in facts.items()))
    head = [f"# {markdown_text(title)}", *map(markdown_text, lead)]
    tail = ["## Settings and machine", f"{known}.", f"```toml\n{settings}```"]
    return "\n\n".join([*head, *map(_section, sections), *tail]) + "\n"


def _section(section: Section) -> str:
    """Return a section: its first table in sight, further ones folded away."""
    parts = [f"## {markdown_text(section.title)}", *map(markdown_text, section.paragraphs)]
    tables = [block for block in section.blocks if isinstance(block, ReportTable)]
    for block in section.blocks:
        title = markdown_text(block.title)
        if isinstance(block, Figure):
            parts += [f"![{title}](figures/{block.key}.svg)", f"*{title}*", *map(markdown_text, block.remarks)]
        elif block is tables[0]:
            parts += [f"*{title}*", block.to_markdown()]
        else:
            parts.append(f"<details><summary>{escape(block.title)}</summary>\n\n{block.to_markdown()}\n</details>")
    return "\n\n".join(part.rstrip("\n") for part in parts)
