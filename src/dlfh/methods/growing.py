"""Hash functions for points that arrive in parts, fitted to sufficient statistics instead of stored points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dlfh._arrays import Array
from dlfh._mathematics.moments import MAX_GRAM_FEATURES, Moments
from dlfh._mathematics.targets import BlockTargets
from dlfh.blocks.base import Blocks
from dlfh.errors import InputError
from dlfh.hashing import HashFunction, HashLearner
from dlfh.hashing.base import FitContext, SummedLearner, check_array

_ARRAYS = ("mean", "gram", "cross", "target_mean")


def check_widths(features: Mapping[str, Blocks]) -> None:
    """Raise InputError for features whose sums cannot be kept."""
    for name, blocks in features.items():
        if blocks.whole is None:
            raise InputError(f"keep_sums needs arrays in memory, but modality {name!r} is in blocks")
        if blocks.shape[1] > MAX_GRAM_FEATURES:
            raise InputError(
                f"keep_sums stores a features x features matrix, but modality {name!r} has {blocks.shape[1]} "
                f"features: at most {MAX_GRAM_FEATURES} are supported"
            )


def add_points(
    functions: Mapping[str, HashFunction],
    learners: Mapping[str, HashLearner],
    sums: Mapping[str, Moments],
    features: Mapping[str, Blocks],
    targets: Mapping[str, BlockTargets],
    context: FitContext,
) -> tuple[dict[str, HashFunction], dict[str, HashFunction], dict[str, Moments]]:
    """Return the hash functions and label scores fitted to all points, old and new, and the sums over all points.

    functions, sums: From the old points, if any; the feature maps of the functions do not change.
    features, targets: Features of the new points, and their codes and labels.
    """
    total: dict[str, Moments] = {}
    found: dict[str, HashFunction] = {}
    scores: dict[str, HashFunction] = {}
    for name, blocks in context.bar.track(features.items(), "hash functions"):
        learner = learners[name]
        assert isinstance(learner, SummedLearner)
        feature_map = learner.map_of(functions[name])
        new = learner.sum_blocks(feature_map, blocks, targets[name], name, context)
        total[name] = sums[name].with_targets(targets[name].n_bits) + new if name in sums else new
        both, n_bits = learner.function(feature_map, total[name], name), functions[name].n_bits
        for parts, columns in ((found, slice(n_bits)), (scores, slice(n_bits, None))):
            part = both.columns(columns)
            if part is None:
                raise InputError(f"keep_sums does not support {type(both).__name__} hash functions")
            parts[name] = part
    return found, scores, total


def sums_to_parts(sums: Mapping[str, Moments]) -> tuple[dict[str, Any], dict[str, Array]]:
    """Return the configuration and arrays of sums, for saving."""
    config = {
        name: {"points": moments.n_points, "rounding": moments.rounding, "after_products": moments.after_products}
        for name, moments in sums.items()
    }
    return config, {f"sums/{name}/{key}": getattr(moments, key) for name, moments in sums.items() for key in _ARRAYS}


def sums_from_parts(
    config: Mapping[str, Any],
    arrays: Mapping[str, Array],
    functions: Mapping[str, HashFunction],
    learners: Mapping[str, HashLearner],
    n_labels: int,
) -> dict[str, Moments]:
    """Restore sums from their configuration and arrays; raise ValueError if these are invalid."""
    if not isinstance(config, dict) or set(config) not in (set(), set(functions)):
        raise ValueError("its sums do not match its modalities")
    sums = {}
    for name, about in config.items():
        n_points, rounding, after = about["points"], about["rounding"], about["after_products"]
        if type(n_points) is not int or n_points < 1 or type(after) is not bool:
            raise ValueError("the number of points in its sums is invalid")
        if not isinstance(rounding, float) or not 0 < rounding < 1:
            raise ValueError("the rounding error of its sums is invalid")
        learner = learners[name]
        if not isinstance(learner, SummedLearner):
            raise ValueError("its hash functions do not match its sums")
        feature_map, n_targets = learner.map_of(functions[name]), functions[name].n_bits + n_labels
        d = len(getattr(feature_map, "bases", np.empty(functions[name].n_features)))
        shapes = zip(_ARRAYS, ((d,), (d, d), (d, n_targets), (n_targets,)), strict=True)
        parts = {key: check_array(arrays, f"sums/{name}/{key}", np.float64, shape) for key, shape in shapes}
        sums[name] = Moments(n_points, rounding=rounding, after_products=after, **parts)
    return sums
