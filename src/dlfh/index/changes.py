"""Changes to the parts of an index, as pure functions.

New items become a new segment at the end, and removed rows are marked. Neighbouring segments are merged so that each
is larger than the next by a constant factor. So an index of n items has O(log n) segments, and an item is copied
O(log n) times on average, whatever the sequence of changes.
"""

from __future__ import annotations

from collections.abc import Sequence

from dlfh._arrays import Integers
from dlfh.index.segment import Segment
from dlfh.index.segment_file import check_checksums
from dlfh.index.snapshot import Part

Parts = tuple[Part, ...]

#: A part is merged with the next unless it is larger by this factor ...
_MIN_RATIO = 1.5
#: ... and then with those before that are not larger by this factor. The difference between the two factors bounds the
#: cost of copying: many items must be added or removed before a merged part is merged again.
_MERGED_RATIO = 2
#: A segment is rewritten when a larger share of its rows is removed.
_MAX_REMOVED = 0.25


def append(parts: Parts, segment: Segment, n_bits: int) -> Parts:
    """Return the parts with a segment of new items at the end."""
    return _merged((*parts, Part(segment)), n_bits)


def remove(parts: Parts, rows: list[Integers], n_bits: int) -> Parts:
    """Return the parts without the given rows of each."""
    left = [part.without(gone) if len(gone) else part for part, gone in zip(parts, rows, strict=True)]
    return _merged([_rewritten(part, n_bits) for part in left if len(part)], n_bits)


def compact(parts: Parts, n_bits: int) -> Parts:
    """Return a single part without removed rows, or none."""
    if not parts or (len(parts) == 1 and parts[0].removed is None):
        return parts
    return (_merge(parts, n_bits),)


def _merged(parts: Sequence[Part], n_bits: int) -> Parts:
    merged = list(parts)
    for last in range(len(merged) - 1, 0, -1):
        if last < len(merged) and len(merged[last - 1]) < _MIN_RATIO * len(merged[last]):
            first, size = last - 1, len(merged[last - 1]) + len(merged[last])
            while first and len(merged[first - 1]) < _MERGED_RATIO * size:
                first -= 1
                size += len(merged[first])
            merged[first : last + 1] = [_merge(merged[first : last + 1], n_bits)]
    return tuple(merged)


def _rewritten(part: Part, n_bits: int) -> Part:
    return _merge([part], n_bits) if part.n_removed > _MAX_REMOVED * len(part.segment) else part


def _merge(parts: Sequence[Part], n_bits: int) -> Part:
    for part in parts:
        if part.record is not None:
            check_checksums(part.segment, part.record, n_bits)
    return Part(Segment.concatenate([part.cleaned() for part in parts]))
