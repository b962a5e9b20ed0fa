"""Tables of means: one content, written as text, Markdown, CSV, LaTeX and HTML with the same digits."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from html import escape

__all__ = ["DASH", "Entry", "ReportTable", "TableRow", "mark_best", "markdown_text", "summarize"]

DASH = "–"


@dataclass(frozen=True)
class Entry:
    """A number in a table: a mean over runs, or a dash and why.

    Attributes
    ----------
    mean, std : float or None
        None for what there is not; ``std`` also where there is one run.
    runs : int
    is_best : bool
    note : str
        A footnote.
    digits : int or None
        After the point, where they are not those of the table.
    """

    mean: float | None = None
    std: float | None = None
    runs: int = 0
    is_best: bool = False
    note: str = ""
    digits: int | None = None

    def numbers(self, digits: int) -> tuple[str, str]:
        """Return mean and standard deviation as every form of the table shows them."""
        digits = digits if self.digits is None else self.digits
        mean = DASH if self.mean is None else f"{self.mean:.{digits}f}"
        return mean, "" if self.std is None or self.mean is None else f"{self.std:.{digits}f}"


@dataclass(frozen=True)
class TableRow:
    """A row: its label, its entries, a footnote to the label; ``published`` rows stand beside ours."""

    label: str
    entries: tuple[Entry, ...]
    note: str = ""
    published: bool = False


@dataclass(frozen=True)
class ReportTable:
    """A table of means with groups of columns.

    Attributes
    ----------
    key : str
        Name of its files.
    title : str
    columns : tuple of (str, str)
        Group and heading of each column.
    rows : tuple of TableRow
    digits : int
        After the point.

    Examples
    --------
    >>> row = TableRow("DLFH", (Entry(0.5, 0.01, 3, True), Entry(note="needs more than 8 GB of memory")))
    >>> table = ReportTable("map", "MAP", (("image → text", "16"), ("image → text", "32")), (row,))
    >>> print(table.to_csv(), end="")
    row,group,column,mean,std,runs,best,note
    DLFH,image → text,16,0.500,0.010,3,yes,
    DLFH,image → text,32,,,0,,needs more than 8 GB of memory
    """

    key: str
    title: str
    columns: tuple[tuple[str, str], ...]
    rows: tuple[TableRow, ...]
    digits: int = 3
    head: str = "method"
    remarks: tuple[str, ...] = field(default=())

    def groups(self) -> list[tuple[str, int]]:
        """Return the groups of columns and how many columns each spans."""
        found: list[tuple[str, int]] = []
        for group, _ in self.columns:
            if found and found[-1][0] == group:
                found[-1] = group, found[-1][1] + 1
            else:
                found.append((group, 1))
        return found

    def notes(self) -> list[str]:
        """Return the footnotes in the order of their first mention; a note's number is its place."""
        mentioned = [note for row in self.rows for note in (row.note, *(entry.note for entry in row.entries)) if note]
        return list(dict.fromkeys(mentioned))

    def to_csv(self) -> str:
        """Return one line per entry, with the digits that the other forms show."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(["row", "group", "column", "mean", "std", "runs", "best", "note"])
        for row in self.rows:
            label = f"{row.label} (published)" if row.published else row.label
            for (group, column), entry in zip(self.columns, row.entries, strict=True):
                note = "; ".join(filter(None, (row.note, entry.note)))
                best = "yes" if entry.is_best else ""
                mean, std = entry.numbers(self.digits)
                writer.writerow([label, group, column, "" if mean == DASH else mean, std, entry.runs, best, note])
        return out.getvalue()

    def to_text(self) -> str:
        """Return the table for a terminal; an asterisk marks the best of a column."""
        notes = self.notes()
        heads = [self.head, *(f"{group} {column}".strip() for group, column in self.columns)]
        lines = [heads]
        for row in self.rows:
            label = ("  published" if row.published else row.label) + _reference(row.note, notes, " [{}]")
            lines.append([label, *(self._plain_entry(entry, notes) for entry in row.entries)])
        widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
        text = [self.title, ""]
        for line in lines:
            cells = [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:], strict=True))]
            text.append("  ".join(cells).rstrip())
        text += [f"[{i}] {note}" for i, note in enumerate(notes, 1)]
        return "\n".join([*text, *self.remarks]) + "\n"

    def _plain_entry(self, entry: Entry, notes: list[str]) -> str:
        mean, std = entry.numbers(self.digits)
        return (
            mean + (f"±{std}" if std else "") + ("*" if entry.is_best else "") + _reference(entry.note, notes, "[{}]")
        )

    def to_markdown(self) -> str:
        """Return a table for GitHub and the like, without its title: the best in bold, published rows in italics."""
        notes = self.notes()
        heads = [
            markdown_text(self.head),
            *("<br>".join(map(markdown_text, filter(None, each))) for each in self.columns),
        ]
        lines = [_markdown_row(heads)]
        lines.append(_markdown_row(["---", *("---:" for _ in self.columns)]))
        for row in self.rows:
            label = "*published*" if row.published else markdown_text(row.label)
            cells = [label + _reference(row.note, notes, "<sup>{}</sup>")]
            lines.append(_markdown_row(cells + [self._markdown_entry(entry, row, notes) for entry in row.entries]))
        below = [f"<sup>{i}</sup> {markdown_text(note)}" for i, note in enumerate(notes, 1)]
        below += map(markdown_text, self.remarks)
        if below:
            lines += ["", "<sub>" + "<br>\n".join(below) + "</sub>"]
        return "\n".join(lines) + "\n"

    def _markdown_entry(self, entry: Entry, row: TableRow, notes: list[str]) -> str:
        mean, std = entry.numbers(self.digits)
        number = f"**{mean}**" if entry.is_best else f"*{mean}*" if row.published and mean != DASH else mean
        return number + (f" ±{std}" if std else "") + _reference(entry.note, notes, "<sup>{}</sup>")

    def to_latex(self) -> str:
        """Return a booktabs table: the best of a column in bold, footnotes below."""
        notes = self.notes()
        n_columns = len(self.columns)
        heads, rules, at = [], [], 2
        for group, span in self.groups():
            heads.append(rf"\multicolumn{{{span}}}{{c}}{{{_latex(group)}}}")
            rules.append(rf"\cmidrule(lr){{{at}-{at + span - 1}}}")
            at += span
        lines = [
            r"% \usepackage{booktabs}",
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(self.title)}}}",
            rf"\begin{{tabular}}{{l{'c' * n_columns}}}",
            r"\toprule",
        ]
        if any(group for group, _ in self.columns):
            lines += [" & " + " & ".join(heads) + r" \\", "".join(rules)]
        lines += [
            " & ".join([_latex(self.head), *(_latex(column) for _, column in self.columns)]) + r" \\",
            r"\midrule",
        ]
        for row in self.rows:
            label = r"\quad published" if row.published else _latex(row.label)
            cells = [label + _reference(row.note, notes, "$^{{{}}}$")]
            lines.append(" & ".join(cells + [self._latex_entry(entry, notes) for entry in row.entries]) + r" \\")
        lines += [r"\bottomrule", r"\end{tabular}"]
        lines += [rf"\par\footnotesize $^{{{i}}}$ {_latex(note)}" for i, note in enumerate(notes, 1)]
        lines += [rf"\par\footnotesize {_latex(remark)}" for remark in self.remarks]
        return "\n".join([*lines, r"\end{table}", ""])

    def _latex_entry(self, entry: Entry, notes: list[str]) -> str:
        mean, std = entry.numbers(self.digits)
        mean = "--" if mean == DASH else mean
        number = (rf"\textbf{{{mean}}}" if entry.is_best else mean) + (rf"{{\scriptsize$\pm${std}}}" if std else "")
        return number + _reference(entry.note, notes, "$^{{{}}}$")

    def to_html(self) -> str:
        """Return a figure element with the table and its footnotes."""
        notes = self.notes()
        groups = "".join(
            f'<th colspan="{span}" scope="colgroup" class="group">{escape(group)}</th>' for group, span in self.groups()
        )
        starts = self._group_starts()
        heads = "".join(
            f'<th scope="col"{_class(i in starts and "start")}>{escape(column)}</th>'
            for i, (_, column) in enumerate(self.columns)
        )
        body = "\n".join(self._html_row(row, notes, starts) for row in self.rows)
        first = f"<tr><th></th>{groups}</tr>\n" if any(group for group, _ in self.columns) else ""
        footnotes = "".join(f"<li>{escape(note)}</li>" for note in notes)
        below = f'<ol class="notes">{footnotes}</ol>' if notes else ""
        below += "".join(f'<p class="remark">{escape(remark)}</p>' for remark in self.remarks)
        return (
            f'<figure class="table" id="{escape(self.key)}">\n<figcaption>{escape(self.title)}</figcaption>\n'
            f'<div class="scroll"><table>\n<thead>\n{first}<tr><th scope="col">{escape(self.head)}</th>{heads}</tr>\n'
            f"</thead>\n<tbody>\n{body}\n</tbody>\n</table></div>\n{below}\n</figure>"
        )

    def _group_starts(self) -> set[int]:
        starts, at = set(), 0
        for _, span in self.groups():
            starts.add(at)
            at += span
        return starts

    def _html_row(self, row: TableRow, notes: list[str], starts: set[int]) -> str:
        label = "published" if row.published else escape(row.label)
        cells = [f'<th scope="row">{label}{_reference(row.note, notes, "<sup>{}</sup>")}</th>']
        for i, entry in enumerate(row.entries):
            mean, std = entry.numbers(self.digits)
            number = f"<strong>{mean}</strong>" if entry.is_best else mean
            spread = f"<small>±{std}</small>" if std else ""
            mark = _reference(entry.note, notes, "<sup>{}</sup>")
            # Room for the spread that others of the column have, so that points stand below each other.
            alone = not std and any(other.entries[i].std is not None for other in self.rows)
            names = " ".join(["start"] * (i in starts) + ["alone"] * alone)
            cells.append(f"<td{_class(names)}>{number}{spread}{mark}</td>")
        return f"<tr{_class(row.published and 'published')}>{''.join(cells)}</tr>"


def summarize(values: Sequence[float | None], notes: Iterable[str] = ()) -> Entry:
    """Return the mean and the standard deviation of what there is; a footnote says what there is not.

    Examples
    --------
    >>> summarize([0.5, 0.7]).mean, summarize([None], ["not finished in 5 minutes"]).note
    (0.6, 'not finished in 5 minutes')
    """
    found = [value for value in values if value is not None]
    note = "; ".join(dict.fromkeys(filter(None, notes)))
    if not found:
        return Entry(note=note)
    if len(found) < len(values):
        note = f"{len(found)} of {len(values)} runs: {note}"
    mean = math.fsum(found) / len(found)
    std = math.sqrt(math.fsum((value - mean) ** 2 for value in found) / len(found)) if len(found) > 1 else None
    return Entry(mean, std, len(found), note=note)


def mark_best(rows: Sequence[TableRow], digits: int = 3) -> tuple[TableRow, ...]:
    """Mark, in each column, the highest of our own means, and all that look the same."""
    own = [row for row in rows if not row.published]
    best = []
    for i in range(len(own[0].entries) if own else 0):
        means = [round(mean, digits) for row in own if (mean := row.entries[i].mean) is not None]
        best.append(max(means, default=None))

    def marked(row: TableRow) -> TableRow:
        if row.published:
            return row
        entries = tuple(
            replace(entry, is_best=entry.mean is not None and round(entry.mean, digits) == top)
            for entry, top in zip(row.entries, best, strict=True)
        )
        return replace(row, entries=entries)

    return tuple(map(marked, rows))


def _reference(note: str, notes: list[str], form: str) -> str:
    return form.format(notes.index(note) + 1) if note else ""


def markdown_text(text: str) -> str:
    """Return text that Markdown shows as it is."""
    return "".join("\\" + letter if letter in "\\|*_`[]<>" else letter for letter in text)


def _markdown_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _class(name: str | bool) -> str:
    return f' class="{name}"' if name else ""


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "→": r"$\to$", "–": "--", "×": r"$\times$",
    "λ": r"$\lambda$", "±": r"$\pm$", "|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def _latex(text: str) -> str:
    return "".join(_LATEX.get(letter, letter) for letter in text)
