"""Cells: what is computed, as plain values with a stable hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dlfh._version import __version__

__all__ = ["Cell", "Deal"]


@dataclass(frozen=True)
class Deal:
    """How the points of a data set are dealt out.

    Attributes
    ----------
    seed : int
        Of the random choices below.
    queries : int or None
        How many points are queries, of data that comes without queries of its own.
    unseen_share : float
        The share of the training points that training never sees: the *unseen* database. With 0 the
        queries are dealt into two halves, each of which is the other's unseen database.
    validation : float
        The share of the training points that take the place of the queries, to choose parameters by.
    validation_seed : int
        Which of the training points these are.
    size : int or None
        How many of the training points are used; all of them by default.
    """

    seed: int = 0
    queries: int | None = None
    unseen_share: float = 0.0
    validation: float = 0.0
    validation_seed: int = 0
    size: int | None = None


@dataclass(frozen=True)
class Cell:
    """One computation of an experiment: a method with its parameters on a split of a data set.

    Attributes
    ----------
    data : str
        Name of the data set.
    fingerprint : str
        Hash of its arrays.
    method : str
        Name of the method, as in `dlfh.methods.available`.
    parameters : str
        JSON of the parameters that differ from the method's own defaults. (A string, so that cells can be
        hashed; `Cell.make` takes a dict.)
    bits, seed : int
    deal : Deal
    kind : {"retrieval", "time"}
        Whether accuracy is measured, beside others, or training time and memory, alone on the machine.
    k : int
        The k of MAP@k and precision@k.
    train_points : int or None
        How many of the training points the method learns from; the others are encoded.
    version : str
        Of the library: another one may give other codes.

    Examples
    --------
    >>> cell = Cell.make("wiki", "0f", "DLFH", {"scale": 4.0}, bits=32, seed=0)
    >>> cell == Cell.from_plain(cell.plain()), len(cell.key)
    (True, 16)
    """

    data: str
    fingerprint: str
    method: str
    parameters: str
    bits: int
    seed: int
    deal: Deal = field(default_factory=Deal)
    kind: Literal["retrieval", "time"] = "retrieval"
    k: int = 50
    train_points: int | None = None
    version: str = __version__

    @classmethod
    def make(
        cls,
        data: str,
        fingerprint: str,
        method: str,
        parameters: Mapping[str, Any],
        **others: Any,
    ) -> Cell:
        """Return a cell with parameters from a dict."""
        return cls(data, fingerprint, method, _canonical(dict(parameters)), **others)

    @property
    def values(self) -> dict[str, Any]:
        """The parameters as a dict."""
        return json.loads(self.parameters)

    @property
    def key(self) -> str:
        """A hash of everything that decides the result: the name that the result is kept under."""
        relevant = {name: value for name, value in self.plain().items() if name != "data"}
        return hashlib.sha256(_canonical(relevant).encode()).hexdigest()[:16]

    def plain(self) -> dict[str, Any]:
        """Return the cell as JSON can hold it."""
        return asdict(self) | {"parameters": self.values}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Cell:
        """Return the cell that `plain` was made of."""
        changed = {"parameters": _canonical(plain["parameters"]), "deal": Deal(**plain["deal"])}
        return cls(**{**plain, **changed})


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
