"""Incomplete data: points that lack a modality or labels, and pairwise similarities.

Codes are learned for points with known similarities; a modality's hash function is fitted to the points that have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.sparse.csgraph import connected_components

from dlfh._arrays import Codes, Integers, Mask
from dlfh._factorization.solver import Factorization
from dlfh._labels import LabelSets
from dlfh._mathematics.targets import BlockTargets, Targets
from dlfh._probabilities.fit import LabelFit
from dlfh._probabilities.model import PendingLabels
from dlfh._validation import Features, raise_if_not_finite
from dlfh.blocks.opening import in_one_block
from dlfh.codes import pack
from dlfh.errors import InputError
from dlfh.hashing import HashFunction, HashLearner
from dlfh.hashing.base import FitContext


def _masks(present: Any, features: Mapping[str, Features], n_points: int) -> tuple[Mask, ...] | None:
    """Return a mask of the points that have each modality, or None if the data is complete."""
    if present is None:
        return None
    if not isinstance(present, Mapping):
        raise InputError(f'present must be a dict such as {{"text": mask}}, got {type(present).__name__}')
    if unknown := sorted(set(present) - set(features)):
        raise InputError(f"present has the modality {unknown[0]!r}, but the data has {sorted(features)}")
    everyone = np.ones(n_points, bool)
    masks = [_check_mask(present.get(name, everyone), f"present[{name!r}]", n_points) for name in features]
    for name, mask in zip(features, masks, strict=True):
        if not mask.any():
            raise InputError(f"no point has the modality {name!r}")
    nothing = np.flatnonzero(~np.any(masks, axis=0))
    if len(nothing):
        raise InputError(f"point {nothing[0]} has no modality: remove it")
    has = np.stack(masks).astype(np.int64)
    _, component = connected_components(has @ has.T)  # modalities linked by common points
    apart = [name for name, number in zip(features, component, strict=True) if number != component[0]]
    if apart:
        raise InputError(f"modalities {next(iter(features))!r} and {apart[0]!r} never overlap: no point has both")
    return None if all(mask.all() for mask in masks) else tuple(masks)


def _check_mask(mask: Any, name: str, n_points: int) -> Mask:
    array = np.asarray(mask)
    if array.dtype != bool or array.shape != (n_points,):
        raise InputError(
            f"{name} must be a boolean array with an entry for each of {n_points} points, got type {array.dtype} and "
            f"shape {array.shape}"
        )
    return array


class IncompleteData:
    """Features of points that may lack modalities, and the labels of the points with known similarities.

    masks (n,): By modality, a mask of the points that have it; None if all points have all modalities.
    known, unknown: The points with known similarities, and the others, ascending.
    label_sets: The labels of the known points; None if pairwise similarities are known instead.
    """

    def __init__(
        self, features: dict[str, Features], label_sets: LabelSets | None, present: Any, labelled: Any
    ) -> None:
        self.features, self.n_points = features, next(iter(features.values())).shape[0]
        self.masks, everyone = _masks(present, features, self.n_points), np.arange(self.n_points)
        self.known, self.label_sets = everyone, label_sets
        if labelled is not None and label_sets is not None:
            self.known = np.flatnonzero(_check_mask(labelled, "labelled", self.n_points))
            if not len(self.known):
                raise InputError("labelled is False for every point, so there are no labels to learn from")
            self.label_sets = label_sets.take(self.known)
            if not len(self.label_sets.labels):
                raise InputError("labels are all empty: no labelled point has a label, so no two points are similar")
        self.unknown = np.setdiff1d(everyone, self.known, assume_unique=True)
        for name, mask in zip(features, self.masks or (), strict=self.masks is not None):
            if not mask[self.known].any():
                raise InputError(f"no labelled point has the modality {name!r}")

    def learn_functions(
        self, learned: Factorization, learners: dict[str, HashLearner], context: FitContext, self_training: int
    ) -> tuple[dict[str, HashFunction], dict[str, Codes], PendingLabels]:
        """Return a hash function and the codes of all points for each modality, and label probabilities.

        Known points have learned codes. The others have hashed codes or, in a modality that they lack, the signs of the
        sum of their projections. In ``self_training`` rounds, functions are also fitted to these signs.
        """
        functions, label_model = self._fit_functions(learned, learners, context, None)
        if not len(self.unknown):
            codes = {name: learned.codes_of_points(index) for index, name in enumerate(self.features)}
            return functions, codes, label_model
        for _ in range(self_training):
            guessed = self._guess(functions, learned.n_bits, context)
            functions, _ = self._fit_functions(learned, learners, context, guessed)
        guessed, codes = self._guess(functions, learned.n_bits, context), {}
        for index, (name, matrix) in enumerate(self.features.items()):
            codes[name] = np.empty((self.n_points, guessed.shape[1]), np.uint8)
            codes[name][self.known], codes[name][self.unknown] = learned.codes_of_points(index), guessed
            hashed = self.unknown[self._having(index, self.unknown)]
            codes[name][hashed] = functions[name].encode(matrix[hashed], name, context.workers)
        return functions, codes, label_model

    def _fit_functions(
        self, learned: Factorization, learners: dict[str, HashLearner], context: FitContext, guessed: Codes | None
    ) -> tuple[dict[str, HashFunction], PendingLabels]:
        functions: dict[str, HashFunction] = {}
        fits = LabelFit(learned.n_bits, context)
        for index, (name, matrix) in enumerate(context.bar.track(self.features.items(), "hash functions")):
            having = self._having(index, self.known)
            codes, points = learned.codes_of_rows(index), self.known[having]
            rows = learned.rows.row_of_point[having]
            if guessed is not None:
                more = self._having(index, self.unknown)
                points, rows = np.concatenate([points, self.unknown[more]]), np.concatenate([rows, len(codes) + more])
                codes = np.concatenate([codes, guessed])
            # All points in order are passed without copying them.
            is_complete = np.array_equal(points, np.arange(self.n_points))
            blocks = in_one_block(matrix if is_complete else self._take(name, points), name)
            labels = self.label_sets.take(having) if self.label_sets is not None and guessed is None else None
            targets = BlockTargets.in_memory(Targets(codes, rows, learned.n_bits), labels)
            functions[name] = fits.fit(learners[name], blocks, targets, name, points)
        return functions, fits.model(tuple(self.features))

    def _guess(self, functions: dict[str, HashFunction], n_bits: int, context: FitContext) -> Codes:
        """Return one code for each point without labels: the signs of the sum of its modalities' projections."""
        total = np.zeros((len(self.unknown), n_bits), np.float32)
        for index, name in enumerate(self.features):
            having = self._having(index, self.unknown)
            total[having] += functions[name].project(self._take(name, self.unknown[having]), name, context.workers)
        return pack(total)

    def _having(self, index: int, points: Integers) -> Integers:
        return np.arange(len(points)) if self.masks is None else np.flatnonzero(self.masks[index][points])

    def _take(self, name: str, points: Integers) -> Features:
        """Return the features of points; raise InputError, with the original row number, unless they are finite."""
        features = self.features[name][points]
        raise_if_not_finite(features, name, points)
        return features
