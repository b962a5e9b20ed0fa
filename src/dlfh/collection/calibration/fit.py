"""Calibration by held-out items: pairs of which the truth is known, and what their distances and words say of it.

Learned codes are calibrated by held-out items that ask for trained ones; hashed codes by held-out items that ask for
each other, since hash functions know the items that they were trained with too well.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dlfh._validation import check_random_state
from dlfh.codes import Codes, unpack
from dlfh.collection.calibration.defaults import choose, fit_all, least_words, scores_of
from dlfh.collection.calibration.model import (
    LEAST_WORDS,
    RANKINGS,
    Calibration,
    Pairs,
    Pattern,
    effective,
    patterns,
    probability,
    word_evidence,
)
from dlfh.collection.calibration.report import CalibrationReport, relevance
from dlfh.collection.encoder import Encoder
from dlfh.collection.item_vectors import ItemVectors, Training
from dlfh.collection.words import Words
from dlfh.datasets.items import Items

__all__ = ["calibrate"]

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]

#: So many queries and items tell a handful of weights well enough.
_MOST_QUERIES, _MOST_ITEMS, _MOST_PAIRS = 400, 2000, 20_000
#: With fewer items that ask for each other there is nothing to calibrate by.
_LEAST_QUERIES = 10


@dataclass(frozen=True)
class _Known:
    """Items of which all is known: their labels, their codes, what they ask with, and their texts.

    Attributes
    ----------
    labels : list of list of str
    codes : dict of str to ndarray of uint8 (n, bytes)
    learned : dict of str to ndarray of uint8 (n, bytes), or None
        The codes of their labels, if the method gives codes to labels.
    projections : dict of str to ndarray of float32 (n, n_bits)
    texts : dict of str to list of str
    """

    labels: list[list[str]]
    codes: dict[str, Codes]
    learned: dict[str, Codes] | None
    projections: dict[str, npt.NDArray[np.float32]]
    texts: dict[str, list[str]]


def calibrate(
    encoder: Encoder,
    queries: Items,
    query_vectors: ItemVectors,
    database: Items,
    database_vectors: ItemVectors,
    training: Training | None,
    random_state: int = 0,
) -> tuple[Calibration | None, list[CalibrationReport]]:
    """Calibrate the answers of a fitted encoder by items that it was not trained with.

    Parameters
    ----------
    encoder : Encoder
    queries, query_vectors
        Complete, labelled items that were held out.
    database, database_vectors, training
        The items that it was trained with, and what it learned from them.
    random_state : int
        The seed of the draw of pairs, where these are many.

    Returns
    -------
    calibration : Calibration or None
        None if there are too few items to calibrate by.
    reports : list of CalibrationReport
        How far its probabilities can be trusted: of each half of the queries, by what the other half says.
    """
    rng = check_random_state(random_state)
    held = _draw(queries, query_vectors, encoder, None, _MOST_QUERIES, rng)
    if len(held) < _LEAST_QUERIES:
        return None, []
    asking = _known(encoder, queries, query_vectors, held, None)
    items = _draw(database, database_vectors, encoder, training, _MOST_ITEMS, rng)
    trained = _known(encoder, database, database_vectors, items, training) if len(items) else None
    calibration, reports = Calibration(), []
    texts = tuple(asking.texts)
    right = relevance(asking.labels, asking.labels), relevance(asking.labels, [] if trained is None else trained.labels)
    for name in encoder.modalities_:
        mean = encoder.mean_code(name)
        words, partly = _word_pairs(encoder, asking, trained, texts, name, rng)
        own_texts = texts if words[0] else ()
        least = LEAST_WORDS
        for ranking in RANKINGS:
            asked = effective(asking.projections[name], ranking, mean).astype(np.float64)
            pairs = {"hashed": _pairs(asked, asking.codes, words[0], right[0], own=True)}
            if trained is not None:
                pairs["learned"] = _pairs(asked, trained.codes, words[1], right[1])
            if partly is not None:
                again = effective(partly.projections, ranking, mean).astype(np.float64)
                pairs = _with_found_again(pairs, asking, again, partly.of_own())
            some = {kind: rng.permutation(np.flatnonzero(own.counted))[:_MOST_PAIRS] for kind, own in pairs.items()}
            if ranking == RANKINGS[0]:
                plain = fit_all(pairs, some, [*patterns(encoder.searchable(), own_texts)])
                modalities, with_words, best = choose(plain, pairs, encoder.searchable(), name, own_texts)
                calibration.modalities[name], calibration.words[name] = modalities, with_words
                if with_words and partly is not None:
                    searched = _searched(again, asking, trained, partly)
                    least = least_words(pairs, some, searched, modalities, best)
                reports += _calibration_reports(name, pairs, modalities, with_words, least, rng)
            fits = fit_all(pairs, some, [*patterns(encoder.searchable(), own_texts)], least)
            calibration.fits.update({(ranking, name, pattern): fit for pattern, fit in fits.items()})
    return calibration, reports


def _draw(
    items: Items, vectors: ItemVectors, encoder: Encoder, training: Training | None, most: int, rng: np.random.Generator
) -> Rows:
    """Draw labelled items that have every modality and, if some were trained with, a learned code in each."""
    masks = [items.labelled(), *(vectors.present(name) for name in encoder.modalities_)]
    masks += [] if training is None else [training.learned[name] for name in encoder.modalities_]
    rows = np.flatnonzero(np.logical_and.reduce(masks))
    return np.sort(rng.permutation(rows)[:most])


def _known(encoder: Encoder, items: Items, vectors: ItemVectors, rows: Rows, training: Training | None) -> _Known:
    """Gather what is known of some items: learned codes of those that were trained with, hashed ones of others."""
    labels = items.take(rows).labels or []
    codes, projections = {}, {}
    for name in encoder.modalities_:
        if training is not None:
            codes[name] = encoder.codes_[name][np.searchsorted(training.items, rows)]
        else:
            matrix = vectors.take(name, rows)
            projections[name] = encoder.model_.project(name, matrix)
            codes[name] = encoder.model_.encode(name, matrix)
    texts = {}
    for name in encoder.modalities_:
        if encoder.featurizers_[name].takes == "texts":
            texts[name] = [items.modalities[name][row] for row in rows]
    learned, known = encoder.codes_of_labels(labels, len(labels))
    return _Known(labels, codes, learned if known.all() else None, projections, texts)


@dataclass(frozen=True)
class _Partly:
    """Items that are looked for with half of their own words.

    Attributes
    ----------
    projections : ndarray of float32 (n, n_bits)
        Of these words.
    words : dict of tuple of str to ndarray of float64 (n, n + trained)
        By the texts that are looked at, what the words say of each item: of these, and of those that were trained with.
    """

    projections: npt.NDArray[np.float32]
    words: dict[tuple[str, ...], Floats]

    def of_own(self) -> dict[tuple[str, ...], Floats]:
        """Return what the words say of the items that they are of."""
        return {key: values.diagonal()[:, None] for key, values in self.words.items()}

    def of(self, items: slice) -> dict[tuple[str, ...], Floats]:
        """Return what the words say of some items."""
        return {key: values[:, items] for key, values in self.words.items()}


def _word_pairs(
    encoder: Encoder,
    asking: _Known,
    trained: _Known | None,
    texts: tuple[str, ...],
    query: str,
    rng: np.random.Generator,
) -> tuple[tuple[dict[tuple[str, ...], Floats], dict[tuple[str, ...], Floats]], _Partly | None]:
    """Return what words say of the pairs, by the texts that are looked at; nothing if the query is no text."""
    if query not in texts:
        return ({}, {}), None
    n = len(asking.labels)
    both = [asking.texts, *([] if trained is None else [trained.texts])]
    columns = ([text for known in both for text in known[name]] for name in texts)
    words = Words.of(zip(*columns, strict=True), len(texts))
    halves = [_half(text, rng) for text in asking.texts[query]]
    evidence: dict[tuple[str, ...], Floats] = {}
    again: dict[tuple[str, ...], Floats] = {}
    for pattern in patterns(texts, texts):
        if pattern.codes == "hashed" and not pattern.words:
            places = [texts.index(name) for name in pattern.modalities]
            for told, questions in ((evidence, asking.texts[query]), (again, halves)):
                coverage = np.stack([words.coverage(text, places) for text in questions])
                told[pattern.modalities] = word_evidence(coverage)
    first = {key: own[:, :n] for key, own in evidence.items()}
    second = {key: own[:, n:] for key, own in evidence.items()}
    return (first, second), _Partly(encoder.project(query, halves), again)


def _half(text: str, rng: np.random.Generator) -> str:
    """Return half of the words of a text, drawn at random, in their order."""
    words = text.split()
    return " ".join(words[place] for place in np.sort(rng.permutation(len(words))[: max(len(words) // 2, 1)]))


def _with_found_again(
    pairs: dict[str, Pairs], asking: _Known, asked: Floats, words: dict[tuple[str, ...], Floats]
) -> dict[str, Pairs]:
    """Return the pairs, with those of an item and half of its own words."""
    n, n_bits = asked.shape
    some = {}
    for kind, own in pairs.items():
        codes = asking.codes if kind == "hashed" else asking.learned
        if codes is None:
            some[kind] = own
            continue
        similarities = {
            name: (asked * unpack(code, n_bits)).sum(axis=1, dtype=np.float64)[:, None] / n_bits
            for name, code in codes.items()
        }
        again = Pairs(similarities, words, np.ones((n, 1), bool), np.ones((n, 1), bool))
        some[kind] = replace(own, found_again=again)
    return some


def _pairs(
    asked: Floats, codes: dict[str, Codes], words: dict[tuple[str, ...], Floats], right: Mask, *, own: bool = False
) -> Pairs:
    n_bits = asked.shape[1]
    similarities = {name: asked @ unpack(code, n_bits).T.astype(np.float64) / n_bits for name, code in codes.items()}
    counted = np.ones(right.shape, bool)
    if own:
        np.fill_diagonal(counted, False)
    return Pairs(similarities, words, right, counted)


def _searched(asked: Floats, asking: _Known, trained: _Known | None, partly: _Partly) -> dict[str, Pairs]:
    """Return pairs of half of each held-out item's words and all items, as if no held-out one had labels."""
    n = len(asked)
    itself = np.eye(n, dtype=bool)
    pairs = {"hashed": _pairs(asked, asking.codes, partly.of(slice(n)), itself)}
    if trained is not None:
        nobody = np.zeros((n, len(trained.labels)), bool)
        pairs["learned"] = _pairs(asked, trained.codes, partly.of(slice(n, None)), nobody)
    return pairs


def _calibration_reports(
    query: str,
    pairs: dict[str, Pairs],
    modalities: tuple[str, ...],
    words: bool,
    least: float,
    rng: np.random.Generator,
) -> list[CalibrationReport]:
    """Return how far the default answers can be trusted: each half of the queries, by what the other half says."""
    reports = []
    for kind, own in pairs.items():
        order = rng.permutation(len(own.right))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        probabilities, right = [], []
        pattern = Pattern(kind, modalities, words)
        for mine, other in (halves, halves[::-1]):
            known = own.take(other, other if kind == "hashed" else None)
            asked = own.take(mine, mine if kind == "hashed" else None)
            scores = scores_of(known.fit(pattern, least_words=least), asked.features(pattern))[asked.counted]
            probabilities.append(probability(scores))
            right.append(asked.right[asked.counted])
        reports.append(CalibrationReport.from_pairs(query, kind, np.concatenate(probabilities), np.concatenate(right)))
    return reports
