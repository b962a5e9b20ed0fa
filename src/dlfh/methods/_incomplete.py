"""Data with holes: points without some modality, points without labels, similarities of single pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._validation import Features
from dlfh.errors import InputError

__all__ = ["Holes"]

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Holes:
    """What is missing, as given to ``fit``; each None where nothing is.

    Attributes
    ----------
    present : dict of str to ndarray of bool (n,)
        By modality, which points have it; all for modalities that are not named.
    labelled : ndarray of bool (n,)
        Which points' labels are known.
    similarity : matrix (n, n)
        Similarities of pairs in place of labels.
    """

    present: Any = None
    labelled: Any = None
    similarity: Any = None

    @property
    def names(self) -> list[str]:
        """The names of what was given."""
        return [name for name in ("present", "labelled", "similarity") if getattr(self, name) is not None]

    def masks(self, features: Mapping[str, Features]) -> tuple[Mask, ...] | None:
        """Return which points have each modality, or None where all have all."""
        if self.present is None:
            return None
        if not isinstance(self.present, Mapping):
            raise InputError(f'present must be a dict such as {{"text": mask}}, got {type(self.present).__name__}')
        unknown = sorted(set(self.present) - set(features))
        if unknown:
            raise InputError(f"present names the modality {unknown[0]!r}, but there are {sorted(features)}")
        n_points = next(iter(features.values())).shape[0]
        masks = [
            _check_mask(self.present[name], f"present[{name!r}]", n_points)
            if name in self.present
            else np.ones(n_points, bool)
            for name in features
        ]
        for name, mask in zip(features, masks, strict=True):
            if not mask.any():
                raise InputError(f"no point has the modality {name!r}")
        nothing = np.flatnonzero(~np.any(masks, axis=0))
        if len(nothing):
            raise InputError(f"point {nothing[0]} has no modality: leave it out")
        _check_overlap(list(features), masks)
        return None if all(mask.all() for mask in masks) else tuple(masks)

    def labelled_points(self, n_points: int) -> npt.NDArray[np.int64] | None:
        """Return the points whose labels are known, or None where all are."""
        if self.labelled is None:
            return None
        mask = _check_mask(self.labelled, "labelled", n_points)
        if not mask.any():
            raise InputError("labelled says that no point has known labels, so there is nothing to learn from")
        return None if mask.all() else np.flatnonzero(mask)


def _check_mask(mask: Any, name: str, n_points: int) -> Mask:
    array = np.asarray(mask)
    if array.dtype != bool or array.shape != (n_points,):
        raise InputError(
            f"{name} must be a boolean array with an entry for each of {n_points} points, got type {array.dtype} and "
            f"shape {array.shape}"
        )
    return array


def _check_overlap(names: list[str], masks: list[Mask]) -> None:
    """Raise InputError unless common points lead from each modality to every other."""
    reached = {0}
    while True:
        new = {b for b in range(len(names)) if b not in reached and any(np.any(masks[a] & masks[b]) for a in reached)}
        if not new:
            break
        reached |= new
    apart = [name for index, name in enumerate(names) if index not in reached]
    if apart:
        raise InputError(f"modalities {names[0]!r} and {apart[0]!r} never overlap: no point has both")
