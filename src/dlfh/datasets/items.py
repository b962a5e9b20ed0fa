"""Your own items: a folder of images, a table of texts, files of vectors, put together by row.

What single items lack (a broken row, an empty text, an image that is not there) does not stop the reading: it is
noted, and the item goes on with what it has.
"""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._labels import LabelSets
from dlfh._validation import Features, check_features
from dlfh.datasets.arrays import read_array, read_arrays
from dlfh.datasets.frames import is_frame
from dlfh.datasets.label_cells import labels_in, labels_in_cells
from dlfh.datasets.problem import LABEL_WORDS, RESERVED_NAMES, Problem
from dlfh.datasets.tables import TABLE_SUFFIXES, Table, read_table
from dlfh.errors import InputError

__all__ = ["IMAGE_SUFFIXES", "Items", "array_of", "read_items"]

#: What files of a folder are taken for images.
IMAGE_SUFFIXES = (".bmp", ".gif", ".jpeg", ".jpg", ".pgm", ".png", ".ppm", ".tif", ".tiff", ".webp")

#: What files are read as arrays, where a column or a variable could be meant as well.
_ARRAY_SUFFIXES = (".h5", ".hdf5", ".mat", ".npy", ".npz")

#: A number as JSON has it, of so few digits that none is lost: 007 is a name, and so is what is as long as a bar code.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?")


@dataclass(frozen=True)
class Items:
    """Items with an id each, described by raw texts, image files or vectors.

    Attributes
    ----------
    ids : list of str
        All different.
    modalities : dict of str to list or matrix
        By modality, each item's text (str), image (Path) or row of a matrix; None in a list where it has none.
    labels : list of list of str, or None
        An empty list for an item without labels; None if there are no labels at all.
    metadata : list of dict
        What an index keeps of each item to show it: texts, paths of images, labels, further columns.
    places : list of str
        Where each item stands in the input, for messages.
    problems : list of Problem
        What of the input is left out.
    named : bool
        Whether ids are the items' own; if not, they are the numbers of rows, which other items have as well.
    """

    ids: list[str]
    modalities: dict[str, Any]
    labels: list[list[str]] | None
    metadata: list[dict[str, Any]]
    places: list[str]
    problems: list[Problem]
    named: bool = True

    @classmethod
    def of(
        cls,
        modalities: Mapping[str, Any],
        labels: Sequence[Sequence[str]] | None = None,
        ids: Sequence[str] | None = None,
    ) -> Items:
        """Make items of values at hand.

        Parameters
        ----------
        modalities : dict of str to list or matrix
            By modality, each item's text, path of an image or row of a matrix; None in a list where it has none.
        labels : sequence of lists of str, optional
            Each item's labels; an empty list for an item whose labels are unknown.
        ids : sequence of str, optional
            By default the numbers of the items.

        Examples
        --------
        >>> items = Items.of({"english": ["a car", None], "german": ["ein Auto", "ein Hund"]}, [["car"], ["dog"]])
        >>> items.ids, items.present("english").tolist(), items.metadata[1]
        (['0', '1'], [True, False], {'german': 'ein Hund', 'labels': ['dog']})
        """
        values = {
            name: list(own) if isinstance(own, (list, tuple)) else check_features(own, name)
            for name, own in modalities.items()
        }
        counts = {f"modality {name!r}": _n_rows(own) for name, own in values.items()}
        counts |= {name: len(own) for name, own in (("labels", labels), ("ids", ids)) if own is not None}
        if not values:
            raise InputError("items need at least one modality")
        (first, n), *others = counts.items()
        for name, count in others:
            if count != n:
                raise InputError(f"{name} has {count} rows but {first} has {n}")
        reserved = sorted(RESERVED_NAMES & {*values})
        if reserved:
            raise InputError(f"a modality cannot be called {reserved[0]!r}: choose another name")
        own_labels = None if labels is None else [labels_in(each, None) for each in labels]
        metadata: list[dict[str, Any]] = []
        for row in range(n):
            lists = {name: own[row] for name, own in values.items() if isinstance(own, list)}
            shown = {name: str(value) for name, value in lists.items() if isinstance(value, (str, os.PathLike))}
            metadata.append(shown | ({"labels": own_labels[row]} if own_labels and own_labels[row] else {}))
        return _cleaned(
            cls(
                [str(row) for row in range(n)] if ids is None else [str(name) for name in ids],
                values,
                own_labels,
                metadata,
                [f"item {row}" for row in range(n)],
                [],
                named=ids is not None,
            )
        )

    def __len__(self) -> int:
        return len(self.ids)

    def present(self, modality: str) -> npt.NDArray[np.bool_]:
        """Return which items have a modality."""
        values = self.modalities[modality]
        if isinstance(values, list):
            return np.array([value is not None for value in values], bool)
        return np.ones(len(self), bool)

    def labelled(self) -> npt.NDArray[np.bool_]:
        """Return which items have labels."""
        return np.array([bool(labels) for labels in self.labels or [[]] * len(self)], bool)

    def complete(self) -> npt.NDArray[np.bool_]:
        """Return which items have labels and every modality."""
        return np.logical_and.reduce([self.labelled(), *map(self.present, self.modalities)])

    def with_label_words(self) -> Items:
        """Return the items with their labels as a modality, ``label``, for methods that need two of items with one.

        Examples
        --------
        >>> items = Items.of({"text": ["a red car", "a dog"]}, [["car", "red"], []]).with_label_words()
        >>> items.modalities["label"]
        ['car, red', None]
        """
        if LABEL_WORDS in self.modalities or self.labels is None:
            return self
        words = [", ".join(own) or None for own in self.labels]
        return replace(self, modalities={**self.modalities, LABEL_WORDS: words})

    def take(self, rows: Iterable[int]) -> Items:
        """Return some of the items, with no problems."""
        chosen = np.fromiter(rows, np.int64)
        return Items(
            _taken(self.ids, chosen),
            {name: _taken(values, chosen) for name, values in self.modalities.items()},
            None if self.labels is None else _taken(self.labels, chosen),
            _taken(self.metadata, chosen),
            _taken(self.places, chosen),
            [],
            self.named,
        )


def _n_rows(values: Any) -> int:
    return len(values) if isinstance(values, list) else int(values.shape[0])


def _taken(values: Any, rows: npt.NDArray[np.int64]) -> Any:
    return [values[row] for row in rows] if isinstance(values, list) else values[rows]


def read_items(
    source: Any = None,
    *,
    table: Any = None,
    id: str | None = None,
    image: str | Mapping[str, str] | None = None,
    text: str | Mapping[str, str] | None = None,
    vectors: Mapping[str, str] | None = None,
    labels: str | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
) -> Items:
    r"""Read items from a folder of images, a table, files of vectors, or several of these together.

    Parameters
    ----------
    source : path or table, optional
        A folder of images; or a table; or a file of arrays (``.npz``, ``.npy``, ``.mat``), in which ``vectors`` and
        ``labels`` name variables.
    table : path or table, optional
        A file (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, ``.arrow``, ``.feather``, ``.xlsx``) or a table in memory
        (a DataFrame of pandas or Polars, a table of Arrow), whose columns the following name. Paths of images are
        relative to the folder ``source``, or to the file's own, or for a table in memory to the current one. Without a
        table, each image of the folder is an item: its path is its id, the words of its file name are its text, and the
        folder that holds it, if not ``source`` itself, is its label.
    id : str, optional
        The column or variable of ids. By default an item is called by its first image's path, or by its row.
    image, text : str or dict of str to str, optional
        The column of image paths, and that of texts. For several, a dict of modalities' names to columns.
    vectors : dict of str to str, optional
        By modality, a variable of ``source``, a file of vectors, a ``FILE:VARIABLE``, or a column of lists.
    labels : str, optional
        The column or variable (or ``FILE:VARIABLE``) of labels.
    separator : str, optional
        What stands between labels in a cell; by default what most cells have of ``;``, ``|``, ``,`` and tabs.
    encoding : str
        How a table that is a text file is encoded.

    Returns
    -------
    Items

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "items.csv")
    ...     _ = file.write_text("sku,caption,tags\n7,a red car,car;red\n8,,car\n9,a blue car,car;blue\n")
    ...     items = read_items(file, id="sku", text="caption", labels="tags")
    >>> items.ids, items.labels
    (['7', '9'], [['car', 'red'], ['car', 'blue']])
    >>> print(items.problems[0])
    items.csv, line 3: the caption is empty, and nothing else describes the item
    """
    if is_frame(source):
        if table is not None:
            raise InputError("there are two tables: pass one as the source or as the table, not both")
        source, table = None, source
    place = None if source is None else Path(source)
    images, texts, matrices = _by_name(image, "image"), _by_name(text, "text"), dict(vectors or {})
    reserved = sorted(RESERVED_NAMES & {*images, *texts, *matrices})
    if reserved:
        raise InputError(f"a modality cannot be called {reserved[0]!r}: choose another name")
    if separator == "":
        raise InputError("the separator of labels is empty: give the character that stands between them")
    doubled = {*images} & {*texts} | {*images, *texts} & {*matrices}
    if doubled:
        raise InputError(f"modality {min(doubled)!r} is described twice: give each modality one source")
    if place is not None and not place.exists():
        raise InputError(f"there is nothing at {place}: a folder of images, a table or a file of arrays was expected")
    if table is None and place is not None and place.suffix.lower() in TABLE_SUFFIXES and place.is_file():
        table, place = place, place.parent
    if table is not None:
        if place is not None and not place.is_dir():
            raise InputError(f"{place} is not a folder: with a table, the source is the folder of its images")
        read = _from_table(read_table(table, encoding=encoding), place, id, images, texts, matrices, labels, separator)
    elif place is not None and place.is_dir() and not matrices:
        for option, value in (("id", id), ("image", image), ("text", text), ("labels", labels)):
            if value is not None:
                raise InputError(f"{option} names a column, and there is no table: pass one with table")
        read = _from_folder(place)
    else:
        if images or texts:
            name = next(iter([*images.values(), *texts.values()]))
            raise InputError(f"{name!r} names a column of texts or images, and there is no table: pass one with table")
        read = _from_arrays(place, id, matrices, labels)
    return _cleaned(read)


def _by_name(columns: str | Mapping[str, str] | None, name: str) -> dict[str, str]:
    if columns is None:
        return {}
    if isinstance(columns, str):
        return {name: columns}
    if not isinstance(columns, Mapping):
        raise InputError(f"{name} must be a column, or a dict of columns by modality, got {columns!r}")
    return dict(columns)


# --------------------------------------------------------------------------------------------- sources


def _from_table(
    table: Table,
    folder: Path | None,
    id: str | None,
    images: dict[str, str],
    texts: dict[str, str],
    vectors: dict[str, str],
    labels: str | None,
    separator: str | None,
) -> Items:
    if not images and not texts and not vectors:
        raise InputError(f"{table.path}: say which column holds the texts or the images' paths")
    root = table.path.parent if folder is None else folder
    n = len(table.rows)
    problems = list(table.problems)
    modalities: dict[str, Any] = {}
    for name, column in images.items():
        cells = table.column(column)
        modalities[name] = [
            _image(root, cell, name, problems, at) for cell, at in zip(cells, table.places, strict=True)
        ]
    for name, column in texts.items():
        cells = table.column(column)
        modalities[name] = [
            _text(cell, column, name, problems, at) for cell, at in zip(cells, table.places, strict=True)
        ]
    for name, spec in vectors.items():
        modalities[name] = _vectors(table, spec, name)
        if spec not in table.columns:  # a file of its own, with a row for each of the table's
            if modalities[name].shape[0] != table.n_all:
                raise InputError(f"{spec} has {modalities[name].shape[0]} rows, but {table.path} has {table.n_all}")
            modalities[name] = modalities[name][np.array(table.numbers, np.int64)]
    if id is not None:
        ids = ["" if cell is None else str(cell).strip() for cell in table.column(id)]
    else:
        first = table.column(next(iter(images.values()))) if images else [None] * n
        ids = [str(cell).strip() if cell not in (None, "") else str(row) for row, cell in enumerate(first)]
    label_lists = None if labels is None else labels_in_cells(table.column(labels), separator, table.path)
    metadata = _metadata(
        table, {*images.values(), *texts.values(), *vectors.values(), labels, id}, modalities, label_lists
    )
    named = id is not None or bool(images)
    return Items(ids, modalities, label_lists, metadata, list(table.places), problems, named)


def _from_folder(folder: Path) -> Items:
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in IMAGE_SUFFIXES and path.is_file() and not _hidden(path.relative_to(folder))
    )
    if not files:
        raise InputError(f"there are no images in {folder}: none of its files ends in {', '.join(IMAGE_SUFFIXES)}")
    ids = [path.relative_to(folder).as_posix() for path in files]
    texts = [" ".join("".join(c if c.isalnum() else " " for c in path.stem).split()) or None for path in files]
    labels = [[path.parent.name] if path.parent != folder else [] for path in files]
    metadata = [
        {"image": str(path)} | ({"text": words} if words else {}) | ({"labels": own} if own else {})
        for path, words, own in zip(files, texts, labels, strict=True)
    ]
    return Items(ids, {"image": files, "text": texts}, labels if any(labels) else None, metadata, list(ids), [])


def _from_arrays(source: Path | None, id: str | None, vectors: dict[str, str], labels: str | None) -> Items:
    if source is None and not vectors:
        raise InputError("there is nothing to read: pass a folder of images, a table or a file of arrays")
    if not vectors:
        raise InputError(f"{source}: say which variable holds which modality's vectors, such as image=X")
    arrays = {} if source is None else read_arrays(source)
    matrices = {name: check_features(array_of(arrays, spec), name) for name, spec in vectors.items()}
    (first, matrix), *others = matrices.items()
    n = matrix.shape[0]
    for name, other in others:
        if other.shape[0] != n:
            raise InputError(f"modality {name!r} has {other.shape[0]} rows but modality {first!r} has {n}")
    label_lists = None if labels is None else _label_lists(array_of(arrays, labels), labels)
    ids = [str(row) for row in range(n)] if id is None else [str(value) for value in np.ravel(array_of(arrays, id))]
    for name, rows in (("labels", label_lists), ("ids", ids)):
        if rows is not None and len(rows) != n:
            raise InputError(f"{name} have {len(rows)} rows but modality {first!r} has {n}")
    places = [f"row {row}" for row in range(n)]
    metadata: list[dict[str, Any]] = [{"labels": own} if own else {} for own in label_lists or [[]] * n]
    return Items(ids, dict(matrices), label_lists, metadata, places, [], named=id is not None)


# ----------------------------------------------------------------------------------------------- cells


def _image(root: Path, cell: Any, name: str, problems: list[Problem], place: str) -> Path | None:
    written = "" if cell is None else str(cell).strip()
    if not written:
        problems.append(Problem(place, name, f"there is no path of an {name}"))
        return None
    # The same accented name is spelled in two ways in Unicode, and file systems differ in which they keep; tables from
    # Windows have paths with backslashes.
    spellings = [unicodedata.normalize(form, written) for form in ("NFC", "NFD")]
    try:
        for spelling in (*spellings, *(spelling.replace("\\", "/") for spelling in spellings)):
            if (root / spelling).is_file():
                return root / spelling
        problems.append(Problem(place, name, f"there is no file {root / written}"))
    except (OSError, ValueError) as error:  # a name that no file can have, a folder that may not be read
        reason = error.strerror if isinstance(error, OSError) else str(error)
        problems.append(Problem(place, name, f"the file {written[:60]!r} cannot be looked for: {reason}"))
    return None


def _text(cell: Any, column: str, name: str, problems: list[Problem], place: str) -> str | None:
    words = "" if cell is None else str(cell).strip()
    if not words:
        problems.append(Problem(place, name, f"the {column} is empty"))
    return words or None


def _vectors(table: Table, spec: str, name: str) -> Features:
    if spec not in table.columns:
        return check_features(array_of({}, spec), name)
    cells = table.column(spec)
    try:
        return check_features(np.array(cells, np.float32), name)
    except (TypeError, ValueError):
        raise InputError(f"column {spec!r} of {table.path} must hold a list of as many numbers in each row") from None


def array_of(arrays: Mapping[str, Any], spec: str) -> Any:
    """Return an array by its name among ``arrays``, or from a file, as FILE or FILE:VARIABLE."""
    if spec in arrays:
        return arrays[spec]
    file, _, variable = spec.rpartition(":")
    if file and Path(file).suffix.lower() in _ARRAY_SUFFIXES:
        return read_array(file, variable)
    if Path(spec).suffix.lower() in _ARRAY_SUFFIXES:
        return read_array(spec)
    known = f"{', '.join(map(repr, arrays))}" if arrays else "there is no file of arrays"
    raise InputError(f"there is no array {spec!r} ({known}), and it is not the name of a file of arrays")


def _label_lists(labels: Any, name: str) -> list[list[str]]:
    if getattr(labels, "ndim", 1) == 2 and labels.shape[1] == 1:  # class ids, as MATLAB has them
        labels = np.ravel(labels)
    sets = LabelSets.from_labels(labels, name=f"labels {name!r}", allow_empty=True)
    names = [str(label) for label in (range(sets.n_labels) if sets.names is None else sets.names)]
    lists = [
        [names[label] for label in sets.labels[start:stop]]
        for start, stop in zip(sets.starts[:-1], sets.starts[1:], strict=True)
    ]
    return [list(lists[group]) for group in sets.set_of_point]


def _metadata(
    table: Table, used: set[str | None], modalities: dict[str, Any], labels: list[list[str]] | None
) -> list[dict[str, Any]]:
    others = [(place, name) for place, name in enumerate(table.columns) if name and name not in used]
    numbers = set() if table.typed else {place for place, _ in others if _is_of_numbers(table, place)}
    metadata = []
    for number, row in enumerate(table.rows):
        entry: dict[str, Any] = {}
        for name, values in modalities.items():
            if isinstance(values, list) and values[number] is not None:
                entry[name] = str(values[number])
        if labels is not None and labels[number]:
            entry["labels"] = labels[number]
        columns = {
            name: json.loads(value) if place in numbers else value
            for place, name in others
            if (value := _plain(row[place])) is not None
        }
        metadata.append(entry | ({"columns": columns} if columns else {}))
    return metadata


def _is_of_numbers(table: Table, place: int) -> bool:
    """Return whether every cell of a column of text is a number, written as numbers are, or empty."""
    cells = [row[place] for row in table.rows if row[place] != ""]
    return bool(cells) and all(map(_NUMBER.fullmatch, cells))


def _plain(value: Any) -> Any:
    """Return a cell as JSON can hold it; None for one that is empty, or that nobody can read."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, (bytes, list, dict)) or value == "":
        return None
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


# --------------------------------------------------------------------------------------------- cleaning


def _cleaned(items: Items) -> Items:
    """Leave out items without an id, with the id of an earlier one, or with nothing that describes them."""
    problems, keep = list(items.problems), []
    of_place: dict[str, list[Problem]] = {}
    for problem in items.problems:
        of_place.setdefault(problem.where, []).append(problem)
    merged: set[str] = set()
    lists = [values for values in items.modalities.values() if isinstance(values, list)]
    only_lists = len(lists) == len(items.modalities)
    place_of_id: dict[str, str] = {}
    for row, (name, place) in enumerate(zip(items.ids, items.places, strict=True)):
        if not name:
            problems.append(Problem(place, "item", "the id is empty"))
        elif not _is_unicode(name):
            problems.append(Problem(_shown(place), "item", "its name is not valid Unicode"))
        elif name in place_of_id:
            problems.append(Problem(place, "item", f"the id {name!r} was used before ({place_of_id[name]})"))
        elif only_lists and all(values[row] is None for values in lists):
            reasons = dict.fromkeys(problem.reason for problem in of_place.get(place, []))
            problems.append(Problem(place, "item", " and ".join(reasons) + ", and nothing else describes the item"))
            merged.add(place)
        else:
            keep.append(row)
            place_of_id[name] = place
    # An item of which nothing is left is one problem, not one for each of its modalities.
    problems = [problem for problem in problems if problem.where not in merged or problem.lost == "item"]
    if not keep:
        raise InputError("no item is left to use" + (f": {problems[0]}" if problems else ""))
    cleaned = items if len(keep) == len(items) else items.take(keep)
    return replace(cleaned, problems=problems)


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # a file's name in another encoding
        return False
    return True


def _shown(name: str) -> str:
    return name.encode(errors="replace").decode()
