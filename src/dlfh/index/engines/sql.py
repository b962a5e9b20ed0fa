"""What engines have in common that speak SQL: a table of items, and one row about it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.index.engines.engine import Engine
from dlfh.index.where import And, Condition, Not, Or, Where

__all__ = ["SqlEngine", "joined"]


class SqlEngine(Engine):
    """Items in a table, whose name and that of the row about it are given with their quotes."""

    _table: str
    _about: str

    @abstractmethod
    def _ask(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows that a statement gives."""

    @property
    def identity(self) -> str:
        return str(self._ask(f"SELECT identity FROM {self._about}")[0][0])

    @property
    def state(self) -> str:
        identity, state = self._ask(f"SELECT identity, state FROM {self._about}")[0]
        return f"{identity}-{state}"

    def positions(self) -> npt.NDArray[np.int64]:
        return np.array(self._ask(f"SELECT number FROM {self._table} ORDER BY number"), np.int64).ravel()

    def _count(self, column: int | None, states: tuple[int, ...]) -> int:
        which = "" if column is None else f" WHERE state{column} IN ({', '.join(map(str, states))})"
        return int(self._ask(f"SELECT count(*) FROM {self._table}{which}")[0][0])


def joined(where: Where, condition: Callable[[Condition], str]) -> str:
    """Return a filter as SQL, given how an engine writes a single condition.

    Examples
    --------
    >>> from dlfh.index.where import parse_where
    >>> joined(parse_where({"not": {"brand": "x", "price": {"<": 20}}}), lambda own: f"{own.name} is right")
    'NOT ((brand is right AND price is right))'
    """
    match where:
        case Not(part):
            return f"NOT ({joined(part, condition)})"
        case And(parts) | Or(parts):
            word, nothing = ("AND", "TRUE") if isinstance(where, And) else ("OR", "FALSE")
            return f"({f' {word} '.join(joined(part, condition) for part in parts) or nothing})"
    return condition(where)
