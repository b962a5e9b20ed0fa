"""GIST: the layout of an image in 512 numbers (Oliva and Torralba, 2001).

Local contrast is normalised, the image is filtered at 4 scales and 8 orientations, and the magnitude of each response
is averaged over a 4 x 4 grid. Implemented here because no maintained package exists, with the authors' constants.

Only the *magnitude* of a response is used, which shifting the spectrum does not change. Each filter passes a small
patch of the spectrum, so only that patch is transformed back, on a coarser grid. This changes the averages by about
0.3 % on photographs and 1 % on line art.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Floats, Integers, Singles
from dlfh._validation import check_integer
from dlfh.errors import InputError
from dlfh.features.images import ImageFeaturizer, Pixels, square

N_SCALES, N_ORIENTATIONS, N_BLOCKS = 4, 8, 4
#: Centre frequencies of the scales, in cycles per pixel.
FREQUENCIES = tuple(0.3 / 1.85**scale for scale in range(N_SCALES))
#: Side of the response grid at each scale, as a share of the padded image: large enough for the patch of the spectrum
#: that the filters pass, and for averages over blocks.
_GRIDS = (3 / 4, 1 / 2, 1 / 4, 3 / 16)
#: Cut-off of the contrast normalisation in cycles per image, and the contrast that is added to avoid amplifying noise.
_LOW_CYCLES, _MIN_CONTRAST = 4.0, 0.2
_PREFILTER_PADDING = 5


class Gist(ImageFeaturizer):
    """GIST descriptor of greyscale images: 4 scales x 8 orientations x a 4 x 4 grid, 512 numbers.

    Parameters
    ----------
    size : int, default 128
        Side in pixels to which images are stretched, a multiple of 64. At 128, a block of the grid covers one and a
        half wavelengths of the coarsest filter; 256 takes four times as long.
    n_jobs : int, optional
        Number of threads; all cores by default.
    verbose : bool, default False
        Show a progress bar.

    Examples
    --------
    >>> stripes = np.tile(np.repeat([0, 255], 4), (128, 16)).astype(np.uint8)
    >>> vector = Gist().fit([]).transform([stripes])
    >>> vector.shape, int(vector.reshape(4, 8, 16).mean(axis=2).sum(axis=0).argmax())
    ((1, 512), 0)
    """

    kind = "gist"

    def __init__(self, *, size: int = 128, n_jobs: int | None = None, verbose: bool = False) -> None:
        super().__init__(n_jobs=n_jobs, verbose=verbose)
        self.size = size

    def check_parameters(self) -> None:
        super().check_parameters()
        check_integer(self.size, "size", 64, 1024)
        if self.size % 64:
            raise InputError(f"size must be a multiple of 64, got {self.size}")

    def _width(self) -> int:
        return N_SCALES * N_ORIENTATIONS * N_BLOCKS**2

    def _prepare(self, image: Any) -> Pixels:
        return square(image, int(self.size), "L")

    def _compute(self, prepared: list[Pixels]) -> Singles:
        import scipy.fft

        batch = np.stack(prepared)
        size = batch.shape[1]
        padding = size // 4
        spectrum = scipy.fft.fft2(_mirror(_normalise_contrast(batch), padding)).reshape(len(batch), -1)
        strengths = np.empty((len(batch), N_SCALES, N_ORIENTATIONS, N_BLOCKS, N_BLOCKS), np.float32)
        for scale in range(N_SCALES):
            for orientation in range(N_ORIENTATIONS):
                places, weights, side = _patch(size + 2 * padding, scale, orientation)
                passed = (spectrum[:, places] * weights).reshape(-1, side, side)
                response = np.abs(scipy.fft.ifft2(passed, overwrite_x=True))
                block = side // 6  # the padding is one block wide
                inner = response[:, block:-block, block:-block].reshape(-1, N_BLOCKS, block, N_BLOCKS, block)
                strengths[:, scale, orientation] = inner.mean(axis=(2, 4))
        return strengths.reshape(len(batch), -1)


def _mirror(images: Singles, padding: int) -> Singles:
    """Pad images with their mirror images, because the Fourier transform wraps around."""
    return np.pad(images, ((0, 0), (padding, padding), (padding, padding)), mode="symmetric")


def _normalise_contrast(batch: Pixels) -> Singles:
    """Remove slow changes of brightness, and equalise the local contrast."""
    images = _mirror(np.log1p(batch.astype(np.float32)), _PREFILTER_PADDING)
    images -= images.mean(axis=(1, 2), keepdims=True)  # exact zeros for an image of one colour
    details: Singles = images - _blur(images)
    contrast: Singles = np.sqrt(np.abs(_blur(details * details)))
    inner = slice(_PREFILTER_PADDING, -_PREFILTER_PADDING)
    return (details / (contrast + np.float32(_MIN_CONTRAST)))[:, inner, inner]


def _blur(images: Singles) -> Singles:
    import scipy.fft

    n = images.shape[1]
    return scipy.fft.irfft2(scipy.fft.rfft2(images) * _low_pass(n), s=(n, n))


@functools.cache
def _low_pass(n: int) -> Singles:
    cycles = np.fft.fftfreq(n, 1 / n)
    squares = cycles[:, None] ** 2 + cycles[None, : n // 2 + 1] ** 2
    return np.exp(-squares * (np.log(2) / _LOW_CYCLES**2)).astype(np.float32)


@functools.cache
def _patch(n: int, scale: int, orientation: int) -> tuple[Integers, npt.NDArray[np.complex64], int]:
    """Return the patch of the spectrum that a filter passes: indices in the flat spectrum, weights, and side."""
    side = round(n * _GRIDS[scale])
    angle = np.pi / N_ORIENTATIONS * orientation
    centre = n * FREQUENCIES[scale] * np.array([np.sin(angle), np.cos(angle)])
    # Near the highest frequencies, a patch centred on the filter would exceed the spectrum.
    first = np.clip(np.rint(centre - side / 2), -(n // 2), n // 2 - side).astype(np.int64)
    rows, columns = (start + np.arange(side) for start in first)
    # Points of a coarse grid represent larger pixels: shift them to the pixel centres.
    shift = (n / side - 1) / 2
    phases = np.exp(2j * np.pi * shift / n * (rows[:, None] + columns[None, :]))
    weights = gabor(rows[:, None] / n, columns[None, :] / n, scale, orientation) * phases * (side / n) ** 2
    places = (rows % n)[:, None] * n + (columns % n)[None, :]
    return places.ravel(), weights.astype(np.complex64).ravel(), side


def gabor(down: Floats, right: Floats, scale: int, orientation: int) -> Floats:
    """Return a filter's response to waves with the given vertical and horizontal frequencies, in cycles per pixel."""
    radius = np.hypot(down, right) / FREQUENCIES[scale]
    angle = np.arctan2(down, right) - np.pi / N_ORIENTATIONS * orientation
    angle = (angle + np.pi) % (2 * np.pi) - np.pi
    return np.exp(-3.5 * (radius - 1) ** 2 - 2 * np.pi * (angle * N_ORIENTATIONS / 8) ** 2)
