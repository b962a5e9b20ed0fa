"""What can be wrong with the parts of a data set, each said in one sentence in the words of the file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh.datasets.descriptions import Description
from dlfh.datasets.dialects import Part, Variable
from dlfh.errors import InputError

__all__ = ["check_division", "check_features", "check_sizes", "departures", "read_labels", "unlabelled"]


def check_division(parts: dict[str, Part]) -> None:
    """Check that there are training points and queries, or points that are not divided."""
    if parts.keys() != {"all"} and ("all" in parts or not {"train", "queries"} <= parts.keys()):
        raise InputError(
            "points must be of the parts 'train' and 'queries', perhaps of 'database', or not be divided at all, "
            f"and they are of {', '.join(map(repr, parts)) or 'none'}"
        )


def check_features(parts: dict[str, Part], description: Description | None = None) -> None:
    """Check that features are matrices of finite numbers with a row per point, in their places."""
    for part in parts.values():
        for variable in part.features.values():
            _check_matrix(variable)
        _check_labels(part.labels)
        _check_rows(list(part.features.values()), part.labels)
    if description is not None:
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


def _check_labels(variable: Variable) -> None:
    array = variable.array
    if array.ndim not in (1, 2) or 0 in array.shape:
        raise InputError(
            f"{variable.name} must be a matrix with a row per point or a vector of class ids, "
            f"got {f'shape {_shape(array)}' if array.ndim else 'a single value'}"
        )


def _check_rows(features: list[Variable], labels: Variable) -> None:
    shapes = {variable.name: _two_dimensions(variable.array) for variable in (*features, labels)}
    if not sp.issparse(labels.array) and shapes[labels.name][0] == 1 < shapes[features[0].name][0]:
        shapes[labels.name] = (labels.array.size, 1)  # class ids may lie
    if len({rows for rows, _ in shapes.values()}) == 1:
        return
    # If one number is a side of every matrix, it is that of the points, and some lie on their sides.
    for n_points in dict.fromkeys(side for shape in reversed(shapes.values()) for side in shape):
        if all(n_points in shape for shape in shapes.values()):
            lying = [name for name, shape in shapes.items() if shape[0] != n_points]
            sizes = ", ".join(f"{name} has shape {shapes[name][0]} x {shapes[name][1]}" for name in lying)
            raise InputError(f"{sizes} where there are {n_points} points: transpose it, so that points are rows")
    counts = ", ".join(f"{name} has {shape[0]}" for name, shape in shapes.items())
    raise InputError(f"variables of the same points must have as many rows, and one is cut short: {counts}")


def _n_points(part: Part) -> int:
    return int(next(iter(part.features.values())).array.shape[0])


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


def check_sizes(parts: dict[str, Part]) -> None:
    """Check that queries are the smaller part, or can be drawn."""
    if "all" in parts:
        if _n_points(parts["all"]) < 2:
            raise InputError("there is a single point, and none to search for")
        return
    queries, database = parts["queries"], parts.get("database", parts["train"])
    n_queries, n_points = _n_points(queries), _n_points(database)
    if n_queries > n_points:
        a, b = (next(iter(part.features.values())).name for part in (queries, database))
        raise InputError(
            f"{a} has {n_queries} rows and {b} only {n_points}: "
            "queries and database are swapped, or the database is cut short"
        )


def read_labels(parts: Iterable[Part]) -> list[Any]:
    """Return the labels of each part: a sparse indicator matrix, a vector of class ids, or what else labels may be."""
    parts = list(parts)
    variables = [part.labels for part in parts]
    labels = [_one_form(part.labels, _n_points(part)) for part in parts]
    first = labels[0]
    for variable, other in zip(variables, labels, strict=True):
        if _form(first) != _form(other):
            raise InputError(f"{variables[0].name} and {variable.name} are not in the same form of labels")
        if sp.issparse(first) and first.shape[1] != other.shape[1]:
            raise InputError(
                f"{variables[0].name} has {first.shape[1]} labels but {variable.name} has {other.shape[1]}"
            )
        if _form(first) == "ids" and variable.name != variables[0].name:
            _check_same_origin(variables[0].name, first, variable.name, other)
    return labels


def _one_form(variable: Variable, n_points: int) -> Any:
    array = variable.array
    if sp.issparse(array) or (array.ndim == 2 and array.shape[0] == n_points and array.shape[1] > 1):
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


def _form(labels: Any) -> str:
    if sp.issparse(labels):
        return "indicator"
    return "lists" if isinstance(labels, list) else {"U": "names"}.get(labels.dtype.kind, "ids")


def _indicator(name: str, array: Any) -> sp.csr_array:
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} must be an indicator matrix of 0 and 1, got type {array.dtype}")
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


def departures(parts: dict[str, Part], description: Description) -> tuple[str, ...]:
    """Return in what the numbers of points and features differ from those of the data set as published."""
    title, notes = description.title, []
    first = next(iter(parts.values())).features
    for name, expected in description.widths.items():
        if name not in first:
            notes.append(f"there is no modality {name!r}, and {title} as published has it")
        elif first[name].array.shape[1] != expected:
            width = first[name].array.shape[1]
            notes.append(f"modality {name!r} has {width} features, and {title} as published {expected}")
    counted = [part for name, part in parts.items() if name != "train" or "database" not in parts]
    n_points = sum(map(_n_points, counted))
    if n_points != description.n_points:
        notes.append(f"there are {n_points} points, and {title} as published has {description.n_points}")
    return tuple(notes)


def unlabelled(parts: Iterable[Part], labels: Iterable[Any]) -> tuple[str, ...]:
    """Return how many points have no label, a sentence for each variable with such points."""
    empty: Counter[str] = Counter()
    for part, values in zip(parts, labels, strict=True):
        if _form(values) == "indicator":
            empty[part.labels.name] += int((np.diff(values.indptr) == 0).sum())
        elif _form(values) == "lists":
            empty[part.labels.name] += sum(not row for row in values)
    return tuple(
        f"{number} rows of {name} have no label, so nothing is similar to these points"
        for name, number in empty.items()
        if number
    )
