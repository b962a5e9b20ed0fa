"""How long cells take: a guess before any is done, and a better one after."""

from __future__ import annotations

from collections import defaultdict

from dlfh.bench.cells import Cell

__all__ = ["Costs"]

#: Rough seconds of a cell relative to DLFH's; only their order matters before cells are done.
_WEIGHTS = {
    "CRH": 40.0,
    "MLBE": 40.0,
    "SePH": 20.0,
    "CMSSH": 6.0,
    "SCRATCH": 6.0,
    "KDLFH": 5.0,
    "CMFH": 4.0,
    "SMFH": 4.0,
    "PDH": 4.0,
    "LFH": 2.0,
}


class Costs:
    """Seconds that cells are expected to take, learned from those that are done.

    Parameters
    ----------
    n_train : dict of Cell to int
        Training points of each cell.

    Examples
    --------
    >>> cells = [Cell.make("d", "0", "CRH", {}, bits=bits, seed=0) for bits in (16, 64)]
    >>> costs = Costs(dict.fromkeys(cells, 1000))
    >>> costs.add(cells[0], 3.0)
    >>> round(costs.expected(cells[1]), 6)
    12.0
    """

    def __init__(self, n_train: dict[Cell, int]) -> None:
        self._n_train = n_train
        self._done: dict[str, tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))

    def prior(self, cell: Cell) -> float:
        """Return the cost of a cell in arbitrary units, from its method, length and size alone."""
        return _WEIGHTS.get(cell.method, 1.0) * cell.bits * self._n_train.get(cell, 1000) / 1e5

    def add(self, cell: Cell, seconds: float) -> None:
        """Learn what a cell took."""
        for name in _relatives(cell):
            prior, spent = self._done[name]
            self._done[name] = prior + self.prior(cell), spent + seconds

    def expected(self, cell: Cell) -> float:
        """Return the seconds that a cell will take: as others of its kind and method did, else as all others did."""
        for name in _relatives(cell):
            if name in self._done:
                prior, spent = self._done[name]
                return self.prior(cell) * spent / prior
        return self.prior(cell)


def _relatives(cell: Cell) -> tuple[str, ...]:
    """Return the groups that a cell belongs to, the narrowest first."""
    return f"{cell.kind} {cell.method}", cell.kind, ""
