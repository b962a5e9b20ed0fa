"""Checks of what users pass in: one clear sentence for each thing that can be wrong."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._sparse import compressed_rows
from dlfh.errors import InputError

__all__ = [
    "Features",
    "check_choice",
    "check_features",
    "check_flag",
    "check_fraction",
    "check_integer",
    "check_modalities",
    "check_names",
    "check_positive",
    "check_random_state",
    "column_means",
    "raise_for_overflow",
    "raise_if_masked",
    "raise_if_not_finite",
    "shown",
]

#: A dense two-dimensional ndarray, or a csr_array with sorted, unique column indices. (SciPy has no
#: type information to say so with.)
Features: TypeAlias = Any


def check_features(features: Any, modality: str, n_features: int | None = None) -> Features:
    """Return ``features`` as a dense array or CSR matrix of numbers, without copying dense data.

    That values are finite is checked later, in the pass over the data that computes sums anyway.
    """
    raise_if_masked(features, f"modality {modality!r}")
    if sp.issparse(features):
        if features.ndim != 2:
            raise InputError(
                f"modality {modality!r} must be two-dimensional, got a sparse array of shape {features.shape}"
            )
        matrix: Features = compressed_rows(features, f"modality {modality!r}")
        if not matrix.has_canonical_format:
            matrix = matrix.copy()  # what the user passed may share its memory
            matrix.sum_duplicates()
    else:
        try:
            matrix = np.asarray(features)
        except ValueError:
            raise InputError(f"modality {modality!r} has rows of different lengths; pass a matrix") from None
    if matrix.dtype.kind == "f" and (matrix.dtype.itemsize > 8 or not matrix.dtype.isnative):
        matrix = matrix.astype(np.float64)
    if matrix.dtype.kind not in "fiub":
        raise InputError(
            f"modality {modality!r} must hold numbers, got {_kind_of(matrix)}; turn raw data into vectors first"
        )
    if matrix.ndim != 2:
        raise InputError(
            f"modality {modality!r} must be two-dimensional (points x features), got shape {matrix.shape}"
            + ("; pass a single point as x.reshape(1, -1)" if matrix.ndim == 1 else "")
        )
    if n_features is not None and matrix.shape[1] != n_features:
        raise InputError(f"modality {modality!r} has {matrix.shape[1]} features but the model expects {n_features}")
    if 0 in matrix.shape and n_features is None:
        raise InputError(f"modality {modality!r} is empty: shape {matrix.shape}")
    return matrix


def raise_if_masked(values: Any, called: str) -> None:
    """Refuse a masked array: taken as a plain one, what it hides would count."""
    # (A plain array is none: asking NumPy's module of masks would load it.)
    if type(values) is not np.ndarray and isinstance(values, np.ndarray) and isinstance(values, np.ma.MaskedArray):
        raise InputError(f"{called} is a masked array, and what it hides would count here: fill it, or leave out rows")


def shown(value: Any) -> str:
    """Return a value as a message shows it: not too long, and never an error of its own.

    Examples
    --------
    >>> shown("a"), shown(10**5000)
    ("'a'", 'a whole number of more than 100 digits')
    """
    if isinstance(value, Integral) and not isinstance(value, (bool, np.bool_)) and abs(int(value)) >= 10**100:
        return "a whole number of more than 100 digits"
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # such a number, or no end, inside of something
        return f"a {type(value).__name__}"
    return text if len(text) <= 200 else text[:199] + "…"


def _as_float(value: Any) -> float:
    """Return a number as a float; one that is none, or beyond all floats, as NaN."""
    if not isinstance(value, Real) or isinstance(value, (bool, np.bool_)):
        return float("nan")
    try:
        return float(value)
    except OverflowError:
        return float("nan")


def _kind_of(matrix: Any) -> str:
    return {"U": "strings", "S": "strings", "c": "complex numbers", "O": "Python objects"}.get(
        matrix.dtype.kind, f"type {matrix.dtype}"
    )


def check_modalities(
    modalities: Any,
    method: str = "fit",
    least: int = 2,
    most: int | None = None,
    known: Mapping[str, int] | None = None,
) -> dict[str, Features]:
    """Return the checked features of each modality: as many as the method takes, with as many rows each.

    ``known`` gives the modalities of a fitted model, and how many features each has.
    """
    check_names(modalities, method, least, most)
    if known is not None and set(modalities) != set(known):
        raise InputError(f"this model unifies the modalities {sorted(known)}, got {sorted(modalities)}")
    widths = known or dict.fromkeys(modalities)
    checked = {name: check_features(features, name, widths[name]) for name, features in modalities.items()}
    (first, reference), *others = checked.items()
    for name, matrix in others:
        if matrix.shape[0] != reference.shape[0]:
            raise InputError(
                f"modality {name!r} has {matrix.shape[0]} rows but modality {first!r} has {reference.shape[0]}"
            )
    return checked


def check_names(modalities: Any, method: str, least: int, most: int | None) -> None:
    """Raise InputError unless modalities are a dict by names, of as many as a method takes."""
    if not isinstance(modalities, Mapping):
        raise InputError('modalities must be a dict such as {"image": X, "text": Y}, got ' + type(modalities).__name__)
    for name in modalities:
        if not isinstance(name, str) or not name:
            raise InputError(f"modalities must be named by non-empty strings, got {name!r}")
    if len(modalities) < least or len(modalities) > (most or len(modalities)):
        number = {1: "one modality", 2: "two modalities"}.get(least, f"{least} modalities")
        raise InputError(
            f"{method} takes {'exactly' if least == most else 'at least'} {number}, got {len(modalities)}: "
            f"{sorted(modalities)}"
        )


def _first_bad_row(features: Features) -> int | None:
    """Return the first row that holds NaN or infinity, if any."""
    if sp.issparse(features):
        bad = np.flatnonzero(~np.isfinite(features.data))
        return int(np.searchsorted(features.indptr, bad[0], side="right")) - 1 if len(bad) else None
    for start in range(0, features.shape[0], 4096):
        bad = np.flatnonzero(~np.isfinite(features[start : start + 4096]).all(axis=1))
        if len(bad):
            return start + int(bad[0])
    return None


def column_means(features: Features) -> npt.NDArray[np.float64]:
    """Return each feature's mean, summed in double precision (SciPy sums sparse matrices in their own type)."""
    if sp.issparse(features):
        return (np.ones(features.shape[0]) @ features) / features.shape[0]
    return features.mean(axis=0, dtype=np.float64)


def raise_if_not_finite(features: Features, modality: str, row_numbers: npt.NDArray[np.int64] | None = None) -> None:
    """Say where the first NaN or infinity is, if there is one, by the rows' own numbers or by others given."""
    row = _first_bad_row(features)
    if row is not None:
        number = row if row_numbers is None else int(row_numbers[row])
        raise InputError(f"modality {modality!r} has NaN or infinity in row {number}")


def raise_for_overflow(features: Features, modality: str) -> NoReturn:
    """Say why results are not finite: bad values, or finite ones too large or small to compute with."""
    raise_if_not_finite(features, modality)
    raise InputError(f"modality {modality!r} has values too large or too small to compute with: rescale it")


def check_integer(value: Any, name: str, low: int, high: int | None = None) -> int:
    """Return a parameter that must be a whole number in a range."""
    whole = isinstance(value, Integral) and not isinstance(value, (bool, np.bool_))
    if not whole or int(value) < low or (high is not None and int(value) > high):
        expected = f"at least {low}" if high is None else f"from {low} to {high}"
        raise InputError(f"{name} must be a whole number {expected}, got {shown(value)}")
    return int(value)


def check_positive(value: Any, name: str, *, allow_zero: bool = False) -> float:
    """Return a parameter that must be a positive (or non-negative) finite number."""
    expected = "a finite number of at least 0" if allow_zero else "a positive finite number"
    number = _as_float(value)
    if not np.isfinite(number) or number < 0 or (number == 0 and not allow_zero):
        raise InputError(f"{name} must be {expected}, got {shown(value)}")
    return number


def check_fraction(value: Any, name: str, *, allow_one: bool = False) -> float:
    """Return a parameter that must lie between 0 and 1, both excluded, or above 0 and at most 1."""
    expected = "above 0 and at most 1" if allow_one else "between 0 and 1"
    number = _as_float(value)
    if not 0 < number <= 1 or (number == 1 and not allow_one):
        raise InputError(f"{name} must be a number {expected}, got {shown(value)}")
    return number


def check_choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    """Return a parameter that must be one of a few words."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {shown(value)}")
    return str(value)


def check_random_state(random_state: Any) -> np.random.Generator:
    """Return a generator made from a seed, or the generator that was passed."""
    whole = isinstance(random_state, Integral) and not isinstance(random_state, (bool, np.bool_))
    if random_state is None or isinstance(random_state, np.random.Generator) or (whole and int(random_state) >= 0):
        return np.random.default_rng(random_state)
    raise InputError(
        f"random_state must be None, a whole number of at least 0 or a numpy Generator, got {shown(random_state)}"
    )


def check_flag(value: Any, name: str) -> bool:
    """Return a parameter that must be true or false."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False, got {shown(value)}")
    return bool(value)
