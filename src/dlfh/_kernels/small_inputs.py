"""NumPy versions of kernels, which run on small inputs because loading Numba takes half a second.

Both versions have the same arguments and give the same results. The choice depends on the arguments only, so a command
that answers one query never loads Numba.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any

import numpy as np

NUMPY_LIMIT = 100_000  # largest cost for which NumPy is used, in units of about ten nanoseconds: at most a millisecond


class SizeDispatch:
    """A kernel that runs its NumPy version on inputs of small ``cost``, and the compiled one on large ones."""

    def __init__(self, in_numpy: Callable[..., Any], module: str, cost: Callable[..., int]) -> None:
        self.in_numpy, self._module, self._cost = in_numpy, module, cost

    def __call__(self, *arguments: Any) -> Any:
        if self._cost(*arguments) > NUMPY_LIMIT:
            return self._compiled(*arguments)
        with np.errstate(all="ignore"):  # like compiled code; callers check their results
            return self.in_numpy(*arguments)

    @cached_property
    def _compiled(self) -> Callable[..., Any]:
        return getattr(import_module(f"dlfh._kernels.{self._module}"), self.in_numpy.__name__)


def _for_small_inputs(module: str, cost: Callable[..., int]) -> Callable[[Callable[..., Any]], SizeDispatch]:
    return lambda function: SizeDispatch(function, module, cost)


@_for_small_inputs("linear", lambda rows, *_: 2000 + rows.size // 4)
def finish_products(rows, weights, offset, bit_terms, rounding, products, codes, start, stop):
    values = products[start:stop] + bit_terms[0]
    scale = rounding * np.sqrt(np.square(rows[start:stop]).sum(axis=1, keepdims=True))
    for i, k in zip(*(np.abs(values) <= scale * bit_terms[1] + bit_terms[2]).nonzero(), strict=True):
        values[i, k] = _sum_in_order(rows[start + i].astype(np.float64) * weights[:, k]) + offset[k]
    products[start:stop] = values
    codes[start:stop] = np.packbits(values > 0, axis=1)
    return bool(np.isfinite(values.astype(np.float32)).all())


@_for_small_inputs(
    "linear",
    lambda starts, _, values, weights, *__: 2500 * len(starts) + int(starts[-1] - starts[0]) * weights.shape[1] // 8,
)
def sparse_products(starts, columns, values, weights, offset, bit_terms, products, codes, start, stop):
    finite = True
    products = products if len(products) else np.empty((len(codes), len(offset)), np.float32)
    for i in range(start, stop):
        row = slice(starts[i], starts[i + 1])
        x, w = values[row].astype(np.float32), weights[columns[row]]
        terms = np.empty((len(x) + 1, len(offset)), np.float32)
        terms[0] = bit_terms[0]
        np.multiply(x[:, None], w, out=terms[1:])
        sums = _sum_in_order(terms)
        scale = np.float32(len(x) + 8) * np.float32(1.2e-7) * np.sqrt(_sum_in_order(x * x))
        products[i] = sums
        for k in np.flatnonzero(np.abs(sums) <= scale * bit_terms[1] + bit_terms[2]):
            products[i, k] = _sum_in_order(values[row].astype(np.float64) * w[:, k]) + offset[k]
        finite &= bool(np.isfinite(sums).all())
    codes[start:stop] = np.packbits(products[start:stop] > 0, axis=1)
    return finite


#: BLAS is faster if groups have many labels.
@_for_small_inputs(
    "linear", lambda _, starts, centroids, codes: 0 if len(centroids) > 8 * len(starts) else len(codes) * centroids.size
)
def nearest_centroids(roots, starts, centroids, codes):
    for group, (start, stop) in enumerate(itertools.pairwise(starts.tolist())):
        members = centroids[start:stop]
        products = roots[:, start:stop] @ (-2 * members)
        products += (members**2).sum(axis=0)
        codes[:, group] = np.argmin(products, axis=1)


def _sum_in_order(values):
    """Return the sum over the first axis, adding the terms in order."""
    if values.ndim == 2 and values.shape[1] > 1:
        return np.add.reduce(values, axis=0)  # in order: NumPy sums only the last axis pairwise
    return np.add.accumulate(values, axis=0)[-1] if len(values) else values.dtype.type(0)


@_for_small_inputs("ranking", lambda a_words, b_words, _: 2 * len(a_words) * b_words.size)
def hamming_block(a_words, b_words, distances):
    distances[:] = np.bitwise_count(a_words[:, :, None] ^ b_words).sum(axis=1)


@_for_small_inputs(
    "search", lambda _, weights, low, high, steps, items, start, stop, *__: 4 * weights.size * (stop - start)
)
def nearest_by_weight(query_words, weights, low, high, steps, item_words, start, stop, distances, positions):
    for i, query in enumerate(query_words):
        _fill_nearest(_weighted_distances(query, weights[i], item_words[start:stop]), start, distances[i], positions[i])


@_for_small_inputs(
    "search", lambda tables, _, start, stop, *__: len(tables) * (2000 + tables.shape[1] * (stop - start) // 4)
)
def nearest_by_table(tables, blocks, start, stop, distances, positions):
    codes_by_byte = blocks.transpose(1, 0, 2).reshape(blocks.shape[1], -1)[:, start:stop]
    for i, of_query in enumerate(tables):
        total = np.zeros(stop - start, np.int64)
        for table, codes in zip(of_query, codes_by_byte, strict=True):
            total += table[codes]
        _fill_nearest(total, start, distances[i], positions[i])


def _fill_nearest(found, start, distances, positions):
    order = np.argsort(found, kind="stable")[: len(distances)]
    distances[:], positions[:] = found[order], start + order


@_for_small_inputs("search", lambda _, weights, items, candidates, *__: 4 * candidates.size * weights.shape[1])
def weigh_candidates(query_words, weights, item_words, candidates, distances, start, stop):
    for i in range(start, stop):
        distances[i] = _weighted_distances(query_words[i], weights[i], item_words[candidates[i]])


def _weighted_distances(query, weights, item_words):
    differing = np.ascontiguousarray(query ^ item_words).view(np.uint8)
    return np.unpackbits(differing, axis=1, count=len(weights)) @ weights


#: The first search in a process compares all items in less time than loading Numba takes.
@_for_small_inputs(
    "search",
    lambda tables, _, rows, __: sys.maxsize if "numba" in sys.modules else len(tables) * (150 + 4 * len(rows)) // 512,
)
def sum_tables(tables, codes, rows, distances):
    distances[:] = 0
    for table, of_byte in zip(tables, codes[rows].T, strict=True):
        distances += table[of_byte]


@_for_small_inputs("search", lambda _, item_words, __: 2 * item_words.size)
def within_radius(query_words, item_words, radius):
    distances = np.bitwise_count(query_words ^ item_words).sum(axis=1, dtype=np.int32)
    positions = np.flatnonzero(distances <= radius)
    return positions, distances[positions]


@_for_small_inputs("strings", lambda _, blob, hashes: 100 * len(hashes) + 20 * blob.size)
def hash_strings(offsets, blob, hashes):
    for i in range(len(hashes)):
        value = 14695981039346656037
        for byte in blob[offsets[i] : offsets[i + 1]].tobytes():
            value = (value ^ byte) * 1099511628211 & 0xFFFFFFFFFFFFFFFF
        hashes[i] = value


@_for_small_inputs("strings", lambda *arguments: 500 * len(arguments[4]))
def find_strings(sorted_hashes, row_of_hash, offsets, blob, key_hashes, key_offsets, key_blob, found, start, stop):
    for i in range(start, stop):
        key = key_blob[key_offsets[i] : key_offsets[i + 1]].tobytes()
        place, found[i] = sorted_hashes.searchsorted(key_hashes[i]), -1
        while place < len(sorted_hashes) and sorted_hashes[place] == key_hashes[i]:
            row = int(row_of_hash[place])
            if blob[offsets[row] : offsets[row + 1]].tobytes() == key:
                found[i] = row
                break
            place += 1
