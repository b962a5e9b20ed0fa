"""Problems found in input, and reserved modality names; separate from `items`, which a search does not import."""

from __future__ import annotations

from dataclasses import dataclass

#: The modality that `Items.with_label_words` adds.
LABEL_WORDS = "label"

#: Keys of item metadata besides the names of modalities.
RESERVED_NAMES = frozenset({"columns", "contents", "labels"})


@dataclass(frozen=True)
class Problem:
    """Input that was skipped.

    where: Position in the input, such as ``items.csv, line 7``.
    skipped: ``item``, or the name of the modality that the item lacks.
    """

    where: str
    skipped: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"
