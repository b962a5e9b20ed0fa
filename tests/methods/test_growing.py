"""DLFH.partial_fit: codes do not change, and hash functions are those of all points at once."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh import DLFH, load
from dlfh._mathematics.moments import Moments
from dlfh._mathematics.targets import RealTargets, Targets
from dlfh._parallel import Workers
from dlfh.datasets import make_paired
from dlfh.errors import InputError, ModelError
from dlfh.hashing import KernelRidge, LinearRidge
from dlfh.hashing.base import FitContext
from dlfh.metrics import mean_average_precision
from tests.strategies import seeds

Parts = list[tuple[dict[str, Any], Any]]


def cut(modalities: dict[str, Any], labels: Any, bounds: list[int]) -> Parts:
    slices = [slice(*pair) for pair in itertools.pairwise(bounds)]
    return [({name: matrix[rows] for name, matrix in modalities.items()}, labels[rows]) for rows in slices]


def in_parts(model: DLFH, parts: Parts) -> DLFH:
    for modalities, labels in parts:
        model.partial_fit(modalities, labels)
    return model


def assert_same_functions(one: DLFH, other: DLFH, tolerance: float = 1e-5) -> None:
    for name, function in one.hash_functions_.items():
        for key, array in function.to_arrays().items():
            expected = other.hash_functions_[name].to_arrays()[key].astype(np.float64)
            np.testing.assert_allclose(array, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@given(seeds, st.integers(1, 5), st.integers(1, 40), st.integers(1, 40), st.floats(-1e3, 1e3))
def test_moments_add_up_in_any_order(seed: int, d: int, n_first: int, n_rest: int, shift: float) -> None:
    rng = np.random.default_rng(seed)
    X, U = rng.standard_normal((n_first + n_rest, d)) + shift, rng.choice([-1, 1], (n_first + n_rest, 3))
    targets = RealTargets(U, np.arange(len(U)), 3)
    whole = Moments.of_rows(X.copy(), targets)  # it overwrites the rows
    first, rest = Moments.of_rows(X[:n_first], targets), Moments.of_rows(X[n_first:], targets, n_first)
    for total in (first + rest, rest + first):
        for name in ("mean", "gram", "cross", "target_mean"):
            np.testing.assert_allclose(getattr(total, name), getattr(whole, name), rtol=1e-9, atol=1e-8)
        assert total.n_points == whole.n_points


@pytest.mark.parametrize("function", ["linear", "kernel-ridge"])
def test_ten_batches_with_the_same_label_sets_equal_one_fit(function: str) -> None:
    """Every batch has each label set equally often, so its weights are those of the whole."""
    data = make_paired(200, n_labels=6, random_state=0)
    rng = np.random.default_rng(0)
    modalities = {
        name: np.tile(matrix.toarray() if sp.issparse(matrix) else matrix, (10, 1))
        for name, matrix in data.modalities.items()
    }
    modalities = {name: matrix + 0.1 * rng.standard_normal(matrix.shape) for name, matrix in modalities.items()}
    labels = np.tile(data.labels.toarray(), (10, 1))
    parts = cut(modalities, labels, [*range(0, 2001, 200)])
    model = in_parts(DLFH(16, hash_function=function, keep_sums=True, random_state=0), parts)
    whole = DLFH(16, hash_function=function, keep_sums=True, random_state=0).fit(modalities, labels)
    for name in model.modalities_:
        np.testing.assert_array_equal(model.codes_[name], whole.codes_[name])
    if function == "linear":
        assert_same_functions(model, whole)


@settings(max_examples=30)
@given(
    seeds,
    st.integers(2, 10),
    st.sampled_from([None, "sparse", "float32"]),
    st.sampled_from(
        [
            LinearRidge(),
            LinearRidge(0.5, fit_intercept=False, scaling="root"),
            LinearRidge(scaling="standard"),
            KernelRidge(20, scaling="root"),
        ]
    ),
    st.booleans(),
)
def test_functions_equal_those_fitted_to_all_points_at_once(
    seed: int, n_parts: int, form: str | None, learner: Any, shared: bool
) -> None:
    rng = np.random.default_rng(seed)
    n = 30 * n_parts
    labels = (rng.random((n, 4)) < 0.4).astype(int)
    labels[::7, 0] = 1
    X = rng.random((n, 5)) + labels @ rng.random((4, 5)) + 3
    modalities: dict[str, Any] = {"a": X, "b": X[:, ::-1] ** 2}
    if form == "sparse":
        modalities["b"] = sp.csr_array(np.where(X > 3.5, X, 0))
    elif form == "float32":
        modalities = {name: matrix.astype(np.float32) for name, matrix in modalities.items()}
    model = DLFH(12, hash_function=learner, keep_sums=True, shared_code=shared, random_state=0)
    before: dict[str, Any] = {}
    for part in cut(modalities, labels, [*range(0, n + 1, 30)]):
        model.partial_fit(*part)
        for name, codes in before.items():
            np.testing.assert_array_equal(model.codes_[name][: len(codes)], codes)
        before = model.codes_
    with Workers(1) as workers:
        for name, matrix in modalities.items():
            targets = Targets(model.codes_[name], np.arange(n), 12)
            function = model.hash_functions_[name]
            if isinstance(learner, KernelRidge):  # its bases come from the first points
                kernel = learner.map_of(function)
                expected: Any = learner.function(kernel, learner.sums(kernel, matrix, targets, name, workers), name)
            else:
                expected = learner.fit(matrix, targets, name, FitContext(workers, 0))
            values, wanted = function.project(matrix, name, workers), expected.project(matrix, name, workers)
            np.testing.assert_allclose(values, wanted, atol=2e-3 if form == "float32" else 1e-4)


def test_points_with_equal_labels_have_equal_codes_in_any_batch() -> None:
    data = make_paired(400, n_labels=6, random_state=1)
    labels = data.labels.toarray()
    model = in_parts(DLFH(16, keep_sums=True, random_state=0), cut(data.modalities, labels, [0, 250, 260, 400]))
    for codes in model.codes_.values():
        by_set: dict[bytes, bytes] = {}
        for row, code in zip(labels, codes, strict=True):
            assert by_set.setdefault(row.tobytes(), code.tobytes()) == code.tobytes()
    assert model.label_codes_ is not None
    assert model.label_codes_.weights[0, 1].sum() == 400


def test_new_label_sets_are_retrieved_nearly_as_well_as_after_a_full_fit() -> None:
    """Half of the labels appear only in later points."""
    data = make_paired(1500, n_labels=10, random_state=0)
    labels = data.labels.toarray()
    late = labels[:, 5:].any(axis=1)
    order = np.argsort(late, kind="stable")[:1400]
    test = np.argsort(late, kind="stable")[1400:]
    modalities = {name: matrix[order] for name, matrix in data.modalities.items()}
    names = [[f"label {j}" for j in np.flatnonzero(row)] for row in labels]
    trained = [names[i] for i in order]
    first = int((~late).sum())
    learner: dict[str, Any] = {"hash_function": "linear", "keep_sums": True, "random_state": 0}
    model = DLFH(32, **learner).fit({name: matrix[:first] for name, matrix in modalities.items()}, trained[:first])
    model.partial_fit({name: matrix[first:] for name, matrix in modalities.items()}, trained[first:])
    whole = DLFH(32, **learner).fit(modalities, trained)

    def score(model: DLFH) -> float:
        codes = model.encode("text", data.modalities["text"][test])
        return mean_average_precision(codes, model.codes_["image"], labels[test], labels[order])

    assert score(model) > score(whole) - 0.05


def test_saving_between_batches_does_not_change_the_result(tmp_path: Path) -> None:
    data = make_paired(300, random_state=0)
    parts = cut(data.modalities, data.labels, [0, 150, 200, 300])
    model = in_parts(DLFH(16, keep_sums=True, random_state=0), parts[:2])
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    in_parts(model, parts[2:])
    in_parts(again, parts[2:])
    for name in model.modalities_:
        np.testing.assert_array_equal(model.codes_[name], again.codes_[name])
    assert_same_functions(model, again, 1e-12)
    model.set_params(keep_sums=False).save(tmp_path / "small")
    small = load(tmp_path / "small")
    with pytest.raises(InputError, match="fitted without keep_sums=True"):
        small.partial_fit(*parts[0])


def test_an_invalid_batch_raises_an_error_and_changes_nothing() -> None:
    data = make_paired(200, random_state=0)
    indicator = data.labels.toarray()
    with pytest.raises(InputError, match="partial_fit needs a model with keep_sums=True"):
        DLFH(8).partial_fit(data.modalities, indicator)
    with pytest.raises(InputError, match='keep_sums needs init="labels"'):
        DLFH(8, keep_sums=True, init="random").fit(data.modalities, indicator)
    with pytest.raises(InputError, match="keep_sums needs linear or kernel ridge hash functions"):
        DLFH(8, keep_sums=True, hash_function="kernel").fit(data.modalities, indicator)
    with pytest.raises(InputError, match="keep_sums needs points that have every modality"):
        DLFH(8, keep_sums=True).fit(data.modalities, indicator, labelled=np.arange(200) < 150)
    model = DLFH(8, keep_sums=True, random_state=0).fit(data.modalities, indicator)
    before = model._to_parts()[1]
    for modalities, labels, sentence in (
        (data.modalities, ["a"] * 200, "same form as in earlier calls"),
        (data.modalities, indicator[:, 1:], "label columns but earlier points had"),
        (
            {"image": data.modalities["image"], "sound": data.modalities["text"]},
            indicator,
            "earlier chunks had the mod",
        ),
        (data.modalities | {"image": data.modalities["image"][:, 1:]}, indicator, "but the model expects"),
        (data.modalities | {"image": np.full((200, model.n_features_["image"]), np.nan)}, indicator, "NaN or infinity"),
    ):
        with pytest.raises(InputError, match=sentence):
            model.partial_fit(modalities, labels)
    for name, array in model._to_parts()[1].items():
        np.testing.assert_array_equal(array, before[name])


def test_keep_sums_refuses_too_many_features() -> None:
    wide = sp.random_array((50, 20_000), density=0.01, random_state=0, format="csr")
    with pytest.raises(InputError, match="at most 16384 are supported"):
        DLFH(8, keep_sums=True).fit({"a": wide, "b": np.eye(50)}, np.arange(50) % 5)


def test_saved_sums_of_the_wrong_shape_are_refused(tmp_path: Path) -> None:
    from dlfh._persistence.model_folder import write_model

    data = make_paired(200, random_state=0)
    model = DLFH(8, keep_sums=True, hash_function="linear", random_state=0).fit(data.modalities, data.labels)
    for damage in ("shape", "points", "modality"):
        config, arrays = model._to_parts()
        if damage == "shape":
            arrays["sums/text/gram"] = arrays["sums/text/gram"][1:]
        elif damage == "points":
            config["sums"]["text"]["points"] = 0
        else:
            del config["sums"]["text"]
        write_model(tmp_path / damage, config, arrays)
        with pytest.raises(ModelError):
            load(tmp_path / damage)
