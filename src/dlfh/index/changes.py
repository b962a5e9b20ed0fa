"""What a change does to the parts of an index: pure functions, so that a change happens whole or not at all.

New items go into a new segment at the end, and rows that are removed are marked. Segments are merged with their
neighbours so that each stays larger than the next, by a factor: there are O(log n) of them, and an item is
copied O(log n) times on average, whatever the sequence of changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlfh.index.segment import Segment
from dlfh.index.segment_file import check_checksums
from dlfh.index.snapshot import Part, RowNumbers

__all__ = ["append", "compact", "remove"]

Parts = tuple[Part, ...]

#: A part that is not this many times as large as the next is merged with it ...
_LEAST_RATIO = 1.5
#: ... and with those before, as far as they are not this many times as large. The slack between the two is
#: what pays for the copying: many items must come or go before a merged part is merged again.
_MERGED_RATIO = 2
#: A segment is written anew when more than this share of it is removed.
_MOST_REMOVED = 0.25


def append(parts: Parts, segment: Segment, n_bits: int) -> Parts:
    """Return the parts with a segment of new items at the end."""
    return _settle((*parts, Part(segment)), n_bits)


def remove(parts: Parts, rows: list[RowNumbers], n_bits: int) -> Parts:
    """Return the parts with the given rows of each removed."""
    left = [part.without(gone) if len(gone) else part for part, gone in zip(parts, rows, strict=True)]
    return _settle([_lightened(part, n_bits) for part in left if len(part)], n_bits)


def compact(parts: Parts, n_bits: int) -> Parts:
    """Return one clean part, or none."""
    if not parts or (len(parts) == 1 and parts[0].removed is None):
        return parts
    return (_merge(parts, n_bits),)


def _settle(parts: Sequence[Part], n_bits: int) -> Parts:
    settled = list(parts)
    for last in range(len(settled) - 1, 0, -1):
        if last < len(settled) and len(settled[last - 1]) < _LEAST_RATIO * len(settled[last]):
            first, size = last - 1, len(settled[last - 1]) + len(settled[last])
            while first and len(settled[first - 1]) < _MERGED_RATIO * size:
                first -= 1
                size += len(settled[first])
            settled[first : last + 1] = [_merge(settled[first : last + 1], n_bits)]
    return tuple(settled)


def _lightened(part: Part, n_bits: int) -> Part:
    return _merge([part], n_bits) if part.n_removed > _MOST_REMOVED * len(part.segment) else part


def _merge(parts: Sequence[Part], n_bits: int) -> Part:
    for part in parts:
        if part.segment_record is not None:  # what is damaged must not be copied and signed anew
            check_checksums(part.segment, part.segment_record, n_bits)
    return Part(Segment.concatenate([part.cleaned() for part in parts]))
