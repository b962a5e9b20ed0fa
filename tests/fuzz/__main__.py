"""The command line: see the package."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.fuzz.cases import Target, packed, unpacked
from tests.fuzz.pool import Finding, Summary, run_case, run_cases
from tests.fuzz.targets import TARGETS


def main() -> int:
    arguments = _arguments()
    chosen = [TARGETS[arguments.format]] if arguments.format != "all" else list(TARGETS.values())
    if arguments.case is not None:
        return _again(chosen[0], arguments.case)
    summaries = []
    for target in chosen:
        seeds = range(arguments.first, arguments.first + arguments.cases)
        summaries.append(run_cases(target, seeds, arguments.jobs))
        print(_line(summaries[-1]) if len(summaries) > 1 else f"{_HEAD}\n{_line(summaries[-1])}", flush=True)
    print(_line(_total(summaries)))
    findings = [finding for summary in summaries for finding in summary.findings]
    for finding, count in _distinct(findings):
        path = _keep(TARGETS[finding.format], finding, arguments.findings)
        print(f"\n{finding.format}: {finding.kind}: {finding.what} ({count} times)")
        print(f"  again: {finding.command}\n  kept:  {path}")
        print("  " + finding.details.strip().replace("\n", "\n  ")[:1500])
    return 1 if findings else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Give damaged files to what reads them.")
    parser.add_argument("format", nargs="?", default="all", choices=["all", *TARGETS], metavar="FORMAT")
    parser.add_argument("case", nargs="?", help="the number of one case, or a file that holds one")
    parser.add_argument("--cases", type=int, default=2000, help="how many of each format")
    parser.add_argument("--first", type=int, default=0, help="the number of the first")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="how many processes at a time")
    parser.add_argument("--findings", type=Path, default=Path("fuzz-findings"), help="where findings are kept")
    return parser.parse_args()


_HEAD = "format         cases  refused  loaded  findings  peak MB  slowest s  cases/s"


def _line(summary: Summary) -> str:
    counts = (summary.cases, summary.outcomes["refused"], summary.outcomes["loaded"], len(summary.findings))
    cases, refused, loaded, findings = (f"{count:,}" for count in counts)
    speed = summary.cases / max(summary.seconds, 1e-9)
    return (
        f"{summary.format:<12}{cases:>8}{refused:>9}{loaded:>8}{findings:>10}"
        f"{summary.peak_megabytes:>9.0f}{summary.slowest_seconds:>11.2f}{speed:>9.0f}"
    )


def _total(summaries: list[Summary]) -> Summary:
    total = Summary("all")
    for summary in summaries:
        total.outcomes += summary.outcomes
        total.findings += summary.findings
        total.seconds += summary.seconds
        total.peak_megabytes = max(total.peak_megabytes, summary.peak_megabytes)
        total.slowest_seconds = max(total.slowest_seconds, summary.slowest_seconds)
    return total


def _distinct(findings: list[Finding]) -> list[tuple[Finding, int]]:
    """Return one finding of each kind, and how many there are."""
    alike: dict[tuple[str, str, str], list[Finding]] = defaultdict(list)
    for finding in findings:
        alike[finding.format, finding.kind, finding.what].append(finding)
    return [(several[0], len(several)) for several in alike.values()]


def _keep(target: Target, finding: Finding, folder: Path) -> Path:
    """Write the case of a finding to a file, ready for the corpus."""
    place = folder / target.name
    place.mkdir(parents=True, exist_ok=True)
    path = place / f"{finding.kind}-{finding.seed}.zip"
    path.write_bytes(packed(target.case(finding.seed)))
    return path


def _again(target: Target, case: str) -> int:
    """Run one case in this process, so that a debugger can look at it."""
    chosen = target.case(int(case)) if case.isdigit() else unpacked(Path(case))
    with tempfile.TemporaryDirectory() as folder:
        outcome, kind, what, details = run_case(target, chosen, Path(folder))
    print(f"{outcome} {kind} {what}\n{details}".strip())
    return 1 if outcome == "finding" else 0


if __name__ == "__main__":
    sys.exit(main())
