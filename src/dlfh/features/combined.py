"""Image descriptors: histograms of oriented gradients, thumbnails, and both combined with GIST.

HOG (Dalal and Triggs, 2005) is finer than GIST: 8 x 8 cells instead of 4 x 4 blocks, and edges instead of textures.
Each cell is normalised by the contrast of each of its neighbourhoods, and the results are averaged, as in the variant
of Felzenszwalb and others (2010), which is a quarter as long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dlfh._arrays import Array, Singles
from dlfh._validation import check_integer
from dlfh.errors import InputError
from dlfh.features.base import Arrays, PartialFeatures
from dlfh.features.gist import Gist
from dlfh.features.images import ImageFeaturizer, Pixels, square

_SIZE, _N_CELLS, _N_DIRECTIONS = 64, 8, 8
#: Maximum share of a direction in its neighbourhood, and the contrast below which edges are attenuated.
_MAX_SHARE, _MIN_CONTRAST = 0.2, 0.8


class Hog(ImageFeaturizer):
    """Histograms of edge directions in greyscale images: 8 x 8 cells x 8 directions, 512 numbers.

    Examples
    --------
    >>> stripes = np.tile(np.repeat([0, 255], 4), (64, 8)).astype(np.uint8)
    >>> vector = Hog().fit([]).transform([stripes])
    >>> vector.shape, int(vector.reshape(64, 8).sum(axis=0).argmax())
    ((1, 512), 0)
    """

    kind = "hog"

    def _width(self) -> int:
        return _N_CELLS**2 * _N_DIRECTIONS

    def _prepare(self, image: Any) -> Pixels:
        return square(image, _SIZE, "L")

    def _compute(self, prepared: list[Pixels]) -> Singles:
        histograms = _histograms(np.stack(prepared))
        energies = np.pad((histograms**2).sum(axis=3), ((0, 0), (1, 1), (1, 1)), mode="edge")
        # Each cell lies in four neighbourhoods of 2 x 2 cells.
        pairs = energies[:, :-1] + energies[:, 1:]
        neighbourhoods = np.sqrt(pairs[:, :, :-1] + pairs[:, :, 1:] + np.float32(_MIN_CONTRAST**2))[..., None]
        shares = [
            np.minimum(histograms / neighbourhoods[:, down : down + _N_CELLS, right : right + _N_CELLS], _MAX_SHARE)
            for down in (0, 1)
            for right in (0, 1)
        ]
        return (sum(shares) / np.float32(4)).reshape(len(histograms), -1)


def _histograms(batch: Pixels) -> Singles:
    """Return the sum of gradient magnitudes by cell and direction, shape (n, cells, cells, directions)."""
    # The square root equalises the contrast of light and dark regions.
    padded = np.pad(np.sqrt(batch.astype(np.float32) / 255), ((0, 0), (1, 1), (1, 1)), mode="edge")
    right = padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2]
    down = padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1]
    strength = np.hypot(right, down)
    direction = np.arctan2(down, right) % np.pi * (_N_DIRECTIONS / np.pi)
    # An edge between two directions contributes to both.
    lower = np.floor(direction)
    part = direction - lower
    lower = lower.astype(np.int64) % _N_DIRECTIONS
    edges = np.zeros((*strength.shape, _N_DIRECTIONS), np.float32)
    np.put_along_axis(edges, lower[..., None], (strength * (1 - part))[..., None], axis=3)
    np.put_along_axis(edges, (lower[..., None] + 1) % _N_DIRECTIONS, (strength * part)[..., None], axis=3)
    side = _SIZE // _N_CELLS
    return edges.reshape(len(batch), _N_CELLS, side, _N_CELLS, side, _N_DIRECTIONS).sum(axis=(2, 4))


class Thumbnail(ImageFeaturizer):
    """Pixels of a reduced copy of the image: size x size x 3 colours, from 0 to 1; ``size`` is at most 256.

    Examples
    --------
    >>> white = np.full((50, 40, 3), 255, np.uint8)
    >>> Thumbnail(size=1).fit([]).transform([white])
    array([[1., 1., 1.]], dtype=float32)
    """

    kind = "thumbnail"

    def __init__(self, size: int = 16, *, n_jobs: int | None = None, verbose: bool = False) -> None:
        super().__init__(n_jobs=n_jobs, verbose=verbose)
        self.size = size

    def check_parameters(self) -> None:
        super().check_parameters()
        check_integer(self.size, "size", 1, 256)

    def _width(self) -> int:
        return 3 * int(self.size) ** 2

    def _prepare(self, image: Any) -> Pixels:
        return square(image, int(self.size), "RGB")

    def _compute(self, prepared: list[Pixels]) -> Singles:
        return np.stack(prepared).reshape(len(prepared), -1).astype(np.float32) / np.float32(255)


_PARTS: dict[str, type[ImageFeaturizer]] = {part.kind: part for part in (Gist, Hog, Thumbnail)}


class CombinedImage(ImageFeaturizer):
    """GIST, HOG and thumbnail concatenated: layout, edges and colours.

    Each file is read once. The parts are scaled to equal variance over the training images.

    Parameters
    ----------
    parts : sequence of str, default ("gist", "hog", "thumbnail")
        Descriptors to combine, each with its default parameters.
    n_jobs, verbose : as for `Gist`

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
        super().__init__(n_jobs=n_jobs, verbose=verbose)
        self.parts = parts

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
        pairs = zip(self._featurizers(), zip(*prepared, strict=True), strict=True)
        return np.hstack([part._compute(list(images)) for part, images in pairs])

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
