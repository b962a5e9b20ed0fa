"""The names under which files keep training points, queries and database.

Two dialects of MATLAB variables circulate, and there is the layout of `dlfh.datasets.layout`. Whichever it is,
the outcome is parts: the features of each modality and the labels, each with the name it has in the file, so
that what is wrong can be said in the file's own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dlfh.datasets.layout import is_layout, read_layout
from dlfh.errors import InputError

__all__ = ["Part", "Variable", "parts_of"]


class Variable(NamedTuple):
    """An array and what the file calls it."""

    name: str
    array: Any


@dataclass(frozen=True)
class Part:
    """Points of one part of the data: its features by modality, and its labels."""

    features: dict[str, Variable]
    labels: Variable
    label_names: tuple[str, ...] | None = None


class _Names(NamedTuple):
    features: dict[str, str]
    labels: str
    optional: dict[str, str]


_DIALECTS: tuple[dict[str, _Names], ...] = (
    {
        "train": _Names({"image": "XDatabase", "text": "YDatabase"}, "databaseL", {"cnn": "VDatabase"}),
        "queries": _Names({"image": "XTest", "text": "YTest"}, "testL", {"cnn": "VTest"}),
    },
    {
        part: _Names({"image": f"I_{suffix}", "text": f"T_{suffix}"}, f"L_{suffix}", {})
        for part, suffix in (("train", "tr"), ("queries", "te"), ("database", "db"))
    },
)
_OPTIONAL_PARTS = ("database",)


def parts_of(arrays: Mapping[str, Any]) -> dict[str, Part]:
    """Return the parts that a file holds: train and queries, perhaps a database; or all points together.

    Raises
    ------
    InputError
        If the file speaks no known dialect, or leaves out a word.
    """
    dialect = max(_DIALECTS, key=lambda names: len(_words(names) & arrays.keys()))
    if len(_words(dialect) & arrays.keys()) < 2:
        if is_layout(arrays):
            return _parts_of_layout(arrays)
        raise InputError(
            "it has neither the variables XTest, YTest, XDatabase, YDatabase, testL, databaseL nor I_tr, T_tr, L_tr, "
            f"I_te, T_te, L_te, nor modalities with 'labels'; it holds {_listed(arrays)}"
        )
    parts = {}
    for part, names in dialect.items():
        if part in _OPTIONAL_PARTS and not {*names.features.values(), names.labels} & arrays.keys():
            continue
        extra = {modality: name for modality, name in names.optional.items() if name in arrays}
        parts[part] = Part(
            {modality: _variable(arrays, name) for modality, name in {**names.features, **extra}.items()},
            _variable(arrays, names.labels),
        )
    return parts


def _words(dialect: dict[str, _Names]) -> set[str]:
    return {word for names in dialect.values() for word in (*names.features.values(), names.labels)}


def _variable(arrays: Mapping[str, Any], name: str) -> Variable:
    if name not in arrays:
        raise InputError(f"the variable {name!r} is missing; it holds {_listed(arrays)}")
    return Variable(name, arrays[name])


def _listed(arrays: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in sorted(arrays)) or "nothing"


def _parts_of_layout(arrays: Mapping[str, Any]) -> dict[str, Part]:
    return {
        part: Part(
            {name: Variable(name, matrix) for name, matrix in points.modalities.items()},
            Variable("labels", points.labels),
            points.label_names,
        )
        for part, points in read_layout(arrays).parts.items()
    }
