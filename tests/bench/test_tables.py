"""Tables have the same content in every format."""

from __future__ import annotations

import csv
import io
import re
import statistics
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.bench.tables import ReportTable, Summary, TableRow, mark_best, summarize

NOTES = ["", "needs more than 8 GB of memory", "n_pairs = 5 & 50% <of> it"]


entries = st.builds(
    Summary,
    mean=st.none() | st.floats(0, 999),
    std=st.none() | st.floats(0, 9),
    runs=st.integers(0, 9),
    is_best=st.booleans(),
    note=st.sampled_from(NOTES),
)


rows = st.builds(TableRow, st.sampled_from(["DLFH", "A_B & C"]), st.tuples(entries, entries), st.sampled_from(NOTES))


tables = st.builds(
    ReportTable,
    st.just("key"),
    st.just("MAP"),
    st.just((("image → text", "16 bits"), ("text → image", "16 bits"))),
    st.lists(rows, min_size=1, max_size=4).map(tuple),
    digits=st.sampled_from([2, 3]),
)


def in_csv(table: ReportTable) -> list[tuple[str, str, bool]]:
    found = csv.DictReader(io.StringIO(table.to_csv()))
    return [(row["mean"] or "–", row["std"], row["best"] == "yes") for row in found]


def in_html(table: ReportTable) -> list[tuple[str, str, bool]]:
    cells = re.findall(r"<td[^>]*>(.*?)</td>", table.to_html())
    plain = [re.sub(r"<sup>\d+</sup>", "", cell) for cell in cells]
    parts = [re.fullmatch(r"(<strong>)?([\d.–]+)(?:</strong>)?(?:<small>±([\d.]+)</small>)?", cell) for cell in plain]
    return [(part[2], part[3] or "", bool(part[1])) for part in parts if part]


def in_latex(table: ReportTable) -> list[tuple[str, str, bool]]:
    body = table.to_latex().split(r"\midrule")[1].split(r"\bottomrule")[0]
    found = []
    for line in body.strip().splitlines():
        for cell in re.split(r"(?<!\\)&", line.removesuffix(r"\\"))[1:]:
            plain = re.sub(r"\$\^\{\d+\}\$", "", cell).strip()
            part = re.fullmatch(r"(\\textbf\{)?([\d.]+|--)\}?(?:\{\\scriptsize\$\\pm\$([\d.]+)\})?", plain)
            assert part
            found.append((part[2].replace("--", "–"), part[3] or "", bool(part[1])))
    return found


def in_markdown(table: ReportTable) -> list[tuple[str, str, bool]]:
    found = []
    for line in table.to_markdown().splitlines()[2 : 2 + len(table.rows)]:
        for cell in line.strip("| ").split(" | ")[1:]:
            part = re.fullmatch(r"(\*\*)?([\d.–]+)(?:\*\*)?(?: ±([\d.]+))?", re.sub(r"<sup>\d+</sup>", "", cell))
            assert part
            found.append((part[2], part[3] or "", bool(part[1])))
    return found


@given(tables)
def test_all_formats_have_the_same_numbers(table: ReportTable) -> None:
    assert in_csv(table) == in_html(table) == in_latex(table) == in_markdown(table)
    assert len(in_csv(table)) == 2 * len(table.rows)


def unlatex(text: str) -> str:
    return text.replace(r"\textless{}", "<").replace(r"\textgreater{}", ">").replace("\\", "")


@given(tables)
def test_all_formats_have_every_footnote(table: ReportTable) -> None:
    for note in table.notes():
        assert note in unescape(table.to_html())
        assert note in table.to_csv()
        assert note in table.to_text()
        assert note in unlatex(table.to_latex())
        assert note in table.to_markdown().replace("\\", "")


def test_the_layout_of_the_paper_has_a_block_of_rows_for_each_direction() -> None:
    columns = tuple((way, bits) for way in ("image → text", "text → image") for bits in ("16 bits", "64 bits"))
    values = [Summary(mean / 8, 0.125, 5) for mean in (4, 5, 6, 7)]
    rows = mark_best([TableRow("DLFH", tuple(values)), TableRow("SCM", tuple(values[:1] * 4), "a note")])
    table = ReportTable("map", "MAP", columns, rows, layout="paper")
    body = table.to_latex().split(r"\toprule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert body == [
        r"task & method & 16 bits & 64 bits \\",
        r"\midrule",
        r"\multirow{2}{*}{image $\to$ text} & DLFH & \textbf{.500$\pm$.125} & \textbf{.625$\pm$.125} \\",
        r" & SCM$^{1}$ & \textbf{.500$\pm$.125} & .500$\pm$.125 \\",
        r"\midrule",
        r"\multirow{2}{*}{text $\to$ image} & DLFH & \textbf{.750$\pm$.125} & \textbf{.875$\pm$.125} \\",
        r" & SCM$^{1}$ & .500$\pm$.125 & .500$\pm$.125 \\",
    ]
    alone = ReportTable("time", "Time", (("points", "10"), ("all", "20")), rows[:0], layout="paper")
    assert r"\multicolumn" in alone.to_latex()  # groups with other columns stay side by side


def test_latex_can_have_confidence_intervals_of_the_mean() -> None:
    runs = [0.5, 0.7, 0.6, 0.55]
    table = ReportTable(
        "map", "MAP; mean ± standard deviation over 4 runs", (("", "16 bits"),), (TableRow("A", (summarize(runs),)),),
        interval="confidence",
    )  # fmt: skip
    half = 3.182446 * statistics.stdev(runs) / 2  # the 97.5 % quantile of t with 3 degrees of freedom
    assert rf"{{\scriptsize$\pm${half:.3f}}}" in table.to_latex()
    assert r"mean $\pm$ half of the 95 \% confidence interval over 4 runs" in table.to_latex()
    assert "pm" not in replace(table, rows=(TableRow("A", (summarize([0.5]),)),)).to_latex().split("toprule")[1]


def test_markdown_escapes_text_and_sets_published_rows_in_italics() -> None:
    rows = TableRow("A|B*<i>", (Summary(0.25),)), TableRow("A", (Summary(0.5),), published=True)
    table = ReportTable("key", "MAP", (("", "a_b"),), rows, digits=2, remarks=("Published: elsewhere.",))
    assert table.to_markdown().splitlines() == [
        r"| method | a\_b |",
        "| --- | ---: |",
        r"| A\|B\*\<i\> | 0.25 |",
        "| *published* | *0.50* |",
        "",
        "<sub>Published: elsewhere.</sub>",
    ]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=5))
def test_the_best_entry_is_the_highest_after_rounding(means: list[float]) -> None:
    marked = mark_best([TableRow(str(i), (Summary(mean),)) for i, mean in enumerate(means)])
    shown = [row.entries[0].numbers(3)[0] for row in marked]
    assert [row.entries[0].is_best for row in marked] == [text == max(shown) for text in shown]


def test_a_footnote_explains_failed_seeds() -> None:
    entry = summarize([0.5, None, 0.7], ["", "not finished in 5 minutes", ""])
    assert entry.mean == pytest.approx(0.6)
    assert (entry.runs, entry.note) == (2, "2 of 3 runs: not finished in 5 minutes")
