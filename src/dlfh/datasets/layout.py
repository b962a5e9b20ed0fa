"""One layout for every data set: an array per modality, the labels, and which part each point belongs to.

The same names serve ``.npz``, ``.mat`` and ``.parquet`` files. ``part`` holds "train", "queries" or "database"
per point; points of a database that is the training set are there once, as "train". ``about`` holds the rest as JSON:
name, notes, names of labels, and the order of the modalities. A file with modalities, ``labels`` and perhaps
``label_names`` and ``is_test`` alone is of this layout, too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh.datasets.arrays import read_arrays, write_arrays
from dlfh.datasets.paired import Paired
from dlfh.datasets.split import Split, stack
from dlfh.errors import InputError

__all__ = ["is_layout", "read_layout", "read_paired", "read_split", "write_paired", "write_split"]

_RESERVED = ("labels", "label_names", "is_test", "part", "about")


class Layout(NamedTuple):
    """What a file holds: points by part ("all" if they are not divided), the data's name if it has one, and notes.

    Arrays that are no matrices are left out, unless the file says that they are modalities.
    """

    parts: dict[str, Paired]
    name: str | None
    notes: tuple[str, ...]
    left_out: tuple[str, ...]


def write_paired(path: str | os.PathLike[str], data: Paired) -> None:
    """Write a data set that is not split; `read_paired` gives it back.

    Parameters
    ----------
    path : path of a file
        With one of the suffixes ``.npz`` and ``.parquet``; ``.mat`` for MATLAB.
    data : Paired
        Lists of labels become a sparse indicator matrix with names.

    Examples
    --------
    >>> import os, tempfile
    >>> from dlfh.datasets import make_paired
    >>> path = os.path.join(tempfile.mkdtemp(), "data.npz")
    >>> write_paired(path, make_paired(100, random_state=0))
    >>> len(read_paired(path))
    100
    """
    write_arrays(path, _arrays({"all": data}, {}))


def read_paired(path: str | os.PathLike[str]) -> Paired:
    """Read all points of a file that `write_paired` or `write_split` wrote."""
    return stack(list(_read(path).parts.values()))


def write_split(path: str | os.PathLike[str], split: Split) -> None:
    """Write a split data set; `read_split` gives it back.

    Parameters
    ----------
    path : path of a file
        As for `write_paired`.
    split : Split

    Examples
    --------
    >>> import os, tempfile
    >>> from dlfh.datasets import make_paired
    >>> path = os.path.join(tempfile.mkdtemp(), "data.npz")
    >>> write_split(path, Split.by_protocol(make_paired(100, random_state=0), n_queries=10, name="tiny"))
    >>> split = read_split(path)
    >>> split.name, len(split.queries), split.database is split.train
    ('tiny', 10, True)
    """
    own = {} if split.database is split.train else {"database": split.database}
    parts = {"train": split.train, "queries": split.queries, **own}
    write_arrays(path, _arrays(parts, {"name": split.name, "notes": list(split.notes)}))


def read_split(path: str | os.PathLike[str]) -> Split:
    """Read a split data set, as `write_split` wrote it; one without a name is called as its file."""
    layout = _read(path)
    missing = [part for part in ("train", "queries") if part not in layout.parts]
    if missing:
        raise InputError(f"{path} is not split: it has no points of part {missing[0]!r}; use read_paired")
    train = layout.parts["train"]
    name = Path(path).stem if layout.name is None else layout.name
    return Split(name, train, layout.parts["queries"], layout.parts.get("database", train), layout.notes)


def _read(path: str | os.PathLike[str]) -> Layout:
    arrays = read_arrays(path)
    try:
        if not is_layout(arrays):
            raise InputError(f"it has no modalities with 'labels', but {', '.join(map(repr, sorted(arrays)))}")
        return read_layout(arrays)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def is_layout(arrays: Mapping[str, Any]) -> bool:
    """Return whether there are labels and anything that they could be labels of."""
    return "labels" in arrays and bool(arrays.keys() - set(_RESERVED))


def read_layout(arrays: Mapping[str, Any]) -> Layout:
    """Return what the arrays of a file hold."""
    about = _about(arrays["about"]) if "about" in arrays else {}
    others = [name for name in arrays if name not in _RESERVED]
    names = about.get("modalities", [name for name in others if arrays[name].ndim == 2])
    for name in names:
        if name in _RESERVED:
            raise InputError(f"'about' is damaged: a modality cannot be called {name!r}")
        if name not in arrays:
            raise InputError(f"modality {name!r} is missing")
    for name in (*names, "labels"):
        if arrays[name].ndim == 0:
            raise InputError(f"{name!r} must have a row per point, got a single value")
    rows = {name: arrays[name].shape[0] for name in (*names, "labels")}
    if len(set(rows.values())) != 1:
        raise InputError("rows differ: " + ", ".join(f"{name!r} has {count}" for name, count in rows.items()))
    label_names = about.get("label_names", arrays.get("label_names"))
    data = Paired(
        {name: arrays[name] for name in names},
        _labels(arrays["labels"]),
        None if label_names is None else tuple(str(name) for name in _vector(label_names)),
    )
    left_out = tuple(name for name in others if name not in names and arrays[name].ndim != 2)
    return Layout(_by_part(data, arrays), about.get("name"), tuple(about.get("notes", ())), left_out)


def _about(stored: Any) -> dict[str, Any]:
    try:
        about = json.loads(str(np.asarray(stored).item()))
    except (RecursionError, TypeError, ValueError):
        about = None
    if not isinstance(about, dict):
        raise InputError("'about' is damaged: it is not a JSON object")
    about = {field: value for field, value in about.items() if value is not None}
    if not isinstance(about.get("name", ""), str):
        raise InputError(f"'about' is damaged: its 'name' must be a text, got {about['name']!r}")
    for field, kinds in (("notes", str), ("modalities", str), ("label_names", str | int | float)):
        values = about.get(field, [])
        if not isinstance(values, list) or not all(isinstance(value, kinds) for value in values):
            raise InputError(f"'about' is damaged: its {field!r} must be a list of texts, got {values!r}")
    return about


def _labels(labels: Any) -> Any:
    """Return class ids as a vector, whether or not the format has vectors."""
    return labels.ravel() if not sp.issparse(labels) and labels.shape[1:] == (1,) else labels


def _vector(array: Any) -> Any:
    return np.ravel(array.toarray() if sp.issparse(array) else array)


def _by_part(data: Paired, arrays: Mapping[str, Any]) -> dict[str, Paired]:
    if "part" in arrays:
        parts = _vector(arrays["part"])
    elif "is_test" in arrays:
        parts = _parts_by_test(_vector(arrays["is_test"]))
    else:
        return {"all": data}
    if len(parts) != len(data):
        raise InputError(f"there are {len(data)} points, and the parts of {len(parts)}")
    found = set(map(str, parts.tolist()))
    order = ("train", "queries", "database", "all")
    if not found <= set(order):
        raise InputError(f"'part' must hold 'train', 'queries' and 'database', got {sorted(found)}")
    return {part: data.take(np.flatnonzero(parts == part)) for part in order if part in found}


def _parts_by_test(is_test: Any) -> Any:
    if is_test.dtype.kind not in "biuf" or not np.isin(is_test, (0, 1)).all():
        raise InputError("'is_test' must hold 1 for queries and 0 for the others")
    return np.where(is_test == 1, "queries", "train")


def _arrays(parts: Mapping[str, Paired], about: dict[str, Any]) -> dict[str, Any]:
    data = stack(list(parts.values()))
    labels, label_names = data.labels, data.label_names
    if isinstance(labels, list):
        labels, label_names = _as_indicator(labels)
    for name in data.modalities:
        if name in _RESERVED:
            raise InputError(f"a modality cannot be called {name!r} in a file; rename it")
    about = {**about, "modalities": list(data.modalities)}
    if label_names is not None:
        about["label_names"] = list(label_names)
    part = np.repeat(list(parts), [len(points) for points in parts.values()])
    return {**data.modalities, "labels": labels, "part": part, "about": np.array(json.dumps(about))}


def _as_indicator(labels: list[Any]) -> tuple[sp.csr_array, tuple[str, ...]]:
    sets = LabelSets.from_labels(labels, allow_empty=True)
    ones = np.ones(len(sets.labels), np.int8)
    indicator = sp.csr_array((ones, sets.labels, sets.starts), shape=(sets.n_sets, sets.n_labels))[sets.set_of_point]
    return sp.csr_array(indicator), tuple(str(name) for name in sets.names or range(sets.n_labels))
