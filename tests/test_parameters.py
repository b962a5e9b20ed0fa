"""Methods, learners, featurisers and encoders work with scikit-learn's tools."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import sklearn.exceptions
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks
from sklearn.utils.validation import check_is_fitted

from dlfh import DLFH, KDLFH, Encoder, InputError
from dlfh._parameters import Parameterized
from dlfh.features import BagOfWords, Clip, CombinedImage, Gist, Vectors
from dlfh.features.combined import Hog, Thumbnail
from dlfh.hashing import Deep, KernelLogistic, KernelRidge, LinearRidge

ENGLISH = ["a red car", "a blue car", "a small dog", "a big dog"] * 5
GERMAN = ["ein rotes Auto", "ein blaues Auto", "ein kleiner Hund", "ein grosser Hund"] * 5
LABELS = ["car", "car", "dog", "dog"] * 5


def encoder() -> Encoder:
    return Encoder({"english": BagOfWords(), "german": BagOfWords("count")}, DLFH(8, max_iter=2, random_state=0))


def vectors() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    return {"image": rng.standard_normal((20, 4)), "text": rng.standard_normal((20, 3))}


OBJECTS: list[Parameterized] = [
    DLFH(16, random_state=1),
    DLFH(16, hash_function=KernelLogistic(50)),
    LinearRidge(2.0),
    BagOfWords("count", ngrams=(1, 2)),
    encoder(),
]


@pytest.mark.parametrize("original", OBJECTS, ids=repr)
def test_a_clone_has_the_same_parameters_and_no_fitted_attributes(original: Any) -> None:
    copy = clone(original)
    assert type(copy) is type(original)
    assert copy is not original
    assert repr(copy.get_params()) == repr(original.get_params())
    assert not [name for name in vars(copy) if name.endswith("_")]


@pytest.mark.parametrize("original", OBJECTS, ids=repr)
def test_parameters_recreate_the_object(original: Any) -> None:
    parameters = original.get_params(deep=False)
    assert tuple(parameters) == original.parameter_names()
    assert repr(type(original)(**parameters)) == repr(original)


# Only the checks that do not call fit: learners take codes and a context, featurisers and encoders take items.
# tests/methods/test_battery.py runs the other checks on methods, through an adapter that takes a single array.
CHECKS: list[Any] = [
    estimator_checks.check_do_not_raise_errors_in_init_or_set_params,
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_mixin_order,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_set_params,
    estimator_checks.check_valid_tag_types,
]
LEARNERS = [KernelLogistic(50), KernelRidge(50), Deep((8,))]
FEATURIZERS = [Clip("folder"), CombinedImage(), Gist(), Hog(), Thumbnail(), Vectors()]


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("original", [*OBJECTS, *LEARNERS, *FEATURIZERS], ids=repr)
def test_parameter_checks_of_scikit_learn_pass(original: Any, check: Any) -> None:
    check(type(original).__name__, original)


def test_nested_parameters_are_reached_by_double_underscores() -> None:
    model = DLFH(16, hash_function=KernelLogistic(50))
    assert model.get_params()["hash_function__n_bases"] == 50
    assert "hash_function__n_bases" not in model.get_params(deep=False)
    assert model.set_params(hash_function__n_bases=70, scale=4.0) is model
    assert (model.hash_function.n_bases, model.scale) == (70, 4.0)
    model.set_params(hash_function=LinearRidge(), hash_function__ridge=3.0)
    assert model.hash_function.ridge == 3.0
    assert encoder().set_params(model__n_bits=32).n_bits == 32


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"bits": 3}, "DLFH has no parameter 'bits'; available: n_bits, "),
        ({"bits__x": 3}, "DLFH has no parameter 'bits'"),
        ({"scale__x": 3}, "cannot set scale__x: the 'scale' of this DLFH has no parameters"),
        ({"hash_function": LinearRidge(), "hash_function__x": 3}, "LinearRidge has no parameter 'x'"),
    ],
)
def test_unknown_parameters_are_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DLFH().set_params(**parameters)


def test_repr_shows_non_default_parameters() -> None:
    assert repr(DLFH()) == "DLFH()"
    assert repr(DLFH(16, hash_function=LinearRidge(2.0))) == "DLFH(n_bits=16, hash_function=LinearRidge(ridge=2.0))"
    assert repr(KDLFH(64)) == repr(KDLFH())
    assert repr(BagOfWords(stop_words=["word"] * 1000)).endswith("…)")
    assert len(repr(BagOfWords(stop_words=["word"] * 1000))) < 250


def test_check_is_fitted_accepts_fitted_methods() -> None:
    model = DLFH(8, max_iter=2, random_state=0)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(model)
    check_is_fitted(model.fit(vectors(), LABELS))


def test_check_is_fitted_accepts_fitted_featurisers() -> None:
    for featurizer, items in ((BagOfWords(), ENGLISH), (Vectors(), [[1.0, 2.0]])):
        with pytest.raises(sklearn.exceptions.NotFittedError):
            check_is_fitted(featurizer)
        check_is_fitted(featurizer.fit(items))


def test_check_is_fitted_accepts_fitted_encoders() -> None:
    unfitted = encoder()
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(unfitted)
    check_is_fitted(encoder().fit({"english": ENGLISH, "german": GERMAN}, LABELS))


def test_fitting_a_method_does_not_modify_its_learner() -> None:
    learner = LinearRidge()
    DLFH(8, max_iter=2, random_state=0, hash_function=learner).fit(vectors(), LABELS)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(learner)


def test_not_fitted_error_has_the_built_in_types_of_scikit_learns() -> None:
    with pytest.raises(ValueError, match="not fitted yet") as caught:
        DLFH().encode("image", [[1.0]])
    ours = {kind for kind in type(caught.value).__mro__ if kind.__module__ == "builtins"}
    assert ours == {kind for kind in sklearn.exceptions.NotFittedError.__mro__ if kind.__module__ == "builtins"}


def test_featurisers_work_in_pipelines_and_grid_searches() -> None:
    pipeline = make_pipeline(BagOfWords(), LogisticRegression())
    assert pipeline.fit(ENGLISH, LABELS).predict(["a dog", "the car"]).tolist() == ["dog", "car"]
    search = GridSearchCV(pipeline, {"bagofwords__weighting": ["count", "tfidf"]}, cv=2).fit(ENGLISH, LABELS)
    assert search.best_params_["bagofwords__weighting"] in ("count", "tfidf")
    assert search.predict(["a dog"]).tolist() == ["dog"]


def test_scikit_learn_is_not_imported() -> None:
    program = "import sys, dlfh._parameters, dlfh.errors; print('sklearn' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
