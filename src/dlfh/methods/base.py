"""What every method has in common: named modalities in, packed codes out, files."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from dlfh._labels import LabelSets
from dlfh._parallel import Workers, blas_threads, resolve_n_jobs
from dlfh._parameters import Parameterized
from dlfh._persistence.model_folder import write_model
from dlfh._persistence.plain import parameters_from_plain, plain_parameters
from dlfh._persistence.registry import Registered, Registry
from dlfh._validation import (
    Features,
    check_features,
    check_flag,
    check_integer,
    check_modalities,
    check_names,
    check_random_state,
    shown,
)
from dlfh._version import __version__
from dlfh.blocks import Blocks, as_blocks
from dlfh.codes import Codes, n_bytes, pack
from dlfh.errors import InputError, NotFittedError
from dlfh.hashing import HashFunction, HashLearner
from dlfh.methods.info import MethodInfo

__all__ = ["CrossModalHasher", "hasher_from_parts", "with_prefix"]

#: The longest code; nothing but tests beyond it stands in the way of longer ones.
MAX_BITS = 512


class CrossModalHasher(Registered, Parameterized, ABC):
    """Learns binary codes for paired modalities, and hash functions for unseen points.

    Subclasses say what they are in ``info``, set their parameters in ``__init__`` without looking at them,
    check them in `check_parameters`, and learn in `_fit`.

    Attributes
    ----------
    modalities_ : tuple of str
        The modalities' names, in the order of the dict given to `fit`.
    codes_ : dict of str to ndarray of uint8 (n, ceil(n_bits / 8))
        Codes of the training points, packed as by `numpy.packbits`: learned ones, or those that the hash
        functions give where a method learns no others (``info.protocols``). Of data by blocks they may be
        `dlfh.blocks.Blocks` or Dask arrays, computed when they are asked for.
    hash_functions_ : dict of str to HashFunction
    n_features_ : dict of str to int
    fit_seconds_ : float
        How long `fit` took; a loaded model does not know.
    """

    registry: ClassVar[Registry[CrossModalHasher]] = Registry("method")
    #: What there is to know of the method before choosing it.
    info: ClassVar[MethodInfo]

    n_bits: int
    random_state: Any
    n_jobs: int | None
    verbose: bool

    modalities_: tuple[str, ...]
    codes_: dict[str, Codes]
    hash_functions_: dict[str, HashFunction]
    n_features_: dict[str, int]
    fit_seconds_: float

    #: Whether it learns from blocks of all modalities at once, which must be of the same rows.
    _reads_together: ClassVar[bool] = True
    #: Further fitted attributes that are saved, all of them arrays.
    _saved_arrays: ClassVar[tuple[str, ...]] = ()

    def fit(self, modalities: Any, labels: Any = None) -> Self:
        """Learn codes and hash functions from paired modalities.

        Parameters
        ----------
        modalities : dict of str to array-like or sparse matrix
            Features of each modality, shape (n, features of that modality). Row i of each describes
            point i. Numbers of any type; arrays of float32 or float64 are not copied. Methods that learn by blocks
            (``info.takes_blocks``) also take what `dlfh.blocks.open_blocks` opens, large memory-mapped arrays and Dask
            arrays; the others take arrays in memory.
        labels : array-like or sparse matrix
            An indicator matrix of 0 and 1 (n rows); or a class id per point; or a list of labels per
            point. Points are similar if they share a label; a point without labels is similar to none.
            Methods that learn from pairs alone (``info.supervised``) ignore them.

        Returns
        -------
        self
        """
        with self._fitting(modalities) as features:
            self._fit(features, labels)
        return self

    @contextmanager
    def _fitting(self, modalities: Any) -> Iterator[dict[str, Features]]:
        """Check parameters and modalities, give the features to the block that learns from them, and take its time."""
        self.check_parameters()
        resolve_n_jobs(self.n_jobs)
        features = self._blocks_of(modalities)
        if features is None:
            features = check_modalities(modalities, type(self).__name__, *self.info.n_modalities)
        began = time.perf_counter()
        with blas_threads(self.n_jobs):
            yield features
        self.modalities_ = tuple(features)
        self.n_features_ = {name: matrix.shape[1] for name, matrix in features.items()}
        self.fit_seconds_ = time.perf_counter() - began

    def _blocks_of(self, modalities: Any) -> dict[str, Blocks] | None:
        """Return modalities that are read by blocks; None where they are in memory.

        A method that does not learn by blocks takes a memory map as an array, and refuses all others.
        """
        method = type(self).__name__
        for name, values in modalities.items() if isinstance(modalities, Mapping) else ():
            if as_blocks(values, f"modality {name!r}") is None:
                continue
            if self.info.takes_blocks:
                from dlfh.methods.by_blocks import blocks_of, cut_alike  # searching fits nothing

                check_names(modalities, method, *self.info.n_modalities)
                found = blocks_of(modalities) or {}
                return cut_alike(found) if self._reads_together else found
            if not isinstance(values, np.ndarray):
                raise InputError(f"{method} learns from arrays in memory, and modality {name!r} is in blocks")
        return None

    @contextmanager
    def _fitting_more(self, modalities: Any) -> Iterator[dict[str, Features]]:
        """Do the same for points that come after those that this model was fitted to."""
        self.check_parameters()
        self._check_consistency()
        resolve_n_jobs(self.n_jobs)
        _check_in_memory(modalities, "partial_fit")
        names = check_modalities(modalities, type(self).__name__, *self.info.n_modalities)
        if set(names) != set(self.modalities_):
            raise InputError(f"earlier chunks had the modalities {sorted(self.modalities_)}, got {sorted(names)}")
        checked = check_modalities(modalities, known=self.n_features_)
        began = time.perf_counter()
        with blas_threads(self.n_jobs):
            yield {name: checked[name] for name in self.modalities_}
        self.fit_seconds_ = getattr(self, "fit_seconds_", 0.0) + time.perf_counter() - began

    def check_parameters(self) -> None:
        """Raise InputError for a parameter that is out of range."""
        check_integer(self.n_bits, "n_bits", 1, MAX_BITS)
        check_random_state(getattr(self, "random_state", None))
        check_flag(self.verbose, "verbose")

    @abstractmethod
    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        """Set ``codes_`` and ``hash_functions_``."""

    def _read_labels(self, labels: Any, features: dict[str, Features]) -> LabelSets:
        """Return the labels of the points, which must be there and as many as the points."""
        self._check_labels_given(labels)
        label_sets = LabelSets.from_labels(labels)
        name, matrix = next(iter(features.items()))
        if label_sets.n_points != matrix.shape[0]:
            raise InputError(f"labels has {label_sets.n_points} rows but modality {name!r} has {matrix.shape[0]}")
        return label_sets

    def _unit_label_rows(self, labels: Any, features: dict[str, Features]) -> Any:
        """Return the points' labels as rows of length 1: a sparse matrix, or Blocks as the features have them."""
        first = next(iter(features.values()))
        if not isinstance(first, Blocks):
            return self._read_labels(labels, features).unit_rows_of_points()
        from dlfh.methods.by_blocks import LabelsInBlocks

        self._check_labels_given(labels)
        return LabelsInBlocks(labels, first.shape[0]).unit_rows_beside(first)

    def _check_labels_given(self, labels: Any) -> None:
        if labels is None:
            raise InputError(f"{type(self).__name__} learns from labels: pass labels to fit")

    def _hash_training_points(self, features: dict[str, Features], workers: Workers) -> None:
        """Let the training points have the codes that their hash functions give them: by blocks, when asked for."""
        if any(isinstance(own, Blocks) for own in features.values()):
            from dlfh.methods.by_blocks import hashed_by_blocks

            self.codes_ = hashed_by_blocks(self.hash_functions_, features)
            return
        self.codes_ = {
            name: function.encode(features[name], name, workers) for name, function in self.hash_functions_.items()
        }

    def encode(self, modality: str, features: Any) -> Codes:
        """Return the packed codes of points, seen or not, from one modality.

        Parameters
        ----------
        modality : str
        features : array-like or sparse matrix of shape (n, features of that modality)
            Or what `dlfh.blocks.open_blocks` opens, or a Dask array.

        Returns
        -------
        ndarray of uint8, shape (n, ceil(n_bits / 8))
            A Dask array for one of Dask.
        """
        blocks = as_blocks(features, f"modality {modality!r}")
        if blocks is not None:
            return self._by_blocks(modality, blocks, real=False)
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
        blocks = as_blocks(features, f"modality {modality!r}")
        if blocks is not None:
            return self._by_blocks(modality, blocks, real=True)
        hash_function, matrix = self._for_modality(modality, features)
        with blas_threads(self.n_jobs), Workers(self.n_jobs) as workers:
            return hash_function.project(matrix, modality, workers)

    def project_left_out(self, modality: str, features: Any, codes: Codes) -> npt.NDArray[np.float32] | None:
        """Return what hash functions that were not fitted to them would make of training points.

        A function that knows its points by heart repeats their learned codes; this is what it says of a point that it
        does not know.

        Parameters
        ----------
        modality : str
        features : array-like or sparse matrix of shape (n, features of that modality)
            Of the training points, those that the function was fitted to.
        codes : ndarray of uint8 (n, ceil(n_bits / 8))
            Their learned codes.

        Returns
        -------
        ndarray of float32 (n, n_bits), or None
            As by `project`; None where the functions would have to be learned again, once for each point.
        """
        return None

    def encode_unified(self, modalities: Any) -> Codes:
        """Return one packed code per point from all its modalities together.

        Only methods with the protocol "unified" (``info.protocols``) have a rule for it.

        Parameters
        ----------
        modalities : dict of str to array-like or sparse matrix
            Every modality of the model, with a row per point.

        Returns
        -------
        ndarray of uint8, shape (n, ceil(n_bits / 8))
        """
        self._check_fitted()
        if "unified" not in self.info.protocols:
            raise InputError(f"{type(self).__name__} has no rule for one code from several modalities: use encode")
        _check_in_memory(modalities, "encode_unified")
        features = check_modalities(modalities, type(self).__name__, *self.info.n_modalities, known=self.n_features_)
        with blas_threads(self.n_jobs):
            return pack(self._unify(features))

    def _unify(self, features: dict[str, Features]) -> npt.NDArray[Any]:
        """Return the values whose signs are the unified code."""
        raise NotImplementedError

    def _for_modality(self, modality: str, features: Any) -> tuple[HashFunction, Features]:
        self._check_modality(modality)
        return self.hash_functions_[modality], check_features(features, modality, self.n_features_[modality])

    def _by_blocks(self, modality: str, features: Blocks, *, real: bool) -> Any:
        from dlfh.methods.by_blocks import encode_by_blocks

        with blas_threads(self.n_jobs):
            return encode_by_blocks(self, modality, features, real=real)

    def _check_modality(self, modality: str) -> None:
        self._check_fitted()
        if not isinstance(modality, str):
            raise InputError(f"the modality's name comes first, then its features; got {type(modality).__name__}")
        if modality not in self.hash_functions_:
            known = ", ".join(map(repr, self.modalities_))
            raise InputError(f"unknown modality {modality!r}: this model knows {known}")

    def _check_fitted(self) -> None:
        if not hasattr(self, "modalities_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Save the fitted model as a folder of safetensors and JSON, atomically.

        A ``random_state`` that is a generator, not a number, is saved as None. Any other parameter that a file cannot
        hold raises InputError, before anything is written. A model that is there is replaced, or, without
        ``overwrite``, a reason to raise ModelError; nothing else is ever replaced.
        """
        write_model(folder, *self.to_parts(), overwrite=overwrite)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        """Return the fitted model as what a file holds: configuration and arrays."""
        self._check_fitted()
        self.check_parameters()
        self._check_consistency()
        config = {
            "dlfh_version": __version__,
            "method": self.registry.kind_of(type(self)),
            "parameters": plain_parameters(self, HashLearner.registry),
            "modalities": list(self.modalities_),
            "hash_functions": [
                HashFunction.registry.kind_of(type(self.hash_functions_[name])) for name in self.modalities_
            ],
        }
        arrays = {f"codes/{name}": np.asarray(codes) for name, codes in self.codes_.items()}
        for name, hash_function in self.hash_functions_.items():
            arrays |= {f"hash/{name}/{key}": array for key, array in hash_function.to_arrays().items()}
        for name in self._saved_arrays:
            arrays[f"fitted/{name}"] = np.asarray(getattr(self, name))
        return config, arrays

    def _restore(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        names = config["modalities"]
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise ValueError("its modalities are not a list of names")
        least, most = self.info.n_modalities
        if len(set(names)) < len(names) or not least <= len(names) <= (most or len(names)):
            raise ValueError(f"its modalities are {shown(names)}")
        self.modalities_ = tuple(names)
        self.codes_ = {name: arrays[f"codes/{name}"] for name in self.modalities_}
        kinds = zip(self.modalities_, config["hash_functions"], strict=True)
        self.hash_functions_ = {
            name: HashFunction.registry.find(kind).from_arrays(with_prefix(arrays, f"hash/{name}/"))
            for name, kind in kinds
        }
        self.n_features_ = {name: function.n_features for name, function in self.hash_functions_.items()}
        for name in self._saved_arrays:
            array = arrays[f"fitted/{name}"]
            if array.dtype.kind not in "biuf" or not self._fits(name, array):
                raise ValueError(f"its array {name!r} has type {array.dtype} and shape {array.shape}")
            setattr(self, name, array)
        self._check_consistency()

    def _fits(self, name: str, array: npt.NDArray[Any]) -> bool:
        """Return whether a saved array may be the fitted attribute of this name: by default, a history of iterations.

        Hash functions and numbers of features are there already.
        """
        return array.ndim in (1, 2)  # of all bits together, or of each

    def _check_consistency(self) -> None:
        """Raise InputError unless codes and hash functions have ``n_bits`` bits."""
        for name in self.modalities_:
            function, codes = self.hash_functions_[name], self.codes_[name]
            fits = codes.ndim == 2 and codes.dtype == np.uint8 and codes.shape[1] == n_bytes(self.n_bits)
            if not fits or function.n_bits != self.n_bits:
                raise InputError(f"modality {name!r} does not have codes of {self.n_bits} bits: was n_bits changed?")


def _check_in_memory(modalities: Any, what: str) -> None:
    """Raise InputError for data in blocks, which would all be gathered here; a memory map is an array."""
    for name, values in modalities.items() if isinstance(modalities, Mapping) else ():
        if not isinstance(values, np.ndarray) and as_blocks(values, f"modality {name!r}") is not None:
            raise InputError(
                f"{what} takes arrays in memory, and modality {name!r} is in blocks: pass a part at a time"
            )


def with_prefix(arrays: dict[str, npt.NDArray[Any]], prefix: str) -> dict[str, npt.NDArray[Any]]:
    """Return the arrays whose names start with ``prefix``, without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def hasher_from_parts(config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> CrossModalHasher:
    """Return the fitted model whose `CrossModalHasher.to_parts` these are.

    What is wrong with them raises a ModelError, or one of the errors that reading a value of a wrong type raises.
    """
    method = CrossModalHasher.registry.find(config.get("method"))
    model = method(**parameters_from_plain(config["parameters"], HashLearner.registry))
    model.check_parameters()
    model._restore(config, arrays)
    return model
