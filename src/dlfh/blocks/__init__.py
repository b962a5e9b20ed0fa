"""Matrices that are read by blocks of rows, from files or from a cluster: data that does not fit in memory.

Whatever is done with them is one of three things: a function of each block (*map*), whose results are added up as a
tree (*reduce*), with something small that every block gets (*broadcast*, an argument of the function). Here, blocks are
read ahead and worked on in turn; blocks of Dask arrays are worked on wherever Dask works. A block may be worked on
twice, if a machine fails: functions of blocks change nothing.
"""

from __future__ import annotations

from dlfh.blocks.base import ArrayBlocks, Blocks
from dlfh.blocks.opening import as_blocks, matrix_names, open_blocks

__all__ = ["ArrayBlocks", "Blocks", "as_blocks", "matrix_names", "open_blocks"]
