"""What a change does to the parts of an index: pure functions, so that a change happens whole or not at all.

New items go into a new segment at the end. It takes in the segments before it that are not at least twice as
large, so there are at most log2(n) segments, and an item is copied at most about log2(n) times.
"""

from __future__ import annotations

from dlfh.index.segment import Segment
from dlfh.index.snapshot import Part, Rows

__all__ = ["append", "compact", "remove"]

Parts = tuple[Part, ...]

#: A segment is at least this many times as large as the next.
_GROWTH = 2
#: A segment is written anew when more than this share of it is removed.
_MOST_REMOVED = 0.25


def append(parts: Parts, segment: Segment) -> Parts:
    """Return the parts with a segment of new items at the end."""
    kept, size = len(parts), len(segment)
    while kept and len(parts[kept - 1]) < _GROWTH * size:
        kept -= 1
        size += len(parts[kept])
    merged = [part.cleaned() for part in parts[kept:]]
    return (*parts[:kept], Part(Segment.concatenate([*merged, segment])))


def remove(parts: Parts, rows: list[Rows]) -> Parts:
    """Return the parts with the given rows of each removed."""
    left = [part.without(gone) if len(gone) else part for part, gone in zip(parts, rows, strict=True)]
    return tuple(
        Part(part.cleaned()) if part.n_removed > _MOST_REMOVED * len(part.segment) else part
        for part in left
        if len(part)
    )


def compact(parts: Parts) -> Parts:
    """Return one clean part, or none."""
    if len(parts) == 1 and parts[0].removed is None:
        return parts
    return (Part(Segment.concatenate([part.cleaned() for part in parts])),) if parts else ()
