from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh import InputError
from dlfh.codes import hamming_distances, n_bytes, pack, random_codes, unpack
from tests.strategies import seeds


@given(seeds, st.integers(1, 200))
def test_unpack_inverts_pack(seed: int, n_bits: int) -> None:
    signs = np.where(np.random.default_rng(seed).random((5, n_bits)) < 0.5, -1, 1)
    np.testing.assert_array_equal(unpack(pack(signs), n_bits), signs)


@given(seeds, st.integers(1, 200))
def test_packing_is_that_of_numpy(seed: int, n_bits: int) -> None:
    bits = np.random.default_rng(seed).random((5, n_bits)) < 0.5
    np.testing.assert_array_equal(pack(bits), np.packbits(bits, axis=1))


@given(seeds, st.integers(1, 150))
def test_xor_of_one_mask_changes_no_distance(seed: int, n_bits: int) -> None:
    rng = np.random.default_rng(seed)
    a, b, mask = (random_codes(rng, n, n_bits) for n in (6, 9, 1))
    distances = hamming_distances(a, b)
    np.testing.assert_array_equal(distances, hamming_distances(a ^ mask, b ^ mask))
    np.testing.assert_array_equal(distances, hamming_distances(b, a).T)
    np.testing.assert_array_equal(distances, (n_bits - unpack(a, n_bits).astype(int) @ unpack(b, n_bits).T) // 2)


def test_long_distances_do_not_overflow() -> None:
    assert hamming_distances(pack(np.ones((1, 512))), pack(-np.ones((1, 512))))[0, 0] == 512


@given(seeds, st.integers(1, 70))
def test_random_codes_leave_unused_bits_zero(seed: int, n_bits: int) -> None:
    codes = random_codes(np.random.default_rng(seed), 20, n_bits)
    assert codes.shape == (20, n_bytes(n_bits))
    assert not np.unpackbits(codes, axis=1)[:, n_bits:].any()


def test_bad_codes() -> None:
    with pytest.raises(InputError, match="codes must have the same length, but a has 1 bytes and b has 2"):
        hamming_distances(np.zeros((1, 1), np.uint8), np.zeros((1, 2), np.uint8))
    with pytest.raises(InputError, match=r"a must be packed codes \(uint8, two-dimensional\), got type float64"):
        hamming_distances(np.zeros((1, 1)), np.zeros((1, 1), np.uint8))
    with pytest.raises(InputError, match="codes of 9 bits must have 2 bytes, got 1"):
        unpack(np.zeros((1, 1), np.uint8), 9)
    with pytest.raises(InputError, match="two-dimensional array of numbers"):
        pack([1, -1])
