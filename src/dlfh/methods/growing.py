"""Hash functions as data arrives: sums over all points so far, of which functions follow as if all had been there.

Sums are added up, never looked at again: the points that they are of need not be kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._mathematics.moments import Moments
from dlfh._mathematics.targets import Targets
from dlfh._validation import Features
from dlfh.errors import InputError
from dlfh.hashing import FitContext, HashFunction, HashLearner
from dlfh.hashing.base import SummedLearner, check_array

#: Features of which a matrix of sums is kept, at most: it takes 2 GiB.
_MOST_FEATURES = 16384

_SHAPES = ("mean", "gram", "cross", "target_mean")


def check_widths(features: Mapping[str, Features]) -> None:
    """Raise InputError for more features than a matrix of sums is kept of."""
    for name, matrix in features.items():
        if matrix.shape[1] > _MOST_FEATURES:
            raise InputError(
                f"keep_sums keeps a matrix of features x features, and modality {name!r} has {matrix.shape[1]} "
                f"features: at most {_MOST_FEATURES} are taken"
            )


def summed(learners: Mapping[str, HashLearner]) -> dict[str, SummedLearner]:
    """Return learners as what they must be where sums are kept."""
    return {name: learner for name, learner in learners.items() if isinstance(learner, SummedLearner)}


def add_points(
    functions: Mapping[str, HashFunction],
    learners: Mapping[str, SummedLearner],
    sums: Mapping[str, Moments],
    features: Mapping[str, Features],
    targets: Mapping[str, Targets],
    context: FitContext,
) -> tuple[dict[str, HashFunction], dict[str, Moments]]:
    """Return hash functions for all points so far and more, and their sums.

    Parameters
    ----------
    functions : dict of str to HashFunction
        Of the points before, or of these where they are the first: what they do to features stays.
    learners : dict of str to SummedLearner
    sums : dict of str to Moments
        Of the points before; empty where there are none.
    features, targets : dict
        Of the new points.
    """
    total, found = {}, {}
    for name, matrix in context.bar.track(features.items(), "hash functions"):
        own_map = learners[name].map_of(functions[name])
        more = learners[name].sums(own_map, matrix, targets[name], name, context.workers)
        total[name] = sums[name] + more if name in sums else more
        found[name] = learners[name].function(own_map, total[name], name)
    return found, total


def sums_to_parts(sums: Mapping[str, Moments]) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Return what a file holds of sums: configuration and arrays."""
    config = {
        name: {"points": own.n_points, "rounding": own.rounding, "after_products": own.after_products}
        for name, own in sums.items()
    }
    return config, {f"sums/{name}/{part}": getattr(own, part) for name, own in sums.items() for part in _SHAPES}


def sums_from_parts(
    config: Mapping[str, Any],
    arrays: Mapping[str, npt.NDArray[Any]],
    functions: Mapping[str, HashFunction],
    learners: Mapping[str, HashLearner],
) -> dict[str, Moments]:
    """Return what `sums_to_parts` gave; what is wrong with it raises ValueError."""
    if not isinstance(config, dict) or set(config) not in (set(), set(functions)):
        raise ValueError("its sums are not those of its modalities")
    sums = {}
    for name, about in config.items():
        n_points, rounding, after = about["points"], about["rounding"], about["after_products"]
        if type(n_points) is not int or n_points < 1 or type(after) is not bool:
            raise ValueError("its sums do not say of how many points they are")
        if not isinstance(rounding, float) or not 0 < rounding < 1:
            raise ValueError("its sums do not say how exact they are")
        learner = learners[name]
        if not isinstance(learner, SummedLearner):
            raise ValueError("it has sums that its hash functions do not follow from")
        own_map, n_bits = learner.map_of(functions[name]), functions[name].n_bits
        d = len(getattr(own_map, "bases", np.empty(functions[name].n_features)))
        shapes: dict[str, tuple[int, ...]] = {
            "mean": (d,),
            "gram": (d, d),
            "cross": (d, n_bits),
            "target_mean": (n_bits,),
        }
        parts = {part: check_array(arrays, f"sums/{name}/{part}", np.float64, shapes[part]) for part in _SHAPES}
        sums[name] = Moments(n_points, rounding=rounding, after_products=after, **parts)
    return sums
