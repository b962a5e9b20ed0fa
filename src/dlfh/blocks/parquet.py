"""Parquet files in blocks: a column of vectors, several numeric columns, or a sparse matrix."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Integers
from dlfh._imports import require
from dlfh._limits import check_regular_file
from dlfh._sparse import rows_from_parts
from dlfh.blocks.base import Blocks, block_starts
from dlfh.errors import InputError

_BUFFER_BYTES = 1 << 20  #: Buffer size for reading a row group in parts.


class ParquetBlocks(Blocks):
    """A Parquet file or folder of files: a column of vectors, several numeric columns, or a sparse matrix.

    A numeric column, such as class ids, is a vector; in a list of columns, it is a column of a matrix.

    Each row group is a block, or several if it exceeds the block size. The blocks of a row group are read sequentially;
    reading them in another order starts again at the beginning of the group.
    """

    is_splittable = True

    def __init__(self, path: Path, columns: str | Sequence[str] | None) -> None:
        self.name, files = str(path), _files(path)
        schema, _ = self._open(files[0])
        self.columns, self.width = _choose_columns(path, schema, columns)
        self.is_sparse = self.width is not None
        is_one = not self.is_sparse and (columns is None or isinstance(columns, str))
        self.is_vector = is_one and not _is_list(schema.field(self.columns[0]).type)
        self.groups: list[tuple[Path, int]] = []
        self.stream: _Stream | None = None
        starts = [np.zeros(1, np.int64)]
        for file in files:
            other, metadata = self._open(file)
            if other.names != schema.names:
                raise InputError(f"{file} and {files[0]} have different columns")
            for group in range(metadata.num_row_groups):
                self.groups.append((file, group))
                starts.append(starts[-1][-1] + _starts_in(metadata.row_group(group), self.columns))
        self.starts = np.concatenate(starts)
        self.group_starts = np.array([bounds[-1] for bounds in starts])
        if not self.starts[-1]:
            raise InputError(f"{path} has no rows")
        first = self._read(int(np.flatnonzero(np.diff(self.starts))[0]))
        self.shape = (int(self.starts[-1]), *first.shape[1:])
        self.dtype = first.dtype

    @classmethod
    def names(cls, path: Path) -> list[str]:
        """Return the names of the columns; the two columns of a sparse matrix count as one."""
        schema, _ = cls._open(_files(path)[0])
        widths = _sparse_widths(schema)
        parts = {f"{name}.{part}" for name in widths for part in ("columns", "values")}
        return [*widths, *(name for name in schema.names if name not in parts)]

    @staticmethod
    def _open(file: Path) -> tuple[Any, Any]:
        check_regular_file(file)
        parquet = require("pyarrow.parquet", "reading Parquet", "parquet")
        try:
            with parquet.ParquetFile(file) as stored:
                return stored.schema_arrow, stored.metadata
        except Exception:  # the parser of a damaged file raises all kinds of errors
            raise InputError(f"cannot read {file}: it is damaged, truncated or not a Parquet table") from None

    def _read(self, number: int) -> Any:
        start, stop = self.starts[number : number + 2]
        if start == stop:
            width = self.shape[1:]
            return sp.csr_array((0, *width), dtype=self.dtype) if self.is_sparse else np.empty((0, *width), self.dtype)
        first, last = np.searchsorted(self.group_starts, (start, stop - 1), side="right") - 1
        file = self.groups[first][0]
        tables = [self._rows(group, start, stop) for group in range(first, last + 1)]
        table = require("pyarrow", "reading Parquet", "parquet").concat_tables(tables)
        parts = [table.column(name).combine_chunks() for name in self.columns]
        for name, part in zip(self.columns, parts, strict=True):
            if part.null_count:
                raise InputError(f"cannot read {file}: column {name!r} has missing values")
        if self.width is not None:
            starts = _offsets(parts[0])
            pieces = {"data": _flat(parts[1]), "indices": _flat(parts[0]), "indptr": starts}
            return rows_from_parts(self.name, pieces, (len(starts) - 1, self.width))
        if len(parts) > 1 or not _is_list(parts[0].type):
            matrix = np.column_stack([part.to_numpy(zero_copy_only=False) for part in parts])
            matrix = matrix[:, 0] if self.is_vector else matrix
        else:
            lengths = np.diff(_offsets(parts[0]))
            if len(lengths) and (lengths != lengths[0]).any():
                raise InputError(f"cannot read {file}: lists in column {self.columns[0]!r} have different lengths")
            matrix = _flat(parts[0]).reshape(len(parts[0]), -1)
        if matrix.dtype.kind not in "biuf":
            raise InputError(f"cannot read {file}: column {self.columns[0]!r} does not hold numbers")
        return matrix

    def _rows(self, number: int, start: int, stop: int) -> Any:
        """Return the rows of a row group between two row numbers, which count from the start of the data set."""
        parquet = require("pyarrow.parquet", "reading Parquet", "parquet")
        file, group = self.groups[number]
        begin, end = self.group_starts[number : number + 2]
        first, last = max(start, begin) - begin, min(stop, end) - begin
        stream, self.stream = self.stream, None  # a concurrent reader opens another stream
        try:
            if last - first == end - begin:
                with parquet.ParquetFile(file) as stored:
                    return stored.read_row_group(group, self.columns, use_threads=False)
            if stream is None or stream.number != number or stream.at > first:
                stored = parquet.ParquetFile(file, buffer_size=_BUFFER_BYTES, pre_buffer=False)
                batches = stored.iter_batches(last - first, row_groups=[group], columns=self.columns, use_threads=False)
                stream = _Stream(number, batches)
            found = stream.read(first, last)
        except FileNotFoundError:
            raise
        except Exception:
            raise InputError(f"cannot read {file}: it is damaged, or changed while it was read") from None
        if last < end - begin:
            self.stream = stream
        return found

    def __getstate__(self) -> dict[str, Any]:  # a copy, or a worker process, opens its own stream
        return self.__dict__ | {"stream": None}


class _Stream:
    """Sequential reader of a row group that never has the whole group in memory."""

    def __init__(self, number: int, batches: Any) -> None:
        self.number, self.batches, self.at = number, batches, 0
        self.left: Any = None

    def read(self, first: int, last: int) -> Any:
        """Skip to row ``first``, and return the rows up to ``last``."""
        while self.at < first:
            self._next(min(first - self.at, last - first))
        return self._next(last - first)

    def _next(self, n_rows: int) -> Any:
        parts, missing = [], n_rows
        while missing:
            batch = next(self.batches) if self.left is None else self.left
            parts.append(batch.slice(0, missing))
            missing -= len(parts[-1])
            self.left = batch.slice(len(parts[-1])) if len(parts[-1]) < len(batch) else None
        self.at += n_rows
        return require("pyarrow", "reading Parquet", "parquet").Table.from_batches(parts)


def _files(path: Path) -> list[Path]:
    if not (files := sorted(path.glob("**/*.parquet")) if path.is_dir() else [path]):
        raise InputError(f"{path} holds no .parquet file")
    return [file.absolute() for file in files]


def _starts_in(group: Any, columns: Sequence[str]) -> Integers:
    """Return the ends of the blocks of a row group, computed from the number of values in its columns."""
    # The compressed size is unsuitable: a thousand equal values take a few bytes.
    n_bytes = 0
    for stored in map(group.column, range(group.num_columns)):
        if any(f"{stored.path_in_schema}.".startswith(f"{name}.") for name in columns):
            n_bytes += stored.num_values * (4 if stored.physical_type in ("INT32", "FLOAT") else 8)
    return block_starts(group.num_rows, n_bytes // max(group.num_rows, 1))[1:]


def _choose_columns(path: Path, schema: Any, columns: str | Sequence[str] | None) -> tuple[list[str], int | None]:
    """Return the columns to read, and the width of the matrix if it is sparse."""
    widths = _sparse_widths(schema)
    names = [columns] if isinstance(columns, str) else list(columns or [])
    if not names:
        names = [*widths] or schema.names
        if len(names) > 1:
            raise InputError(f"{path} has {len(names)} columns: select one of {', '.join(map(repr, names))}")
    if len(names) == 1 and names[0] in widths:
        return [f"{names[0]}.columns", f"{names[0]}.values"], int(widths[names[0]])
    for name in names:
        if name not in schema.names:
            raise InputError(f"{path} has no column {name!r}; it has {', '.join(map(repr, schema.names))}")
    return names, None


def _sparse_widths(schema: Any) -> dict[str, int]:
    return json.loads((schema.metadata or {}).get(b"dlfh", b"{}")).get("sparse", {})


def _is_list(kind: Any) -> bool:
    types = require("pyarrow", "reading Parquet", "parquet").types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _offsets(lists: Any) -> Any:
    """Return where each list starts in the concatenated values, and where the last one ends."""
    lengths = require("pyarrow.compute", "reading Parquet", "parquet").list_value_length(lists)
    return np.concatenate([[0], np.cumsum(lengths.to_numpy(zero_copy_only=False))]).astype(np.int64)


def _flat(lists: Any) -> Any:
    return lists.flatten().to_numpy(zero_copy_only=False)
