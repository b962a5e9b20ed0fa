"""Fractions as whole numbers, so that sums of them are exact."""

from __future__ import annotations

__all__ = ["ONE"]

#: What 1 is in fixed point: a sum of 256 columns of weight 1 fits in 32 bits.
ONE = 1 << 22
