"""The modalities of a data set in blocks, and their alignment: matrices of the same points, split at the same rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dlfh._validation import check_features, check_modalities, check_names
from dlfh.blocks.base import ArrayBlocks, Blocks
from dlfh.blocks.opening import as_blocks
from dlfh.errors import InputError


def in_one_block(matrix: Any, modality: str) -> Blocks:
    """Return checked features in memory as a single block."""
    return ArrayBlocks(matrix, None, f"modality {modality!r}")


def modality_blocks(modalities: Any, method: str, least: int, most: int | None) -> dict[str, Blocks]:
    """Return the modalities as blocks: arrays in memory as one block, or split like the others if any is in blocks.

    method: Name in error messages.
    least, most: Range of the number of modalities that the method takes.
    """
    check_names(modalities, method, least, most)
    found = {name: as_blocks(values, f"modality {name!r}") for name, values in modalities.items()}
    leader, first = next(((blocks, name) for name, blocks in found.items() if blocks is not None), (None, ""))
    if leader is None:
        checked = check_modalities(modalities, method, least, most)
        return {name: in_one_block(matrix, name) for name, matrix in checked.items()}
    result = {}
    for name, blocks in found.items():
        if blocks is None:
            blocks = in_one_block(check_features(modalities[name], name), name)
        if blocks.ndim != 2:
            raise InputError(f"modality {name!r} must be two-dimensional (points x features), got shape {blocks.shape}")
        if blocks.shape[0] != leader.shape[0]:
            raise InputError(
                f"modality {name!r} has {blocks.shape[0]} rows but modality {first!r} has {leader.shape[0]}"
            )
        result[name] = blocks if found[name] is not None else blocks.split_like(leader)
    return result


def align(features: dict[str, Blocks]) -> dict[str, Blocks]:
    """Return features split at the same rows: those of the finest split that all others can follow.

    If any of them is a Dask array, all are processed by Dask.
    """
    if not all(blocks.is_local for blocks in features.values()):
        features = {name: blocks.on_cluster() for name, blocks in features.items()}
    for leader in sorted(features.values(), key=lambda blocks: -blocks.n_blocks):
        aligned = {
            name: blocks if np.array_equal(blocks.starts, leader.starts) else blocks.split_like(leader)
            for name, blocks in features.items()
        }
        if all(np.array_equal(blocks.starts, leader.starts) for blocks in aligned.values()):
            return aligned
    first, *others = features.values()
    first.check_aligned(*others)
    return features


def first_in_blocks(modalities: Any) -> str | None:
    """Return the name of the first modality that is not in memory, if any; a memory map counts as an array."""
    for name, values in modalities.items() if isinstance(modalities, Mapping) else ():
        if not isinstance(values, np.ndarray) and as_blocks(values, f"modality {name!r}") is not None:
            return str(name)
    return None
