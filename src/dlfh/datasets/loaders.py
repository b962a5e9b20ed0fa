"""Loading data sets: the published files, generated data, icons, and the user's own files."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple, overload

import numpy as np
import scipy.sparse as sp

from dlfh._validation import check_choice, check_integer, check_random_state
from dlfh.datasets.arrays import read_arrays
from dlfh.datasets.checks import check_parts, departures, read_labels
from dlfh.datasets.descriptions import DATA_SETS, GENERATED, Description, canonical_name, describe
from dlfh.datasets.generated import make_like
from dlfh.datasets.icons import Icons, load_icons
from dlfh.datasets.layout import Part, contents_of
from dlfh.datasets.leakage import shared_points
from dlfh.datasets.paired import Paired, Split, stack
from dlfh.errors import DataWarning, InputError, prefixed

OnLeak = Literal["warn", "error", "drop"]
_Path = str | os.PathLike[str]
#: Matrices with a smaller share of non-zero entries are stored as sparse, which saves memory and time.
_SPARSE_BELOW = 0.1
_QUERY_SHARE = 0.1  #: Share of points drawn as queries from a user's file that is not split.


class LoadedFile(NamedTuple):
    """The checked contents of a file."""

    name: str  # the name stored in the file, or else the file's stem or the title of the data set
    parts: dict[str, Paired]  # only "all" if the file is not split
    notes: tuple[str, ...]
    as_published: bool = False


@overload
def load_dataset(name: Literal["icons"], *, size: int = ..., verbose: bool = ...) -> Icons: ...  # type: ignore[overload-overlap]
@overload
def load_dataset(
    name: _Path,
    path: _Path | None = ...,
    *,
    modalities: Mapping[str, str] | None = ...,
    on_leak: OnLeak = ...,
    n_queries: int | None = ...,
    n_points: int | None = ...,
    random_state: int | None = ...,
) -> Split: ...
def load_dataset(
    name: _Path,
    path: _Path | None = None,
    *,
    modalities: Mapping[str, str] | None = None,
    on_leak: OnLeak = "warn",
    n_queries: int | None = None,
    n_points: int | None = None,
    random_state: int | None = None,
    size: int = 96,
    verbose: bool = False,
) -> Split | Icons:
    """Load a data set by name, check it, and split it into training set, queries and database.

    Parameters
    ----------
    name : str or path
        One of:

        - "wiki", "mirflickr-25k", "nus-wide" or "iapr-tc12", with the ``path`` of its file;
        - "generated:" and one of these names, for generated data of the same shape;
        - "icons", for the free Font Awesome icons, which ``pip install "dlfh[icons]"`` installs;
        - the path of your own file.
    path : path of a file, optional
        Any file that `read_arrays` reads, with one of these sets of names: ``XTest, YTest, testL, XDatabase,
        YDatabase, databaseL`` (and ``VTest, VDatabase``, modality "cnn"); ``I_tr, T_tr, L_tr, I_te, T_te, L_te``
        (and ``I_db, T_db, L_db``); or the names that `Split.write` and `Paired.write` use. Labels may be indicator
        matrices or class ids.
    modalities : dict of str to str, optional
        Modalities to load, from new name to name in the file; ``{"image": "cnn", "text": "text"}`` loads the features
        of a neural network as "image".
    on_leak : {"warn", "error", "drop"}
        Action if queries also occur in the training set or the database; "drop" removes them from both.
    n_queries : int, optional
        Number of queries to draw. By default the queries in the file; if it is not split, the same share of the points
        as in the paper, or a tenth of your own file.
    n_points : int, optional
        Number of points to generate, queries included; by default as many as in the original.
    random_state : int, optional
        Random seed for drawing queries and generating data; by default 0. With a seed, queries are drawn anew even if
        the file is split.
    size : int, default 96
        Side of the icons in pixels, 8 to 1024.
    verbose : bool, default False
        Show a progress bar while icons are drawn.

    Returns
    -------
    Split
        Its ``notes`` list differences from the published data set. A name stored in the file is kept.
    Icons
        For "icons": pictures, words and categories, with the methods ``labelled``, ``take``, ``split`` and ``write``.

    Raises
    ------
    InputError
        If variables are missing, swapped, transposed or truncated, labels have an unknown format, or features contain
        NaN.

    Examples
    --------
    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "wiki.npz")
    >>> load_dataset("generated:wiki", n_points=286).write(path)
    >>> split = load_dataset("wiki", path)
    >>> len(split.train), len(split.queries)
    (217, 69)
    """
    name = canonical_name(os.fspath(name))
    if n_points is not None and not name.startswith(GENERATED):
        raise InputError(f"n_points applies to generated data only, such as {GENERATED}wiki")
    if name == "icons":
        if path is not None:
            raise InputError("the icons come with the extra 'icons', not from a file: omit path")
        return load_icons(size, verbose=verbose)
    if name.startswith(GENERATED):
        key = name.removeprefix(GENERATED)
        if path is not None:
            raise InputError(f"{name} is not read from a file: omit path, or load the file as {key!r}")
        return make_like(key, n_points, random_state=0 if random_state is None else random_state)
    if path is None and name in DATA_SETS:
        raise InputError(f"{name} does not come with dlfh: pass the path of its file, or load {GENERATED + name!r}")
    description = None if path is None else describe(name)
    file = Path(name if path is None else path)
    if not file.exists() and description is None:
        raise InputError(f"there is no data set or file {name!r}: use {', '.join(NAMES)}, or the path of a file")
    if n_queries is not None:
        check_integer(n_queries, "n_queries", 1)
    check_random_state(random_state)
    draw = partial(_draw_queries, description=description, random_state=random_state, n_queries=n_queries)
    loaded = load_file(file, description, modalities=modalities, on_leak=on_leak, draw=draw)
    parts = loaded.parts
    database = parts.get("database", parts["train"])
    return Split(loaded.name, parts["train"], parts["queries"], database, loaded.notes, loaded.as_published)


#: Names that `load_dataset` accepts, besides paths.
NAMES = ("icons", *DATA_SETS, *(GENERATED + name for name in DATA_SETS))


def load_file(
    path: _Path,
    description: Description | None = None,
    *,
    modalities: Mapping[str, str] | None = None,
    on_leak: OnLeak = "warn",
    draw: Callable[[dict[str, Paired]], dict[str, Paired]] | None = None,
) -> LoadedFile:
    """Load a user's file, or the file of a known data set, like `load_dataset`; ``draw`` returns a new split."""
    check_choice(on_leak, "on_leak", ("warn", "error", "drop"))
    if modalities is not None:
        pairs = modalities.items() if isinstance(modalities, Mapping) else [(modalities, None)]
        if not all(isinstance(name, str) for pair in pairs for name in pair):
            raise InputError(f"modalities must map new names to names in the file, got {modalities!r}")
        if len(modalities) < 2:
            raise InputError(f"modalities must name at least two modalities, got {dict(modalities)}")
    arrays = read_arrays(path)
    culprit = str(path) if description is None else f"{path} is not {description.title} as expected"
    with prefixed(culprit):
        contents = contents_of(arrays)
    with prefixed(culprit if modalities is None else f"modalities does not match {path}"):
        chosen = {part: _choose(points, modalities, description) for part, points in contents.parts.items()}
    with prefixed(culprit):
        check_parts(chosen, description, contents.ignored)
        labels, without_labels = read_labels(chosen)
    parts = _points(chosen, labels)
    if draw is not None:
        parts = draw(parts)
    with prefixed(culprit):
        parts, leaks = _handle_leaks(parts, on_leak)
    name = contents.name or (Path(path).stem if description is None else description.title)
    for sentence in (*without_labels, *(leaks if on_leak == "warn" else ())):
        warnings.warn(f"{name}: {sentence}", DataWarning, stacklevel=2 if draw is None else 3)
    different = () if description is None else departures(chosen, description)
    notes = [*contents.notes, *(() if description is None else description.notes), *different, *without_labels]
    # Notes stored in the file may report leaks that are dropped now.
    notes = [note for note in notes if note not in leaks]
    notes += [f"{leak}; dropped" if on_leak == "drop" else leak for leak in leaks]
    # Other features, if requested, never count as published, whatever their number.
    usual = description is not None and modalities in (None, description.modalities) and name == description.title
    return LoadedFile(name, parts, tuple(dict.fromkeys(notes)), as_published=usual and not different)


def _choose(part: Part, modalities: Mapping[str, str] | None, description: Description | None) -> Part:
    """Return a part with the requested modalities under their new names."""
    stored = part.points.modalities
    if modalities is None:
        if description is None:
            return part
        # A converted file has the new names already.
        modalities = {new: old if old in stored else new for new, old in description.modalities.items()}
    for old in modalities.values():
        if old not in stored:
            raise InputError(f"there is no modality {old!r}; the file has {', '.join(map(repr, stored)) or 'none'}")
    names = {new: part.names[old] for new, old in modalities.items()} | {"labels": part.names["labels"]}
    return Part(replace(part.points, modalities={new: stored[old] for new, old in modalities.items()}), names)


def _points(parts: dict[str, Part], labels: dict[str, Any]) -> dict[str, Paired]:
    """Check the parts and convert their features to floating point, dense in all parts or sparse in all."""
    sparse, points = set(), {}
    for name, matrix in next(iter(parts.values())).points.modalities.items():
        if sp.issparse(matrix) or np.count_nonzero(matrix) < _SPARSE_BELOW * matrix.size:
            sparse.add(name)
    for name, part in parts.items():
        modalities = {}
        for modality, matrix in part.points.modalities.items():
            stored = sp.csr_array(matrix) if modality in sparse else matrix
            modalities[modality] = stored if stored.dtype in (np.float32, np.float64) else stored.astype(np.float32)
        points[name] = Paired(modalities, labels[name], part.points.label_names)
    return points


def _draw_queries(
    parts: dict[str, Paired], description: Description | None, random_state: int | None, n_queries: int | None
) -> dict[str, Paired]:
    """Return the split in the file, or a new one if there is none, or if a seed or a number of queries is given."""
    if "all" not in parts and random_state is None and n_queries is None:
        return parts
    queries = parts.get("queries")
    # If there is a database, the training set is a sample of it.
    data = parts["all"] if queries is None else stack([parts.get("database", parts["train"]), queries])
    if n_queries is None:
        share = _QUERY_SHARE if description is None else description.n_queries / description.n_points
        n_queries = max(1, round(share * len(data))) if queries is None else len(queries)
    split = Split.by_protocol(data, n_queries, random_state=random_state or 0)
    return {"train": split.train, "queries": split.queries}


def _handle_leaks(parts: dict[str, Paired], on_leak: OnLeak) -> tuple[dict[str, Paired], tuple[str, ...]]:
    """Return the parts, without leaks if they are to be dropped, and a sentence for each part with leaks."""
    if "queries" not in parts:
        return parts, ()
    kept, leaks = dict(parts), []
    for part, called in (("train", "training set"), ("database", "database")):
        if part not in parts:
            continue
        query_rows, rows = shared_points(parts["queries"].modalities, parts[part].modalities)
        if len(rows) == 0:
            continue
        pairs = zip(query_rows[:3].tolist(), rows[:3].tolist(), strict=True)
        shown = ", ".join(f"query {query} = row {row}" for query, row in pairs)
        n_queries = len(np.unique(query_rows))
        number = "1 query also occurs" if n_queries == 1 else f"{n_queries} queries also occur"
        leaks.append(f"{number} in the {called}, identical in all modalities: {shown}")
        if on_leak == "drop":
            others = np.setdiff1d(np.arange(len(parts[part])), rows)
            if len(others) == 0:
                raise InputError(f'every point of the {called} is also a query, so on_leak="drop" would leave none')
            kept[part] = parts[part].take(others)
    if leaks and on_leak == "error":
        raise InputError(f'{leaks[0]}; on_leak="drop" removes them')
    return kept, tuple(leaks)
