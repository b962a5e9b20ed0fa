"""What every method has in common: named modalities in, packed codes out, files."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator

import dlfh
from dlfh._parallel import Workers, blas_threads, resolve_n_jobs
from dlfh.codes import Codes, n_bytes
from dlfh.errors import InputError, ModelError, NotFittedError
from dlfh.hashing import LinearHash
from dlfh.persistence import read_model, write_model
from dlfh.validation import Features, check_features, check_modalities

__all__ = ["CrossModalHasher", "load"]


class CrossModalHasher(BaseEstimator, ABC):
    """Learns binary codes for paired modalities, and hash functions for unseen points.

    Subclasses set their parameters in ``__init__`` without looking at them, check them in
    `_check_parameters`, and learn in `_fit`.

    Attributes
    ----------
    modalities_ : tuple of str
        The modalities' names, in the order of the dict given to `fit`.
    codes_ : dict of str to ndarray of uint8 (n, ceil(n_bits / 8))
        Learned codes of the training points, packed as by `numpy.packbits`.
    hash_functions_ : dict of str to LinearHash
    n_features_ : dict of str to int
    fit_seconds_ : float
        How long `fit` took.
    """

    n_bits: int
    n_jobs: int | None

    modalities_: tuple[str, ...]
    codes_: dict[str, Codes]
    hash_functions_: dict[str, LinearHash]
    n_features_: dict[str, int]
    fit_seconds_: float

    _subclasses: ClassVar[dict[str, type[CrossModalHasher]]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        CrossModalHasher._subclasses[cls.__name__] = cls

    def fit(self, modalities: Any, labels: Any = None) -> Self:
        """Learn codes and hash functions from paired modalities.

        Parameters
        ----------
        modalities : dict of str to array-like or sparse matrix
            Features of each modality, shape (n, features of that modality). Row i of each describes
            point i. Numbers of any type; arrays of float32 or float64 are not copied.
        labels : array-like or sparse matrix
            An indicator matrix of 0 and 1 (n rows); or a class id per point; or a list of labels per
            point. Points are similar if they share a label; a point without labels is similar to none.

        Returns
        -------
        self
        """
        self._check_parameters()
        resolve_n_jobs(self.n_jobs)
        features = check_modalities(modalities)
        began = time.perf_counter()
        with blas_threads(self.n_jobs):
            self._fit(features, labels)
        self.modalities_ = tuple(features)
        self.n_features_ = {name: matrix.shape[1] for name, matrix in features.items()}
        self.fit_seconds_ = time.perf_counter() - began
        return self

    @abstractmethod
    def _check_parameters(self) -> None:
        """Raise InputError for a parameter that is out of range."""

    @abstractmethod
    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        """Set ``codes_`` and ``hash_functions_``."""

    def encode(self, modality: str, features: Any) -> Codes:
        """Return the packed codes of points, seen or not, from one modality.

        Parameters
        ----------
        modality : str
        features : array-like or sparse matrix of shape (n, features of that modality)

        Returns
        -------
        ndarray of uint8, shape (n, ceil(n_bits / 8))
        """
        hash_function, matrix = self._for_modality(modality, features)
        with blas_threads(self.n_jobs), Workers(self.n_jobs) as workers:
            return hash_function.encode(matrix, modality, workers)

    def project(self, modality: str, features: Any) -> npt.NDArray[np.float32]:
        """Return the real values whose signs are the code, for asymmetric ranking.

        Parameters
        ----------
        modality : str
        features : array-like or sparse matrix of shape (n, features of that modality)

        Returns
        -------
        ndarray of float32, shape (n, n_bits)
        """
        hash_function, matrix = self._for_modality(modality, features)
        with blas_threads(self.n_jobs), Workers(self.n_jobs) as workers:
            return hash_function.project(matrix, modality, workers)

    def _for_modality(self, modality: str, features: Any) -> tuple[LinearHash, Features]:
        self._check_fitted()
        if modality not in self.hash_functions_:
            known = ", ".join(map(repr, self.modalities_))
            raise InputError(f"unknown modality {modality!r}: this model knows {known}")
        return self.hash_functions_[modality], check_features(features, modality, self.n_features_[modality])

    def _check_fitted(self) -> None:
        if not hasattr(self, "modalities_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save the fitted model as a folder of safetensors and JSON, atomically.

        A ``random_state`` that is a generator, not a number, is saved as None.
        """
        self._check_fitted()
        parameters = {name: _plain(value) for name, value in self.get_params(deep=False).items()}
        config = {
            "dlfh_version": dlfh.__version__,
            "method": type(self).__name__,
            "parameters": parameters,
            "modalities": list(self.modalities_),
            "fit_seconds": self.fit_seconds_,
        }
        arrays = {f"codes/{name}": codes for name, codes in self.codes_.items()}
        for name, hash_function in self.hash_functions_.items():
            arrays |= {f"hash/{name}/{key}": array for key, array in hash_function.to_arrays().items()}
        for name, values in self._extra_arrays().items():
            arrays[f"fitted/{name}"] = np.asarray(values)
        write_model(folder, config, arrays)

    def _extra_arrays(self) -> dict[str, Any]:
        """Return further fitted attributes to save, by name."""
        return {}

    def _restore(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        self.modalities_ = tuple(config["modalities"])
        self.fit_seconds_ = float(config["fit_seconds"])
        self.codes_ = {name: arrays[f"codes/{name}"] for name in self.modalities_}
        self.hash_functions_ = {
            name: LinearHash.from_arrays(_with_prefix(arrays, f"hash/{name}/")) for name in self.modalities_
        }
        self.n_features_ = {name: function.n_features for name, function in self.hash_functions_.items()}
        for name in self.modalities_:
            function, codes = self.hash_functions_[name], self.codes_[name]
            if function.n_bits != self.n_bits or codes.shape[1] != n_bytes(self.n_bits):
                raise ValueError(f"modality {name!r} does not have codes of {self.n_bits} bits")
        for name, values in _with_prefix(arrays, "fitted/").items():
            setattr(self, name, values)


def _with_prefix(arrays: dict[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _plain(value: Any) -> Any:
    """Return a parameter as JSON can hold it."""
    if isinstance(value, np.generic):
        return value.item()
    return value if value is None or isinstance(value, (bool, int, float, str)) else None


def load(folder: str | os.PathLike[str]) -> CrossModalHasher:
    """Load a model that was saved by ``model.save(folder)``.

    Parameters
    ----------
    folder : path
        Nothing in it is trusted: no code runs, and its checksum must match.

    Returns
    -------
    CrossModalHasher
        A model of the method that was saved; it encodes bit for bit the same.
    """
    config, arrays = read_model(folder)
    method = config.get("method")
    cls = CrossModalHasher._subclasses.get(str(method))
    if cls is None:
        raise ModelError(f"model {folder} was made by a method that this dlfh does not have: {method!r}")
    try:
        model = cls(**config["parameters"])
        model._check_parameters()
        model._restore(config, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelError(f"model {folder} is damaged: {error}") from None
    return model
