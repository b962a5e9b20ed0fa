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


def has_prefix(text: str, prefix: str) -> bool:
    """Return whether a word of a text starts with a prefix, which may have several words."""
    words = _words(prefix)
    return bool(words) and b" " + words in b" " + _words(text)


class TitleBlock:
    """Folded titles as one block of bytes, which is scanned for prefixes: 40 ms for a million titles.

    It is faster to build and much smaller than an index of all words.
    """

    def __init__(self, titles: Sequence[str]) -> None:
        self._block = re.sub(rb"  +", b" ", "\n".join(["", *titles]).encode().translate(_SEPARATORS)) + b"\n"
        self._starts = np.flatnonzero(np.frombuffer(self._block, np.uint8) == ord("\n"))

    def find(self, prefix: str, *, starts_line: bool) -> Iterator[int]:
        """Yield the rows of titles that start with a prefix, or in which another word starts with it."""
        words = _words(prefix)
        pattern = (b"\n" if starts_line else b" ") + words
        for start in range(0, len(self._block) if words else 0, _BLOCK):
            checkpoint()
            stop = start + _BLOCK + len(pattern) - 1
            at = self._block.find(pattern, start, stop)
            while at >= 0:
                row = int(self._starts.searchsorted(at, side="right")) - 1
                yield row
                at = self._block.find(pattern, int(self._starts[row + 1]), stop)


def _words(text: str) -> bytes:
    return b" ".join(fold(text).encode().translate(_SEPARATORS).split())
