"""What of the input is left out, and the names that modalities do not have; apart, since a search reads no items."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LABEL_WORDS", "RESERVED_NAMES", "Problem"]

#: The modality that `Items.with_label_words` makes of labels.
LABEL_WORDS = "label"

#: What metadata hold beside the texts and images of an item, by their modalities' names.
RESERVED_NAMES = frozenset({"columns", "contents", "labels"})


@dataclass(frozen=True)
class Problem:
    """Something of the input that is left out.

    Attributes
    ----------
    where : str
        The place in the input, such as ``items.csv, line 7``.
    lost : str
        What is left out: ``item``, or the name of one of its modalities.
    reason : str
    """

    where: str
    lost: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"
