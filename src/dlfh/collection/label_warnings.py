"""Warnings about labels that make every item relevant to every other, or none."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from dlfh.errors import DataWarning

__all__ = ["warn_of_disjoint_labels", "warn_of_labels"]

Labels = Sequence[Sequence[str]]


def warn_of_labels(labels: Labels) -> None:
    """Warn if all labelled items share a label, or no two do.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_labels([["a"], ["b"], ["c"]])
    >>> print(caught[0].message)
    no two of 3 items share a label, so no item is relevant to another: check the column and the separator of labels
    """
    labelled = [own for own in labels if own]
    if len(labelled) < 2:
        return
    label, n = Counter(label for own in labelled for label in {*own}).most_common(1)[0]
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
    asked, known = ({label for own in labels for label in own} for labels in (queries, database))
    if asked and known and not asked & known:
        _warn(
            "queries and database share no label, so no item is relevant: a label of the queries is "
            f"{min(asked)[:60]!r}, one of the database {min(known)[:60]!r}"
        )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, DataWarning, stacklevel=3)
