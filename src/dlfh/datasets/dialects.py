"""The names under which files keep training points, queries and database.

Two dialects of MATLAB variables circulate, and there is the layout of `dlfh.datasets.layout`. Whichever it is,
the outcome is parts: the features of each modality and the labels, each with the name it has in the file, so
that what is wrong can be said in the file's own words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from dlfh.datasets.layout import Layout, is_layout, read_layout
from dlfh.errors import InputError

__all__ = ["Contents", "Part", "Variable", "contents_of"]


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


@dataclass(frozen=True)
class Contents:
    """What a file holds: parts of the data, and what it says of them.

    Attributes
    ----------
    parts : dict of str to Part
        With the same modalities in each.
    name : str, optional
    notes : tuple of str
    left_out : tuple of str
        Arrays that could have been modalities, if they were matrices.
    """

    parts: dict[str, Part]
    name: str | None = None
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


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
# Files with features of a network may do without others of the images.
_STAND_INS = {"image": "cnn"}


def contents_of(arrays: Mapping[str, Any]) -> Contents:
    """Return what a file holds: train and queries, perhaps a database; or all points together.

    Raises
    ------
    InputError
        If the file speaks no known dialect, or leaves out a word.
    """
    dialect = max(_DIALECTS, key=lambda names: len(_words(names) & arrays.keys()))
    if len(_words(dialect) & arrays.keys()) >= 2:
        return Contents(_parts_in_dialect(arrays, dialect))
    if is_layout(arrays):
        return _contents_of_layout(read_layout(arrays))
    raise InputError(
        "it has neither the variables XTest, YTest, XDatabase, YDatabase, testL, databaseL nor I_tr, T_tr, L_tr, "
        f"I_te, T_te, L_te, nor modalities with 'labels'; it holds {_listed(arrays)}"
    )


def _parts_in_dialect(arrays: Mapping[str, Any], dialect: dict[str, _Names]) -> dict[str, Part]:
    present = {
        part: names
        for part, names in dialect.items()
        if part not in _OPTIONAL_PARTS or {*names.features.values(), names.labels} & arrays.keys()
    }
    words = {part: names.features | names.optional for part, names in present.items()}

    def has(modality: str) -> list[bool]:
        return [own.get(modality) in arrays for own in words.values()]

    # All parts have the same modalities: what only some of them have is missing, or can be left out.
    left_out = {modality for names in present.values() for modality in names.optional if not all(has(modality))}
    left_out |= {modality for modality, other in _STAND_INS.items() if not any(has(modality)) and all(has(other))}
    return {
        part: Part(
            {modality: _variable(arrays, word) for modality, word in words[part].items() if modality not in left_out},
            _variable(arrays, names.labels),
        )
        for part, names in present.items()
    }


def _words(dialect: dict[str, _Names]) -> set[str]:
    return {word for names in dialect.values() for word in (*names.features.values(), names.labels)}


def _variable(arrays: Mapping[str, Any], name: str) -> Variable:
    if name not in arrays:
        raise InputError(f"the variable {name!r} is missing; it holds {_listed(arrays)}")
    return Variable(name, arrays[name])


def _listed(arrays: Mapping[str, Any]) -> str:
    return ", ".join(repr(name) for name in sorted(arrays)) or "nothing"


def _contents_of_layout(layout: Layout) -> Contents:
    divided = layout.parts.keys() != {"all"}
    parts = {
        part: Part(
            {
                name: Variable(f"{name} of {part}" if divided else name, matrix)
                for name, matrix in points.modalities.items()
            },
            # Not by part: the labels of all parts are one array.
            Variable("labels", points.labels),
            points.label_names,
        )
        for part, points in layout.parts.items()
    }
    return Contents(parts, layout.name, layout.notes, layout.left_out)
