"""Fixed-point arithmetic, in which sums are exact."""

from __future__ import annotations

#: The number 1 in fixed point; sums over all weighted columns fit in 64 bits.
ONE = 1 << 22
