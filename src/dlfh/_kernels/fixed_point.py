"""Fractions as whole numbers, so that sums of them are exact."""

from __future__ import annotations

__all__ = ["ONE"]

#: What 1 is in fixed point: sums over columns of any weight that points can have fit in 64 bits.
ONE = 1 << 22
