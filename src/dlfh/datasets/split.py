"""Data as experiments use it: training points, queries, and the database that is searched."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from dlfh._validation import check_integer, check_random_state
from dlfh.datasets.paired import Paired
from dlfh.errors import InputError

__all__ = ["Split"]


@dataclass(frozen=True)
class Split:
    """Training points, queries and database of one data set.

    In the paper's protocol the database is the training set, and the two are one object. A database that
    training never saw shows what a user's new items get.

    Attributes
    ----------
    name : str
        What to call the data in a table.
    train, queries, database : Paired
    notes : tuple of str
        In what the data differ from what their name promises, a sentence each.
    as_published : bool
        Whether numbers of points and features are those of the data set as published; `load_dataset` finds out. Points
        that it leaves out on request do not count against it.

    Examples
    --------
    >>> from dlfh.datasets import make_paired
    >>> split = Split.by_protocol(make_paired(1000, random_state=0), n_queries=100, random_state=0)
    >>> len(split.train), len(split.queries), split.database is split.train
    (900, 100, True)
    >>> unseen = split.with_unseen_database(300, random_state=0)
    >>> len(unseen.train), len(unseen.queries), len(unseen.database)
    (600, 100, 300)
    """

    name: str
    train: Paired
    queries: Paired
    database: Paired
    notes: tuple[str, ...] = ()
    as_published: bool = False

    @classmethod
    def by_protocol(
        cls,
        data: Paired,
        n_queries: int,
        *,
        random_state: int | None = 0,
        name: str = "data",
        notes: tuple[str, ...] = (),
    ) -> Split:
        """Draw the queries at random; the rest is both training set and database, as in the paper.

        Parameters
        ----------
        data : Paired
        n_queries : int
            The paper takes 2,000 of MIRFLICKR-25K and 1,867 of NUS-WIDE.
        random_state : int, optional
        name : str
        notes : tuple of str
        """
        check_integer(n_queries, "n_queries", 1)
        if n_queries >= len(data):
            raise InputError(f"n_queries is {n_queries} but there are only {len(data)} points")
        train, queries = data.split(n_queries, random_state)
        return cls(name, train, queries, train, notes)

    def with_unseen_database(self, n_points: int, *, random_state: int | None = 0) -> Split:
        """Hold ``n_points`` of the training set out of training, as the database.

        If the split has a database of its own, that is left aside.
        """
        check_integer(n_points, "n_points", 1)
        if n_points >= len(self.train):
            raise InputError(f"n_points is {n_points} but there are only {len(self.train)} training points")
        order = check_random_state(random_state).permutation(len(self.train))
        unseen, train = np.sort(order[:n_points]), np.sort(order[n_points:])
        return replace(self, train=self.train.take(train), database=self.train.take(unseen))


def stack(parts: list[Paired]) -> Paired:
    """Return the points of all parts, which have the same modalities and the same form of labels."""

    def stacked(arrays: list[object]) -> object:
        if any(sp.issparse(array) for array in arrays):
            return sp.csr_array(sp.vstack(arrays, format="csr"))
        if all(isinstance(array, list) for array in arrays):
            return [row for array in arrays for row in array]  # type: ignore[attr-defined]
        return np.concatenate([np.asarray(array) for array in arrays])

    if len(parts) == 1:
        return parts[0]
    modalities = {name: stacked([part.modalities[name] for part in parts]) for name in parts[0].modalities}
    return Paired(modalities, stacked([part.labels for part in parts]), parts[0].label_names)
