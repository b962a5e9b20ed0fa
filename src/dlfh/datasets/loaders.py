"""The field's data sets from the files in which they circulate."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypedDict, Unpack

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._validation import check_choice, check_integer, check_random_state
from dlfh.datasets import checks as checks
from dlfh.datasets.arrays import read_arrays
from dlfh.datasets.descriptions import Description, describe
from dlfh.datasets.dialects import Contents, Part, contents_of
from dlfh.datasets.leakage import shared_points
from dlfh.datasets.paired import Paired
from dlfh.datasets.split import Split, stack
from dlfh.errors import DataWarning, InputError

__all__ = ["OwnData", "load_dataset", "load_iapr", "load_mirflickr", "load_nuswide", "load_own", "load_wiki"]

OnLeak = Literal["warn", "error", "drop"]
_ON_LEAK = ("warn", "error", "drop")
Integers = npt.NDArray[np.int64]
_Path = str | os.PathLike[str]


class Options(TypedDict, total=False):
    """The options of `load_dataset`, for the loaders of single data sets."""

    modalities: Mapping[str, str] | None
    on_leak: OnLeak
    random_state: int | None
    n_queries: int | None


@dataclass(frozen=True)
class OwnData:
    """Data of one's own, as a file holds them and checked.

    Attributes
    ----------
    name : str
        What the file calls them, or else the file's own name.
    parts : dict of str to Paired
        "train" and "queries", and "database" if it is not the training set; or "all", if the file is not split.
    notes : tuple of str
        What should be known of the data, a sentence each.
    """

    name: str
    parts: dict[str, Paired]
    notes: tuple[str, ...] = ()


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
        Its ``notes`` say in what the file differs from the data set as published, after what the file itself says.
        Data that have a name in the file keep it.

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


def load_own(path: _Path, *, on_leak: OnLeak = "warn") -> OwnData:
    """Load data of your own from a file, with the checks that the field's data sets get.

    Parameters
    ----------
    path : path of a file
        As for `load_dataset`: of the layout of `write_split` and `write_paired`, or with the variables of MATLAB files.
        All its modalities are loaded, of which it needs two or more.
    on_leak : {"warn", "error", "drop"}
        What to do if queries are in the training set or in the database, too: ``"drop"`` leaves them out of both.

    Raises
    ------
    InputError
        If the file does not hold two or more matrices of finite numbers with labels in a known form.

    Examples
    --------
    >>> import os, tempfile
    >>> from dlfh.datasets import make_paired, write_paired
    >>> path = os.path.join(tempfile.mkdtemp(), "mine.npz")
    >>> write_paired(path, make_paired(100, random_state=0))
    >>> own = load_own(path)
    >>> own.name, {part: len(points) for part, points in own.parts.items()}
    ('mine', {'all': 100})
    """
    check_choice(on_leak, "on_leak", _ON_LEAK)
    arrays = read_arrays(path)
    with _blamed_on(str(path)):
        contents = contents_of(arrays)
        _check_several(contents)
        checked = _checked(contents.parts)
        parts, leaks = _treated(checked.parts, on_leak)
    name = contents.name or Path(path).stem
    notes = _with_leaks((*contents.notes, *checked.unlabelled), leaks, on_leak)
    _warn(name, (*checked.unlabelled, *(leaks if on_leak == "warn" else ())), stacklevel=3)
    return OwnData(name, parts, notes)


def _load(name: str, path: _Path, options: Options) -> Split:
    description = describe(name)
    on_leak = check_choice(options.get("on_leak", "warn"), "on_leak", _ON_LEAK)
    modalities, seed, n_queries = _checked_arguments(options)
    arrays = read_arrays(path)
    not_expected = f"{path} is not {description.title} as expected"
    with _blamed_on(not_expected):
        contents = contents_of(arrays)
    with _blamed_on(not_expected if modalities is None else f"modalities does not fit {path}"):
        chosen = _chosen(contents.parts, modalities, description)
    with _blamed_on(not_expected):
        checked = _checked(chosen, description)
    drawn = _drawn(checked.parts, description, seed, n_queries)
    with _blamed_on(not_expected):
        parts, leaks = _treated(drawn, on_leak)
    title = contents.name or description.title
    departures = checks.departures(chosen, description)
    notes = (*contents.notes, *description.notes, *departures, *checked.unlabelled)
    _warn(title, (*checked.unlabelled, *(leaks if on_leak == "warn" else ())), stacklevel=4)
    return Split(
        title,
        parts["train"],
        parts["queries"],
        parts.get("database", parts["train"]),
        _with_leaks(notes, leaks, on_leak),
        # Features that were asked for in the place of the usual ones are others, whatever their number.
        title == description.title and not departures and modalities in (None, description.modalities),
    )


def _checked_arguments(options: Options) -> tuple[Mapping[str, str] | None, int | None, int | None]:
    modalities, seed, n_queries = options.get("modalities"), options.get("random_state"), options.get("n_queries")
    if modalities is not None:
        pairs = modalities.items() if isinstance(modalities, Mapping) else [(modalities, None)]
        if not all(isinstance(word, str) for pair in pairs for word in pair):
            raise InputError(f"modalities must say what to call which modality of the file, got {modalities!r}")
        if len(modalities) < 2:
            raise InputError(f"modalities must name two or more, got {dict(modalities)}")
    if n_queries is not None:
        check_integer(n_queries, "n_queries", 1)
    check_random_state(seed)
    return modalities, seed, n_queries


@contextmanager
def _blamed_on(culprit: str) -> Iterator[None]:
    try:
        yield
    except InputError as error:
        raise InputError(f"{culprit}: {error}") from None


def _check_several(contents: Contents) -> None:
    names = next((list(part.features) for part in contents.parts.values()), [])
    if len(names) < 2:
        left_out = ", ".join(map(repr, contents.left_out))
        raise InputError(
            f"it needs two or more modalities, and has {', '.join(map(repr, names)) or 'none'}"
            + (f"; left out, because it takes a matrix with a row per point: {left_out}" if left_out else "")
        )


class _Checked(NamedTuple):
    parts: dict[str, Paired]
    unlabelled: tuple[str, ...]


def _checked(parts: dict[str, Part], description: Description | None = None) -> _Checked:
    """Return the points of each part after all checks, and what is to be said of those without labels."""
    checks.check_division(parts)
    checks.check_features(parts, description)
    checks.check_sizes(parts)
    labels = checks.read_labels(parts.values())
    thin = _thin_modalities(next(iter(parts.values())))
    points = {part: _points(parts[part], own, thin) for part, own in zip(parts, labels, strict=True)}
    return _Checked(points, checks.unlabelled(parts.values(), labels))


def _chosen(parts: dict[str, Part], modalities: Mapping[str, str] | None, description: Description) -> dict[str, Part]:
    """Return the parts with the wanted modalities under their new names."""
    chosen = {}
    for name, part in parts.items():
        # A file that was converted has the new names already.
        usual = {new: old if old in part.features else new for new, old in description.modalities.items()}
        source = usual if modalities is None else modalities
        for old in source.values():
            if old not in part.features:
                raise InputError(f"there is no modality {old!r}, but {', '.join(map(repr, part.features)) or 'none'}")
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


def _drawn(
    parts: dict[str, Paired], description: Description, random_state: int | None, n_queries: int | None
) -> dict[str, Paired]:
    """Return the parts of the file, or queries and the rest as they are drawn."""
    if "all" not in parts and random_state is None and n_queries is None:
        return parts
    own = parts.get("queries")
    # Where there is a database, the training set is a sample of it.
    data = parts["all"] if own is None else stack([parts.get("database", parts["train"]), own])
    if n_queries is None:
        share = description.n_queries / description.n_points
        n_queries = max(1, round(share * len(data))) if own is None else len(own)
    split = Split.by_protocol(data, n_queries, random_state=random_state or 0)
    return {"train": split.train, "queries": split.queries}


def _treated(parts: dict[str, Paired], on_leak: str) -> tuple[dict[str, Paired], tuple[str, ...]]:
    """Return the parts after leaks were looked for, and a sentence about each leak."""
    if "queries" not in parts:
        return parts, ()
    kept, leaks = dict(parts), []
    for part in ("train", "database"):
        if part not in parts:
            continue
        query_rows, rows = shared_points(parts["queries"].modalities, parts[part].modalities)
        if len(rows) == 0:
            continue
        leaks.append(_leak(part, query_rows, rows))
        others = np.setdiff1d(np.arange(len(parts[part])), rows)
        if on_leak == "drop" and len(others) == 0:
            raise InputError(f'every point of the {part} set is a query as well, so on_leak="drop" leaves none')
        if on_leak == "drop":
            kept[part] = parts[part].take(others)
    if leaks and on_leak == "error":
        raise InputError(f'{leaks[0]}; on_leak="drop" leaves them out')
    return kept, tuple(leaks)


def _leak(part: str, query_rows: Integers, rows: Integers) -> str:
    pairs = zip(query_rows[:3].tolist(), rows[:3].tolist(), strict=True)
    shown = ", ".join(f"query {query} = {part} {row}" for query, row in pairs)
    number = len(np.unique(query_rows))
    return f"{number} queries are in the {part} set as well, alike in all modalities: {shown}"


def _with_leaks(notes: tuple[str, ...], leaks: tuple[str, ...], on_leak: str) -> tuple[str, ...]:
    """Return each note once; a file's notes may know of leaks that it has no more."""
    found = [f"{leak}; left out" if on_leak == "drop" else leak for leak in leaks]
    return tuple(dict.fromkeys([*(note for note in notes if note not in leaks), *found]))


def _warn(name: str, sentences: tuple[str, ...], stacklevel: int) -> None:
    for sentence in sentences:
        warnings.warn(f"{name}: {sentence}", DataWarning, stacklevel=stacklevel)
