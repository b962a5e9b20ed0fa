"""Exact search among packed codes: Hamming distance on faiss, real-valued queries on look-up tables.

Every function returns rows of ``codes`` in ascending distance, ties in ascending row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._parallel import Workers, resolve_n_jobs
from dlfh.codes import as_words
from dlfh.errors import InputError

__all__ = [
    "FRACTION_BITS",
    "Found",
    "distances_to_all",
    "faiss_threads",
    "import_faiss",
    "nearest_by_hamming",
    "nearest_by_weight",
    "rerank",
    "whole_weights",
    "within",
]

Codes = npt.NDArray[np.uint8]
Found = tuple[npt.NDArray[Any], npt.NDArray[np.int64]]

#: Weights are whole multiples of 2 ** -FRACTION_BITS of the largest of a query.
FRACTION_BITS = 24
#: Codes per thread that are worth the hand-over, in a search for few queries: about a millisecond's.
_BY_HAMMING, _BY_WEIGHT = 1 << 20, 1 << 18


def import_faiss() -> Any:
    """Return the module faiss, or say how to get it."""
    try:
        import faiss
    except ImportError:
        raise InputError("searching needs faiss: pip install faiss-cpu") from None
    return faiss


@contextmanager
def faiss_threads(n: int) -> Iterator[None]:
    """Let faiss use ``n`` threads when called from this thread."""
    faiss = import_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(n)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


def nearest_by_hamming(queries: Codes, codes: Codes, k: int, n_jobs: int | None = None) -> Found:
    """Return Hamming distances and rows of the ``k`` nearest codes.

    Examples
    --------
    >>> codes = np.array([[3], [0], [1], [1]], np.uint8)
    >>> nearest_by_hamming(np.array([[1]], np.uint8), codes, k=3)
    (array([[0, 0, 1]], dtype=int32), array([[2, 3, 0]]))
    """
    faiss = import_faiss()

    def search(q: slice, start: int, stop: int) -> Found:
        with faiss_threads(1):  # our threads, not OpenMP's, which do not survive a fork
            return faiss.knn_hamming(queries[q], codes[start:stop], min(k, stop - start))

    queries, codes = np.ascontiguousarray(queries), np.ascontiguousarray(codes)
    return _over_blocks(search, len(queries), len(codes), k, np.int32, n_jobs, _BY_HAMMING)


def whole_weights(projections: npt.NDArray[Any]) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Return |z| as whole numbers, and which power of two one of their units is worth, for each query z.

    Examples
    --------
    >>> weights, exponents = whole_weights(np.array([[0.5, -2.0]]))
    >>> np.ldexp(weights, exponents)
    array([[0.5, 2. ]])
    """
    magnitudes = np.abs(projections.astype(np.float64))
    largest = magnitudes.max(axis=1, initial=0.0)
    # By a power of two, so that scaling does not round; as its exponent, since that of denormal queries is no number.
    exponents = np.frexp(largest)[1] - FRACTION_BITS
    return np.rint(np.ldexp(magnitudes, -exponents[:, None])).astype(np.int64), exponents


def nearest_by_weight(
    projections: npt.NDArray[Any], words: npt.NDArray[np.uint64], k: int, n_jobs: int | None = None
) -> Found:
    """Return weighted distances and rows of the ``k`` nearest codes, given as rows of 64-bit words.

    The distance of a code is the sum of ``|z_j|`` over the bits j in which it differs from the sign of z.

    Examples
    --------
    >>> codes = np.array([[0b11000000], [0b01000000], [0b10000000]], np.uint8)
    >>> nearest_by_weight(np.array([[0.5, 2.0]]), as_words(codes), k=2)
    (array([[0. , 0.5]]), array([[0, 1]]))
    """
    weights, exponents = whole_weights(projections)
    query = (_signs(projections), weights, *_coarse(weights))

    def search(q: slice, start: int, stop: int) -> Found:
        shape = (q.stop - q.start, min(k, stop - start))
        distances, rows = np.empty(shape, np.int64), np.empty(shape, np.int64)
        _kernels.nearest_by_weight(*(part[q] for part in query), words, start, stop, distances, rows)
        return distances, rows - start

    distances, rows = _over_blocks(search, len(projections), len(words), k, np.int64, n_jobs, _BY_WEIGHT)
    return _scaled(distances, exponents), rows


def distances_to_all(queries: npt.NDArray[Any], codes_by_byte: Codes) -> npt.NDArray[np.float64]:
    """Return the weighted distances of all codes, or for queries that are codes their Hamming distances.

    Codes are given by byte, shape (bytes, n): a byte differs from the query's in one of 256 ways, so that each costs
    one look into a table, and a million codes of 64 bits less than a tenth of a second, without anything to compile.

    Examples
    --------
    >>> codes = np.array([[0b11000000], [0b01000000], [0b10000000]], np.uint8)
    >>> distances_to_all(np.array([[0.5, 2.0]]), codes.T)
    array([[0. , 0.5, 2. ]])
    """
    if queries.dtype == np.uint8:
        signs, weights = queries, np.ones((len(queries), 8 * queries.shape[1]), np.int64)
        exponents = np.zeros(len(queries), np.int64)
    else:
        signs = np.packbits(queries > 0, axis=1)
        weights, exponents = whole_weights(queries)
        weights = np.pad(weights, ((0, 0), (0, -weights.shape[1] % 8)))
    bits = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.int64)
    distances = np.zeros((len(queries), codes_by_byte.shape[1]), np.int64)
    for own, sign, weight in zip(distances, signs, weights.reshape(len(queries), -1, 8), strict=True):
        for byte, codes in enumerate(codes_by_byte):
            table = (bits @ weight[byte])[np.arange(256) ^ sign[byte]]
            own += table[codes]
    return _scaled(distances, exponents)


def rerank(
    projections: npt.NDArray[Any],
    words: npt.NDArray[np.uint64],
    candidates: npt.NDArray[np.int64],
    k: int,
    n_jobs: int | None = None,
) -> Found:
    """Return weighted distances and rows of the ``k`` nearest of each query's candidate rows.

    Examples
    --------
    >>> words = as_words(np.array([[0b11000000], [0b01000000], [0b10000000]], np.uint8))
    >>> rerank(np.array([[0.5, 2.0]]), words, np.array([[2, 1]]), k=1)
    (array([[0.5]]), array([[1]]))
    """
    weights, exponents = whole_weights(projections)
    query_words = _signs(projections)
    distances = np.empty(candidates.shape, np.int64)

    def weigh(start: int, stop: int) -> None:
        _kernels.weigh_candidates(query_words, weights, words, candidates, distances, start, stop)

    with Workers(n_jobs) as workers:
        workers.map_blocks(weigh, len(weights), workers.even_block(len(weights), 10.0 * candidates.shape[1] + 1e4))
    order = np.lexsort((candidates, distances))[:, :k]
    distances = np.take_along_axis(distances, order, axis=1)
    return _scaled(distances, exponents), np.take_along_axis(candidates, order, axis=1)


def within(queries: Codes, words: npt.NDArray[np.uint64], radius: int, n_jobs: int | None = None) -> list[Found]:
    """Return Hamming distances and rows of all codes within ``radius``, for each query.

    Examples
    --------
    >>> codes = np.array([[3], [0], [1], [6]], np.uint8)
    >>> within(np.array([[1]], np.uint8), as_words(codes), radius=1)
    [(array([0, 1, 1], dtype=int32), array([2, 0, 1]))]
    """
    query_words = as_words(queries)

    def search(start: int, stop: int) -> list[Found]:
        found = []
        for query in query_words[start:stop]:
            rows, distances = _kernels.within_radius(query, words, radius)
            order = np.argsort(distances, kind="stable")
            found.append((distances[order], rows[order]))
        return found

    with Workers(n_jobs) as workers:
        blocks = workers.map_blocks(search, len(queries), workers.even_block(len(queries), 2.0 * len(words)))
    return [found for block in blocks for found in block]


def _signs(projections: npt.NDArray[Any]) -> npt.NDArray[np.uint64]:
    return as_words(np.packbits(projections > 0, axis=1))


def _coarse(
    weights: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64], npt.NDArray[np.int64]]:
    """Return weights in whole steps, rounded down to 0, 1, 2 or 3, as bits of two codes; and the steps.

    With steps of half the mean weight, the scan of random codes looks up 1 code in 100 or fewer.
    """
    steps = np.maximum(1, weights.sum(axis=1) // (2 * weights.shape[1]))
    levels = np.minimum(weights // steps[:, None], 3).astype(np.uint8)
    low, high = np.packbits(levels & 1, axis=1), np.packbits(levels >> 1, axis=1)
    return as_words(low), as_words(high), steps


def _over_blocks(
    search: Callable[[slice, int, int], Found],
    n_queries: int,
    n_codes: int,
    k: int,
    dtype: npt.DTypeLike,
    n_jobs: int | None,
    least: int,
) -> Found:
    """Run a search on blocks of queries, or of at least so many codes where there are fewer queries than threads."""
    if not n_queries or not n_codes:
        shape = (n_queries, min(k, n_codes))
        return np.empty(shape, dtype), np.empty(shape, np.int64)
    if n_queries == 1 and n_codes < 2 * least:  # nothing to share
        if n_jobs is not None:
            resolve_n_jobs(n_jobs)
        return search(slice(0, 1), 0, n_codes)
    with Workers(n_jobs) as workers:
        if n_queries >= workers.n_jobs or n_codes < 2 * least or k > least:
            block = workers.even_block(n_queries, 2.0 * n_codes)
            found = workers.map_blocks(lambda a, b: search(slice(a, b), 0, n_codes), n_queries, block)
            return np.concatenate([part for part, _ in found]), np.concatenate([part for _, part in found])
        block = max(least, -(-n_codes // workers.n_jobs))
        found = workers.map_blocks(lambda a, b: search(slice(0, n_queries), a, b), n_codes, block)
    distances = np.concatenate([part for part, _ in found], axis=1)
    rows = np.concatenate([part + i * block for i, (_, part) in enumerate(found)], axis=1)
    # Blocks are in order, and each is sorted: a stable sort keeps ties by row.
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _scaled(distances: npt.NDArray[Any], exponents: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return distances in the queries' own units; those beyond all numbers are infinite, and ranked all the same."""
    with np.errstate(over="ignore"):
        return np.ldexp(distances.astype(np.float64), exponents[:, None])
