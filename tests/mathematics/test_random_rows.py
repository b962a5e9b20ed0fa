"""Random rows are the same however they are cut, and those of one generator as long as they are one group."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh.blocks import ArrayBlocks
from dlfh.mathematics import _random_rows
from dlfh.mathematics._random_rows import RandomRows
from tests.strategies import seeds


@pytest.fixture(scope="module", autouse=True)
def small_groups() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_random_rows, "_GROUP", 10)
        patch.setattr(_random_rows, "_CHUNK", 4)
        yield


@given(seeds, st.integers(1, 35), st.lists(st.integers(0, 35), max_size=4), st.booleans())
def test_rows_are_the_same_however_they_are_cut(seed: int, n: int, inner: list[int], uniform: bool) -> None:
    rng = np.random.default_rng(seed)
    rows = RandomRows(rng, n, 3, uniform=uniform)
    whole = rows.take(0, n)
    starts = [0, *sorted(min(own, n) for own in inner), n]
    blocks = rows.beside(ArrayBlocks(np.empty((n, 2)), starts, "image"))
    np.testing.assert_array_equal(np.asarray(blocks), whole)
    np.testing.assert_array_equal(rows.beside(np.empty((n, 2))), whole)
    # The first group, and whatever is drawn next if it is the only one, are those of the generator itself.
    plain = np.random.default_rng(seed)
    draw = plain.random if uniform else plain.standard_normal
    np.testing.assert_array_equal(whole[:10], draw((min(n, 10), 3)))
    if n <= 10:
        np.testing.assert_array_equal(rows.draw(rng, 5), draw((5, 3)))
    else:
        assert not np.isin(whole[10:], whole[:10]).any()
