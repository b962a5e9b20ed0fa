"""The ranking of a collection as exhaustive NumPy passes: every item is compared with every query."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlfh.collection.calibration.model import Calibration, Pattern, label_evidence, probability, word_evidence
from dlfh.collection.item_codes import LABELS, hashed_column
from dlfh.collection.query import Query, SearchOptions
from dlfh.collection.ranking import EncodedQuery
from dlfh.collection.searcher import Searcher
from dlfh.collection.words import without_words


def rank(searcher: Searcher, query: Query, options: SearchOptions, candidates: Any) -> list[tuple[int, Any, int]]:
    """Return the position, log-odds and number of equal items of each result, in order."""
    filled = searcher.resolve(query, options)
    searcher.encode([query])
    encoded = searcher._encoded(query, filled)
    log_odds = _log_odds(searcher, encoded, filled)
    eligible = np.isfinite(log_odds) & candidates
    if filled.radius is not None:
        eligible &= _distances(searcher, encoded.code, filled.modalities[0], filled) <= filled.radius  # type: ignore[index]
    if filled.min_probability is not None:
        eligible &= probability(log_odds) >= filled.min_probability
    positions = np.flatnonzero(eligible)
    keys = [-log_odds[positions]]
    if filled.match == "both" and encoded.labels is not None and encoded.explained:
        texts = searcher.encoder.text_modalities()
        columns = [column for column, name in enumerate(texts) if name in (filled.modalities or ())]
        keys.append(-searcher.words.coverage(" ".join(sorted(encoded.explained)), columns)[positions])
    others = [name for name in searcher.encoder.modalities_ if name not in (filled.modalities or ())]
    for name in (*(filled.modalities or ()), *others):
        keys.append(_hashed_distances(searcher, encoded.tie_breakers[name], name)[positions])
    order = np.lexsort((positions, *reversed(keys)))
    n = len(order) if filled.radius is not None else filled.k
    found = positions[order][:n].tolist()
    return [(place, log_odds[place], int((log_odds[positions] == log_odds[place]).sum())) for place in found]


def _log_odds(searcher: Searcher, query: EncodedQuery, options: SearchOptions) -> np.ndarray:
    index, encoder = searcher.index, searcher.encoder
    searched, ranking = tuple(options.modalities or ()), options.ranking or ""
    calibration = encoder.calibration_ or Calibration()
    texts = encoder.text_modalities()
    words = np.zeros(len(index))
    if options.match != "codes" and query.text is not None:
        is_explained = query.labels is not None and options.match != "words"
        text = without_words(query.text, query.explained) if is_explained else query.text
        words = word_evidence(
            searcher.words.coverage(text, [column for column, name in enumerate(texts) if name in searched])
        )
    if options.match == "words":
        fit = calibration.fit_for(ranking, query.modality or "", Pattern("hashed", (), True))
        return np.where(words > 0, fit.weights[0] * words + fit.bias, -np.inf)
    states = [index.states(name) for name in searched]
    learned = np.logical_or.reduce([mask for _, mask in states]) & (not options.hashed_only)
    log_odds = np.full(len(index), -np.inf)
    length = float(np.abs(query.values.astype(np.float64)).sum())
    for position in range(len(index)):
        names = tuple(name for name, (present, _) in zip(searched, states, strict=True) if present[position])
        if names:
            pattern = Pattern("learned" if learned[position] else "hashed", names, False)
            if options.match == "both" and {*names} & {*texts}:
                pattern = pattern._replace(words=True)
            fit = calibration.fit_for(ranking, query.modality or "", pattern)
            log_odds[position] = fit.bias
    evidence, none = np.zeros(len(index)), 0.0
    if query.labels is not None:
        model: Any = encoder.label_model
        match: Any = "all" if options.ranking == "all" else "any"
        distances = index.distances(LABELS, model.tables(query.labels[None], match))
        found, probabilities = label_evidence(model, query.labels[None], -distances, match)
        evidence, none = found[0], float(probabilities[0, 0])
    similarity = {}
    for name in searched:
        distances = _distances(searcher, query.values, name, options)
        similarity[name] = (length - 2 * np.where(np.isfinite(distances), distances, 0.0)) / len(query.values)
    for position in np.flatnonzero(np.isfinite(log_odds)).tolist():
        names = tuple(name for name, (present, _) in zip(searched, states, strict=True) if present[position])
        has_words = options.match == "both" and bool({*names} & {*texts})
        pattern = Pattern("learned" if learned[position] else "hashed", names, has_words)
        weights = [*calibration.fit_for(ranking, query.modality or "", pattern).weights]
        if pattern.n_label_weights(ranking):
            log_odds[position] += weights.pop(0) * evidence[position]
        for name in names:
            log_odds[position] += weights.pop(0) * similarity[name][position]
        if has_words:
            of_words = weights[0] + (none * weights[1] if len(weights) > 1 else 0.0)
            log_odds[position] += of_words * words[position]
    return log_odds


def _distances(searcher: Searcher, values: np.ndarray, modality: str, options: SearchOptions) -> np.ndarray:
    if options.hashed_only:
        return _hashed_distances(searcher, values, modality)
    return searcher.index.distances(modality, values[None])[0]


def _hashed_distances(searcher: Searcher, values: np.ndarray, modality: str) -> np.ndarray:
    (second,) = searcher.index.distances(hashed_column(modality), values[None])
    (first,) = searcher.index.distances(modality, values[None])
    return np.where(np.isfinite(second), second, first)
