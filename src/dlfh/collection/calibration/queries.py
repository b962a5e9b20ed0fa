"""Queries that calibrate a collection: held-out and training items, halves of texts, names of labels, single words."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.random import Generator

from dlfh._arrays import Array, Codes, Integers, Mask, Singles
from dlfh._probabilities.scores import Match
from dlfh._validation import Features
from dlfh.collection.calibration.model import content_words, question_kind
from dlfh.collection.encoder import Encoder
from dlfh.collection.item_codes import ItemVectors, Training
from dlfh.collection.understanding import Named, label_words, singular
from dlfh.collection.words import tokens
from dlfh.datasets.items import Items
from dlfh.features import BagOfWords
from dlfh.features.text import ENGLISH_STOP_WORDS
from dlfh.index.words import WordIndex, terms

#: Maximum number of queries of each kind: one label, two labels that some item has, two that no item has, one word; and
#: the minimum number of training items per label.
_MAX_LABEL_QUERIES, _MIN_LABELLED = 60, 3
#: Number of random halves of each held-out text.
_N_HALVES = 4


@dataclass(frozen=True)
class Sample:
    """Labelled items that have every modality."""

    labels: list[list[str]]
    codes: dict[str, Codes]  # learned codes of training items, hashed codes of held-out items
    label_bytes: Codes  # known labels of training items, suggested labels of held-out items
    texts: dict[str, list[str]]


@dataclass(frozen=True)
class Queries:
    """Queries of one modality."""

    modality: str
    labels: list[list[str]]  # a relevant item has all of them if the query is a text, any of them otherwise
    projections: Singles
    probabilities: Singles | None  # of labels (queries, n_labels)
    texts: list[str]  # empty if the queries are not texts
    named: list[Named]  # by text, the labels that it names
    item: Integers  # the held-out item that the query was taken from, in full or half; -1 if it names labels
    is_half: Mask  # whether the query is half of a text
    is_word: Mask  # whether the query is one word that names no label; relevant items contain it
    n_words: float = 0.0  # the median number of words of a text

    def take(self, rows: Integers) -> Queries:
        """Return some of the queries, for `kinds` and masks only."""
        texts, named = ([each[row] for row in rows] if each else [] for each in (self.texts, self.named))
        return replace(
            self, texts=texts, named=named, item=self.item[rows], is_half=self.is_half[rows], is_word=self.is_word[rows]
        )

    @property
    def first_halves(self) -> Integers:
        """One half of each text, in the order of the held-out items."""
        return np.flatnonzero(self.is_half)[: int(self.item.max(initial=-1)) + 1]

    @property
    def match(self) -> Match:
        return "all" if self.texts else "any"

    @cached_property
    def kinds(self) -> Array:
        """The `question_kind` of each query."""
        asked = zip(self.texts, self.named, strict=True)
        kinds = [question_kind(text, named.words, self.n_words) for text, named in asked]
        return np.array(kinds if self.texts else [""] * len(self.item))


def draw_items(
    items: Items, vectors: ItemVectors, encoder: Encoder, training: Training | None, n: int, rng: Generator
) -> Integers:
    """Draw labelled items with every modality; training items must also have a learned code in each."""
    masks = [items.labelled(), *(vectors.present(name) for name in encoder.modalities_)]
    masks += [] if training is None else [training.learned[name] for name in encoder.modalities_]
    rows = np.flatnonzero(np.logical_and.reduce(masks))
    return np.sort(rng.permutation(rows)[:n])


def take_sample(
    encoder: Encoder, items: Items, vectors: ItemVectors, rows: Integers, training: Training | None
) -> Sample:
    """Return items, with learned codes if they are training items."""
    names, labels, model = encoder.modalities_, items.take(rows).labels or [], encoder.label_model
    are_texts = [name for name in names if encoder.featurizers_[name].takes == "texts"]
    texts = {name: [items.modalities[name][row] for row in rows] for name in are_texts}
    if training is not None:
        places = np.searchsorted(training.items, rows)
        codes = {name: encoder.codes_[name][places] for name in names}
    else:
        codes = {name: encoder.model_.encode(name, vectors.take(name, rows)) for name in names}
    label_bytes, _ = encoder.known_labels(labels)
    if training is None and model is not None:
        matrices = {name: vectors.take(name, rows) for name in encoder.searchable_modalities()}
        found = {name: encoder.label_probabilities(name, each) for name, each in matrices.items()}
        suggested = {name: model.encode_suggested(name, each) for name, each in found.items()}
        label_bytes = encoder.combine_labels(suggested, dict.fromkeys(suggested, np.ones(len(rows), bool)))
    return Sample(labels, codes, label_bytes, texts)


def held_out_queries(
    encoder: Encoder, name: str, vectors: Features, samples: Mapping[str, Sample], rng: Generator
) -> Queries:
    """Return held-out items as queries and, for texts, halves of them, names of labels and single words."""
    held_out, has_labels = samples["hashed"], encoder.label_model is not None
    n = len(held_out.labels)
    if name not in held_out.texts:
        projections = encoder.project_vectors(name, vectors)
        probabilities = encoder.label_probabilities(name, vectors) if has_labels else None
        no = np.zeros(n, bool)
        return Queries(name, held_out.labels, projections, probabilities, [], [], np.arange(n), no, no)
    whole, named = held_out.texts[name], [*_named_labels(encoder, samples, rng)]
    words = _other_words(encoder, name, whole, rng) if has_labels else []
    halves = [_half(text, rng) for _ in range(_N_HALVES) for text in whole]
    texts = [*whole, *halves, *(" ".join(each).replace("_", " ") for each in named), *words]
    matrix = encoder.featurize(name, texts)
    probabilities, named_labels = None, [Named()] * len(texts)
    if has_labels:
        probabilities, named_labels = encoder.label_queries(name, texts, encoder.label_probabilities(name, matrix))
    item = np.concatenate([np.tile(np.arange(n), 1 + _N_HALVES), np.full(len(named) + len(words), -1)])
    counts = [n, len(halves), len(named), len(words)]
    is_half, is_word = (np.repeat(each, counts) for each in np.eye(4, dtype=bool)[[1, 3]])
    labels = [*held_out.labels * (1 + _N_HALVES), *named, *([] for _ in words)]
    projections = encoder.project_vectors(name, matrix)
    typical = float(np.median([len(tokens(text)) for text in whole]))
    return Queries(name, labels, projections, probabilities, texts, named_labels, item, is_half, is_word, typical)


def _other_words(encoder: Encoder, name: str, texts: Sequence[str], rng: Generator) -> list[str]:
    names, _ = encoder.label_names(name)
    words = sorted({word for text in texts for word in tokens(text)} - ENGLISH_STOP_WORDS)
    others = [word for word in words if any(map(str.isalpha, word)) and not names.is_name([word])]
    return [others[place] for place in rng.permutation(len(others))[:_MAX_LABEL_QUERIES]]


def words_of_labels(encoder: Encoder, items: Items, vectors: ItemVectors) -> dict[str, dict[str, str]]:
    """Return `Calibration.label_words`."""
    model, found = encoder.label_model, dict[str, dict[str, str]]()
    if model is None:
        return found
    for name in encoder.text_modalities():
        featurizer, rows = encoder.featurizers_[name], np.flatnonzero(items.labelled() & vectors.present(name))
        matrix, names = vectors.take(name, rows), model.names or ()
        if isinstance(featurizer, BagOfWords) and len(rows):
            words = label_words(featurizer.vocabulary_, matrix, encoder.label_rows(items.take(rows).labels or [])[0])
            found[name] = {word: str(names[label]) for word, label in words.items()}
    return found


def _named_labels(encoder: Encoder, samples: Mapping[str, Sample], rng: Generator) -> Iterator[list[str]]:
    """Yield labels that people may ask for: single labels, pairs that some item has, and pairs that no item has."""
    model = encoder.label_model
    if model is None:
        return
    labels = [given for sample in samples.values() for given in sample.labels]
    rows, _ = encoder.label_rows(labels)
    together = rows.T @ rows
    words = np.array([any(letter.isalpha() for letter in str(name)) for name in model.names or ()])
    common = np.flatnonzero((together.diagonal() >= _MIN_LABELLED) & words)
    pairs = np.array([*itertools.combinations(rng.permutation(common)[: 4 * _MAX_LABEL_QUERIES], 2)]).reshape(-1, 2)
    pairs = rng.permutation(pairs)
    count = together[pairs[:, 0], pairs[:, 1]]
    names = model.names or ()
    for group in (rng.permutation(common)[:, None], pairs[count > 0], pairs[count == 0]):
        for numbers in group[:_MAX_LABEL_QUERIES].tolist():
            yield [str(names[number]) for number in numbers]


def _half(text: str, rng: Generator) -> str:
    words = text.split()
    return " ".join(words[place] for place in np.sort(rng.permutation(len(words))[: max(len(words) // 2, 1)]))


def complete_pairs(encoder: Encoder, queries: Queries, items: Sample) -> Mask:
    """Return whether each item has all labels that each text names, and all of its other words."""
    index = WordIndex.build(zip(*items.texts.values(), strict=True), len(items.texts))
    missing = 1 - (
        np.zeros((0, 0)) if encoder.label_model is None else encoder.label_model.quantizer.decode(items.label_bytes)
    )
    complete = np.ones((len(queries.texts), len(items.labels)), bool)
    for row, (text, named) in enumerate(zip(queries.texts, queries.named, strict=True)):
        words = content_words(text, named.words)
        if words:
            complete[row] = False
            complete[row, index.with_all(terms(" ".join(words)))] = True
        for numbers in named.labels:
            complete[row] &= missing[:, numbers].prod(axis=1) <= 0.5
        complete[row] &= bool(words or named.labels)
    return complete


def said_pairs(queries: Queries, items: Sample, rows: Integers) -> Mask:
    """Return whether each item has all words of the texts in some rows, names of labels included.

    A search finds other forms of the words as well, but only plurals are certain to mean the same.
    """
    said = np.zeros((len(rows), len(items.labels)), bool)
    for texts in items.texts.values():
        places: dict[str, set[int]] = {}
        for place, text in enumerate(texts):
            for word in {*map(singular, tokens(text))}:
                places.setdefault(word, set()).add(place)
        for number, row in enumerate(rows):
            words = content_words(queries.texts[row])
            found = (places.get(singular(word), set()) for word in words)
            said[number, [*set.intersection(*found)] if words else []] = True
    return said


def left_out_queries(
    encoder: Encoder, name: str, items: Items, training: Training, asked: Queries, rng: Generator
) -> tuple[Queries, Integers] | None:
    """Return training items as queries, with leave-one-out predictions, and the position of each item.

    asked: Held-out queries of the same modality.

    They are many more than the held-out items. Halves of their texts are searches for a known item, and their
    predictions are not left out.
    """
    if name not in training.queries or name not in training.leave_one_out:
        return None
    rows, predicted = training.queries[name]
    used = np.flatnonzero(training.used[name])
    projections, labels = training.leave_one_out[name][np.searchsorted(used, rows)], items.take(rows).labels or []
    if encoder.featurizers_[name].takes != "texts":
        no = np.zeros(len(rows), bool)
        return Queries(name, labels, projections, predicted, [], [], np.full(len(rows), -1), no, no), rows
    of_half = rng.permutation(len(rows))[: int(asked.is_half.sum())]
    whole = [items.modalities[name][row] for row in rows]
    texts = [*whole, *(_half(whole[place], rng) for place in of_half)]
    matrix = encoder.featurize(name, texts[len(rows) :])
    predicted = np.concatenate([predicted, encoder.label_probabilities(name, matrix)])
    probabilities, named = encoder.label_queries(name, texts, predicted)
    projections = np.concatenate([projections, encoder.project_vectors(name, matrix)])
    labels = [*labels, *(labels[place] for place in of_half)]
    is_half = np.arange(len(texts)) >= len(rows)
    unknown, no = np.full(len(texts), -1), np.zeros(len(texts), bool)
    own = np.concatenate([rows, np.full(len(of_half), -1)])
    return Queries(name, labels, projections, probabilities, texts, named, unknown, is_half, no, asked.n_words), own
