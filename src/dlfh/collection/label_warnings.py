"""What labels say before anything is learned from them or measured by them, if they say that something is wrong."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from dlfh.errors import DataWarning

__all__ = ["warn_of_labels", "warn_of_strangers"]

Labels = Sequence[Sequence[str]]


def warn_of_labels(labels: Labels) -> None:
    """Warn if labels make all items right answers to each other, or none.

    Parameters
    ----------
    labels : sequence of lists of str
        Of each item; those without labels say nothing.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always")
    ...     warn_of_labels([["a"], ["b"], ["c"]])
    >>> print(caught[0].message)
    no two of 3 items share a label, so that none is a right answer to another: is it the right column, and are labels
    separated as they should be?
    """
    labelled = [own for own in labels if own]
    if len(labelled) < 2:
        return
    counts = Counter(label for own in labelled for label in {*own})
    label, most = counts.most_common(1)[0]
    if most == len(labelled):
        _warn(
            f"all of {most:,} items have the label {label[:60]!r}, so that each is a right answer to every other: "
            "there is nothing to tell them apart by"
        )
    elif most == 1:
        _warn(
            f"no two of {len(labelled):,} items share a label, so that none is a right answer to another: is it the "
            "right column, and are labels separated as they should be?"
        )


def warn_of_strangers(queries: Labels, database: Labels) -> None:
    """Warn if no label of the queries is one of the database.

    Parameters
    ----------
    queries, database : sequence of lists of str
    """
    asked, known = ({label for own in labels for label in own} for labels in (queries, database))
    if asked and known and not asked & known:
        _warn(
            f"queries and database share no label, so that no answer is right: the queries have such as "
            f"{min(asked)[:60]!r}, the database such as {min(known)[:60]!r}"
        )


def _warn(sentence: str) -> None:
    warnings.warn(sentence, DataWarning, stacklevel=3)
