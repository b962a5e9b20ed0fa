"""Closed-form discount sums against explicit sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dlfh.metrics import sums


@pytest.mark.parametrize("tabulated", [1 << 12, 1 << 20])
def test_closed_form_discount_sums_equal_explicit_sums(monkeypatch: pytest.MonkeyPatch, tabulated: int) -> None:
    monkeypatch.setattr(sums, "_TABULATED", tabulated)
    ranks = np.array([0, 1, 2, 4095, 4096, 4097, 5000, 40_000, 123_457])
    expected = [math.fsum(sums.discounts(np.arange(1, rank + 1))) for rank in ranks.tolist()]
    np.testing.assert_allclose(sums.discount_sums(ranks), expected, rtol=1e-13)
