"""Base class of all featurisers, and `Vectors`, which passes vectors through.

A featuriser belongs to one modality. It is fitted to the training items, converts items to vectors, and is saved as
JSON and arrays, so that a saved model can encode raw strings and image files.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Integers
from dlfh._parameters import Parameterized
from dlfh._persistence.registry import Registered, Registry, parameters_from_json, parameters_to_json
from dlfh._validation import Features, check_features, check_flag, non_finite_rows, raise_if_not_finite
from dlfh.errors import InputError, ModelError, NotFittedError

Arrays = Mapping[str, Array]


class PartialFeatures(NamedTuple):
    """Vectors of the items that could be read."""

    features: Features
    rows: Integers  # positions of the readable items among all items, ascending
    problems: dict[int, str]  # reasons why the other items could not be read, by position
    contents: Mapping[int, str] = MappingProxyType({})  # hash of each image file, decodable or not, by position


class Featurizer(Registered, Parameterized, ABC):
    """Converts raw items of one modality to vectors.

    A subclass sets ``kind``, its name in saved models, and ``takes``; assigns its parameters in ``__init__`` without
    checking them; and implements the abstract methods.

    Attributes
    ----------
    n_features_ : int
        Length of the vectors.
    """

    _registry: ClassVar[Registry[Featurizer]] = Registry("featuriser")
    takes: Literal["texts", "images", "vectors"]  #: Type of the items.

    verbose: bool
    n_features_: int

    def fit(self, items: Any, y: Any = None) -> Self:
        """Fit to the training items.

        Parameters
        ----------
        items : sequence
            Texts, images or rows of numbers, depending on the featuriser.
        y : ignored
            For scikit-learn pipelines.
        """
        self.check_parameters()
        self.n_features_ = self._fit(self._collect(items), strict=True)
        return self

    def transform(self, items: Any) -> Features:
        """Return the vectors of items.

        Parameters
        ----------
        items : sequence

        Returns
        -------
        ndarray of float32 or csr_array of float32, shape (items, n_features_)
            `Vectors` keeps the type of its input.
        """
        self._check_fitted()
        return self._transform(self._collect(items), strict=True).features

    def transform_readable(self, items: Any) -> PartialFeatures:
        """Return the vectors of the readable items, and the reasons why other items are unreadable."""
        self._check_fitted()
        return self._transform(self._collect(items), strict=False)

    def fit_transform(self, items: Any, y: Any = None) -> Features:
        """Fit to items and return their vectors."""
        self.check_parameters()
        return self._fit_transform(self._collect(items), strict=True).features

    def fit_transform_readable(self, items: Any) -> PartialFeatures:
        """Fit to the readable items; return their vectors, and the reasons why other items are unreadable."""
        self.check_parameters()
        return self._fit_transform(self._collect(items), strict=False)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return JSON values and arrays, for `from_parts`."""
        self._check_fitted()
        fitted, arrays = self._state()
        config = {
            "kind": self._registry.kind_of(type(self)),
            "parameters": parameters_to_json(self),
            "n_features": self.n_features_,
            "fitted": fitted,
        }
        return config, arrays

    @staticmethod
    def from_parts(config: Mapping[str, Any], arrays: Arrays) -> Featurizer:
        """Restore a featuriser of any kind from untrusted parts; damaged parts raise ModelError.

        Examples
        --------
        >>> from dlfh.features import BagOfWords
        >>> words = BagOfWords().fit(["a red cat", "a blue dog"])
        >>> copy = Featurizer.from_parts(*words.to_parts())
        >>> (copy.transform(["blue cat"]) != words.transform(["blue cat"])).nnz
        0
        """
        kind = config.get("kind") if isinstance(config, Mapping) else None
        cls = Featurizer._registry.find(kind)
        try:
            featurizer = cls(**parameters_from_json(config["parameters"]))
            featurizer.check_parameters()
            n_features = config["n_features"]
            if not isinstance(n_features, int) or isinstance(n_features, bool) or n_features < 1:
                raise ValueError(f"its number of features is invalid: {n_features!r}")
            featurizer.n_features_ = n_features
            featurizer._restore(config["fitted"], arrays)
        except ModelError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else error
            raise ModelError(f"the featuriser of kind {kind!r} is damaged: {reason}") from None
        return featurizer

    def check_parameters(self) -> None:
        """Raise InputError for an invalid parameter."""
        check_flag(self.verbose, "verbose")

    def _collect(self, items: Any) -> Any:
        if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
            raise InputError(
                f"{type(self).__name__} takes a list of items, got a single {type(items).__name__}: pass [item]"
            )
        return items if isinstance(items, (list, tuple, np.ndarray)) else list(items)

    @abstractmethod
    def _fit(self, items: Any, strict: bool) -> int:
        """Fit to items and return the number of features; ``strict`` as for `_transform`."""

    def _fit_transform(self, items: Any, strict: bool) -> PartialFeatures:
        self.n_features_ = self._fit(items, strict)
        return self._transform(items, strict)

    @abstractmethod
    def _transform(self, items: Any, strict: bool) -> PartialFeatures:
        """Convert items to vectors; if ``strict``, an unreadable item raises InputError."""

    def _state(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the fitted state, as JSON values and arrays."""
        return {}, {}

    def _restore(self, fitted: Mapping[str, Any], arrays: Arrays) -> None:
        """Restore the fitted state; raise ValueError if it is inconsistent."""

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_features_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")


class Vectors(Featurizer):
    """Passes dense or sparse vectors through without copying them.

    Parameters
    ----------
    verbose : bool, default False
        Has no effect here.

    Attributes
    ----------
    n_features_ : int
        Length of the vectors; all later vectors must have the same length.

    Examples
    --------
    >>> vectors = Vectors().fit([[1.0, 2.0], [3.0, 4.0]])
    >>> vectors.transform([[5.0, 6.0]])
    array([[5., 6.]])
    """

    kind = "vectors"
    takes = "vectors"

    def __init__(self, *, verbose: bool = False) -> None:
        self.verbose = verbose

    def _collect(self, items: Any) -> Any:
        return items if sp.issparse(items) or isinstance(items, np.ndarray) else super()._collect(items)

    def _fit(self, items: Any, strict: bool) -> int:
        return int(check_features(items, "vectors").shape[1])

    def _transform(self, items: Any, strict: bool) -> PartialFeatures:
        matrix = check_features(items, "vectors", self.n_features_)
        bad = non_finite_rows(matrix)
        if strict and len(bad):
            raise_if_not_finite(matrix, "vectors")
        if not len(bad):
            return PartialFeatures(matrix, np.arange(matrix.shape[0]), {})
        rows = np.setdiff1d(np.arange(matrix.shape[0]), bad)
        return PartialFeatures(matrix[rows], rows, {int(row): f"vector {row} contains NaN or infinity" for row in bad})


def new_hash(content: bytes = b"") -> hashlib.blake2b:
    """Return a hash object for image files: they are identified by the decoded bytes, since a path may be replaced."""
    return hashlib.blake2b(content, digest_size=16)


def read_each(
    items: Any, read: Callable[[Any, int], Any], strict: bool, first: int = 0
) -> tuple[list[Any], list[int], dict[int, str]]:
    """Call ``read(item, position)`` from position ``first`` on; return results, positions, and errors by position."""
    # If ``strict``, the first error is raised.
    values, rows, problems = [], [], {}
    for position, item in enumerate(items, first):
        try:
            values.append(read(item, position))
            rows.append(position)
        except InputError as error:
            if strict:
                raise
            problems[position] = str(error)
    return values, rows, problems
