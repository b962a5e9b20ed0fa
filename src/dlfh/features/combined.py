"""Several image descriptors concatenated, with equal weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dlfh._arrays import Array, Singles
from dlfh.errors import InputError
from dlfh.features.base import Arrays, PartialFeatures
from dlfh.features.gist import Gist
from dlfh.features.hog import Hog
from dlfh.features.images import ImageFeaturizer
from dlfh.features.thumbnail import Thumbnail

_PARTS: dict[str, type[ImageFeaturizer]] = {part.kind: part for part in (Gist, Hog, Thumbnail)}


class CombinedImage(ImageFeaturizer):
    """GIST, HOG and thumbnail concatenated: layout, edges and colours.

    Each file is read once. The parts are scaled to equal variance over the training images.

    Parameters
    ----------
    parts : sequence of str, default ("gist", "hog", "thumbnail")
        Descriptors to combine, each with its default parameters.
    n_jobs : int, optional
        Number of threads; all cores by default.
    verbose : bool, default False
        Show a progress bar.

    Attributes
    ----------
    scales_ : ndarray of float32 (parts,)
        Factor of each part.

    Examples
    --------
    >>> pictures = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), np.uint8)
    >>> CombinedImage().fit_transform(pictures).shape
    (20, 1792)
    """

    kind = "combined-image"

    scales_: Singles

    def __init__(
        self, parts: Sequence[str] = ("gist", "hog", "thumbnail"), *, n_jobs: int | None = None, verbose: bool = False
    ) -> None:
        self.parts = parts
        self.n_jobs = n_jobs
        self.verbose = verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        names = list(self.parts) if isinstance(self.parts, (list, tuple)) else []
        known = all(isinstance(name, str) and name in _PARTS for name in names)
        if not names or not known or len(set(names)) < len(names):
            raise InputError(f"parts must be distinct names from {', '.join(map(repr, _PARTS))}, got {self.parts!r}")

    def _featurizers(self) -> list[ImageFeaturizer]:
        return [_PARTS[name]() for name in self.parts]

    def _width(self) -> int:
        return sum(part._width() for part in self._featurizers())

    def _prepare(self, image: Any) -> list[Any]:
        return [part._prepare(image) for part in self._featurizers()]

    def _compute(self, prepared: list[Any]) -> Singles:
        columns = zip(*prepared, strict=True)
        return np.hstack(
            [part._compute(list(images)) for part, images in zip(self._featurizers(), columns, strict=True)]
        )

    def _fit(self, items: Any, strict: bool) -> int:
        return int(self._fit_transform(items, strict).features.shape[1])

    def _fit_transform(self, items: Any, strict: bool) -> PartialFeatures:
        unscaled = super()._transform(items, strict)
        if not len(unscaled.rows):
            raise InputError(f"none of the {len(items)} images can be read" if len(items) else "there are no images")
        self.scales_ = np.array([_scale(block) for block in self._blocks(unscaled.features)], np.float32)
        self.n_features_ = self._width()
        return self._scale_in_place(unscaled)

    def _transform(self, items: Any, strict: bool) -> PartialFeatures:
        return self._scale_in_place(super()._transform(items, strict))

    def _scale_in_place(self, unscaled: PartialFeatures) -> PartialFeatures:
        for block, scale in zip(self._blocks(unscaled.features), self.scales_, strict=True):
            block *= scale
        return unscaled

    def _blocks(self, features: Singles) -> list[Singles]:
        ends = np.cumsum([part._width() for part in self._featurizers()])
        return np.split(features, ends[:-1], axis=1)

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        return {}, {"scales": self.scales_}

    def _restore(self, fitted: Mapping[str, Any], arrays: Arrays) -> None:
        super()._restore(fitted, arrays)
        scales = arrays["scales"]
        if scales.shape != (len(self.parts),) or scales.dtype != np.float32 or not np.isfinite(scales).all():
            raise ValueError(f"its array 'scales' has the wrong type or shape: {scales.dtype}, {scales.shape}")
        self.scales_ = scales


def _scale(block: Singles) -> float:
    """Return the factor that normalises the mean squared distance from the mean to 1."""
    variance = float(block.var(axis=0, dtype=np.float64).sum())
    # Below this, the images are equal up to rounding errors.
    return 1 / variance**0.5 if variance > 1e-9 else 1.0
