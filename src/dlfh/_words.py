"""Numbers for the words of many texts."""

from __future__ import annotations

import itertools
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from dlfh import _kernels
from dlfh._arrays import Integers
from dlfh._parallel import checkpoint

#: Minimum number of texts for which kernels are used, and number of characters at a time.
_MANY, _CHUNK = 1 << 10, 1 << 22


def number_words(
    texts: Sequence[str], words_of: Callable[[str], Iterable[str]], separators: bytes
) -> tuple[Integers, Integers, list[str]]:
    """Return the number of each word of all texts, the number of words in each text, and the distinct words in order.

    words_of: Returns the words of a text. Those of an ASCII text are the runs between the given separators. If an
        apostrophe is not one, this does not apply to texts that contain it.
    """
    number_of: defaultdict[str, int] = defaultdict(itertools.count().__next__)
    if len(texts) < _MANY:
        numbers, n_words = array("q"), array("q")
        for text in texts:
            before = len(numbers)
            numbers.extend(map(number_of.__getitem__, words_of(text)))
            n_words.append(len(numbers) - before)
        return np.array(numbers, np.int64), np.array(n_words, np.int64), [*number_of]
    inside = np.ones(256, bool)
    inside[np.frombuffer(separators + b" ", np.uint8)] = False
    has_apostrophes, found, sizes = b"'" not in separators, [], []
    n_characters = np.fromiter(itertools.chain((0,), map(len, texts)), np.int64, len(texts) + 1).cumsum()
    stop = 0
    while stop < len(texts):
        start, stop = stop, max(stop + 1, int(n_characters.searchsorted(n_characters[stop] + _CHUNK, "right")) - 1)
        checkpoint()
        plain = [
            text if text.isascii() and not (has_apostrophes and "'" in text) else " ".join(words_of(text))
            for text in texts[start:stop]
        ]
        encoded = [text.encode("utf-8", "surrogatepass") for text in plain]
        offsets = np.fromiter(itertools.chain((0,), map(len, encoded)), np.int64, len(encoded) + 1).cumsum()
        blob = b"".join(encoded)
        numbers_here, n_here, firsts, lasts = _kernels.number_words(offsets, np.frombuffer(blob, np.uint8), inside)
        ends = zip(firsts.tolist(), lasts.tolist(), strict=True)
        words = [number_of[blob[first:last].decode("utf-8", "surrogatepass")] for first, last in ends]
        found.append(np.array(words, np.int64)[numbers_here])
        sizes.append(n_here)
    return np.concatenate(found), np.concatenate(sizes), [*number_of]
