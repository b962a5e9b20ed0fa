"""Checks of loaded data sets; messages use the array names in the file."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh.datasets.descriptions import Description
from dlfh.datasets.layout import Part
from dlfh.errors import InputError


def check_parts(parts: dict[str, Part], description: Description | None, ignored: tuple[str, ...]) -> None:
    """Raise InputError unless every part has two or more finite matrices, not swapped, with one row per point."""
    modalities = next((list(part.points.modalities) for part in parts.values()), [])
    if len(modalities) < 2:
        hint = f"; not a matrix with one row per point: {', '.join(map(repr, ignored))}" if ignored else ""
        found = ", ".join(map(repr, modalities)) or "none"
        raise InputError(f"at least two modalities are needed, but the file has {found}{hint}")
    if parts.keys() != {"all"} and ("all" in parts or not {"train", "queries"} <= parts.keys()):
        raise InputError(
            "a split file must have the parts 'train' and 'queries' ('database' is optional), "
            f"but this one has {', '.join(map(repr, parts)) or 'none'}"
        )
    for part in parts.values():
        for name, matrix in part.features().items():
            if matrix.dtype.kind not in "biuf" or matrix.ndim != 2 or 0 in matrix.shape:
                raise InputError(
                    f"{name} must be a numeric matrix with one row per point, got shape {_shape(matrix)} and type "
                    f"{matrix.dtype}"
                )
        labels = part.points.labels
        if labels.ndim not in (1, 2) or 0 in labels.shape:
            raise InputError(
                f"{part.names['labels']} must be a matrix with one row per point or a vector of class ids, "
                f"got {f'shape {_shape(labels)}' if labels.ndim else 'a scalar'}"
            )
        _check_rows(part)
    if description is not None:
        for part in parts.values():
            _check_not_swapped(part, description)
    _check_widths(list(parts.values()))
    for part in parts.values():
        for name, matrix in part.features().items():
            if sp.issparse(matrix):
                entries = sp.coo_array(matrix)
                rows, columns = (places[~np.isfinite(entries.data)] for places in entries.coords)
            else:
                rows, columns = np.nonzero(~np.isfinite(matrix))
            if len(rows):
                count = "1 value" if len(rows) == 1 else f"{len(rows)} values"
                first = f"the first in row {rows[0]}, column {columns[0]}"
                raise InputError(f"{name} contains NaN or infinity: {count}, {first}")
    if "all" in parts:
        if parts["all"].n_points < 2:
            raise InputError("at least two points are needed, but there is only one")
        return
    queries, database = parts["queries"], parts.get("database", parts["train"])
    if queries.n_points > database.n_points:
        a, b = (next(iter(part.features())) for part in (queries, database))
        raise InputError(
            f"{a} has {queries.n_points} rows but {b} has only {database.n_points}: "
            "queries and database are swapped, or the database is truncated"
        )


def _shape(array: Any) -> str:
    return " x ".join(map(str, array.shape))


def _check_rows(part: Part) -> None:
    labels, called = part.points.labels, part.names["labels"]
    shapes = {name: array.shape for name, array in part.features().items()}
    n_rows = next(iter(shapes.values()))[0]
    shapes[called] = labels.shape if labels.ndim > 1 else (len(labels), 1)
    if not sp.issparse(labels) and shapes[called][0] == 1 < n_rows:
        shapes[called] = (labels.size, 1)  # class ids may be a row vector
    if len({rows for rows, _ in shapes.values()}) == 1:
        return
    # If all matrices have one dimension in common, it is the number of points, and some matrices are transposed.
    for n_points in dict.fromkeys(side for shape in reversed(shapes.values()) for side in shape):
        if all(n_points in shape for shape in shapes.values()):
            transposed = [name for name, shape in shapes.items() if shape[0] != n_points]
            sizes = ", ".join(f"{name} has shape {shapes[name][0]} x {shapes[name][1]}" for name in transposed)
            raise InputError(f"{sizes} but there are {n_points} points: transpose it, so that each row is a point")
    counts = ", ".join(f"{name} has {shape[0]}" for name, shape in shapes.items())
    raise InputError(f"variables that describe the same points must have the same number of rows: {counts}")


def _check_widths(parts: list[Part]) -> None:
    first, *others = parts
    for other in others:
        pairs = [(part.points.modalities, part.names) for part in (first, other)]
        differing = [name for name in pairs[0][0] if len({matrices[name].shape[1] for matrices, _ in pairs}) > 1]
        widths = [{names[name]: matrices[name].shape[1] for name in differing} for matrices, names in pairs]
        if len(differing) > 1 and sorted(widths[0].values()) == sorted(widths[1].values()):
            a, b = (f"{' and '.join(names)} have {' and '.join(map(str, names.values()))}" for names in widths)
            raise InputError(f"{a} features, but {b}: one of the pairs is swapped")
        for (a, width), (b, other_width) in zip(widths[0].items(), widths[1].items(), strict=True):
            raise InputError(f"{a} has {width} features but {b} has {other_width}")


def _check_not_swapped(part: Part, description: Description) -> None:
    """Detect images stored as texts, or texts as images, by comparing their widths with the data set's."""
    image, text = description.widths["image"], description.widths["text"]
    found = [part.points.modalities[name].shape[1] for name in ("image", "text") if name in part.points.modalities]
    if found == [text, image] and image != text:
        raise InputError(
            f"{part.names['image']} and {part.names['text']} are swapped: they have {text} and {image} features, "
            f"but {description.title} has {image} image features and {text} text features"
        )


def read_labels(parts: dict[str, Part]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return the labels of each part, and a sentence for each variable in which some points have no label."""
    # All parts must have the same form: sparse indicator matrices, class ids, label names, or lists of label names.
    labels = {name: _one_form(part) for name, part in parts.items()}
    (first_part, first), *_ = labels.items()
    called = parts[first_part].names["labels"]
    n_empty: Counter[str] = Counter()
    for name, other in labels.items():
        other_called = parts[name].names["labels"]
        if _form(first) != _form(other):
            raise InputError(f"{called} and {other_called} use different label formats")
        if sp.issparse(first) and first.shape[1] != other.shape[1]:
            raise InputError(f"{called} has {first.shape[1]} labels but {other_called} has {other.shape[1]}")
        if _form(first) == "ids" and other_called != called:
            (low, high), (other_low, other_high) = ((int(ids.min()), int(ids.max())) for ids in (first, other))
            if {low, other_low} == {0, 1} and low - other_low == high - other_high:
                raise InputError(
                    f"{called} has class ids {low} to {high} but {other_called} has {other_low} to {other_high}: "
                    "one starts at 0, the other at 1"
                )
        if sp.issparse(other) or isinstance(other, list):
            lengths = np.diff(other.indptr) if sp.issparse(other) else list(map(len, other))
            n_empty[other_called] += len(lengths) - int(np.count_nonzero(lengths))
    return labels, tuple(
        f"{number} rows of {name} have no label, so no point counts as similar to them"
        for name, number in n_empty.items()
        if number
    )


def _one_form(part: Part) -> Any:
    array, name = part.points.labels, part.names["labels"]
    if sp.issparse(array) or (array.ndim == 2 and array.shape[0] == part.n_points and array.shape[1] > 1):
        if array.dtype.kind not in "biuf":
            raise InputError(f"{name} must be an indicator matrix of 0 and 1, got type {array.dtype}")
        matrix = sp.csr_array(array)
        matrix.eliminate_zeros()
        others = np.unique(matrix.data[matrix.data != 1])
        if len(others):
            shown = ", ".join(f"{value:g}" for value in others[:3])
            raise InputError(f"{name} must be an indicator matrix of 0 and 1, but it also contains {shown}")
        if matrix.nnz == 0:
            raise InputError(f"{name} contains no labels")
        return matrix.astype(np.int8)
    flat = array.ravel()
    if flat.dtype.kind == "O":
        return [list(np.ravel(row)) for row in flat]
    if flat.dtype.kind == "U":
        return flat
    ids = flat.astype(np.int64) if flat.dtype.kind in "biuf" and np.isfinite(flat).all() else None
    if ids is None or (ids != flat).any() or ids.min() < 0:
        raise InputError(f"{name} must contain class ids: whole numbers, starting at 0 or 1")
    return ids


def _form(labels: Any) -> str:
    if sp.issparse(labels):
        return "indicator"
    return "lists" if isinstance(labels, list) else {"U": "names"}.get(labels.dtype.kind, "ids")


def departures(parts: dict[str, Part], description: Description) -> tuple[str, ...]:
    """Return a sentence for each number of points or features that differs from the published data set."""
    title, notes = description.title, []
    modalities = next(iter(parts.values())).points.modalities
    for name, expected in description.widths.items():
        if name not in modalities:
            notes.append(f"modality {name!r} of {title} as published is missing")
        elif (width := modalities[name].shape[1]) != expected:
            notes.append(f"modality {name!r} has {width} features; {title} as published has {expected}")
    n_points = sum(part.n_points for name, part in parts.items() if name != "train" or "database" not in parts)
    if n_points != description.n_points:
        notes.append(f"the file has {n_points} points; {title} as published has {description.n_points}")
    return tuple(notes)
