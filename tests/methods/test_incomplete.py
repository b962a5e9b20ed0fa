"""Incomplete data: missing modalities, missing labels, and observed pairs, for two or more modalities."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh import DLFH, KDLFH, InputError, load
from dlfh._factorization.observed_pairs import ObservedPairs
from dlfh._factorization.solver import LabelRows, Sample, factorize, log_likelihood
from dlfh._parallel import Workers
from dlfh.codes import hamming_distances, pad_to_words
from dlfh.datasets import Paired, make_paired
from dlfh.methods import available
from dlfh.methods.catalogue import METHODS
from dlfh.metrics import mean_average_precision
from tests.strategies import Problem, problems, seeds, tabulated_log_likelihood

Split = tuple[Paired, Paired]


def random_masks(rng: np.random.Generator, n_modalities: int, n: int) -> tuple[np.ndarray, ...]:
    """Hide some points in each modality; every point has a modality and every modality a point."""
    masks = rng.random((n_modalities, n)) < rng.random((n_modalities, 1))
    masks[rng.integers(n_modalities, size=n), np.arange(n)] = True
    masks[:, rng.integers(n)] = True
    return tuple(masks)


def random_similarity(rng: np.random.Generator, n: int) -> np.ndarray:
    """Return an asymmetric matrix of 0, 1 and NaN with at least one observed entry."""
    S = np.where(rng.random((n, n)) < rng.random(), 1.0, 0.0)
    S[rng.random((n, n)) < 0.8 * rng.random()] = np.nan
    S[rng.integers(n), rng.integers(n)] = 1
    return S


def dense_log_likelihood(problem: Problem, codes: list[np.ndarray], S: Any, masks: Any, weights: Any) -> float:
    """Return the log-likelihood pair by pair."""
    total = 0.0
    for b in range(len(codes)):
        for a in range(b):
            distances = hamming_distances(codes[a], codes[b])
            dissimilar, similar = problem.model.log_likelihoods(distances.astype(np.int64))
            terms = np.where(S == 1, similar, dissimilar)
            seen = ~np.isnan(S) & masks[a][:, None] & masks[b]
            total += weights[a, b] * terms[seen].sum()
    return total


def random_rows(problem: Problem, n_modalities: int, kind: str) -> tuple[Any, np.ndarray, Any, np.ndarray]:
    """Draw masks and pair weights; return the supervision, S, masks and weights."""
    rng, n = problem.rng, len(problem.indicator)
    masks = random_masks(rng, n_modalities, n)
    weights = rng.integers(1, 5, (n_modalities, n_modalities))
    weights = weights + weights.T
    options: Any = {"present": masks, "pair_weights": weights}
    if kind == "similarity":
        S = random_similarity(rng, n)
        return ObservedPairs.from_matrix(S, n, **options), S, masks, weights
    S = ((problem.indicator @ problem.indicator.T) > 0).astype(np.float64)
    make = LabelRows.of_label_sets if kind == "labels" else LabelRows.of_points
    return make(problem.labels, **options), S, masks, weights


kinds = st.sampled_from(["labels", "random", "similarity"])


@settings(max_examples=25)
@given(problems(max_points=25), st.integers(2, 4), kinds)
def test_full_solver_never_decreases_the_likelihood_of_observed_pairs(
    problem: Problem, n_modalities: int, kind: str
) -> None:
    rng, n = problem.rng, len(problem.indicator)
    rows, S, masks, weights = random_rows(problem, n_modalities, kind)
    with Workers(1) as workers:
        learned = factorize(
            problem.model,
            rows,
            problem.start(rows, n_modalities),
            max_iter=4,
            sample_size=None,
            rng=rng,
            workers=workers,
            track_objective=True,
        )
    history = np.array(learned.objective)
    slack = problem.model.tabulated[1] * weights.sum() * n**2 if problem.model.step == "exact" else 0.0
    assert np.all(np.diff(history) >= -1e-9 * np.abs(history[:-1]) - 1e-9 - slack)
    codes = [learned.codes_of_points(a) for a in range(n_modalities)]
    assert history[-1] == pytest.approx(dense_log_likelihood(problem, codes, S, masks, weights), rel=1e-9, abs=1e-6)


@settings(max_examples=25)
@given(problems(max_points=25), st.integers(2, 4), kinds)
def test_exact_steps_reach_codes_that_no_single_flip_improves(problem: Problem, n_modalities: int, kind: str) -> None:
    model, (rows, *_) = dataclasses.replace(problem.model, step="exact"), random_rows(problem, n_modalities, kind)
    with Workers(1) as workers:

        def objective(codes: list[np.ndarray]) -> int:
            pairs = itertools.combinations(range(n_modalities), 2)
            counts = [rows.count_pairs(model.n_bits, pair, codes, workers) for pair in pairs]
            return sum(tabulated_log_likelihood(model, count) for count in counts)

        codes = problem.start(rows, n_modalities)
        before, flips = objective([pad_to_words(code) for code in codes]), 1
        while flips:
            learned = factorize(model, rows, codes, max_iter=1, sample_size=None, rng=problem.rng, workers=workers)
            codes, flips = learned.codes, learned.flips[-1]
            after = objective([pad_to_words(code) for code in codes])
            assert after >= before  # flips of codes in missing modalities have no effect
            before = after
        padded = [pad_to_words(code) for code in codes]
        for _ in range(20):
            a, i = int(problem.rng.integers(n_modalities)), int(problem.rng.integers(len(rows)))
            k = int(problem.rng.integers(model.n_bits))
            padded[a][i, k >> 3] ^= 1 << (7 - (k & 7))
            assert objective(padded) <= before
            padded[a][i, k >> 3] ^= 1 << (7 - (k & 7))


@given(problems(max_points=25), st.booleans())
def test_similarities_from_labels_update_codes_like_labels(problem: Problem, full: bool) -> None:
    n = len(problem.indicator)
    S = (problem.indicator @ problem.indicator.T) > 0
    masks = random_masks(problem.rng, 3, n)
    by_labels, by_pairs = LabelRows.of_points(problem.labels, present=masks), ObservedPairs.from_matrix(S, n, masks)
    start = [pad_to_words(code) for code in problem.start(by_labels, 3)]
    outcomes = []
    for rows in (by_labels, by_pairs):
        codes = [code.copy() for code in start]
        with Workers(1) as workers:
            for a in range(3):
                # A sample of all points does not depend on the order of the draw.
                sample = None if full else Sample(n, np.random.default_rng(0))
                rows.step(problem.model, a, codes, sample, workers)
            outcomes.append((codes, log_likelihood(problem.model, codes, rows, workers)))
    for ours, theirs in zip(outcomes[0][0], outcomes[1][0], strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert outcomes[0][1] == pytest.approx(outcomes[1][1])


def test_labels_and_their_similarities_give_the_same_codes(paired: Split) -> None:
    train, _ = paired
    S = (train.labels @ train.labels.T).toarray() > 0
    setting: Any = {"init": "random", "solver": "full", "scale": 4.0, "max_iter": 5, "random_state": 0}
    setting["hash_function"] = "linear"
    by_labels = DLFH(24, **setting).fit(train.modalities, train.labels)
    stored = sp.coo_array((S.ravel().astype(int), tuple(np.indices(S.shape).reshape(2, -1))), shape=S.shape)
    for similarity in (S, S.astype(float), stored):
        by_pairs = DLFH(24, **setting).fit(train.modalities, similarity=similarity)
        for name in ("image", "text"):
            np.testing.assert_array_equal(by_labels.codes_[name], by_pairs.codes_[name])
            # Labels are targets of the same regression, which rounds differently.
            np.testing.assert_allclose(
                by_labels.project(name, train.modalities[name]),
                by_pairs.project(name, train.modalities[name]),
                atol=1e-4,
            )


def test_full_masks_and_unit_weights_change_nothing(paired: Split) -> None:
    train, _ = paired
    plain = DLFH(32, random_state=0, max_iter=10, hash_function="linear").fit(train.modalities, train.labels)
    everything = np.ones(len(train), bool)
    told = DLFH(32, random_state=0, max_iter=10, pair_weights={("image", "text"): 1}, hash_function="linear").fit(
        train.modalities, train.labels, present={"image": everything, "text": everything}, labelled=everything
    )
    for name in ("image", "text"):
        np.testing.assert_array_equal(plain.codes_[name], told.codes_[name])
        np.testing.assert_array_equal(
            plain.project(name, train.modalities[name]), told.project(name, train.modalities[name])
        )


@pytest.mark.parametrize("init", ["labels", "random"])
@pytest.mark.parametrize("solver", ["stochastic", "full"])
def test_unlabelled_points_do_not_change_the_codes_of_labelled_points(paired: Split, init: Any, solver: Any) -> None:
    train, _ = paired
    labelled = np.arange(len(train)) % 3 > 0
    setting: Any = {"init": init, "solver": solver, "max_iter": 5, "random_state": 0, "scale": 4.0}
    alone = DLFH(24, **setting).fit(train.take(np.flatnonzero(labelled)).modalities, train.labels[labelled])
    model = DLFH(24, **setting).fit(train.modalities, train.labels, labelled=labelled)
    for name, matrix in train.modalities.items():
        np.testing.assert_array_equal(model.codes_[name][labelled], alone.codes_[name])
        np.testing.assert_array_equal(model.codes_[name][~labelled], alone.encode(name, matrix[~labelled]))
        np.testing.assert_array_equal(model.project(name, matrix), alone.project(name, matrix))


@given(problems(max_points=25))
def test_observing_only_a_block_equals_training_on_the_block(problem: Problem) -> None:
    n = len(problem.indicator)
    size = int(problem.rng.integers(2, n + 1))
    block = np.sort(problem.rng.permutation(n)[:size])
    S = np.full((n, n), np.nan)
    S[np.ix_(block, block)] = (problem.indicator[block] @ problem.indicator[block].T) > 0
    whole, part = ObservedPairs.from_matrix(S, n), LabelRows.of_points(problem.labels.take(block))
    start = problem.start(whole, 2)  # type: ignore[arg-type]
    with Workers(1) as workers:
        learned = [
            factorize(problem.model, rows, codes, max_iter=4, sample_size=None, rng=problem.rng, workers=workers).codes
            for rows, codes in ((whole, start), (part, [code[block] for code in start]))
        ]
    for ours, theirs in zip(*learned, strict=True):
        np.testing.assert_array_equal(ours[block], theirs)
    outside = np.setdiff1d(np.arange(n), block)
    for ours, before in zip(learned[0], start, strict=True):
        np.testing.assert_array_equal(ours[outside], before[outside])


@given(problems(max_points=30), st.integers(0, 1))
def test_points_and_label_sets_agree_with_missing_modalities(problem: Problem, modality: int) -> None:
    n = len(problem.indicator)
    masks = random_masks(problem.rng, 2, n)
    sets, points = (make(problem.labels, present=masks) for make in (LabelRows.of_label_sets, LabelRows.of_points))
    start = problem.start(sets)
    outcomes = []
    for rows, codes in ((sets, start), (points, [code[sets.row_of_point] for code in start])):
        padded = [pad_to_words(code) for code in codes]
        with Workers(1) as workers:
            for sample in (None, Sample(5, np.random.default_rng(1))):
                rows.step(problem.model, modality, padded, sample, workers)
        outcomes.append(padded[modality][rows.row_of_point])
    np.testing.assert_array_equal(outcomes[0], outcomes[1])


@settings(max_examples=10)
@given(seeds)
def test_codes_permute_with_incomplete_points(seed: int) -> None:
    data = make_paired(120, n_labels=4, image_features=5, text_features=6, random_state=seed)
    rng = np.random.default_rng(seed)
    masks, labelled, order = random_masks(rng, 2, 120), rng.random(120) < 0.8, rng.permutation(120)
    fits = []
    for rows in (np.arange(120), order):
        present = {name: mask[rows] for name, mask in zip(("image", "text"), masks, strict=True)}
        shuffled = data.take(rows)
        model = DLFH(24, random_state=0, max_iter=5, hash_function="linear")
        fits.append(model.fit(shuffled.modalities, shuffled.labels, present=present, labelled=labelled[rows]))
    for name in ("image", "text"):
        learned = labelled[order]
        np.testing.assert_array_equal(fits[0].codes_[name][order][learned], fits[1].codes_[name][learned])


def test_values_in_hidden_rows_are_ignored(paired: Split) -> None:
    train, _ = paired
    has_image = np.arange(len(train)) % 4 > 0
    broken = train.modalities["image"].copy()
    broken[~has_image] = np.nan
    fits = [
        DLFH(24, random_state=0, max_iter=10, hash_function="linear").fit(
            {"image": image, "text": train.modalities["text"]}, train.labels, present={"image": has_image}
        )
        for image in (train.modalities["image"], broken)
    ]
    for name in ("image", "text"):
        np.testing.assert_array_equal(fits[0].codes_[name], fits[1].codes_[name])
    queries = train.modalities["image"][:50]
    np.testing.assert_array_equal(fits[0].encode("image", queries), fits[1].encode("image", queries))


@pytest.mark.parametrize("hole", ["present", "labelled"])
def test_errors_name_the_original_row_of_an_invalid_value(hole: str, paired: Split) -> None:
    train, _ = paired
    image, late = train.modalities["image"].copy(), np.arange(len(train)) >= 40
    holes: Any = {"present": {"image": late}} if hole == "present" else {"labelled": late}
    for row in (57,) if hole == "present" else (57, 21):  # a labelled and an unlabelled point
        broken = image.copy()
        broken[row, 1] = np.nan
        with pytest.raises(InputError, match=f"modality 'image' has NaN or infinity in row {row}$"):
            DLFH(8, random_state=0, max_iter=2, hash_function="linear").fit(
                {"image": broken, "text": train.modalities["text"]}, train.labels, **holes
            )


def test_points_without_a_modality_get_a_useful_code_in_it(paired: Split) -> None:
    train, test = paired
    has_image = np.arange(len(train)) % 2 > 0
    model = DLFH(32, random_state=0, hash_function="linear").fit(
        train.modalities, train.labels, present={"image": has_image}
    )
    hidden = np.flatnonzero(~has_image)
    queries = model.encode("text", test.modalities["text"])
    found = mean_average_precision(queries, model.codes_["image"][hidden], test.labels, train.labels[hidden])
    shown = mean_average_precision(queries, model.codes_["image"][has_image], test.labels, train.labels[has_image])
    assert found > shown - 0.1


def test_unlabelled_points_are_coded_by_the_modalities_they_have(paired: Split) -> None:
    train, _ = paired
    has_image, labelled = np.arange(len(train)) % 2 > 0, np.arange(len(train)) % 3 > 0
    model = DLFH(24, random_state=0, max_iter=10, hash_function="linear").fit(
        train.modalities, train.labels, present={"image": has_image}, labelled=labelled
    )
    lost = ~has_image & ~labelled
    np.testing.assert_array_equal(model.codes_["image"][lost], model.codes_["text"][lost])
    assert model.codes_["image"].shape == (len(train), 3)


@pytest.mark.parametrize("method", [DLFH, KDLFH])
def test_three_modalities_with_all_kinds_of_missing_data_are_learned(
    method: Any, paired: Split, tmp_path: Path
) -> None:
    train, test = paired
    sound = train.modalities["image"][:, 32:]
    rng = np.random.default_rng(0)
    present = {"image": rng.random(len(train)) < 0.8, "sound": rng.random(len(train)) < 0.7}
    model = method(32, random_state=0, self_training=1, pair_weights={("image", "sound"): 2}).fit(
        train.modalities | {"sound": sound}, train.labels, present=present, labelled=rng.random(len(train)) < 0.8
    )
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    assert again.get_params() == model.get_params()
    queries = again.encode("sound", test.modalities["image"][:, 32:])
    chance = float(((test.labels @ train.labels.T) > 0).mean())
    for answered in ("image", "text"):
        value = mean_average_precision(queries, again.codes_[answered], test.labels, train.labels)
        assert value > chance + 0.2


def test_stochastic_solver_learns_from_observed_pairs(paired: Split) -> None:
    train, test = paired
    observed = np.random.default_rng(0).random((len(train), len(train))) < 0.2
    similar = (train.labels @ train.labels.T).toarray() > 0
    rows, columns = np.nonzero(observed)
    S = sp.csr_array((similar[rows, columns].astype(np.int8), (rows, columns)), shape=observed.shape)
    model = DLFH(32, random_state=0, hash_function="linear").fit(train.modalities, similarity=S)
    chance = float(similar.mean())
    queries = model.encode("image", test.modalities["image"])
    assert mean_average_precision(queries, model.codes_["text"], test.labels, train.labels) > chance + 0.25


@settings(max_examples=8)
@given(seeds)
def test_incomplete_data_gives_the_same_codes_on_any_number_of_threads(seed: int) -> None:
    data = make_paired(80, n_labels=4, image_features=5, text_features=6, random_state=seed)
    rng = np.random.default_rng(seed)
    present = dict(zip(("image", "text"), random_masks(rng, 2, 80), strict=True))
    S = random_similarity(rng, 80)
    for options in ({"labels": data.labels, "labelled": rng.random(80) < 0.9}, {"similarity": S}):
        models = [
            DLFH(16, random_state=0, max_iter=4, n_jobs=n_jobs, hash_function="linear").fit(
                data.modalities, present=present, **options
            )
            for n_jobs in (1, 3)
        ]
        for name in ("image", "text"):
            np.testing.assert_array_equal(models[0].codes_[name], models[1].codes_[name])


N = 40


def holes(**changed: Any) -> dict[str, Any]:
    data = make_paired(N, n_labels=3, image_features=4, text_features=5, random_state=0)
    return {"modalities": data.modalities, "labels": data.labels} | changed


half = np.arange(N) < N // 2
some = np.full((N, N), np.nan)
some[3, 4] = 0.5
twice = sp.coo_array((np.ones(2), ([1, 1], [2, 2])), shape=(N, N))
BAD = [
    (holes(present={"image": half, "text": ~half}), "modalities 'image' and 'text' never overlap: no point has both"),
    (holes(present={"image": half, "text": half}), f"point {N // 2} has no modality"),
    (holes(present={"image": np.zeros(N, bool)}), "no point has the modality 'image'"),
    (holes(present={"sound": half}), "present has the modality 'sound'"),
    (holes(present={"text": np.arange(N)}), r"present\['text'\] must be a boolean array with an entry for each of 40"),
    (holes(present=half), "present must be a dict"),
    (holes(labelled=np.zeros(N, bool)), "labelled is False for every point"),
    (holes(labelled=half[:9]), "labelled must be a boolean array"),
    (
        holes(labels=np.where(half, 0, 1)[:, None] * np.ones((1, 2), int), labelled=half),
        "no labelled point has a label",
    ),
    (holes(present={"image": half}, labelled=~half), "no labelled point has the modality 'image'"),
    (holes(similarity=np.ones((N, N))), "pass either labels or similarity, not both"),
    (holes(labels=None, similarity=np.ones((N, 3))), r"similarity must have shape \(40, 40\).*got \(40, 3\)"),
    (holes(labels=None, similarity=sp.csr_array((3, 3))), r"similarity must have shape \(40, 40\)"),
    (holes(labels=None, similarity=some), "found 0.5 in row 3, column 4"),
    (holes(labels=None, similarity=np.full((N, N), np.nan)), "similarity has no observed entry"),
    (holes(labels=None, similarity=np.full((N, N), "x")), "similarity must hold 0 or 1 for observed pairs and NaN"),
    (holes(labels=None, similarity=twice), "similarity has duplicate entries for row 1, column 2"),
    (holes(labels=None), "DLFH learns from labels: pass labels"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[message[:40] for _, message in BAD])
def test_invalid_incomplete_data_raises_a_one_line_error(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        DLFH(8, random_state=0, hash_function="linear").fit(**arguments)
    assert "\n" not in str(caught.value)


def test_modalities_without_an_observed_pair_are_refused() -> None:
    S = np.full((N, N), np.nan)
    S[0, 1] = 1
    present = {"image": np.arange(N) > 0}
    with pytest.raises(InputError, match="no observed entry for modalities 'image' and 'text'"):
        DLFH(8, hash_function="linear").fit(holes()["modalities"], similarity=S, present=present)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({("image", "sound"): 1}, r"pair_weights names \('image', 'sound'\)"),
        ({("image", "text"): 0.5}, "must be an integer from 0 to 1000"),
        ({("image", "text"): 0}, "pair_weights gives weight 0 to every pair that includes modality 'image'"),
        ({"image": 1}, r'pair_weights must have keys such as \("image", "text"\), got \'image\''),
        (3, "pair_weights must be a dict"),
    ],
)
def test_invalid_pair_weights_raise_a_one_line_error(weights: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        DLFH(8, pair_weights=weights, hash_function="linear").fit(**holes())


def test_a_shared_code_needs_complete_data_and_labels() -> None:
    with pytest.raises(InputError, match="shared_code needs points that have every modality"):
        DLFH(8, shared_code=True, hash_function="linear").fit(**holes(present={"image": half}))
    with pytest.raises(InputError, match="shared_code learns from labels"):
        DLFH(8, shared_code=True, hash_function="linear").fit(**holes(labels=None, similarity=np.ones((N, N))))


@pytest.mark.parametrize("name", sorted(name for name, info in available().items() if not info.takes_incomplete))
def test_other_methods_do_not_accept_incomplete_data(name: str) -> None:
    for missing in ({"present": {"image": half}}, {"labelled": half}, {"similarity": np.ones((N, N))}):
        with pytest.raises(TypeError, match=next(iter(missing))):
            METHODS[name](8).fit(**holes(**missing))  # type: ignore[call-arg]
