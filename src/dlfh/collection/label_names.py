"""Find the labels that a text names, by their names or by words that mean the same."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Singles
from dlfh.collection.words import tokens

#: A word means the same as a label if at least this share of the texts with the word have the label, and of the items
#: with the label have the word; and how many items are needed to say so.
_MIN_SHARE, _MIN_ITEMS = 0.5, 3


class LabelNames:
    """The names of labels, found in texts whatever their case, punctuation and English plural.

    words: Further names: words, by which label they mean.
    """

    def __init__(self, names: Sequence[str], words: Mapping[str, str]) -> None:
        self.names = names
        self._labels: dict[tuple[str, ...], list[int]] = {}
        numbers = {name: number for number, name in enumerate(names)}
        for name, label in [*zip(names, names, strict=True), *words.items()]:
            found = self._labels.setdefault(_key(tokens(name)), [])
            if label in numbers and numbers[label] not in found:
                found.append(numbers[label])
        self._labels.pop((), None)
        self._longest = max(map(len, self._labels), default=0)

    def find(self, text: str) -> Iterator[tuple[list[str], list[int]]]:
        """Yield the words of each name in a text, and the labels that it names; of overlapping names, the longest."""
        words, start = tokens(text), 0
        while start < len(words):
            length = self.name_length(words[start:])
            if length:
                yield words[start : start + length], self._labels[_key(words[start : start + length])]
            start += max(length, 1)

    def name_length(self, words: Sequence[str]) -> int:
        """Return the number of words at the beginning that are the longest name; 0 if they are none."""
        lengths = range(min(self._longest, len(words)), 0, -1)
        return next((length for length in lengths if _key(words[:length]) in self._labels), 0)

    @property
    def words(self) -> frozenset[str]:
        """All words of names, in the singular."""
        return frozenset(word for name in self._labels for word in name)


def label_words(vocabulary: Sequence[str], texts: sp.csr_array, labels: Singles) -> dict[str, int]:
    """Return the words that mean the same as a label, with the number of this label.

    texts (items, words), labels (items, n_labels): The words and labels of items.
    """
    has_word = sp.csc_array((np.ones(texts.nnz, np.float32), texts.indices, texts.indptr), shape=texts.shape[::-1])
    together = has_word @ labels
    n_texts, n_labelled = np.asarray(has_word.sum(axis=1)).reshape(-1, 1), labels.sum(axis=0)
    share = np.minimum(together / np.maximum(n_texts, 1), together / np.maximum(n_labelled, 1))
    best = share.argmax(axis=1)
    rows = np.arange(len(best))
    same = (share[rows, best] >= _MIN_SHARE) & (together[rows, best] >= _MIN_ITEMS)
    return {vocabulary[row]: int(best[row]) for row in np.flatnonzero(same).tolist()}


def _key(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(map(singular, words))


def singular(word: str) -> str:
    """Return an English plural in the singular, or nearly so: names and texts are compared in this form."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("ches", "shes", "sses", "xes", "zes")) else word[:-1]
