"""Items as users pass them, checked and made into a segment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._validation import raise_if_masked, shown
from dlfh.codes import n_bytes
from dlfh.errors import InputError
from dlfh.index.segment import ABSENT, HASHED, LEARNED, Segment
from dlfh.index.strings import Strings

__all__ = ["MOST_BITS", "as_codes", "check_codes_of", "check_ids", "check_queries", "check_schema", "make_segment"]

#: The longest codes: sums of 3 per bit must fit the 16 bits of the kernels that search.
MOST_BITS = 16_384


def check_schema(modalities: Any) -> tuple[str, ...]:
    """Return the names of modalities, or say what is wrong with them."""
    names = (modalities,) if isinstance(modalities, str) else tuple(modalities)
    for name in names:
        if not isinstance(name, str) or not name or not _is_text(name):
            raise InputError(f"modalities must be named by non-empty strings, got {name!r}")
    if not names:
        raise InputError("an index needs at least one modality")
    if len(set(names)) < len(names):
        raise InputError(f"modalities must differ, got {list(names)}")
    return names


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_ids(ids: Any, name: str = "ids") -> list[bytes]:
    """Return ids as UTF-8, or say which is not a proper id."""
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise InputError(f"{name} must be a list of strings, got {type(ids).__name__}")
    encoded = []
    for row, value in enumerate(ids):
        if not isinstance(value, str) or not value:
            raise InputError(f"{name} must be non-empty strings, got {value!r} in place {row}")
        try:
            encoded.append(value.encode())
        except UnicodeEncodeError:
            raise InputError(f"{name} must be valid Unicode, got {shown(value)} in place {row}") from None
    return encoded


def check_distinct(ids: Sequence[bytes]) -> None:
    """Say which id occurs twice, if one does."""
    if len(set(ids)) == len(ids):
        return
    seen: dict[bytes, int] = {}
    for row, value in enumerate(ids):
        if value in seen:
            raise InputError(f"id {value.decode()!r} is given twice, in places {seen[value]} and {row}")
        seen[value] = row


def check_codes_of(codes: Any, n_bits: int, what: str) -> npt.NDArray[np.uint8]:
    """Return packed codes of ``n_bits`` bits; one code may be given as a single row."""
    packed = np.asarray(codes)
    if packed.ndim == 1 and packed.dtype == np.uint8:
        packed = packed[None]
    width = n_bytes(n_bits)
    if packed.ndim != 2 or packed.dtype != np.uint8 or packed.shape[1] != width:
        raise InputError(
            f"{what} must be packed codes of {n_bits} bits (uint8, {width} bytes each), "
            f"got type {packed.dtype} and shape {packed.shape}"
        )
    unused = (1 << -n_bits % 8) - 1
    if unused:
        bad = np.flatnonzero(packed[:, -1] & np.uint8(unused))
        if len(bad):
            raise InputError(f"{what} must be codes of {n_bits} bits, but row {bad[0]} has bits after the last one set")
    return packed


def check_queries(queries: Any, n_bits: int) -> npt.NDArray[Any]:
    """Return queries as packed codes (uint8) or projections (float), or say what is wrong with them."""
    raise_if_masked(queries, "queries")
    asked = np.asarray(queries)
    if asked.dtype.kind == "f":
        return _check_projections(asked, n_bits)
    return check_codes_of(asked, n_bits, "queries")


def as_codes(queries: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Return checked queries as packed codes: projections by their signs."""
    return queries if queries.dtype == np.uint8 else np.packbits(queries > 0, axis=1)


def _check_projections(queries: npt.NDArray[Any], n_bits: int) -> npt.NDArray[Any]:
    matrix = queries[None] if queries.ndim == 1 else queries
    if matrix.ndim != 2 or matrix.shape[1] != n_bits:
        raise InputError(f"queries as projections must have {n_bits} values each, got shape {queries.shape}")
    bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
    if len(bad):
        raise InputError(f"queries have NaN or infinity in row {bad[0]}")
    return _in_double_precision(matrix) if matrix.dtype.itemsize > 8 else matrix


def _in_double_precision(matrix: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return longer floats as doubles, if these can hold them: else all would be alike, and the ranking with them."""
    largest = np.abs(matrix).max(axis=1, initial=0)
    limits = np.finfo(np.float64)
    bad = np.flatnonzero((largest > limits.max) | ((largest > 0) & (largest < limits.tiny)))
    if len(bad):
        raise InputError(f"queries have values too large or too small to rank by in row {bad[0]}: rescale them")
    return matrix.astype(np.float64)


def make_segment(
    ids: Any, codes: Any, learned: Any, metadata: Any, present: Any, n_bits: int, modalities: tuple[str, ...]
) -> Segment:
    """Return a segment of checked items."""
    names = check_ids(ids)
    check_distinct(names)
    n = len(names)
    if not isinstance(codes, Mapping):
        raise InputError('codes must be a dict such as {"image": codes}, got ' + type(codes).__name__)
    for what, by_modality in (("codes", codes), ("learned", learned), ("present", present)):
        unknown = [name for name in by_modality if name not in modalities] if isinstance(by_modality, Mapping) else []
        if unknown:
            raise InputError(f"{what} names the modality {unknown[0]!r}, but the index has {list(modalities)}")
    if not isinstance(present, Mapping | None):
        raise InputError('present must be a dict such as {"image": flags}, got ' + type(present).__name__)
    states = np.zeros((len(modalities), n), np.uint8)
    columns = []
    for m, name in enumerate(modalities):
        if name not in codes:
            columns.append(np.empty((0, n_bytes(n_bits)), np.uint8))
            continue
        values = check_codes_of(codes[name], n_bits, f"codes of modality {name!r}")
        if len(values) != n:
            raise InputError(f"modality {name!r} has {len(values)} codes but there are {n} ids")
        here = _flags((present or {}).get(name, True), n, f"present of modality {name!r}")
        is_learned = learned.get(name, False) if isinstance(learned, Mapping) else learned
        was_learned = _flags(
            is_learned, n, f"learned of modality {name!r}" if isinstance(learned, Mapping) else "learned"
        )
        states[m] = np.where(here, np.where(was_learned, LEARNED, HASHED), ABSENT)
        columns.append(values[here])
    homeless = np.flatnonzero((states == ABSENT).all(axis=0))
    if len(homeless):
        raise InputError(f"item {names[homeless[0]].decode()!r} has a code in no modality")
    return Segment.of(Strings.of(names), states, tuple(columns), _metadata(metadata, n))


def _flags(value: Any, n: int, what: str) -> npt.NDArray[np.bool_]:
    flags = np.asarray(value)
    if flags.dtype != np.bool_ or flags.shape not in ((), (n,)):
        raise InputError(f"{what} must be True, False or an array of {n} of these, got {value!r}")
    return np.broadcast_to(flags, n)


def _metadata(metadata: Any, n: int) -> Strings | None:
    if metadata is None:
        return None
    if isinstance(metadata, (str, bytes, Mapping)) or not isinstance(metadata, Iterable):
        raise InputError(f"metadata must be a list of dicts or Nones, got {type(metadata).__name__}")
    texts = [_as_json(value, row) for row, value in enumerate(metadata)]
    if len(texts) != n:
        raise InputError(f"metadata has {len(texts)} entries but there are {n} ids")
    return Strings.of(texts)


def _as_json(value: Any, row: int) -> bytes:
    if value is None:
        return b""
    try:
        if not isinstance(value, Mapping) or not _has_names_alone(value):
            raise TypeError("not an object with names")
        return json.dumps(dict(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        raise InputError(f"metadata must be dicts that JSON can hold, got {shown(value)} in place {row}") from None


def _has_names_alone(value: Any) -> bool:
    """Return whether all keys are strings, at every depth: JSON makes strings of others, which may be there already."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) for key in value) and all(map(_has_names_alone, value.values()))
    return not isinstance(value, (list, tuple)) or all(map(_has_names_alone, value))
