"""Features less their mean, by blocks: what `Centred` is of arrays in memory.

One pass over all modalities beside each other gives their means and products, each block centred by its own mean and
then moved: sums are those of arrays in memory, to rounding, however the data is cut. Whatever needs the mean first is a
pass more.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from dlfh._mathematics.centred import Centred, CentredRows
from dlfh._mathematics.moments import Moments, check_gram_fits
from dlfh._validation import Features, check_features, column_means, raise_if_not_finite
from dlfh.blocks import Blocks
from dlfh.errors import InputError

__all__ = ["CentredBlocks", "CentredView", "centred_views"]

Floats = npt.NDArray[np.float64]


class CentredBlocks:
    """One modality's features by blocks, centred.

    Attributes
    ----------
    blocks : Blocks (n, d)
    modality : str
    mean, gram, is_constant
        As of `Centred`.

    Examples
    --------
    >>> from dlfh.blocks import ArrayBlocks
    >>> blocks = ArrayBlocks(np.array([[1.0, 5.0], [3.0, 5.0]]), [0, 1, 2], "modality 'image'")
    >>> (X,) = CentredBlocks.together({"image": blocks})
    >>> X.mean, X.gram
    (array([2., 5.]), array([[2., 0.], [0., 0.]]))
    """

    def __init__(self, blocks: Blocks, modality: str, sums: Moments) -> None:
        self.blocks, self.modality = blocks, modality
        self.n_points, self.n_features = blocks.shape
        if not np.isfinite(sums.gram).all():
            self.raise_for_overflow()
        sums = sums.without_constants()
        self.mean, self.gram = sums.mean, sums.gram
        self.is_constant: npt.NDArray[np.bool_] = sums.variances == 0
        #: What was beside these in the first pass, and the products with it.
        self._known: list[tuple[Blocks, Floats]] = []

    @classmethod
    def together(
        cls, features: Mapping[str, Blocks], beside: Blocks | None = None, *, crosses: bool = False
    ) -> list[CentredBlocks]:
        """Return modalities of the same points in blocks of the same rows, which are read once.

        Parameters
        ----------
        features : mapping of str to Blocks
        beside : Blocks (n, k), optional
            What `transposed_times` will be asked for; anything else takes another pass.
        crosses : bool
            Whether `cross` will be asked for; otherwise it takes another pass.
        """
        for name, own in features.items():
            check_gram_fits(name, own.shape[1])
        first, *others = features.values()
        on_block = functools.partial(_sums_of_block, tuple(features), crosses)
        further = [] if beside is None else [beside]
        sums = first.map_reduce(on_block, _added, *others, *further)
        views = [cls(own, name, own_sums) for (name, own), own_sums in zip(features.items(), sums, strict=True)]
        for index, (view, own_sums) in enumerate(zip(views, sums, strict=True)):
            later = [other.blocks for other in views[index + 1 :]] if crosses else []
            ends = np.cumsum([other.shape[1] for other in (*later, *further)], dtype=np.int64)
            for other, products in zip((*later, *further), np.split(own_sums.cross, ends[:-1], axis=1), strict=False):
                products[view.is_constant] = 0
                view._known.append((other, products))
        return views

    def times(self, weights: npt.NDArray[Any]) -> Blocks:
        """Return (X - 1 m') W, shape (n, k), when it is asked for."""
        on_block = functools.partial(_times, self._rows, weights)
        return self.blocks.map(on_block, weights.shape[1], np.float64)

    def transposed_times(self, values: Blocks) -> Floats:
        """Return (X - 1 m')'Z for Z (n, k), dense or sparse; shape (d, k)."""
        for known, products in self._known:
            if known is values:
                return products
        return self.blocks.map_reduce(functools.partial(_transposed_times, self._rows), operator.add, values)

    def products_with_signs(self, weights: Floats) -> Floats:
        """Return (X - 1 m')'sign((X - 1 m') W), shape (d, k)."""
        return self.blocks.map_reduce(functools.partial(_products_with_signs, self._rows, weights), operator.add)

    def cross(self, other: CentredBlocks) -> Floats:
        """Return X'Y of this modality and another, both centred; shape (d, d of the other)."""
        if any(known is self.blocks for known, _ in other._known):
            return np.ascontiguousarray(other.cross(self).T)
        # X is centred, so Y need not be: 1'X = 0.
        products = self.transposed_times(other.blocks).copy()
        products[:, other.is_constant] = 0
        return products

    def weighted_gram(self, weights: Blocks) -> Floats:
        """Return (X - 1 m')'D(X - 1 m') for weights D of the points, shape (d, d)."""
        return self.blocks.map_reduce(functools.partial(_weighted_gram, self._rows), operator.add, weights)

    def raise_for_overflow(self) -> NoReturn:
        """Say why results are not finite."""
        raise InputError(f"modality {self.modality!r} has values too large or too small to compute with: rescale it")

    @property
    def _rows(self) -> functools.partial[CentredRows]:
        """What makes a block's rows centred ones: without the blocks, since it goes to where these are."""
        return functools.partial(_centred_rows, self.modality, self.mean, self.is_constant)


class CentredView(Protocol):
    """What linear methods learn from: a modality's centred features, in memory (`Centred`) or by blocks.

    Whatever has a row for each point is an array for the one and Blocks for the other.
    """

    modality: str
    n_points: int
    n_features: int
    mean: Floats
    gram: Floats
    is_constant: npt.NDArray[np.bool_]

    def times(self, weights: Floats) -> Any: ...
    def transposed_times(self, values: Any) -> Floats: ...
    def products_with_signs(self, weights: Floats) -> Floats: ...
    def cross(self, other: Any) -> Floats: ...
    def weighted_gram(self, weights: Any) -> Floats: ...
    def raise_for_overflow(self) -> NoReturn: ...


def centred_views(features: Mapping[str, Any], beside: Any = None, *, crosses: bool = False) -> list[CentredView]:
    """Return each modality centred, in memory or by blocks, and what is asked for with it in the same pass.

    Parameters
    ----------
    features : mapping of str to ndarray, CSR matrix or Blocks
        All in memory, or all in blocks.
    beside, crosses
        As for `CentredBlocks.together`; in memory there is no need to say it before.

    Returns
    -------
    list of Centred, or of CentredBlocks
    """
    if any(isinstance(own, Blocks) for own in features.values()):
        return list(CentredBlocks.together(features, beside, crosses=crosses))
    return [Centred(matrix, name) for name, matrix in features.items()]


def _sums_of_block(names: tuple[str, ...], crosses: bool, start: int, *blocks: Any) -> list[Moments]:
    """Return the moments of each modality, its targets those after it, if asked for, and what is beside them."""
    views = []
    for name, block in zip(names, blocks, strict=False):
        raise_if_not_finite(block, name, np.arange(start, start + block.shape[0]))
        views.append(Centred(check_features(block, name), name))
    beside, sums = blocks[len(names) :], []
    for index, view in enumerate(views):
        later = views[index + 1 :] if crosses else []
        products = [
            *(view.cross(other) for other in later),
            *(view.transposed_times(_doubles(values)) for values in beside),
        ]
        means = [*(other.mean for other in later), *(column_means(values) for values in beside)]
        cross = np.hstack([np.empty((view.n_features, 0)), *products])
        target_mean = np.concatenate([np.empty(0), *means])
        own = Moments(view.n_points, view.mean, view.gram, cross, target_mean, after_products=view.is_sparse)
        sums.append(own)
    return sums


def _doubles(values: Any) -> Any:
    return values.astype(np.float64, copy=False)  # products of small integers would wrap


def _added(some: list[Moments], others: list[Moments]) -> list[Moments]:
    with np.errstate(over="ignore", invalid="ignore"):
        return [one + other for one, other in zip(some, others, strict=True)]


def _centred_rows(modality: str, mean: Floats, is_constant: npt.NDArray[np.bool_], block: Features) -> CentredRows:
    return CentredRows(check_features(block, modality, len(mean)), modality, mean, is_constant)


def _times(rows: Any, weights: npt.NDArray[Any], block: Any) -> Floats:
    return np.asarray(rows(block).times(weights))


def _transposed_times(rows: Any, _: int, block: Any, values: Any) -> Floats:
    return np.asarray(rows(block).transposed_times(_doubles(values)))


def _products_with_signs(rows: Any, weights: Floats, _: int, block: Any) -> Floats:
    return np.asarray(rows(block).products_with_signs(weights))


def _weighted_gram(rows: Any, _: int, block: Any, weights: Floats) -> Floats:
    return np.asarray(rows(block).weighted_gram(weights))
