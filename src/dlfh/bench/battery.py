"""Laws that every method obeys, as functions that can be called on any method."""

from __future__ import annotations

import copy
import functools
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array
from dlfh._persistence.model_folder import read_model
from dlfh.codes import n_bytes, pack
from dlfh.datasets.generated import make_paired
from dlfh.datasets.paired import Paired
from dlfh.errors import InputError, NotFittedError
from dlfh.methods.base import CrossModalHasher, hasher_from_parts
from dlfh.metrics import mean_average_precision

N_BITS = 20  # code length, not a multiple of 8
N_TRAIN, N_TEST = 300, 60  # number of training points and of queries


def check_method(method: type[CrossModalHasher], **parameters: Any) -> None:
    """Check the laws that every method must obey: types, shapes, seeds, files, errors, and that it learns.

    Parameters
    ----------
    method : subclass of CrossModalHasher
    **parameters
        Parameters that keep the checks quick, such as ``max_iter=5``.

    Raises
    ------
    AssertionError
        If a law does not hold; the message names the law.

    Examples
    --------
    >>> from dlfh.methods import CVH
    >>> check_method(CVH)
    """
    battery = Battery(method, parameters)
    for law in LAWS:
        try:
            getattr(battery, law)()
        except AssertionError as error:
            raise AssertionError(f"{method.__name__}: {law.replace('_', ' ')}: {error}") from error


class Battery:
    """A method with parameters; each public method is a law."""

    def __init__(self, method: type[CrossModalHasher], parameters: dict[str, Any]) -> None:
        self._class: Any = method
        self._info = method.info
        self._seed: dict[str, Any] = {} if self._info.is_deterministic else {"random_state": 0}
        self._parameters = self._seed | parameters
        self._train, self._test = _small()

    def _make(self, n_bits: Any = N_BITS, **parameters: Any) -> CrossModalHasher:
        return cast("CrossModalHasher", self._class(n_bits, **{**self._parameters, **parameters}))

    def _fit(self, data: Paired | None = None, n_bits: int = N_BITS, **parameters: Any) -> CrossModalHasher:
        data = self._train if data is None else data
        return self._make(n_bits, **parameters).fit(data.modalities, data.labels)

    @functools.cached_property
    def _fitted(self) -> CrossModalHasher:
        return self._fit()

    def codes_are_packed_signs_of_projections(self) -> None:
        model = self._fitted
        assert model.modalities_ == ("image", "text")
        assert model.fit_seconds_ > 0
        for modality in model.modalities_:
            queries = model.encode(modality, self._test.modalities[modality])
            for codes, n in ((model.codes_[modality], N_TRAIN), (queries, N_TEST)):
                assert codes.dtype == np.uint8, f"codes have the type {codes.dtype}"
                assert codes.shape == (n, n_bytes(N_BITS)), f"codes have the shape {codes.shape}"
                assert not np.unpackbits(codes, axis=1)[:, N_BITS:].any(), "unused bits are not 0"
            projections = model.project(modality, self._test.modalities[modality])
            assert projections.dtype == np.float32, f"projections have the type {projections.dtype}"
            assert projections.shape == (N_TEST, N_BITS), f"projections have the shape {projections.shape}"
            np.testing.assert_array_equal(pack(projections), queries)

    def codes_can_have_any_length(self) -> None:
        for n_bits in (1, 33):
            model = self._fit(n_bits=n_bits)
            for modality, matrix in self._test.modalities.items():
                shape = model.encode(modality, matrix).shape
                assert shape == (N_TEST, n_bytes(n_bits)), f"codes of {n_bits} bits have the shape {shape}"

    def a_seed_determines_codes_on_any_number_of_threads(self) -> None:
        again, single = self._fit(), self._fit(n_jobs=1)
        for modality, codes in self._fitted.codes_.items():
            np.testing.assert_array_equal(again.codes_[modality], codes)
            _assert_mostly_equal(single.codes_[modality], codes, 0.995)

    def a_loaded_model_equals_the_saved_one(self) -> None:
        model = self._fitted
        with tempfile.TemporaryDirectory() as folder:
            model.save(Path(folder) / "model")
            again = hasher_from_parts(*read_model(Path(folder) / "model"))
        assert type(again) is self._class, f"the loaded model is a {type(again).__name__}"
        assert again.get_params() == model.get_params(), "parameters differ"
        for attribute in type(model)._saved_arrays:
            np.testing.assert_array_equal(getattr(again, attribute), getattr(model, attribute))
        for modality, matrix in self._test.modalities.items():
            np.testing.assert_array_equal(again.codes_[modality], model.codes_[modality])
            np.testing.assert_array_equal(again.project(modality, matrix), model.project(modality, matrix))
        if "unified" in self._info.protocols:
            unified = model.encode_unified(self._test.modalities)
            np.testing.assert_array_equal(again.encode_unified(self._test.modalities), unified)

    def sparse_and_dense_features_give_the_same_codes(self) -> None:
        image, text = self._train.modalities["image"], self._train.modalities["text"]
        model = self._fit(Paired({"image": sp.csr_array(image), "text": text.toarray()}, self._train.labels))
        for modality, codes in self._fitted.codes_.items():
            _assert_mostly_equal(model.codes_[modality], codes, 0.99)
        words = self._test.modalities["text"]
        np.testing.assert_array_equal(self._fitted.encode("text", words.toarray()), self._fitted.encode("text", words))

    def a_code_depends_on_its_point_only(self) -> None:
        order = np.random.default_rng(0).permutation(N_TEST)
        for modality, matrix in self._test.modalities.items():
            codes = self._fitted.encode(modality, matrix)
            np.testing.assert_array_equal(self._fitted.encode(modality, matrix[order]), codes[order])
            np.testing.assert_array_equal(self._fitted.encode(modality, matrix[7:8]), codes[7:8])
            assert self._fitted.encode(modality, matrix[:0]).shape == (0, n_bytes(N_BITS)), "no points fail"

    def labels_in_any_form_give_the_same_codes_and_unsupervised_methods_ignore_them(self) -> None:
        indicator = self._train.labels.toarray()
        forms = [indicator.astype(bool), [list(np.flatnonzero(row)) for row in indicator]]
        for labels in forms if self._info.supervised else [None]:
            model = self._make().fit(self._train.modalities, labels)
            for modality, codes in self._fitted.codes_.items():
                np.testing.assert_array_equal(model.codes_[modality], codes)

    def points_may_have_no_labels(self) -> None:
        labels = self._train.labels.toarray()
        labels[:20] = 0
        shape = self._fit(Paired(self._train.modalities, labels)).codes_["image"].shape
        assert shape == (N_TRAIN, n_bytes(N_BITS)), f"codes have the shape {shape}"

    def every_protocol_is_better_than_chance_on_planted_structure(self) -> None:
        train, test = _planted()
        model = self._class(8, **self._seed)  # with default parameters, even if slow
        model.fit(train.modalities, train.labels if self._info.supervised else None)
        chance = float(((test.labels @ train.labels.T) > 0).mean())
        for query, item in (("image", "text"), ("text", "image")):
            queries = model.encode(query, test.modalities[query])
            for protocol in self._info.protocols:
                database = _database(model, protocol, item, train)
                found = mean_average_precision(queries, database, test.labels, train.labels, ties="expected")
                assert found > chance + 0.12, f"MAP {found:.3f}, {query} → {item}, {protocol}; chance {chance:.3f}"

    def surplus_bits_are_as_documented(self) -> None:
        data = make_paired(n_points=240, n_labels=4, image_features=5, text_features=7, random_state=0)
        model = self._fit(data, 32)
        bits = [np.unpackbits(model.encode(name, matrix), axis=1) for name, matrix in data.modalities.items()]
        constant = [np.ptp(each, axis=0) == 0 for each in bits]
        if self._info.surplus_bits == "constant":
            np.testing.assert_array_equal(*constant)
            assert constant[0].sum() >= 12, "info.surplus_bits is 'constant'"
        else:
            assert all(each.sum() < 12 for each in constant), f"info.surplus_bits is {self._info.surplus_bits!r}"

    def degenerate_data_gives_finite_projections(self) -> None:
        image, text, labels = *self._train.modalities.values(), self._train.labels
        spike = image.copy()
        spike[:, 3] = 1e5
        cases = [
            (spike, text, labels),
            (np.full_like(image, 0.1), text, labels),
            (1e8 * image, text, labels),
            (np.tile(1e6 * image, 15), text, labels),  # more features than points
            (image[:9], text[:9], labels[:9]),
        ]
        for X, Y, given in cases:
            model = self._fit(Paired({"image": X, "text": Y}, given))
            for modality, matrix in (("image", X), ("text", Y)):
                assert np.isfinite(model.project(modality, matrix)).all(), f"{modality} projections are not finite"

    def invalid_data_raises_a_one_line_error(self) -> None:
        image, text, labels = *self._train.modalities.values(), self._train.labels
        with_nan = image.copy()
        with_nan[17, 2] = np.nan
        cases: list[tuple[Any, str]] = [
            ({"image": with_nan, "text": text}, "modality 'image' has NaN or infinity in row 17"),
            ({"image": image, "text": text[:50]}, "modality 'text' has 50 rows but"),
            ({}, "modalit"),
            ({"image": np.full((N_TRAIN, 2), "x"), "text": text}, "must contain numbers, got strings"),
            ((image, text), "modalities must be a dict"),
        ]
        for modalities, message in cases:
            with _raises(InputError, message):
                self._make().fit(modalities, labels)

    def three_modalities_are_accepted_or_refused_as_documented(self) -> None:
        three = self._train.modalities | {"sound": self._train.modalities["image"][:, :20]}
        least, most = self._info.n_modalities
        if most is None or most >= 3 >= least:
            assert self._fit(Paired(three, self._train.labels)).codes_["sound"].shape[0] == N_TRAIN
        else:
            bound = "exactly" if least == most else "at most"
            with _raises(InputError, f"{self._class.__name__} takes {bound} two modalities, got 3"):
                self._fit(Paired(three, self._train.labels))

    def invalid_labels_raise_a_one_line_error(self) -> None:
        if not self._info.supervised:
            return
        modalities, labels = self._train.modalities, self._train.labels
        with _raises(InputError, f"{self._class.__name__} learns from labels: pass labels to fit"):
            self._make().fit(modalities)
        with _raises(InputError, "labels has 40 rows but modality 'image' has 300"):
            self._make().fit(modalities, labels[:40])
        with _raises(InputError, "no point has a"):
            self._make().fit(modalities, np.zeros((N_TRAIN, 3)))

    def invalid_parameters_raise_a_one_line_error_that_names_them(self) -> None:
        for n_bits in (0, 513, 8.0, "8", None):
            with _raises(InputError, "n_bits must be an integer from 1 to 512"):
                self._make(n_bits).fit(self._train.modalities, self._train.labels)
        for parameter in set(self._make().get_params(deep=False)) - {"n_bits"}:
            with _raises(InputError, parameter):
                self._make(**{parameter: "no such value"}).fit(self._train.modalities, self._train.labels)

    def an_unfitted_model_raises_not_fitted_error(self) -> None:
        with _raises(NotFittedError, f"this {self._class.__name__} is not fitted yet"):
            self._make().encode("image", self._test.modalities["image"])
        with tempfile.TemporaryDirectory() as folder, _raises(NotFittedError, ""):
            self._make().save(Path(folder) / "model")

    def invalid_queries_raise_a_one_line_error(self) -> None:
        image, text = self._test.modalities.values()
        infinite = image.copy()
        infinite[5] = np.inf
        cases = [
            ("sound", image, "unknown modality 'sound'"),
            ("image", text, "has 60 features but the model expects 24"),
            ("image", infinite, "modality 'image' has NaN or infinity in row 5"),
        ]
        for modality, matrix, message in cases:
            with _raises(InputError, message):
                self._fitted.encode(modality, matrix)

    def unified_codes_exist_only_where_documented(self) -> None:
        modalities = self._test.modalities
        if "unified" not in self._info.protocols:
            with _raises(InputError, f"{self._class.__name__} does not support codes from several modalities"):
                self._fitted.encode_unified(modalities)
            return
        for n in (N_TEST, 0):
            some = {modality: matrix[:n] for modality, matrix in modalities.items()}
            assert self._fitted.encode_unified(some).shape == (n, n_bytes(N_BITS)), f"{n} points"
        with _raises(InputError, "needs the model's modalities"):
            self._fitted.encode_unified({"image": modalities["image"], "sound": modalities["text"]})

    def equal_parameters_fit_the_same_codes_and_leave_the_input_as_it_is(self) -> None:
        kept = copy.deepcopy(self._train.modalities)
        other = self._class(**self._fitted.get_params(deep=False)).fit(self._train.modalities, self._train.labels)
        np.testing.assert_array_equal(self._train.modalities["image"], kept["image"])
        assert (self._train.modalities["text"] != kept["text"]).nnz == 0, "fit changed the features"
        np.testing.assert_array_equal(other.codes_["image"], self._fitted.codes_["image"])


#: The names of the laws.
LAWS = tuple(name for name, value in vars(Battery).items() if isinstance(value, Callable) and name[0] != "_")  # type: ignore[arg-type]


@functools.cache
def _small() -> tuple[Paired, Paired]:
    shape: Any = {"n_labels": 6, "image_features": 24, "text_features": 60}
    return make_paired(N_TRAIN + N_TEST, random_state=3, **shape).split(N_TEST)


@functools.cache
def _planted() -> tuple[Paired, Paired]:
    """Return points whose modalities predict their labels well enough for methods that learn from pairs."""
    shape: Any = {"text_features": 100, "words_per_point": 15, "noise": 1.0}
    return make_paired(n_points=1400, n_labels=8, random_state=1, **shape).split(test_size=200)


def _database(model: CrossModalHasher, protocol: str, modality: str, train: Paired) -> Any:
    if protocol == "learned":
        return model.codes_[modality]
    if protocol == "unified":
        return model.encode_unified(train.modalities)
    return model.encode(modality, train.modalities[modality])


def _assert_mostly_equal(a: Array, b: Array, share: float) -> None:
    """Check that at least ``share`` of the bits are equal; rounding may change the others."""
    assert a.shape == b.shape, f"the shapes {a.shape} and {b.shape} differ"
    equal = (np.unpackbits(a, axis=1) == np.unpackbits(b, axis=1)).mean()
    assert equal >= share, f"only {equal:.3f} of the bits are equal"


@contextmanager
def _raises(kind: type[Exception], message: str) -> Iterator[None]:
    """Raise AssertionError unless the block raises an error of this kind, with one line that contains ``message``."""
    raised = "nothing"
    try:
        yield
    except kind as error:
        raised = str(error)
    assert message in raised, f"expected {kind.__name__} with {message!r}, got {raised}"
    assert "\n" not in raised, f"an error has several lines: {raised}"
