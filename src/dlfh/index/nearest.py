"""Exact search among packed codes: by Hamming distance with faiss; by weights and tables with compiled kernels.

Every function returns distances and rows in order of distance, equal distances in order of row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._arrays import Array, Codes, Floats, Integers, Mask
from dlfh._parallel import Workers, resolve_n_jobs
from dlfh._validation import raise_if_masked, shown
from dlfh.codes import as_words, n_bytes
from dlfh.errors import InputError

Neighbours = tuple[Array, Integers]
Words = npt.NDArray[np.uint64]

#: Weights are rounded to multiples of 2 ** -FRACTION_BITS of the largest weight of a query.
FRACTION_BITS = 24
#: The bits of each byte, shape (8, 256).
_BITS = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).T.astype(np.int64)
#: Minimum number of codes per thread when queries are few: about a millisecond of work.
_MIN_BY_HAMMING, _MIN_BY_WEIGHT = 1 << 20, 1 << 18


def as_array(value: Any, name: str) -> Array:
    """Return an argument as an array."""
    try:
        return np.asarray(value)
    except (TypeError, ValueError, OverflowError, RecursionError):  # rows of different lengths, for example
        raise InputError(f"{name} must be an array, got {shown(value)}") from None


def check_packed(codes: Any, n_bits: int, name: str) -> Codes:
    """Return packed codes of ``n_bits`` bits as a matrix; a single code may be one-dimensional."""
    packed = as_array(codes, name)
    if packed.ndim == 1 and packed.dtype == np.uint8:
        packed = packed[None]
    width = n_bytes(n_bits)
    if packed.ndim != 2 or packed.dtype != np.uint8 or packed.shape[1] != width:
        raise InputError(
            f"{name} must be packed codes of {n_bits} bits (uint8, {width} bytes each), "
            f"got type {packed.dtype} and shape {packed.shape}"
        )
    unused = (1 << -n_bits % 8) - 1
    bad = np.flatnonzero(packed[:, -1] & np.uint8(unused)) if unused else np.empty(0, np.int64)
    if len(bad):
        raise InputError(f"{name} must be codes of {n_bits} bits, but row {bad[0]} has bits set beyond bit {n_bits}")
    return packed


def check_queries(queries: Any, n_bits: int) -> Array:
    """Return queries as packed codes (uint8), projections (float, two-dimensional) or score tables (float)."""
    raise_if_masked(queries, "queries")
    values = as_array(queries, "queries")
    if values.dtype.kind != "f":
        return check_packed(values, n_bits, "queries")
    values, width = values[None] if values.ndim == 1 else values, n_bytes(n_bits)
    if values.ndim == 3:
        if values.shape[1:] != (width, 256):
            raise InputError(f"queries as score tables must have the shape (n, {width}, 256), got {values.shape}")
        with np.errstate(over="ignore"):  # the check below finds the infinity
            values = values.astype(np.float32, copy=False)
    elif values.shape[1:] != (n_bits,):
        raise InputError(f"queries as projections must have {n_bits} values each, got shape {values.shape}")
    bad = np.argwhere(~np.isfinite(values))[:, 0]
    if len(bad):
        raise InputError(f"queries have NaN or infinity in row {bad[0]}")
    if values.dtype.itemsize <= 8:
        return values
    # Converted to doubles, rows of longer floats could overflow or become zero, and all items would tie.
    largest, limits = np.abs(values).max(axis=1, initial=0), np.finfo(np.float64)
    bad = np.flatnonzero((largest > limits.max) | ((largest > 0) & (largest < limits.tiny)))
    if len(bad):
        raise InputError(f"queries have values that are too large or too small in row {bad[0]}: rescale them")
    return values.astype(np.float64)


def as_codes(queries: Array) -> Codes:
    """Return checked queries as packed codes, by the signs of projections."""
    if queries.ndim == 3:
        raise InputError("this search does not support score tables: pass codes or projections")
    return queries if queries.dtype == np.uint8 else np.packbits(queries > 0, axis=1)


@dataclass(frozen=True)
class Column:
    """The codes of a modality in order, and the positions of their items (None: 0, 1, 2, ...)."""

    codes: Codes
    positions: Integers | None
    learned: Mask

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def words(self) -> Words:
        return as_words(self.codes)

    @cached_property
    def blocks(self) -> Codes:
        """The codes in blocks of 32, transposed, shape (blocks, bytes, 32); the last block is padded with zeros."""
        n, width = self.codes.shape
        blocks = np.zeros((-(-n // 32), 32, width), np.uint8)
        blocks.reshape(-1, width)[:n] = self.codes
        return np.ascontiguousarray(blocks.transpose(0, 2, 1))

    def find(self, positions: Integers) -> tuple[Integers, Integers]:
        """Return the indices of the ``positions`` that have a code, and the rows of these codes."""
        if self.positions is None:
            return np.arange(len(positions)), positions
        rows = np.minimum(np.searchsorted(self.positions, positions), max(len(self) - 1, 0))
        found = np.flatnonzero(self.positions[rows] == positions) if len(self) else np.empty(0, np.int64)
        return found, rows[found]

    def select(self, positions: Integers) -> Column:
        """Return the column of the items at distinct, increasing positions."""
        return self._take(self.find(positions)[1])

    def within(self, mask: Mask) -> Column:
        """Return the column of the items in a mask over all positions."""
        return self._take(np.flatnonzero(mask if self.positions is None else mask[self.positions]))

    def _take(self, rows: Integers) -> Column:
        return Column(self.codes[rows], self.positions_of(rows), self.learned[rows])

    def positions_of(self, rows: Integers) -> Integers:
        return rows if self.positions is None else self.positions[rows]


def import_faiss() -> Any:
    """Import faiss; raise `InputError` if it is not installed."""
    try:
        import faiss
    except ImportError:
        raise InputError("searching needs faiss: pip install faiss-cpu") from None
    return faiss


@contextmanager
def faiss_threads(n: int) -> Iterator[None]:
    """Limit faiss to ``n`` threads for calls from this thread."""
    faiss = import_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def nearest_by_hamming(queries: Codes, codes: Codes, k: int, n_jobs: int | None = None) -> Neighbours:
    """Return the Hamming distances and rows of the ``k`` nearest codes."""
    faiss = import_faiss()

    def search(q: slice, start: int, stop: int) -> Neighbours:
        with faiss_threads(1):  # OpenMP's threads do not survive a fork, so we use our own
            return faiss.knn_hamming(queries[q], codes[start:stop], min(k, stop - start))

    queries, codes = np.ascontiguousarray(queries), np.ascontiguousarray(codes)
    return _over_blocks(search, len(queries), len(codes), k, np.int32, n_jobs, _MIN_BY_HAMMING)


def integer_weights(projections: Array) -> tuple[Integers, Array]:
    """Return, for each query z, |z| as integers in units of a power of two, and the exponent of the unit."""
    magnitudes = np.abs(projections.astype(np.float64))
    largest = magnitudes.max(axis=1, initial=0.0)
    # Scaling by a power of two is exact. It is kept as an exponent, because it overflows for denormal queries.
    exponents = np.frexp(largest)[1] - FRACTION_BITS
    return np.rint(np.ldexp(magnitudes, -exponents[:, None])).astype(np.int64), exponents


def nearest_by_weight(projections: Array, words: Words, k: int, n_jobs: int | None = None) -> Neighbours:
    """Return the weighted distances and rows of the ``k`` nearest codes, given as rows of 64-bit words.

    The distance from a projection z is the sum of ``|z_j|`` over the bits j in which a code differs from the sign of z.
    """
    weights, exponents = integer_weights(projections)
    queries = (_signs(projections), weights, *_coarse(weights))
    distances, rows = _by_kernel(_kernels.nearest_by_weight, queries, words, len(words), k, n_jobs)
    return _scaled(distances, exponents), rows


def _by_kernel(
    kernel: Callable[..., None], queries: tuple[Array, ...], codes: Array, n_codes: int, k: int, n_jobs: int | None
) -> Neighbours:
    def search(q: slice, start: int, stop: int) -> Neighbours:
        shape = (q.stop - q.start, min(k, stop - start))
        distances, rows = np.empty(shape, np.int64), np.empty(shape, np.int64)
        kernel(*(part[q] for part in queries), codes, start, stop, distances, rows)
        return distances, rows - start

    return _over_blocks(search, len(queries[0]), n_codes, k, np.int64, n_jobs, _MIN_BY_WEIGHT)


class Tables(NamedTuple):
    """Distances of queries from all values of each byte (queries, bytes, 256), as integers.

    exponents: By query, the exponent of the unit, a power of two.
    nearest: By query, the smallest possible distance, which is subtracted.
    """

    integers: npt.NDArray[np.int32]
    exponents: Array
    nearest: Array | float

    @classmethod
    def of(cls, queries: Array) -> Tables:
        """Return tables of Hamming distances from codes, weighted distances from projections, or negated scores."""
        return cls(*_integer_tables(queries)) if queries.ndim == 3 else _tables_of_bits(queries)

    def scaled(self, distances: Array) -> Floats:
        """Return integer distances (queries, n) in the units of the queries."""
        return _scaled(distances, self.exponents) + self.nearest


def _tables_of_bits(queries: Array) -> Tables:
    if queries.dtype == np.uint8:
        signs, weights = queries, np.ones((len(queries), 8 * queries.shape[1]), np.int64)
        exponents = np.zeros(len(queries), np.int64)
    else:
        signs = np.packbits(queries > 0, axis=1)
        weights, exponents = integer_weights(queries)
        weights = np.pad(weights, ((0, 0), (0, -weights.shape[1] % 8)))
    # The distance of byte b from a query's byte s is the weight of the bits of b ^ s.
    of_bits = weights.reshape(len(queries), -1, 8) @ _BITS
    differs = signs[:, :, None] ^ np.arange(256, dtype=np.uint8)
    return Tables(np.take_along_axis(of_bits, differs, axis=2).astype(np.int32), exponents, 0.0)


def nearest_by_table(tables: Array, blocks: Codes, n_codes: int, k: int, n_jobs: int | None = None) -> Neighbours:
    """Return the negated scores and rows of the ``k`` codes with the largest scores.

    The score of a code is the sum of ``tables[query, b, byte b]`` over its bytes. Codes are in blocks of 32, shape
    (blocks, bytes, 32).
    """
    integers, exponents, nearest = _integer_tables(tables)
    distances, rows = _by_kernel(_kernels.nearest_by_table, (integers,), blocks, n_codes, k, n_jobs)
    return _scaled(distances, exponents) + nearest, rows


def _integer_tables(tables: Array) -> tuple[npt.NDArray[np.int32], Array, Array]:
    """Return how far below its table's maximum each entry is, as integers in units of a power of two.

    Also returns the exponents of these units, and the negated maximum scores.
    """
    values = tables.astype(np.float64)
    largest = values.max(axis=2, keepdims=True, initial=-np.inf)
    exponents = np.frexp((largest - values).max(axis=(1, 2), initial=0.0))[1] - FRACTION_BITS
    integers = np.rint(np.ldexp(largest - values, -exponents[:, None, None])).astype(np.int32)
    return integers, exponents, -largest.sum(axis=(1, 2))[:, None]


def rerank(projections: Array, words: Words, candidates: Integers, k: int, n_jobs: int | None = None) -> Neighbours:
    """Return the weighted distances and rows of the ``k`` nearest of the candidate rows of each query."""
    weights, exponents = integer_weights(projections)
    query_words = _signs(projections)
    distances = np.empty(candidates.shape, np.int64)

    def weigh(start: int, stop: int) -> None:
        _kernels.weigh_candidates(query_words, weights, words, candidates, distances, start, stop)

    with Workers(n_jobs) as workers:
        workers.map_blocks(weigh, len(weights), workers.even_block(len(weights), 10.0 * candidates.shape[1] + 1e4))
    order = np.lexsort((candidates, distances))[:, :k]
    distances = np.take_along_axis(distances, order, axis=1)
    return _scaled(distances, exponents), np.take_along_axis(candidates, order, axis=1)


def within(queries: Codes, words: Words, radius: int, n_jobs: int | None = None) -> list[Neighbours]:
    """Return, for each query, the Hamming distances and rows of all codes within ``radius``."""
    query_words = as_words(queries)

    def search(start: int, stop: int) -> list[Neighbours]:
        found = []
        for query in query_words[start:stop]:
            rows, distances = _kernels.within_radius(query, words, radius)
            order = np.argsort(distances, kind="stable")
            found.append((distances[order], rows[order]))
        return found

    with Workers(n_jobs) as workers:
        blocks = workers.map_blocks(search, len(queries), workers.even_block(len(queries), 2.0 * len(words)))
    return [found for block in blocks for found in block]


def _signs(projections: Array) -> Words:
    return as_words(np.packbits(projections > 0, axis=1))


def _coarse(weights: Integers) -> tuple[Words, Words, Integers]:
    """Return weights in units of a step, rounded down to 0, 1, 2 or 3, as two packed bit planes, and the steps.

    They give a lower bound of the distance. With steps of half the mean weight, a scan of random codes computes at most
    1 distance in 100.
    """
    steps = np.maximum(1, weights.sum(axis=1) // (2 * weights.shape[1]))
    levels = np.minimum(weights // steps[:, None], 3).astype(np.uint8)
    low, high = np.packbits(levels & 1, axis=1), np.packbits(levels >> 1, axis=1)
    return as_words(low), as_words(high), steps


def _over_blocks(
    search: Callable[[slice, int, int], Neighbours],
    n_queries: int,
    n_codes: int,
    k: int,
    dtype: npt.DTypeLike,
    n_jobs: int | None,
    min_codes: int,
) -> Neighbours:
    """Search in parallel over blocks of queries or, if these are few, over blocks of at least ``min_codes`` codes."""
    if not n_queries or not n_codes:
        shape = (n_queries, min(k, n_codes))
        return np.empty(shape, dtype), np.empty(shape, np.int64)
    if n_queries == 1 and n_codes < 2 * min_codes:  # too little work to share
        if n_jobs is not None:
            resolve_n_jobs(n_jobs)
        return search(slice(0, 1), 0, n_codes)
    with Workers(n_jobs) as workers:
        if n_queries >= workers.n_jobs or n_codes < 2 * min_codes or k > min_codes:
            block = workers.even_block(n_queries, 2.0 * n_codes)
            found = workers.map_blocks(lambda a, b: search(slice(a, b), 0, n_codes), n_queries, block)
            return np.concatenate([part for part, _ in found]), np.concatenate([part for _, part in found])
        block = max(min_codes, -(-n_codes // workers.n_jobs))
        found = workers.map_blocks(lambda a, b: search(slice(0, n_queries), a, b), n_codes, block)
    distances = np.concatenate([part for part, _ in found], axis=1)
    rows = np.concatenate([part + i * block for i, (_, part) in enumerate(found)], axis=1)
    # Blocks are in order and sorted, so that a stable sort keeps equal distances in order of row.
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _scaled(distances: Array, exponents: Array) -> Array:
    """Return distances in the units of the queries. Overflow gives infinity, but does not affect the ranking."""
    with np.errstate(over="ignore"):
        return np.ldexp(distances.astype(np.float64), exponents[:, None])
