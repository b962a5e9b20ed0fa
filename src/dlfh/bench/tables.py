"""Tables of means, rendered as text, Markdown, CSV, LaTeX and HTML with the same digits."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

DASH = "–"


@dataclass(frozen=True)
class Summary:
    """An entry of a table: a mean over runs, or a dash with a footnote; a single run has no ``std``."""

    mean: float | None = None
    std: float | None = None
    runs: int = 0
    is_best: bool = False
    note: str = ""
    digits: int | None = None  # number of decimals, if other than the table's

    def numbers(self, digits: int) -> tuple[str, str]:
        digits = digits if self.digits is None else self.digits
        mean = DASH if self.mean is None else f"{self.mean:.{digits}f}"
        return mean, "" if self.std is None or self.mean is None else f"{self.std:.{digits}f}"


@dataclass(frozen=True)
class TableRow:
    """A row: label, entries and a footnote to the label; ``published`` rows have figures from the paper."""

    label: str
    entries: tuple[Summary, ...]
    note: str = ""
    published: bool = False


@dataclass(frozen=True)
class _Format:
    """Templates of an output format for text, numbers and footnote references."""

    escape: Callable[[str], str]
    best: str
    std: str
    note: str
    published: str
    published_number: str = "{mean}{std}"
    dash: str = DASH


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as CSV, headings first."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def markdown_text(text: str) -> str:
    """Escape text for Markdown."""
    return "".join("\\" + letter if letter in "\\|*_`[]<>" else letter for letter in text)


_LATEX_ESCAPES = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "→": r"$\to$", "–": "--", "×": r"$\times$",
    "λ": r"$\lambda$", "±": r"$\pm$", "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def _latex_text(text: str) -> str:
    return "".join(_LATEX_ESCAPES.get(letter, letter) for letter in text)


_TEXT = _Format(str, "{mean}{std}*", "±{}", "[{}]", "  published")
_MARKDOWN = _Format(markdown_text, "**{mean}**{std}", " ±{}", "<sup>{}</sup>", "*published*", "*{mean}*{std}")
_LATEX = _Format(
    _latex_text, r"\textbf{{{mean}}}{std}", r"{{\scriptsize$\pm${}}}", "$^{{{}}}$", r"\quad published", dash="--"
)
_LATEX_PAPER = replace(_LATEX, best=r"\textbf{{{mean}{std}}}", std=r"$\pm${}")
_HTML = _Format(escape, "<strong>{mean}</strong>{std}", "<small>±{}</small>", "<sup>{}</sup>", "published")


@dataclass(frozen=True)
class ReportTable:
    """A table of means with groups of columns."""

    key: str  # base name of its files
    title: str
    columns: tuple[tuple[str, str], ...]  # group and heading of each column
    rows: tuple[TableRow, ...]
    digits: int = 3  # number of decimals
    head: str = "method"  # heading of the row labels
    remarks: tuple[str, ...] = ()  # sentences below the table
    layout: str = "columns"  # in LaTeX: groups side by side ("columns"), or one below the other ("paper")
    interval: str = "deviation"  # in LaTeX, after ±: "deviation", or half of a 95 % "confidence" interval

    def _groups(self) -> list[tuple[str, int, int]]:
        """Return each group of columns, its first column and the number of its columns."""
        names = [group for group, _ in self.columns]
        spans = [(group, len(list(columns))) for group, columns in itertools.groupby(names)]
        starts = itertools.accumulate((span for _, span in spans[:-1]), initial=0)
        return [(group, start, span) for (group, span), start in zip(spans, starts, strict=True)]

    def notes(self) -> list[str]:
        """Return the footnotes in order of first mention."""
        mentioned = [note for row in self.rows for note in (row.note, *(entry.note for entry in row.entries)) if note]
        return list(dict.fromkeys(mentioned))

    def _rendered(self, form: _Format) -> list[list[str]]:
        notes = self.notes()

        def reference(note: str) -> str:
            return form.note.format(notes.index(note) + 1) if note else ""

        def number(entry: Summary, row: TableRow) -> str:
            mean, std = entry.numbers(self.digits)
            styled = form.published_number if row.published and mean != DASH else "{mean}{std}"
            values = {"mean": form.dash if mean == DASH else mean, "std": form.std.format(std) if std else ""}
            return (form.best if entry.is_best else styled).format(**values) + reference(entry.note)

        def label(row: TableRow) -> str:
            return (form.published if row.published else form.escape(row.label)) + reference(row.note)

        return [[label(row), *(number(entry, row) for entry in row.entries)] for row in self.rows]

    def to_csv(self) -> str:
        lines: list[list[Any]] = [["row", "group", "column", "mean", "std", "runs", "best", "note"]]
        for row in self.rows:
            label = f"{row.label} (published)" if row.published else row.label
            for column, entry in zip(self.columns, row.entries, strict=True):
                mean, std = entry.numbers(self.digits)
                note = "; ".join(filter(None, (row.note, entry.note)))
                lines.append([label, *column, mean.strip(DASH), std, entry.runs, "yes" if entry.is_best else "", note])
        return csv_text(lines)

    def files(self) -> dict[str, bytes]:
        return {f"tables/{self.key}.csv": self.to_csv().encode(), f"tables/{self.key}.tex": self.to_latex().encode()}

    def to_text(self) -> str:
        """Return the table for a terminal; an asterisk marks the best of a column."""
        heads = [self.head, *(f"{group} {column}".strip() for group, column in self.columns)]
        lines = [heads, *self._rendered(_TEXT)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        text = [self.title, ""]
        for line in lines:
            cells = [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
            text.append("  ".join(cells).rstrip())
        text += [f"[{i}] {note}" for i, note in enumerate(self.notes(), 1)]
        return "\n".join([*text, *self.remarks]) + "\n"

    def to_markdown(self) -> str:
        """Return the table without its title: the best in bold, published rows in italics."""
        heads = ("<br>".join(map(markdown_text, filter(None, column))) for column in ((self.head,), *self.columns))
        rows = [heads, ["---", *("---:" for _ in self.columns)], *self._rendered(_MARKDOWN)]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        below = [f"<sup>{i}</sup> {markdown_text(note)}" for i, note in enumerate(self.notes(), 1)]
        below += map(markdown_text, self.remarks)
        if below:
            lines += ["", "<sub>" + "<br>\n".join(below) + "</sub>"]
        return "\n".join(lines) + "\n"

    def to_latex(self) -> str:
        """Return a booktabs table: the best of a column in bold, footnotes below."""
        if self.interval == "confidence":
            return self._with_confidence().to_latex()
        headings = {tuple(self.columns[i][1] for i in range(start, start + n)) for _, start, n in self._groups()}
        body = self._latex_blocks() if self.layout == "paper" and len(headings) == 1 else self._latex_columns()
        below = [f"$^{{{i}}}$ {_latex_text(note)}" for i, note in enumerate(self.notes(), 1)]
        lines = [r"% \usepackage{booktabs,multirow}", r"\begin{table}", r"\centering"]
        lines += [rf"\caption{{{_latex_text(self.title)}}}", *body, r"\bottomrule", r"\end{tabular}"]
        lines += [rf"\par\footnotesize {text}" for text in (*below, *map(_latex_text, self.remarks))]
        return "\n".join([*lines, r"\end{table}", ""])

    def _with_confidence(self) -> ReportTable:
        """Replace deviations by half of the 95 % confidence interval of the mean, by Student's t."""
        from scipy.special import stdtrit

        def narrowed(entry: Summary) -> Summary:
            if entry.std is None or entry.runs < 2:
                return replace(entry, std=None)
            return replace(entry, std=stdtrit(entry.runs - 1, 0.975) * entry.std / math.sqrt(entry.runs - 1))

        rows = tuple(replace(row, entries=tuple(map(narrowed, row.entries))) for row in self.rows)
        title = self.title.replace("standard deviation", "half of the 95 % confidence interval")
        return replace(self, title=title, rows=rows, interval="deviation")

    def _latex_columns(self) -> list[str]:
        heads = [rf"\multicolumn{{{span}}}{{c}}{{{_latex_text(group)}}}" for group, _, span in self._groups()]
        rules = [rf"\cmidrule(lr){{{start + 2}-{start + 1 + span}}}" for _, start, span in self._groups()]
        lines = [rf"\begin{{tabular}}{{l{'c' * len(self.columns)}}}", r"\toprule"]
        if any(group for group, _ in self.columns):
            lines += [" & ".join(["", *heads]) + r" \\", "".join(rules)]
        columns = [_latex_text(self.head), *(_latex_text(column) for _, column in self.columns)]
        lines += [" & ".join(columns) + r" \\", r"\midrule"]
        return lines + [" & ".join(row) + r" \\" for row in self._rendered(_LATEX)]

    def _latex_blocks(self) -> list[str]:
        """Return the layout of the paper's first table: a block of rows for each direction."""
        rows, (_, _, width) = self._rendered(_LATEX_PAPER), self._groups()[0]
        heads = ["task", self.head, *(column for _, column in self.columns[:width])]
        lines = [rf"\begin{{tabular}}{{ll{'c' * width}}}", r"\toprule", " & ".join(map(_latex_text, heads)) + r" \\"]
        for group, start, _ in self._groups():
            lines.append(r"\midrule")
            for i, (label, *cells) in enumerate(rows):
                task = rf"\multirow{{{len(rows)}}}{{*}}{{{_latex_text(group)}}}" if i == 0 else ""
                # As in the paper, numbers below 1 begin with the point.
                numbers = [re.sub(r"(?<!\d)0\.", ".", cell) for cell in cells[start : start + width]]
                lines.append(" & ".join([task, label, *numbers]) + r" \\")
        return lines

    def to_html(self) -> str:
        groups = "".join(
            f'<th colspan="{span}" scope="colgroup" class="group">{escape(group)}</th>'
            for group, _, span in self._groups()
        )
        starts = [start for _, start, _ in self._groups()]
        heads = "".join(
            f'<th scope="col"{_class("start" if i in starts else "")}>{escape(column)}</th>'
            for i, (_, column) in enumerate(self.columns)
        )
        body = []
        for row, (label, *numbers) in zip(self.rows, self._rendered(_HTML), strict=True):
            cells = [f'<th scope="row">{label}</th>']
            for i, (entry, number) in enumerate(zip(row.entries, numbers, strict=True)):
                # Space for the deviations of other rows keeps the decimal points aligned.
                alone = not entry.numbers(self.digits)[1] and any(r.entries[i].std is not None for r in self.rows)
                names = " ".join(["start"] * (i in starts) + ["alone"] * alone)
                cells.append(f"<td{_class(names)}>{number}</td>")
            body.append(f"<tr{_class('published' if row.published else '')}>{''.join(cells)}</tr>")
        first = f"<tr><th></th>{groups}</tr>\n" if any(group for group, _ in self.columns) else ""
        footnotes = "".join(f"<li>{escape(note)}</li>" for note in self.notes())
        below = f'<ol class="notes">{footnotes}</ol>' if footnotes else ""
        below += "".join(f'<p class="remark">{escape(remark)}</p>' for remark in self.remarks)
        rows = "\n".join(body)
        return (
            f'<figure class="table" id="{escape(self.key)}">\n<figcaption>{escape(self.title)}</figcaption>\n'
            f'<div class="scroll"><table>\n<thead>\n{first}<tr><th scope="col">{escape(self.head)}</th>{heads}</tr>\n'
            f"</thead>\n<tbody>\n{rows}\n</tbody>\n</table></div>\n{below}\n</figure>"
        )


def summarize(values: Sequence[float | None], notes: Iterable[str] = ()) -> Summary:
    """Return the mean and standard deviation of the values that are not None; a footnote explains the others."""
    present = [value for value in values if value is not None]
    note = "; ".join(dict.fromkeys(filter(None, notes)))
    if not present:
        return Summary(note=note)
    if len(present) < len(values):
        note = f"{len(present)} of {len(values)} runs: {note}"
    mean = math.fsum(present) / len(present)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in present) / len(present)) if len(present) > 1 else None
    return Summary(mean, std, len(present), note=note)


def mark_best(rows: Sequence[TableRow], digits: int = 3) -> tuple[TableRow, ...]:
    """Mark the highest mean of each column, and all means equal to it after rounding; published rows are ignored."""
    measured = [[entry.mean for entry in row.entries] for row in rows if not row.published]
    columns = ([round(mean, digits) for mean in column if mean is not None] for column in zip(*measured, strict=True))
    best = [max(means, default=None) for means in columns]

    def marked(entry: Summary, top: float | None) -> Summary:
        return replace(entry, is_best=entry.mean is not None and round(entry.mean, digits) == top)

    return tuple(row if row.published else replace(row, entries=tuple(map(marked, row.entries, best))) for row in rows)


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
