"""Pairwise sums of methods that compare every point with every other: SePH and MLBE."""

from __future__ import annotations

import math

import numpy as np

from dlfh._compile import Kernel
from dlfh._kernels.inline import count_shared


@Kernel
def pull_and_push(
    products,
    squared_norms,
    row_sets,
    row_weights,
    set_starts,
    set_labels,
    list_starts,
    list_members,
    unit,
    first_row,
    pull,
    push,
    start,
    stop,
):
    """Fill rows of SePH's attraction p num and repulsion num^2, for the block of rows after ``first_row``.

    num_ij = 1 / (1 + |h_i - h_j|^2 / 4), from the block's ``products`` h_i'h_j; p_ij = ``unit`` times the
    cosine of the label sets. Columns are weighted. Returns sums over the pairs of points of num and of
    p log num; a row that stands for several points is paired with itself, too.
    """
    n_sets = set_starts.size - 1
    shared = np.zeros(n_sets, np.int32)
    roots = np.empty(n_sets, np.float32)
    cosines = np.zeros(n_sets, np.float32)
    for g in range(n_sets):
        roots[g] = 1 / math.sqrt(max(set_starts[g + 1] - set_starts[g], 1))
    total, log_total = 0.0, 0.0
    for block_row in range(start, stop):
        i = first_row + block_row
        count_shared(set_starts, set_labels, row_sets[i], list_starts, list_members, shared)
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
