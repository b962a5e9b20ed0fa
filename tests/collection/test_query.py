"""One query or several, told by what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from PIL import Image

from dlfh.collection.query import is_single

ONE = [
    ("texts", "a red car"),
    ("texts", ""),
    ("texts", 3),
    ("texts", None),
    ("images", "car.jpg"),
    ("images", Path("car.jpg")),
    ("images", b"bytes"),
    ("images", bytearray(b"bytes")),
    ("images", Image.new("L", (2, 2))),
    ("images", np.zeros((9, 5))),
    ("images", np.zeros((9, 5, 3))),
    ("images", np.zeros((9, 5, 4))),
    ("vectors", [1.0, 2.0]),
    ("vectors", np.zeros(3)),
    ("vectors", "no vector"),
    ("vectors", sp.coo_array(np.ones(3))),
]
SEVERAL = [
    ("texts", ["a red car"]),
    ("texts", ("a", "b")),
    ("texts", np.array(["a", "b"])),
    ("texts", (text for text in ["a", "b"])),
    ("texts", []),
    ("images", ["car.jpg", np.zeros((9, 5))]),
    ("images", [Path("car.jpg")]),
    ("images", np.zeros((2, 9, 5, 3))),
    ("images", np.zeros((2, 9, 5))),
    ("images", np.array([Path("a"), Path("b")], object)),
    ("vectors", [[1.0, 2.0]]),
    ("vectors", [np.zeros(3), np.zeros(3)]),
    ("vectors", np.zeros((1, 3))),
    ("vectors", sp.csr_array(np.ones((2, 3)))),
]


@pytest.mark.parametrize(("takes", "value"), ONE)
def test_one_value_is_one_query(takes: str, value: Any) -> None:
    assert is_single(value, takes)


@pytest.mark.parametrize(("takes", "value"), SEVERAL)
def test_several_values_are_a_batch(takes: str, value: Any) -> None:
    assert not is_single(value, takes)
