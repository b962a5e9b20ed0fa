"""Statistics of the published data sets, used to check files and to generate data of the same shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from dlfh.errors import InputError

GENERATED = "generated:"  #: Prefix of the names of generated data sets.


@dataclass(frozen=True)
class Description:
    """A data set as used in the literature.

    Numbers of label sets, labels per point and words per text are approximate for MIRFLICKR-25K and NUS-WIDE.
    """

    key: str  # name in programs
    title: str  # name in text
    n_points: int
    n_queries: int
    widths: Mapping[str, int]  # number of features of each modality
    n_labels: int
    n_label_sets: int
    labels_per_point: float
    words_per_text: float
    modalities: Mapping[str, str] = field(default_factory=lambda: {"image": "image", "text": "text"})  # names in files
    notes: tuple[str, ...] = ()


DATA_SETS: dict[str, Description] = {
    description.key: description
    for description in (
        Description("wiki", "Wiki", 2866, 693, {"image": 128, "text": 10}, 10, 10, 1.0, 10.0),
        Description("mirflickr-25k", "MIRFLICKR-25K", 20015, 2000, {"image": 512, "text": 1386}, 24, 2000, 3.8, 5.0),
        Description("nus-wide", "NUS-WIDE", 186577, 1867, {"image": 500, "text": 1000}, 10, 700, 1.9, 7.0),
        replace(
            Description("iapr-tc12", "IAPR TC-12", 19626, 1962, {"image": 512, "text": 2912}, 291, 16201, 5.7, 11.8),
            modalities={"image": "image", "text": "english"},
            notes=("the labels were derived from the English captions: not comparable with published results",),
        ),
    )
}


def describe(name: str) -> Description:
    """Return the description of a data set by key or title; case, dashes and spaces do not matter."""
    wanted = _letters_and_digits(name)
    matches = [known for known in DATA_SETS.values() if wanted and _letters_and_digits(known.key).startswith(wanted)]
    if len(matches) != 1:
        raise InputError(f"unknown data set {name!r}: the known ones are {', '.join(map(repr, DATA_SETS))}")
    return matches[0]


def canonical_name(name: str) -> str:
    """Return the key of a data set, prefixed if it is generated; return other names, such as paths, unchanged."""
    if name.startswith(GENERATED):
        return GENERATED + describe(name.removeprefix(GENERATED)).key
    if Path(name).name != name or Path(name).suffix:
        return name
    try:
        return describe(name).key
    except InputError:
        return name


def _letters_and_digits(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
