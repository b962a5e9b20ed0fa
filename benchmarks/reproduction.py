"""The paper's results on MIRFLICKR-25K beside ours.

    DLFH_DATA=/path/to/folder python -m benchmarks.reproduction --write docs/reproduction.md

Computes what is not in the cache of `make reproduction` (`--cache`), which is resumable. The folder has
`mirflickr25k.npz`.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import fill
from dlfh.bench.cells import Cache
from dlfh.bench.data import load_source
from dlfh.bench.experiments.paper_tables import published
from dlfh.bench.plan import Plan, Results
from dlfh.bench.runner import Runner
from dlfh.bench.settings import Settings
from dlfh.bench.tables import Summary, summarize

SETTINGS = Path(__file__).with_name("reproduction.toml")
DATA = "mirflickr-25k"
RUNS = published()["paper"]["runs"]
WAYS = {"I→T": "image → text", "T→I": "text → image"}

#: The row that repeats the paper's setting, for each of its methods.
ROWS = {
    "DLFH": "DLFH paper",
    "SMFH": "SMFH paper",
    "SCM": "SCM",
    "CMFH": "CMFH paper",
    "CCA-ITQ": "CCAITQ",
    "MLBE": "MLBE paper",
    "KDLFH": "KDLFH paper",
    "SePH": "SePH paper",
}

#: Experiments that explain differences: method, row, protocol, and what differs.
VARIANTS = (
    ("DLFH", "DLFH smaller-scale", "learned", "λ = 4 instead of 8"),
    ("CCA-ITQ", "CCAITQ unregularised", "learned", "ridge 10⁻⁶ instead of 10⁻⁴, rotation fitted to the images alone"),
    ("SMFH", "SMFH trained", "learned", "α = 10, 50 iterations instead of the authors' rule to stop"),
    (
        "SePH",
        "SePH paper",
        "learned",
        "learned codes for 5,000 points of the database, codes from one modality for the others",
    ),
)


@dataclass(frozen=True)
class Study:
    """Results of all rows on the data set."""

    plan: Plan
    results: Results

    @classmethod
    def of(cls, folder: Path, cache: Path) -> Study:
        """Compute the cells that are not cached, one at a time."""
        settings = Settings.read(SETTINGS, Settings.for_data(DATA)).changed(jobs=1)
        plan = Plan(load_source(DATA, folder / "mirflickr25k.npz"), settings)
        cells = [cell for row in settings.rows() for bits in settings.bits for cell in plan.cells(row, bits)]
        plan.check(cells)
        return cls(plan, Runner(Cache(cache), settings, show=True).run(plan.source, cells))

    def map(self, row: str, protocol: str, way: str, bits: int) -> Summary:
        """Return the MAP of a row over its runs."""
        cells = self.plan.cells(self.plan.settings.row(row), bits)
        scores = [self.results[cell].scores(protocol, WAYS[way]) for cell in cells]
        return summarize([None if each is None else each["map"] for each in scores])


def agrees(paper: Summary, ours: Summary) -> bool:
    """Return whether two means differ by at most two standard deviations of their difference, and half a last digit."""
    assert paper.mean is not None
    assert ours.mean is not None
    return abs(ours.mean - paper.mean) <= 2 * math.hypot(paper.std or 0, ours.std or 0) + 0.0005


def digits(number: float) -> str:
    return f"{number:.3f}".replace("0.", ".", 1)


def spread(summary: Summary) -> str:
    assert summary.mean is not None
    return digits(summary.mean) + (f" ±{digits(summary.std)}" if summary.std is not None else "")


def table(head: list[str], rows: Iterable[list[str]]) -> str:
    lines = [head, ["---"] * 2 + ["---:"] * (len(head) - 2), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def compared(study: Study, method: str, row: str, protocol: str | None = None) -> tuple[list[list[str]], list[bool]]:
    """Return two lines of a table, one for each direction, and whether each cell agrees."""
    lines, verdicts = [], []
    for way in WAYS:
        line = [method, way]
        tables = published()["map"]
        for n_bits, (mean, std) in zip(tables["bits"], tables["methods"][method][f"{DATA} {way}"], strict=True):
            paper = Summary(mean, std, RUNS)
            ours = study.map(row, protocol or tables["protocols"].get(method, "learned"), way, n_bits)
            assert ours.mean is not None
            difference = f"{ours.mean - mean:+.3f}".replace("0.", ".", 1)
            verdicts.append(agrees(paper, ours))
            line += [spread(paper), spread(ours), difference if verdicts[-1] else f"**{difference}**"]
        lines.append(line)
    return lines, verdicts


def head(first: list[str]) -> list[str]:
    names = ("paper", "ours", "difference")
    return first + [f"{bits} bits, {name}" if name == "paper" else name for bits in (16, 32, 64) for name in names]


def main_tables(study: Study) -> dict[str, str]:
    lines, verdicts = [], {}
    for method, row in ROWS.items():
        both, verdicts[method] = compared(study, method, row)
        lines += both
    inside = sum(map(sum, verdicts.values()))
    outside = ", ".join(f"{name} {len(each) - sum(each)}" for name, each in verdicts.items() if not all(each))
    runs = {method: study.map(row, "learned", "I→T", 16).runs for method, row in ROWS.items()}
    fewer = [f"{method} has {n} runs" for method, n in runs.items() if n < RUNS]
    count = (
        f"**{inside} of {sum(map(len, verdicts.values()))} cells agree within two standard deviations.** "
        f"Cells that do not: {outside or 'none'}.{''.join(f' {each}.' for each in fewer)}"
    )
    variants = [
        [f"{method}: {what}", *line[1:]]
        for method, row, protocol, what in VARIANTS
        for line in compared(study, method, row, protocol)[0]
    ]
    return {
        "count": count,
        "paper": table(head(["method", ""]), lines),
        "variants": table(head(["experiment", ""]), variants),
    }


def database_table(study: Study) -> str:
    columns = list(itertools.product(("learned", "hashed", "unseen"), (16, 32, 64)))
    lines = [
        [name, way, *(spread(study.map(row, protocol, way, bits)) for protocol, bits in columns)]
        for name, row in {**ROWS, "DLFH, our defaults": "DLFH"}.items()
        for way in WAYS
    ]
    return table(["method", "", *(f"{protocol}, {bits}" for protocol, bits in columns)], lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cache", type=Path, default=Path("runs/mirflickr-25k"))
    parser.add_argument("--write", type=Path)
    options = parser.parse_args()
    study = Study.of(Path(os.environ["DLFH_DATA"]), options.cache)
    tables = main_tables(study) | {"databases": database_table(study)}
    if options.write is None:
        print("\n\n".join(tables.values()))
    else:
        fill(options.write, tables)


if __name__ == "__main__":
    main()
