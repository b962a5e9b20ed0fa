"""Laws that every method obeys, in one battery over all methods."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_estimator

from dlfh.bench.battery import LAWS, N_BITS, Battery
from dlfh.codes import unpack
from dlfh.datasets import Paired, make_paired
from dlfh.methods import CrossModalHasher, available
from dlfh.methods.catalogue import METHODS

#: Settings that keep the battery quick; the law about planted structure uses the defaults.
QUICK: dict[str, dict[str, Any]] = {
    "CMFH": {"max_iter": 30},
    "CMSSH": {"n_pairs": 3000},
    "CRH": {"n_pairs": 500, "n_restarts": 1, "max_iter": 2},
    "LFH": {"max_iter": 10},
    "MLBE": {"max_iter": 3},
    "PDH": {"max_iter": 2},
    "SCRATCH": {"max_iter": 5},
    "SePH": {"max_iter": 20, "n_bases": 50},
}

ALL = sorted(METHODS)
DETERMINISTIC = [name for name in ALL if available()[name].is_deterministic]


def make(name: str, n_bits: int = N_BITS, **parameters: Any) -> CrossModalHasher:
    method: Any = METHODS[name]
    return method(n_bits, **seed(name) | QUICK.get(name, {}) | parameters)


def seed(name: str) -> dict[str, int]:
    return {} if available()[name].is_deterministic else {"random_state": 0}


def fit(name: str, data: Paired, n_bits: int = N_BITS, **parameters: Any) -> CrossModalHasher:
    return make(name, n_bits, **parameters).fit(data.modalities, data.labels)


@pytest.fixture(scope="module")
def small() -> tuple[Paired, Paired]:
    return make_paired(n_points=360, n_labels=6, image_features=24, text_features=60, random_state=3).split(60)


@pytest.fixture(scope="module")
def fitted(small: tuple[Paired, Paired]) -> dict[str, CrossModalHasher]:
    return {name: fit(name, small[0]) for name in ALL}


def test_catalogue_has_every_method_of_the_paper_and_four_later_ones() -> None:
    compared = {"DLFH", "KDLFH", "SMFH", "SePH", "SCM", "CMFH", "CCAITQ", "MLBE"}
    named = {"ACQ", "CMSSH", "CVH", "CRH", "PDH", "LFH"}
    later = {"BATCH", "SCRATCH", "LEMON", "DOCH"}
    assert set(ALL) == compared | named | later
    assert available().keys() == METHODS.keys()
    for name, info in available().items():
        assert "hashed" in info.protocols, name
        assert info.paper
        assert info.complexity
        assert METHODS[name].__doc__


@cache
def battery(name: str) -> Battery:
    return Battery(METHODS[name], QUICK.get(name, {}))


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("law", LAWS)
def test_every_method_obeys_every_law(name: str, law: str) -> None:
    getattr(battery(name), law)()


@pytest.mark.parametrize("name", ["BATCH", "CMFH", "DOCH", "LEMON", "SCRATCH", "SMFH", "SePH"])
def test_some_methods_learn_one_code_shared_by_all_modalities(name: str, fitted: dict[str, CrossModalHasher]) -> None:
    np.testing.assert_array_equal(fitted[name].codes_["image"], fitted[name].codes_["text"])


@pytest.mark.parametrize("name", DETERMINISTIC)
def test_deterministic_methods_permute_codes_with_the_training_points(
    name: str, small: tuple[Paired, Paired], fitted: dict[str, CrossModalHasher]
) -> None:
    order = np.random.default_rng(0).permutation(len(small[0]))
    permuted = fit(name, small[0].take(order))
    before = {modality: unpack(fitted[name].codes_[modality][order], N_BITS) for modality in ("image", "text")}
    after = {modality: unpack(permuted.codes_[modality], N_BITS) for modality in ("image", "text")}
    # A bit may change its sign if it does so in both modalities.
    flips = np.sign(np.sum(before["image"].astype(int) * after["image"], axis=0) + 0.5)
    for modality in ("image", "text"):
        assert (before[modality] == flips * after[modality]).mean() > 0.99


# scikit-learn's estimator checks


class ArrayEstimator:
    """Adapts a method to scikit-learn's checks: one array for both modalities, projections as decisions."""

    def fit(self: Any, X: Any, y: Any = None) -> Any:
        return super().fit({"first": X, "second": X}, y)  # type: ignore[misc]

    def decision_function(self: Any, X: Any) -> np.ndarray:
        return self.project("first", X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # type: ignore[misc]
        tags.input_tags.sparse = True
        return tags


class OnlineArrayEstimator(ArrayEstimator):
    """Adapts a method with `partial_fit`."""

    def partial_fit(self: Any, X: Any, y: Any = None) -> Any:
        return super().partial_fit({"first": X, "second": X}, y)  # type: ignore[misc]


ESTIMATORS: dict[str, Any] = {
    f"{name}Estimator": type(
        f"{name}Estimator",
        (OnlineArrayEstimator if hasattr(METHODS[name](), "partial_fit") else ArrayEstimator, METHODS[name]),
        {"__module__": __name__},
    )
    for name in ALL
}
globals().update(ESTIMATORS)  # one of the checks pickles them

EXPECTED_FAILURES = {
    "check_complex_data": "our message differs",
    "check_estimators_empty_data_messages": "our message differs",
    "check_fit2d_1sample": "our message differs",
    "check_fit2d_predict1d": "our message differs",
    "check_dtype_object": "arrays of Python objects are refused",
    "check_estimators_unfitted": "our NotFittedError is not scikit-learn's, which takes a second to load",
    "check_n_features_in": "each modality has its number of features",
    "check_n_features_in_after_fitting": "each modality has its number of features",
}


@pytest.mark.parametrize("name", ALL)
@pytest.mark.filterwarnings("ignore:.*does not inherit from `sklearn.base.BaseEstimator`:UserWarning")
def test_scikit_learns_estimator_checks_pass_except_for_the_listed_ones(name: str) -> None:
    estimator = ESTIMATORS[f"{name}Estimator"](4, **QUICK.get(name, {}))
    for parameter, value in {"max_iter": 2, "random_state": 0, "keep_sums": True}.items():
        if parameter in estimator.get_params():
            estimator.set_params(**{parameter: value})
    results = check_estimator(estimator, expected_failed_checks=EXPECTED_FAILURES, on_skip=None)
    passed = {result["check_name"] for result in results if result["status"] == "passed"}
    assert len(passed - EXPECTED_FAILURES.keys()) >= 25
