"""String kernels against their NumPy twins."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dlfh import _kernels
from tests.kernels.twins import assert_twins_agree
from tests.strategies import seeds


def random_strings(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return offsets and bytes of distinct strings, one of them empty."""
    strings = [b"", *(bytes(rng.integers(97, 100, rng.integers(1, 6)).astype(np.uint8)) for _ in range(n))]
    strings = list(dict.fromkeys(strings))
    return np.cumsum([0, *map(len, strings)]), np.frombuffer(b"".join(strings), np.uint8)


@given(seeds)
def test_hash_strings_and_gather_strings(seed: int) -> None:
    rng = np.random.default_rng(seed)
    offsets, blob = random_strings(rng, 20)
    hashes = np.empty(len(offsets) - 1, np.uint64)
    assert_twins_agree("hash_strings", offsets, blob, hashes)
    rows = rng.integers(0, len(hashes), 7)
    new_offsets = np.cumsum([0, *np.diff(offsets)[rows]])
    assert_twins_agree("gather_strings", offsets, blob, rows, new_offsets, np.zeros(new_offsets[-1], np.uint8))


@given(seeds, st.booleans())
def test_find_strings(seed: int, collide: bool) -> None:
    rng = np.random.default_rng(seed)
    stored, wanted = random_strings(rng, 20), random_strings(rng, 20)
    hashes = [np.empty(len(offsets) - 1, np.uint64) for offsets, _ in (stored, wanted)]
    for strings, values in zip((stored, wanted), hashes, strict=True):
        _kernels.hash_strings(*strings, values)
        if collide:
            values %= 2
    order = np.argsort(hashes[0], kind="stable").astype(np.uint32)
    found = np.zeros(len(hashes[1]), np.int64)
    table = (hashes[0][order], order, *stored)
    assert_twins_agree("find_strings", *table, hashes[1], *wanted, found, 1, len(found))


@given(seeds, st.integers(1, 200))
def test_number_words(seed: int, n_bytes: int) -> None:
    rng = np.random.default_rng(seed)
    blob = rng.integers(97, 101, n_bytes).astype(np.uint8)
    offsets = np.concatenate([[0], np.sort(rng.integers(0, n_bytes + 1, 5)), [n_bytes]])
    assert_twins_agree("number_words", offsets, blob, np.arange(256) != 97)


def test_number_words_of_more_words_than_its_first_table_holds() -> None:
    blob = np.frombuffer(b" ".join(b"%d" % (number % 9000) for number in range(10_000)), np.uint8)
    numbers, *_ = _kernels.number_words(np.array([0, len(blob)]), blob, np.arange(256) != 32)
    np.testing.assert_array_equal(numbers, np.arange(10_000) % 9000)
