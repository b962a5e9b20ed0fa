"""Plain NumPy in place of kernels while there is little to do."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dlfh import _kernels
from dlfh._kernels import small

ASK = """
import sys
import numpy as np
from dlfh._kernels import small
from dlfh.index import Index
rng = np.random.default_rng(0)
n_items, n_bits, n_turns = map(int, sys.argv[1:])
index = Index(n_bits, ["image"])
index.add([str(i) for i in range(n_items)], {"image": rng.integers(0, 256, (n_items, n_bits // 8), np.uint8)})
for turn in range(n_turns):
    index.search("image", rng.standard_normal((1, n_bits)), ranking="asymmetric")
print("numba" in sys.modules)
"""


@pytest.mark.parametrize(("n_items", "n_turns", "loaded"), [(1_000, 1, False), (1_000, 400, True), (400_000, 1, True)])
def test_numba_is_loaded_when_there_is_enough_to_do(n_items: int, n_turns: int, loaded: bool) -> None:
    command = [sys.executable, "-c", ASK, str(n_items), "64", str(n_turns)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == str(loaded)


def test_all_steps_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numba")
    monkeypatch.setattr(small, "_steps_taken", 0)
    monkeypatch.setattr(small, "BUDGET", 100)
    assert [small._is_worth_loading(steps) for steps in (60, 50, 40, 1)] == [False, True, False, True]


def test_what_stands_in_says_nothing_of_overflow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numba")
    monkeypatch.setattr(small, "_steps_taken", 0)
    kernel = small.SmallFirst("linear", "sparse_products", lambda *_: 0)
    products, codes = np.empty((1, 8), np.float32), np.empty((1, 1), np.uint8)
    row = (np.array([0, 1]), np.array([0]), np.array([1e300]))
    weights, terms = np.ones((1, 8), np.float32), np.zeros((3, 8), np.float32)
    assert not kernel(*row, weights, np.zeros(8), terms, products, codes, 0, 1)


def test_every_name_of_the_room_is_there() -> None:
    assert all(hasattr(_kernels, name) for name in _kernels.__all__)
