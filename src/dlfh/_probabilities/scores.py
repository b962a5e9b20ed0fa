"""Scores of a query and an item from their label probabilities q and p.

- any: the probability that they share a label, 1 - prod_l (1 - p_l q_l).
- all: the probability that the item has every label of the query, prod_l (1 - q_l (1 - p_l)).

Where every point has exactly one label, both are sum_l p_l q_l, the probability that the labels are equal.

Both increase with a sum over labels, the score. Labels that say the same (one label under several names) would count
several times, so each has a weight. Where labels are missing from the training data, every probability is too low, and
frequent labels decide too much: the score also has a lift, lambda sum_l (q_l - pi_l) p_l, with pi the labels' shares.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Floats, Singles
from dlfh._labels import LabelSets

Match = Literal["any", "all"]

MATCHES: tuple[Match, ...] = ("any", "all")
#: Largest probability in a logarithm.
_ALMOST_ONE = 1 - 1e-6


def redundancy_weights(labels: LabelSets) -> Floats:
    """Return w_l = 1 / sum_m r_lm^2, with r the correlation of labels l and m over the points; 1 for unused labels.

    A label that occurs under k names has the weight 1 / k under each.
    """
    rows, counts = labels.rows(), labels.counts.astype(np.float64)
    n = counts.sum()
    share = np.asarray(rows.T @ counts).ravel() / n
    together = (rows.T @ rows.multiply(counts[:, None])).tocoo()
    one, other = together.coords
    variance = share * (1 - share)
    used = variance > 0
    with np.errstate(divide="ignore", invalid="ignore"):
        # Pairs that never occur together: r^2 = o_l o_m with the odds o. All pairs, then the others corrected.
        odds = np.where(used, share / (1 - share), 0.0)
        apart = odds * (odds.sum())
        covariance = together.data / n - share[one] * share[other]
        correlation = covariance**2 / (variance[one] * variance[other])
    correction = np.where(used[one] & used[other], correlation - odds[one] * odds[other], 0.0)
    total = apart + np.bincount(one, correction, len(share))
    return np.where(used, 1 / np.maximum(total, 1.0), 1.0)


def label_scores(
    queries: Singles,
    items: Singles,
    weights: Floats,
    match: Match,
    *,
    exclusive: bool,
    prior: Floats | float = 0.0,
    lift: float = 0.0,
) -> Singles:
    """Return the terms of the score, by query, item and label: shape (queries, items, labels)."""
    q, p = queries[:, None, :], items[None]
    beyond = (np.float32(lift) * (queries - np.asarray(prior, np.float32)))[:, None, :]
    if exclusive:
        return (q + beyond) * p
    weight, largest = weights.astype(np.float32), np.float32(_ALMOST_ONE)
    if match == "any":
        return weight * (beyond * p - np.log1p(-np.minimum(p * q, largest)))
    # Less the query's largest lift, so that a score remains at most 0.
    return weight * (beyond * p - np.maximum(beyond, 0) + np.log1p(-np.minimum(q * (1 - p), largest)))


def probability_of(scores: npt.NDArray[np.floating], match: Match, *, exclusive: bool) -> Floats:
    """Return the probability that a score stands for if labels are independent and the lift is 0."""
    scores = np.asarray(scores, np.float64)
    if exclusive:
        return np.clip(scores, 0.0, 1.0)
    return np.exp(np.minimum(scores, 0.0)) if match == "all" else -np.expm1(-np.maximum(scores, 0.0))
