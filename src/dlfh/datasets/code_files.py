"""Codes written by other programs, as packed bits or one number per bit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Codes, Mask
from dlfh.datasets.arrays import listed, read_array, read_arrays
from dlfh.errors import InputError, prefixed

#: Array names used by DCMH and its successors, with the number of the modality and the role.
_OTHER_NAMES = {"qBX": (0, "queries"), "qBY": (1, "queries"), "rBX": (0, "hashed"), "rBY": (1, "hashed")}


def pack_codes(arrays: Mapping[str, Any]) -> tuple[dict[str, Codes], int]:
    """Return packed codes, and their length in bits.

    arrays: Packed bits (uint8, in the order of `numpy.packbits`), or one column per bit of 0 and 1, -1 and +1, or
        booleans. Arrays of uint8 count as packed if any has a value above 1; their length is a multiple of 8 bits.
    """
    matrices = {name: _matrix(name, array) for name, array in arrays.items()}
    bytewise = {name: matrix for name, matrix in matrices.items() if matrix.dtype == np.uint8}
    is_packed = any(matrix.max(initial=0) > 1 for matrix in bytewise.values())
    codes, lengths = {}, {}
    for name, matrix in matrices.items():
        if is_packed and name in bytewise:
            codes[name], lengths[name] = matrix, 8 * matrix.shape[1]
        else:
            codes[name], lengths[name] = np.packbits(_bits(name, matrix), axis=1), matrix.shape[1]
    first = next(iter(lengths))
    for name, length in lengths.items():
        if codes[name].shape[1] != codes[first].shape[1]:
            raise InputError(f"{first!r} has codes of {lengths[first]} bits but {name!r} has {length}")
    return codes, lengths[first]


def _matrix(name: str, array: Any) -> Array:
    matrix = array.toarray() if sp.issparse(array) else np.asarray(array)
    if matrix.ndim != 2 or 0 in matrix.shape or matrix.dtype.kind not in "biuf":
        raise InputError(f"{name!r} must be a matrix of codes, one per row, got {matrix.dtype} of {matrix.shape}")
    return matrix


def _bits(name: str, matrix: Array) -> Mask:
    is_one = matrix == 1
    for zero in (0, -1):
        if (is_one | (matrix == zero)).all():
            return is_one
    odd = matrix[~is_one & (matrix != 0) & (matrix != -1)]
    found = f"{odd[0]}" if len(odd) else "both 0 and -1"
    raise InputError(f"{name!r} must be packed bits (uint8), 0 and 1, -1 and +1, or booleans, but it contains {found}")


def read_code_set(place: Path, modalities: tuple[str, ...]) -> tuple[dict[tuple[str, str], Codes], int]:
    """Return the codes of queries and database, by modality and role, and their length in bits.

    place: A file with arrays, or a folder with files, called MODALITY_queries, MODALITY_learned and MODALITY_hashed; or
        qBX, qBY, rBX and rBY, of which rBX and rBY count as hashed.
    """
    arrays = {file.stem: read_array(file) for file in sorted(place.iterdir())} if place.is_dir() else read_arrays(place)
    roles = {f"{name}_{role}": (name, role) for name in modalities for role in ("queries", "learned", "hashed")}
    roles |= {name: (modalities[i], role) for name, (i, role) in _OTHER_NAMES.items() if i < len(modalities)}
    used = {name: array for name, array in arrays.items() if name in roles}
    if not {(name, "queries") for name in modalities} <= {roles[name] for name in used}:
        expected = ", ".join(f"{name}_queries" for name in modalities)
        raise InputError(f"{place} must contain {expected} (or qBX, qBY, rBX, rBY), but it contains {listed(arrays)}")
    with prefixed(str(place)):
        codes, n_bits = pack_codes(used)
    return {roles[name]: matrix for name, matrix in codes.items()}, n_bits


def code_place(folder: Path, n_bits: int, seed: int) -> Path | None:
    """Return the entry ``BITS-SEED`` of a folder, with any suffix, or ``BITS`` for seed 0; None if there is none."""
    stems = (f"{n_bits}-{seed}", *([str(n_bits)] if seed == 0 else []))
    return next((path for path in sorted(folder.iterdir()) if path.stem in stems), None)
