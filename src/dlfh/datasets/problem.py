"""Problems found in input, and reserved modality names; separate from `items`, which searches do not import."""

from __future__ import annotations

from dataclasses import dataclass

from dlfh.errors import InputError

LABEL_WORDS = "label"  #: The modality that `Items.with_label_words` adds.
RESERVED_NAMES = frozenset({"columns", "contents", "labels"})  #: Keys of item metadata besides the names of modalities.


@dataclass(frozen=True)
class Problem:
    """Input that was skipped."""

    where: str  # position in the input, such as "items.csv, line 7"
    skipped: str  # "item", the name of the modality that the item lacks, or a kind of file, such as ".svg file"
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


def check_skipped(n_skipped: int, n_all: int, max_skipped: float, called: str, example: object) -> None:
    """Raise InputError if more than ``max_skipped`` of the input was skipped, because the source may be wrong."""
    if n_skipped > max_skipped * n_all:
        raise InputError(
            f"{n_skipped:,} of the {n_all:,} {called} cannot be read ({example}), and at most {max_skipped:.0%} may be "
            "skipped: check the source, or allow it with max_skipped=1 (--max-skipped 1)"
        )
