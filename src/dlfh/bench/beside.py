"""The paper's figures, to stand beside ours where the data set is the same."""

from __future__ import annotations

__all__ = ["PUBLISHED_MACHINE", "published_map", "published_seconds"]

PUBLISHED_MACHINE = "12 cores of Intel E5-2620 v2, 2.1 GHz"


def published_map(data: str, label: str, direction: str, bits: int) -> tuple[float, float] | None:
    """Return the paper's MAP and its standard deviation, or None where it has none."""
    return None


def published_seconds(data: str, label: str, size: int) -> float | None:
    """Return the paper's training time for about this many points, or None where it has none."""
    return None
