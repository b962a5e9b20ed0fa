"""Reading items from a folder of images, a table, or files of vectors.

A defective item (a malformed row, an empty text, a missing image) does not stop the reading: the defect is recorded in
`Items.problems`, and the item keeps its other modalities.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from dlfh._labels import LabelSets
from dlfh._validation import Features, check_features
from dlfh.datasets.arrays import is_array_folder, read_array, read_arrays
from dlfh.datasets.image_files import IMAGE_SUFFIXES, find_image, folder_with, images_in
from dlfh.datasets.items import Items, check_modality_names, drop_unusable, item_metadata, make_items
from dlfh.datasets.label_cells import parse_label_column
from dlfh.datasets.layout import contents_of
from dlfh.datasets.paired import stack
from dlfh.datasets.problem import Problem, check_skipped
from dlfh.datasets.tables import TABLE_SUFFIXES, Table, is_frame, read_table
from dlfh.errors import InputError, prefixed

#: Suffixes that distinguish a file of arrays from the name of a column or variable.
_ARRAY_SUFFIXES = (".h5", ".hdf5", ".mat", ".npy", ".npz", ".safetensors")
#: Cells that become JSON numbers, without losing a digit: "007" and bar codes remain text.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]{0,11})(\.[0-9]{1,6})?")


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
    max_skipped: float = 0.5,
    part: Literal["train", "queries"] | None = None,
) -> Items:
    r"""Read items from a folder of images, a table, files of vectors, or a combination.

    Parameters
    ----------
    source : path or table, optional
        A folder of images; a table; or a file or folder of arrays (``.npz``, ``.npy``, ``.mat``), with variables named
        by ``vectors`` and ``labels``, which may be omitted if the variables have the names that `load_dataset` expects.
    table : path or table, optional
        A file (``.csv``, ``.tsv``, ``.jsonl``, ``.parquet``, ``.arrow``, ``.feather``, ``.xlsx``) or a table in memory
        (pandas, Polars, Arrow) with the columns that the following parameters name. Image paths are relative to the
        folder ``source``, by default the folder of the table, or the current folder for a table in memory. Without a
        table, each image in the folder is an item: its path is the id, the words of its file name are the text, and
        its subfolder, if any, is the label.
    id : str, optional
        Column or variable of ids. By default the path of the first image, or the row number.
    image, text : str or dict of str to str, optional
        Column of image paths, or of texts. For several columns, a dict from modality to column.
    vectors : dict of str to str, optional
        For each modality, a variable in ``source``, a file of vectors, ``FILE:VARIABLE``, or a column of lists.
    labels : str, optional
        Column or variable (or ``FILE:VARIABLE``) of labels.
    separator : str, optional
        Separator between labels in a cell; by default the most frequent of ``;``, ``|``, ``,`` and tab.
    encoding : str
        Encoding of a table that is a text file.
    max_skipped : float
        Maximum share of the items, and of the images, that may be skipped because they cannot be found or read. If more
        are skipped, here or when the items are encoded, InputError is raised, because the source may be wrong.
    part : {"train", "queries"}, optional
        Part to read of a split data set with the names that `load_dataset` expects; by default all points.

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
    items.csv, line 3: 'caption' is empty; the item has no other content
    """
    if is_frame(source):
        if table is not None:
            raise InputError("two tables were given: pass one, as source or as table")
        source, table = None, source
    place = None if source is None else Path(source)
    images, texts, matrices = _by_modality(image, "image"), _by_modality(text, "text"), dict(vectors or {})
    check_modality_names({*images, *texts, *matrices})
    if not 0 <= max_skipped <= 1:
        raise InputError(f"max_skipped must be between 0 and 1, got {max_skipped:g}")
    if separator == "":
        raise InputError("separator is empty: pass the character between labels")
    if repeated := {*images} & {*texts} | {*images, *texts} & {*matrices}:
        raise InputError(f"modality {min(repeated)!r} is given twice: pass one source for each modality")
    if place is not None and not place.exists():
        raise InputError(f"{place} does not exist: expected a folder of images, a table or a file of arrays")
    if table is None and place is not None and place.suffix.lower() in TABLE_SUFFIXES and place.is_file():
        table, place = place, place.parent
    if table is not None:
        if place is not None and not place.is_dir():
            raise InputError(f"{place} is not a folder: if a table is given, source must be the folder of its images")
        read = read_table(table, encoding=encoding)
        items = _from_table(read, place, id, images, texts, matrices, labels, separator, max_skipped)
    elif place is not None and place.is_dir() and not matrices and not is_array_folder(place):
        for option, value in (("id", id), ("image", image), ("text", text), ("labels", labels)):
            if value is not None:
                raise InputError(f"{option} names a column, but there is no table: pass a table")
        items = _from_folder(place, max_skipped)
    elif images or texts:
        name, *_ = [*images.values(), *texts.values()]
        raise InputError(f"{name!r} names a column, but there is no table: pass a table")
    else:
        items = _from_arrays(place, id, matrices, labels, part)
    items = replace(drop_unusable(items), max_skipped=max_skipped)
    if dropped := [problem for problem in items.problems if problem.skipped == "item"]:
        check_skipped(len(dropped), len(items) + len(dropped), max_skipped, "items", dropped[0])
    return items


def _by_modality(columns: str | Mapping[str, str] | None, name: str) -> dict[str, str]:
    if columns is None:
        return {}
    if isinstance(columns, str):
        return {name: columns}
    if not isinstance(columns, Mapping):
        raise InputError(f"{name} must be a column, or a dict from modality to column, got {columns!r}")
    return dict(columns)


def _from_table(
    table: Table,
    folder: Path | None,
    id: str | None,
    images: dict[str, str],
    texts: dict[str, str],
    vectors: dict[str, str],
    labels: str | None,
    separator: str | None,
    max_skipped: float,
) -> Items:
    if not images and not texts and not vectors:
        raise InputError(f"{table.path}: name the column of texts or of image paths")
    root = table.path.parent if folder is None else folder
    problems = list(table.problems)
    modalities: dict[str, Any] = {}
    for name, column in (images | texts).items():
        modalities[name] = values = []
        for written, place in zip(table.texts(column), table.places, strict=True):
            value, reason = find_image(root, written) if name in images else (written or None, "")
            if value is None:
                problems.append(Problem(place, name, reason if written else f"{column!r} is empty"))
            values.append(value)
        if name in images:
            _check_found(table, root, column, values, max_skipped)
    for name, spec in vectors.items():
        modalities[name] = _vectors(table, spec, name)
    ids = [str(row) for row in range(len(table.rows))]
    if id is not None:
        ids = table.texts(id)
    elif images:
        ids = [path or row for path, row in zip(table.texts(next(iter(images.values()))), ids, strict=True)]
    label_lists = None if labels is None else parse_label_column(table.column(labels), separator, table.path)
    used = {*images.values(), *texts.values(), *vectors.values(), labels, id}
    metadata = item_metadata(modalities, label_lists, len(ids))
    for entry, columns in zip(metadata, _further_columns(table, used), strict=True):
        entry |= {"columns": columns} if columns else {}
    return Items(ids, modalities, label_lists, metadata, table.places, problems, named=bool(images) or id is not None)


def _check_found(table: Table, root: Path, column: str, found: list[Any], max_skipped: float) -> None:
    named = [(name, path) for name, path in zip(table.texts(column), found, strict=True) if name]
    lost = [name for name, path in named if path is None]
    if len(lost) <= max_skipped * len(named):
        return
    elsewhere = folder_with(lost, [root, table.path.parent, root.absolute().parent])
    advice = f"(such as {lost[0][:60]!r}): pass the folder that has them as the source"
    if elsewhere is not None:
        advice = f"but in {elsewhere}: pass that folder as the source"
    raise InputError(
        f"{len(lost):,} of the {len(named):,} images that column {column!r} names are not in {root} {advice}, or allow "
        "missing images with max_skipped=1 (--max-skipped 1)"
    )


def _from_folder(folder: Path, max_skipped: float) -> Items:
    files, unreadable = images_in(folder)
    problems = [
        Problem(path.relative_to(folder).as_posix(), f"{path.suffix.lower()} file", reason)
        for path, reason in unreadable.items()
    ]
    if problems:
        counts = Counter(path.suffix.lower() for path in unreadable)
        called = f"images in {folder}, {' and '.join(f'{n:,} {suffix}' for suffix, n in counts.most_common())},"
        check_skipped(len(problems), len(files) + len(problems), max_skipped, called, problems[0].reason)
    if not files:
        raise InputError(f"{folder} contains no images: no file ends in {', '.join(IMAGE_SUFFIXES)}")
    ids = [path.relative_to(folder).as_posix() for path in files]
    texts = [" ".join("".join(c if c.isalnum() else " " for c in path.stem).split()) or None for path in files]
    label_lists = [[path.parent.name] if path.parent != folder else [] for path in files]
    labels = label_lists if any(label_lists) else None
    modalities: dict[str, Any] = {"image": files, "text": texts}
    return Items(ids, modalities, labels, item_metadata(modalities, labels, len(ids)), list(ids), problems)


def _from_arrays(
    source: Path | None, id: str | None, vectors: dict[str, str], labels: str | None, part: str | None
) -> Items:
    if source is None and not vectors:
        raise InputError("nothing to read: pass a folder of images, a table or a file of arrays")
    arrays = {} if source is None else read_arrays(source)
    if vectors:
        matrices = {name: check_features(find_array(arrays, spec), name) for name, spec in vectors.items()}
        label_lists = None if labels is None else _label_lists(find_array(arrays, labels), labels)
    else:
        with prefixed(f"{source}: name the variable of each modality's vectors, such as image=X"):
            parts = {name: each.points for name, each in contents_of(arrays).parts.items()}
        points = parts[part] if part in parts else stack(list(parts.values()))
        matrices = {name: check_features(matrix, name) for name, matrix in points.modalities.items()}
        label_lists = _label_lists(points.labels, "labels", points.label_names)
    ids = None if id is None else [str(value) for value in np.ravel(find_array(arrays, id))]
    return make_items(matrices, label_lists, ids, "row")


def _vectors(table: Table, spec: str, name: str) -> Features:
    if spec in table.columns:
        try:
            return check_features(np.array(table.column(spec), np.float32), name)
        except (TypeError, ValueError):
            raise InputError(f"column {spec!r} of {table.path} must hold lists of numbers of equal length") from None
    matrix = check_features(find_array({}, spec), name)  # a separate file, with as many rows as the table
    if matrix.shape[0] != table.n_all:
        raise InputError(f"{spec} has {matrix.shape[0]} rows but {table.path} has {table.n_all}")
    return matrix[np.array(table.numbers, np.int64)]


def find_array(arrays: Mapping[str, Any], spec: str) -> Any:
    """Return an array by its name in ``arrays``, or from a file given as FILE or FILE:VARIABLE."""
    if spec in arrays:
        return arrays[spec]
    file, _, variable = spec.rpartition(":")
    if file and Path(file).suffix.lower() in _ARRAY_SUFFIXES:
        return read_array(file, variable)
    if Path(spec).suffix.lower() in _ARRAY_SUFFIXES:
        return read_array(spec)
    known = f" among {', '.join(map(repr, arrays))}" if arrays else ""
    suffixes = ", ".join(_ARRAY_SUFFIXES)
    raise InputError(f"{spec!r} is neither the name of an array{known} nor a file of arrays ({suffixes})")


def _label_lists(labels: Any, name: str, label_names: Sequence[str] | None = None) -> list[list[str]]:
    if getattr(labels, "ndim", 1) == 2 and labels.shape[1] == 1:  # a MATLAB vector of class ids
        labels = np.ravel(labels)
    sets = LabelSets.from_labels(labels, name=f"labels {name!r}", allow_empty=True)
    numbers = label_names or range(sets.n_labels)  # column numbers of an indicator matrix
    names = [str(label) for label in (numbers if sets.names is None else sets.names)]
    lists = [[names[label] for label in sets.labels_of(number)] for number in range(sets.n_sets)]
    return [list(lists[group]) for group in sets.set_of_point]


def _further_columns(table: Table, used: set[str | None]) -> Iterator[dict[str, Any]]:
    """Yield, for each row, the cells of the columns not in ``used``; in text files, numeric strings become numbers."""
    others = [(place, name) for place, name in enumerate(table.columns) if name and name not in used]
    numeric = set()
    for place, _ in [] if table.typed else others:
        filled = [row[place] for row in table.rows if row[place] != ""]
        if filled and all(map(_NUMBER.fullmatch, filled)):
            numeric.add(place)
    for row in table.rows:
        yield {
            name: json.loads(value) if place in numeric else value
            for place, name in others
            if (value := _to_json(row[place])) is not None
        }


def _to_json(value: Any) -> Any:
    """Return a cell as a JSON scalar; None if it is empty or cannot be displayed."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, (bytes, list, dict)) or value == "":
        return None
    return value if value is None or isinstance(value, (str, int, bool)) else str(value)
