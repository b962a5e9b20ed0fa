"""One pass over all items that finds those that can be among the best, by bounds of what their codes are worth.

An item is worth the sum of what each of several columns of its code bytes is worth. The sum of a byte table bounds each
from above: tables are rounded to one byte, and the processor adds up those of 32 items at a time. Few items remain, and
whoever asked computes their exact worth. All items that are equal to the last of the best remain, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from dlfh import _kernels
from dlfh._arrays import Array, Floats, Integers, Mask
from dlfh._parallel import checkpoint
from dlfh.index.nearest import Tables
from dlfh.index.segment import Part

#: Number of distances at which the worth of a column is computed, to choose the unit of its bounds; those that fit.
_GRID, _UNITS = 257, 240
#: Bounds are loosened by this share, because sums are rounded.
_SLACK = 1e-9


class Evidence(NamedTuple):
    """What a query is compared with: the code of an item in the first of some columns that it has.

    A distance by ``tables`` (of one query) is worth the weight of the item's kind times ``value(distance)``, which
    decreases.
    """

    columns: tuple[int, ...]
    tables: Tables
    weights: Floats
    value: Callable[[Floats], Floats]

    def worth(self, totals: Integers) -> Floats:
        """Return what integer distances are worth, shape (kinds, distances)."""
        return self.weights[:, None] * self.value(self.tables.scaled(totals[None])[0])


class Bounds(NamedTuple):
    """Tables of a scan: bounds of a byte (columns, bytes, 32), losses (columns, kinds, 256), and allowed losses."""

    columns: list[tuple[int, ...]]
    bytes: Array
    losses: Floats
    allowed: Floats
    limits: Array

    @classmethod
    def of(cls, evidence: Sequence[Evidence], allowed: Floats, level: int) -> Bounds:
        """Compute the tables from what is allowed to be lost by items of each kind (kinds, 256 levels), if at all.

        Bounds are most exact where losses are allowed at a level that few items exceed.
        """
        rounded, losses = [], []
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
            rounded.append(np.minimum(table.reshape(len(table), 32, 8).min(axis=2) // unit, 255).astype(np.uint8))
            worth = each.worth(np.arange(256) * unit)
            losses.append(worth[:, :1] - worth)
        allowed = allowed + slack
        limits = np.stack([np.searchsorted(*pair, "right") - 1 for pair in zip(losses[0], allowed, strict=True)])
        columns = [each.columns for each in evidence]
        return cls(columns, np.stack(rounded), np.stack(losses), allowed, limits.astype(np.int16))


def possible_rows(part: Part, bounds: Bounds, kinds: Array, levels: Array, eligible: Mask | None) -> Integers:
    """Return the rows of a part whose losses may be allowed; ``kinds`` and ``levels`` are bytes of all its rows."""
    checkpoint()
    n = len(part.segment)
    sums = np.empty((len(bounds.columns), -(-n // 32) * 32), np.uint8)
    for row, columns, table in zip(sums, bounds.columns, bounds.bytes, strict=True):
        _kernels.bound_sums(table, part.segment.blocks(columns), row)
    rows = np.empty(n + 1, np.int64)
    mask = np.empty(0, bool) if eligible is None else eligible
    found = _kernels.collect_possible(sums, kinds, levels, mask, bounds.limits, bounds.losses, bounds.allowed, rows)
    return rows[:found].copy()
