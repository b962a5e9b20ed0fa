"""Cells: the units of computation, as plain values with a stable hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dlfh._version import __version__


@dataclass(frozen=True)
class SplitSpec:
    """How to split a data set into training points, queries and unseen points."""

    seed: int = 0
    #: Number of queries, for data sets that do not define them.
    queries: int | None = None
    #: Share of the training points to hold out as the *unseen* database. With 0, the queries are divided into two
    #: halves, and each half is the unseen database of the other.
    unseen_share: float = 0.0
    #: Share of the training points that replace the queries when parameters are tuned, and the seed for choosing them.
    validation_share: float = 0.0
    validation_seed: int = 0
    #: Number of training points to keep; None keeps all.
    size: int | None = None


@dataclass(frozen=True)
class Cell:
    """One computation: a method with its parameters on a split of a data set."""

    data: str
    #: Hash of the data set's arrays.
    fingerprint: str
    method: str
    #: JSON of the parameters that differ from the method's defaults; a string makes cells hashable.
    parameters: str
    bits: int
    seed: int
    split: SplitSpec = field(default_factory=SplitSpec)
    #: Accuracy of a fit; training time and memory with the machine to itself; or accuracy of codes in a file.
    kind: Literal["retrieval", "time", "codes"] = "retrieval"
    #: Cut-off of MAP@k and precision@k.
    k: int = 50
    #: Number of training points that the method learns from (None for all); it encodes the others.
    train_points: int | None = None
    #: Version of the library, and of the source of other packages' methods; another one may produce other codes.
    version: str = __version__

    @classmethod
    def make(cls, data: str, fingerprint: str, method: str, parameters: Mapping[str, Any], **others: Any) -> Cell:
        """Return a cell with parameters from a mapping."""
        return cls(data, fingerprint, method, _canonical(dict(parameters)), **others)

    @property
    def values(self) -> dict[str, Any]:
        """The parameters as a dict."""
        return json.loads(self.parameters)

    @property
    def key(self) -> str:
        """Hash of everything that determines the result; the cached result is stored under it."""
        relevant = {name: value for name, value in self.plain().items() if name != "data"}
        return hashlib.sha256(_canonical(relevant).encode()).hexdigest()[:16]

    def plain(self) -> dict[str, Any]:
        """Return the cell as a JSON object."""
        return asdict(self) | {"parameters": self.values}

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any]) -> Cell:
        """Return a cell from the JSON object that `plain` returned."""
        changed = {"parameters": _canonical(plain["parameters"]), "split": SplitSpec(**plain["split"])}
        return cls(**{**plain, **changed})


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
