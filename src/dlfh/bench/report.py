"""Reports: one page as HTML and as Markdown, with CSV, LaTeX, SVG and PNG files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path

from dlfh._persistence.files import replace_file
from dlfh.bench.cells import describe_machine, make_folder
from dlfh.bench.plan import Experiment, Plan, Results, Section
from dlfh.bench.tables import ReportTable, Summary, TableRow, markdown_text
from dlfh.errors import InputError

TITLE = "Cross-modal hashing"  # beginning of every report's title, by which reports are recognised


def write_report(folder: Path, experiment: Experiment, plan: Plan, results: Results) -> list[Section]:
    """Write the report of an experiment into a folder and return its sections."""
    sections = [*experiment.sections(plan, results), _seconds_section(results)]
    title, lead = f"{TITLE} on {plan.source.name}", [*_lead(experiment, plan), *to_cite(sections)]
    Report(title, lead, sections, plan.settings.to_toml()).write(folder, experiment.name)
    return sections


def to_cite(sections: Iterable[Section]) -> list[str]:
    """Return a sentence about each table that a paper should cite."""
    keys = {block.key for section in sections for block in section.blocks}
    uses = {
        "map-unseen": "the main result: items that training never saw, full ranking by Hamming distance",
        "map-learned": "only to compare with papers whose database is the training set with its learned codes",
        "time": "training times",
    }
    return [f"To cite: tables/{key}.tex, {use}." for key, use in uses.items() if key in keys]


def check_report_place(folder: Path, name: str, settings: str, settings_file: Path | None) -> None:
    """Raise InputError if a report would replace files that do not belong to a report, or the settings file it used."""
    target = folder / f"{name}.toml"
    _check_replaceable(folder, [f"{name}.html", f"{name}.md", target.name], f"{name}.*")
    is_source = settings_file is not None and target.exists() and target.samefile(settings_file)
    if is_source and target.read_text(encoding="utf-8") != settings:
        raise InputError(f"cannot write {target}: these settings were read from it; choose another --output")


def _check_replaceable(folder: Path, files: Iterable[str], pages: str) -> None:
    """Raise InputError if one of the files exists, and no page that matches the glob ``pages`` is a report."""
    existing = [folder / file for file in files if (folder / file).exists()]
    found = [path for path in folder.glob(pages) if path.suffix in (".html", ".md") and path.is_file()]
    if existing and not any(TITLE in path.read_text(encoding="utf-8", errors="replace") for path in found):
        problem = "the file exists and does not belong to a report; choose another --output"
        raise InputError(f"cannot write {existing[0]}: {problem}")


@dataclass(frozen=True)
class Report:
    """The content of a report: title, first paragraphs, sections, and the settings as TOML."""

    title: str
    lead: Sequence[str]
    sections: Sequence[Section]
    settings: str

    def write(self, folder: Path, name: str) -> None:
        """Write the page, the settings, and the files of all tables and figures."""
        texts = {"html": self.to_html(), "md": self.to_markdown(), "toml": self.settings}
        files = {f"{name}.{suffix}": text.encode() for suffix, text in texts.items()}  # the page first
        blocks = [block for section in self.sections for block in section.blocks]
        parts = {path: content for block in blocks for path, content in block.files().items()}
        parts |= {path: text.encode() for section in self.sections for path, text in section.files.items()}
        _check_replaceable(folder, files, f"{name}.*")
        _check_replaceable(folder, parts, "*.*")  # reports in one folder share these
        for path, content in (files | parts).items():
            make_folder((folder / path).parent)
            replace_file(folder / path, [content])

    def to_html(self) -> str:
        """Return a self-contained HTML page without scripts."""
        style = resources.files("dlfh.bench").joinpath("report.css").read_text(encoding="utf-8")
        links = [(section.key, section.title) for section in self.sections] + [("settings", "Settings and machine")]
        contents = "".join(f'<li><a href="#{escape(key)}">{escape(name)}</a></li>' for key, name in links)
        lead = "".join(f'<p class="lead">{escape(text)}</p>' for text in self.lead)
        facts = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in _machine_facts().items())
        body = "\n".join(map(_html_section, self.sections))
        return (
            '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f"<title>{escape(self.title)}</title>\n<style>\n{style}</style>\n</head>\n<body>\n"
            f"<header><h1>{escape(self.title)}</h1>{lead}</header>\n"
            f'<nav aria-label="Contents"><ol>{contents}</ol></nav>\n<main>\n{body}\n'
            f'<section id="settings"><h2>Settings and machine</h2><dl>{facts}</dl>\n'
            f"<pre>{escape(self.settings)}</pre></section>\n</main>\n</body>\n</html>\n"
        )

    def to_markdown(self) -> str:
        facts = markdown_text(", ".join(f"{name} {value}" for name, value in _machine_facts().items()))
        head = [f"# {markdown_text(self.title)}", *map(markdown_text, self.lead)]
        tail = ["## Settings and machine", f"{facts}.", f"```toml\n{self.settings}```"]
        return "\n\n".join([*head, *map(_markdown_section, self.sections), *tail]) + "\n"


def _html_section(section: Section) -> str:
    paragraphs = "".join(f"<p>{escape(text)}</p>" for text in section.paragraphs)
    blocks = []
    for block in section.blocks:
        folded = f"<details><summary>{escape(block.title)}</summary>\n{block.to_html()}\n</details>"
        blocks.append(folded if section.is_folded(block) else block.to_html())
    varies = ' class="varies"' if section.varies else ""
    title, body = f"<h2>{escape(section.title)}</h2>", "\n".join(blocks)
    return f'<section id="{escape(section.key)}"{varies}>{title}{paragraphs}\n{body}\n</section>'


def _markdown_section(section: Section) -> str:
    parts = [f"## {markdown_text(section.title)}", *map(markdown_text, section.paragraphs)]
    for block in section.blocks:
        text = block.to_markdown()
        if section.is_folded(block):
            text = f"<details><summary>{escape(block.title)}</summary>\n\n{text}\n</details>"
        elif isinstance(block, ReportTable):
            text = f"*{markdown_text(block.title)}*\n\n{text}"
        parts.append(text)
    return "\n\n".join(part.rstrip("\n") for part in parts)


def _lead(experiment: Experiment, plan: Plan) -> list[str]:
    parts = plan.source.split(plan.split(0))
    widths = ", ".join(f"{name} {matrix.shape[1]:,}" for name, matrix in parts.train.modalities.items())
    shape = (
        f"{plan.source.name}: {len(parts.train):,} training points, {len(parts.queries):,} queries; features: "
        f"{widths}; {parts.train.labels.shape[1]:,} labels. Items that share a label with a query are relevant to it. "
        "They are ranked by Hamming distance, with ties in database order."
    )
    notes = (note[:1].upper() + note[1:].rstrip(".") + "." for note in plan.source.notes)
    return [f"{experiment.title}, by dlfh.", shape, *notes]


def _machine_facts() -> dict[str, str]:
    about = describe_machine()
    versions = about.pop("versions")
    return {**{name: str(value) for name, value in about.items()}, **versions}


def _seconds_section(results: Results) -> Section:
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for cell, result in results.items():
        if "total" in result.times:
            times[cell.method].append((result.times["total"], result.times["processor"]))
    rows = []
    for method, pairs in sorted(times.items(), key=lambda item: -sum(total for total, _ in item[1])):
        totals, processor = zip(*pairs, strict=True)
        seconds = (Summary(number, runs=1) for number in (sum(totals), max(totals), sum(processor)))
        rows.append(TableRow(method, (Summary(len(pairs), runs=1, digits=0), *seconds)))
    total = sum(total for pairs in times.values() for total, _ in pairs)
    columns = tuple(("", name) for name in ("cells", "all cells", "longest cell", "processor time"))
    table = ReportTable("seconds", "Seconds of computing, by method", columns, tuple(rows), digits=1)
    paragraph = (
        f"{len(results):,} cells took {total:,.0f} seconds in total, in parallel processes. Cells that were computed "
        "in earlier runs count with the time they took then."
    )
    return Section("seconds", "Seconds", (paragraph,), (table,), varies=True)
