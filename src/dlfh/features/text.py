"""Bags of words, for texts in any script.

Words are runs of letters, digits and combining marks. A run in a script without spaces (Chinese, Japanese, Thai, ...)
is usually a whole clause, so it is split into single characters and pairs of characters. Character n-grams, in addition
to words or instead of them, relate unseen words to words in the training texts.

scikit-learn's analyser is unsuitable: it splits Hindi and Tamil words at their vowels, and does not split Chinese
clauses at all.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from array import array
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array
from dlfh._limits import check_limit, limit_of
from dlfh._progress import track
from dlfh._validation import check_choice, check_flag, check_integer, is_integer
from dlfh._words import number_words
from dlfh.errors import InputError
from dlfh.features.base import Arrays, Featurizer, PartialFeatures, read_each

#: Unicode ranges of scripts without spaces between words.
_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Myanmar, Khmer
    "\u3040-\u30ff\u31f0-\u31ff"  # kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"  # Han
)
#: Code points that may be combining marks; searching all of Unicode would take a third of a second.
_MARKS = (range(0x300, 0x1EA00), range(0xE0100, 0xE01F0))
#: Texts with only smaller characters have no marks or unspaced scripts: a simpler pattern finds the same words.
_FIRST_MARK = chr(_MARKS[0].start)
_PLAIN_WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")
#: Converts ASCII texts without apostrophes into words separated by spaces.
_SPACES = {code: " " for code in range(128) if not chr(code).isalnum()}
_SEPARATORS = bytes({*_SPACES} - {ord("'")})
_MAX_NGRAM = 1000  #: Maximum length of n-grams.
_CHAR_PREFIX = "#"  #: Prefix of character n-grams, which no word contains.
#: English stop words: the list of the Glasgow Information Retrieval Group, as in scikit-learn.
_WORDS = """
    a about above across after afterwards again against all almost alone along already also although always am among
    amongst amoungst amount an and another any anyhow anyone anything anyway anywhere are around as at back be became
    because become becomes becoming been before beforehand behind being below beside besides between beyond bill both
    bottom but by call can cannot cant co con could couldnt cry de describe detail do done down due during each eg
    eight either eleven else elsewhere empty enough etc even ever every everyone everything everywhere except few
    fifteen fifty fill find fire first five for former formerly forty found four from front full further get give go
    had has hasnt have he hence her here hereafter hereby herein hereupon hers herself him himself his how however
    hundred i ie if in inc indeed interest into is it its itself keep last latter latterly least less ltd made many
    may me meanwhile might mill mine more moreover most mostly move much must my myself name namely neither never
    nevertheless next nine no nobody none noone nor not nothing now nowhere of off often on once one only onto or
    other others otherwise our ours ourselves out over own part per perhaps please put rather re same see seem seemed
    seeming seems serious several she should show side since sincere six sixty so some somehow someone something
    sometime sometimes somewhere still such system take ten than that the their them themselves then thence there
    thereafter thereby therefore therein thereupon these they thick thin third this those though three through
    throughout thru thus to together too top toward towards twelve twenty two un under until up upon us very via was
    we well were what whatever when whence whenever where whereafter whereas whereby wherein whereupon wherever
    whether which while whither who whoever whole whom whose why will with within without would yet you your yours
    yourself yourselves
"""
ENGLISH_STOP_WORDS = frozenset(_WORDS.split())


class BagOfWords(Featurizer):
    """Weighted counts of words or character n-grams.

    Parameters
    ----------
    weighting : {"tfidf", "count", "binary"}, default "tfidf"
        "tfidf": ``(1 + log count) x (1 + log((1 + texts) / (1 + texts with the word)))``, normalised to length 1.
    analyzer : {"word", "char", "word+char"}, default "word"
        Count words, character n-grams, or both.
    ngrams : (int, int), default (1, 1)
        Minimum and maximum length of word n-grams.
    char_ngrams : (int, int), default (3, 5)
        Minimum and maximum length of character n-grams; spaces mark the edges of a word.
    max_features : int or None, default 10000
        Maximum number of terms; the most frequent ones are kept. The time to train a linear hash function grows with
        the square of this number, or of the number of texts if that is smaller.
    min_df : int, default 1
        Minimum number of texts that contain a term.
    stop_words : None, "english" or collection of str, default None
        Words to ignore.
    lowercase : bool, default True
        Whether to ignore case, in every script that has it.
    strip_accents : bool, default False
        Whether to remove accents: é becomes e.
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    vocabulary_ : list of str
        Terms, in the order of columns; character n-grams begin with ``#``.
    idf_ : ndarray of float32 (n_features_,)
        Inverse document frequency of each term.

    Examples
    --------
    >>> words = BagOfWords("count").fit(["A red cat, a red dog.", "blue cat"])
    >>> words.vocabulary_
    ['a', 'blue', 'cat', 'dog', 'red']
    >>> words.transform(["red cats? red cat!"]).toarray()
    array([[0., 0., 1., 0., 2.]], dtype=float32)
    """

    kind = "bag-of-words"
    takes = "texts"

    def __init__(
        self,
        weighting: Literal["tfidf", "count", "binary"] = "tfidf",
        *,
        analyzer: Literal["word", "char", "word+char"] = "word",
        ngrams: tuple[int, int] = (1, 1),
        char_ngrams: tuple[int, int] = (3, 5),
        max_features: int | None = 10_000,
        min_df: int = 1,
        stop_words: Literal["english"] | Collection[str] | None = None,
        lowercase: bool = True,
        strip_accents: bool = False,
        verbose: bool = False,
    ) -> None:
        self.weighting, self.analyzer, self.ngrams, self.char_ngrams = weighting, analyzer, ngrams, char_ngrams
        self.max_features, self.min_df, self.stop_words = max_features, min_df, stop_words
        self.lowercase, self.strip_accents, self.verbose = lowercase, strip_accents, verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice(self.weighting, "weighting", ("tfidf", "count", "binary"))
        check_choice(self.analyzer, "analyzer", ("word", "char", "word+char"))
        for name in ("ngrams", "char_ngrams"):
            value = getattr(self, name)
            low, high = value if isinstance(value, (tuple, list)) and len(value) == 2 else (0, 0)
            if not is_integer(low) or not is_integer(high) or not 1 <= low <= high <= _MAX_NGRAM:
                bounds = f"1 to {_MAX_NGRAM} in ascending order"
                raise InputError(f"{name} must be two whole numbers from {bounds}, got {value!r}")
        if self.max_features is not None:
            check_integer(self.max_features, "max_features", 1)
        check_integer(self.min_df, "min_df", 1)
        check_flag(self.lowercase, "lowercase")
        check_flag(self.strip_accents, "strip_accents")
        self._stop_words()

    def _fit(self, items: Any, strict: bool) -> int:
        texts, _, _ = _read_texts(items, strict)
        analyse = self._analyser()
        n_texts: Counter[str] = Counter()
        for text in track(texts, "vocabulary") if self.verbose else texts:
            n_texts.update(set(analyse(text)))
        if not n_texts:
            raise InputError(f"the {len(texts)} texts contain no words")
        terms = sorted(n_texts)
        frequencies = np.array([n_texts[term] for term in terms])
        order = np.argsort(-frequencies, kind="stable")  # stable: of equally frequent terms, keep the first
        kept = np.sort(order[frequencies[order] >= self.min_df][: self.max_features])
        if not len(kept):
            raise InputError(f"no word occurs in at least min_df={self.min_df} of the {len(texts)} texts")
        self.vocabulary_ = [terms[place] for place in kept]
        self.idf_ = (1 + np.log((1 + len(texts)) / (1 + frequencies[kept]))).astype(np.float32)
        return len(kept)

    def _transform(self, items: Any, strict: bool) -> PartialFeatures:
        texts, rows, problems = _read_texts(items, strict)
        counts = self._counts(track(texts, "text features") if self.verbose else texts)
        if self.weighting == "binary":
            counts.data[:] = 1
        elif self.weighting == "tfidf":
            counts.data = (1 + np.log(counts.data)) * self.idf_[counts.indices]
            if counts.shape[0] == 1:  # sequentially, to round as the slower sum over a matrix does
                lengths = np.sqrt(np.add.accumulate(counts.data * counts.data)[-1:])
            else:
                lengths = np.sqrt(np.asarray(counts.multiply(counts).sum(axis=1)).ravel())
            counts.data /= np.repeat(lengths, np.diff(counts.indptr))
        return PartialFeatures(counts, np.array(rows, np.int64), problems)

    def _counts(self, texts: Iterable[str]) -> sp.csr_array:
        """Return the count of each term in each text, with ascending columns in each row."""
        columns = self._columns()
        if self.analyzer == "word" and tuple(self.ngrams) == (1, 1):  # stop words are not in the vocabulary
            normal = [_normalise(text, self.lowercase, self.strip_accents) for text in texts]
            numbers, sizes, words = number_words(normal, _words, _SEPARATORS)
            terms = np.fromiter((columns.get(word, -1) for word in words), np.int64, len(words))[numbers]
        else:
            analyse, found, ends = self._analyser(), array("q"), array("q", [0])
            for text in texts:
                found.extend(map(columns.get, analyse(text), itertools.repeat(-1)))
                ends.append(len(found))
            terms, sizes = np.asarray(found, np.int64), np.diff(ends)
        n_texts, n_columns = len(sizes), max(len(columns), 1)
        keys = (np.repeat(np.arange(n_texts), sizes) * n_columns + terms)[terms >= 0]
        keys, counts = np.unique(keys, return_counts=True)
        rows, indices = np.divmod(keys, n_columns)
        width = np.int32 if len(keys) <= np.iinfo(np.int32).max else np.int64
        starts = np.searchsorted(rows, np.arange(n_texts + 1)).astype(width)
        return sp.csr_array((counts.astype(np.float32), indices.astype(width), starts), shape=(n_texts, len(columns)))

    def _columns(self) -> dict[str, int]:
        """Return the column of each term; computed once, since a query has few terms and the vocabulary many."""
        known: tuple[list[str], dict[str, int]] | None = self.__dict__.get("_known_columns")
        if known is None or known[0] is not self.vocabulary_:
            known = self.vocabulary_, {term: column for column, term in enumerate(self.vocabulary_)}
            self._known_columns = known
        return known[1]

    def _analyser(self) -> Callable[[str], Iterable[str]]:
        """Return a function that returns the terms of a text."""
        stop_words = self._stop_words()
        if self.analyzer == "word" and tuple(self.ngrams) == (1, 1) and not stop_words:
            return lambda text: _words(_normalise(text, self.lowercase, self.strip_accents))

        # Generators: a list of all terms would take many times the memory of the text.
        def words(text: str) -> Iterator[str]:
            return (word for word in _words(text) if word not in stop_words)

        def analyse(text: str) -> Iterator[str]:
            normal = _normalise(text, self.lowercase, self.strip_accents)
            if "word" in self.analyzer:
                yield from _ngrams(words(normal), *self.ngrams)
            if "char" in self.analyzer:
                yield from (ngram for word in words(normal) for ngram in _char_ngrams(word, *self.char_ngrams))

        return analyse

    def _stop_words(self) -> frozenset[str]:
        if self.stop_words is None:
            return frozenset()
        if self.stop_words == "english":
            return ENGLISH_STOP_WORDS
        words: Any = self.stop_words
        if not isinstance(words, (list, tuple, set, frozenset)) or not all(isinstance(word, str) for word in words):
            raise InputError(f"stop_words must be None, 'english' or a list of words, got {self.stop_words!r}")
        return frozenset(_normalise(word, self.lowercase, self.strip_accents) for word in words)

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {"vocabulary": self.vocabulary_}, {"idf": self.idf_}

    def _restore(self, fitted: Mapping[str, Any], arrays: Arrays) -> None:
        words, idf = fitted["vocabulary"], arrays["idf"]
        if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
            raise ValueError("its vocabulary is not a list of strings")
        if len(words) != self.n_features_ or len(set(words)) != len(words):
            raise ValueError(f"its vocabulary has {len(set(words))} distinct terms, not {self.n_features_}")
        if idf.shape != (self.n_features_,) or idf.dtype != np.float32 or not np.isfinite(idf).all():
            raise ValueError(f"its array 'idf' has the wrong type or shape: {idf.dtype}, {idf.shape}")
        self.vocabulary_, self.idf_ = words, idf


def _read_texts(items: Any, strict: bool) -> tuple[list[str], Sequence[int], dict[int, str]]:
    """Return the valid texts, their positions, and the reasons why other items are invalid."""
    limit = limit_of("DLFH_MAX_CHARACTERS")
    if all(type(item) is str and len(item) <= limit for item in items):
        return items, range(len(items)), {}
    return read_each(items, check_text, strict)


def check_text(item: Any, position: int) -> str:
    """Check that an item is a string of allowed length, and return it."""
    if not isinstance(item, str):
        raise InputError(f"text {position} must be a string, got {type(item).__name__}")
    if len(item) > limit_of("DLFH_MAX_CHARACTERS"):
        check_limit("DLFH_MAX_CHARACTERS", len(item), f"text {position} has {len(item):,} characters")
    return item


def _normalise(text: str, lowercase: bool, strip_accents: bool) -> str:
    """Return a text in Unicode's compatibility form, optionally without case or accents."""
    if text.isascii():
        return text.lower() if lowercase else text
    text = unicodedata.normalize("NFKC", text)
    if lowercase:
        text = unicodedata.normalize("NFKC", text.casefold())
    if strip_accents:
        # Only the marks of Latin, Greek and Cyrillic: in other scripts, marks are vowels.
        text = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFD", text))
        text = unicodedata.normalize("NFC", text)
    return text


@functools.cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return patterns for a word, and for its parts in spaced and unspaced scripts."""
    # Python's \w does not match combining marks, and would split Hindi or Tamil words at their vowels.
    possible = map(chr, itertools.chain(*_MARKS))
    marks = "".join(re.escape(mark) for mark in possible if unicodedata.category(mark).startswith("M"))
    letter = rf"(?:[^\W_]|[{marks}])"
    return re.compile(rf"{letter}+(?:['’]{letter}+)*"), re.compile(rf"[{_UNSPACED}]+|[^{_UNSPACED}]+")


def _words(text: str) -> Iterable[str]:
    if text.isascii() and "'" not in text:
        return text.translate(_SPACES).split()
    is_plain = text.isascii() or max(text, default="") < _FIRST_MARK
    return _PLAIN_WORD.findall(text) if is_plain else _words_of_any_script(text)


def _words_of_any_script(text: str) -> Iterator[str]:
    word_pattern, part_pattern = _patterns()
    for word in word_pattern.finditer(text):
        for part in (found.group() for found in part_pattern.finditer(word.group())):
            if not re.match(f"[{_UNSPACED}]", part):
                yield part
                continue
            yield from part
            yield from (part[place : place + 2] for place in range(len(part) - 1))


def _ngrams(words: Iterable[str], low: int, high: int) -> Iterator[str]:
    """Yield word n-grams, in the order of their last words."""
    if high == 1:
        yield from words
        return
    last: deque[str] = deque(maxlen=high)
    for word in words:
        last.append(word)
        for length in range(low, len(last) + 1):
            yield " ".join(itertools.islice(last, len(last) - length, None))


def _char_ngrams(word: str, shortest: int, longest: int) -> Iterator[str]:
    padded = f" {word} "
    for length in range(shortest, min(longest, len(padded)) + 1):
        for place in range(len(padded) - length + 1):
            yield _CHAR_PREFIX + padded[place : place + length]
