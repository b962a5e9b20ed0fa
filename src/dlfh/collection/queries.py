"""One query or several: what a user passes to a search, as a batch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp

__all__ = ["is_single"]


def is_single(value: Any, takes: str) -> bool:
    """Return whether a raw value is one text, image or vector, and not several.

    A text is a string; an image is a path, bytes, a PIL image or an array; a vector has one axis.

    Parameters
    ----------
    value : Any
    takes : {"texts", "images", "vectors"}

    Examples
    --------
    >>> is_single("a red car", "texts"), is_single(["a red car"], "texts")
    (True, False)
    >>> is_single("car.jpg", "images"), is_single([np.zeros((9, 9)), "car.jpg"], "images")
    (True, False)
    >>> is_single([1.0, 2.0], "vectors"), is_single(np.zeros((3, 2)), "vectors")
    (True, False)
    """
    if takes == "vectors":
        return (value.ndim if sp.issparse(value) else _depth(value)) < 2
    if takes == "images" and isinstance(value, np.ndarray) and value.dtype != object:
        return value.ndim < 3 or (value.ndim == 3 and value.shape[2] in (1, 3, 4))
    # A string, bytes or a path has no values in it; a PIL image cannot be iterated over.
    return isinstance(value, (str, bytes, bytearray, memoryview, os.PathLike)) or not isinstance(value, Iterable)


def _depth(value: Any) -> int:
    """Return how many axes an array or a nested list has, by its first entries."""
    if hasattr(value, "ndim"):
        return int(value.ndim)
    if isinstance(value, (list, tuple)) and len(value):
        return 1 + _depth(value[0])
    return int(isinstance(value, Iterable) and not isinstance(value, str))
