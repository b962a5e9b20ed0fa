"""What a search of a collection finds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, overload

__all__ = ["ResultItem", "SearchResult"]


@dataclass(frozen=True)
class ResultItem:
    """An item that a search found.

    Attributes
    ----------
    rank : int
        From 1.
    id : str
    hamming_distance : int
        In how many bits the item's code differs from the query's.
    distance : float
        The bits apart, weighted by how sure the query is of each.
    learned : bool
        Whether the item's code was learned; if not, the hash function made it.
    metadata : dict
    probability : float or None
        How probable it is that the item is right, which it is ranked by; None if no held-out items told.
    n_equal : int
        How many items are as probable as this one, itself included, before hashed codes and other modalities tell them
        apart.
    code : str
        Its code in the modality that was searched, in hexadecimal.
    """

    rank: int
    id: str
    hamming_distance: int
    distance: float
    learned: bool
    metadata: dict[str, Any]
    probability: float | None = None
    n_equal: int = 1
    code: str = ""

    @property
    def chance(self) -> str:
        """The probability in words, empty if it is not known."""
        return "" if self.probability is None else f"{self.probability:.0%}"

    def __str__(self) -> str:
        probability = f"{self.chance} probable, " if self.chance else ""
        equal = f", one of {self.n_equal} equals" if self.n_equal > 1 else ""
        kind = "learned" if self.learned else "hashed"
        return f"{self.rank}. {self.id} ({probability}{self.hamming_distance} bits apart, {kind}{equal})"


class SearchResult(Sequence[ResultItem]):
    """The items that one query found, the best first.

    Attributes
    ----------
    ids : list of str
    code : str
        The code of the query, in hexadecimal.

    Examples
    --------
    >>> found = SearchResult([ResultItem(1, "cat.jpg", 3, 1.25, False, {"labels": ["animal"]})])
    >>> found.ids, found[0].metadata["labels"]
    (['cat.jpg'], ['animal'])
    >>> print(found)
    1. cat.jpg (3 bits apart, hashed)
    """

    def __init__(self, items: Iterable[ResultItem], code: str = "") -> None:
        self._items = tuple(items)
        self.code = code

    @property
    def ids(self) -> list[str]:
        return [item.id for item in self._items]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return the items as plain dicts, such as JSON can hold."""
        return [asdict(item) for item in self._items]

    @overload
    def __getitem__(self, place: int) -> ResultItem: ...
    @overload
    def __getitem__(self, place: slice) -> SearchResult: ...
    def __getitem__(self, place: int | slice) -> ResultItem | SearchResult:
        return SearchResult(self._items[place], self.code) if isinstance(place, slice) else self._items[place]

    def __len__(self) -> int:
        return len(self._items)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SearchResult) and self._items == other._items

    __hash__ = None  # type: ignore[assignment]  # metadata are dicts

    def __str__(self) -> str:
        return "\n".join(map(str, self._items)) or "nothing found"

    def _repr_html_(self) -> str:
        """Return a table, as notebooks show it."""
        from dlfh.collection.html import html_table  # searching shows no HTML

        rows = [
            (
                item.rank,
                item.id,
                item.chance,
                item.n_equal,
                item.hamming_distance,
                "learned" if item.learned else "hashed",
                _about(item.metadata),
            )
            for item in self._items
        ]
        return html_table(
            ("", "id", "probable", "equals", "bits apart", "code", "what it is"), rows, "" if rows else str(self)
        )

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.ids[:3])) + (", ..." if len(self) > 3 else "")
        return f"SearchResult({len(self)} items{': ' if self else ''}{shown})"


def _about(metadata: dict[str, Any]) -> str:
    """Return what is known of an item in a line: its texts and paths, then its labels."""
    labels = metadata.get("labels")
    words = [value for value in metadata.values() if isinstance(value, str)]
    return " | ".join([*words, *([", ".join(map(str, labels))] if isinstance(labels, list) else [])])
