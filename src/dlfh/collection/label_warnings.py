"""Warnings about labels that make every item relevant to every other, or none."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from dlfh.errors import DataWarning

Labels = Sequence[Sequence[str]]


def warn_of_labels(labels: Labels) -> None:
    """Warn if all labelled items share a label, or no two do."""
    labelled = [item for item in labels if item]
    if len(labelled) < 2:
        return
    label, n = Counter(label for item in labelled for label in {*item}).most_common(1)[0]
    if n == len(labelled):
        _warn(
            f"all {n:,} items have the label {label[:60]!r}, so every item is relevant to every other: use labels that "
            "distinguish them"
        )
    elif n == 1:
        _warn(
            f"no two of {len(labelled):,} items share a label, so no item is relevant to another: check the column and "
            "the separator of labels"
        )


def warn_of_disjoint_labels(queries: Labels, database: Labels) -> None:
    """Warn if queries and database have no label in common."""
    searched, stored = ({label for item in labels for label in item} for labels in (queries, database))
    if searched and stored and not searched & stored:
        _warn(
            "queries and database share no label, so no item is relevant: a label of the queries is "
            f"{min(searched)[:60]!r}, one of the database {min(stored)[:60]!r}"
        )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, DataWarning, stacklevel=3)
