"""What can be wrong with the parts of a data set, each said in one sentence in the words of the file."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh.datasets.descriptions import Description
from dlfh.datasets.dialects import Part, Variable
from dlfh.errors import InputError

__all__ = ["check_features", "check_sizes", "departures", "read_labels"]


def check_features(parts: dict[str, Part], description: Description) -> None:
    """Check that features are matrices of finite numbers with a row per point, in their places."""
    for part in parts.values():
        for variable in part.features.values():
            _check_matrix(variable)
        _check_rows([*part.features.values(), part.labels])
    for part in parts.values():
        _check_modalities(part, description)
    _check_widths(list(parts.values()))
    for part in parts.values():
        for variable in part.features.values():
            _check_finite(variable)


def _check_matrix(variable: Variable) -> None:
    array = variable.array
    if array.dtype.kind not in "biuf" or array.ndim != 2 or 0 in array.shape:
        raise InputError(
            f"{variable.name} must be a matrix of numbers with a row per point, "
            f"got shape {_shape(array)} and type {array.dtype}"
        )


def _check_rows(variables: list[Variable]) -> None:
    shapes = {variable.name: _two_dimensions(variable.array) for variable in variables}
    if len({rows for rows, _ in shapes.values()}) == 1:
        return
    # If one number is a side of every matrix, it is that of the points, and some lie on their sides.
    for n_points in dict.fromkeys(side for shape in reversed(shapes.values()) for side in shape):
        if all(n_points in shape for shape in shapes.values()):
            lying = [name for name, shape in shapes.items() if shape[0] != n_points and min(shape) > 1]
            if lying:
                sizes = ", ".join(f"{name} has shape {shapes[name][0]} x {shapes[name][1]}" for name in lying)
                raise InputError(f"{sizes} where there are {n_points} points: transpose it, so that points are rows")
            return
    counts = ", ".join(f"{name} has {shape[0]}" for name, shape in shapes.items())
    raise InputError(f"variables of the same points must have as many rows, and one is cut short: {counts}")


def _two_dimensions(array: Any) -> tuple[int, int]:
    return (array.shape[0], array.shape[1]) if array.ndim > 1 else (len(array), 1)


def _shape(array: Any) -> str:
    return " x ".join(map(str, array.shape))


def _check_widths(parts: list[Part]) -> None:
    first, *others = parts
    for part in others:
        differing = [
            (variable, part.features[name])
            for name, variable in first.features.items()
            if variable.array.shape[1] != part.features[name].array.shape[1]
        ]
        ours, theirs = ([pair[side] for pair in differing] for side in (0, 1))
        if len(differing) > 1 and sorted(_widths(ours)) == sorted(_widths(theirs)):
            raise InputError(f"{_with_widths(ours)}, but {_with_widths(theirs)}: one of the pairs is swapped")
        for a, b in differing:
            raise InputError(f"{a.name} has {a.array.shape[1]} features but {b.name} has {b.array.shape[1]}")


def _widths(variables: list[Variable]) -> list[int]:
    return [variable.array.shape[1] for variable in variables]


def _with_widths(variables: list[Variable]) -> str:
    names = " and ".join(variable.name for variable in variables)
    return f"{names} have {' and '.join(map(str, _widths(variables)))} features"


def _check_modalities(part: Part, description: Description) -> None:
    """Find images under the texts' name and the reverse, by the numbers of features that the data set has."""
    widths = description.widths
    if {"image", "text"} <= part.features.keys() and widths["image"] != widths["text"]:
        image, text = part.features["image"], part.features["text"]
        found = (image.array.shape[1], text.array.shape[1])
        if found == (widths["text"], widths["image"]):
            raise InputError(
                f"{image.name} and {text.name} are swapped: they have {found[0]} and {found[1]} features, and "
                f"{description.title} has {widths['image']} of the image and {widths['text']} of the text"
            )


def _check_finite(variable: Variable) -> None:
    array = variable.array
    values = array.data if sp.issparse(array) else array
    if values.dtype.kind != "f" or np.isfinite(values).all():
        return
    if sp.issparse(array):
        bad = np.flatnonzero(~np.isfinite(array.data))
        rows, columns = np.searchsorted(array.indptr, bad, side="right") - 1, array.indices[bad]
    else:
        rows, columns = np.nonzero(~np.isfinite(array))
    raise InputError(
        f"{variable.name} holds NaN or infinity, {len(rows)} in all, the first in row {rows[0]}, column {columns[0]}"
    )


def check_sizes(queries: Part, database: Part) -> None:
    """Check that queries are the smaller part."""
    (a, of_queries), (b, of_database) = (next(iter(part.features.values())) for part in (queries, database))
    if of_queries.shape[0] > of_database.shape[0]:
        raise InputError(
            f"{a} has {of_queries.shape[0]} rows and {b} only {of_database.shape[0]}: "
            "queries and database are swapped, or the database is cut short"
        )


def read_labels(parts: Iterable[Part]) -> list[Any]:
    """Return the labels of each part: a sparse indicator matrix, a vector of class ids, or what else labels may be."""
    variables = [part.labels for part in parts]
    labels = [_one_form(variable) for variable in variables]
    first = labels[0]
    for variable, other in zip(variables, labels, strict=True):
        if sp.issparse(first) != sp.issparse(other):
            raise InputError(f"{variables[0].name} and {variable.name} are not in the same form of labels")
        if sp.issparse(first) and first.shape[1] != other.shape[1]:
            raise InputError(
                f"{variables[0].name} has {first.shape[1]} labels but {variable.name} has {other.shape[1]}"
            )
        if isinstance(first, np.ndarray) and first.dtype.kind == "i":
            _check_same_origin(variables[0].name, first, variable.name, other)
    return labels


def _one_form(variable: Variable) -> Any:
    array = variable.array
    if sp.issparse(array) or (array.ndim == 2 and min(array.shape) > 1):
        return _indicator(variable.name, array)
    flat = array.ravel()
    if flat.dtype.kind == "O":
        return [list(np.ravel(row)) for row in flat]
    if flat.dtype.kind == "U":
        return flat
    ids = flat.astype(np.int64) if flat.dtype.kind in "biuf" and np.isfinite(flat).all() else None
    if ids is None or (ids != flat).any() or ids.min() < 0:
        raise InputError(f"{variable.name} must hold class ids, which are whole numbers from 0 or 1 upwards")
    return ids


def _indicator(name: str, array: Any) -> sp.csr_array:
    matrix = sp.csr_array(array)
    matrix.eliminate_zeros()
    others = np.unique(matrix.data[matrix.data != 1])
    if len(others):
        shown = ", ".join(f"{value:g}" for value in others[:3])
        raise InputError(f"{name} must be an indicator matrix of 0 and 1, and holds {shown} as well")
    if matrix.nnz == 0:
        raise InputError(f"{name} holds no label at all")
    return matrix.astype(np.int8)


def _check_same_origin(name: str, ids: Any, other_name: str, others: Any) -> None:
    """Find class ids that count from 0 in one part and from 1 in the other."""
    counted_from = {int(ids.min()), int(others.min())}
    if counted_from == {0, 1} and ids.min() - others.min() == ids.max() - others.max():
        raise InputError(
            f"{name} has class ids {ids.min()} to {ids.max()} and {other_name} {others.min()} to {others.max()}: "
            "one counts from 0 and the other from 1"
        )


def departures(parts: dict[str, Part], labels: Iterable[Any], description: Description) -> tuple[str, ...]:
    """Return in what the data differ from those of their name, and how many points have no label."""
    notes = list(description.notes)
    first = next(iter(parts.values()))
    for name, expected in description.widths.items():
        width = first.features[name].array.shape[1] if name in first.features else expected
        if width != expected:
            notes.append(f"modality {name!r} has {width} features, and {description.title} as published {expected}")
    counted = [part for name, part in parts.items() if name != "train" or "database" not in parts]
    n_points = sum(next(iter(part.features.values())).array.shape[0] for part in counted)
    if n_points != description.n_points:
        notes.append(f"there are {n_points} points, and {description.title} as published has {description.n_points}")
    for part, values in zip(parts.values(), labels, strict=True):
        empty = int((np.diff(values.indptr) == 0).sum()) if sp.issparse(values) else 0
        if empty:
            notes.append(f"{empty} rows of {part.labels.name} have no label, so nothing is similar to these points")
    return tuple(notes)
