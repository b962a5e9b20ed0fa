"""The field's data sets from the files in which they circulate."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, TypedDict, Unpack

import numpy as np
import scipy.sparse as sp

from dlfh.datasets import checks
from dlfh.datasets.arrays import read_arrays
from dlfh.datasets.descriptions import Description, describe
from dlfh.datasets.dialects import Part, parts_of
from dlfh.datasets.leakage import shared_points
from dlfh.datasets.paired import Paired
from dlfh.datasets.split import Split, stack
from dlfh.errors import DataWarning, InputError
from dlfh.validation import check_choice

__all__ = ["load_dataset", "load_iapr", "load_mirflickr", "load_nuswide", "load_wiki"]

OnLeak = Literal["warn", "error", "drop"]
_Path = str | os.PathLike[str]


class Options(TypedDict, total=False):
    """The options of `load_dataset`, for the loaders of single data sets."""

    modalities: Mapping[str, str] | None
    on_leak: OnLeak
    random_state: int | None
    n_queries: int | None


# A matrix with fewer entries than one in ten takes less memory and time as a sparse one.
_SPARSE_BELOW = 0.1


def load_dataset(
    name: str,
    path: _Path,
    *,
    modalities: Mapping[str, str] | None = None,
    on_leak: OnLeak = "warn",
    random_state: int | None = None,
    n_queries: int | None = None,
) -> Split:
    """Load a data set of the field from a file, check it, and split it.

    Parameters
    ----------
    name : str
        "wiki", "mirflickr-25k", "nus-wide" or "iapr-tc12".
    path : path of a file
        A MATLAB file with ``XTest, YTest, XDatabase, YDatabase, testL, databaseL`` (and ``VTest, VDatabase``, called
        "cnn" here) or with ``I_tr, T_tr, L_tr, I_te, T_te, L_te`` (and ``I_db, T_db, L_db``); or any file that
        `read_arrays` reads, with these names or with those of `write_split`. Labels may be indicator matrices
        or class ids.
    modalities : dict of str to str, optional
        What to call which of the file's modalities; ``{"image": "cnn", "text": "text"}`` takes the features
        of a neural network for the image.
    on_leak : {"warn", "error", "drop"}
        What to do if queries are in the training set or in the database, too: ``"drop"`` leaves them out of both.
    random_state : int, optional
        Draw the queries anew, with this seed. By default they are those of the file; of a file that is not
        split they are drawn with seed 0.
    n_queries : int, optional
        How many to draw; as many as the file has, or by the paper's share, by default.

    Returns
    -------
    Split
        Its ``notes`` say in what the file differs from the data set as published.

    Raises
    ------
    InputError
        If the file is not what it should be: swapped, transposed or cut variables, labels in no known form, NaN.

    Examples
    --------
    >>> import os, tempfile
    >>> from dlfh.datasets import make_like, write_split
    >>> path = os.path.join(tempfile.mkdtemp(), "wiki.npz")
    >>> write_split(path, make_like("wiki", n_points=286))
    >>> split = load_dataset("wiki", path)
    >>> len(split.train), len(split.queries)
    (217, 69)
    """
    return _load(
        name, path, {"modalities": modalities, "on_leak": on_leak, "random_state": random_state, "n_queries": n_queries}
    )


def load_wiki(path: _Path, **options: Unpack[Options]) -> Split:
    """Load the Wikipedia set: 2,866 articles, SIFT histograms and topics, ten classes; see `load_dataset`."""
    return _load("wiki", path, options)


def load_mirflickr(path: _Path, **options: Unpack[Options]) -> Split:
    """Load MIRFLICKR-25K: about 20,000 photographs, GIST and tags, 24 labels; see `load_dataset`."""
    return _load("mirflickr-25k", path, options)


def load_nuswide(path: _Path, **options: Unpack[Options]) -> Split:
    """Load NUS-WIDE's ten most frequent concepts: 186,577 photographs, visual words and tags; see `load_dataset`."""
    return _load("nus-wide", path, options)


def load_iapr(path: _Path, **options: Unpack[Options]) -> Split:
    """Load IAPR TC-12: 19,626 photographs with captions in English and German, 291 labels; see `load_dataset`."""
    return _load("iapr-tc12", path, options)


def _load(name: str, path: _Path, options: Options) -> Split:
    description = describe(name)
    on_leak = check_choice(options.get("on_leak", "warn"), "on_leak", ("warn", "error", "drop"))
    arrays = read_arrays(path)
    try:
        parts = _chosen(parts_of(arrays), options.get("modalities"), description)
        checks.check_features(parts, description)
        if "queries" in parts:
            checks.check_sizes(parts["queries"], parts.get("database", parts["train"]))
        labels = checks.read_labels(parts.values())
        notes = checks.departures(parts, labels, description)
        thin = _thin_modalities(next(iter(parts.values())))
        points = {part: _points(parts[part], own, thin) for part, own in zip(parts, labels, strict=True)}
        split = _split(points, description, options.get("random_state"), options.get("n_queries"))
        return _treated(replace(split, notes=notes), on_leak)
    except InputError as error:
        raise InputError(f"{path} is not {description.title} as expected: {error}") from None


def _chosen(parts: dict[str, Part], modalities: Mapping[str, str] | None, description: Description) -> dict[str, Part]:
    """Return the parts with the wanted modalities under their new names."""
    chosen = {}
    for name, part in parts.items():
        # A file that was converted has the new names already.
        usual = {new: old if old in part.features else new for new, old in description.modalities.items()}
        source = usual if modalities is None else modalities
        for old in source.values():
            if old not in part.features:
                raise InputError(f"there is no modality {old!r}, but {', '.join(map(repr, part.features))}")
        if len(source) < 2:
            raise InputError(f"modalities must name two or more, got {dict(source)}")
        chosen[name] = replace(part, features={new: part.features[old] for new, old in source.items()})
    return chosen


def _thin_modalities(part: Part) -> set[str]:
    """Return the modalities to keep as sparse matrices, in all parts alike."""
    arrays = {name: variable.array for name, variable in part.features.items()}
    return {
        name
        for name, array in arrays.items()
        if sp.issparse(array) or np.count_nonzero(array) < _SPARSE_BELOW * array.size
    }


def _points(part: Part, labels: Any, thin: set[str]) -> Paired:
    modalities = {
        name: _numbers(sp.csr_array(variable.array) if name in thin else variable.array)
        for name, variable in part.features.items()
    }
    return Paired(modalities, labels, part.label_names)


def _numbers(matrix: Any) -> Any:
    """Return features in single or double precision."""
    return matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float32)


def _split(
    points: dict[str, Paired], description: Description, random_state: int | None, n_queries: int | None
) -> Split:
    if "all" not in points and random_state is None and n_queries is None:
        train = points["train"]
        return Split(description.title, train, points["queries"], points.get("database", train))
    own = points.get("queries")
    # Where there is a database, the training set is a sample of it.
    data = points["all"] if own is None else stack([points.get("database", points["train"]), own])
    if n_queries is None:
        share = description.n_queries / description.n_points
        n_queries = max(1, round(share * len(data))) if own is None else len(own)
    return Split.by_protocol(data, n_queries, random_state=random_state or 0, name=description.title)


def _treated(split: Split, on_leak: str) -> Split:
    """Return the split after leaks were looked for, and say what was found."""
    unlabelled = [note for note in split.notes if "have no label" in note]
    train, leak = _without_queries(split.train, split.queries, "train")
    database, other_leak = train, None
    if split.database is not split.train:
        database, other_leak = _without_queries(split.database, split.queries, "database")
    leaks = [note for note in (leak, other_leak) if note is not None]
    if leaks and on_leak == "error":
        raise InputError(f'{leaks[0]}; on_leak="drop" leaves them out')
    if leaks and on_leak == "drop":
        dropped = tuple(f"{note}; left out" for note in leaks)
        split, leaks = replace(split, train=train, database=database, notes=(*split.notes, *dropped)), []
    for note in (*unlabelled, *leaks):
        warnings.warn(f"{split.name}: {note}", DataWarning, stacklevel=4)
    return replace(split, notes=(*split.notes, *leaks))


def _without_queries(points: Paired, queries: Paired, part: str) -> tuple[Paired, str | None]:
    """Return the points that are no queries, and a sentence about the others if there are any."""
    query_rows, rows = shared_points(queries.modalities, points.modalities)
    if len(rows) == 0:
        return points, None
    pairs = list(zip(query_rows.tolist(), rows.tolist(), strict=True))
    shown = ", ".join(f"query {query} = {part} {row}" for query, row in pairs[:3])
    number = len(np.unique(query_rows))
    note = f"{number} queries are in the {part} set as well, alike in all modalities: {shown}"
    return points.take(np.setdiff1d(np.arange(len(points)), rows)), note
