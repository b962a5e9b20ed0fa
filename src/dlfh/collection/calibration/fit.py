"""Calibration on held-out items: coefficients of every pattern, and the best search defaults.

Probabilities of items with learned codes, whose labels are known, are calibrated with held-out queries against training
items; all others with held-out queries against held-out items, since regressions overfit their training items.

The queries are the held-out items. Further text queries are names of one or two labels and single words, because people
type short queries, and half of the words of each text, as a search for that text's item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.random import Generator

from dlfh._arrays import Array, Floats, Integers, Mask
from dlfh._probabilities.scores import Match
from dlfh._validation import check_random_state
from dlfh.codes import unpack
from dlfh.collection.calibration.model import (
    COMPLETE,
    LABEL_RANKINGS,
    N_READ,
    NAMES_MATCHED,
    OTHERS,
    QUESTIONS,
    RANKINGS,
    Calibration,
    CalibrationReport,
    Fit,
    Pattern,
    below_and_above,
    explained_words,
    label_evidence,
    patterns,
    query_values,
    relevance,
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
from dlfh.collection.calibration.queries import (
    Queries,
    Sample,
    complete_pairs,
    draw_items,
    held_out_queries,
    left_out_queries,
    said_pairs,
    take_sample,
    words_of_labels,
)
from dlfh.collection.encoder import Encoder
from dlfh.collection.words import without_words
from dlfh.index.words import WordIndex

if TYPE_CHECKING:
    from dlfh.collection.evaluation import HeldOut

#: Word evidence of pairs, by the text modalities that are searched.
WordEvidence = dict[tuple[str, ...], Floats]

#: Sample sizes, sufficient for the few weights to fit; and the minimum number of held-out items for calibration.
_MAX_QUERIES, _MAX_ITEMS, _MAX_PAIRS, _MIN_QUERIES = 400, 2000, 20_000, 10

#: The ranking by codes that label probabilities are compared with.
_BY_CODES = "asymmetric"
#: Codes are used in addition to label probabilities if they raise MAP by more than this.
_MIN_GAIN_OF_CODES = 0.003
#: Label probabilities are used by default unless the MAP of codes alone is higher by more than this.
_MAX_LOSS_OF_LABELS = 0.003
#: Words, which find items by terms that no label names, are searched unless that lowers MAP by more than this.
_MAX_MAP_LOSS_OF_WORDS = 0.01
#: Weights of halves of held-out and of training texts in the calibration of first results, relative to whole texts.
#: Halves of training texts are easier: their items are in the collection, and their predictions are not left out.
_HALF_WEIGHTS = (0.75, 0.25)
#: Minimum share of first results with negative log-odds, and with positive ones, to fit a weight for each.
_MIN_SIDE = 0.1
#: Minimum weight of the log-odds of first results: calibration must not turn a ranking into ties.
_MIN_SHOWN_WEIGHT = 1e-3
#: Candidate minimum word weights. A larger one is chosen if it raises the reciprocal rank of known-item search by more
#: than ``_MIN_RANK_GAIN`` and lowers MAP by at most ``_MAX_MAP_LOSS_OF_WEIGHT``.
_WORD_WEIGHTS, _MIN_RANK_GAIN, _MAX_MAP_LOSS_OF_WEIGHT = (4.0, 8.0, 12.0), 0.005, 0.01


def calibrate(
    encoder: Encoder, parts: HeldOut, random_state: int = 0
) -> tuple[Calibration | None, list[CalibrationReport]]:
    """Calibrate an encoder that is fitted to the database part of the held-out split, using its query part.

    The calibration is None if there are fewer than 10 queries. Reports are cross-validated.
    """
    rng = check_random_state(random_state)
    rows = draw_items(parts.queries, parts.query_vectors, encoder, None, _MAX_QUERIES, rng)
    if len(rows) < _MIN_QUERIES:
        return None, []
    held_out = take_sample(encoder, parts.queries, parts.query_vectors, rows, None)
    samples, database = {"hashed": held_out}, (parts.database, parts.database_vectors)
    trained = draw_items(*database, encoder, parts.training, _MAX_ITEMS, rng)
    if len(trained):
        samples["learned"] = take_sample(encoder, *database, trained, parts.training)
    calibration = encoder.calibration_ = Calibration(label_words=words_of_labels(encoder, *database))
    reports: list[CalibrationReport] = []
    for name in held_out.codes:
        asked = held_out_queries(encoder, name, parts.query_vectors.take(name, rows), samples, rng)
        more = None
        if len(trained) and parts.training is not None:
            more = left_out_queries(encoder, name, parts.database, parts.training, asked, rng)
        own = None if more is None else (more[0], more[1][:, None] == trained)
        reports += _calibrate_queries(encoder, asked, samples, calibration, rng, own)
    return calibration, reports


def _calibrate_queries(
    encoder: Encoder,
    asked: Queries,
    samples: Mapping[str, Sample],
    calibration: Calibration,
    rng: Generator,
    more: tuple[Queries, Mask] | None,
) -> list[CalibrationReport]:
    """Calibrate queries of one modality; ``more``: training items as queries, and a mask of each among the items."""
    name, searchable = asked.modality, encoder.searchable_modalities()
    texts = tuple(samples["hashed"].texts) if asked.texts else ()
    every = [*patterns(searchable, texts)]
    modes = NAMES_MATCHED[2:] if encoder.word_labels_ or encoder.label_model is None else NAMES_MATCHED
    words = {names: _word_evidence(samples, texts, asked, names) for names in modes}
    by_labels = [] if encoder.label_model is None else [asked.match]
    rankings = [*by_labels, *(each for each in RANKINGS if each not in LABEL_RANKINGS)]
    known_items = {"hashed": samples["hashed"], "learned": _as_learned(encoder, samples["hashed"])}
    pairs = {
        ranking: {
            kind: _pairs(encoder, asked, ranking, items, known_items[kind], evidence[kind], evidence["hashed"])
            for kind, items in samples.items()
        }
        for ranking in rankings
        for evidence in (words[modes[0] if ranking in LABEL_RANKINGS else modes[-1]],)
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
    min_word_weight, best_quality, names = MIN_WORD_WEIGHT, -np.inf, modes[0]
    candidates = modes[:2] if chosen in LABEL_RANKINGS else modes[-1:]
    for mode in candidates if with_words else ():
        of_kinds = {kind: _with_words(each, asked, words[mode], kind) for kind, each in pairs[chosen].items()}
        searched = {kind: _known_item_search(each, asked, kind) for kind, each in of_kinds.items()}
        weight, quality = choose_word_weight(of_kinds, places, searched, modalities, best_map)
        if quality > best_quality + _MIN_RANK_GAIN:
            min_word_weight, best_quality, names, pairs[chosen] = weight, quality, mode, of_kinds
    if asked.texts:
        calibration.names[name] = names
    for ranking, of_kinds in pairs.items():
        fits = fit_patterns(of_kinds, places, every, min_word_weight)
        calibration.fits.update({(ranking, name, pattern): fit for pattern, fit in fits.items()})
    kind = "learned" if "learned" in samples else "hashed"
    pattern = Pattern(kind, modalities, with_words)
    if asked.texts:
        pairs[chosen] = {
            each: _with_complete(encoder, of_kind, asked, samples[each]) for each, of_kind in pairs[chosen].items()
        }
    several = [(pairs[chosen][kind], asked)]
    if more is not None:
        names = names if chosen in LABEL_RANKINGS else modes[-1]
        evidence = _word_evidence({kind: samples[kind]}, texts if more[0].texts else (), more[0], names)[kind]
        of_training = _pairs(encoder, more[0], chosen, samples[kind], None, evidence, {})
        of_training = replace(of_training, counted=of_training.counted & ~more[1])
        if more[0].texts:
            of_training = _with_complete(encoder, of_training, more[0], samples[kind])
        several.append((of_training, more[0]))
    shown = _fit_shown(several, pattern, calibration.fits[chosen, name, pattern])
    calibration.shown.update({(name, each): fit for each, fit in shown.items()})
    if asked.texts:
        calibration.n_words[name] = asked.n_words
    return _cross_validate(pairs[chosen], modalities, with_words, min_word_weight, asked, several[1:], rng)


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
) -> tuple[float, float]:
    """Return the minimum weight of words that serves known-item search best without lowering MAP, and its quality.

    The quality is the sum of the reciprocal rank and MAP; minus infinity if MAP is too low.

    Where many items are almost certainly relevant, differences between their codes do not tell which item is meant, but
    words do.
    """
    with_words = [Pattern(kind, modalities, True) for kind in pairs]
    best, best_rank, quality = MIN_WORD_WEIGHT, -np.inf, -np.inf
    for weight in (MIN_WORD_WEIGHT, *_WORD_WEIGHTS):
        fits = fit_patterns(pairs, places, with_words, weight)
        rank, value = reciprocal_rank(fits, halves), mean_average_precision(fits, pairs, modalities, True)
        is_allowed = value >= best_map - _MAX_MAP_LOSS_OF_WEIGHT
        if rank > best_rank + _MIN_RANK_GAIN and (is_allowed or weight == MIN_WORD_WEIGHT):
            best, best_rank, quality = weight, rank, rank + value if is_allowed else -np.inf
    return best, quality


def _as_learned(encoder: Encoder, items: Sample) -> Sample | None:
    """Return held-out items as if they were training items; None if the method has no codes for labels."""
    codes, has_code = encoder.codes_of_labels(items.labels, len(items.labels))
    known, _ = encoder.known_labels(items.labels)
    return replace(items, codes=codes, label_bytes=known) if has_code.all() else None


def _word_evidence(
    samples: Mapping[str, Sample], texts: tuple[str, ...], queries: Queries, names: str
) -> dict[str, WordEvidence]:
    """Return the word evidence of queries, by kind of items, with names of labels according to `NAMES_MATCHED`."""
    evidence: dict[str, WordEvidence] = {kind: {} for kind in samples}
    if not texts:
        return evidence
    columns = ([text for sample in samples.values() for text in sample.texts[name]] for name in texts)
    words = WordIndex.build(zip(*columns, strict=True), len(texts))
    ends = np.cumsum([len(sample.labels) for sample in samples.values()])[:-1]
    named = zip(queries.texts, queries.named, strict=True)
    asked = [without_words(text, explained_words(names, text, each.words)) for text, each in named]
    for searched in dict.fromkeys(pattern.modalities for pattern in patterns(texts, texts) if pattern.modalities):
        places = [texts.index(name) for name in searched]
        found = word_evidence(np.stack([words.coverage(text, places) for text in asked]))
        for kind, part in zip(samples, np.split(found, ends, axis=1), strict=True):
            evidence[kind][searched] = part
    return evidence


def _evidence(
    encoder: Encoder, queries: Queries, rows: Integers, ranking: str, items: Sample
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
    queries: Queries,
    ranking: str,
    items: Sample,
    known_items: Sample | None,
    words: WordEvidence,
    known_words: WordEvidence,
) -> Pairs:
    """Return all pairs; ``known_items`` are the held-out items, in the same form as ``items``, with word evidence."""
    relevant = relevance(queries.labels, items.labels, queries.match)
    counted = np.repeat(~queries.is_half[:, None], len(items.labels), axis=1)  # a half may lack some labels
    rows = np.flatnonzero(queries.item >= 0)
    if items is known_items:  # ignore pairs of a query and its own item
        counted[rows, queries.item[rows]] = False
    of_word = np.flatnonzero(queries.is_word)
    relevant[of_word] = said_pairs(queries, items, of_word)
    similarities, labels, none = _evidence(encoder, queries, np.arange(len(relevant)), ranking, items)
    pairs = Pairs(similarities, words, relevant, counted, None, labels, none)
    if not queries.texts or known_items is None:
        return pairs
    rows = queries.first_halves
    similarities, labels, none = _evidence(encoder, queries, rows, ranking, known_items)
    every = np.ones((len(rows), 1), bool)
    similarities = {name: values.diagonal()[:, None] for name, values in similarities.items()}
    words = {names: values[rows, queries.item[rows]][:, None] for names, values in known_words.items()}
    labels = tuple(values.diagonal()[:, None] for values in labels)
    return replace(pairs, known_item=Pairs(similarities, words, every, every, None, labels, none))


def _with_words(pairs: Pairs, queries: Queries, words: Mapping[str, WordEvidence], kind: str) -> Pairs:
    """Return pairs with other word evidence."""
    pairs, rows = replace(pairs, words=words[kind]), queries.first_halves
    if pairs.known_item is None:
        return pairs
    known = {names: values[rows, queries.item[rows]][:, None] for names, values in words["hashed"].items()}
    return replace(pairs, known_item=replace(pairs.known_item, words=known))


def _with_complete(encoder: Encoder, pairs: Pairs, queries: Queries, items: Sample) -> Pairs:
    """Return pairs with the items that have everything that a text asks for.

    Half of a text asks for the labels of the whole text, or for all words that it says itself.
    """
    complete, halves, relevant = (
        complete_pairs(encoder, queries, items),
        np.flatnonzero(queries.is_half),
        pairs.relevant,
    )
    relevant[halves] |= said_pairs(queries, items, halves)
    return replace(pairs, complete=complete, relevant=relevant)


def _known_item_search(pairs: Pairs, queries: Queries, kind: str) -> Pairs:
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


def _fit_shown(several: Sequence[tuple[Pairs, Queries]], pattern: Pattern, fit: Fit) -> dict[str, Fit]:
    """Return `Calibration.shown` of one modality, by kind of query and for complete results."""
    kinds, values, hits, weights, found = list[Array](), list[Floats](), list[Mask](), list[Floats](), dict[str, Fit]()
    for (pairs, queries), of_half in zip(several, _HALF_WEIGHTS, strict=False):
        is_half = queries.is_half[:, None]
        counted = pairs.counted if pattern.codes == "hashed" else pairs.counted | is_half
        complete = np.zeros(counted.shape, bool) if pairs.complete is None else pairs.complete
        log_odds = np.where(counted, pairs.log_odds(pattern, fit), -np.inf)
        best = np.argsort(np.where(complete, -1e6, 0.0) - log_odds, axis=1, kind="stable")[:, :N_READ]
        for row, kind in enumerate(queries.kinds.tolist()):
            if (kind == QUESTIONS[1] and not queries.is_word[row]) or (kind == QUESTIONS[0] and is_half[row]):
                continue  # other queries ask for names of labels and for words alone
            places = best[row][np.isfinite(log_odds[row, best[row]])]
            found_all = complete[row, places]
            others = kind + OTHERS if found_all.any() else kind
            kinds.append(np.where(found_all, kind + COMPLETE, others))
            values.append(log_odds[row, places])
            hits.append(pairs.relevant[row, places])
            weights.append(np.full(len(places), of_half if queries.is_half[row] else 1.0))
    of_kind, evidence, is_relevant, counted_as = map(np.concatenate, (kinds, values, hits, weights))
    for kind in dict.fromkeys(of_kind.tolist()):
        some = of_kind == kind
        n, n_relevant = int(some.sum()), int(is_relevant[some].sum())
        if 0 < n_relevant < n:
            is_above = float(np.mean(evidence[some] > 0))
            has_both = min(is_above, 1 - is_above) >= _MIN_SIDE  # otherwise one weight is for both sides
            # The weight above 0 is not larger: a flat curve below 0 would overestimate the many other items.
            features = [evidence[some], *([below_and_above(evidence[some])[0]] if has_both else [])]
            (above, *more), bias = fit_logistic(features, is_relevant[some], weights=counted_as[some])
            found[kind] = Fit((max(above + sum(more), _MIN_SHOWN_WEIGHT), max(above, _MIN_SHOWN_WEIGHT)), bias)
        else:
            share = (n_relevant + 1) / (n + 2)
            found[kind] = Fit((_MIN_SHOWN_WEIGHT,) * 2, float(np.log(share / (1 - share))))
        if n < _MIN_QUERIES:
            del found[kind]
    return found


def _cross_validate(
    pairs: PairsByKind,
    modalities: tuple[str, ...],
    words: bool,
    min_weight: float,
    queries: Queries,
    more: Sequence[tuple[Pairs, Queries]],
    rng: Generator,
) -> list[CalibrationReport]:
    """Report on the default search by kind of query, with 2-fold cross-validation over held-out items and queries.

    more: Training items as queries, which every fold uses.
    """
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
            shown = shown or _fit_shown([(seen, queries.take(rows)), *more], pattern, fit)
            asked = np.flatnonzero(fold == test)
            unseen = all_pairs.take(asked, np.flatnonzero(fold_of_item == test) if codes == "hashed" else None)
            is_part = queries.is_half[asked] & np.isin(queries.kinds[asked], QUESTIONS[2:]) & (codes == "learned")
            counted = unseen.counted | is_part[:, None]
            for row, log_odds in enumerate(np.where(counted, unseen.log_odds(pattern, fit), -np.inf)):
                if not counted[row].any():
                    continue
                kind = str(queries.kinds[asked[row]])
                name = f"{queries.modality}: {kind}" if kind else queries.modality
                values, relevant = results.setdefault((name, codes), ([], []))
                complete = False if unseen.complete is None else unseen.complete[row]
                values.append(
                    Calibration(shown={("", each): fit for each, fit in shown.items()}).shown_log_odds(
                        log_odds, ("", kind), complete
                    )
                )
                relevant.append(unseen.relevant[row])
    return [CalibrationReport.from_results(*key, *each) for key, each in sorted(results.items())]
