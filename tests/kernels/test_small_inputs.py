"""Small inputs run on NumPy, large ones on compiled kernels."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from dlfh import _kernels
from dlfh._kernels.small_inputs import SizeDispatch, sparse_products
from tests.kernels.twins import MODULE_OF_KERNEL

SEARCH = """
import sys
import numpy as np
from dlfh.index import Index
rng = np.random.default_rng(0)
n_items, n_bits, n_searches = map(int, sys.argv[1:])
index = Index(n_bits, ["image"])
index.add([str(i) for i in range(100)], {"image": rng.integers(0, 256, (100, n_bits // 8), np.uint8)})
for _ in range(n_searches):
    index.search("image", rng.standard_normal((1, n_bits)), ranking="asymmetric")
    index.search("image", rng.standard_normal((1, n_bits // 8, 256)))
loaded = "numba" in sys.modules
codes = rng.integers(0, 256, (n_items, n_bits // 8), np.uint8)
from dlfh.codes import hamming_distances
hamming_distances(codes[:1], codes)
print(loaded, "numba" in sys.modules)
"""


@pytest.mark.parametrize(("n_items", "loaded"), [(1_000, "False False"), (400_000, "False True")])
def test_numba_is_loaded_for_large_inputs_only(n_items: int, loaded: str) -> None:
    command = [sys.executable, "-c", SEARCH, str(n_items), "64", "100"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert done.stdout.strip() == loaded


def test_overflow_in_numpy_is_silent() -> None:
    kernel = SizeDispatch(sparse_products.in_numpy, "linear", lambda *_: 0)
    products, codes = np.empty((1, 8), np.float32), np.empty((1, 1), np.uint8)
    row = (np.array([0, 1]), np.array([0]), np.array([1e300]))
    weights, terms = np.ones((1, 8), np.float32), np.zeros((3, 8), np.float32)
    assert not kernel(*row, weights, np.zeros(8), terms, products, codes, 0, 1)


def test_every_kernel_is_an_attribute_of_the_package() -> None:
    assert all(callable(getattr(_kernels, name)) for name in MODULE_OF_KERNEL)
