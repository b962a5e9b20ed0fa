"""Packed binary codes: packing, unpacking and Hamming distances.

A code of c bits is a row of ceil(c / 8) bytes in the order of `numpy.packbits`, which faiss and sentence-transformers
also use: the first bit is the highest of the first byte, and unused bits are 0. Bit 1 stands for +1 and bit 0 for -1.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._arrays import Codes
from dlfh._parallel import Workers
from dlfh.errors import InputError

__all__ = ["hamming_distances", "pack", "unpack"]


def n_bytes(n_bits: int) -> int:
    """Return the number of bytes of a code of ``n_bits`` bits."""
    return -(-int(n_bits) // 8)


def pack(values: npt.ArrayLike) -> Codes:
    """Pack the signs of ``values`` into codes.

    Parameters
    ----------
    values : array-like of shape (n, n_bits)
        Positive values and True become bit 1, all others bit 0.

    Returns
    -------
    ndarray of uint8, shape (n, ceil(n_bits / 8))

    Examples
    --------
    >>> pack([[1, -1, 1, 1], [-1, -1, -1, 1]])
    array([[176],
           [ 16]], dtype=uint8)
    """
    matrix = np.asarray(values)
    if matrix.ndim != 2 or not (np.issubdtype(matrix.dtype, np.number) or matrix.dtype == bool):
        raise InputError(
            f"values must be a two-dimensional array of numbers, got shape {matrix.shape} and type {matrix.dtype}"
        )
    return np.packbits(matrix > 0, axis=1)


def unpack(codes: npt.ArrayLike, n_bits: int) -> npt.NDArray[np.int8]:
    """Unpack codes into a matrix of -1 and +1.

    Parameters
    ----------
    codes : array-like of uint8, shape (n, ceil(n_bits / 8))
    n_bits : int
        Code length.

    Returns
    -------
    ndarray of int8, shape (n, n_bits)

    Examples
    --------
    >>> unpack(np.array([[176]], dtype=np.uint8), n_bits=4)
    array([[ 1, -1,  1,  1]], dtype=int8)
    """
    packed = check_codes(codes, "codes")
    if packed.shape[1] != n_bytes(n_bits):
        raise InputError(f"codes of {n_bits} bits must have {n_bytes(n_bits)} bytes, got {packed.shape[1]}")
    bits = np.unpackbits(packed, axis=1, count=n_bits).view(np.int8)
    return 2 * bits - np.int8(1)


def hamming_distances(a: npt.ArrayLike, b: npt.ArrayLike, *, n_jobs: int | None = None) -> npt.NDArray[np.uint16]:
    """Return the Hamming distances between two sets of packed codes.

    Parameters
    ----------
    a, b : array-like of uint8, shapes (n_a, bytes) and (n_b, bytes)
    n_jobs : int, optional
        Number of threads; all cores by default.

    Returns
    -------
    ndarray of uint16, shape (n_a, n_b)

    Examples
    --------
    >>> hamming_distances(pack([[1, 1, 1]]), pack([[1, 1, 1], [-1, 1, -1]]))
    array([[0, 2]], dtype=uint16)
    """
    packed_a, packed_b = check_codes(a, "a"), check_codes(b, "b")
    if packed_a.shape[1] != packed_b.shape[1]:
        lengths = f"a has {packed_a.shape[1]} bytes and b has {packed_b.shape[1]}"
        raise InputError(f"codes must have the same length, but {lengths}")
    a_words, b_words = as_words(packed_a), by_word(packed_b)
    distances = np.empty((len(packed_a), len(packed_b)), np.uint16)

    def fill(start: int, stop: int) -> None:
        _kernels.hamming_block(a_words[start:stop], b_words, distances[start:stop])

    with Workers(n_jobs) as workers:
        workers.map_blocks(fill, len(packed_a), workers.even_block(len(packed_a), len(packed_b)))
    return distances


def check_codes(codes: npt.ArrayLike, name: str) -> Codes:
    """Return ``codes`` as an array; raise `InputError` if they are not packed codes."""
    packed = np.asarray(codes)
    if packed.ndim != 2 or packed.dtype != np.uint8 or packed.shape[1] == 0:
        raise InputError(
            f"{name} must be packed codes (uint8, two-dimensional), got type {packed.dtype} and shape {packed.shape}"
        )
    return packed


def pad_to_words(codes: Codes) -> Codes:
    """Return a copy of ``codes`` whose rows are padded with zeros to a multiple of 64 bits."""
    padded = np.zeros((len(codes), 8 * -(-codes.shape[1] // 8)), np.uint8)
    padded[:, : codes.shape[1]] = codes
    return padded


def as_words(codes: Codes) -> npt.NDArray[np.uint64]:
    """Return ``codes`` as rows of 64-bit words, for XOR and popcount."""
    if codes.shape[1] % 8 == 0 and codes.flags.c_contiguous:
        return codes.view(np.uint64)
    return pad_to_words(codes).view(np.uint64)


def by_word(codes: Codes) -> npt.NDArray[np.uint64]:
    """Return the transposed words of codes: row w has word w of every code."""
    return np.ascontiguousarray(as_words(codes).T)


def random_codes(rng: np.random.Generator, n: int, n_bits: int) -> Codes:
    """Return ``n`` uniformly random packed codes."""
    codes = rng.integers(0, 256, size=(n, n_bytes(n_bits)), dtype=np.uint8)
    codes[:, -1] &= np.uint8(0xFF << (-n_bits % 8) & 0xFF)
    return codes
