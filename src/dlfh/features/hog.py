"""Histograms of oriented gradients (Dalal and Triggs, 2005).

Finer than GIST: 8 x 8 cells instead of 4 x 4 blocks, and edges instead of textures. Each cell is normalised by the
contrast of its neighbourhoods and averaged over them, as in the variant of Felzenszwalb and others (2010), which has a
quarter of the numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dlfh._arrays import Singles
from dlfh.features.images import ImageFeaturizer, Pixels, square

SIZE, N_CELLS, N_DIRECTIONS = 64, 8, 8

#: Maximum share of a direction in its neighbourhood, and the contrast below which edges are attenuated.
_MAX_SHARE, _MIN_CONTRAST = 0.2, 0.8


class Hog(ImageFeaturizer):
    """Histograms of edge directions in greyscale images: 8 x 8 cells x 8 directions, 512 numbers.

    Parameters
    ----------
    n_jobs : int, optional
        Number of threads; all cores by default.
    verbose : bool, default False
        Show a progress bar.

    Examples
    --------
    >>> stripes = np.tile(np.repeat([0, 255], 4), (64, 8)).astype(np.uint8)
    >>> vector = Hog().fit([]).transform([stripes])
    >>> vector.shape, int(vector.reshape(64, 8).sum(axis=0).argmax())
    ((1, 512), 0)
    """

    kind = "hog"

    def __init__(self, *, n_jobs: int | None = None, verbose: bool = False) -> None:
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _width(self) -> int:
        return N_CELLS**2 * N_DIRECTIONS

    def _prepare(self, image: Any) -> Pixels:
        return square(image, SIZE, "L")

    def _compute(self, prepared: list[Pixels]) -> Singles:
        histograms = _histograms(np.stack(prepared))
        energies = np.pad((histograms**2).sum(axis=3), ((0, 0), (1, 1), (1, 1)), mode="edge")
        # Each cell lies in four neighbourhoods of 2 x 2 cells.
        pairs = energies[:, :-1] + energies[:, 1:]
        neighbourhoods = np.sqrt(pairs[:, :, :-1] + pairs[:, :, 1:] + np.float32(_MIN_CONTRAST**2))[..., None]
        shares = [
            np.minimum(histograms / neighbourhoods[:, down : down + N_CELLS, right : right + N_CELLS], _MAX_SHARE)
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
    direction = np.arctan2(down, right) % np.pi * (N_DIRECTIONS / np.pi)
    # An edge between two directions contributes to both.
    lower = np.floor(direction)
    part = direction - lower
    lower = lower.astype(np.int64) % N_DIRECTIONS
    edges = np.zeros((*strength.shape, N_DIRECTIONS), np.float32)
    np.put_along_axis(edges, lower[..., None], (strength * (1 - part))[..., None], axis=3)
    np.put_along_axis(edges, (lower[..., None] + 1) % N_DIRECTIONS, (strength * part)[..., None], axis=3)
    side = SIZE // N_CELLS
    return edges.reshape(len(batch), N_CELLS, side, N_CELLS, side, N_DIRECTIONS).sum(axis=(2, 4))
