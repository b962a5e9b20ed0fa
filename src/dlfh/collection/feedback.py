"""Re-rank results by items that a person marked as relevant or irrelevant.

The relevance of items to a query is a Gaussian process: its mean is the log-odds of the ranking, and its covariance is
the similarity of items, from their label probabilities, hashed codes and words. Laplace's approximation updates it:
items similar to relevant ones rise, items similar to irrelevant ones fall, and a mark that the ranking predicted
changes little.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dlfh._arrays import Floats, Mask
from dlfh._probabilities.scores import Match, probability_of
from dlfh.collection.calibration.model import probability
from dlfh.collection.encoder import Encoder
from dlfh.collection.item_codes import LABELS, hashed_codes, hashed_column
from dlfh.collection.ranking import FindWords
from dlfh.index import Index
from dlfh.index.items import Item
from dlfh.index.nearest import Tables

#: Variance of the log-odds due to shared labels, due to similar hashed codes, and due to shared words.
_LABEL_VARIANCE, _CODE_VARIANCE, _WORD_VARIANCE = 6.0, 2.0, 2.0
_MAX_STEPS = 50


def similarities(
    index: Index, encoder: Encoder, marked: Sequence[Item], match: Match = "any", find: FindWords | None = None
) -> Floats:
    """Return the covariance of the relevance of all items of a local index with that of marked items, (marked, items).

    Unrelated items have a covariance of about 0.

    match: Whether relevant items have all labels of a query, or any: similar items then have all labels of a marked
        one, or share one.
    find: Finds items with words of a text; without it, words are not compared.
    """
    items, model, names = index.snapshot, encoder.label_model, encoder.searchable_modalities()
    everyone, total = np.arange(len(items)), np.zeros((len(marked), len(index)))
    for row, item in enumerate(marked):
        if model is not None and LABELS in item.codes:
            own = model.quantizer.decode(item.codes[LABELS][None])
            (distances,) = index.distances(LABELS, model.tables(own, match))
            (by_chance,) = model.terms(own, model.prior[None].astype(np.float32), match).sum(axis=(1, 2))
            scores = np.append(-distances, by_chance)
            *shared, expected = probability_of(scores, match, exclusive=model.exclusive)
            total[row] += _LABEL_VARIANCE * np.where(np.isfinite(distances), np.array(shared) - expected, 0.0)
        hashed = hashed_codes(item, names)
        for name, code in hashed.items():
            columns = tuple(map(items.modalities.index, (hashed_column(name), name)))
            (distances,) = items.distances_at(columns, Tables.of(code[None]), everyone)
            cosine = np.where(np.isfinite(distances), 1 - 2 * distances / encoder.n_bits, 0.0)
            total[row] += _CODE_VARIANCE / len(hashed) * cosine
        for column, name in enumerate(encoder.text_modalities()):
            text = (item.metadata or {}).get(name)
            if find is not None and isinstance(text, str):
                words = find(text, [column]).at(everyone)
                mean = float(words.mean())
                total[row] += _WORD_VARIANCE * (words - mean) / max(1 - mean, 1e-3)
        if item.id in index:  # in a database, it may not be on the shortlist
            total[row, index.positions([item.id])] = _LABEL_VARIANCE + _CODE_VARIANCE + _WORD_VARIANCE
    return total


def updated(log_odds: Floats, covariance: Floats, at_marked: Floats, among: Floats, relevant: Mask) -> Floats:
    """Return the log-odds of items after marks.

    log_odds, covariance: Of all items (items,), and with the marked ones (marked, items).
    at_marked, among: Log-odds of the marked items (marked,), and their covariance (marked, marked).
    """
    values, vectors = np.linalg.eigh((among + among.T) / 2)
    root = vectors * np.sqrt(np.maximum(values, 1e-6))  # the nearest covariance matrix
    start = np.clip(at_marked, -20.0, 20.0)
    w = np.zeros(len(start))
    for _ in range(_MAX_STEPS):  # Newton's method for logistic regression with an offset
        p = probability(start + root @ w)
        gradient = root.T @ (relevant - p) - w
        step = np.linalg.solve((root * (p * (1 - p))[:, None]).T @ root + np.eye(len(w)), gradient)
        w = w + step
        if np.abs(step).max(initial=0.0) < 1e-9:
            break
    surprise = relevant - probability(start + root @ w)
    return log_odds + surprise @ covariance
