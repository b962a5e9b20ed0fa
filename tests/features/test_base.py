"""Precomputed vectors are not copied, and rows with NaN or infinity are reported."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh import InputError
from dlfh.features import Vectors
from tests.features.examples import dense


def test_vectors_are_not_copied() -> None:
    matrix = np.eye(3, dtype=np.float32)
    assert Vectors().fit_transform(matrix) is matrix


def test_vectors_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match="has 3 features but the model expects 2"):
        Vectors().fit(np.eye(2)).transform(np.eye(3))


@pytest.mark.parametrize("as_given", [np.asarray, sp.csr_array])
def test_rows_with_nan_or_infinity_are_reported(as_given: Any) -> None:
    matrix = as_given(np.array([[1.0, 2], [np.nan, 0], [3, 4], [0, np.inf]]))
    vectors = Vectors().fit(matrix)
    with pytest.raises(InputError, match="NaN or infinity in row 1"):
        vectors.transform(matrix)
    found = vectors.transform_readable(matrix)
    assert found.rows.tolist() == [0, 2]
    np.testing.assert_array_equal(dense(found.features), [[1, 2], [3, 4]])
    assert found.problems == {1: "vector 1 contains NaN or infinity", 3: "vector 3 contains NaN or infinity"}
