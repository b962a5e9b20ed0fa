"""One search request: a `Query` says what is asked, `SearchOptions` how it is answered."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._validation import check_choice, check_flag, check_integer
from dlfh.collection.calibration.model import RANKINGS
from dlfh.errors import InputError
from dlfh.index.where import parse_where

_MATCHES = ("codes", "words", "both")


@dataclass(frozen=True)
class SearchOptions:
    """Options of a search. All are keyword arguments of `Collection.search` and `Client.search`.

    Parameters
    ----------
    k : int, default 10
        Number of items to return.
    modalities : str or sequence of str, optional
        Modalities to search, or "all". The default is the choice that ranked held-out items best when the collection
        was built or, if none were held out, another modality than the query's.
    match : {"codes", "words", "both"}, optional
        What a text query is compared with: the codes of items, the words in their texts, or both. The default is the
        choice that ranked held-out items best or, if none were held out, "codes". Images and vectors are always
        compared with codes.
    ranking : {"asymmetric", "specific", "hamming"}, optional
        How codes are compared: by Hamming distance weighted by the confidence of each bit of the query (the default);
        by the same weights relative to the average query, which suits short texts because items with many labels no
        longer come first everywhere; or by plain Hamming distance.
    hashed_only : bool, default False
        Compare hashed codes only, so that labelled items do not rank before unlabelled ones.
    min_probability : float, optional
        Return only items whose probability is at least this.
    radius : int, optional
        Return all items within this Hamming distance, in the first searched modality, instead of ``k`` items.
    ids : sequence of str, optional
        Search only the items with these ids.
    where : dict, optional
        Search only items whose labels and columns match this filter, such as
        ``{"labels": "sale", "price": {"<": 20}}``; see `Index.matches`.
    limit : int, optional
        Raise InputError if more than this many items are within ``radius``.

    Examples
    --------
    >>> SearchOptions(k=5, modalities=["image"]).modalities
    ('image',)
    >>> SearchOptions(k=0)
    Traceback (most recent call last):
    dlfh.errors.InputError: k must be an integer of at least 1, got 0
    """

    k: int = 10
    modalities: str | Sequence[str] | None = None
    match: str | None = None
    ranking: str | None = None
    hashed_only: bool = False
    min_probability: float | None = None
    radius: int | None = None
    ids: Sequence[str] | None = None
    where: Mapping[str, Any] | None = None
    limit: int | None = None

    def __post_init__(self) -> None:
        self._set("k", check_integer(self.k, "k", 1))
        if self.modalities is not None and not isinstance(self.modalities, str):
            self._set("modalities", _strings(self.modalities, "modalities"))
            if not self.modalities:
                raise InputError("modalities is empty: name at least one modality to search")
        if self.match is not None:
            check_choice(self.match, "match", _MATCHES)
        if self.ranking is not None:
            check_choice(self.ranking, "ranking", RANKINGS)
        check_flag(self.hashed_only, "hashed_only")
        least = self.min_probability
        if least is not None and not (isinstance(least, (int, float)) and 0 < least < 1):
            raise InputError(f"min_probability must be a number between 0 and 1, got {least!r}")
        if self.radius is not None:
            self._set("radius", check_integer(self.radius, "radius", 0))
        if self.ids is not None:
            self._set("ids", _strings(self.ids, "ids"))
        if self.where is not None:
            parse_where(self.where)
            self._set("where", dict(self.where) or None)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def _strings(values: Any, name: str) -> tuple[str, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list of strings, got {type(values).__name__}")
    strings = tuple(values)
    for value in strings:
        if not isinstance(value, str):
            raise InputError(f"{name} must be a list of strings, got {value!r} in it")
    return strings


@dataclass(eq=False)
class Query:
    """One query. `Searcher.encode` fills in the projection of a text, image or vector when it is first needed.

    Attributes
    ----------
    kind : {"text", "image", "vector", "code", "id"}
    value : Any
        The text, image or vector; a binary code in hexadecimal; or the id of an item of the collection.
    modality : str or None
        The modality of a text, image or vector. By default that called "text" or "image", or else the first that
        takes texts or images.
    projection : ndarray of float32 (n_bits,) or None
        The real values whose signs are the query's code.
    is_known : bool
        False for a text without any word of the model's vocabulary.
    """

    kind: Literal["text", "image", "vector", "code", "id"]
    value: Any
    modality: str | None = None
    projection: npt.NDArray[np.float32] | None = field(default=None, repr=False)
    is_known: bool = field(default=True, repr=False)

    @property
    def has_value(self) -> bool:
        """Whether it is a text, image or vector, and not a code or an id."""
        return self.kind in ("text", "image", "vector")


def is_single(value: Any, takes: str) -> bool:
    """Return whether a raw value is one text, image or vector, not several.

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
    # Strings, bytes and paths are single values although they can be iterated over; PIL images cannot be.
    return isinstance(value, (str, bytes, bytearray, memoryview, os.PathLike)) or not isinstance(value, Iterable)


def _depth(value: Any) -> int:
    """Return the number of axes of an array or nested list, judged by its first entries."""
    if hasattr(value, "ndim"):
        return int(value.ndim)
    if isinstance(value, (list, tuple)) and len(value):
        return 1 + _depth(value[0])
    return int(isinstance(value, Iterable) and not isinstance(value, str))
