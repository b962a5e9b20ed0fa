"""Completion of a query while it is typed, from labels and from titles of items."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

import numpy as np

from dlfh._parallel import checkpoint

_BLOCK = 1 << 20  # bytes that are scanned in one step, which blocks other threads
#: Separators of words. Titles are searched as UTF-8, where bytes below 128 are ASCII characters.
_SEPARATORS = bytes(32 if not chr(code).isalnum() and code < 128 and code != 10 else code for code in range(256))


def fold(text: str) -> str:
    """Return a text in lower case and without accents."""
    if text.isascii():
        return text.lower()
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return "".join(letter for letter in decomposed if not unicodedata.combining(letter))


class Completer:
    """Finds labels and titles in which a word starts with a prefix.

    Titles are kept as one block of bytes and scanned: 20 ms for a million, which is faster to build and much smaller
    than an index of all words.

    Parameters
    ----------
    labels : sequence of (label, number of items)
        Most frequent first.
    titles : sequence of str
        Folded titles of all items.
    """

    def __init__(self, labels: Sequence[tuple[str, int]], titles: Sequence[str]) -> None:
        self._labels = [(label, f" {fold(label)}".encode().translate(_SEPARATORS), n) for label, n in labels]
        self._blob = re.sub(rb"  +", b" ", "\n".join(["", *titles]).encode().translate(_SEPARATORS)) + b"\n"
        self._starts = np.flatnonzero(np.frombuffer(self._blob, np.uint8) == ord("\n"))

    def labels(self, prefix: str, n: int) -> list[tuple[str, int]]:
        """Return the most frequent labels, and their numbers of items."""
        start = b" " + _pattern(prefix)
        return [(label, count) for label, text, count in self._labels if start in text][:n]

    def titles(self, prefix: str) -> Iterator[int]:
        """Yield the rows of titles that start with the prefix, then of those in which another word does."""
        for mark in (b"\n", b" "):
            pattern = mark + _pattern(prefix)
            for start in range(0, len(self._blob), _BLOCK):
                checkpoint()
                stop = start + _BLOCK + len(pattern) - 1
                at = self._blob.find(pattern, start, stop)
                while at >= 0:
                    row = int(np.searchsorted(self._starts, at, side="right")) - 1
                    yield row
                    at = self._blob.find(pattern, int(self._starts[row + 1]), stop)


def _pattern(prefix: str) -> bytes:
    return b" ".join(fold(prefix).encode().translate(_SEPARATORS).replace(b"\n", b" ").split())
