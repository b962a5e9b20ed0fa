"""Matrices read in blocks of rows, from files or on a cluster: data that does not fit in memory.

Every computation combines three operations: *map* applies a function to each block, *reduce* merges the results as a
tree, and *broadcast* sends small values to every block, as arguments of the function. In this process, the next block
is read while one is processed; Dask arrays are processed wherever Dask runs. A matrix in memory is a single block.
Functions of blocks must not have side effects, because a block is processed again if a worker fails.
"""

from __future__ import annotations

from dlfh.blocks.opening import open_blocks

__all__ = ["open_blocks"]
