"""Words of many texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh import _words
from dlfh.features import text
from dlfh.index import words

texts_of_words = st.lists(st.text("aAb'_é ß\x7f\0\xa0,中\ud800", max_size=12), min_size=1, max_size=6)


@given(texts_of_words)
@pytest.mark.parametrize(
    ("words_of", "separators"), [(words.runs_of, bytes(words._SPACES)), (text._words, text._SEPARATORS)]
)
def test_kernels_number_words_as_a_loop_does(
    words_of: Callable[[str], Iterable[str]], separators: bytes, texts: list[str]
) -> None:
    results = []
    for many in (len(texts) + 1, 1):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_words, "_MANY", many)
            patch.setattr(_words, "_CHUNK", 4)
            results.append(_words.number_words(texts, words_of, separators))
    (numbers, sizes, distinct), (again, sizes_again, distinct_again) = results
    np.testing.assert_array_equal(numbers, again)
    np.testing.assert_array_equal(sizes, sizes_again)
    assert distinct == distinct_again
    ends = np.cumsum(sizes)
    for given_text, start, stop in zip(texts, ends - sizes, ends, strict=True):
        assert [distinct[number] for number in numbers[start:stop]] == [*words_of(given_text)]
