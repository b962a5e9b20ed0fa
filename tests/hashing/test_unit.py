"""Rows of unit length."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh.hashing.unit import unit_rows
from tests.strategies import seeds


@given(seeds, st.booleans(), st.booleans())
def test_unit_rows_have_length_one_and_lose_nothing(seed: int, split: bool, sparse: bool) -> None:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((10, 4)) * 10.0 ** rng.integers(-150, 150, (10, 1))
    X[3] = 0
    unit = unit_rows(sp.csr_array(X) if sparse else X, split=split)
    dense = unit.toarray() if sparse else unit
    lengths = np.linalg.norm(dense, axis=1)
    np.testing.assert_allclose(np.delete(lengths, 3), 1)
    assert lengths[3] == 0
    if split:
        assert np.all(dense >= 0)
        dense = dense[:, :4] - dense[:, 4:]
    np.testing.assert_allclose(np.sum(dense * X, axis=1), np.linalg.norm(X, axis=1))
