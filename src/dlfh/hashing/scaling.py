"""Feature scaling before a regression: histograms, counts and measurements need different ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Floats
from dlfh._validation import Features
from dlfh.hashing.base import check_array

#: "root" takes signed square roots and scales every point to length 1, which suits histograms and counts; "standard"
#: divides every feature by its standard deviation.
SCALINGS: Final[tuple[Literal["none", "root", "standard"], ...]] = ("none", "root", "standard")


@dataclass(frozen=True)
class Scaling:
    """A fitted scaling. Zeros stay zeros, so that sparse features stay sparse.

    divisors (n_features,): For "standard"; otherwise empty.
    """

    kind: str
    divisors: Floats

    @classmethod
    def by_deviations(cls, deviations: Floats, squares: Floats) -> Scaling:
        """Return the standard scaling; features whose deviation is rounding, relative to their mean square, stay."""
        usable = np.isfinite(deviations) & (deviations > 1e-6 * np.sqrt(np.maximum(squares, 0)))
        return cls("standard", np.where(usable, deviations, 1.0))

    def __call__(self, features: Features) -> Features:
        """Return the scaled features; dense ones in at least single precision."""
        if self.kind == "none":
            return features
        if sp.issparse(features):
            return self._scale_sparse(features)
        dtype = np.float32 if features.dtype in (np.float16, np.float32) else np.float64
        values = features.astype(np.float64)
        if self.kind == "standard":
            return (values / self.divisors).astype(dtype)
        sizes = np.abs(values)
        # The squares of the roots add up to the sum of the absolute values.
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

    def to_arrays(self) -> dict[str, Array]:
        """Return the arrays from which `from_arrays` restores this scaling."""
        kind = {"scaling": np.array([SCALINGS.index(self.kind)], np.uint8)}
        return kind | ({"divisors": self.divisors} if self.kind == "standard" else {})

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], n_features: int) -> Scaling:
        """Restore a scaling from its arrays."""
        number = int(check_array(arrays, "scaling", np.uint8, (1,))[0])
        if number >= len(SCALINGS):
            raise ValueError(f"its scaling number must be less than {len(SCALINGS)}, got {number}")
        if SCALINGS[number] != "standard":
            return cls(SCALINGS[number], np.zeros(0))
        divisors = check_array(arrays, "divisors", np.float64, (n_features,))
        if not (divisors > 0).all():
            raise ValueError("its divisors must be positive")
        return cls("standard", divisors)


#: Features unchanged.
UNSCALED: Final = Scaling("none", np.zeros(0))
