"""What commands print: tables for people, JSON for programs, and what was left out."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dlfh._terminal import STEERING, plain

if TYPE_CHECKING:
    from dlfh.collection.calibration.report import CalibrationReport
    from dlfh.collection.choosing import Trial
    from dlfh.collection.evaluation import RetrievalQuality
    from dlfh.datasets.problem import Problem

__all__ = [
    "duration",
    "elapsed",
    "print_calibration",
    "print_json",
    "print_problems",
    "print_quality",
    "print_table",
    "print_trials",
    "report",
    "start_clock",
]

#: How many problems are listed one by one.
_SHOWN = 20

_began = time.perf_counter()


def start_clock() -> None:
    """Begin to count the time of a command."""
    global _began
    _began = time.perf_counter()


def elapsed() -> float:
    """Return for how many seconds the user has been waiting for a command."""
    return time.perf_counter() - _began


def duration(seconds: float) -> str:
    """Return a time in words.

    Examples
    --------
    >>> duration(0.4), duration(42.2), duration(200)
    ('0.4 s', '42 s', '3 min 20 s')
    """
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    print(_to_json(value, indent=2))


def _to_json(value: Any, indent: int | None = None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    # (Of what steers a terminal, JSON itself spells out only a part; the newlines here are its own.)
    return STEERING.sub(lambda found: found[0] if found[0] == "\n" else f"\\u{ord(found[0]):04x}", text)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], whole: Sequence[str] = ()) -> None:
    """Print a table on standard output.

    The cells of the columns that are named in ``whole`` are never cut or broken, however narrow the terminal: they are
    to be copied.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(plain(title)) if title else None, title_justify="left")
    cells = [[Text(plain(cell)) for cell in row] for row in rows]
    least = [
        max([cell_len(row[place].plain) for row in cells], default=0) if column in whole else min(len(column), 8)
        for place, column in enumerate(columns)
    ]
    for column, width in zip(columns, least, strict=True):
        table.add_column(Text(plain(column)), no_wrap=column in whole, min_width=width if column in whole else None)
    for row in cells:
        table.add_row(*row)
    console = Console()
    if whole:  # lines of a table have three characters between cells, and two at each end
        console.width = max(console.width, sum(least) + 3 * len(columns) + 1)
    console.print(table)


def print_quality(directions: Sequence[RetrievalQuality], title: str) -> None:
    """Print how well each direction of search works."""
    print_table(
        title,
        ("query → database", "queries / items", "codes", "chance", "Hamming", "asym.", "specific"),
        [
            (
                f"{quality.query} → {quality.database}",
                f"{quality.n_queries:,} / {quality.n_items:,}",
                quality.codes,
                *(f"{value:.3f}" for value in (quality.chance, quality.hamming, quality.asymmetric, quality.specific)),
            )
            for quality in directions
        ],
    )
    print_table(
        "More than one label: nDCG@10, and the first five that have exactly the query's (asymmetric ranking)",
        ("query → database", "nDCG@10", "exact"),
        [
            (f"{quality.query} → {quality.database}", f"{quality.ndcg:.3f}", f"{quality.exact:.3f}")
            for quality in directions
        ],
    )


def print_trials(trials: Sequence[Trial], n_draws: int = 1) -> None:
    """Print what was tried, and what was taken."""
    if trials:
        drawn = "" if n_draws == 1 else f", drawn {n_draws} times"
        n_items = max(trial.n_items for trial in trials)
        print_table(
            f"Tried on {n_items:,} items{drawn}, a part of them asking for each other unseen",
            ("what", "option", "MAP", "nDCG@10", "exact", "seconds", ""),
            [
                (
                    trial.what,
                    trial.option,
                    *(f"{value:.3f}" for value in (trial.map, trial.ndcg, trial.exact)),
                    f"{trial.seconds:.1f}" if trial.seconds else "",
                    "taken" if trial.chosen else "",
                )
                for trial in trials
            ],
        )


def print_calibration(reports: Sequence[CalibrationReport]) -> None:
    """Print how well probabilities agree with observed relevance."""
    if reports:
        print_table(
            "Probabilities of answers, against the truth",
            ("query", "codes found", "pairs", "right", "calibration error", "Brier score"),
            [
                (
                    report.query,
                    report.codes,
                    f"{report.n_pairs:,}",
                    *(f"{value:.3f}" for value in (report.share, report.calibration_error, report.brier)),
                )
                for report in reports
            ],
        )


def report(
    sentence: str,
    summary: Mapping[str, Any],
    problems: Sequence[Problem],
    *,
    as_json: bool,
    problem_file: Path | None,
    overwrite: bool = False,
) -> None:
    """Say what a command did and what it left out: a sentence for people, or the summary as JSON."""
    if problem_file is not None:
        _write_problems(problems, problem_file, overwrite)
    if as_json:
        print_json({**summary, "problems": [asdict(problem) for problem in problems]})
        return
    print_problems(problems)
    print(plain(sentence))


def print_problems(problems: Sequence[Problem]) -> None:
    """Say on standard error what was left out and why: the first twenty, and how many more."""
    if not problems:
        return
    lost = Counter(problem.lost for problem in problems)
    counted = ", ".join(f"{number} {what}{'s' if number > 1 else ''}" for what, number in lost.items())
    print(f"left out: {plain(counted)}", file=sys.stderr)
    for problem in sorted(problems, key=lambda problem: _by_number(problem.where))[:_SHOWN]:
        print(plain(f"  {problem.where} ({problem.lost}): {problem.reason}"), file=sys.stderr)
    if len(problems) > _SHOWN:
        print(f"  ... and {len(problems) - _SHOWN} more (--problems FILE writes them all)", file=sys.stderr)


def _by_number(place: str) -> list[tuple[int, str]]:
    """Return a key that sorts line 9 before line 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", place)]


def _write_problems(problems: Sequence[Problem], path: Path, overwrite: bool) -> None:
    from dlfh._persistence.outputs import write_output

    write_output(path, [(_to_json(asdict(problem)) + "\n").encode() for problem in problems], overwrite=overwrite)
