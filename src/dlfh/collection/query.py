"""A search request and its result: `Query`, `SearchOptions` and `SearchResult`."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, overload

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Singles
from dlfh._validation import check_choice, check_flag, check_fraction, check_integer
from dlfh.collection.calibration.model import RANKINGS
from dlfh.collection.understanding import Named, Understanding
from dlfh.errors import DataWarning, InputError
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
        was built or, if none were held out, all for a text and otherwise a modality other than the query's.
    match : {"codes", "words", "both"}, optional
        What a text query is compared with: the codes of items, the words in their texts, or both. The default is the
        choice that ranked held-out items best or, if none were held out, "both". Images and vectors are always
        compared with codes.
    ranking : {"all", "any", "asymmetric", "hamming"}, optional
        Rank by the probability that an item has all labels of the query, or any of them; by Hamming distance with each
        bit weighted by the query's confidence; or by plain Hamming distance. The default is the choice that ranked
        held-out items best or, if none were held out, "all" for texts and "any" for others. Models without label
        probabilities support only the last two, and "asymmetric" is their default.
    hashed_only : bool, default False
        Compare hashed codes only, by the ranking "asymmetric" or "hamming", as if no item had labels.
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
    relevant, irrelevant : sequence of str, optional
        Ids of items that are right or wrong answers. The results are ranked again: items like the relevant ones rise,
        and the irrelevant ones are left out. Items like these fall, unless results must have all labels of a text.

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
    relevant: Sequence[str] | None = None
    irrelevant: Sequence[str] | None = None

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
        if self.min_probability is not None:
            self._set("min_probability", check_fraction(self.min_probability, "min_probability"))
        if self.radius is not None:
            self._set("radius", check_integer(self.radius, "radius", 0))
        for name in ("ids", "relevant", "irrelevant"):
            if getattr(self, name) is not None:
                self._set(name, _strings(getattr(self, name), name))
        if both := sorted({*(self.relevant or ())} & {*(self.irrelevant or ())}):
            raise InputError(f"item {both[0]!r} is both relevant and irrelevant: name it once")
        if self.where is not None:
            parse_where(self.where)
            self._set("where", dict(self.where) or None)

    def filled_in(self, modalities: tuple[str, ...], match: str, ranking: str) -> SearchOptions:
        """Return a copy with these values, without validating any field again."""
        filled = copy.copy(self)
        for name, value in (("modalities", modalities), ("match", match), ("ranking", ranking)):
            filled._set(name, value)
        return filled

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


def _strings(values: Any, name: str) -> tuple[str, ...]:
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputError(f"{name} must be a list of strings, got {type(values).__name__}")
    strings = tuple(values)
    for value in strings:
        if not isinstance(value, str):
            raise InputError(f"{name} must be a list of strings, but it contains {value!r}")
    return strings


@dataclass(eq=False)
class Query:
    """One query: a text, image or vector, a code in hexadecimal, or the id of an item of the collection."""

    kind: Literal["text", "image", "vector", "code", "id"]
    value: Any
    modality: str | None = None  # default: "text" or "image" if it exists, or else the first that accepts it
    literal: bool = False  # otherwise, typing errors are corrected and negated words exclude items
    also: Query | None = field(default=None, repr=False)  # a text that items must also match
    # Set by `Searcher.encode`; label probabilities and named labels only if the model has label probabilities.
    understanding: Understanding | None = field(default=None, repr=False)
    projection: Singles | None = field(default=None, repr=False)
    labels: Singles | None = field(default=None, repr=False)
    named: Named = field(default=Named(), repr=False)
    is_known: bool = field(default=True, repr=False)  # False for a text without any word of the model's vocabulary

    @property
    def text(self) -> str | None:
        """The text to search for; None if the query is not a text."""
        if self.kind != "text":
            return None
        return self.value if self.understanding is None else self.understanding.text

    @property
    def has_value(self) -> bool:
        """Whether the query is a text, image or vector, not a code or an id."""
        return self.kind in ("text", "image", "vector")


def is_single(value: Any, takes: str) -> bool:
    """Return whether a raw value is one text, image or vector, not several.

    A text is a string; an image is a path, bytes, a PIL image or an array; a vector has one axis.
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


@dataclass(frozen=True)
class ResultItem:
    """An item in a search result.

    rank: Rank in the result, from 1.
    probability: Probability that the item is relevant: that it has every label of a text, or shares a label with an
        image or vector. None if the collection is not calibrated.
    n_equal: Number of items with the same probability, this one included; None if it is unknown. Equal items are
        ordered by their hashed codes.
    hamming_distance: Number of bits in which the item's code differs from the query's.
    distance: The same, with each bit weighted by the confidence of the query in it.
    learned: Whether the item's code was learned from its labels; otherwise a hash function computed it.
    code: The item's code in the searched modality, in hexadecimal.
    """

    rank: int
    id: str
    metadata: dict[str, Any]
    probability: float | None = None
    n_equal: int | None = 1
    hamming_distance: int = 0
    distance: float = 0.0
    learned: bool = False
    code: str = ""

    @property
    def labels(self) -> list[str]:
        """The item's labels."""
        return labels_of(self.metadata)

    @property
    def percentage(self) -> str:
        """The probability as a percentage; empty if it is unknown."""
        return "" if self.probability is None else f"{self.probability:.0%}"

    def text(self, hidden: Sequence[str] = ()) -> str:
        """Return the item's texts in one line, except texts of hidden modalities."""
        texts = [value for name, value in self.metadata.items() if isinstance(value, str) and name not in hidden]
        return " | ".join(texts)

    @property
    def heading(self) -> str:
        """The item's id, probability and labels."""
        about = ", ".join(filter(None, [self.percentage, *self.labels]))
        return f"{self.id} ({about})" if about else self.id

    def __str__(self) -> str:
        text = self.text()
        return f"{self.rank}. {self.heading}" + (f": {text}" if text else "")


@dataclass(repr=False)
class SearchResult(Sequence[ResultItem]):
    """The items found for one query, best first.

    Attributes
    ----------
    items : list of ResultItem
    ids : list of str
    code : str
        The query's code, in hexadecimal.
    modality : str or None
        The query's modality; None for a code or an item of the collection.
    modalities : tuple of str
        The modalities that were searched.
    match : {"codes", "words", "both"}
        Whether the query was compared with codes, words or both.
    warning : str or None
        Why the result may be meaningless or empty, for example because no word of the query is known.
    understanding : Understanding or None
        How a text was understood: words that were corrected, replaced, excluded or unknown.
    notes : tuple of str
        The same as sentences, and a note if no item has all labels of the query.

    Examples
    --------
    >>> result = SearchResult([ResultItem(1, "cat.jpg", {"text": "a small cat", "labels": ["animal"]}, 0.93)])
    >>> result.ids, result[0].labels
    (['cat.jpg'], ['animal'])
    >>> print(result)
    1. cat.jpg (93%, animal): a small cat
    """

    items: list[ResultItem]
    code: str = field(default="", compare=False)
    modality: str | None = field(default=None, compare=False)
    modalities: tuple[str, ...] = field(default=(), compare=False)
    match: str = field(default="codes", compare=False)
    warning: str | None = field(default=None, compare=False)
    understanding: Understanding | None = field(default=None, compare=False)
    notes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def ids(self) -> list[str]:
        return [item.id for item in self.items]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the items as dicts of plain values, ready for JSON."""
        return [asdict(item) for item in self.items]

    def table(self, *, details: bool = False, hidden: Sequence[str] = ()) -> tuple[list[str], list[list[Any]]]:
        """Return column names and rows: each item's texts, labels, probability and id.

        Parameters
        ----------
        details : bool
            Add the number of equally probable items, the Hamming distance, and whether the code is learned or hashed.
        hidden : sequence of str
            Modalities whose texts are omitted, such as paths of images.
        """
        about: dict[str, list[Any]] = {
            "": [item.rank for item in self.items],
            "text": [item.text(hidden) for item in self.items],
            "labels": [", ".join(item.labels) for item in self.items],
            "probability": [item.percentage for item in self.items],
            "id": self.ids,
        }
        columns = {name: column for name, column in about.items() if any(column)}
        if details:
            columns["equal"] = [item.n_equal or "" for item in self.items]
            columns["Hamming distance"] = [item.hamming_distance for item in self.items]
            columns["code"] = ["learned" if item.learned else "hashed" for item in self.items]
        return [*columns], [*map(list, zip(*columns.values(), strict=True))]

    def to_html(self, *, details: bool = False) -> str:
        """Return the table as HTML; parameters as for `table`."""
        return html_table(*self.table(details=details), "" if self.items else str(self))

    def _repr_html_(self) -> str:
        return self.to_html()

    @overload
    def __getitem__(self, place: int) -> ResultItem: ...
    @overload
    def __getitem__(self, place: slice) -> SearchResult: ...
    def __getitem__(self, place: int | slice) -> ResultItem | SearchResult:
        return replace(self, items=self.items[place]) if isinstance(place, slice) else self.items[place]

    def __len__(self) -> int:
        return len(self.items)

    def __str__(self) -> str:
        return "\n".join(map(str, self.items)) or "nothing found"

    def __repr__(self) -> str:
        items = ", ".join(item.heading for item in self.items[:3]) + (", ..." if len(self) > 3 else "")
        return f"SearchResult({len(self)} items{': ' if self else ''}{items})"


def issue_warnings(results: Sequence[SearchResult]) -> None:
    """Issue the first warning of several results, attributed to the caller's caller."""
    texts = [result.warning for result in results if result.warning]
    if texts:
        others = f" (and {len(texts) - 1} more queries)" if len(texts) > 1 else ""
        warnings.warn(f"{texts[0]}{others}", DataWarning, stacklevel=3)


def labels_of(metadata: Mapping[str, Any]) -> list[str]:
    """Return the labels in an item's metadata."""
    labels = metadata.get("labels")
    return [str(label) for label in labels] if isinstance(labels, list) else []


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Return an HTML table with all text escaped."""
    from html import escape  # not needed to search

    head = "".join(f"<th>{escape(str(column))}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
