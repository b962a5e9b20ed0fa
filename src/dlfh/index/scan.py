"""One pass over all items that excludes those that cannot be among the best, by upper bounds of their scores.

The score of an item is a sum of terms (`Evidence`), each from one of its codes. Distance tables, rounded to bytes,
bound each term from above, and vector instructions add up the entries of 32 items at a time. For items that these
bounds do not exclude, distances are computed, and bound the terms closely. The caller computes the exact scores of the
few items that remain. Items that tie with the last of the best are never excluded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dlfh import _kernels
from dlfh._arrays import Array, Codes, Floats, Integers, Mask
from dlfh._parallel import checkpoint
from dlfh.index.nearest import Tables
from dlfh.index.segment import Part

#: Number of distances at which a term is evaluated to choose the unit of its bounds, and maximum bound in this unit.
_GRID, _UNITS = 257, 240
#: Bits of the distances that matter, and of the intervals of distances by which terms are bounded closely.
_SUM_BITS, _FINE_BITS = 14, 10
#: Relative tolerance of the bounds, because sums are rounded.
_SLACK = 1e-9


class Evidence(NamedTuple):
    """One term of an item's score, from its code in the first of ``columns`` where it has one.

    The term is the weight of the item's kind times ``value(distance)``, a decreasing function of the distance by
    ``tables`` (of one query).
    """

    columns: tuple[int, ...]
    tables: Tables
    weights: Floats
    value: Callable[[Floats], Floats]

    def worth(self, totals: Integers) -> Floats:
        """Return the terms for integer distances, shape (kinds, distances)."""
        return self.weights[:, None] * self.value(self.tables.scaled(totals[None])[0])


class Bounds(NamedTuple):
    """Tables of a scan, as `_kernels.collect_possible` describes them."""

    columns: list[tuple[int, ...]]
    bytes: Array
    by_halves: Mask
    tables: Array
    limits: Array
    losses: Floats
    fine_losses: Floats
    allowed: Floats

    @classmethod
    def of(
        cls, evidence: Sequence[Evidence], allowed: Floats, level: int, seen: Callable[[tuple[int, ...]], Mask]
    ) -> Bounds:
        """Compute the tables from the maximum loss of items by kind and level (kinds, 256); negative excludes them.

        Bounds are most precise at ``level``, which few items should exceed. ``seen`` returns which values occur in each
        byte of the given columns, shape (bytes, 256).
        """
        rounded, by_halves, losses, tables, fine_losses = [], [], [], [], []
        slack = _SLACK * (1 + np.abs(np.where(np.isfinite(allowed), allowed, 0.0)).max())
        most = allowed[:, [level if (allowed[:, level] > 0).any() else 255]]
        for each in evidence:
            table = each.tables.integers[0]
            largest = int(table.max(axis=1).sum(dtype=np.int64))
            grid = np.linspace(0, largest, _GRID).astype(np.int64)
            worth = each.worth(grid)
            possible = (worth[:, :1] - worth <= most + slack).any(axis=0)
            last = int(grid[min(int(np.flatnonzero(possible)[-1]) + 1, _GRID - 1)]) if possible.any() else largest
            unit = max(1, -(-last // _UNITS))
            # The distances of codes are sums over half bytes; others are bounded by the least of 8 consecutive bytes,
            # among those that occur: of 256 centroids, known labels use few.
            halves = table.reshape(-1, 16, 16)
            high, low = halves.min(axis=2), halves.min(axis=1)
            by_halves.append(bool((halves == high[:, :, None] + low[:, None]).all()))
            least = np.hstack([high, low])
            if not by_halves[-1]:
                least = np.where(seen(each.columns), table, largest).reshape(-1, 32, 8).min(axis=2)
            rounded.append(np.minimum(least // unit, 255).astype(np.uint8))
            worth = each.worth(np.arange(256) * unit)
            losses.append(worth[:, :1] - worth)
            scale = max(0, last.bit_length() - _SUM_BITS)
            tables.append(np.minimum(table >> scale, 0xFFFF).astype(np.uint16))
            worth = each.worth(np.arange(1 << _FINE_BITS) << scale + _SUM_BITS - _FINE_BITS)
            fine_losses.append(worth[:, :1] - worth)
        allowed = allowed + slack
        limits = np.stack([np.searchsorted(*pair, "right") - 1 for pair in zip(losses[0], allowed, strict=True)])
        columns = [each.columns for each in evidence]
        fine, limits = np.stack(fine_losses), limits.astype(np.int16)
        bounds = np.stack(rounded), np.array(by_halves), np.stack(tables)
        return cls(columns, *bounds, limits, np.stack(losses), fine, allowed)


def possible_rows(
    part: Part, bounds: Bounds, kinds: Array, levels: tuple[Integers, Codes], eligible: Mask | None
) -> Integers:
    """Return the rows of a part that the bounds do not exclude.

    ``kinds`` has a byte for each row, and ``levels`` are ascending rows and their levels; other rows have level 0.
    """
    checkpoint()
    columns, *tables = bounds[:4]
    blocks, rows = tuple(map(part.segment.blocks, columns)), np.empty(len(part.segment), np.int64)
    mask = np.empty(0, bool) if eligible is None else eligible
    found = _kernels.collect_possible(blocks, *tables, kinds, *levels, mask, *bounds[4:], _SUM_BITS - _FINE_BITS, rows)
    return rows[:found].copy()
