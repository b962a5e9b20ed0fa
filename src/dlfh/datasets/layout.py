"""Names of the arrays in the file of a data set.

`Paired.write` and `Split.write` use the same layout for ``.npz``, ``.mat`` and ``.parquet`` files: one array per
modality, ``labels``, ``part`` ("train", "queries" or "database" for each point) and ``about``, a JSON object with name,
notes, label names and the order of the modalities. If the database is the training set, its points are stored
once, as "train". ``part`` and ``about`` are optional; ``is_test`` (1 for queries) may replace ``part``, and
``label_names`` may be an array.

Three conventions for MATLAB variables are read as well: ``XTest, YTest, testL, XDatabase, ...``; ``I_tr, T_tr, L_tr,
...``; and, without a split, ``XAll`` (or ``IAll``), ``YAll`` (or ``TAll``) and ``LAll``. A folder counts as one file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh.datasets.arrays import listed, read_arrays, write_arrays
from dlfh.datasets.paired import Paired, stack
from dlfh.errors import InputError, prefixed

_RESERVED = ("labels", "label_names", "is_test", "part", "about")
_PARTS = ("train", "queries", "database", "all")


class Part(NamedTuple):
    """Points in one part of a file, such as its training set."""

    points: Paired
    names: dict[str, str]  # the file's name for each modality and for "labels", for messages

    @property
    def n_points(self) -> int:
        """Number of rows of the first modality."""
        return int(next(iter(self.points.modalities.values())).shape[0])

    def features(self) -> dict[str, Any]:
        """Return the feature matrices, by their names in the file."""
        return {self.names[modality]: matrix for modality, matrix in self.points.modalities.items()}


@dataclass(frozen=True)
class Contents:
    """The data set in a file."""

    parts: dict[str, Part]  # all with the same modalities; only "all" if the file is not split
    name: str | None = None
    notes: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()  # arrays that are not modalities because they are not matrices


def read_contents(path: str | os.PathLike[str]) -> Contents:
    """Read the data set in a file, and check nothing but its layout."""
    arrays = read_arrays(path)
    with prefixed(str(path)):
        return contents_of(arrays)


def contents_of(arrays: Mapping[str, Any]) -> Contents:
    """Assign the arrays of a file to parts and modalities."""
    convention = max(_MATLAB, key=lambda parts: len(_required(parts) & arrays.keys()))
    if len(_required(convention) & arrays.keys()) >= 2:
        return Contents(_matlab_parts(arrays, convention))
    if "labels" in arrays and arrays.keys() - set(_RESERVED):
        return _read_layout(arrays)
    raise InputError(
        "it has neither the variables XTest, YTest, XDatabase, YDatabase, testL, databaseL, nor I_tr, T_tr, L_tr, "
        f"I_te, T_te, L_te, nor XAll, YAll, LAll, nor modalities with 'labels'; it contains {listed(arrays)}"
    )


def write_parts(
    path: str | os.PathLike[str], parts: Mapping[str, Paired], *, name: str | None = None, notes: Sequence[str] = ()
) -> None:
    """Write the parts of a data set to one file."""
    data = stack(list(parts.values()))
    labels, label_names = data.labels, data.label_names
    if isinstance(labels, list):
        sets = LabelSets.from_labels(labels, allow_empty=True)
        labels = sp.csr_array(sets.rows()[sets.set_of_point].astype(np.int8))
        label_names = tuple(str(name) for name in sets.names or range(sets.n_labels))
    for modality in data.modalities:
        if modality in _RESERVED:
            raise InputError(f"a modality stored in a file cannot be called {modality!r}: rename it")
    about: dict[str, Any] = {} if name is None else {"name": name, "notes": list(notes)}
    about["modalities"] = list(data.modalities)
    if label_names is not None:
        about["label_names"] = list(label_names)
    part = np.repeat(list(parts), [len(points) for points in parts.values()])
    arrays = {**data.modalities, "labels": labels, "part": part, "about": np.array(json.dumps(about))}
    write_arrays(path, arrays)


def _read_layout(arrays: Mapping[str, Any]) -> Contents:
    about = _read_about(arrays["about"]) if "about" in arrays else {}
    others = [name for name in arrays if name not in _RESERVED]
    names = about.get("modalities", [name for name in others if arrays[name].ndim == 2])
    for name in names:
        if name in _RESERVED:
            raise InputError(f"'about' is damaged: a modality cannot be called {name!r}")
        if name not in arrays:
            raise InputError(f"modality {name!r} is missing")
    for name in (*names, "labels"):
        if arrays[name].ndim == 0:
            raise InputError(f"{name!r} must have one row per point, got a scalar")
    rows = {name: arrays[name].shape[0] for name in (*names, "labels")}
    if len(set(rows.values())) != 1:
        counts = ", ".join(f"{name!r} has {count}" for name, count in rows.items())
        raise InputError(f"modalities and labels must have the same number of rows: {counts}")
    if (label_names := about.get("label_names", arrays.get("label_names"))) is not None:
        label_names = tuple(str(name) for name in _vector(label_names))
    labels = arrays["labels"]
    if not sp.issparse(labels) and labels.shape[1:] == (1,):  # class ids from a format without vectors
        labels = labels.ravel()
    parts = {}
    for part, points in _by_part(Paired({name: arrays[name] for name in names}, labels, label_names), arrays).items():
        called = {name: name if part == "all" else f"{name} of {part}" for name in names}
        parts[part] = Part(points, called | {"labels": "labels"})
    ignored = tuple(name for name in others if name not in names and arrays[name].ndim != 2)
    return Contents(parts, about.get("name"), tuple(about.get("notes", ())), ignored)


def _read_about(stored: Any) -> dict[str, Any]:
    try:
        about = json.loads(str(np.asarray(stored).item()))
    except (RecursionError, TypeError, ValueError):
        about = None
    if not isinstance(about, dict):
        raise InputError("'about' is damaged: it is not a JSON object")
    about = {field: value for field, value in about.items() if value is not None}
    if not isinstance(about.get("name", ""), str):
        raise InputError(f"'about' is damaged: 'name' must be a string, got {about['name']!r}")
    for field, kinds in (("notes", str), ("modalities", str), ("label_names", str | int | float)):
        values = about.get(field, [])
        if not isinstance(values, list) or not all(isinstance(value, kinds) for value in values):
            raise InputError(f"'about' is damaged: {field!r} must be a list of strings, got {values!r}")
    return about


def _vector(array: Any) -> Any:
    return np.ravel(array.toarray() if sp.issparse(array) else array)


def _by_part(data: Paired, arrays: Mapping[str, Any]) -> dict[str, Paired]:
    if "part" in arrays:
        source, parts = "part", _vector(arrays["part"])
    elif "is_test" in arrays:
        source, is_test = "is_test", _vector(arrays["is_test"])
        if is_test.dtype.kind not in "biuf" or not np.isin(is_test, (0, 1)).all():
            raise InputError("'is_test' must be 1 for queries and 0 for all other points")
        parts = np.where(is_test == 1, "queries", "train")
    else:
        return {"all": data}
    if len(parts) != len(data):
        raise InputError(f"{source!r} has {len(parts)} entries but there are {len(data)} points")
    found = set(map(str, parts.tolist()))
    if not found <= set(_PARTS):
        raise InputError(f"'part' must contain only 'train', 'queries' and 'database', got {sorted(found)}")
    return {part: data.take(np.flatnonzero(parts == part)) for part in _PARTS if part in found}


#: Variables of each part in each convention.
_MATLAB: tuple[dict[str, dict[str, str]], ...] = (
    {
        part: {"image": f"X{called}", "text": f"Y{called}", "cnn": f"V{called}", "labels": f"{called.lower()}L"}
        for part, called in (("train", "Database"), ("queries", "Test"))
    },
    {
        part: {"image": f"I_{suffix}", "text": f"T_{suffix}", "labels": f"L_{suffix}"}
        for part, suffix in (("train", "tr"), ("queries", "te"), ("database", "db"))
    },
    *(
        {"all": {"image": image, "text": text, "labels": "LAll"}}
        for image, text in (("XAll", "YAll"), ("IAll", "TAll"), ("IAll", "YAll"))
    ),
)


def _required(convention: dict[str, dict[str, str]]) -> set[str]:
    return {name for names in convention.values() for modality, name in names.items() if modality != "cnn"}


def _matlab_parts(arrays: Mapping[str, Any], convention: dict[str, dict[str, str]]) -> dict[str, Part]:
    present = {
        part: names for part, names in convention.items() if part != "database" or arrays.keys() & set(names.values())
    }

    def has(modality: str) -> list[bool]:
        return [names.get(modality) in arrays for names in present.values()]

    # All parts have the same modalities. Network features ("cnn") are used if every part has them, and image features
    # are then optional.
    dropped = "cnn" if not all(has("cnn")) else "" if any(has("image")) else "image"
    parts = {}
    for part, names in present.items():
        used = {modality: name for modality, name in names.items() if modality != dropped}
        for name in used.values():
            if name not in arrays:
                raise InputError(f"the variable {name!r} is missing; the file contains {listed(arrays)}")
        values = {modality: arrays[name] for modality, name in used.items()}
        labels = values.pop("labels")
        parts[part] = Part(Paired(values, labels), used)
    return parts
