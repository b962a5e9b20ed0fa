"""Fit an encoder to the vectors of items, of which some may have no labels.

Items without labels take part with guessed labels: a first model, of the labelled items, predicts them from all
modalities of an item together, and a second one learns from all items. What the modalities agree on teaches each of
them. Guessed labels are never stored: these items have hashed codes. In the modality that predicts labels best, the
probabilities of both models are mixed: there, guesses teach little, and the first model knows rare labels better.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from dlfh._arrays import Integers, Mask
from dlfh._parallel import Workers
from dlfh._probabilities.fit import FirstLabels
from dlfh.collection.encoder import Encoder, unfitted
from dlfh.collection.item_codes import ItemVectors, Training
from dlfh.datasets.problem import LABEL_WORDS, Problem
from dlfh.errors import InputError
from dlfh.features import BagOfWords
from dlfh.features.base import Featurizer
from dlfh.methods import DLFH, CrossModalHasher

#: Minimum number and maximum share of labelled items to guess the labels of others (a few others add little, and may be
#: of another kind), and maximum number of others, drawn at random.
_MIN_LABELLED, _MAX_SHARE, _MAX_GUESSED = 50, 0.9, 10_000
#: Minimum number of labelled items to guess the labels of others, where words count as labels, too.
_MIN_GIVEN = 20
#: Minimum probability of a guessed label.
_GUESSED = 0.5
#: Maximum number of training items per modality whose leave-one-out label probabilities calibration uses.
_MAX_LEFT_OUT = 400
#: Items in a batch of predictions.
_BATCH = 4096


def fit_vectors(
    encoder: Encoder,
    featurizers: dict[str, Featurizer],
    vectors: ItemVectors,
    labels: Sequence[Sequence[str]] | None,
    model: CrossModalHasher,
    given: Sequence[Sequence[str]] | None = None,
) -> Training:
    """Fit an encoder to the vectors and labels of items, with an unfitted model.

    given: The labels without words, if words of texts count as labels. Labels that items lack are then guessed.
    """
    known = [list(given) for given in labels or [[]] * vectors.n_items]
    labelled = np.array([bool(each) or not model.info.supervised for each in known], bool)
    present = {name: vectors.present(name) for name in featurizers}
    again = unfitted(model)
    again._known_codes = getattr(model, "_known_codes", None)
    taught, first, least = labelled, known, _MIN_LABELLED
    if given is not None and _is_learnable(has_given := np.array([*map(bool, given)], bool), present):
        taught, first, least = has_given, [list(each) for each in given], _MIN_GIVEN
    rows = _fit(encoder, featurizers, vectors, first, taught, model)
    guessed = _guess(encoder, vectors, taught, least)
    predicted: dict[str, FirstLabels] = {}
    if guessed or first is not known:
        predicted = _first_labels(encoder, vectors, first, rows, [*guessed]) if guessed else {}
        for row, labels_of_row in guessed.items():
            known[row] = [*dict.fromkeys([*known[row], *labels_of_row])]
        rows = _fit(encoder, featurizers, vectors, known, labelled | np.array([*map(bool, known)]), again, predicted)
    model = encoder.model_
    is_used = np.zeros(len(known), bool)
    is_used[rows] = True
    learns_codes = "learned" in model.info.protocols
    is_taught = is_used & np.array([bool(each) or not model.info.supervised for each in known], bool)
    used = {name: is_taught & mask & learns_codes for name, mask in present.items()}
    incomplete = is_used & ~np.logical_and.reduce([labelled, *present.values()])
    leave_one_out, suggested, queries = {}, {}, {}
    for name, mask in used.items():
        points = np.flatnonzero(mask)
        if not len(points):
            continue
        matrix, codes = vectors.take(name, points), np.asarray(model.codes_[name])[np.searchsorted(rows, points)]
        indicator = None
        if encoder.label_model is not None and name != LABEL_WORDS:
            indicator, _ = encoder.label_rows([known[point] for point in points.tolist()])
        values, probabilities = model._leave_one_out(name, matrix, codes, indicator)
        if values is not None:
            leave_one_out[name] = values
        if encoder.label_model is not None and probabilities is not None:
            if name in predicted:
                of_first = predicted[name].probabilities[points]
                probabilities = encoder.label_model.functions[name].mixed(probabilities, of_first)
            suggested[name] = encoder.label_model.encode_suggested(name, probabilities)
            some = np.flatnonzero(labelled[points])
            some = some[:: len(some) // _MAX_LEFT_OUT + 1]
            queries[name] = points[some], probabilities[some]
    learned = {name: mask & labelled for name, mask in used.items()}
    return Training(vectors, rows, learned, used, int(incomplete.sum()), leave_one_out, suggested, queries)


def _fit(
    encoder: Encoder,
    featurizers: dict[str, Featurizer],
    vectors: ItemVectors,
    labels: Sequence[Sequence[str]],
    labelled: Mask,
    model: CrossModalHasher,
    predicted: Mapping[str, FirstLabels] = MappingProxyType({}),
) -> Integers:
    """Fit a model to the items that it can learn from, and set the attributes of the encoder; return these items.

    predicted: Labels of all items that a first model predicted.
    """
    present = {name: vectors.present(name) for name in featurizers}
    used = _trainable(model, present, labelled)
    _check_enough(model, used & labelled, present, vectors.problems)
    rows = np.flatnonzero(used)
    missing: dict[str, Any] = {}
    if not all(mask[rows].all() for mask in present.values()):
        missing["present"] = {name: mask[rows] for name, mask in present.items()}
    if not labelled[rows].all():
        missing["labelled"] = labelled[rows]
    matrices = {name: vectors.take_padded(name, rows) for name in featurizers}
    if predicted:
        parts = {name: each._replace(probabilities=each.probabilities[rows]) for name, each in predicted.items()}
        model._first = parts  # type: ignore[attr-defined]
    model.fit(matrices, [labels[row] for row in rows.tolist()] if model.info.supervised else None, **missing)
    if predicted:
        model._first = None  # type: ignore[attr-defined]
    encoder.featurizers_, encoder.model_, encoder.calibration_, encoder._names = featurizers, model, None, {}
    return rows


def _is_learnable(labelled: Mask, present: Mapping[str, Mask]) -> bool:
    """Return whether enough items have labels to guess others, beside words, and some of them each modality."""
    return bool(labelled.sum() >= _MIN_GIVEN and all((labelled & mask).any() for mask in present.values()))


def _guess(encoder: Encoder, vectors: ItemVectors, labelled: Mask, least: int) -> dict[int, list[str]]:
    """Return guessed labels of the items that have none, but two or more modalities to guess from."""
    model, names = encoder.model_._label_predictor(), encoder.searchable_modalities()
    trains_itself = int(getattr(encoder.model_, "self_training", 0)) > 0
    if model is None or model.names is None or trains_itself or labelled.sum() < least or labelled.mean() > _MAX_SHARE:
        return {}
    if len(names) < 2 or max(model.fusion(names).weights) <= 0:  # labels of left-out items were not predicted at all
        return {}
    present = np.stack([vectors.present(name) for name in names])
    rows = np.flatnonzero(~labelled & (present.sum(axis=0) == len(names)))
    rows = np.sort(np.random.default_rng(0).permutation(rows)[:_MAX_GUESSED])
    guessed = {}
    for start in range(0, len(rows), _BATCH):
        some = rows[start : start + _BATCH]
        with Workers(encoder.model_.n_jobs) as workers:
            parts = {name: model.functions[name].project(vectors.take(name, some), name, workers) for name in names}
        found = model.fuse(parts)
        for row, mask in zip(some.tolist(), found >= _GUESSED, strict=True):
            guessed[row] = [str(model.names[label]) for label in np.flatnonzero(mask)]
    return guessed


def _first_labels(
    encoder: Encoder, vectors: ItemVectors, labels: Sequence[Sequence[str]], taught: Integers, others: Sequence[int]
) -> dict[str, FirstLabels]:
    """Return the labels of items that a fitted model predicts from the modality that predicts them best.

    taught, others: The items that it learned from, whose labels are predicted without them, and further ones.
    """
    hasher: Any = encoder.model_
    model = hasher._label_predictor()
    names = encoder.searchable_modalities()
    name = max(zip(model.fusion(names).weights, names, strict=True))[1]
    has, found = vectors.present(name), np.zeros((vectors.n_items, len(model.names)), np.float32)
    known, new = taught[has[taught]], np.array([row for row in others if has[row]], np.int64)
    with Workers(hasher.n_jobs) as workers:
        found[new] = model.functions[name].project(vectors.take(name, new), name, workers)
    column = {label: number for number, label in enumerate(model.names)}
    truth = np.zeros((len(known), len(column)), np.float32)
    for place, row in enumerate(known.tolist()):
        truth[place, [column[label] for label in labels[row]]] = 1
    codes = np.asarray(hasher.codes_[name])[np.searchsorted(taught, known)]
    _, left_out = hasher._leave_one_out(name, vectors.take(name, known), codes, truth)
    if left_out is None:
        return {}
    found[known] = left_out
    return {name: FirstLabels(model.functions[name], model.names, found)}


def refit(
    encoder: Encoder,
    vectors: ItemVectors,
    labels: Sequence[Sequence[str]],
    given: Sequence[Sequence[str]] | None = None,
) -> tuple[Encoder, Training]:
    """Return an encoder with the same features, fitted to the vectors and labels of items, and its training.

    The model of an unsupervised encoder becomes `DLFH`. Codes of known label sets stay. Learners that were chosen on
    held-out items are chosen again only if the number of training items has doubled since.
    """
    old = encoder.model_
    chosen: dict[str, Any] = dict(getattr(old, "chosen_", {}))
    model = unfitted(old) if old.info.supervised else DLFH(old.n_bits, random_state=old.random_state)
    if chosen and len(old.codes_[old.modalities_[0]]) * 2 > sum(map(bool, labels)):
        model.hash_function = chosen
    model._known_codes = getattr(old, "label_codes_", None)
    featurizers = dict(encoder.featurizers_)
    if LABEL_WORDS in featurizers or len(featurizers) < model.info.n_modalities[0]:
        featurizers[LABEL_WORDS] = BagOfWords().fit([", ".join(given) for given in labels if given])
        add_label_words(featurizers[LABEL_WORDS], vectors, labels)
    new = Encoder(featurizers, model)
    new.word_labels_ = encoder.word_labels_
    training = fit_vectors(new, featurizers, vectors, labels, model, given)
    fitted: Any = new.model_
    if chosen and not fitted.chosen_:
        fitted.hash_function, fitted.chosen_ = old.hash_function, chosen  # type: ignore[attr-defined]
    new.calibration_ = encoder.calibration_
    return new, training


def add_label_words(featurizer: Featurizer, vectors: ItemVectors, labels: Sequence[Sequence[str]]) -> None:
    """Add the labels of items to their vectors, as the modality of label words."""
    vectors.positions[LABEL_WORDS] = np.flatnonzero([bool(given) for given in labels])
    vectors.matrices[LABEL_WORDS] = featurizer.transform([", ".join(given) for given in labels if given])


def _trainable(model: CrossModalHasher, present: Mapping[str, Mask], labelled: Mask) -> Mask:
    masks = list(present.values())
    if not model.info.takes_incomplete:
        return np.logical_and.reduce([labelled, *masks])
    # A code shared by all modalities of a point requires all of them.
    usable = np.logical_and.reduce(masks) if getattr(model, "shared_code", False) else np.any(masks, axis=0)
    # Without self-training, an unlabelled point affects only its own code, and it will get a hashed one.
    return usable if getattr(model, "self_training", 0) else usable & labelled


def _check_enough(
    model: CrossModalHasher, taught: Mask, present: Mapping[str, Mask], problems: Sequence[Problem]
) -> None:
    """Raise InputError if there are fewer than two items to learn from, or none in some modality."""
    if taught.sum() >= 2:
        for name, mask in present.items():
            if not (taught & mask).any():
                raise InputError(f"nothing to learn from: no labelled item has the modality {name!r}")
        return
    any_modality = model.info.takes_incomplete and not getattr(model, "shared_code", False)
    needs = (" or " if any_modality else " and ").join(present)
    needs += " and labels" if model.info.supervised else ""
    number = "only one item has" if taught.any() else "no item has"
    example = f" ({problems[0]})" if problems else ""
    raise InputError(f"nothing to learn from: {number} {needs}{example}")
