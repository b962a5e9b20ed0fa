"""What the field's data sets look like: enough to recognise a file, and to generate data of the same shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dlfh.errors import InputError

__all__ = ["DATA_SETS", "Description", "describe"]


@dataclass(frozen=True)
class Description:
    """A data set as the literature uses it.

    Attributes
    ----------
    key, title : str
        What programs and people call it.
    n_points, n_queries : int
    widths : mapping of str to int
        How many features each modality has.
    n_labels : int
    n_label_sets : int
        How many different label sets occur.
    labels_per_point, words_per_text : float
    is_exact : bool
        Whether the last three were counted; otherwise they are of about that size.
    modalities : mapping of str to str
        Which array of a file is which modality, where names differ.
    notes : tuple of str
    """

    key: str
    title: str
    n_points: int
    n_queries: int
    widths: Mapping[str, int]
    n_labels: int
    n_label_sets: int
    labels_per_point: float
    words_per_text: float
    is_exact: bool
    modalities: Mapping[str, str] = field(default_factory=lambda: {"image": "image", "text": "text"})
    notes: tuple[str, ...] = ()


#: The data sets that have loaders and generators.
DATA_SETS: dict[str, Description] = {
    description.key: description
    for description in (
        Description("wiki", "Wiki", 2866, 693, {"image": 128, "text": 10}, 10, 10, 1.0, 10.0, True),
        Description(
            "mirflickr-25k", "MIRFLICKR-25K", 20015, 2000, {"image": 512, "text": 1386}, 24, 2000, 3.8, 5.0, False
        ),
        Description("nus-wide", "NUS-WIDE", 186577, 1867, {"image": 500, "text": 1000}, 10, 700, 1.9, 7.0, False),
        Description(
            "iapr-tc12",
            "IAPR TC-12",
            19626,
            1962,
            {"image": 512, "text": 2912},
            291,
            16201,
            5.7,
            11.8,
            True,
            {"image": "image", "text": "english"},
            ("the labels were derived from the English captions: not comparable with published results",),
        ),
    )
}


def describe(name: str) -> Description:
    """Return the description of a data set by its key or title, in any spelling of case, dashes and blanks.

    Examples
    --------
    >>> describe("NUS-WIDE").n_queries, describe("mirflickr").n_labels
    (1867, 24)
    """
    wanted = _plain(name) if isinstance(name, str) else ""
    found = [known for known in DATA_SETS.values() if wanted and _plain(known.key).startswith(wanted)]
    if len(found) != 1:
        raise InputError(f"there is no data set {name!r}, but {', '.join(map(repr, DATA_SETS))}")
    return found[0]


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())
