"""Validate arguments and raise an InputError that names the one at fault."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NoReturn, TypeAlias

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Floats, Integers
from dlfh._sparse import compressed_rows
from dlfh.errors import InputError

#: A dense two-dimensional ndarray, or a csr_array with sorted, unique column indices. (SciPy has no types for it.)
Features: TypeAlias = Any
_KINDS = {"U": "strings", "S": "strings", "c": "complex numbers", "O": "Python objects"}


def check_features(features: Any, modality: str, n_features: int | None = None) -> Features:
    """Return features as a dense array or CSR matrix of numbers, without copying dense data."""
    # Non-finite values are found later, in the first pass over the data.
    called = f"modality {modality!r}"
    raise_if_masked(features, called)
    if sp.issparse(features):
        if features.ndim != 2:
            raise InputError(
                f"{called} must be two-dimensional (points x features), got a sparse array of shape {features.shape}"
            )
        matrix: Features = compressed_rows(features, called)
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # may share memory with the user's matrix
            matrix.sum_duplicates()
    else:
        try:
            matrix = np.asarray(features)
        except ValueError:
            raise InputError(f"{called} has rows of different lengths; pass a rectangular array") from None
    if matrix.dtype.kind == "f" and (matrix.dtype.itemsize > 8 or not matrix.dtype.isnative):
        matrix = matrix.astype(np.float64)
    if matrix.dtype.kind not in "fiub":
        kind = _KINDS.get(matrix.dtype.kind, f"type {matrix.dtype}")
        hint = "convert raw data to vectors first (dlfh.features)"
        raise InputError(f"{called} must contain numbers, got {kind}; {hint}")
    if matrix.ndim != 2:
        hint = "; reshape a single point with x.reshape(1, -1)" if matrix.ndim == 1 else ""
        raise InputError(f"{called} must be two-dimensional (points x features), got shape {matrix.shape}{hint}")
    if n_features is not None and matrix.shape[1] != n_features:
        raise InputError(f"{called} has {matrix.shape[1]} features but the model expects {n_features}")
    if 0 in matrix.shape and n_features is None:
        raise InputError(f"{called} is empty: shape {matrix.shape}")
    return matrix


def raise_if_masked(values: Any, called: str) -> None:
    """Refuse a masked array, whose masked values would be used as data."""
    # The first test keeps plain arrays from loading numpy.ma.
    if type(values) is not np.ndarray and isinstance(values, np.ndarray) and isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{called} is a masked array, which is not supported: fill it, or drop the masked rows")


def shown(value: Any) -> str:
    """Return the repr of a value for an error message, shortened if it is long."""
    if is_integer(value) and abs(int(value)) >= 10**100:
        return "an integer of more than 100 digits"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # a very long integer or a cycle inside the value
        return f"a {type(value).__name__}"
    return text if len(text) <= 200 else text[:199] + "…"


def check_modalities(
    modalities: Any,
    method: str = "fit",
    minimum: int = 2,
    maximum: int | None = None,
    known: Mapping[str, int] | None = None,
) -> dict[str, Features]:
    """Check the features of each modality, which must have equal numbers of rows, and return them."""
    # ``known`` maps the modalities of a fitted model to their numbers of features.
    check_names(modalities, method, minimum, maximum)
    if known is not None and set(modalities) != set(known):
        raise InputError(f"{method} needs the model's modalities {sorted(known)}, got {sorted(modalities)}")
    widths = known or dict.fromkeys(modalities)
    checked = {name: check_features(features, name, widths[name]) for name, features in modalities.items()}
    (first, reference), *others = checked.items()
    for name, matrix in others:
        if (n := matrix.shape[0]) != reference.shape[0]:
            raise InputError(f"modality {name!r} has {n} rows but modality {first!r} has {reference.shape[0]}")
    return checked


def check_names(modalities: Any, method: str, minimum: int, maximum: int | None) -> None:
    """Raise InputError unless ``modalities`` is a dict with string keys and as many entries as ``method`` takes."""
    if not isinstance(modalities, Mapping):
        raise InputError(
            f'modalities must be a dict, for example {{"image": X, "text": Y}}, got {type(modalities).__name__}'
        )
    for name in modalities:
        if not isinstance(name, str) or not name:
            raise InputError(f"names of modalities must be non-empty strings, got {name!r}")
    if len(modalities) < minimum or len(modalities) > (maximum or len(modalities)):
        is_few = len(modalities) < minimum
        limit = minimum if is_few else maximum or 0
        number = {1: "one modality", 2: "two modalities"}.get(limit, f"{limit} modalities")
        bound = "exactly" if minimum == maximum else "at least" if is_few else "at most"
        raise InputError(f"{method} takes {bound} {number}, got {len(modalities)}: {sorted(modalities)}")


def non_finite_rows(features: Features) -> Integers:
    """Return the rows with NaN or infinity, ascending."""
    if sp.issparse(features):
        bad = np.flatnonzero(~np.isfinite(features.data))
        return np.unique(np.searchsorted(features.indptr, bad, side="right") - 1)
    starts = range(0, features.shape[0], 4096)
    blocks = (np.flatnonzero(~np.isfinite(features[start : start + 4096]).all(axis=1)) + start for start in starts)
    return np.concatenate([np.empty(0, np.int64), *blocks])


def column_means(features: Features) -> Floats:
    """Return the mean of each feature, summed in double precision (SciPy sums sparse matrices in their dtype)."""
    if sp.issparse(features):
        return (np.ones(features.shape[0]) @ features) / features.shape[0]
    return features.mean(axis=0, dtype=np.float64)


def raise_if_not_finite(features: Features, modality: str, row_numbers: Integers | None = None) -> None:
    """Raise InputError for the first row with NaN or infinity; ``row_numbers`` are the user's row numbers."""
    rows = non_finite_rows(features)
    if len(rows):
        number = rows[0] if row_numbers is None else row_numbers[rows[0]]
        raise InputError(f"modality {modality!r} has NaN or infinity in row {number}")


def raise_for_overflow(features: Features | None, modality: str) -> NoReturn:
    """Raise InputError for a non-finite result: NaN or infinity in the features, if given, or extreme values."""
    if features is not None:
        raise_if_not_finite(features, modality)
    raise InputError(f"modality {modality!r} has values too large or too small to compute with; rescale it")


def is_integer(value: Any) -> bool:
    """Return whether a value is an integer, and not a boolean."""
    return isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))


def check_integer(value: Any, name: str, low: int, high: int | None = None) -> int:
    """Check that a parameter is an integer within bounds, and return it."""
    if not is_integer(value) or int(value) < low or (high is not None and int(value) > high):
        expected = f"of at least {low}" if high is None else f"from {low} to {high}"
        raise InputError(f"{name} must be an integer {expected}, got {shown(value)}")
    return int(value)


def _as_float(value: Any) -> float:
    """Return a real number as a float; NaN for anything else and for numbers beyond the range of floats."""
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("nan")


def check_positive(value: Any, name: str, *, allow_zero: bool = False) -> float:
    """Check that a parameter is a positive (or non-negative) finite number, and return it."""
    number = _as_float(value)
    if not np.isfinite(number) or number < 0 or (number == 0 and not allow_zero):
        sign = "non-negative" if allow_zero else "positive"
        raise InputError(f"{name} must be a {sign} finite number, got {shown(value)}")
    return number


def check_fraction(value: Any, name: str, *, allow_one: bool = False) -> float:
    """Check that a parameter is greater than 0 and less than 1 (or at most 1), and return it."""
    number = _as_float(value)
    if not 0 < number <= 1 or (number == 1 and not allow_one):
        bound = "at most 1" if allow_one else "less than 1"
        raise InputError(f"{name} must be a number greater than 0 and {bound}, got {shown(value)}")
    return number


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Check that a parameter is one of several strings, and return it."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {shown(value)}")
    return str(value)


def check_random_state(random_state: Any) -> np.random.Generator:
    """Return a random generator for a seed; generators pass through."""
    is_seed = is_integer(random_state) and int(random_state) >= 0
    if random_state is None or isinstance(random_state, np.random.Generator) or is_seed:
        return np.random.default_rng(random_state)
    raise InputError(
        f"random_state must be None, a non-negative integer or a numpy.random.Generator, got {shown(random_state)}"
    )


def check_flag(value: Any, name: str) -> bool:
    """Check that a parameter is True or False, and return it."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)
