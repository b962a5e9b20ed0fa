"""Experiments that compare methods, with the figures published in the DLFH paper.

An experiment consists of *cells*. A cell is one method with its parameters, a code length and a seed on one split of a
data set. Worker processes compute the cells. Results are cached under a hash of the cell, so that an interrupted run
continues where it stopped, and experiments share the cells they have in common.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._imports import import_on_demand

if TYPE_CHECKING:
    from dlfh.bench.battery import check_method

__all__ = ["check_method"]

__getattr__, __dir__ = import_on_demand(__name__, {"battery": "check_method"})
