"""The paper's figures, to stand beside ours where the data set is the same."""

from __future__ import annotations

from dlfh.bench.data import Source
from dlfh.bench.published import published
from dlfh.bench.settings import Settings

__all__ = ["published_map", "published_seconds"]

_NAMES = {"CCAITQ": "CCA-ITQ"}
_DIRECTIONS = {"image → text": "I→T", "text → image": "T→I"}


def published_map(
    source: Source, settings: Settings, label: str, direction: str, bits: int
) -> tuple[float, float] | None:
    """Return the paper's MAP and its standard deviation for a row, or None where it has none."""
    wanted = (_method(settings, label), source.like, _DIRECTIONS.get(direction), bits)
    if not source.as_published:
        return None
    return next(((cell.mean, cell.std) for cell in published().map if cell[:4] == wanted), None)


def published_seconds(source: Source, settings: Settings, label: str, size: int) -> float | None:
    """Return the paper's training time for a row, or None where it has none.

    Training takes as long on generated data of the same shape, so the paper's seconds stand beside those, too. The last
    of the paper's sizes is the whole training set, whose exact size depends on the file.
    """
    wanted = (_method(settings, label), source.like)
    times = {cell.n_points: cell.seconds for cell in published().time if cell[:2] == wanted}
    near = [n_points for n_points in times if abs(n_points - size) <= n_points / 100]
    return times[near[0]] if near else None


def _method(settings: Settings, label: str) -> str | None:
    """Return the paper's name for a row; DLFH's own is the row with the paper's parameters, if there is one."""
    if label == "DLFH paper" or (label == "DLFH" and "DLFH paper" not in settings.methods):
        return "DLFH"
    return None if label == "DLFH" else _NAMES.get(label, label)
