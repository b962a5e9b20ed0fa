"""Paired data: points described in several modalities, with labels, and their split into queries and database."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Integers
from dlfh._sparse import compressed_rows
from dlfh._validation import check_integer, check_random_state
from dlfh.errors import InputError


@dataclass(frozen=True)
class Paired:
    """Labelled points described in several modalities.

    Attributes
    ----------
    modalities : dict of str to ndarray or CSR matrix (n, features)
    labels : ndarray, CSR matrix or list
        In any form that ``fit`` accepts, one entry or row per point.
    label_names : tuple of str, optional
        Column names of an indicator matrix.

    Examples
    --------
    >>> data = Paired({"image": np.eye(4), "text": np.eye(4)}, ["a", "b", "a", "b"])
    >>> train, test = data.split(test_size=1)
    >>> len(train), len(test)
    (3, 1)
    """

    modalities: dict[str, Any]
    labels: Any
    label_names: tuple[str, ...] | None = None

    def __len__(self) -> int:
        return self.labels.shape[0] if hasattr(self.labels, "shape") else len(self.labels)

    def take(self, rows: Integers) -> Paired:
        """Return the points in ``rows``."""
        labels = _take(self.labels, rows, "labels")
        modalities = {name: _take(matrix, rows, f"modality {name!r}") for name, matrix in self.modalities.items()}
        return Paired(modalities, labels, self.label_names)

    def split(self, test_size: int, random_state: int | None = 0) -> tuple[Paired, Paired]:
        """Return a random split into training points and ``test_size`` test points."""
        test, train = draw_rows(len(self), test_size, "test_size", random_state)
        return self.take(train), self.take(test)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Paired:
        """Read all points of a file, whether or not it is split.

        Parameters
        ----------
        path : path of a file
            A file written by `Paired.write` or `Split.write`, or any other file with the arrays that `load_dataset`
            describes. Unlike `load_dataset`, this returns the arrays unchanged and unchecked.
        """
        from dlfh.datasets.layout import read_contents  # which imports this module

        return stack([part.points for part in read_contents(path).parts.values()])

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the points to a ``.npz``, ``.parquet`` or ``.mat`` file.

        Lists of labels are stored as a sparse indicator matrix with names.

        Examples
        --------
        >>> import os, tempfile
        >>> from dlfh.datasets import make_paired
        >>> path = os.path.join(tempfile.mkdtemp(), "data.npz")
        >>> make_paired(100, random_state=0).write(path)
        >>> len(Paired.read(path))
        100
        """
        from dlfh.datasets.layout import write_parts

        write_parts(path, {"all": self})


@dataclass(frozen=True)
class Split:
    """Training points, queries and database of one data set.

    In the paper's protocol, the database is the training set, and both are the same object. A separate database
    measures how well new items are found.

    Attributes
    ----------
    name : str
        Title of the data in tables.
    train, queries, database : Paired
    notes : tuple of str
        One sentence for each difference from the published data set.
    as_published : bool
        Whether the file has the published numbers of points and features. Points that `load_dataset` dropped on
        request are counted.

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
        """Draw the queries at random; the remaining points are both training set and database, as in the paper.

        Parameters
        ----------
        data : Paired
        n_queries : int
            The paper draws 2,000 from MIRFLICKR-25K and 1,867 from NUS-WIDE.
        random_state : int, optional
            Random seed.
        name : str
        notes : tuple of str
        """
        queries, train = draw_rows(len(data), n_queries, "n_queries", random_state)
        rest = data.take(train)
        return cls(name, rest, data.take(queries), rest, notes)

    def with_unseen_database(self, n_points: int, *, random_state: int | None = 0) -> Split:
        """Move ``n_points`` training points into a separate database; any previous database is discarded."""
        unseen, train = draw_rows(len(self.train), n_points, "n_points", random_state, "training points")
        return replace(self, train=self.train.take(train), database=self.train.take(unseen))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Split:
        """Read a split data set from a file; see `Paired.read`. The name is the file's stem if it stores none."""
        from dlfh.datasets.layout import read_contents  # which imports this module

        contents = read_contents(path)
        points = {name: part.points for name, part in contents.parts.items()}
        if missing := [name for name in ("train", "queries") if name not in points]:
            raise InputError(f"{path} is not split: it has no {missing[0]!r} points; use Paired.read")
        name = Path(path).stem if contents.name is None else contents.name
        return cls(name, points["train"], points["queries"], points.get("database", points["train"]), contents.notes)

    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the split data to a ``.npz``, ``.parquet`` or ``.mat`` file.

        Examples
        --------
        >>> import os, tempfile
        >>> from dlfh.datasets import make_paired
        >>> path = os.path.join(tempfile.mkdtemp(), "data.npz")
        >>> Split.by_protocol(make_paired(100, random_state=0), n_queries=10, name="tiny").write(path)
        >>> split = Split.read(path)
        >>> split.name, len(split.queries), split.database is split.train
        ('tiny', 10, True)
        """
        from dlfh.datasets.layout import write_parts

        separate = {} if self.database is self.train else {"database": self.database}
        parts = {"train": self.train, "queries": self.queries, **separate}
        write_parts(path, parts, name=self.name, notes=self.notes)


def stack(parts: list[Paired]) -> Paired:
    """Concatenate parts that have the same modalities and the same form of labels."""
    if len(parts) == 1:
        return parts[0]
    modalities = {name: _stack([part.modalities[name] for part in parts]) for name in parts[0].modalities}
    return Paired(modalities, _stack([part.labels for part in parts]), parts[0].label_names)


def _stack(arrays: list[Any]) -> Any:
    if any(sp.issparse(array) for array in arrays):
        return sp.csr_array(sp.vstack(arrays, format="csr"))
    if all(isinstance(array, list) for array in arrays):
        return [row for array in arrays for row in array]
    return np.concatenate([np.asarray(array) for array in arrays])


def draw_rows(
    n_points: int, n_drawn: int, parameter: str, random_state: int | None, called: str = "points"
) -> tuple[Integers, Integers]:
    """Return the rows of a random sample, and all other rows."""
    if check_integer(n_drawn, parameter, 1) >= n_points:
        raise InputError(f"{parameter} is {n_drawn} but there are only {n_points} {called}")
    order = check_random_state(random_state).permutation(n_points)
    return np.sort(order[:n_drawn]), np.sort(order[n_drawn:])


def _take(values: Any, rows: Integers, called: str) -> Any:
    if not hasattr(values, "shape"):
        return [values[row] for row in rows]
    return (compressed_rows(values, called) if sp.issparse(values) else values)[rows]
