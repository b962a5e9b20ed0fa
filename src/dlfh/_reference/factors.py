"""Updates of the discrete latent factor model, and its likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._reference.matrices import bits, label_matrix, members

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class _Step:
    """When a bit is flipped: the tables of `dlfh._factorization.likelihood`."""

    residual_table: Array
    curvature_table: Array
    kind_weights: Array
    unit_threshold: float
    is_exact: bool

    def flips(self, S: Array, distances: Array, weights: Array, v: Array, u: Array) -> Array:
        """Return which rows flip their bits u: S and distances are (rows, columns), weights and bits v by column."""
        kind = S.astype(np.int64)
        residuals = self.residual_table.reshape(2, -1)[kind, distances].astype(np.int64)
        gradient = (weights * residuals) @ v
        if self.is_exact:
            threshold = self.curvature_table.reshape(2, -1)[kind, distances].astype(np.int64) @ weights
            return -threshold - u * gradient > 0
        n_similar, total = kind @ weights, int(weights.sum())
        bound = (total - n_similar) * self.kind_weights[0] + n_similar * self.kind_weights[1]
        threshold = np.ceil(bound * self.unit_threshold).astype(np.int64) + (total + 1) // 2
        return np.where(gradient + threshold * u >= 0, 1, -1) != u


def update_rows(
    row_bytes: Array,
    row_words: Array,
    row_sets: Array,
    set_starts: Array,
    set_labels: Array,
    column_words: Array,
    column_masks: Array,
    column_weights: Array,
    list_starts: Array,
    list_members: Array,
    residual_table: Array,
    curvature_table: Array,
    kind_weights: Array,
    unit_threshold: float,
    is_exact: bool,
    first_bit: int,
    last_bit: int,
    start: int,
    stop: int,
) -> int:
    """Update column after column for all rows at once, as the paper writes it."""
    n_bits = column_masks.shape[0]
    U = 2 * bits(row_words[start:stop], n_bits).astype(np.int64) - 1
    V = 2 * column_masks.T.astype(np.int64) + 1
    S = (
        label_matrix(set_starts, set_labels, len(list_starts) - 1)[row_sets[start:stop]]
        @ members(list_starts, list_members, len(column_weights))
    ) > 0
    step = _Step(residual_table, curvature_table, kind_weights, unit_threshold, is_exact)
    flips = 0
    for k in range(first_bit, last_bit):
        flip = step.flips(S, (n_bits - U @ V.T) // 2, column_weights.astype(np.int64), V[:, k], U[:, k])
        flips += int(flip.sum())
        U[flip, k] *= -1
    padded = np.packbits(U > 0, axis=1)
    row_bytes[start:stop, : padded.shape[1]] = padded
    return flips


def update_shared_rows(
    row_bytes: Array,
    row_words: Array,
    row_sets: Array,
    row_weights: Array,
    set_starts: Array,
    set_labels: Array,
    words: Array,
    masks: Array,
    list_starts: Array,
    list_members: Array,
    residual_table: Array,
    curvature_table: Array,
    kind_weights: Array,
    unit_threshold: float,
    is_exact: bool,
    first_bit: int,
    last_bit: int,
) -> int:
    n_bits, n_rows = masks.shape
    U = 2 * bits(row_words, n_bits).astype(np.int64) - 1
    L = label_matrix(set_starts, set_labels, len(list_starts) - 1)[row_sets]
    S = L @ L.T > 0
    step = _Step(residual_table, curvature_table, kind_weights, unit_threshold, is_exact)
    flips = 0
    for i in range(n_rows):
        others = np.arange(n_rows) != i
        for k in range(first_bit, last_bit):
            distances = (n_bits - U[others] @ U[i]) // 2
            (flip,) = step.flips(
                S[i : i + 1, others], distances[None], row_weights[others], U[others, k], U[i, k : k + 1]
            )
            flips += int(flip)
            U[i, k] *= -1 if flip else 1
    packed = np.packbits(U > 0, axis=1)
    row_bytes[:, : packed.shape[1]] = packed
    words[:] = row_words.T
    masks[:] = (U.T - 1) // 2
    return flips


def count_pairs(
    row_words: Array,
    row_sets: Array,
    row_weights: Array,
    set_starts: Array,
    set_labels: Array,
    column_words: Array,
    column_weights: Array,
    list_starts: Array,
    list_members: Array,
    n_bits: int,
    start: int,
    stop: int,
) -> Array:
    S = (
        label_matrix(set_starts, set_labels, len(list_starts) - 1)[row_sets[start:stop]]
        @ members(list_starts, list_members, len(column_weights))
    ) > 0
    distances = np.bitwise_count(row_words[start:stop, :, None] ^ column_words).sum(axis=1, dtype=np.int64)
    weights = np.outer(row_weights[start:stop], column_weights)
    counts = np.zeros((2, n_bits + 1), np.int64)
    np.add.at(counts, (S.astype(np.int64), distances), weights)
    return counts


def update_observed_rows(
    row_bytes: Array,
    row_words: Array,
    starts: Array,
    columns: Array,
    similar: Array,
    weights: Array,
    column_bytes: Array,
    column_words: Array,
    residual_table: Array,
    curvature_table: Array,
    kind_weights: Array,
    unit_threshold: float,
    is_exact: bool,
    first_bit: int,
    last_bit: int,
    start: int,
    stop: int,
) -> int:
    """Update column after column of the codes, each row against its own columns."""
    n_bits = 8 * column_bytes.shape[1]
    V = 2 * bits(column_words, n_bits).astype(np.int64) - 1
    step = _Step(residual_table, curvature_table, kind_weights, unit_threshold, is_exact)
    flips = 0
    for i in range(start, stop):
        own = slice(starts[i], starts[i + 1])
        seen, weight = V[columns[own]], weights[columns[own]].astype(np.int64)
        if weight.sum() == 0:
            continue
        for k in range(first_bit, last_bit):
            u = 2 * np.unpackbits(row_bytes[i]).astype(np.int64) - 1
            distances = np.sum(u != seen, axis=1)
            (flip,) = step.flips(similar[None, own] > 0, distances[None], weight, seen[:, k], u[k : k + 1])
            flips += int(flip)
            row_bytes[i, k >> 3] ^= np.uint8(int(flip) << (7 - (k & 7)))
    return flips


def count_observed_pairs(
    row_words: Array,
    starts: Array,
    columns: Array,
    similar: Array,
    column_words: Array,
    n_bits: int,
    start: int,
    stop: int,
) -> Array:
    counts = np.zeros((2, n_bits + 1), np.int64)
    rows = np.repeat(np.arange(start, stop), np.diff(starts[start : stop + 1]))
    own = slice(starts[start], starts[stop])
    differing = bits(row_words[rows], n_bits) != bits(column_words[columns[own]], n_bits)
    np.add.at(counts, (similar[own], differing.sum(axis=1)), 1)
    return counts
