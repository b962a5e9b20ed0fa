"""What is done to features before a regression sees them: histograms, counts and measurements differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._validation import Features, column_means, raise_if_not_finite
from dlfh.hashing.base import check_array

#: "root" takes (signed) square roots and gives every point the length 1, as suits histograms and counts; "standard"
#: divides every feature by its standard deviation.
SCALINGS: Final[tuple[Literal["none", "root", "standard"], ...]] = ("none", "root", "standard")


@dataclass(frozen=True)
class Scaling:
    """A fitted scaling. Zeros stay zeros, so that sparse features stay sparse.

    Attributes
    ----------
    kind : {"none", "root", "standard"}
    divisors : ndarray of float64 (n_features,)
        For "standard"; empty for others.
    """

    kind: str
    divisors: npt.NDArray[np.float64]

    @classmethod
    def fit(cls, kind: str, features: Features, modality: str) -> Scaling:
        """Return the scaling of some features."""
        if kind != "standard":
            return cls(kind, np.zeros(0))
        raise_if_not_finite(features, modality)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = column_means(features)
            squares = (
                column_means(features.astype(np.float64).power(2)) if sp.issparse(features) else _mean_squares(features)
            )
            deviations = np.sqrt(np.maximum(squares - mean**2, 0))
        return cls.by_deviations(deviations, squares)

    @classmethod
    def by_deviations(cls, deviations: npt.NDArray[np.float64], squares: npt.NDArray[np.float64]) -> Scaling:
        """Return the scaling by standard deviations; features that hardly vary, by their mean squares, stay."""
        usable = np.isfinite(deviations) & (deviations > 1e-6 * np.sqrt(np.maximum(squares, 0)))
        return cls("standard", np.where(usable, deviations, 1.0))

    def __call__(self, features: Features) -> Features:
        """Return the scaled features, dense ones in at least single precision."""
        if self.kind == "none":
            return features
        if sp.issparse(features):
            return self._scale_sparse(features)
        dtype = np.float32 if features.dtype in (np.float16, np.float32) else np.float64
        values = features.astype(np.float64)
        if self.kind == "standard":
            return (values / self.divisors).astype(dtype)
        sizes = np.abs(values)
        # The squares of the roots add up to the sum of the values' sizes.
        lengths = np.sqrt(sizes.sum(axis=1, keepdims=True))
        return (np.sign(values) * np.sqrt(sizes) / np.where(lengths > 0, lengths, 1.0)).astype(dtype)

    def _scale_sparse(self, features: Features) -> Features:
        values = features.data.astype(np.float64)
        if self.kind == "standard":
            values /= self.divisors[features.indices]
        else:
            lengths = np.asarray(abs(features.astype(np.float64)).sum(axis=1)).ravel()
            rows = np.repeat(np.sqrt(np.where(lengths > 0, lengths, 1.0)), np.diff(features.indptr))
            values = np.sign(values) * np.sqrt(np.abs(values)) / rows
        return sp.csr_array((values, features.indices, features.indptr), shape=features.shape)

    def to_arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Return what `from_arrays` needs to make this scaling again."""
        kind = {"scaling": np.array([SCALINGS.index(self.kind)], np.uint8)}
        return kind | ({"divisors": self.divisors} if self.kind == "standard" else {})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, npt.NDArray[Any]], n_features: int) -> Scaling:
        """Make a scaling from the arrays of another."""
        number = int(check_array(arrays, "scaling", np.uint8, (1,))[0])
        if number >= len(SCALINGS):
            raise ValueError(f"its scaling is number {number}, of {len(SCALINGS)}")
        if SCALINGS[number] != "standard":
            return cls(SCALINGS[number], np.zeros(0))
        divisors = check_array(arrays, "divisors", np.float64, (n_features,))
        if not (divisors > 0).all():
            raise ValueError("its divisors are not all above 0")
        return cls("standard", divisors)


#: Features as they are.
UNSCALED: Final = Scaling("none", np.zeros(0))


def _mean_squares(features: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return each feature's mean square, in blocks of rows."""
    total = np.zeros(features.shape[1])
    for start in range(0, len(features), 4096):
        block = features[start : start + 4096].astype(np.float64)
        total += np.einsum("nd,nd->d", block, block)
    return total / len(features)
