"""Calibration by held-out items: coefficients of every pattern, and the best search defaults.

Learned codes are calibrated by held-out queries against training items. Hashed codes are calibrated by held-out items
against each other, since hash functions fit the items that they were trained with too well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dlfh._validation import check_random_state
from dlfh.codes import Codes, unpack
from dlfh.collection.calibration.model import (
    RANKINGS,
    Calibration,
    Fit,
    Pattern,
    patterns,
    probability,
    query_values,
    word_evidence,
)
from dlfh.collection.calibration.pairs import (
    MIN_WORD_WEIGHT,
    Pairs,
    fit_patterns,
    mean_average_precision,
    reciprocal_rank,
)
from dlfh.collection.calibration.report import CalibrationReport, relevance
from dlfh.collection.encoder import Encoder
from dlfh.collection.item_vectors import ItemVectors, Training
from dlfh.collection.words import WordIndex
from dlfh.datasets.items import Items

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.int64]
#: Word evidence of pairs, by the text modalities that are searched.
WordEvidence = dict[tuple[str, ...], Floats]

#: Sample sizes: a few weights need no more.
_MAX_QUERIES, _MAX_ITEMS, _MAX_PAIRS = 400, 2000, 20_000
#: Fewest held-out items to calibrate by.
_MIN_QUERIES = 10

#: Words are searched by default unless that lowers MAP by more than this: they find what labels do not name.
_MAX_MAP_LOSS_OF_WORDS = 0.01
#: Candidate minimum word weights. A larger one is chosen if it raises the reciprocal rank of known-item search by more
#: than ``_MIN_RANK_GAIN`` and lowers MAP by at most ``_MAX_MAP_LOSS_OF_WEIGHT``.
_WORD_WEIGHTS, _MIN_RANK_GAIN, _MAX_MAP_LOSS_OF_WEIGHT = (4.0, 8.0, 12.0), 0.005, 0.005


@dataclass(frozen=True)
class _Sample:
    """Labelled items that have every modality: learned codes of training items, hashed codes of held-out items."""

    labels: list[list[str]]
    codes: dict[str, Codes]
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
    """Calibrate a fitted encoder with held-out items.

    queries, query_vectors: Held-out items, complete and labelled.
    database, database_vectors, training: Training items, and the result of fitting the encoder to them.
    random_state: Random seed for sampling pairs.
    Returns: None if there are fewer than 10 held-out items.
    Returns: Cross-validated: each half of the queries is predicted by the coefficients of the other half.
    """
    rng = check_random_state(random_state)
    rows = _draw(queries, query_vectors, encoder, None, _MAX_QUERIES, rng)
    if len(rows) < _MIN_QUERIES:
        return None, []
    held_out = _sample(encoder, queries, query_vectors, rows, None)
    all_projections = {name: encoder.model_.project(name, query_vectors.take(name, rows)) for name in held_out.codes}
    samples = {"hashed": held_out}
    rows = _draw(database, database_vectors, encoder, training, _MAX_ITEMS, rng)
    if len(rows):
        samples["learned"] = _sample(encoder, database, database_vectors, rows, training)
    relevant = {kind: relevance(held_out.labels, sample.labels) for kind, sample in samples.items()}
    label_codes, has_code = encoder.codes_of_labels(held_out.labels, len(held_out.labels))
    # Codes of the held-out items without and with their labels; not every method has codes for labels.
    known_item_codes = {"hashed": held_out.codes} | ({"learned": label_codes} if has_code.all() else {})
    calibration, reports, searchable = Calibration(), [], encoder.searchable_modalities()
    for name, projections in all_projections.items():
        mean = encoder.mean_code(name)
        texts = tuple(held_out.texts) if name in held_out.texts else ()
        every = [*patterns(searchable, texts)]
        words, halves, half_words = _word_evidence(samples, texts, name, rng)
        half_projections = encoder.project(name, halves) if texts else None
        min_word_weight = MIN_WORD_WEIGHT
        for ranking in RANKINGS:
            values = query_values(projections, ranking, mean).astype(np.float64)
            pairs = {
                kind: _pairs(values, sample.codes, words[kind], relevant[kind], same_items=kind == "hashed")
                for kind, sample in samples.items()
            }
            if half_projections is not None:
                values = query_values(half_projections, ranking, mean).astype(np.float64)
                for kind in [kind for kind in pairs if kind in known_item_codes]:
                    known_item = _known_item_pairs(values, known_item_codes[kind], half_words["hashed"])
                    pairs[kind] = replace(pairs[kind], known_item=known_item)
            places = {kind: rng.permutation(np.flatnonzero(each.counted))[:_MAX_PAIRS] for kind, each in pairs.items()}
            if ranking == RANKINGS[0]:
                fits = fit_patterns(pairs, places, every)
                modalities, with_words, best_map = choose_defaults(fits, pairs, searchable, name, texts)
                calibration.modalities[name], calibration.words[name] = modalities, with_words
                if with_words and half_projections is not None:
                    searched = _known_item_searches(values, samples, half_words)
                    min_word_weight = choose_word_weight(pairs, places, searched, modalities, best_map)
                reports += _cross_validate(name, pairs, modalities, with_words, min_word_weight, rng)
            fits = fit_patterns(pairs, places, every, min_word_weight)
            calibration.fits.update({(ranking, name, pattern): fit for pattern, fit in fits.items()})
    return calibration, reports


def choose_defaults(
    fits: Mapping[Pattern, Fit],
    pairs: Mapping[str, Pairs],
    modalities: tuple[str, ...],
    query: str,
    texts: Sequence[str],
) -> tuple[tuple[str, ...], bool, float]:
    """Return the modalities to search by default, whether to search words, and the best MAP of all choices."""
    choices = [*((name,) for name in modalities if name != query), modalities]
    codes = {names: mean_average_precision(fits, pairs, names, False) for names in choices}
    words = {names: mean_average_precision(fits, pairs, names, True) for names in choices if {*names} & {*texts}}
    best = max(codes, key=lambda names: codes[names])
    best_with_words = max(words, key=lambda names: words[names], default=best)
    best_map = max([*codes.values(), *words.values()])
    if words and words[best_with_words] >= codes[best] - _MAX_MAP_LOSS_OF_WORDS:
        return best_with_words, True, best_map
    return best, False, best_map


def choose_word_weight(
    pairs: Mapping[str, Pairs],
    places: Mapping[str, Rows],
    searched: Mapping[str, Pairs],
    modalities: tuple[str, ...],
    best_map: float,
) -> float:
    """Return the minimum weight of words that serves known-item search best without lowering MAP.

    Many items are likely to share a label with the query. Where that is nearly certain, further differences between
    codes do not tell which item is meant, but words do.
    """
    with_words = [Pattern(kind, modalities, True) for kind in pairs]
    best, best_rank = MIN_WORD_WEIGHT, reciprocal_rank(fit_patterns(pairs, places, with_words), searched)
    for weight in _WORD_WEIGHTS:
        fits = fit_patterns(pairs, places, with_words, weight)
        rank = reciprocal_rank(fits, searched)
        min_map = best_map - _MAX_MAP_LOSS_OF_WEIGHT
        if rank > best_rank + _MIN_RANK_GAIN and mean_average_precision(fits, pairs, modalities, True) >= min_map:
            best, best_rank = weight, rank
    return best


def _draw(
    items: Items, vectors: ItemVectors, encoder: Encoder, training: Training | None, n: int, rng: np.random.Generator
) -> Rows:
    """Draw labelled items that have every modality and, of training items, a learned code in each."""
    masks = [items.labelled(), *(vectors.present(name) for name in encoder.modalities_)]
    masks += [] if training is None else [training.learned[name] for name in encoder.modalities_]
    rows = np.flatnonzero(np.logical_and.reduce(masks))
    return np.sort(rng.permutation(rows)[:n])


def _sample(encoder: Encoder, items: Items, vectors: ItemVectors, rows: Rows, training: Training | None) -> _Sample:
    codes, texts = {}, {}
    for name in encoder.modalities_:
        if training is None:
            codes[name] = encoder.model_.encode(name, vectors.take(name, rows))
        else:
            codes[name] = encoder.codes_[name][np.searchsorted(training.items, rows)]
        if encoder.featurizers_[name].takes == "texts":
            texts[name] = [items.modalities[name][row] for row in rows]
    return _Sample(items.take(rows).labels or [], codes, texts)


def _word_evidence(
    samples: Mapping[str, _Sample], texts: tuple[str, ...], query: str, rng: np.random.Generator
) -> tuple[dict[str, WordEvidence], list[str], dict[str, WordEvidence]]:
    """Return the word evidence of held-out texts, half of the words of each, and the word evidence of these halves."""
    whole: dict[str, WordEvidence] = {kind: {} for kind in samples}
    half: dict[str, WordEvidence] = {kind: {} for kind in samples}
    if not texts:
        return whole, [], half
    columns = ([text for sample in samples.values() for text in sample.texts[name]] for name in texts)
    words = WordIndex.build(zip(*columns, strict=True), len(texts))
    queries = samples["hashed"].texts[query]
    halves = [_half(text, rng) for text in queries]
    for names in dict.fromkeys(pattern.modalities for pattern in patterns(texts, texts) if pattern.modalities):
        places = [texts.index(name) for name in names]
        for by_kind, phrases in ((whole, queries), (half, halves)):
            evidence = word_evidence(np.stack([words.coverage(text, places) for text in phrases]))
            for kind, part in zip(samples, np.split(evidence, [len(queries)], axis=1), strict=False):
                by_kind[kind][names] = part
    return whole, halves, half


def _half(text: str, rng: np.random.Generator) -> str:
    """Return a random half of the words of a text, in their order."""
    words = text.split()
    return " ".join(words[place] for place in np.sort(rng.permutation(len(words))[: max(len(words) // 2, 1)]))


def _pairs(
    values: Floats, codes: Mapping[str, Codes], words: WordEvidence, relevant: Mask, *, same_items: bool = False
) -> Pairs:
    n_bits = values.shape[1]
    similarities = {name: values @ unpack(code, n_bits).T.astype(np.float64) / n_bits for name, code in codes.items()}
    counted = np.ones(relevant.shape, bool)
    if same_items:
        np.fill_diagonal(counted, False)
    return Pairs(similarities, words, relevant, counted)


def _known_item_pairs(values: Floats, codes: Mapping[str, Codes], half_words: WordEvidence) -> Pairs:
    """Return the pairs of each held-out item and half of its own words."""
    n, n_bits = values.shape
    similarities = {
        name: (values * unpack(code, n_bits)).sum(axis=1, dtype=np.float64)[:, None] / n_bits
        for name, code in codes.items()
    }
    words = {names: evidence.diagonal()[:, None] for names, evidence in half_words.items()}
    return Pairs(similarities, words, np.ones((n, 1), bool), np.ones((n, 1), bool))


def _known_item_searches(
    values: Floats, samples: Mapping[str, _Sample], half_words: Mapping[str, WordEvidence]
) -> dict[str, Pairs]:
    """Return the pairs of half of each held-out item's words and all items, as if held-out items had no labels."""
    n = len(values)
    return {
        kind: _pairs(
            values, sample.codes, half_words[kind], np.eye(n, len(sample.labels), dtype=bool) & (kind == "hashed")
        )
        for kind, sample in samples.items()
    }


def _cross_validate(
    query: str,
    pairs: Mapping[str, Pairs],
    modalities: tuple[str, ...],
    words: bool,
    min_word_weight: float,
    rng: np.random.Generator,
) -> list[CalibrationReport]:
    """Report on the default search by 2-fold cross-validation over the queries."""
    reports = []
    for kind, all_pairs in pairs.items():
        pattern = Pattern(kind, modalities, words)
        order = rng.permutation(len(all_pairs.relevant))
        halves = order[: len(order) // 2], order[len(order) // 2 :]
        probabilities, relevant = [], []
        for test, train in (halves, halves[::-1]):
            seen = all_pairs.take(train, train if kind == "hashed" else None)
            unseen = all_pairs.take(test, test if kind == "hashed" else None)
            fit = seen.fit(pattern, min_word_weight=min_word_weight)
            probabilities.append(probability(unseen.log_odds(pattern, fit)[unseen.counted]))
            relevant.append(unseen.relevant[unseen.counted])
        reports.append(
            CalibrationReport.from_pairs(query, kind, np.concatenate(probabilities), np.concatenate(relevant))
        )
    return reports
