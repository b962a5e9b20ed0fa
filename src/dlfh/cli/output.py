"""Command output: tables for people, JSON for programs, and lists of skipped input."""

from __future__ import annotations

import json
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from dlfh._terminal import CONTROL_CHARACTERS, plain

if TYPE_CHECKING:
    from dlfh._selection import Trial
    from dlfh.collection.calibration.model import CalibrationReport
    from dlfh.collection.evaluation import RetrievalQuality
    from dlfh.datasets.problem import Problem

_MAX_PRINTED_PROBLEMS = 20  # maximum number of problems printed one by one
_started = time.perf_counter()


def start_clock() -> None:
    """Start timing a command."""
    global _started
    _started = time.perf_counter()


def elapsed() -> float:
    """Return the seconds since the command started."""
    return time.perf_counter() - _started


def duration(seconds: float) -> str:
    """Format a duration."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    return f"{whole} s" if whole < 120 else f"{whole // 60} min {whole % 60} s"


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    print(to_json(value, indent=2))


def to_json(value: Any, indent: int | None = None) -> str:
    """Return JSON with terminal control characters escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    # JSON escapes only some control characters. The newlines that remain come from the indentation.
    return CONTROL_CHARACTERS.sub(lambda match: match[0] if match[0] == "\n" else f"\\u{ord(match[0]):04x}", text)


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], whole: Sequence[str] = ()) -> None:
    """Print a table; cells of the columns in ``whole`` are never truncated or wrapped, so that users can copy them."""
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=Text(plain(title)) if title else None, title_justify="left")
    cells = [[Text(plain(cell)) for cell in row] for row in rows]
    min_widths = [
        max([cell_len(row[place].plain) for row in cells], default=0) if column in whole else min(len(column), 8)
        for place, column in enumerate(columns)
    ]
    for column, width in zip(columns, min_widths, strict=True):
        table.add_column(Text(plain(column)), no_wrap=column in whole, min_width=width if column in whole else None)
    for row in cells:
        table.add_row(*row)
    console = Console()
    if whole:  # borders take three characters per column and one more
        console.width = max(console.width, sum(min_widths) + 3 * len(columns) + 1)
    console.print(table)


def print_quality(directions: Sequence[RetrievalQuality], title: str) -> None:
    """Print retrieval quality by direction."""
    rows, more = [], []
    for each in directions:
        name, sizes = f"{each.query} → {each.database}", f"{each.n_queries:,} / {each.n_items:,}"
        rows.append((name, sizes, each.codes, *_decimals(each.chance, each.hamming, each.asymmetric, each.any)))
        more.append((name, *_decimals(each.ndcg, each.exact)))
    columns = ("query → database", "queries / items", "codes", "chance", "Hamming", "asym.", "labels")
    print_table(title, columns, rows)
    title = "Asymmetric ranking: nDCG@10, and the share of the first five results with exactly the query's labels"
    print_table(title, ("query → database", "nDCG@10", "exact"), more)


def print_trials(trials: Sequence[Trial[Any]], n_draws: int = 1) -> None:
    """Print the options that were tried, and mark the chosen ones."""
    if not trials:
        return
    samples = "" if n_draws == 1 else f", mean over {n_draws} samples"
    n_items = max(trial.n_points for trial in trials)
    rows = []
    for trial in trials:
        seconds, chosen = f"{trial.seconds:.1f}" if trial.seconds else "", "chosen" if trial.chosen else ""
        rows.append((trial.setting, trial.option, *_decimals(*trial.scores), seconds, chosen))
    title = f"Trials on {n_items:,} items{samples}, measured on items held out of training"
    print_table(title, ("setting", "option", "MAP", "nDCG@10", "exact", "seconds", ""), rows)


def print_calibration(reports: Sequence[CalibrationReport]) -> None:
    """Print how well predicted probabilities are calibrated."""
    columns = ("query", "item codes", "pairs", "relevant", "calibration error", "of the first ten", "Brier score")
    rows = []
    for each in reports:
        errors = _decimals(each.share, each.calibration_error, each.first_ten, each.brier)
        rows.append((each.query, each.codes, f"{each.n_pairs:,}", *errors))
    if rows:
        print_table("Calibration of the predicted probabilities", columns, rows)


def _decimals(*values: float) -> tuple[str, ...]:
    return tuple(f"{value:.3f}" for value in values)


def report(
    message: str, summary: Mapping[str, Any], problems: Sequence[Problem] = (), *, as_json: bool = False
) -> None:
    """Print the outcome of a command and the skipped input: a message for people, or the summary as JSON."""
    if as_json:
        print_json({**summary, "problems": [asdict(problem) for problem in problems]})
        return
    print_problems(problems)
    print(plain(message))


def print_error(message: object) -> None:
    """Print an error message as one line on standard error."""
    print(plain(f"dlfh: {' '.join(str(message).split())}"), file=sys.stderr, flush=True)


def print_problems(problems: Sequence[Problem]) -> None:
    """Print skipped input, with reasons, on standard error: the first twenty problems and the number of others."""
    if not problems:
        return
    skipped = Counter(problem.skipped for problem in problems)
    counts = ", ".join(f"{number} {what}{'s' if number > 1 else ''}" for what, number in skipped.items())
    print(f"skipped: {plain(counts)}", file=sys.stderr)
    for problem in sorted(problems, key=lambda problem: _natural_key(problem.where))[:_MAX_PRINTED_PROBLEMS]:
        print(plain(f"  {problem.where} ({problem.skipped}): {problem.reason}"), file=sys.stderr)
    if len(problems) > _MAX_PRINTED_PROBLEMS:
        n_more = len(problems) - _MAX_PRINTED_PROBLEMS
        print(f"  ... and {n_more} more (--problems FILE lists all of them)", file=sys.stderr)


def _natural_key(place: str) -> list[tuple[int, str]]:
    """Return a sort key that places line 9 before line 10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", place)]
