"""Thumbnails: the rough layout of an image's colours."""

from __future__ import annotations

from typing import Any

import numpy as np

from dlfh._arrays import Singles
from dlfh._validation import check_integer
from dlfh.features.images import ImageFeaturizer, Pixels, square


class Thumbnail(ImageFeaturizer):
    """Pixels of a reduced copy of the image: size x size x 3 colours, from 0 to 1.

    Parameters
    ----------
    size : int, default 16
        Side in pixels, 1 to 256.
    n_jobs : int, optional
        Number of threads; all cores by default.
    verbose : bool, default False
        Show a progress bar.

    Examples
    --------
    >>> white = np.full((50, 40, 3), 255, np.uint8)
    >>> Thumbnail(size=1).fit([]).transform([white])
    array([[1., 1., 1.]], dtype=float32)
    """

    kind = "thumbnail"

    def __init__(self, size: int = 16, *, n_jobs: int | None = None, verbose: bool = False) -> None:
        self.size = size
        self.n_jobs = n_jobs
        self.verbose = verbose

    def check_parameters(self) -> None:
        super().check_parameters()
        check_integer(self.size, "size", 1, 256)

    def _width(self) -> int:
        return 3 * int(self.size) ** 2

    def _prepare(self, image: Any) -> Pixels:
        return square(image, int(self.size), "RGB")

    def _compute(self, prepared: list[Pixels]) -> Singles:
        return np.stack(prepared).reshape(len(prepared), -1).astype(np.float32) / np.float32(255)
