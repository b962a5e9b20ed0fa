"""Random rows do not depend on the blocks, and the first group comes from the given generator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh._mathematics import random_rows as random_rows_module
from dlfh._mathematics.random_rows import draw, random_rows
from dlfh.blocks.base import ArrayBlocks
from tests.strategies import seeds


@pytest.fixture(scope="module", autouse=True)
def small_groups() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(random_rows_module, "_GROUP", 10)
        patch.setattr(random_rows_module, "_CHUNK", 4)
        yield


@given(seeds, st.integers(1, 35), st.lists(st.integers(0, 35), max_size=4), st.booleans())
def test_rows_do_not_depend_on_the_blocks(seed: int, n: int, inner: list[int], uniform: bool) -> None:
    rng, for_blocks, plain = (np.random.default_rng(seed) for _ in range(3))
    whole = np.asarray(random_rows(rng, ArrayBlocks(np.empty((n, 2)), None, "image"), 3, uniform=uniform))
    features = ArrayBlocks(np.empty((n, 2)), [0, *sorted(min(start, n) for start in inner), n], "image")
    blocks = random_rows(for_blocks, features, 3, uniform=uniform)
    np.testing.assert_array_equal(np.asarray(blocks), whole)
    following = draw(rng, 5, 3, uniform=uniform)
    np.testing.assert_array_equal(draw(for_blocks, 5, 3, uniform=uniform), following)
    # The first group, and the numbers drawn after it if it is the only one, come from the generator itself.
    np.testing.assert_array_equal(whole[:10], draw(plain, min(n, 10), 3, uniform=uniform))
    if n <= 10:
        np.testing.assert_array_equal(following, draw(plain, 5, 3, uniform=uniform))
    else:
        assert not np.isin(whole[10:], whole[:10]).any()
