"""Tables that are in memory already: of pandas, of Arrow, and of what speaks Arrow's protocol, such as Polars."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlfh._optional import require
from dlfh.datasets.parquet import cells_of

__all__ = ["columns_of_frame", "is_frame"]


def is_frame(value: Any) -> bool:
    """Return whether something is a table in memory."""
    return _is_pandas(value) or hasattr(value, "__arrow_c_stream__") or hasattr(value, "to_pydict")


def columns_of_frame(frame: Any) -> tuple[list[str], list[list[Any]]]:
    """Return the names of a table's columns, and the cells of each; None where one is empty.

    Examples
    --------
    >>> import pyarrow
    >>> columns_of_frame(pyarrow.table({"id": [7, 8], "caption": ["a red car", None]}))
    (['id', 'caption'], [[7, 8], ['a red car', None]])
    """
    if _is_pandas(frame):
        names = [str(name) for name in frame.columns]
        return names, [_pandas_cells(frame.iloc[:, place]) for place in range(len(names))]
    table = require("pyarrow", "reading a table of Arrow", "parquet").table(frame)
    return list(table.column_names), [
        cells_of(name, table.column(place)) for place, name in enumerate(table.column_names)
    ]


def _is_pandas(value: Any) -> bool:
    return hasattr(value, "iloc") and hasattr(value, "columns")


def _pandas_cells(column: Any) -> list[Any]:
    empty = np.asarray(column.isna(), bool)
    cells = column.tolist()
    if column.dtype.kind == "f" and empty.any() and all(cell.is_integer() for cell in _filled(cells, empty)):
        cells = [
            cell if gone else int(cell) for cell, gone in zip(cells, empty, strict=True)
        ]  # whole but for the holes
    return [None if gone else cell for cell, gone in zip(cells, empty, strict=True)]


def _filled(cells: list[Any], empty: Any) -> list[Any]:
    return [cell for cell, gone in zip(cells, empty, strict=True) if not gone]
