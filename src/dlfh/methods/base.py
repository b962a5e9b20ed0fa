"""Base class of all methods: learns packed codes from named modalities, encodes new points, and saves models."""

from __future__ import annotations

import os
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._arrays import Array, Codes, Floats, Singles
from dlfh._labels import LabelSets
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers, blas_threads, resolve_n_jobs
from dlfh._parameters import Parameterized
from dlfh._persistence.model_folder import with_prefix, write_model
from dlfh._persistence.registry import Registered, Registry, parameters_from_json, parameters_to_json
from dlfh._probabilities.model import LabelModel, LabelPredictor, PendingLabels
from dlfh._probabilities.scores import MATCHES
from dlfh._validation import (
    Features,
    check_choice,
    check_features,
    check_flag,
    check_integer,
    check_modalities,
    check_random_state,
    shown,
)
from dlfh._version import __version__
from dlfh.blocks.base import Blocks
from dlfh.blocks.opening import align, as_blocks, first_in_blocks, modality_blocks
from dlfh.codes import n_bytes, pack
from dlfh.errors import InputError, NotFittedError
from dlfh.hashing import HashFunction, HashLearner
from dlfh.hashing.base import FitContext, hash_block, hash_blocks
from dlfh.methods.parameter_types import check_types

if TYPE_CHECKING:
    from dlfh.methods.method import MethodInfo

MAX_BITS = 512  #: Maximum code length; longer codes are untested.


class CrossModalHasher(Registered, Parameterized, ABC):
    """Learns binary codes for paired modalities, and hash functions for new points.

    Subclasses describe themselves in ``info``, check their parameters in `check_parameters`, and learn in `_fit`, which
    sets ``codes_`` and ``hash_functions_``; this class does the rest. ``kind`` is the name that saved models use.
    `dlfh.bench.check_method` tests a subclass (docs/own-methods.md).

    Attributes
    ----------
    modalities_ : tuple of str
        The names of the modalities, in the order of the dict given to `fit`.
    codes_ : dict of str to ndarray of uint8 (n, ceil(n_bits / 8))
        Codes of the training points, packed as by `numpy.packbits`: learned codes, or hashed codes for methods that
        learn none (``info.protocols``). For data in blocks they may be blocks or Dask arrays, evaluated lazily.
    hash_functions_ : dict of str to HashFunction
    n_features_ : dict of str to int
    fit_seconds_ : float
        Duration of `fit`; not saved.
    """

    _registry: ClassVar[Registry[CrossModalHasher]] = Registry("method", "dlfh.methods")
    info: ClassVar[MethodInfo]  #: Description of the method.

    n_bits: int
    random_state: Any
    n_jobs: int | None
    verbose: bool

    modalities_: tuple[str, ...]
    codes_: dict[str, Codes]
    hash_functions_: dict[str, HashFunction]
    n_features_: dict[str, int]
    fit_seconds_: float

    #: Whether the blocks of all modalities are read together, so that they must be split at the same rows.
    _reads_together: ClassVar[bool] = True
    #: Function that calibrates the label probabilities; None if there are none, or if they are calibrated.
    _pending_labels: PendingLabels | None = None
    _saved_arrays: ClassVar[tuple[str, ...]] = ()  #: Names of further fitted arrays to save.

    @cached_property
    def label_model_(self) -> LabelModel | None:
        """Label probabilities, calibrated when they are first used; None if there are none."""
        pending, self._pending_labels = self._pending_labels, None
        return None if pending is None else pending()

    def _label_predictor(self) -> LabelPredictor | None:
        """Return label probabilities without rankings by them, which take most of the time to calibrate."""
        return self.label_model_ if self._pending_labels is None else self._pending_labels(predictor=True)

    def _calibrate_later(self, labels: PendingLabels) -> None:
        vars(self).pop("label_model_", None)
        self._pending_labels = labels

    def fit(self, modalities: Any, labels: Any = None) -> Self:
        """Learn codes and hash functions from paired modalities.

        Parameters
        ----------
        modalities : dict of str to array-like or sparse matrix
            Features of each modality, shape (n, features of that modality), of any numeric type. Row i of each
            describes point i. Arrays of float32 or float64 are not copied. Methods with ``info.takes_blocks`` also
            accept the result of `dlfh.blocks.open_blocks`, large memory-mapped arrays and Dask arrays.
        labels : array-like or sparse matrix
            An indicator matrix of 0 and 1 (n rows); or a class id per point; or a list of labels per point. Points are
            similar if they share a label; a point without labels is similar to none. Unsupervised methods ignore them.

        Returns
        -------
        self

        Examples
        --------
        >>> from dlfh.datasets import make_paired
        >>> from dlfh.methods import SCM  # or any other method
        >>> data = make_paired(n_points=300, random_state=0)
        >>> SCM(n_bits=16).fit(data.modalities, data.labels).codes_["text"].shape
        (300, 2)
        """
        with self._fitting(modalities) as features:
            self._fit(features, labels)
        return self

    @contextmanager
    def _fitting(self, modalities: Any) -> Iterator[dict[str, Any]]:
        """Check parameters and modalities, yield the features, and set the attributes that all fitted models have.

        Methods that take blocks get `Blocks`, with a single block for data in memory; other methods get arrays.
        """
        self.check_parameters()
        resolve_n_jobs(self.n_jobs)
        limits = (type(self).__name__, *self.info.n_modalities)
        features: dict[str, Any]
        if self.info.takes_blocks:
            features = modality_blocks(modalities, *limits)
            features = align(features) if self._reads_together else features
        else:
            self._check_in_memory(modalities, f"{type(self).__name__}.fit")
            features = check_modalities(modalities, *limits)
        began = time.perf_counter()
        with blas_threads(self.n_jobs):
            yield features
        self.modalities_ = tuple(features)
        self.n_features_ = {name: matrix.shape[1] for name, matrix in features.items()}
        self.fit_seconds_ = time.perf_counter() - began

    @contextmanager
    def _fitting_more(self, modalities: Any) -> Iterator[dict[str, Features]]:
        """Check points to be added to a fitted model, yield their features as arrays, and update the fitting time."""
        self.check_parameters()
        self._check_consistency()
        resolve_n_jobs(self.n_jobs)
        self._check_in_memory(modalities, "partial_fit")
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
        check_types(self)
        check_integer(self.n_bits, "n_bits", 1, MAX_BITS)
        check_random_state(getattr(self, "random_state", None))
        check_flag(self.verbose, "verbose")

    @abstractmethod
    def _fit(self, features: dict[str, Any], labels: Any) -> None:
        """Set ``codes_`` and ``hash_functions_``."""

    def _read_labels(self, labels: Any, features: dict[str, Any]) -> LabelSets:
        """Return the points' labels, which must be in memory."""
        self._check_labels_given(labels)
        label_sets = LabelSets.from_labels(labels)
        name, matrix = next(iter(features.items()))
        if label_sets.n_points != matrix.shape[0]:
            raise InputError(f"labels has {label_sets.n_points} rows but modality {name!r} has {matrix.shape[0]}")
        return label_sets

    def _unit_label_rows(self, labels: Any, features: dict[str, Blocks]) -> Blocks:
        """Return the points' labels as sparse rows of length 1, in the same blocks as the features."""
        from dlfh.methods.block_labels import BlockLabels  # imported here, because searches read no labels

        self._check_labels_given(labels)
        return BlockLabels(labels, features).unit_rows(next(iter(features.values())))

    def _check_labels_given(self, labels: Any) -> None:
        if labels is None:
            raise InputError(f"{type(self).__name__} learns from labels: pass labels to fit")

    def _label_rows(self, labels: Any, features: dict[str, Any]) -> sp.csr_array:
        """Return the points' labels, given in any form, as a sparse indicator matrix of floats."""
        sets = self._read_labels(labels, features)
        return sp.csr_array(sets.rows()[sets.set_of_point])

    def _learn_functions(self, features: dict[str, Any], values: Any, learner: HashLearner | None = None) -> None:
        """Set ``codes_`` to the signs of values (n, n_bits), and fit the hash functions that predict them.

        values: One array for all modalities, or a dict with an array for each.
        learner: By default `dlfh.hashing.LinearRidge`.
        """
        from dlfh.hashing.linear import LinearRidge  # imported here, because searches need no learner

        seed = int(check_random_state(getattr(self, "random_state", None)).integers(2**63))
        self.codes_ = {name: pack(values[name] if isinstance(values, Mapping) else values) for name in features}
        self.hash_functions_ = {}
        with Workers(self.n_jobs) as workers:
            for name, matrix in features.items():
                targets = Targets(self.codes_[name], np.arange(matrix.shape[0]), int(self.n_bits))
                function = (learner or LinearRidge()).fit(matrix, targets, name, FitContext(workers, seed))
                self.hash_functions_[name] = function

    def encode(self, modality: str, features: Any) -> Codes:
        """Return the packed hashed codes of points, from one modality.

        Parameters
        ----------
        modality : str
        features : array-like or sparse matrix of shape (n, features of that modality)
            Or the result of `dlfh.blocks.open_blocks`, or a Dask array.

        Returns
        -------
        ndarray of uint8, shape (n, ceil(n_bits / 8))
            A Dask array if the features are one.
        """
        return self._apply(self._function_of(modality), modality, features, real=False)

    def project(self, modality: str, features: Any) -> Singles:
        """Return the real values whose signs are the code, for asymmetric ranking.

        Parameters
        ----------
        modality, features
            As for `encode`.

        Returns
        -------
        ndarray of float32, shape (n, n_bits)
            A Dask array if the features are one.
        """
        return self._apply(self._function_of(modality), modality, features, real=True)

    def _apply(self, function: HashFunction, modality: str, features: Any, *, real: bool) -> Any:
        blocks = as_blocks(features, f"modality {modality!r}")
        if blocks is None:
            matrix = check_features(features, modality, self.n_features_[modality])
            with blas_threads(self.n_jobs):
                return hash_block(function, modality, self.n_jobs, real, matrix)
        self._check_blocks(modality, blocks)
        with blas_threads(self.n_jobs):
            return hash_blocks(function, blocks, modality, self.n_jobs, real=real).result()

    def label_probabilities(self, modalities: Mapping[str, Any]) -> Singles:
        """Return the probability of each label for each point, from one or more modalities.

        The probabilities are calibrated: of the labels with a probability of 0.8, about 80 % are correct.

        Parameters
        ----------
        modalities : dict of str to array-like or sparse matrix
            Features of one or more modalities, a row per point. A single modality may be in blocks.

        Returns
        -------
        ndarray of float32, shape (n, n_labels)
            Columns in the order of ``label_names_``.

        Examples
        --------
        >>> from dlfh import DLFH
        >>> from dlfh.datasets import make_paired
        >>> train, test = make_paired(n_points=600, n_labels=8, random_state=0).split(test_size=100)
        >>> model = DLFH(n_bits=32, random_state=0).fit(train.modalities, train.labels)
        >>> model.label_probabilities({"text": test.modalities["text"]}).shape
        (100, 8)
        """
        found, model = {}, self._labels_known()
        if not isinstance(modalities, Mapping) or not modalities:
            raise InputError("pass a dict of modalities, such as {'text': features}")
        for name, features in modalities.items():
            self._function_of(name)
            found[name] = self._apply(model.functions[name], name, features, real=True)
        rows = {name: len(values) for name, values in found.items()}
        if len(set(rows.values())) > 1:
            raise InputError(f"modalities must have the same number of rows, got {rows}")
        return model.fuse(found)

    @property
    def label_names_(self) -> tuple[Any, ...]:
        """Names of the labels, or their numbers if ``fit`` got an indicator matrix."""
        model = self._labels_known()
        return tuple(range(model.n_labels)) if model.names is None else model.names

    def quantize_probabilities(self, probabilities: npt.ArrayLike) -> Codes:
        """Compress label probabilities of database items to the size of their codes, for ranking by `score_tables`.

        Parameters
        ----------
        probabilities : array-like of shape (n, n_labels)
            From `label_probabilities`, or 0 and 1 where labels are known.

        Returns
        -------
        ndarray of uint8, shape (n, ceil(n_bits / 8))
        """
        return self._labels_known().encode(self._check_probabilities(probabilities))

    def score_tables(self, probabilities: npt.ArrayLike, match: Literal["any", "all"] = "any") -> Singles:
        """Return lookup tables for queries, with which `dlfh.metrics` and `Index` rank items by label probabilities.

        Parameters
        ----------
        probabilities : array-like of shape (n, n_labels)
            Label probabilities of queries, or 0 and 1 where labels are known.
        match : {"any", "all"}
            Rank by the probability that query and item share a label, or that the item has every label of the query.

        Returns
        -------
        ndarray of float32, shape (n, ceil(n_bits / 8), 256)
            The score of an item is the sum of ``tables[query, byte, value]`` over its bytes.

        Examples
        --------
        >>> from dlfh import DLFH
        >>> from dlfh.datasets import make_paired
        >>> from dlfh.metrics import mean_average_precision
        >>> train, test = make_paired(n_points=600, n_labels=8, random_state=0).split(test_size=100)
        >>> model = DLFH(n_bits=32, random_state=0).fit(train.modalities, train.labels)
        >>> texts, images = ({name: test.modalities[name]} for name in ("text", "image"))
        >>> items = model.quantize_probabilities(model.label_probabilities(images))
        >>> queries = model.score_tables(model.label_probabilities(texts))
        >>> mean_average_precision(queries, items, test.labels, test.labels) > 0.5
        True
        """
        check_choice(match, "match", MATCHES)
        return self._labels_known().tables(self._check_probabilities(probabilities), match)

    def match_probabilities(
        self,
        scores: npt.ArrayLike,
        probabilities: npt.ArrayLike,
        match: Literal["any", "all"] = "any",
        *,
        queries: str | Sequence[str],
        items: str | Sequence[str],
    ) -> Floats:
        """Return the probability that each item matches the query, from its score by `score_tables`.

        Calibrated on pairs of held-out training points: of the items with a probability of 0.8, about 80 % share a
        label with the query, or have all its labels. The probability increases with the score.

        Parameters
        ----------
        scores : array-like of shape (n, k)
            Scores of k items for each of n queries.
        probabilities : array-like of shape (n, n_labels)
            Label probabilities of the queries, as given to `score_tables`.
        match : {"any", "all"}
            As given to `score_tables`.
        queries, items : str or sequence of str
            The modalities from which label probabilities of queries and items were computed; () if labels are known.

        Returns
        -------
        ndarray of float64, shape (n, k)

        Examples
        --------
        >>> from dlfh import DLFH
        >>> from dlfh.datasets import make_paired
        >>> train, test = make_paired(n_points=600, n_labels=8, random_state=0).split(test_size=100)
        >>> model = DLFH(n_bits=32, random_state=0).fit(train.modalities, train.labels)
        >>> q, p = (model.label_probabilities({name: test.modalities[name]}) for name in ("text", "image"))
        >>> tables, stored = model.score_tables(q), model.quantize_probabilities(p)
        >>> scores = [[table[range(4), item].sum() for item in stored[:10]] for table in tables]
        >>> model.match_probabilities(scores, q, queries="text", items="image").shape
        (100, 10)
        """
        check_choice(match, "match", MATCHES)
        model, values = self._labels_known(), self._check_probabilities(probabilities)
        assert model.matches is not None
        try:
            numbers = np.asarray(scores, np.float64)
        except (TypeError, ValueError):
            numbers = np.empty(0)
        if numbers.ndim != 2 or len(numbers) != len(values) or not np.isfinite(numbers).all():
            raise InputError(f"scores must be finite numbers, with one row for each of the {len(values)} queries")
        asked, stored = (self._source_of(names) for names in (queries, items))
        return model.matches(numbers, values, match, asked, stored)

    def _source_of(self, names: str | Sequence[str]) -> tuple[str, ...]:
        """Return modalities in the order of the model; raise InputError if the model cannot combine them."""
        given = (names,) if isinstance(names, str) else tuple(names)
        for name in given:
            self._function_of(name)
        source, matches = tuple(name for name in self.modalities_ if name in given), self._labels_known().matches
        if matches is None or source not in matches.sources:
            raise InputError(f"this model cannot combine {len(source)} of its {len(self.modalities_)} modalities")
        return source

    def _labels_known(self) -> LabelModel:
        self._check_fitted()
        if self.label_model_ is None:
            raise InputError(
                f"this {type(self).__name__} has no label probabilities: it was fitted without labels, to pairwise "
                "similarities, or with hash functions that are not regressions"
            )
        return self.label_model_

    def _check_probabilities(self, probabilities: npt.ArrayLike) -> Singles:
        n_labels = self._labels_known().n_labels
        try:
            values = np.asarray(probabilities, np.float32)
        except (TypeError, ValueError):
            raise InputError(f"probabilities must be numbers, with one row of {n_labels} for each point") from None
        if values.ndim != 2 or values.shape[1] != n_labels:
            raise InputError(f"probabilities must have the shape (n, {n_labels}), got {values.shape}")
        if not ((values >= 0) & (values <= 1)).all():
            raise InputError("probabilities must be between 0 and 1")
        return values

    def project_leave_one_out(self, modality: str, features: Any, codes: Codes) -> Singles | None:
        """Return leave-one-out projections of training points, each by a hash function fitted without that point.

        A function may memorise its training points; these projections are as accurate as projections of new points.

        Parameters
        ----------
        modality : str
        features : array-like or sparse matrix of shape (n, features of that modality)
            Features of the function's training points.
        codes : ndarray of uint8 (n, ceil(n_bits / 8))
            Learned codes of these points.

        Returns
        -------
        ndarray of float32 (n, n_bits), or None
            As by `project`; None if the function would have to be fitted again for each point.
        """
        return None

    def _leave_one_out(
        self, modality: str, features: Any, codes: Codes, labels: Singles | None
    ) -> tuple[Singles | None, Singles | None]:
        """Return the result of `project_leave_one_out`, and leave-one-out label probabilities (n, n_labels).

        labels (n, n_labels): 1 for each label that a point has, 0 otherwise; None if they are not wanted.
        """
        return self.project_leave_one_out(modality, features, codes), None

    def encode_unified(self, modalities: Any) -> Codes:
        """Return one packed code per point, from all its modalities together.

        Only methods with the protocol "unified" (``info.protocols``) support it.

        Parameters
        ----------
        modalities : dict of str to array-like or sparse matrix
            Every modality of the model, with a row per point.

        Returns
        -------
        ndarray of uint8, shape (n, ceil(n_bits / 8))

        Examples
        --------
        >>> from dlfh.datasets import make_paired
        >>> from dlfh.methods import CMFH
        >>> data = make_paired(n_points=300, random_state=0)
        >>> model = CMFH(n_bits=16, random_state=0).fit(data.modalities)
        >>> bool((model.encode_unified(data.modalities) == model.codes_["text"]).mean() > 0.99)
        True
        """
        self._check_fitted()
        if "unified" not in self.info.protocols:
            raise InputError(f"{type(self).__name__} does not support codes from several modalities: use encode")
        self._check_in_memory(modalities, "encode_unified")
        features = check_modalities(modalities, type(self).__name__, *self.info.n_modalities, known=self.n_features_)
        with blas_threads(self.n_jobs):
            return pack(self._unify(features))

    def _unify(self, features: dict[str, Features]) -> Array:
        """Return the values whose signs are the unified code."""
        raise NotImplementedError

    def _check_blocks(self, modality: str, features: Blocks) -> HashFunction:
        function, n = self._function_of(modality), self.n_features_[modality]
        if features.ndim != 2 or features.shape[1] != n:
            raise InputError(f"modality {modality!r} has shape {features.shape} but the model expects {n} features")
        return function

    def _function_of(self, modality: str) -> HashFunction:
        self._check_fitted()
        if not isinstance(modality, str):
            raise InputError(f"pass the name of the modality first, then its features; got {type(modality).__name__}")
        if modality not in self.hash_functions_:
            raise InputError(f"unknown modality {modality!r}: this model has {', '.join(map(repr, self.modalities_))}")
        return self.hash_functions_[modality]

    @staticmethod
    def _check_in_memory(modalities: Any, caller: str) -> None:
        if (name := first_in_blocks(modalities)) is not None:
            raise InputError(f"{caller} takes arrays in memory, but modality {name!r} is in blocks")

    def _check_fitted(self) -> None:
        if not hasattr(self, "modalities_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet: call fit first")

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Save the fitted model as a folder of safetensors and JSON, atomically.

        A ``random_state`` that is a generator is saved as None. Any other parameter that cannot be stored raises
        InputError before anything is written. An existing model is replaced or, with ``overwrite=False``, raises
        ModelError. A folder with other contents is never replaced.
        """
        write_model(folder, *self._to_parts(), overwrite=overwrite)

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        self._check_fitted()
        self.check_parameters()
        self._check_consistency()
        functions = [self.hash_functions_[name] for name in self.modalities_]
        config = {
            "dlfh_version": __version__,
            "method": self._registry.kind_of(type(self)),
            "parameters": parameters_to_json(self, HashLearner._registry),
            "modalities": list(self.modalities_),
            "hash_functions": [HashFunction._registry.kind_of(type(function)) for function in functions],
        }
        arrays = {f"codes/{name}": np.asarray(codes) for name, codes in self.codes_.items()}
        for name, hash_function in self.hash_functions_.items():
            arrays |= {f"hash/{name}/{key}": array for key, array in hash_function.to_arrays().items()}
        arrays |= {f"fitted/{name}": np.asarray(getattr(self, name)) for name in self._saved_arrays}
        about, more = (None, {}) if self.label_model_ is None else self.label_model_.to_parts()
        arrays |= {f"probabilities/{name}": array for name, array in more.items()}
        return config | {"probabilities": about}, arrays

    def _restore(self, config: dict[str, Any], arrays: dict[str, Array]) -> None:
        names = config["modalities"]
        if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
            raise ValueError("its modalities are not a list of names")
        least, most = self.info.n_modalities
        if len(set(names)) < len(names) or not least <= len(names) <= (most or len(names)):
            raise ValueError(f"its modalities are invalid: {shown(names)}")
        self.modalities_ = tuple(names)
        self.codes_ = {name: arrays[f"codes/{name}"] for name in names}
        self.hash_functions_ = {
            name: HashFunction._registry.find(kind).from_arrays(with_prefix(arrays, f"hash/{name}/"))
            for name, kind in zip(names, config["hash_functions"], strict=True)
        }
        self.n_features_ = {name: function.n_features for name, function in self.hash_functions_.items()}
        for name in self._saved_arrays:
            array = arrays[f"fitted/{name}"]
            if array.dtype.kind not in "biuf" or not self._fits(name, array):
                raise ValueError(f"its array {name!r} has the wrong type or shape: {array.dtype}, {array.shape}")
            setattr(self, name, array)
        self._check_consistency()
        self.label_model_, about = None, config["probabilities"]
        if about is not None:
            parts = with_prefix(arrays, "probabilities/")
            self.label_model_ = LabelModel.from_parts(about, parts, self.n_features_, self.n_bits)

    def _fits(self, name: str, array: Array) -> bool:
        """Return whether a saved array is valid; ``hash_functions_`` and ``n_features_`` are already restored."""
        return array.ndim in (1, 2)  # by iteration, or by iteration and bit

    def _check_consistency(self) -> None:
        """Raise InputError unless codes and hash functions have ``n_bits`` bits."""
        for name in self.modalities_:
            function, codes = self.hash_functions_[name], self.codes_[name]
            fits = codes.ndim == 2 and codes.dtype == np.uint8 and codes.shape[1] == n_bytes(self.n_bits)
            if not fits or function.n_bits != self.n_bits:
                raise InputError(f"modality {name!r} does not have codes of {self.n_bits} bits: was n_bits changed?")


def hasher_from_parts(config: dict[str, Any], arrays: dict[str, Array]) -> CrossModalHasher:
    """Restore a fitted model; invalid parts raise ModelError, or any exception if a value has the wrong type."""
    method = CrossModalHasher._registry.find(config.get("method"))
    model = method(**parameters_from_json(config["parameters"], HashLearner._registry))
    model.check_parameters()
    model._restore(config, arrays)
    return model
