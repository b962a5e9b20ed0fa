"""The contract of DLFH as an estimator."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone

from dlfh import DLFH, KDLFH, InputError, NotFittedError, _parallel
from dlfh._factorization.observed_pairs import ObservedPairs
from dlfh._factorization.solver import LabelRows
from dlfh._labels import LabelSets
from dlfh.codes import n_bytes, pack
from dlfh.datasets import Paired, make_paired
from dlfh.hashing import KernelRidge
from dlfh.metrics import mean_average_precision
from tests.strategies import seeds

Split = tuple[Paired, Paired]


def fit(data: Paired, n_bits: int = 32, **parameters: Any) -> DLFH:
    setting: dict[str, Any] = {"random_state": 0, "max_iter": 20, "hash_function": "linear"} | parameters
    return DLFH(n_bits, **setting).fit(data.modalities, data.labels)


def assert_same_codes(a: DLFH, b: DLFH) -> None:
    for name in a.modalities_:
        np.testing.assert_array_equal(a.codes_[name], b.codes_[name])


@pytest.mark.parametrize("solver", ["stochastic", "full"])
@pytest.mark.parametrize("init", ["labels", "random"])
def test_planted_structure_is_learned_in_both_directions_and_protocols(paired: Split, solver: Any, init: Any) -> None:
    train, test = paired
    model = fit(train, solver=solver, init=init, scale=4.0)
    chance = ((test.labels @ train.labels.T) > 0).mean()
    for query, item in (("image", "text"), ("text", "image")):
        queries = model.encode(query, test.modalities[query])
        for database in (model.codes_[item], model.encode(item, train.modalities[item])):
            value = mean_average_precision(queries, database, test.labels, train.labels)
            assert value > chance + 0.25


@pytest.mark.parametrize("n_bits", [1, 3, 8, 31, 64, 65, 200, 512])
def test_codes_can_have_any_length(paired: Split, n_bits: int) -> None:
    train, test = paired
    model = fit(train, n_bits, max_iter=3)
    for name in ("image", "text"):
        codes = model.encode(name, test.modalities[name])
        assert codes.shape == (100, n_bytes(n_bits))
        assert codes.dtype == np.uint8
        assert model.codes_[name].shape == (600, n_bytes(n_bits))
        for packed in (codes, model.codes_[name]):
            assert not np.unpackbits(packed, axis=1)[:, n_bits:].any()
        projections = model.project(name, test.modalities[name])
        assert projections.shape == (100, n_bits)
        assert projections.dtype == np.float32
        np.testing.assert_array_equal(pack(projections), codes)


def test_a_seed_determines_codes_on_any_number_of_threads(paired: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parallel, "_MIN_BLOCK_COST", 1.0)  # split even small work
    train, test = paired
    for init in ("labels", "random"):
        first = fit(train, init=init, n_jobs=1)
        for n_jobs in (2, None):
            other = fit(train, init=init, n_jobs=n_jobs)
            assert_same_codes(first, other)
            for name in ("image", "text"):
                np.testing.assert_allclose(
                    first.project(name, test.modalities[name]),
                    other.project(name, test.modalities[name]),
                    rtol=1e-3,
                    atol=1e-4,
                )


def test_different_seeds_give_different_codes(paired: Split) -> None:
    train, _ = paired
    assert not np.array_equal(fit(train).codes_["image"], fit(train, random_state=1).codes_["image"])


def test_random_state_can_be_a_generator(paired: Split) -> None:
    train, _ = paired
    assert_same_codes(fit(train), fit(train, random_state=np.random.default_rng(0)))


def test_codes_depend_only_on_labels_in_any_form(paired: Split) -> None:
    train, _ = paired
    indicator = train.labels.toarray()
    expected = fit(train)
    names = np.array([f"label {j:03d}" for j in range(indicator.shape[1])])
    forms = [
        indicator.astype(bool),
        indicator.astype(float),
        sp.csc_array(indicator),
        [list(names[row > 0]) for row in indicator],
    ]
    for labels in forms:
        assert_same_codes(expected, fit(Paired(train.modalities, labels)))
    dense = {"image": sp.csr_array(train.modalities["image"]), "text": train.modalities["text"].toarray()}
    assert_same_codes(expected, fit(Paired(dense, train.labels)))


@settings(max_examples=10)
@given(seeds)
def test_codes_permute_with_the_points(seed: int) -> None:
    data = make_paired(n_points=200, random_state=seed)
    order = np.random.default_rng(seed).permutation(200)
    first, permuted = fit(data, max_iter=5), fit(data.take(order), max_iter=5)
    for name in ("image", "text"):
        np.testing.assert_array_equal(first.codes_[name][order], permuted.codes_[name])


@settings(max_examples=10)
@given(seeds, st.floats(0.01, 32), st.integers(1, 80))
def test_full_solver_never_decreases_the_objective(seed: int, scale: float, n_bits: int) -> None:
    data = make_paired(n_points=120, random_state=seed)
    model = fit(data, n_bits, solver="full", scale=scale, track_objective=True, max_iter=10)
    assert len(model.objective_) == model.n_iter_ + 1
    assert np.all(np.diff(model.objective_) >= -1e-9 * np.abs(model.objective_[:-1]))
    assert np.all(model.objective_ <= 0)


def test_more_than_two_modalities(paired: Split) -> None:
    train, test = paired
    three = Paired(train.modalities | {"sound": train.modalities["image"][:, :20]}, train.labels)
    model = fit(three)
    assert model.modalities_ == ("image", "text", "sound")
    queries = model.encode("sound", test.modalities["image"][:, :20])
    assert mean_average_precision(queries, model.codes_["text"], test.labels, train.labels) > 0.5


def test_more_features_than_points() -> None:
    data = make_paired(n_points=80, image_features=300, text_features=500, random_state=0)
    model = fit(data)
    for name in ("image", "text"):
        assert (
            mean_average_precision(
                model.encode(name, data.modalities[name]), model.codes_[name], data.labels, data.labels
            )
            > 0.9
        )


def test_zero_iterations_give_the_random_initial_codes(paired: Split) -> None:
    train, _ = paired
    model = fit(train, max_iter=0, init="random")
    assert model.n_iter_ == 0
    assert len(np.unique(model.codes_["image"], axis=0)) > 590


def test_fit_discards_the_previous_fit(paired: Split) -> None:
    train, _ = paired
    model = fit(train, track_objective=True)
    model.set_params(track_objective=False, n_bits=8).fit(train.modalities, train.labels)
    assert len(model.objective_) == 0
    assert_same_codes(model, fit(train, 8))


def test_scikit_learn_can_clone_a_model(paired: Split) -> None:
    train, _ = paired
    model = fit(train, 16)
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert not hasattr(copy, "codes_")
    assert_same_codes(model, copy.fit(train.modalities, train.labels))
    assert "n_bits=16" in repr(model)


def test_input_is_not_modified(paired: Split) -> None:
    train, _ = paired
    image, text, labels = train.modalities["image"].copy(), train.modalities["text"].copy(), train.labels.copy()
    fit(train)
    np.testing.assert_array_equal(train.modalities["image"], image)
    assert (train.modalities["text"] != text).nnz == 0
    assert (train.labels != labels).nnz == 0


def messy_csr(seed: int, n: int = 50, d: int = 30) -> sp.csr_array:
    """Return a CSR matrix with unsorted and repeated column indices."""
    rng = np.random.default_rng(seed)
    return sp.csr_array((rng.random(n * 6), rng.integers(0, d, n * 6), np.arange(n + 1) * 6), shape=(n, d))


def test_non_canonical_sparse_matrices_are_not_modified_even_in_threads() -> None:
    messy = messy_csr(0)
    kept = [part.copy() for part in (messy.data, messy.indices, messy.indptr)]
    for part in (messy.data, messy.indices, messy.indptr):
        part.flags.writeable = False
    labels = np.arange(50) % 4
    model = DLFH(16, random_state=0, n_jobs=1, hash_function="linear").fit({"a": messy, "b": messy}, labels)
    expected = model.encode("a", messy.toarray())
    with ThreadPoolExecutor(4) as pool:
        for codes in pool.map(lambda _: model.encode("a", messy), range(24)):
            np.testing.assert_array_equal(codes, expected)
    for before, after in zip(kept, (messy.data, messy.indices, messy.indptr), strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("form", [sp.csc_array, sp.coo_array, sp.csr_matrix, sp.lil_array, sp.dok_array])
def test_every_sparse_format_is_accepted(paired: Split, form: Any) -> None:
    train, test = paired
    model = fit(Paired(train.modalities | {"text": form(train.modalities["text"])}, train.labels))
    assert_same_codes(model, fit(train))
    text = test.modalities["text"]
    np.testing.assert_array_equal(model.encode("text", form(text)), model.encode("text", text))


@pytest.mark.parametrize("wide", [False, True])
def test_every_numeric_type_is_accepted(wide: bool) -> None:
    data = make_paired(n_points=80 if wide else 300, text_features=200, words_per_point=30, random_state=0)
    text = (data.modalities["text"].toarray() > 0).astype(np.float64)
    image = data.modalities["image"]
    expected = fit(Paired({"image": image, "text": text}, data.labels)).project("text", text)
    types: list[Any] = [bool, np.int8, np.uint8, np.int16, np.int64, np.longdouble]
    dense = [text.astype(dtype) for dtype in (*types, np.float16, ">f4")]
    for typed in (*dense, *(sp.csr_array(text.astype(dtype)) for dtype in types)):
        model = fit(Paired({"image": image, "text": typed}, data.labels))
        np.testing.assert_allclose(model.project("text", typed), expected, atol=2e-3, err_msg=str(typed.dtype))


@pytest.mark.parametrize("n_bits", [np.uint8(16), np.int8(64), np.uint64(16), np.int64(16)])
def test_parameters_may_be_numpy_integers(paired: Split, n_bits: Any) -> None:
    train, _ = paired
    assert_same_codes(fit(train, n_bits), fit(train, int(n_bits)))


@pytest.mark.parametrize("scale", [1e-300, 1e13, 1e300])
@pytest.mark.parametrize("solver", ["stochastic", "full"])
def test_every_positive_scale_gives_a_finite_objective(paired: Split, scale: float, solver: Any) -> None:
    model = fit(paired[0], scale=scale, solver=solver, track_objective=True, max_iter=3)
    assert np.isfinite(model.objective_).all()


def test_a_feature_of_another_magnitude_does_not_dominate(paired: Split) -> None:
    train, _ = paired
    agreements = []
    for factor in (1, 100, 10_000):
        image = train.modalities["image"].astype(np.float64)
        image[:, 0] *= factor
        model = fit(Paired(train.modalities | {"image": image}, train.labels))
        same = np.unpackbits(~(model.encode("image", image) ^ model.codes_["image"]))
        agreements.append(same.mean())
    assert min(agreements) > agreements[0] - 0.02


@pytest.mark.parametrize("value", [0.1, 7.0, 1e6])
@pytest.mark.parametrize("n", [12, 400])
def test_constant_modalities_give_the_majority_code(value: float, n: int) -> None:
    labels = np.arange(n) % 3
    for constant in (
        np.full((n, 20), value),
        np.full((n, 20), value, np.float32),
        sp.csr_array(np.full((n, 20), value)),
    ):
        model = DLFH(32, random_state=0, hash_function="linear").fit({"a": constant, "b": np.eye(3)[labels]}, labels)
        function: Any = model.hash_functions_["a"]
        majority = pack(function.intercept[None])
        np.testing.assert_array_equal(model.encode("a", constant), np.repeat(majority, n, axis=0))


def test_a_shared_code_is_equal_in_all_modalities(paired: Split) -> None:
    train, test = paired
    for solver in ("stochastic", "full"):
        model = fit(train, shared_code=True, solver=solver, scale=4.0, track_objective=True)
        np.testing.assert_array_equal(model.codes_["image"], model.codes_["text"])
        queries = model.encode("image", test.modalities["image"])
        assert mean_average_precision(queries, model.codes_["text"], test.labels, train.labels) > 0.6
        if solver == "full":
            assert np.all(np.diff(model.objective_) >= -1e-9 * np.abs(model.objective_[:-1]))


def test_read_only_and_memory_mapped_arrays_are_accepted(paired: Split, tmp_path: Any) -> None:
    train, test = paired
    np.save(tmp_path / "image.npy", train.modalities["image"])
    mapped = np.load(tmp_path / "image.npy", mmap_mode="r")
    text = train.modalities["text"].toarray()
    text.flags.writeable = False
    model = fit(Paired({"image": mapped, "text": text}, train.labels))
    assert_same_codes(model, fit(train))
    query = test.modalities["image"].copy()
    query.flags.writeable = False
    assert model.encode("image", query).shape == (100, 4)


def test_zero_points_can_be_encoded(paired: Split) -> None:
    train, _ = paired
    model = fit(train)
    assert model.encode("image", np.zeros((0, 64))).shape == (0, 4)
    assert model.project("text", sp.csr_array((0, 200))).shape == (0, 32)


def test_verbose_shows_progress(
    paired: Split, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dlfh._progress._LINE_INTERVAL", 0.0)
    train, _ = paired
    fit(train, verbose=True)
    shown = capsys.readouterr()
    assert "hash functions" in shown.err
    assert shown.out == ""


def test_fitted_attributes_are_plain_data(paired: Split) -> None:
    train, _ = paired
    model = fit(train, solver="stochastic")
    assert model.fit_seconds_ > 0
    assert model.n_features_ == {"image": 64, "text": 200}
    assert json.dumps(model.n_iter_) == "20"
    assert model.flips_.shape == (20,)


@pytest.mark.parametrize("n_bits", [8, 16])
@pytest.mark.parametrize("balance", [False, True])
def test_exact_steps_continue_where_the_bound_stalls(paired: Split, n_bits: int, balance: bool) -> None:
    train, _ = paired
    flips, accuracy = {}, {}
    for step in ("bound", "exact"):
        model = DLFH(
            n_bits, solver="full", step=step, balance=balance, init="random", random_state=0, hash_function="linear"
        )
        model.fit(train.modalities, train.labels)
        flips[step] = int(model.flips_.sum())
        accuracy[step] = mean_average_precision(model.codes_["text"], model.codes_["image"], train.labels, train.labels)
    assert flips["exact"] > 2 * flips["bound"]
    assert accuracy["exact"] > accuracy["bound"] + 0.1


def test_balance_uses_the_share_of_similar_pairs_among_known_pairs(paired: Split) -> None:
    train, _ = paired
    S = (train.labels @ train.labels.T).toarray() > 0
    sets = LabelRows.of_label_sets(LabelSets.from_labels(train.labels))
    points = LabelRows.of_points(LabelSets.from_labels(train.labels))
    assert sets.similar_share(2) == points.similar_share(3) == pytest.approx(S.mean())
    seen = np.random.default_rng(0).random(S.shape) < 0.1
    assert ObservedPairs.from_matrix(np.where(seen, S, np.nan), len(S)).similar_share(2) == pytest.approx(
        S[seen].mean()
    )


# Invalid input


def test_encode_before_fit_raises_not_fitted_error() -> None:
    with pytest.raises(NotFittedError, match="this DLFH is not fitted yet: call fit first"):
        DLFH(hash_function="linear").encode("image", np.zeros((1, 3)))
    with pytest.raises(NotFittedError):
        DLFH(hash_function="linear").save("nowhere")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_bits": 0}, "n_bits must be an integer from 1 to 512, got 0"),
        ({"n_bits": -8}, "n_bits must be an integer from 1 to 512, got -8"),
        ({"n_bits": 16.5}, "n_bits must be an integer from 1 to 512, got 16.5"),
        ({"n_bits": 513}, "n_bits must be an integer from 1 to 512, got 513"),
        ({"n_bits": "16"}, "n_bits must be an integer from 1 to 512, got '16'"),
        ({"n_bits": True}, "n_bits must be an integer"),
        ({"scale": 0}, "scale must be a positive finite number, got 0"),
        ({"scale": -1.0}, "scale must be a positive finite number, got -1.0"),
        ({"scale": np.nan}, "scale must be a positive finite number, got nan"),
        ({"max_iter": -1}, "max_iter must be an integer of at least 0, got -1"),
        ({"sample_size": 0}, "sample_size must be an integer of at least 1, got 0"),
        ({"sample_size": 601}, "sample_size is 601 but there are only 600 points"),
        ({"solver": "newton"}, "solver must be one of 'stochastic', 'full', 'auto', got 'newton'"),
        ({"init": "zeros"}, "init must be one of 'labels', 'random', got 'zeros'"),
        ({"ridge": -1}, "ridge must be a non-negative finite number, got -1"),
        ({"ridge": "big"}, "ridge must be \"auto\" or a number of at least 0, got 'big'"),
        ({"n_jobs": 0}, "n_jobs must be an integer from 1 to 1024, or -1 or None for all cores, got 0"),
        ({"n_jobs": 1.5}, "n_jobs must be an integer from 1 to 1024"),
        ({"random_state": "seed"}, "random_state must be"),
        ({"random_state": -1}, "random_state must be"),
        ({"fit_intercept": "no"}, "fit_intercept must be True or False, got 'no'"),
        ({"early_stopping": 1}, "early_stopping must be True or False, got 1"),
        ({"hash_function": "cubic"}, "hash_function must be one of 'auto', 'linear', 'kernel', 'kernel-ridge', 'deep'"),
        ({"hash_function": {"image": KernelRidge(ridge=-1)}}, "ridge must be a non-negative finite number, got -1"),
        ({"pair_weights": 3}, "pair_weights must be a dict"),
        ({"hash_function": {"image": "linear"}}, r"hash_function has the modalities \['image'\], but the data has"),
    ],
)
def test_invalid_parameters_raise_an_error(paired: Split, parameters: dict[str, Any], message: str) -> None:
    train, _ = paired
    with pytest.raises(InputError, match=message):
        DLFH(**parameters).fit(train.modalities, train.labels)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (DLFH(ridge=-1, hash_function="linear"), "ridge"),
        (DLFH(hash_function="nope"), "hash_function"),
        (DLFH(hash_function={"image": "nope"}), "hash_function"),
        (DLFH(pair_weights=3, hash_function="linear"), "pair_weights"),  # type: ignore[arg-type]
        (DLFH(pair_weights={("image", "text"): -1}, hash_function="linear"), "pair_weights"),
        (KDLFH(n_bases=0), "n_bases"),
        (KDLFH(penalty=0), "penalty"),
    ],
)
def test_parameters_are_checked_before_any_work(model: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model.check_parameters()


def test_kdlfh_has_the_parameters_of_dlfh_except_for_its_fixed_choices() -> None:
    model = KDLFH()
    fixed = {"ridge", "hash_function", "fit_intercept", "keep_sums"}
    assert DLFH().get_params().keys() - fixed == model.get_params().keys() - {"n_bases", "bases", "penalty"}
    assert vars(model).keys() == model.get_params().keys()
    assert model.hash_function == "kernel"
    with pytest.raises(InputError, match="KDLFH has no parameter 'ridge'"):
        model.set_params(ridge=1.0)
    assert model.set_params(n_bases=7)._learners(("image",))["image"].get_params()["n_bases"] == 7
    assert not hasattr(model, "partial_fit")


X, Y = np.ones((4, 3)), np.ones((4, 2))
NAN, INFINITY = X.copy(), X.copy()
NAN[2, 1], INFINITY[3, 0] = np.nan, np.inf
HUGE = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)


@pytest.mark.parametrize(
    ("modalities", "labels", "message"),
    [
        ({"image": X, "text": Y[:3]}, [0, 1, 0, 1], "modality 'text' has 3 rows but modality 'image' has 4"),
        ({"image": X, "text": Y}, [0, 1, 0], "labels has 3 rows but modality 'image' has 4"),
        ({"image": NAN, "text": Y}, [0, 1, 0, 1], "modality 'image' has NaN or infinity in row 2"),
        ({"image": X, "text": INFINITY}, [0, 1, 0, 1], "modality 'text' has NaN or infinity in row 3"),
        ({"image": X, "text": sp.csr_array(INFINITY)}, [0, 1, 0, 1], "modality 'text' has NaN or infinity in row 3"),
        ({"image": np.tile(NAN, 5), "text": Y}, [0, 1, 0, 1], "modality 'image' has NaN or infinity in row 2"),
        ({"image": NAN.astype("f4"), "text": Y}, [0, 1, 0, 1], "modality 'image' has NaN or infinity in row 2"),
        ({"image": X[:0], "text": Y[:0]}, [], "modality 'image' is empty"),
        ({"image": X[:, :0], "text": Y}, [0, 1, 0, 1], "modality 'image' is empty"),
        ({"image": X[0], "text": Y}, [0, 1, 0, 1], r"modality 'image' must be two-dimensional .* got shape \(3,\)"),
        ({"image": X[None], "text": Y}, [0, 1, 0, 1], "modality 'image' must be two-dimensional"),
        ({"image": X.astype(str), "text": Y}, [0, 1, 0, 1], "modality 'image' must contain numbers, got strings"),
        ({"image": ["a cat", "a dog"], "text": Y}, [0, 1], "modality 'image' must contain numbers, got strings"),
        (
            {"image": X.astype(object), "text": Y},
            [0, 1, 0, 1],
            "modality 'image' must contain numbers, got Python objects",
        ),
        ({"image": X + 1j, "text": Y}, [0, 1, 0, 1], "modality 'image' must contain numbers, got complex numbers"),
        ({"image": [[1], [1, 2]], "text": Y}, [0, 1], "modality 'image' has rows of different lengths"),
        ({"image": X}, [0, 1, 0, 1], "DLFH takes at least two modalities, got 1"),
        ((X, Y), [0, 1, 0, 1], "modalities must be a dict"),
        ({1: X, 2: Y}, [0, 1, 0, 1], "names of modalities must be non-empty strings, got 1"),
        ({"image": X, "text": Y}, None, "DLFH learns from labels: pass labels to fit"),
        ({"image": X, "text": Y}, np.zeros((4, 2)), "labels are all empty"),
        ({"image": 1e30 * HUGE, "text": Y}, [0, 1, 0, 1], "modality 'image' has values too large or too small"),
        (
            {"image": sp.csr_array(1e200 * HUGE.astype(np.float64)), "text": Y},
            [0, 1, 0, 1],
            "modality 'image' has values too large",
        ),
    ],
)
def test_invalid_training_data_raises_an_error(modalities: Any, labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DLFH(8, hash_function="linear").fit(modalities, labels)


@pytest.mark.parametrize(
    ("modality", "features", "message"),
    [
        ("sound", np.zeros((1, 3)), "unknown modality 'sound': this model has 'image', 'text'"),
        ("image", np.zeros((1, 3)), "modality 'image' has 3 features but the model expects 64"),
        (np.zeros((1, 64)), "image", "pass the name of the modality first, then its features"),
        ("image", np.full((1, 64), 1e300), "modality 'image' has values too large"),
        ("image", np.zeros(64), "reshape a single point with x.reshape"),
        ("image", np.full((3, 64), np.nan), "modality 'image' has NaN or infinity in row 0"),
        ("text", sp.csr_array(np.full((3, 200), np.inf)), "modality 'text' has NaN or infinity in row 0"),
        ("image", np.full((3, 64), "x"), "modality 'image' must contain numbers, got strings"),
    ],
)
def test_invalid_queries_raise_an_error(paired: Split, modality: str, features: Any, message: str) -> None:
    model = fit(paired[0])
    for function in (model.encode, model.project):
        with pytest.raises(InputError, match=message):
            function(modality, features)


def test_encode_finds_a_single_invalid_value(paired: Split) -> None:
    model = fit(paired[0])
    X = np.zeros((5000, 64), np.float32)
    for bad in (np.nan, np.inf, -np.inf):
        X[4321, 17] = bad
        with pytest.raises(InputError, match="modality 'image' has NaN or infinity in row 4321"):
            model.encode("image", X)


def test_a_failed_fit_does_not_change_the_model(paired: Split) -> None:
    train, test = paired
    model = fit(train)
    before = model.encode("image", test.modalities["image"])
    with pytest.raises(InputError):
        model.fit({"image": NAN, "text": Y}, [0, 1, 0, 1])
    np.testing.assert_array_equal(model.encode("image", test.modalities["image"]), before)
