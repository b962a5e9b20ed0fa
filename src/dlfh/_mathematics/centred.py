"""Centred features as an operator: products with X - 1 m' that leave sparse X sparse, in double precision.

Linear methods consist of these products: Gram matrices, cross products and projections. `CentredRows` multiplies rows
in memory; `CentredBlocks` multiplies a matrix in blocks by applying `CentredRows` to each block, and a matrix in memory
is one block. In the first pass each block is centred by its own mean and its products are then shifted to the common
mean, so that up to rounding, results do not depend on where the matrix is split.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Floats, Integers, Mask
from dlfh._mathematics.moments import Moments, check_gram_fits, dense_gram, sparse_gram
from dlfh._parallel import row_chunks
from dlfh._validation import Features, check_features, column_means, raise_for_overflow, raise_if_not_finite
from dlfh.blocks.base import Blocks


class CentredRows:
    """Features of one modality in memory, minus a given mean; constant features become exactly 0."""

    def __init__(self, features: Features, modality: str, mean: Floats, is_constant: Mask) -> None:
        self.features, self.modality, self.whole = features, modality, features
        self.mean, self.is_constant, self.is_sparse = mean, is_constant, bool(sp.issparse(features))
        self.n_points, self.n_features = features.shape

    def times(self, weights: Array) -> Floats:
        """Return (X - 1 m') W, shape (n, k)."""
        W = np.where(self.is_constant[:, None], 0.0, weights)
        if self.is_sparse:
            return self.features @ W - self.mean @ W
        products = np.empty((self.n_points, W.shape[1]))
        for start, rows in self.chunks():
            np.matmul(rows, W, out=products[start : start + len(rows)])
        return products

    def transposed_times(self, values: Array) -> Floats:
        """Return (X - 1 m')'Z for Z (n, k), dense or sparse; shape (d, k)."""
        if self.is_sparse:
            products = self.features.T @ values
            products = products.toarray() if sp.issparse(products) else products
            products = products - np.outer(self.mean, np.asarray(values.sum(axis=0)).ravel())
        else:
            products = np.zeros((self.n_features, values.shape[1]))
            for start, rows in self.chunks():
                products += rows.T @ values[start : start + len(rows)]
        products[self.is_constant] = 0
        return products

    def products_with_signs(self, weights: Floats) -> Floats:
        """Return (X - 1 m')'sign((X - 1 m') W), shape (d, k)."""
        if self.is_sparse:
            return self.transposed_times(np.sign(self.times(weights)))
        W = np.where(self.is_constant[:, None], 0.0, weights)
        products = np.zeros((self.n_features, W.shape[1]))
        for _, rows in self.chunks():  # centred once for both products
            products += rows.T @ np.sign(rows @ W)
        products[self.is_constant] = 0
        return products

    def cross(self, other: CentredRows) -> Floats:
        """Return X'Y for the same points in another modality, both centred; shape (d, d of the other)."""
        if other.is_sparse:
            # Over all points, X sums to 0, so Y need not be centred.
            products = self.transposed_times(other.features.astype(np.float64))  # small integers would wrap around
            products[:, other.is_constant] = 0
            return products
        if self.is_sparse:
            return np.ascontiguousarray(other.cross(self).T)
        products = np.zeros((self.n_features, other.n_features))
        for start, stop in row_chunks(self.features, other.n_features):
            products += self.take(slice(start, stop)).T @ other.take(slice(start, stop))
        products[self.is_constant] = 0
        products[:, other.is_constant] = 0
        return products

    def weighted_gram(self, weights: Floats) -> Floats:
        """Return (X - 1 m')'D(X - 1 m') for point weights D, shape (d, d)."""
        gram = np.zeros((self.n_features, self.n_features))
        for start, rows in self.chunks():
            gram += rows.T @ (weights[start : start + len(rows), None] * rows)
        return gram

    def chunks(self) -> Iterator[tuple[int, Floats]]:
        width = self.n_features if self.is_sparse else 0
        for start, stop in row_chunks(self.features, width):
            yield start, self.take(slice(start, stop))

    def take(self, which: slice | Integers) -> Floats:
        """Return the centred features of some points, shape (k, d)."""
        rows = self.features[which]
        rows = np.subtract(rows.toarray() if self.is_sparse else rows, self.mean, dtype=np.float64)
        rows[:, self.is_constant] = 0
        return rows


class Centred(CentredRows):
    """Features of one modality in memory, less their own mean, and ``gram``, X'X of the centred X.

    first_row: Number of the first row, for error messages.
    """

    def __init__(self, features: Features, modality: str, first_row: int = 0) -> None:
        raise_if_not_finite(features, modality, np.arange(first_row, first_row + features.shape[0]))
        with np.errstate(over="ignore", invalid="ignore"):
            mean, sparse = column_means(features), bool(sp.issparse(features))
            self.gram = sparse_gram(features, mean) if sparse else dense_gram(features, mean, np.float64)
            sums = Moments(features.shape[0], mean, self.gram, np.empty(0), np.empty(0), after_products=sparse)
            super().__init__(features, modality, mean, sums.is_constant)
        self.gram[self.is_constant] = self.gram[:, self.is_constant] = 0
        if not np.isfinite(self.gram).all():
            raise_for_overflow(features, modality)

    @property
    def total_variance(self) -> float:
        """The mean of |x - m|^2."""
        return float(np.trace(self.gram)) / self.n_points


class CentredBlocks:
    """Features of one modality in blocks, less their mean, with the products of `Centred`; made by `centre`."""

    def __init__(self, blocks: Blocks, modality: str, sums: Moments) -> None:
        self.blocks, self.modality, self.whole = blocks, modality, blocks.whole
        self.n_points, self.n_features = blocks.shape
        if not np.isfinite(sums.gram).all():
            raise_for_overflow(self.whole, modality)
        sums = sums.without_constants()
        self.mean, self.gram = sums.mean, sums.gram
        self.is_constant: Mask = sums.variances == 0
        #: Products that the first pass computed, with the matrices they belong to.
        self._known: list[tuple[Blocks, Floats]] = []

    def times(self, weights: Array) -> Blocks:
        """Return (X - 1 m') W, shape (n, k), evaluated lazily."""
        on_block = functools.partial(_product, CentredRows.times, self._centre, (weights,), 0)
        return self.blocks.map(on_block, weights.shape[1], np.float64)

    def transposed_times(self, values: Blocks) -> Floats:
        found = self._find(values)
        return self._sum(CentredRows.transposed_times, (), values) if found is None else found

    def products_with_signs(self, weights: Floats) -> Floats:
        return self._sum(CentredRows.products_with_signs, (weights,))

    def cross(self, other: CentredBlocks) -> Floats:
        found = self._find(other.blocks)
        if found is None and self.whole is None and other._find(self.blocks) is not None:
            return np.ascontiguousarray(other.cross(self).T)  # saves a pass
        if found is None:
            on_block = functools.partial(_cross, self._centre, other._centre)
            return self.blocks.map_reduce(on_block, operator.add, other.blocks)
        products = found.copy()
        products[:, other.is_constant] = 0
        return products

    def weighted_gram(self, weights: Blocks) -> Floats:
        return self._sum(CentredRows.weighted_gram, (), weights)

    def _sum(self, method: Any, arguments: tuple[Any, ...], *values: Blocks) -> Floats:
        on_block = functools.partial(_product, method, self._centre, arguments)
        return self.blocks.map_reduce(on_block, operator.add, *values)

    def _find(self, values: Blocks) -> Floats | None:
        return next((products for known, products in self._known if known is values), None)

    @property
    def _centre(self) -> functools.partial[CentredRows]:
        """A function that centres a block; it has no reference to the blocks, because it is sent to other processes."""
        is_checked = self.whole is not None
        return functools.partial(_centred_rows, self.modality, self.mean, self.is_constant, is_checked)


def centre(
    features: Mapping[str, Blocks], targets: Blocks | None = None, *, crosses: bool = False
) -> list[CentredBlocks]:
    """Return modalities of the same points centred, in one pass over all of them.

    features: Split at the same rows.
    targets (n, k): A matrix whose `CentredBlocks.transposed_times` is computed in the same pass; others take another
        pass.
    crosses: Whether to compute `CentredBlocks.cross` in the same pass; otherwise it takes another one.
    """
    first, *others = features.values()
    if first.n_blocks > 1:
        for name, blocks in features.items():
            check_gram_fits(name, blocks.shape[1])
    further = [] if targets is None else [targets]
    on_block = functools.partial(_block_moments, tuple(features), crosses, first.whole is not None)
    sums = first.map_reduce(on_block, _add, *others, *further)
    views = [CentredBlocks(features[name], name, moments) for name, moments in zip(features, sums, strict=True)]
    for index, (view, moments) in enumerate(zip(views, sums, strict=True)):
        later = [other.blocks for other in views[index + 1 :]] if crosses else []
        ends = np.cumsum([other.shape[1] for other in (*later, *further)], dtype=np.int64)
        for other, products in zip((*later, *further), np.split(moments.cross, ends[:-1], axis=1), strict=False):
            products[view.is_constant] = 0
            view._known.append((other, products))
    return views


def _block_moments(names: tuple[str, ...], crosses: bool, is_checked: bool, start: int, *blocks: Any) -> list[Moments]:
    """Return each modality's moments; its targets are the later modalities, if ``crosses``, and the given targets."""
    views = [
        Centred(block if is_checked else check_features(block, name), name, start)
        for name, block in zip(names, blocks, strict=False)
    ]
    targets, sums = blocks[len(names) :], []
    for index, view in enumerate(views):
        later = views[index + 1 :] if crosses else []
        products = [view.cross(other) for other in later]
        products += [view.transposed_times(_doubles(values)) for values in targets]
        means = [*(other.mean for other in later), *(column_means(values) for values in targets)]
        cross = np.hstack([np.empty((view.n_features, 0)), *products])
        target_mean = np.concatenate([np.empty(0), *means])
        sums.append(Moments(view.n_points, view.mean, view.gram, cross, target_mean, after_products=view.is_sparse))
    return sums


def _doubles(values: Any) -> Any:
    return values.astype(np.float64, copy=False)  # products of small integers would wrap around


def _add(some: list[Moments], others: list[Moments]) -> list[Moments]:
    with np.errstate(over="ignore", invalid="ignore"):
        return [one + other for one, other in zip(some, others, strict=True)]


def _centred_rows(modality: str, mean: Floats, is_constant: Mask, is_checked: bool, block: Features) -> CentredRows:
    features = block if is_checked else check_features(block, modality, len(mean))
    return CentredRows(features, modality, mean, is_constant)


def _product(method: Any, rows: Any, arguments: tuple[Any, ...], _: int, block: Any, *values: Any) -> Floats:
    return np.asarray(method(rows(block), *arguments, *map(_doubles, values)))


def _cross(rows: Any, other_rows: Any, _: int, block: Any, other_block: Any) -> Floats:
    return np.asarray(rows(block).cross(other_rows(other_block)))
