"""What answers are made of by default: whose codes, whether words, and what words are worth beside them.

All of it is chosen by held-out items. Those that share a label are asked for by MAP, and an item by half of its own
words, as if nobody had labelled it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dlfh.collection.calibration.model import LEAST_WORDS, Fit, Pairs, Pattern

__all__ = ["choose", "fit_all", "least_words", "reciprocal_rank", "scores_of"]

Floats = npt.NDArray[np.float64]
Rows = npt.NDArray[np.int64]

#: Words are searched by default unless they cost more than so much MAP: they find what no label says.
_PRICE_OF_WORDS = 0.01
#: What words are tried to be worth at least, in log-odds of a question that is answered whole; how much MAP that may
#: cost; and by how much one item must be found better for more, in reciprocal ranks.
_LEAST_WORDS_TRIED, _PRICE_OF_MORE, _LEVEL = (4.0, 8.0, 12.0), 0.005, 0.005


def choose(
    fits: dict[Pattern, Fit],
    pairs: dict[str, Pairs],
    modalities: tuple[str, ...],
    query: str,
    texts: Sequence[str],
) -> tuple[tuple[str, ...], bool, float]:
    """Return what answers best: which modalities' codes, whether with words, and the best MAP that there is."""

    def merit(modalities: tuple[str, ...], words: bool) -> float:
        return _merit(fits, pairs, modalities, words)

    choices = [*((name,) for name in modalities if name != query), modalities]
    codes = {modalities: merit(modalities, False) for modalities in choices}
    with_words = {modalities: merit(modalities, True) for modalities in choices if {*modalities} & {*texts}}
    best = max(codes, key=lambda modalities: codes[modalities])
    heard = max(with_words, key=lambda modalities: with_words[modalities], default=best)
    most = max([*codes.values(), *with_words.values()])
    if with_words and with_words[heard] >= codes[best] - _PRICE_OF_WORDS:
        return heard, True, most
    return best, False, most


def _merit(fits: dict[Pattern, Fit], pairs: dict[str, Pairs], modalities: tuple[str, ...], words: bool) -> float:
    """Return the MAP of both kinds of codes."""
    return float(np.mean([_map(fits, own, Pattern(kind, modalities, words)) for kind, own in pairs.items()]))


def least_words(
    pairs: dict[str, Pairs],
    some: dict[str, Rows],
    searched: dict[str, Pairs],
    modalities: tuple[str, ...],
    best_map: float,
) -> float:
    """Return what words are worth at least, so that one item is found by some of its words, labelled or not.

    To share a label is likely for many items, and where it is next to certain codes go on to tell them apart by what
    says nothing of which one is meant. Words do. So they get more weight as long as MAP of shared labels stays.
    """
    wanted = [Pattern(kind, modalities, True) for kind in pairs]
    best, found = LEAST_WORDS, reciprocal_rank(fit_all(pairs, some, wanted), searched)
    for least in _LEAST_WORDS_TRIED:
        fits = fit_all(pairs, some, wanted, least)
        merit = reciprocal_rank(fits, searched)
        if merit > found + _LEVEL and _merit(fits, pairs, modalities, True) >= best_map - _PRICE_OF_MORE:
            best, found = least, merit
    return best


def reciprocal_rank(fits: dict[Pattern, Fit], searched: dict[str, Pairs]) -> float:
    """Return the mean reciprocal rank of the items that are looked for; equals are ahead of them half of the time."""
    scores = np.hstack([scores_of(fits[own], searched[own.codes].features(own)) for own in fits])
    right = np.hstack([searched[own.codes].right for own in fits])
    mine = scores[right][:, None]
    ranks = 1 + (scores > mine).sum(axis=1) + ((scores == mine).sum(axis=1) - 1) / 2
    return float((1 / ranks).mean())


def _map(fits: dict[Pattern, Fit], pairs: Pairs, pattern: Pattern) -> float:
    """Return mean average precision of queries that have a right answer."""
    scores = scores_of(fits[pattern], pairs.features(pattern))
    scores[~pairs.counted] = -np.inf
    order = np.argsort(-scores, axis=1, kind="stable")
    right = np.take_along_axis(pairs.right & pairs.counted, order, axis=1)
    precision = np.cumsum(right, axis=1) / np.arange(1, right.shape[1] + 1)
    n_right = right.sum(axis=1)
    return float(((precision * right).sum(axis=1)[n_right > 0] / n_right[n_right > 0]).mean()) if n_right.any() else 0.0


def scores_of(fit: Fit, features: Sequence[Floats]) -> Floats:
    """Return the log-odds of pairs, by what they have."""
    return sum((weight * values for weight, values in zip(fit.weights, features, strict=True)), np.array(fit.bias))


def fit_all(
    pairs: dict[str, Pairs], some: dict[str, Rows], wanted: Sequence[Pattern], least_words: float = LEAST_WORDS
) -> dict[Pattern, Fit]:
    """Fit patterns that items can have, on one scale: the share of right answers is that of the database."""
    share = pairs["learned" if "learned" in pairs else "hashed"].share()
    fits = {}
    for kind, own in pairs.items():
        shift = _log_odds(share) - _log_odds(own.share())
        for pattern in wanted:
            if pattern.codes == kind:
                fit = own.fit(pattern, some[kind], least_words)
                fits[pattern] = Fit(fit.weights, fit.bias + shift)
    return fits


def _log_odds(share: float) -> float:
    return float(np.log(share / (1 - share)))
