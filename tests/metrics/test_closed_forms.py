"""Closed-form discount sums and harmonic numbers against explicit sums."""

from __future__ import annotations

import math

import numpy as np
import pytest

from dlfh.metrics import closed_forms
from dlfh.metrics.closed_forms import _harmonic


@pytest.mark.parametrize("tabulated", [1 << 12, 1 << 20])
def test_closed_form_discount_sums_equal_explicit_sums(monkeypatch: pytest.MonkeyPatch, tabulated: int) -> None:
    monkeypatch.setattr(closed_forms, "_TABULATED", tabulated)
    ranks = np.array([0, 1, 2, 4095, 4096, 4097, 5000, 40_000, 123_457])
    expected = [math.fsum(closed_forms.discounts(np.arange(1, rank + 1))) for rank in ranks.tolist()]
    np.testing.assert_allclose(closed_forms.discount_sums(ranks), expected, rtol=1e-13)


def test_harmonic_numbers() -> None:
    for n in (0, 1, 2, 10, 100_000):
        assert _harmonic(n) == pytest.approx(math.fsum(1 / i for i in range(1, n + 1)), rel=1e-14, abs=1e-15)
