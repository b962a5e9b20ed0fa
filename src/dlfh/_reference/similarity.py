"""Pairwise updates of SePH, MLBE and DOCH."""

from __future__ import annotations

import numpy as np

from dlfh._kernels.fixed_point import ONE
from dlfh._reference.matrices import members


def pull_and_push(
    products, squared_norms, row_sets, row_weights, label_lists, inverted_lists, unit, first_row, outputs, start, stop
):
    pull, push = outputs
    rows = np.arange(first_row + start, first_row + stop)
    labels = members(*inverted_lists, len(label_lists[0]) - 1).T.astype(np.float64)
    labels /= np.sqrt(np.maximum(labels.sum(axis=1), 1))[:, None]
    p = unit * (labels @ labels.T)[row_sets[rows]][:, row_sets]
    distances = squared_norms[rows, None] + squared_norms - 2 * products[start:stop].astype(np.float64)
    distances = np.maximum(distances, 0)
    distances[np.arange(len(rows)), rows] = 0
    near = 1 / (1 + distances / 4)
    others = np.broadcast_to(row_weights, near.shape).astype(np.float64)
    pull[start:stop], push[start:stop] = others * p * near, others * near**2
    pull[np.arange(start, stop), rows] = push[np.arange(start, stop), rows] = 0
    others[np.arange(len(rows)), rows] -= 1
    pairs = row_weights[rows, None] * others
    return float(np.sum(pairs * near)), float(np.sum(pairs * p * np.log(near)))


def update_latent_bits(
    S, codes, weights, embedded, gram, other_by_bit, row_sets, label_lists, inverted_lists, set_sums, parameters
):
    """Set each bit to the value with the larger log-posterior."""
    precision, link, _, log_prior = parameters
    labels = members(*inverted_lists, len(label_lists[0]) - 1).T
    similar = ((labels @ labels.T) > 0)[row_sets][:, row_sets]
    V = other_by_bit.T.astype(np.float64)

    def log_posterior(i, u):
        others = np.arange(len(codes)) != i
        errors = S[i] - embedded @ u
        own_error = S[i, i] - u @ weights @ u
        intra = -precision / 2 * np.sum(errors[others] ** 2) - precision / 4 * own_error**2
        theta = link * (V @ u)
        return float(intra + np.sum(similar[i] * theta - np.logaddexp(0, theta)))

    flips = 0
    for i in range(len(codes)):
        for k in range(codes.shape[1]):
            plus, minus = codes[i].astype(np.float64), codes[i].astype(np.float64)
            plus[k], minus[k] = 1, -1
            new = 1 if log_prior + log_posterior(i, plus) - log_posterior(i, minus) > 0 else -1
            flips += int(new != codes[i, k])
            codes[i, k] = new
        embedded[i] = codes[i] @ weights
    gram[:] = embedded.T @ embedded
    return flips


def update_anchored_rows(codes, row_sets, similar, anchors_by_bit, sigmas, scale, targets, overlap, start, stop):
    """Update bit by bit for all rows at once, which is equivalent because rows do not interact."""
    n_bits, n_anchors = anchors_by_bit.shape
    B, A = codes[start:stop], anchors_by_bit.astype(np.int64)
    before = B.copy()
    for k in range(n_bits):
        residuals = similar[row_sets[start:stop]].astype(np.int64) * ONE - sigmas[B.astype(np.int64) @ A + n_bits]
        others = np.arange(n_bits) != k
        label_term = targets[start:stop, k] - B[:, others] @ overlap[others, k]
        values = scale * (residuals @ A[k] / ONE) + n_anchors * scale**2 / 4 * B[:, k] + label_term
        B[:, k] = np.where(values >= 0, 1, -1)
    return int(np.count_nonzero(before != B))
