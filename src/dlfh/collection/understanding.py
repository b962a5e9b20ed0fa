"""Parse a text query: named labels, exclusions, typing errors, synonyms, emoji and unknown words."""

from __future__ import annotations

import functools
import importlib.util
import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Singles
from dlfh._limits import check_regular_file
from dlfh._persistence.files import read_regular
from dlfh.collection.negation import split_negated
from dlfh.collection.words import tokens, without_possessives, without_words
from dlfh.errors import InputError
from dlfh.features.text import ENGLISH_STOP_WORDS

#: Files of the user's synonyms and of words of similar meaning, in a collection's folder; and their maximum size.
SYNONYMS_FILE, SIMILAR_FILE, _MAX_BYTES = "synonyms.txt", "similar.txt", 1 << 22
#: Share of correct replacements: of typing errors, and by words of similar meaning (docs/answers.md).
_RIGHT_CORRECTION, _RIGHT_MEANING = 0.99, 0.85
#: Minimum lengths of words for correcting one typing error, and two, as in Typesense.
_ONE_ERROR, _TWO_ERRORS = 4, 8
#: Parts of words that no dictionary has: "untipped" is a word.
_AFFIXES = frozenset(("un", "mis", "pre", "er", "ly", "ing", "ed", "ful", "ish", "able", "ist", "ize", "ise", "ment"))
_HYPHENATED = re.compile(r"\w+(?:-\w+)+")
#: Words that are neither corrected nor reported as unknown.
_NEUTRAL = ENGLISH_STOP_WORDS | {"and", "or", "with"}
#: A word means the same as a label if at least this share of the texts with the word have the label and vice versa;
#: and the minimum number of such items.
_MIN_SHARE, _MIN_ITEMS = 0.5, 3


class Named(NamedTuple):
    """The labels that a text names: the words of their names, and for each name the numbers of its labels."""

    words: frozenset[str] = frozenset()
    labels: Sequence[Sequence[int]] = ()


@dataclass(frozen=True)
class Understanding:
    """How a text query was understood.

    text: The rewritten query, without excluded words and, if only one word or names of labels are left, unknown ones.
    corrected: Words with a typing error, and their corrections.
    alternatives: Unknown words, and several equally similar known words.
    synonyms: Words, and the synonyms that replace them.
    similar: Words, and the words or labels of similar meaning that replace them.
    excluded: Excluded words and labels.
    unknown: Words that do not occur in the collection.
    """

    text: str
    corrected: dict[str, str] = field(default_factory=dict)
    alternatives: dict[str, tuple[str, ...]] = field(default_factory=dict)
    synonyms: dict[str, str] = field(default_factory=dict)
    similar: dict[str, str] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def confidence(self) -> float:
        """The probability that the rewritten query means the same as the original one.

        Without an unknown word it means part of it: by the square of the share of words that are left. Of queries
        from half of a held-out text with one of two words left, 17 % of the first results were right.
        """
        words = [word for word in tokens(self.text) if word not in _NEUTRAL]
        dropped = [word for word in self.unknown if word not in words]
        share = len(words) / (len(words) + len(dropped)) if words else 1.0
        return share**2 * _RIGHT_CORRECTION ** len(self.corrected) * _RIGHT_MEANING ** len(self.similar)

    def sentences(self) -> Iterator[str]:
        """Yield notes for the user, as sentences without a full stop."""
        for typed, word in self.corrected.items():
            yield f"Showing results for “{word}” instead of “{typed}”"
        for typed, word in self.synonyms.items():
            yield f"Showing results for “{word}”, a synonym of “{typed}”"
        for typed, word in self.similar.items():
            yield f"Showing results for “{word}”, which is similar to “{typed}”"
        if self.excluded:
            yield f"Excluded: {', '.join(self.excluded)}"
        for typed, words in self.alternatives.items():
            yield f"“{typed}” does not occur in this collection. Did you mean {' or '.join(words)}?"
        if rest := [word for word in self.unknown if word not in self.alternatives]:
            yield f"Not in this collection: {', '.join(rest)}"


@dataclass(frozen=True)
class QueryReader:
    """Parses text queries, given the words of a collection."""

    words: frozenset[str]  # all words of texts and labels, in lower case
    is_known: Callable[[str], bool]  # whether a word or phrase occurs in the texts of the collection
    name_length: Callable[[Sequence[str]], int]  # `LabelNames.name_length`
    synonyms: Mapping[str, str] = field(default_factory=dict)  # replacements of words and phrases, in lower case
    similar: Mapping[str, str] = field(default_factory=dict)  # replacements of words that are rare in the collection
    drops_unknown: bool = False  # whether words that no item has may be left out
    features: frozenset[str] = frozenset()  # words of text features, which know each form of a word separately

    def read(self, text: str) -> Understanding:
        text = without_possessives(_spell_emoji(text))
        kept, excluded = split_negated(text, self.is_known, self.name_length)
        rewritten, synonyms = self._replace_synonyms(kept)
        corrected = {typed.lower(): word for typed in _HYPHENATED.findall(rewritten) if (word := self._label(typed))}
        rewritten = _replaced(rewritten, corrected)
        asked = [word for word in tokens(rewritten) if word not in _NEUTRAL]
        similar = {word: found for word in dict.fromkeys(asked) if (found := self._similar(word))}
        unknown = [word for word in dict.fromkeys(asked) if word not in similar and not self._knows(word)]
        alternatives: dict[str, tuple[str, ...]] = {}
        is_foreign = len(asked) > 1 and 2 * len(unknown) > len(asked)
        for word in unknown:
            parts = self._parts_of_label(word)
            nearest = parts or self._nearest(word) or self._completions(word if asked[-1:] == [word] else "")
            if len(nearest) == 1 and (parts or not is_foreign or len(word) >= _TWO_ERRORS):
                corrected[word] = nearest[0]
            elif nearest and not is_foreign:
                alternatives[word] = nearest
        forms = {
            word: form for word in asked if word not in self.features and (form := self._forms.get(singular(word)))
        }
        rewritten = _replaced(rewritten, forms | corrected | similar)
        left = tuple(word for word in unknown if word not in corrected)
        known = without_words(rewritten, frozenset(left))
        if self.drops_unknown and left and (len(tokens(known)) == 1 or self._names_labels(tokens(known))):
            rewritten = known  # longer texts are calibrated with unknown words
        return Understanding(rewritten, corrected, alternatives, synonyms, similar, tuple(excluded), left)

    def _label(self, hyphenated: str) -> str | None:
        """Return a hyphenated word without hyphens if only this names a label: t-shirt, tshirt."""
        joined = hyphenated.replace("-", "").lower()
        names_one = self.name_length([joined]) and not self.name_length(tokens(hyphenated))
        return joined if names_one else None

    def _parts_of_label(self, word: str) -> tuple[str, ...]:
        """Return the two words that a word consists of if they name a label: tshirt, t shirt."""
        splits = ([word[:end], word[end:]] for end in range(1, len(word)))
        return tuple(itertools.islice((" ".join(parts) for parts in splits if self.name_length(parts) == 2), 1))

    def _names_labels(self, words: Sequence[str]) -> bool:
        """Return whether a text consists of names of labels."""
        while words and (length := self.name_length(words)):
            words = words[length:]
            if not words:
                return True
        return False

    def _replace_synonyms(self, words: Sequence[str]) -> tuple[str, dict[str, str]]:
        found: dict[str, str] = {}
        result, place = list[str](), 0
        longest = max((len(phrase.split()) for phrase in self.synonyms), default=0)
        while place < len(words):
            for length in range(min(longest, len(words) - place), 0, -1):
                phrase = " ".join(words[place : place + length]).lower().strip(".,;:!?\"'()")
                if phrase in self.synonyms:
                    found[phrase] = self.synonyms[phrase]
                    result.append(self.synonyms[phrase])
                    place += length
                    break
            else:
                result.append(words[place])
                place += 1
        return " ".join(result), found

    def _similar(self, word: str) -> str | None:
        return None if self.name_length([word]) else self.similar.get(word) or self.similar.get(singular(word))

    def _knows(self, word: str) -> bool:
        return word in self.words or singular(word) in self._singulars or self.is_known(word)

    @functools.cached_property
    def _singulars(self) -> frozenset[str]:
        return frozenset(map(singular, self.words))

    @functools.cached_property
    def _forms(self) -> dict[str, str]:
        """A word of the text features for each singular."""
        return {singular(word): word for word in sorted(self.features)}

    @functools.cached_property
    def _candidates(self) -> dict[int, list[str]]:
        """Candidate corrections, by length."""
        found: dict[int, list[str]] = {}
        for word in self.words:
            if len(word) >= _ONE_ERROR - 1 and word.isalpha():
                found.setdefault(len(word), []).append(word)
        return found

    def _nearest(self, word: str) -> tuple[str, ...]:
        """Return the words of the collection with the smallest edit distance to a word; none for a known word."""
        n_errors = (len(word) >= _ONE_ERROR) + (len(word) >= _TWO_ERRORS)
        if not n_errors or not word.isalpha() or word in dictionary():
            return ()
        from rapidfuzz import process  # here, because few queries need it
        from rapidfuzz.distance import OSA

        near: list[str] = []
        for n in range(1, n_errors + 1):
            some = (self._candidates.get(length, ()) for length in range(len(word) - n, len(word) + n + 1))
            found = (process.extract(word, each, scorer=OSA.distance, score_cutoff=n, limit=None) for each in some)
            near = [each for part in found for each, *_ in part]
            if n > 1:  # a right first letter, and no valid word that the dictionary lacks
                near = [] if _is_compound(word) else [each for each in near if each[0] == word[0]]
            if near:
                break
        nearest = sorted({singular(each): each for each in near}.values())
        # The first letter is rarely wrong, and swapped letters are more frequent than replaced ones.
        for is_likely in (lambda other: other[0] == word[0], lambda other: sorted(other) == sorted(word)):
            nearest = [*filter(is_likely, nearest)] or nearest
        return tuple(nearest[:5])

    def _completions(self, word: str) -> tuple[str, ...]:
        """Return the shortest word of the collection that completes the last word of a query."""
        if len(word) < _ONE_ERROR - 1 or not word.isalpha() or word in dictionary():
            return ()
        longer = (each for length in sorted(self._candidates) for each in self._candidates[length])
        return tuple(itertools.islice((each for each in longer if each.startswith(word)), 1))


def read_synonyms(folder: Path, name: str = SYNONYMS_FILE) -> dict[str, str]:
    """Return the synonyms in a file of a collection's folder: words and phrases, and their replacements.

    A line is ``sneakers, trainers => casual shoes``, or ``couch, sofa`` for synonyms, which are
    replaced by the last one. Empty lines and lines that begin with # are ignored.
    """
    path = folder / name
    if not path.exists():
        return {}
    check_regular_file(path)
    try:
        lines = read_regular(path, _MAX_BYTES).decode("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as UTF-8 text: {error}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        left, arrow, right = line.partition("=>")
        terms = [term.strip().lower() for term in left.split(",")]
        target = right.strip().lower() if arrow else terms.pop()
        if not target or not terms or not all(terms):
            raise InputError(f"line {number} of {path} must be like 'sneakers, trainers => casual shoes'")
        found |= dict.fromkeys(terms, target)
    return found


def _replaced(text: str, words: Mapping[str, str]) -> str:
    for typed, word in words.items():
        text = re.sub(rf"(?i)(?<!\w){re.escape(typed)}(?!\w)", word, text)
    return text


def _spell_emoji(text: str) -> str:
    return "".join(
        f" {unicodedata.name(letter, '').lower()} " if unicodedata.category(letter) == "So" else letter
        for letter in text
        if letter != "\N{VARIATION SELECTOR-16}"
    )


def _is_compound(word: str) -> bool:
    """Return whether a word consists of two words, or of a word and an affix."""
    splits = ((word[:end], word[end:]) for end in range(2, len(word) - 1))
    return any(all(part in _AFFIXES or part in dictionary() for part in parts) for parts in splits)


@functools.cache
def dictionary() -> frozenset[str]:
    """Return the 82,765 English words that come with symspellpy; they are never treated as typing errors."""
    package = importlib.util.find_spec("symspellpy")
    assert package is not None
    assert package.origin is not None
    path = Path(package.origin).with_name("frequency_dictionary_en_82_765.txt")
    return frozenset(line.partition(" ")[0] for line in path.read_text("utf-8-sig").splitlines())


class LabelNames:
    """Finds names of labels, and words of the same meaning, regardless of case, punctuation and English plurals."""

    def __init__(self, names: Sequence[str], words: Mapping[str, str]) -> None:
        self.names = names
        self._labels: dict[tuple[str, ...], list[int]] = {}
        self._own = {_key(tokens(name)) for name in names}
        numbers = {name: number for number, name in enumerate(names)}
        for name in names:
            self._labels.setdefault(_key(tokens(name)), []).append(numbers[name])
        for word, label in words.items():
            key = _key(tokens(word))
            # "shirt" names the label Shirts, and not Tshirts, although most texts of T-shirts have the word.
            if label in numbers and key not in self._own and numbers[label] not in self._labels.setdefault(key, []):
                self._labels[key].append(numbers[label])
        self._labels.pop((), None)
        self._longest = max(map(len, self._labels), default=0)

    def find(self, text: str) -> Iterator[tuple[list[str], list[int]]]:
        """Yield the words of each label name in a text, and its labels; of overlapping names, only the longest."""
        words, start = tokens(text), 0
        while start < len(words):
            length = self.name_length(words[start:])
            if length:
                yield words[start : start + length], self._labels[_key(words[start : start + length])]
            start += max(length, 1)

    def name_length(self, words: Sequence[str]) -> int:
        """Return the length in words of the longest name that the words begin with; 0 if there is none."""
        lengths = range(min(self._longest, len(words)), 0, -1)
        return next((length for length in lengths if _key(words[:length]) in self._labels), 0)

    def is_name(self, words: Sequence[str]) -> bool:
        """Return whether words are the name of a label, not merely a word of the same meaning."""
        return _key(words) in self._own

    @property
    def words(self) -> frozenset[str]:
        """All words of names, in the singular."""
        return frozenset(word for name in self._labels for word in name)


def label_words(vocabulary: Sequence[str], texts: sp.csr_array, labels: Singles) -> dict[str, int]:
    """Return the words that mean the same as a label, with the number of that label.

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
    """Return the approximate singular of an English plural, the form in which names and texts are compared."""
    if len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    if word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("ches", "shes", "sses", "xes", "zes")) else word[:-1]
