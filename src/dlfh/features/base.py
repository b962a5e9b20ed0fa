"""What every featuriser has in common: raw items in, vectors out, and plain parts to save.

A featuriser belongs to one modality. It is fitted to the training items, turns any items into rows of
numbers, and comes apart into JSON and arrays, so that a saved model encodes raw strings and image files.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from dlfh._parameters import Parameterized
from dlfh._persistence.plain import parameters_from_plain, plain_parameters
from dlfh._persistence.registry import Registered, Registry
from dlfh._validation import Features, check_flag
from dlfh.errors import InputError, ModelError, NotFittedError

__all__ = ["Featurizer", "Readable", "featurizer_from_parts"]

Arrays = Mapping[str, npt.NDArray[Any]]


class Readable(NamedTuple):
    """Vectors of the items that could be read, which ones those were, and what was wrong with the others.

    Attributes
    ----------
    features : ndarray or csr_array (items that could be read, features)
    rows : ndarray of int64
        Their positions among all items, ascending.
    problems : dict of int to str
        One sentence for each other position.
    """

    features: Features
    rows: npt.NDArray[np.int64]
    problems: dict[int, str]


class Featurizer(Registered, Parameterized, ABC):
    """Turns raw items of one modality into vectors.

    Subclasses set ``kind``, the name by which a saved model finds them again, assign their parameters in
    ``__init__`` without looking at them, and implement the methods that begin with an underscore.

    Attributes
    ----------
    n_features_ : int
        How many numbers describe an item.
    """

    registry: ClassVar[Registry[Featurizer]] = Registry("featuriser")
    #: What its items are.
    takes: Literal["texts", "images", "vectors"]

    verbose: bool
    n_features_: int

    def fit(self, items: Any, y: Any = None) -> Self:
        """Learn from the training items what describing others needs.

        Parameters
        ----------
        items : sequence
            Of what this featuriser takes: texts, images, or rows of numbers.
        y : ignored
            Here because pipelines of scikit-learn pass it.

        Returns
        -------
        self
        """
        self.check_parameters()
        self.n_features_ = self._fit(self._collect(items), strict=True)
        return self

    def transform(self, items: Any) -> Features:
        """Return the items' vectors.

        Parameters
        ----------
        items : sequence

        Returns
        -------
        ndarray of float32 or csr_array of float32, shape (items, n_features_)
            (`Vectors` leaves the type of numbers as it is.)
        """
        self._check_fitted()
        return self._transform(self._collect(items), strict=True).features

    def transform_readable(self, items: Any) -> Readable:
        """Return the vectors of those items that can be read, and what is wrong with the others.

        Parameters
        ----------
        items : sequence

        Returns
        -------
        Readable
        """
        self._check_fitted()
        return self._transform(self._collect(items), strict=False)

    def fit_transform(self, items: Any, y: Any = None) -> Features:
        """Return the vectors of the items that it is fitted to."""
        self.check_parameters()
        return self._fit_transform(self._collect(items), strict=True).features

    def fit_transform_readable(self, items: Any) -> Readable:
        """Fit to those items that can be read, and return their vectors and what is wrong with the others.

        Parameters
        ----------
        items : sequence

        Returns
        -------
        Readable
        """
        self.check_parameters()
        return self._fit_transform(self._collect(items), strict=False)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return what `featurizer_from_parts` needs to make this featuriser again.

        Returns
        -------
        config : dict
            Plain values only, as JSON has them.
        arrays : dict of str to ndarray
        """
        self._check_fitted()
        fitted, arrays = self._state()
        config = {
            "kind": self.registry.kind_of(type(self)),
            "parameters": plain_parameters(self),
            "n_features": self.n_features_,
            "fitted": fitted,
        }
        return config, arrays

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], arrays: Arrays) -> Self:
        """Make a featuriser from the parts of another; damaged parts raise ModelError."""
        try:
            if config["kind"] != cls.kind:
                raise ModelError(f"a featuriser of kind {config['kind']!r} is not a {cls.__name__}")
            featurizer = cls(**parameters_from_plain(config["parameters"]))
            featurizer.check_parameters()
            n_features = config["n_features"]
            if not isinstance(n_features, int) or isinstance(n_features, bool) or n_features < 1:
                raise ValueError(f"its number of features is {n_features!r}")
            featurizer.n_features_ = n_features
            featurizer._restore(config["fitted"], arrays)
        except ModelError:
            raise
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
            reason = f"it has no {error}" if isinstance(error, KeyError) else error
            raise ModelError(f"the featuriser of kind {cls.kind!r} is damaged: {reason}") from None
        return featurizer

    def _collect(self, items: Any) -> Any:
        """Return the items in a form that has a length and can be read twice."""
        if isinstance(items, (str, bytes)) or not isinstance(items, Iterable):
            raise InputError(
                f"{type(self).__name__} takes a list of items, got one {type(items).__name__}: wrap it as [item]"
            )
        return items if isinstance(items, (list, tuple, np.ndarray)) else list(items)

    def check_parameters(self) -> None:
        """Raise InputError for a parameter that is out of range."""
        check_flag(self.verbose, "verbose")

    @abstractmethod
    def _fit(self, items: Any, strict: bool) -> int:
        """Learn from items and return the number of features; ``strict`` as for `_transform`."""

    def _fit_transform(self, items: Any, strict: bool) -> Readable:
        self.n_features_ = self._fit(items, strict)
        return self._transform(items, strict)

    @abstractmethod
    def _transform(self, items: Any, strict: bool) -> Readable:
        """Describe items; one that cannot be read raises InputError if ``strict``, and else is a problem."""

    def _state(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return what was learned, as plain values and arrays."""
        return {}, {}

    def _restore(self, fitted: Mapping[str, Any], arrays: Arrays) -> None:
        """Take back what `_state` gave; what does not fit raises ValueError."""

    def _check_fitted(self) -> None:
        if not hasattr(self, "n_features_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")


def featurizer_from_parts(config: Mapping[str, Any], arrays: Arrays) -> Featurizer:
    """Make the featuriser, of whatever kind, that `Featurizer.to_parts` took apart.

    Parameters
    ----------
    config : dict
        Nothing in it is trusted: no code runs.
    arrays : dict of str to ndarray

    Returns
    -------
    Featurizer
        It gives bit for bit the same vectors.

    Examples
    --------
    >>> from dlfh.features import BagOfWords
    >>> words = BagOfWords().fit(["a red cat", "a blue dog"])
    >>> copy = featurizer_from_parts(*words.to_parts())
    >>> (copy.transform(["blue cat"]) != words.transform(["blue cat"])).nnz
    0
    """
    kind = config.get("kind") if isinstance(config, Mapping) else None
    return Featurizer.registry.find(kind).from_parts(config, arrays)


def readable(
    items: Any, read: Callable[[Any, int], Any], strict: bool, first: int = 0
) -> tuple[list[Any], list[int], dict[int, str]]:
    """Return what ``read(item, position)`` gives, the positions it gives it for, and why not for the others.

    ``first`` is the position of the first item among all.
    """
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
