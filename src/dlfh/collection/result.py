"""The result of a search."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

from dlfh.errors import DataWarning


@dataclass(frozen=True)
class ResultItem:
    """An item in a search result.

    Attributes
    ----------
    rank : int
        From 1.
    id : str
    metadata : dict
    probability : float or None
        Probability that the item shares a label with the query; None if the collection is not calibrated.
    n_equal : int or None
        Number of items with the same probability, this one included; None if it is unknown. Equal items are ordered
        by their hashed codes.
    hamming_distance : int
        Number of bits in which the item's code differs from the query's.
    distance : float
        The same, with each bit weighted by the confidence of the query in it.
    learned : bool
        Whether the item's code was learned from its labels; otherwise a hash function computed it.
    code : str
        The item's code in the searched modality, in hexadecimal.
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
        """Return the item's texts in one line, without those of the hidden modalities."""
        texts = [value for name, value in self.metadata.items() if isinstance(value, str) and name not in hidden]
        return " | ".join(texts)

    @property
    def heading(self) -> str:
        """The item's id, probability and labels.

        Examples
        --------
        >>> ResultItem(1, "cat.jpg", {"labels": ["animal"]}, 0.93).heading
        'cat.jpg (93%, animal)'
        """
        about = ", ".join(filter(None, [self.percentage, *self.labels]))
        return f"{self.id} ({about})" if about else self.id

    def __str__(self) -> str:
        text = self.text()
        return f"{self.rank}. {self.heading}" + (f": {text}" if text else "")


class SearchResult(Sequence[ResultItem]):
    """The items that one query found, the best first.

    Attributes
    ----------
    ids : list of str
    code : str
        The query's code, in hexadecimal.
    modality : str or None
        The query's modality; None for a code or an item of the collection.
    modalities : tuple of str
        The modalities that were searched.
    match : {"codes", "words", "both"}
        What the query was compared with.
    warning : str or None
        Why the result may be meaningless, for example because no word of the query is known.

    Examples
    --------
    >>> result = SearchResult([ResultItem(1, "cat.jpg", {"text": "a small cat", "labels": ["animal"]}, 0.93)])
    >>> result.ids, result[0].labels
    (['cat.jpg'], ['animal'])
    >>> print(result)
    1. cat.jpg (93%, animal): a small cat
    """

    def __init__(
        self,
        items: Iterable[ResultItem],
        code: str = "",
        *,
        modality: str | None = None,
        modalities: Sequence[str] = (),
        match: str = "codes",
        warning: str | None = None,
    ) -> None:
        self._items = tuple(items)
        self.code = code
        self.modality = modality
        self.modalities = tuple(modalities)
        self.match = match
        self.warning = warning

    @property
    def ids(self) -> list[str]:
        return [item.id for item in self._items]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the items as dicts of plain values, ready for JSON."""
        return [asdict(item) for item in self._items]

    def table(self, *, details: bool = False, hidden: Sequence[str] = ()) -> tuple[list[str], list[list[Any]]]:
        """Return column names and rows: each item's id, probability, labels and texts.

        Parameters
        ----------
        details : bool
            Add the number of equally probable items, the Hamming distance, and whether the code is learned or hashed.
        hidden : sequence of str
            Modalities whose texts are omitted, such as paths of images.
        """
        columns: list[tuple[str, list[Any]]] = [("", [item.rank for item in self._items]), ("id", self.ids)]
        about: list[tuple[str, list[Any]]] = [
            ("probability", [item.percentage for item in self._items]),
            ("labels", [", ".join(item.labels) for item in self._items]),
            ("text", [item.text(hidden) for item in self._items]),
        ]
        columns += [column for column in about if any(column[1])]
        if details:
            columns += [
                ("equal", [item.n_equal or "" for item in self._items]),
                ("Hamming distance", [item.hamming_distance for item in self._items]),
                ("code", ["learned" if item.learned else "hashed" for item in self._items]),
            ]
        names, values = zip(*columns, strict=True)
        return [*names], [*map(list, zip(*values, strict=True))]

    def to_html(self, *, details: bool = False) -> str:
        """Return the table as HTML; parameters as for `table`."""
        return html_table(*self.table(details=details), "" if self._items else str(self))

    def _repr_html_(self) -> str:
        """Return the table that notebooks show."""
        return self.to_html()

    @overload
    def __getitem__(self, place: int) -> ResultItem: ...
    @overload
    def __getitem__(self, place: slice) -> SearchResult: ...
    def __getitem__(self, place: int | slice) -> ResultItem | SearchResult:
        if not isinstance(place, slice):
            return self._items[place]
        about = {"modality": self.modality, "modalities": self.modalities, "match": self.match}
        return SearchResult(self._items[place], self.code, warning=self.warning, **about)  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SearchResult) and self._items == other._items

    __hash__ = None  # type: ignore[assignment]  # metadata are dicts

    def __str__(self) -> str:
        return "\n".join(map(str, self._items)) or "nothing found"

    def __repr__(self) -> str:
        items = ", ".join(item.heading for item in self._items[:3]) + (", ..." if len(self) > 3 else "")
        return f"SearchResult({len(self)} items{': ' if self else ''}{items})"


def issue_warnings(results: Sequence[SearchResult]) -> None:
    """Issue the first warning of several results, for the caller of the calling function."""
    texts = [result.warning for result in results if result.warning]
    if texts:
        others = f" (and {len(texts) - 1} more queries)" if len(texts) > 1 else ""
        warnings.warn(f"{texts[0]}{others}", DataWarning, stacklevel=3)


def labels_of(metadata: Mapping[str, Any]) -> list[str]:
    """Return the labels in an item's metadata.

    Examples
    --------
    >>> labels_of({"labels": ["a", 3]}), labels_of({})
    (['a', '3'], [])
    """
    labels = metadata.get("labels")
    return [str(label) for label in labels] if isinstance(labels, list) else []


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Return an HTML table with all text escaped.

    Examples
    --------
    >>> html_table(["id"], [["<b>"]])
    '<table><thead><tr><th>id</th></tr></thead><tbody><tr><td>&lt;b&gt;</td></tr></tbody></table>'
    """
    from html import escape  # not needed to search

    head = "".join(f"<th>{escape(str(column))}</th>" for column in columns)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
