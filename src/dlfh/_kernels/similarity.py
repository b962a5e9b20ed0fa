"""Pairwise updates of SePH, MLBE and DOCH."""

from __future__ import annotations

import math

import numpy as np

from dlfh._compile import Kernel
from dlfh._kernels import ONE
from dlfh._kernels.inline import count_shared


@Kernel
def pull_and_push(
    products, squared_norms, row_sets, row_weights, label_lists, inverted_lists, unit, first_row, outputs, start, stop
):
    """Fill rows of SePH's attraction p num and repulsion num^2, for the block of rows that starts at ``first_row``.

    num_ij = 1 / (1 + |h_i - h_j|^2 / 4), from the block's ``products`` h_i'h_j; p_ij is ``unit`` times the cosine of
    the label sets. Columns are weighted. ``outputs`` are the matrices of attraction and repulsion. Returns the sums of
    num and of p log num over pairs of points; a row that represents several points is also paired with itself.
    """
    set_starts, _ = label_lists
    pull, push = outputs
    n_sets = set_starts.size - 1
    shared = np.zeros(n_sets, np.int32)
    roots = np.empty(n_sets, np.float32)
    cosines = np.zeros(n_sets, np.float32)
    for g in range(n_sets):
        roots[g] = 1 / math.sqrt(max(set_starts[g + 1] - set_starts[g], 1))
    total, log_total = 0.0, 0.0
    for block_row in range(start, stop):
        i = first_row + block_row
        count_shared(label_lists, row_sets[i], inverted_lists, shared)
        for g in range(n_sets):
            cosines[g] = shared[g] * roots[row_sets[i]] * roots[g]
        row_total, row_log = 0.0, 0.0
        for j in range(row_sets.size):
            distance = squared_norms[i] + squared_norms[j] - 2 * products[block_row, j]
            if distance < 0 or i == j:
                distance = np.float32(0)
            near = 1 / (1 + np.float32(0.25) * distance)
            p = np.float32(unit) * cosines[row_sets[j]]
            weight = row_weights[j]
            pull[block_row, j] = weight * p * near
            push[block_row, j] = weight * near * near
            if i == j:
                pull[block_row, j] = 0
                push[block_row, j] = 0
                weight -= 1
            row_total += weight * near
            if p > 0 and distance > 0:
                row_log += weight * p * math.log(near)
        total += row_weights[i] * row_total
        log_total += row_weights[i] * row_log
    return total, log_total


@Kernel
def update_latent_bits(
    S, codes, weights, embedded, gram, other_by_bit, row_sets, label_lists, inverted_lists, set_sums, parameters
):
    """Update every bit of every point in turn by MLBE's rule, in place, and return the number of flips.

    ``codes`` (n, K) and ``other_by_bit`` (K, n) contain -1 and +1; ``embedded`` is codes @ weights and ``gram`` its
    Gram matrix, both updated as well. ``set_sums`` (sets, K) sums the other modality's codes by label set.
    ``parameters`` are precision, link, slopes and log-prior; ``slopes[t + K]`` is softplus(link (t + 1)) -
    softplus(link (t - 1)).
    """
    precision, link, slopes, log_prior = parameters
    n, n_bits = codes.shape
    similar = np.zeros(set_sums.shape[0], np.int32)
    attraction = np.empty(n_bits)
    linked = np.empty(n_bits)
    theta = np.empty(n, np.int32)
    flips = 0
    for i in range(n):
        attraction[:] = 0
        for j in range(n):
            s = S[i, j]
            for k in range(n_bits):
                attraction[k] += s * embedded[j, k]
        self_similarity = 0.0  # u'W u
        for k in range(n_bits):
            attraction[k] -= S[i, i] * embedded[i, k]
            self_similarity += embedded[i, k] * codes[i, k]
            for b in range(n_bits):
                gram[k, b] -= embedded[i, k] * embedded[i, b]
        linked[:] = 0
        count_shared(label_lists, row_sets[i], inverted_lists, similar)
        for g in range(similar.size):
            if similar[g] > 0:
                for k in range(n_bits):
                    linked[k] += set_sums[g, k]
        theta[:] = 0
        for k in range(n_bits):
            u = codes[i, k]
            for j in range(n):
                theta[j] += u * other_by_bit[k, j]
        for k in range(n_bits):
            u = codes[i, k]
            own_weight = 0.0
            explained = 0.0
            for b in range(n_bits):
                if b != k:
                    own_weight += weights[k, b] * codes[i, b]
                    explained += gram[k, b] * codes[i, b]
            rest = self_similarity - 2 * u * own_weight
            log_odds = log_prior + 2 * precision * (attraction[k] - explained + own_weight * (S[i, i] - rest))
            bits = other_by_bit[k]
            pushed = 0.0
            for j in range(n):
                pushed += bits[j] * slopes[theta[j] - u * bits[j] + n_bits]
            log_odds += 2 * link * linked[k] - pushed
            new = 1 if log_odds > 0 else -1
            if new != u:
                flips += 1
                codes[i, k] = new
                self_similarity = rest + 2 * new * own_weight
                for j in range(n):
                    theta[j] += 2 * new * bits[j]
        for k in range(n_bits):
            embedded[i, k] = 0
            for b in range(n_bits):
                embedded[i, k] += codes[i, b] * weights[b, k]
        for k in range(n_bits):
            for b in range(n_bits):
                gram[k, b] += embedded[i, k] * embedded[i, b]
    return flips


@Kernel
def update_anchored_rows(codes, row_sets, similar, anchors_by_bit, sigmas, scale, targets, overlap, start, stop):
    """Update every bit of rows ``start:stop`` in turn by DOCH's rule, in place, and return the number of flips.

    ``codes`` (rows, c) and ``anchors_by_bit`` (c, m) contain -1 and +1; ``similar`` (sets, m) is S; ``sigmas[t + c]``
    is sigma(scale t) in fixed point. ``targets`` (rows, c) and ``overlap`` (c, c) are the label terms 2 theta L P' and
    2 theta P P'. With the anchors' codes fixed, rows do not interact.
    """
    n_bits, n_anchors = anchors_by_bit.shape
    inner = np.empty(n_anchors, np.int32)
    residuals = np.empty(n_anchors, np.int32)
    curvature = n_anchors * scale * scale / 4
    flips = 0
    for i in range(start, stop):
        similarities = similar[row_sets[i]]
        inner[:] = n_bits
        for k in range(n_bits):
            for q in range(n_anchors):
                inner[q] += codes[i, k] * anchors_by_bit[k, q]
        for q in range(n_anchors):
            residuals[q] = similarities[q] * ONE - sigmas[inner[q]]
        for k in range(n_bits):
            gradient = np.int64(0)
            for q in range(n_anchors):
                gradient += np.int64(residuals[q]) * np.int64(anchors_by_bit[k, q])
            label_term = targets[i, k]
            for b in range(n_bits):
                if b != k:
                    label_term -= codes[i, b] * overlap[b, k]
            bit = codes[i, k]
            new = 1 if scale * (gradient / ONE) + curvature * bit + label_term >= 0 else -1
            if new != bit:
                flips += 1
                codes[i, k] = new
                for q in range(n_anchors):
                    inner[q] += 2 * new * anchors_by_bit[k, q]
                    residuals[q] = similarities[q] * ONE - sigmas[inner[q]]
    return flips
