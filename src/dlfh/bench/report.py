"""What a run leaves behind: one report as HTML and as Markdown, CSV, LaTeX, SVG and PNG files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from dlfh._persistence.files import replace_file
from dlfh.bench.cache import make_folder
from dlfh.bench.figures import Figure
from dlfh.bench.machine import describe_machine
from dlfh.bench.markdown import to_markdown
from dlfh.bench.page import to_page
from dlfh.bench.plan import Experiment, Plan, Section
from dlfh.bench.runner import Results
from dlfh.bench.tables import Entry, ReportTable, TableRow
from dlfh.errors import InputError

__all__ = ["TITLE", "check_report_place", "seconds_section", "write_report", "write_sections"]

#: What the title of every report begins with.
TITLE = "Cross-modal hashing"


def write_report(folder: Path, experiment: Experiment, plan: Plan, results: Results) -> list[Section]:
    """Write everything that an experiment's results say into a folder; return its sections."""
    sections = [*experiment.sections(plan, results), seconds_section(plan, results)]
    title = f"{TITLE} on {plan.source.name}"
    write_sections(folder, experiment.name, title, _lead(experiment, plan), sections, plan.settings.to_toml())
    return sections


def write_sections(
    folder: Path, name: str, title: str, lead: Sequence[str], sections: Sequence[Section], settings: str
) -> None:
    """Write sections into a folder: as a page, as Markdown, their tables, figures and files; and the settings."""
    told = title, lead, sections, _facts(), settings
    # The page first: where it is, the others are a report's.
    texts = {"html": to_page(*told), "md": to_markdown(*told), "toml": settings}
    files = {f"{name}.{suffix}": text.encode() for suffix, text in texts.items()}
    blocks = [block for section in sections for block in section.blocks]
    parts = {path: content for block in blocks for path, content in _files(block).items()}
    parts |= {path: text.encode() for section in sections for path, text in section.files.items()}
    _check_own(folder, files, f"{name}.*")
    _check_own(folder, parts, "*.*")  # which all reports in a folder share
    for path, content in (files | parts).items():
        make_folder((folder / path).parent)
        replace_file(folder / path, [content])


def check_report_place(folder: Path, name: str, settings: str, read: Path | None) -> None:
    """Raise InputError if a report would go over files that are of no report, or over other settings that are read."""
    own = folder / f"{name}.toml"
    _check_own(folder, [f"{name}.html", f"{name}.md", own.name], f"{name}.*")
    if read is not None and own.exists() and own.samefile(read) and own.read_text(encoding="utf-8") != settings:
        raise InputError(f"cannot write {own}: these settings were read from it; choose another --output")


def _check_own(folder: Path, files: Iterable[str], pages: str) -> None:
    """Raise InputError if one of the files is there, and none of the pages says that it is a report's."""
    there = [folder / file for file in files if (folder / file).exists()]
    if there and not any(
        path.suffix in (".html", ".md")
        and path.is_file()
        and TITLE in path.read_text(encoding="utf-8", errors="replace")
        for path in folder.glob(pages)
    ):
        raise InputError(
            f"cannot write {there[0]}: the file exists and does not belong to a report; choose another --output"
        )


def _files(block: ReportTable | Figure) -> dict[str, bytes]:
    if isinstance(block, Figure):
        return {
            f"figures/{block.key}.svg": block.svg.encode(),
            f"figures/{block.key}.png": block.png,
            f"figures/{block.key}.csv": block.to_csv().encode(),
        }
    return {f"tables/{block.key}.csv": block.to_csv().encode(), f"tables/{block.key}.tex": block.to_latex().encode()}


def _lead(experiment: Experiment, plan: Plan) -> list[str]:
    parts = plan.source.deal(plan.deal(0))
    widths = ", ".join(f"{name} {matrix.shape[1]:,}" for name, matrix in parts.train.modalities.items())
    n_labels = parts.train.labels.shape[1]
    shape = (
        f"{plan.source.name}: {len(parts.train):,} training points, {len(parts.queries):,} queries; features: "
        f"{widths}; {n_labels:,} labels. Items are relevant to a query if they share a label with it. They are "
        "ranked by Hamming distance, ties in the order of the database."
    )
    return [f"{experiment.title}, by dlfh.", shape, *map(_sentence, plan.source.notes)]


def _sentence(note: str) -> str:
    return note[:1].upper() + note[1:].rstrip(".") + "."


def _facts() -> dict[str, str]:
    about = describe_machine()
    versions = about.pop("versions")
    return {**{name: str(value) for name, value in about.items()}, **versions}


def seconds_section(plan: Plan, results: Results) -> Section:
    """Return what the cells took by method, wherever they were computed."""
    spent: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for cell, result in results.items():
        if "total" in result.times:
            spent[cell.method].append((result.times["total"], result.times["processor"]))
    rows = []
    for name, times in sorted(spent.items(), key=lambda item: -sum(total for total, _ in item[1])):
        totals, used = zip(*times, strict=True)
        numbers = (sum(totals), max(totals), sum(used))
        cells = Entry(len(times), runs=1, digits=0)
        rows.append(TableRow(name, (cells, *(Entry(number, runs=1) for number in numbers))))
    total = sum(each for times in spent.values() for each, _ in times)
    table = ReportTable(
        "seconds",
        "Seconds of computing, by method",
        (("", "cells"), ("", "all cells"), ("", "longest cell"), ("", "of processors")),
        tuple(rows),
        digits=1,
    )
    words = (
        f"{len(results):,} cells took {total:,.0f} seconds of computing in all, over processes side by side. "
        "Cells that were computed before are counted as they were then.",
    )
    return Section("seconds", "Seconds", words, (table,), varies=True)
