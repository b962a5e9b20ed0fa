"""What every single run gave, as a file of a report: for statistics of one's own, and for `dlfh bench rank`."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from dlfh.errors import InputError

__all__ = ["OUTCOMES_FILE", "Outcome", "outcomes_csv", "read_outcomes"]

#: Where a report keeps what each run gave.
OUTCOMES_FILE = "tables/map-runs.csv"


@dataclass(frozen=True)
class Outcome:
    """What one run of a row gave: its MAP on a data set, by code length, protocol and direction."""

    data: str
    row: str
    bits: int
    protocol: str
    direction: str
    seed: int
    map: float


def outcomes_csv(runs: Iterable[Outcome]) -> str:
    """Return runs as a table, as `read_outcomes` takes it."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(Outcome.__dataclass_fields__)
    writer.writerows([*list(vars(run).values())[:-1], f"{run.map:.6f}"] for run in runs)
    return out.getvalue()


def read_outcomes(report: Path) -> list[Outcome]:
    """Read what the runs of a report gave, or raise InputError."""
    path = report / OUTCOMES_FILE
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = list(csv.DictReader(file, strict=True))
        return [
            Outcome(line["data"], line["row"], int(line["bits"]), *_place(line), int(line["seed"]), float(line["map"]))
            for line in lines
        ]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; it must be a folder of dlfh bench map") from None
    except (csv.Error, KeyError, TypeError, ValueError):
        raise InputError(f"{path} is not what dlfh bench map wrote") from None


def _place(line: dict[str, str]) -> tuple[str, str]:
    return line["protocol"], line["direction"]
