"""What a collection learns from: labels, words of texts, or nothing but the likeness of items.

Words that images, or another modality, predict are usable as labels: they describe what is seen. Each word is scored by
the area under the ROC curve of its leave-one-out predictions from the other modality, on a sample of the items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Floats
from dlfh.collection.understanding import singular
from dlfh.collection.words import tokens
from dlfh.datasets.items import Items
from dlfh.datasets.problem import LABEL_WORDS
from dlfh.errors import InputError
from dlfh.features.base import Featurizer
from dlfh.features.text import ENGLISH_STOP_WORDS, BagOfWords

if TYPE_CHECKING:
    from dlfh.collection.encoder import Encoder

#: Number of items on which words are scored, and maximum number of candidates, the most frequent ones.
_MAX_ITEMS, _MAX_WORDS = 1000, 1000
#: Minimum number of items with a word, and maximum share of items.
_MIN_COUNT, _MAX_SHARE = 4, 0.5
#: Minimum area under the ROC curve of a word, and minimum distance of it from chance, in standard errors.
_MIN_AREA, _MIN_DEVIATIONS = 0.65, 3.0
#: Minimum number of such words.
_MIN_WORDS = 3
#: Number of labelled items from which on words do not count as labels.
_ENOUGH = 100
#: Number of words from which unsupervised methods learn.
_MAX_FEATURES = 2000
#: Weight of the ridge, relative to the mean variance of the features.
_RIDGE = 0.1


def supervise(encoder: Encoder, items: Items) -> tuple[Items, str]:
    """Return the items with the labels that an encoder can learn from, and a sentence that says what they are.

    If there are none, the model of the encoder becomes an unsupervised one.
    """
    known = items.labels or [[]] * len(items)
    n_labelled = sum(map(bool, known))
    if not encoder.model.info.supervised:
        return items, f"Learned from {_likeness(items)}; {type(encoder.model).__name__} needs no labels."
    of_labels = f"the labels of {n_labelled:,} items"
    if are_enough(known):
        return items, f"Learned from {of_labels}."
    words = choose_words(encoder.featurizers, items)
    if len(words) >= _MIN_WORDS:
        encoder.word_labels_ = named(words, known)
        first = ", ".join(words[:5])
        why = f"that the other content predicts, because {'few' if n_labelled else 'no'} items have labels"
        both = f"{of_labels}, and from " if n_labelled else ""
        labels = encoder.with_words(known, items.metadata)
        return replace(
            items, labels=labels
        ), f"Learned from {both}{len(words):,} words of the texts {why}: {first}, ..."
    if n_labelled >= 2:
        return items, f"Learned from {of_labels}."
    from dlfh.methods import CCAITQ, CVH

    n_bits, seed = encoder.model.n_bits, encoder.model.random_state
    encoder.model = CCAITQ(n_bits, random_state=seed) if len(items.modalities) < 3 else CVH(n_bits)
    encoder.featurizers = {name: _narrow(given) for name, given in encoder.featurizers.items()}
    return replace(items, labels=None), (
        f"Learned from {_likeness(items)}, because the items have no labels and no words that other content predicts."
    )


def are_enough(labels: Sequence[Sequence[str]]) -> bool:
    """Return whether enough items have labels to learn from these alone."""
    n_labelled = sum(map(bool, labels))
    return n_labelled >= min(_ENOUGH, max(2, len(labels) / 2))


def named(words: Iterable[str], labels: Iterable[Sequence[str]]) -> dict[str, str]:
    """Return the label that each word stands for: the label that it names, if any, or else the word itself."""
    names = {" ".join(map(singular, tokens(label))): label for given in labels for label in given}
    return {word: names.get(word, word) for word in words}


def _narrow(given: Featurizer | Sequence[Featurizer]) -> Featurizer:
    """Return the first featuriser, with fewer words if they are many: covariances grow with the square."""
    first = given if isinstance(given, Featurizer) else given[0]
    if not isinstance(first, BagOfWords):
        return first
    n_words = min(first.max_features or _MAX_FEATURES, _MAX_FEATURES)
    return BagOfWords(**{**first.get_params(deep=False), "max_features": n_words})


def _likeness(items: Items) -> str:
    names = [*items.modalities]
    return f"the likeness of each {names[0]}" if len(names) == 1 else f"which {' and '.join(names)} belong together"


def choose_words(featurizers: Mapping[str, Featurizer | Sequence[Featurizer]], items: Items) -> list[str]:
    """Return the words of texts that another modality predicts, the most predictable first."""
    texts = {
        name: values
        for name, values in items.modalities.items()
        if isinstance(values, list) and all(value is None or isinstance(value, str) for value in values)
    }
    found: dict[str, float] = {}
    for name, values in texts.items():
        for other in items.modalities if name != LABEL_WORDS else ():
            if other == name or (other in texts and other == LABEL_WORDS):
                continue
            both = np.flatnonzero(items.present(name) & items.present(other))
            drawn = np.sort(np.random.default_rng(0).permutation(both)[:_MAX_ITEMS])
            scores = _scored(featurizers[other], items.take(drawn).modalities[other], [values[row] for row in drawn])
            for word, score in scores.items():
                found[word] = max(found.get(word, 0.0), score)
    return sorted(found, key=lambda word: (-found[word], word))


def _scored(candidates: Featurizer | Sequence[Featurizer], values: Any, texts: Sequence[str]) -> dict[str, float]:
    """Return the deviation from chance of the words that values of another modality predict."""
    sets = [{*map(singular, tokens(text))} for text in texts]
    counts = Counter(word for words in sets for word in words)
    most = _MAX_SHARE * len(texts)
    words = [
        word
        for word, n in counts.most_common()
        if _MIN_COUNT <= n <= most and word not in ENGLISH_STOP_WORDS and not word.isdigit() and len(word) > 1
    ][:_MAX_WORDS]
    if not words:
        return {}
    featurizer = candidates if isinstance(candidates, Featurizer) else candidates[0]
    fresh = type(featurizer)(**{**featurizer.get_params(deep=False), "verbose": False})
    try:
        readable = fresh.fit_transform_readable(values)
    except InputError:  # no value can be read: reported when the items are encoded
        return {}
    column = {word: number for number, word in enumerate(words)}
    truth = np.zeros((len(readable.rows), len(words)))
    for row, item in enumerate(readable.rows.tolist()):
        truth[row, [column[word] for word in sets[item] if word in column]] = 1
    areas, errors = _areas(_leave_one_out(readable.features, truth), truth)
    is_clear = (areas >= _MIN_AREA) & (areas - 0.5 >= _MIN_DEVIATIONS * errors)
    return {words[place]: float((areas[place] - 0.5) / errors[place]) for place in np.flatnonzero(is_clear)}


def _leave_one_out(features: Any, targets: Floats) -> Floats:
    """Return leave-one-out predictions of a ridge regression, from the matrix of inner products of points."""
    X = features.toarray() if sp.issparse(features) else np.asarray(features, np.float64)
    X = X - X.mean(axis=0)
    if not sp.issparse(features):
        X /= X.std(axis=0) + 1e-9
    K = X @ X.T + 1.0  # the intercept
    inverse = np.linalg.inv(K + _RIDGE * np.trace(K) / len(K) * np.eye(len(K)) * len(K) ** 0.5)
    return targets - (inverse @ targets) / np.diag(inverse)[:, None]


def _areas(scores: Floats, truth: Floats) -> tuple[Floats, Floats]:
    """Return the area under the ROC curve of each column, and its standard error if scores were random."""
    ranks = scores.argsort(axis=0).argsort(axis=0) + 1.0
    n, positive = len(truth), truth.sum(axis=0)
    pairs = np.maximum(positive * (n - positive), 1)
    areas = ((ranks * truth).sum(axis=0) - positive * (positive + 1) / 2) / pairs
    return areas, np.sqrt((n + 1) / (12 * pairs))
