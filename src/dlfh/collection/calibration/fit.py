"""Calibration on held-out items: coefficients of every pattern, and the best search defaults.

Probabilities of items with learned codes, whose labels are known, are calibrated with held-out queries against training
items; all others with held-out queries against held-out items, since regressions overfit their training items.

The queries are the held-out items. Further text queries are names of one or two labels and single words, because people
type short queries, and half of the words of each text, as a search for that text's item.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from dlfh._arrays import Array, Codes, Floats, Integers, Mask, Singles
from dlfh._probabilities.scores import Match
from dlfh._validation import Features, check_random_state
from dlfh.codes import unpack
from dlfh.collection.calibration.model import (
    LABEL_RANKINGS,
    N_READ,
    QUESTIONS,
    RANKINGS,
    Calibration,
    CalibrationReport,
    Fit,
    Pattern,
    label_evidence,
    patterns,
    query_values,
    question_kind,
    relevance,
    rescaled,
    word_evidence,
)
from dlfh.collection.calibration.pairs import (
    MIN_WORD_WEIGHT,
    Pairs,
    PairsByKind,
    fit_logistic,
    fit_patterns,
    mean_average_precision,
    reciprocal_rank,
)
from dlfh.collection.encoder import Encoder
from dlfh.collection.item_codes import ItemVectors, Training
from dlfh.collection.understanding import label_words
from dlfh.collection.words import tokens, without_words
from dlfh.datasets.items import Items
from dlfh.features import BagOfWords
from dlfh.features.text import ENGLISH_STOP_WORDS
from dlfh.index.words import WordIndex

if TYPE_CHECKING:
    from dlfh.collection.evaluation import HeldOut

#: Word evidence of pairs, by the text modalities that are searched.
WordEvidence = dict[tuple[str, ...], Floats]

#: Sample sizes, sufficient for the few weights to fit; and the minimum number of held-out items for calibration.
_MAX_QUERIES, _MAX_ITEMS, _MAX_PAIRS, _MIN_QUERIES = 400, 2000, 20_000, 10
#: Maximum number of queries of each kind: one label, two labels that some item has, two that no item has; and the
#: minimum number of training items per label.
_MAX_LABEL_QUERIES, _MIN_LABELLED = 60, 3

#: The ranking by codes that label probabilities are compared with.
_BY_CODES = "asymmetric"
#: Codes are used in addition to label probabilities if they raise MAP by more than this.
_MIN_GAIN_OF_CODES = 0.003
#: Label probabilities are used by default unless the MAP of codes alone is higher by more than this.
_MAX_LOSS_OF_LABELS = 0.003
#: Words, which find items by terms that no label names, are searched unless that lowers MAP by more than this.
_MAX_MAP_LOSS_OF_WORDS = 0.01
#: Candidate minimum word weights. A larger one is chosen if it raises the reciprocal rank of known-item search by more
#: than ``_MIN_RANK_GAIN`` and lowers MAP by at most ``_MAX_MAP_LOSS_OF_WEIGHT``.
_WORD_WEIGHTS, _MIN_RANK_GAIN, _MAX_MAP_LOSS_OF_WEIGHT = (4.0, 8.0, 12.0), 0.005, 0.01


@dataclass(frozen=True)
class _Sample:
    """Labelled items that have every modality."""

    labels: list[list[str]]
    codes: dict[str, Codes]  # learned codes of training items, hashed codes of held-out items
    label_bytes: Codes  # known labels of training items, suggested labels of held-out items
    texts: dict[str, list[str]]


@dataclass(frozen=True)
class _Queries:
    """Queries of one modality."""

    modality: str
    labels: list[list[str]]  # a relevant item has all of them if the query is a text, any of them otherwise
    projections: Singles
    probabilities: Singles | None  # of labels (queries, n_labels)
    texts: list[str]  # empty if the queries are not texts
    explained: list[frozenset[str]]  # by text, the words that name labels
    item: Integers  # the held-out item that the query was taken from, in full or half; -1 if it names labels
    is_half: Mask  # whether the query is half of a text
    is_word: Mask  # whether the query is one word that names no label; relevant items contain it
    n_words: float = 0.0  # the median number of words of a text

    @property
    def match(self) -> Match:
        return "all" if self.texts else "any"

    @cached_property
    def kinds(self) -> Array:
        """The `question_kind` of each query."""
        named = zip(self.texts, self.explained, strict=True)
        return np.array([question_kind(*each, self.n_words) for each in named] if self.texts else [""] * len(self.item))


def calibrate(
    encoder: Encoder, parts: HeldOut, random_state: int = 0
) -> tuple[Calibration | None, list[CalibrationReport]]:
    """Calibrate an encoder that is fitted to the database part of the held-out split, using its query part.

    The calibration is None if there are fewer than 10 queries. Reports are cross-validated.
    """
    rng = check_random_state(random_state)
    rows = _draw(parts.queries, parts.query_vectors, encoder, None, _MAX_QUERIES, rng)
    if len(rows) < _MIN_QUERIES:
        return None, []
    held_out = _sample(encoder, parts.queries, parts.query_vectors, rows, None)
    samples, database = {"hashed": held_out}, (parts.database, parts.database_vectors)
    trained = _draw(*database, encoder, parts.training, _MAX_ITEMS, rng)
    if len(trained):
        samples["learned"] = _sample(encoder, *database, trained, parts.training)
    calibration = encoder.calibration_ = Calibration(label_words=_label_words(encoder, *database))
    reports: list[CalibrationReport] = []
    for name in held_out.codes:
        asked = _queries(encoder, name, parts.query_vectors.take(name, rows), samples, rng)
        reports += _calibrate_queries(encoder, asked, samples, calibration, rng)
    return calibration, reports


def _calibrate_queries(
    encoder: Encoder, asked: _Queries, samples: Mapping[str, _Sample], calibration: Calibration, rng: Generator
) -> list[CalibrationReport]:
    name, searchable = asked.modality, encoder.searchable_modalities()
    texts = tuple(samples["hashed"].texts) if asked.texts else ()
    every = [*patterns(searchable, texts)]
    words = {ignore: _word_evidence(samples, texts, asked, ignore=ignore) for ignore in (False, True)}
    by_labels = [] if encoder.label_model is None else [asked.match]
    rankings = [*by_labels, *(each for each in RANKINGS if each not in LABEL_RANKINGS)]
    known_items = {"hashed": samples["hashed"], "learned": _as_learned(encoder, samples["hashed"])}
    pairs = {
        ranking: {
            kind: _pairs(encoder, asked, ranking, items, known_items[kind], evidence[kind], evidence["hashed"])
            for kind, items in samples.items()
        }
        for ranking in rankings
        for evidence in (words[ranking in LABEL_RANKINGS],)
    }
    places = {kind: _places(each, rng) for kind, each in pairs[rankings[0]].items()}

    def defaults(of_kinds: PairsByKind) -> tuple[tuple[str, ...], bool, float]:
        return choose_defaults(fit_patterns(of_kinds, places, every), of_kinds, searchable, name, texts)

    chosen: str = asked.match if asked.match in pairs else _BY_CODES
    modalities, with_words, best_map = defaults(pairs[chosen])
    if chosen != _BY_CODES:
        alone = {kind: each.without_codes() for kind, each in pairs[chosen].items()}
        without_codes = defaults(alone)
        if without_codes[2] >= best_map - _MIN_GAIN_OF_CODES:
            pairs[chosen], (modalities, with_words, best_map) = alone, without_codes
        by_codes = defaults(pairs[_BY_CODES])
        if by_codes[2] > best_map + _MAX_LOSS_OF_LABELS:
            chosen, (modalities, with_words, best_map) = _BY_CODES, by_codes
    calibration.modalities[name], calibration.words[name], calibration.rankings[name] = modalities, with_words, chosen
    min_word_weight = MIN_WORD_WEIGHT
    if with_words:
        searched = {kind: _known_item_search(each, asked, kind) for kind, each in pairs[chosen].items()}
        min_word_weight = choose_word_weight(pairs[chosen], places, searched, modalities, best_map)
    for ranking, of_kinds in pairs.items():
        fits = fit_patterns(of_kinds, places, every, min_word_weight)
        calibration.fits.update({(ranking, name, pattern): fit for pattern, fit in fits.items()})
    kind = "learned" if "learned" in samples else "hashed"
    pattern = Pattern(kind, modalities, with_words)
    every_query = np.arange(len(asked.item))
    shown = _fit_shown(pairs[chosen][kind], pattern, calibration.fits[chosen, name, pattern], asked, every_query)
    calibration.shown.update({(name, each): fit for each, fit in shown.items()})
    if asked.texts:
        calibration.n_words[name] = asked.n_words
    return _cross_validate(pairs[chosen], modalities, with_words, min_word_weight, asked, rng)


def choose_defaults(
    fits: Mapping[Pattern, Fit], pairs: PairsByKind, modalities: tuple[str, ...], query: str, texts: Sequence[str]
) -> tuple[tuple[str, ...], bool, float]:
    """Return the modalities to search by default, whether to search words, and the best MAP of all combinations."""
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
    pairs: PairsByKind,
    places: Mapping[str, Integers],
    halves: PairsByKind,
    modalities: tuple[str, ...],
    best_map: float,
) -> float:
    """Return the minimum weight of words that serves known-item search best without lowering MAP.

    Where many items are almost certainly relevant, differences between their codes do not tell which item is meant, but
    words do.
    """
    with_words = [Pattern(kind, modalities, True) for kind in pairs]
    best, best_rank = MIN_WORD_WEIGHT, reciprocal_rank(fit_patterns(pairs, places, with_words), halves)
    for weight in _WORD_WEIGHTS:
        fits = fit_patterns(pairs, places, with_words, weight)
        rank = reciprocal_rank(fits, halves)
        min_map = best_map - _MAX_MAP_LOSS_OF_WEIGHT
        if rank > best_rank + _MIN_RANK_GAIN and mean_average_precision(fits, pairs, modalities, True) >= min_map:
            best, best_rank = weight, rank
    return best


def _draw(
    items: Items, vectors: ItemVectors, encoder: Encoder, training: Training | None, n: int, rng: Generator
) -> Integers:
    """Draw labelled items with every modality; training items must also have a learned code in each."""
    masks = [items.labelled(), *(vectors.present(name) for name in encoder.modalities_)]
    masks += [] if training is None else [training.learned[name] for name in encoder.modalities_]
    rows = np.flatnonzero(np.logical_and.reduce(masks))
    return np.sort(rng.permutation(rows)[:n])


def _sample(encoder: Encoder, items: Items, vectors: ItemVectors, rows: Integers, training: Training | None) -> _Sample:
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
    return _Sample(labels, codes, label_bytes, texts)


def _as_learned(encoder: Encoder, items: _Sample) -> _Sample | None:
    """Return held-out items as if they were training items; None if the method has no codes for labels."""
    codes, has_code = encoder.codes_of_labels(items.labels, len(items.labels))
    known, _ = encoder.known_labels(items.labels)
    return replace(items, codes=codes, label_bytes=known) if has_code.all() else None


def _queries(
    encoder: Encoder, name: str, vectors: Features, samples: Mapping[str, _Sample], rng: Generator
) -> _Queries:
    held_out, has_labels = samples["hashed"], encoder.label_model is not None
    n = len(held_out.labels)
    if name not in held_out.texts:
        projections = encoder.project_vectors(name, vectors)
        probabilities = encoder.label_probabilities(name, vectors) if has_labels else None
        no = np.zeros(n, bool)
        return _Queries(name, held_out.labels, projections, probabilities, [], [], np.arange(n), no, no)
    whole, named = held_out.texts[name], [*_named_labels(encoder, samples, rng)]
    words = _other_words(encoder, name, whole, rng) if has_labels else []
    halves = [_half(text, rng) for text in whole]
    texts = [*whole, *halves, *(" ".join(each).replace("_", " ") for each in named), *words]
    matrix = encoder.featurize(name, texts)
    probabilities, explained = None, [frozenset[str]()] * len(texts)
    if has_labels:
        probabilities, asked = encoder.label_queries(name, texts, matrix)
        explained = [each.words for each in asked]
    item = np.concatenate([np.arange(n), np.arange(n), np.full(len(named) + len(words), -1)])
    is_half, is_word = (np.repeat(each, [n, n, len(named), len(words)]) for each in np.eye(4, dtype=bool)[[1, 3]])
    labels = [*held_out.labels, *held_out.labels, *named, *([] for _ in words)]
    projections = encoder.project_vectors(name, matrix)
    typical = float(np.median([len(tokens(text)) for text in whole]))
    return _Queries(name, labels, projections, probabilities, texts, explained, item, is_half, is_word, typical)


def _other_words(encoder: Encoder, name: str, texts: Sequence[str], rng: Generator) -> list[str]:
    names, _ = encoder.label_names(name)
    words = sorted({word for text in texts for word in tokens(text)} - ENGLISH_STOP_WORDS)
    others = [word for word in words if word.isalpha() and not names.name_length([word])]
    return [others[place] for place in rng.permutation(len(others))[:_MAX_LABEL_QUERIES]]


def _label_words(encoder: Encoder, items: Items, vectors: ItemVectors) -> dict[str, dict[str, str]]:
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


def _named_labels(encoder: Encoder, samples: Mapping[str, _Sample], rng: Generator) -> Iterator[list[str]]:
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


def _word_evidence(
    samples: Mapping[str, _Sample], texts: tuple[str, ...], queries: _Queries, *, ignore: bool
) -> dict[str, WordEvidence]:
    """Return the word evidence of queries, by kind of items, with or without the words that name labels."""
    evidence: dict[str, WordEvidence] = {kind: {} for kind in samples}
    if not texts:
        return evidence
    columns = ([text for sample in samples.values() for text in sample.texts[name]] for name in texts)
    words = WordIndex.build(zip(*columns, strict=True), len(texts))
    ends = np.cumsum([len(sample.labels) for sample in samples.values()])[:-1]
    asked = queries.texts
    if ignore:
        asked = [without_words(*each) for each in zip(queries.texts, queries.explained, strict=True)]
    for names in dict.fromkeys(pattern.modalities for pattern in patterns(texts, texts) if pattern.modalities):
        places = [texts.index(name) for name in names]
        found = word_evidence(np.stack([words.coverage(text, places) for text in asked]))
        for kind, part in zip(samples, np.split(found, ends, axis=1), strict=True):
            evidence[kind][names] = part
    return evidence


def _half(text: str, rng: Generator) -> str:
    words = text.split()
    return " ".join(words[place] for place in np.sort(rng.permutation(len(words))[: max(len(words) // 2, 1)]))


def _evidence(
    encoder: Encoder, queries: _Queries, rows: Integers, ranking: str, items: _Sample
) -> tuple[dict[str, Floats], tuple[Floats, ...], Floats | None]:
    """Return the fields `similarities`, `labels` and `none` of `Pairs`, for all pairs of queries and items."""
    n_bits, model = encoder.n_bits, encoder.label_model
    values = query_values(queries.projections[rows], ranking).astype(np.float64)
    similarities = {
        name: values @ unpack(code, n_bits).T.astype(np.float64) / n_bits for name, code in items.codes.items()
    }
    if ranking not in LABEL_RANKINGS or model is None or queries.probabilities is None:
        return similarities, (), None
    match: Match = "all" if ranking == "all" else "any"
    probabilities, places = queries.probabilities[rows], items.label_bytes.T.astype(np.int64)
    tables = model.tables(probabilities, match)
    scores = np.stack([np.take_along_axis(table, places, axis=1).sum(axis=0) for table in tables]).astype(np.float64)
    evidence, none = label_evidence(model, probabilities, scores, match)
    return similarities, (evidence,), none


def _pairs(
    encoder: Encoder,
    queries: _Queries,
    ranking: str,
    items: _Sample,
    known_items: _Sample | None,
    words: WordEvidence,
    known_words: WordEvidence,
) -> Pairs:
    """Return all pairs; ``known_items`` are the held-out items, in the same form as ``items``, with word evidence."""
    relevant = relevance(queries.labels, items.labels, queries.match)
    counted = np.repeat(~queries.is_half[:, None], len(items.labels), axis=1)  # a half may lack some labels
    rows = np.flatnonzero(queries.item >= 0)
    if items is known_items:  # ignore pairs of a query and its own item
        counted[rows, queries.item[rows]] = False
    for row in np.flatnonzero(queries.is_word):
        relevant[row] = words[max(words, key=len)][row] > 0
    similarities, labels, none = _evidence(encoder, queries, np.arange(len(relevant)), ranking, items)
    pairs = Pairs(similarities, words, relevant, counted, None, labels, none)
    if not queries.texts or known_items is None:
        return pairs
    rows = np.flatnonzero(queries.is_half)
    similarities, labels, none = _evidence(encoder, queries, rows, ranking, known_items)
    every = np.ones((len(rows), 1), bool)
    similarities = {name: values.diagonal()[:, None] for name, values in similarities.items()}
    words = {names: values[rows, queries.item[rows]][:, None] for names, values in known_words.items()}
    labels = tuple(values.diagonal()[:, None] for values in labels)
    return replace(pairs, known_item=Pairs(similarities, words, every, every, None, labels, none))


def _known_item_search(pairs: Pairs, queries: _Queries, kind: str) -> Pairs:
    """Pair half of each held-out item's words with all items, as if held-out items had no labels."""
    halves = np.flatnonzero(queries.is_half)
    taken = pairs.take(halves)
    relevant = np.zeros(taken.relevant.shape, bool)
    if kind == "hashed":
        relevant[np.arange(len(halves)), queries.item[halves]] = True
    return replace(taken, relevant=relevant, counted=np.ones(relevant.shape, bool))


def _places(pairs: Pairs, rng: Generator) -> Integers:
    """Draw pairs, as positions in the flattened arrays: the most similar items of each query, and random others."""
    evidence = pairs.labels[0] if pairs.labels else np.sum([*pairs.similarities.values()], axis=0)
    if pairs.words:
        evidence = evidence + pairs.words[max(pairs.words, key=len)]
    evidence = np.where(pairs.counted, evidence, -np.inf)
    n = min(N_READ, evidence.shape[1])
    best = np.argpartition(-evidence, n - 1, axis=1)[:, :n] + np.arange(len(evidence))[:, None] * evidence.shape[1]
    others = rng.permutation(np.flatnonzero(pairs.counted))[:_MAX_PAIRS]
    drawn = np.zeros(pairs.counted.size, bool)
    drawn[best.ravel()] = drawn[others] = True
    return np.flatnonzero(drawn & pairs.counted.ravel())


def _fit_shown(pairs: Pairs, pattern: Pattern, fit: Fit, queries: _Queries, rows: Integers) -> dict[str, Fit]:
    """Return the weight and bias of the log-odds of the first results, by kind; ``rows`` are the queries of the pairs.

    Half of a text asks for the labels and the item of the whole text, like a user who describes an item incompletely.
    """
    counted = pairs.counted if pattern.codes == "hashed" else pairs.counted | queries.is_half[rows][:, None]
    log_odds = np.where(counted, pairs.log_odds(pattern, fit), -np.inf)
    n = min(N_READ, log_odds.shape[1])
    best = np.argpartition(-log_odds, n - 1, axis=1)[:, :n]
    values, relevant = (np.take_along_axis(each, best, axis=1) for each in (log_odds, pairs.relevant))
    kinds, found = queries.kinds[rows], dict[str, Fit]()
    for kind in dict.fromkeys(kinds.tolist()):
        is_kind = kinds == kind
        if kind == QUESTIONS[1]:
            is_kind &= queries.is_word[rows]
        elif kind == QUESTIONS[3]:
            is_kind &= ~queries.is_half[rows]
        of_kind = np.isfinite(values) & is_kind[:, None]
        evidence, is_relevant = values[of_kind], relevant[of_kind]
        if kind == QUESTIONS[2] and pattern.words and pairs.known_item is not None:
            known = pairs.known_item.log_odds(pattern, fit).ravel()
            evidence, is_relevant = np.append(evidence, known), np.append(is_relevant, np.ones(len(known), bool))
        if is_kind.sum() >= _MIN_QUERIES and 0 < is_relevant.sum() < len(is_relevant):
            found[kind] = fit_logistic([evidence], is_relevant)
    return found


def _cross_validate(
    pairs: PairsByKind, modalities: tuple[str, ...], words: bool, min_weight: float, queries: _Queries, rng: Generator
) -> list[CalibrationReport]:
    """Report on the default search by kind of query, with 2-fold cross-validation over held-out items and queries."""
    fold_of_item = rng.permutation(int(queries.item.max()) + 1) % 2
    fold = np.where(queries.item >= 0, fold_of_item[queries.item], rng.integers(0, 2, len(queries.item)))
    results: dict[tuple[str, str], tuple[list[Floats], list[Mask]]] = {}
    for test in (0, 1):
        rows, items = np.flatnonzero(fold != test), np.flatnonzero(fold_of_item != test)
        shown: dict[str, Fit] = {}
        for codes, all_pairs in sorted(pairs.items(), reverse=True):  # learned codes first: they decide what is shown
            pattern = Pattern(codes, modalities, words)
            seen = all_pairs.take(rows, items if codes == "hashed" else None)
            if all_pairs.known_item is not None:
                seen = replace(seen, known_item=all_pairs.known_item.take(items))
            fit = seen.fit(pattern, _places(seen, rng), min_weight)
            shown = shown or _fit_shown(seen, pattern, fit, queries, rows)
            asked = np.flatnonzero((fold == test) & ~queries.is_half)
            unseen = all_pairs.take(asked, np.flatnonzero(fold_of_item == test) if codes == "hashed" else None)
            for row, log_odds in enumerate(np.where(unseen.counted, unseen.log_odds(pattern, fit), -np.inf)):
                kind = str(queries.kinds[asked[row]])
                name = f"{queries.modality}: {kind}" if kind else queries.modality
                values, relevant = results.setdefault((name, codes), ([], []))
                values.append(rescaled(log_odds, shown[kind]) if kind in shown else log_odds)
                relevant.append(unseen.relevant[row])
    return [CalibrationReport.from_results(*key, *each) for key, each in sorted(results.items())]
