"""What was measured when a collection was built, kept in its folder so that it can be told later.

Nothing depends on it: a file that is not there or cannot be read says nothing, and is no error.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from dlfh._persistence.files import read_regular, replace_file
from dlfh.collection.calibration_report import CalibrationReport
from dlfh.collection.evaluation import RetrievalQuality

__all__ = ["Measured", "read_measured", "write_measured"]

_FILE = "measured.json"
_MOST_BYTES = 1 << 16
_Row = TypeVar("_Row", RetrievalQuality, CalibrationReport)


@dataclass(frozen=True)
class Measured:
    """How well held-out items found the others, and how far probabilities can be trusted; both empty if unknown."""

    qualities: list[RetrievalQuality]
    calibration_reports: list[CalibrationReport]


def write_measured(
    folder: Path, qualities: Sequence[RetrievalQuality], calibration_reports: Sequence[CalibrationReport]
) -> None:
    """Keep what was measured, if anything was."""
    if qualities or calibration_reports:
        plain = {
            "qualities": [asdict(own) for own in qualities],
            "calibration_reports": [asdict(own) for own in calibration_reports],
        }
        replace_file(folder / _FILE, [json.dumps(plain, indent=2).encode()])


def read_measured(folder: Path) -> Measured:
    """Return what was kept."""
    try:
        plain = json.loads(read_regular(folder / _FILE, _MOST_BYTES))
        return Measured(
            _rows(RetrievalQuality, plain["qualities"]), _rows(CalibrationReport, plain["calibration_reports"])
        )
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return Measured([], [])


def _rows(kind: type[_Row], plain: Any) -> list[_Row]:
    if not isinstance(plain, list):
        raise ValueError("not a list")
    return [kind(**{field.name: _checked(field.type, own[field.name]) for field in fields(kind)}) for own in plain]


def _checked(kind: Any, value: Any) -> Any:
    """Return a value of the type that is named, or raise ValueError."""
    if kind == "str":
        right = isinstance(value, str)
    else:
        right = type(value) in {"int": (int,), "float": (int, float)}[kind] and math.isfinite(value)
    if not right:
        raise ValueError(f"not a {kind}")
    return value
