"""Checks of arguments, and the conversion of items into a segment."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dlfh._arrays import Array, Codes, Mask
from dlfh._validation import check_integer, raise_if_masked, shown
from dlfh.codes import n_bytes
from dlfh.errors import InputError
from dlfh.index.segment import ABSENT, HASHED, LEARNED, Segment, Strings
from dlfh.index.where import has_surrogates

#: The search kernels add up 3 per bit in 16 bits.
_MAX_BITS = 16_384


def check_layout(n_bits: Any, modalities: Any) -> tuple[int, tuple[str, ...]]:
    """Return the code length and the names of modalities, which must be distinct, non-empty strings."""
    n_bits = check_integer(n_bits, "n_bits", 1, _MAX_BITS)
    if not isinstance(modalities, Iterable):
        raise InputError(f"modalities must be a list of strings, got {shown(modalities)}")
    names = (modalities,) if isinstance(modalities, str) else tuple(modalities)
    for name in names:
        if not isinstance(name, str) or not name or has_surrogates(name):
            raise InputError(f"modalities must be non-empty strings, got {shown(name)}")
    if not names:
        raise InputError("an index needs at least one modality")
    if len(set(names)) < len(names):
        raise InputError(f"modalities must be distinct, got {list(names)}")
    return n_bits, names


def check_ids(ids: Any) -> Strings:
    """Return ids as UTF-8; raise `InputError` if one is not valid."""
    return Strings.of(_encoded(ids))


def _encoded(ids: Any) -> list[bytes]:
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        raise InputError(f"ids must be a list of strings, got {type(ids).__name__}")
    encoded = []
    for row, value in enumerate(ids):
        if not isinstance(value, str) or not value:
            raise InputError(f"ids must be non-empty strings, got {shown(value)} in row {row}")
        try:
            encoded.append(value.encode())
        except UnicodeEncodeError:
            raise InputError(f"ids must be valid Unicode, got {shown(value)} in row {row}") from None
    return encoded


def check_distinct(ids: Sequence[str | bytes]) -> None:
    """Raise `InputError` if an id occurs twice."""
    if len(set(ids)) < len(ids):
        seen: dict[str | bytes, int] = {}
        row, value = next((row, value) for row, value in enumerate(ids) if seen.setdefault(value, row) != row)
        name = value if isinstance(value, str) else value.decode()
        raise InputError(f"duplicate id {name!r} in rows {seen[value]} and {row}")


def _as_array(value: Any, name: str) -> Array:
    try:
        return np.asarray(value)
    except (TypeError, ValueError, OverflowError, RecursionError):  # rows of different lengths, for example
        raise InputError(f"{name} must be an array, got {shown(value)}") from None


def check_positions(positions: Any) -> list[int]:
    """Return positions of items as integers."""
    values = _as_array(positions, "positions")
    if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
        raise InputError(f"positions must be a list of integers, got {shown(positions)}")
    return list(values.tolist())


def check_packed(codes: Any, n_bits: int, name: str) -> Codes:
    """Return packed codes of ``n_bits`` bits as a matrix; a single code may be one-dimensional."""
    packed = _as_array(codes, name)
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
    values = _as_array(queries, "queries")
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
    # As doubles, rows of longer floats could become infinite or zero, and rank all items alike.
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


def make_segment(
    n_bits: int,
    modalities: tuple[str, ...],
    ids: Any,
    codes: Any,
    learned: Any = False,
    metadata: Any = None,
    present: Any = None,
) -> Segment:
    """Check the arguments of `Index.add`, and return them as a segment."""
    names = _encoded(ids)
    check_distinct(names)
    n = len(names)
    if not isinstance(codes, Mapping):
        raise InputError('codes must be a dict such as {"image": codes}, got ' + type(codes).__name__)
    if not isinstance(present, Mapping | None):
        raise InputError('present must be a dict such as {"image": flags}, got ' + type(present).__name__)
    for argument, by_modality in (("codes", codes), ("learned", learned), ("present", present)):
        unknown = [name for name in by_modality if name not in modalities] if isinstance(by_modality, Mapping) else []
        if unknown:
            raise InputError(f"{argument} has modality {unknown[0]!r}, but the index has {list(modalities)}")
    states = np.zeros((len(modalities), n), np.uint8)
    columns = []
    for m, name in enumerate(modalities):
        if name not in codes:
            columns.append(np.empty((0, n_bytes(n_bits)), np.uint8))
            continue
        values = check_packed(codes[name], n_bits, f"codes of modality {name!r}")
        if len(values) != n:
            raise InputError(f"modality {name!r} has {len(values)} codes, but there are {n} ids")
        exists = _flags((present or {}).get(name, True), n, f"present of modality {name!r}")
        flags, argument = learned, "learned"
        if isinstance(learned, Mapping):
            flags, argument = learned.get(name, False), f"learned of modality {name!r}"
        states[m] = np.where(exists, np.where(_flags(flags, n, argument), LEARNED, HASHED), ABSENT)
        columns.append(values[exists])
    without = np.flatnonzero((states == ABSENT).all(axis=0))
    if len(without):
        raise InputError(f"item {names[without[0]].decode()!r} has no code in any modality")
    return Segment.of(Strings.of(names), states, columns, _metadata(metadata, n))


def _flags(value: Any, n: int, name: str) -> Mask:
    flags = _as_array(value, name)
    if flags.dtype != np.bool_ or flags.shape not in ((), (n,)):
        raise InputError(f"{name} must be True, False or an array of {n} booleans, got {shown(value)}")
    return np.broadcast_to(flags, n)


def _metadata(metadata: Any, n: int) -> Strings:
    if metadata is None:
        return Strings.empty(n)
    if isinstance(metadata, (str, bytes, Mapping)) or not isinstance(metadata, Iterable):
        raise InputError(f"metadata must be a list of dicts or Nones, got {type(metadata).__name__}")
    texts = [_as_json(value, row) for row, value in enumerate(metadata)]
    if len(texts) != n:
        raise InputError(f"metadata has {len(texts)} entries, but there are {n} ids")
    return Strings.of(texts)


def _as_json(value: Any, row: int) -> bytes:
    if value is None:
        return b""
    try:
        if not isinstance(value, Mapping) or not _has_string_keys(value):
            raise TypeError("not a JSON object")
        return json.dumps(dict(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError):
        raise InputError(f"metadata must be dicts of JSON values, got {shown(value)} in row {row}") from None


def _has_string_keys(value: Any) -> bool:
    """Return whether all keys are strings, at every depth: json.dumps converts others, which can create duplicates."""
    if isinstance(value, Mapping):
        return all(isinstance(key, str) for key in value) and all(map(_has_string_keys, value.values()))
    return not isinstance(value, (list, tuple)) or all(map(_has_string_keys, value))
