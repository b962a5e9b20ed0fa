"""Error messages for invalid arguments."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dlfh import DLFH
from dlfh._validation import check_features, check_fraction, check_integer, check_positive, check_random_state, shown
from dlfh.errors import InputError
from dlfh.metrics import mean_average_precision


@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 10**5000, Fraction(10**400)], ids=["large", "negative", "long", "fraction"]
)
def test_numbers_beyond_the_range_of_floats_are_refused(value: Any) -> None:
    for check in (check_positive, check_fraction):
        with pytest.raises(InputError, match=r"^ridge must be a .*number.*, got "):
            check(value, "ridge")
    with pytest.raises(InputError, match=r"^ridge must be"):
        DLFH(8, ridge=value, hash_function="linear").fit({"image": np.eye(4), "text": np.eye(4)}, [0, 0, 1, 1])


def test_very_long_values_are_abbreviated() -> None:
    with pytest.raises(InputError, match=r"n_bits must be .*, got an integer of more than 100 digits"):
        check_integer(10**5000, "n_bits", 1, 512)
    with pytest.raises(InputError, match=r"random_state must be .*, got an integer of more than 100 digits"):
        check_random_state(-(10**5000))
    assert shown([10**5000]) == "a list"
    assert len(shown("x" * 1000)) == 200


def test_masked_arrays_are_refused_everywhere() -> None:
    hidden = np.ma.masked_array(np.ones((4, 4)), np.eye(4, dtype=bool))
    codes = np.zeros((4, 1), np.uint8)
    with pytest.raises(InputError, match="modality 'image' is a masked array"):
        check_features(hidden, "image")
    with pytest.raises(InputError, match="relevance is a masked array"):
        mean_average_precision(codes, codes, relevance=hidden)
    with pytest.raises(InputError, match="queries is a masked array"):
        mean_average_precision(np.ma.masked_array(np.ones((4, 8))), codes, [0] * 4, [0] * 4)
