"""Laws of the discrete latent factor model."""

from __future__ import annotations

import dataclasses
import zlib
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.solver import (
    Columns,
    LabelRows,
    factorize,
    log_likelihood,
    random_start,
    update,
    update_shared,
)
from dlfh._kernels import ONE
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh.codes import pad_to_words, unpack
from tests.strategies import Problem, models, problems, seeds, tabulated_log_likelihood

kinds = st.sampled_from(["labels", "random"])


def rises(model: LatentFactorModel, change: np.ndarray) -> bool:
    """Return whether a change of the pair counts does not decrease the objective, by the tables exactly."""
    if model.step == "exact":
        return tabulated_log_likelihood(model, change) >= 0
    # A sum of few terms, exact to about 1e-16 of their size.
    terms = np.abs(change).sum() * (model.scale + abs(model.bias) + 1) * max(1.0, model.similar_weight)
    return model.log_likelihood(change) >= -1e-13 * terms


def rounding(model: LatentFactorModel, n_pairs: int) -> float:
    """Return the largest difference between the tabulated and the real objective."""
    return model.tabulated[1] * n_pairs if model.step == "exact" else 0.0


@given(problems(max_points=40), kinds)
def test_full_solver_never_decreases_the_objective_at_any_column_update(problem: Problem, kind: str) -> None:
    model, rows = problem.model, problem.rows(kind)
    codes = [pad_to_words(code) for code in problem.start(rows)]
    everything = np.arange(len(rows))
    with Workers(1) as workers:
        for _ in range(2):
            for a, b in ((0, 1), (1, 0)):
                columns = Columns.gather(rows, [everything], [rows.weights], [codes[b]])
                for k in range(model.n_bits):
                    before = rows.count_pairs(model.n_bits, (a, b), codes, workers)
                    update(model, codes[a], rows, columns, workers, bits=(k, k + 1))
                    change = rows.count_pairs(model.n_bits, (a, b), codes, workers) - before
                    assert rises(model, change)


@given(problems(max_points=25), kinds)
def test_full_solver_is_monotone_for_a_shared_code_at_any_column_update(problem: Problem, kind: str) -> None:
    model, rows = problem.model, problem.rows(kind)
    (codes,) = (pad_to_words(code) for code in problem.start(rows, 1))
    with Workers(1) as workers:
        for _ in range(2):
            for k in range(model.n_bits):
                counts = []
                for bits in (None, (k, k + 1)):
                    if bits:
                        update_shared(model, codes, rows, bits)
                    counts.append(rows.count_pairs(model.n_bits, (0, 0), [codes], workers))
                change = counts[1] - counts[0]
                assert rises(model, change)


@given(problems(max_points=25), st.integers(3, 4))
def test_full_solver_is_monotone_for_more_modalities(problem: Problem, n_modalities: int) -> None:
    rows = problem.rows("labels")
    with Workers(1) as workers:
        learned = factorize(
            problem.model,
            rows,
            problem.start(rows, n_modalities),
            max_iter=4,
            sample_size=None,
            rng=problem.rng,
            workers=workers,
            track_objective=True,
        )
    objective = np.array(learned.objective)
    slack = rounding(problem.model, n_modalities**2 * problem.labels.n_points**2)
    assert np.all(np.diff(objective) >= -1e-9 * np.abs(objective[:-1]) - slack)


@given(problems(), st.booleans())
def test_points_and_label_sets_give_identical_codes_from_the_same_start(problem: Problem, full: bool) -> None:
    sets, points = problem.rows("labels"), problem.rows("random")
    start = problem.start(sets, 2)
    sample_size = None if full else int(problem.rng.integers(1, problem.labels.n_points + 1))
    results = []
    with Workers(1) as workers:
        for rows, initial in ((sets, start), (points, [code[problem.labels.set_of_point] for code in start])):
            results.append(
                factorize(
                    problem.model,
                    rows,
                    initial,
                    max_iter=5,
                    sample_size=sample_size,
                    rng=np.random.default_rng(7),
                    workers=workers,
                    track_objective=True,
                )
            )
    by_set, by_point = results
    for modality in range(2):
        np.testing.assert_array_equal(by_set.codes_of_points(modality), by_point.codes_of_points(modality))
    np.testing.assert_allclose(by_set.objective, by_point.objective, rtol=1e-12)


@given(problems(), kinds)
def test_objective_is_equation_one(problem: Problem, kind: str) -> None:
    rows = problem.rows(kind)
    codes = problem.start(rows)
    with Workers(1) as workers:
        value = log_likelihood(problem.model, [pad_to_words(code) for code in codes], rows, workers)
    U, V = (unpack(code, problem.model.n_bits)[rows.row_of_point].astype(float) for code in codes)
    S = (problem.indicator.astype(int) @ problem.indicator.T.astype(int)) > 0
    Theta = problem.model.scale / problem.model.n_bits * U @ V.T + problem.model.bias
    weights = np.where(S, problem.model.similar_weight, 1.0)
    assert value == pytest.approx(np.sum(weights * (S * Theta - np.logaddexp(0, Theta))), rel=1e-9)


def test_objective_is_finite_for_extreme_scales() -> None:
    labels = LabelSets.from_labels([0, 1, 0, 1])
    rows = LabelRows.of_points(labels)
    for scale in (1e-300, 1e-4, 1e4, 1e300):
        codes = [pad_to_words(code) for code in random_start(len(rows), 2, 16, np.random.default_rng(0))]
        with Workers(1) as workers:
            assert np.isfinite(log_likelihood(LatentFactorModel(16, scale), codes, rows, workers))


@pytest.mark.parametrize(
    ("step", "sample_size", "checksums"),
    [
        ("bound", None, [1824947661, 2633640644]),
        ("bound", 100, [4106001575, 2156376224]),
        ("exact", None, [576902403, 1805992215]),
        ("exact", 100, [175883855, 3771838903]),
    ],
)
def test_codes_are_the_same_on_every_machine(step: Any, sample_size: int | None, checksums: list[int]) -> None:
    """Checksums from one machine: a difference means another model, or arithmetic that is not exact."""
    i, j = np.ogrid[:500, :11]
    labels = LabelSets.from_labels(((7 * i + 3 * j + i // 11) % 11 < 2 + i % 3).astype(np.int8))
    rows, rng = LabelRows.of_points(labels), np.random.default_rng(0)
    start = random_start(len(rows), 2, 24, rng)
    with Workers(2) as workers:
        learned = factorize(
            LatentFactorModel(24, 8.0, step), rows, start, max_iter=3, sample_size=sample_size, rng=rng, workers=workers
        )
    assert [zlib.crc32(codes.tobytes()) for codes in learned.codes] == checksums


@settings(max_examples=6)
@given(seeds, kinds, st.sampled_from(["bound", "exact"]))
def test_codes_do_not_depend_on_the_number_of_threads(seed: int, kind: str, step: Any) -> None:
    rng = np.random.default_rng(seed)
    labels = LabelSets.from_labels((rng.random((3000, 40)) < 0.1).astype(np.int8) | np.eye(3000, 40, dtype=np.int8))
    rows = LabelRows.of_label_sets(labels) if kind == "labels" else LabelRows.of_points(labels)
    results = []
    for n_jobs in (1, 2, 5):
        with Workers(n_jobs) as workers:
            generator = np.random.default_rng(seed)
            results.append(
                factorize(
                    LatentFactorModel.balanced(24, 8.0, step, 0.2),
                    rows,
                    random_start(len(rows), 2, 24, generator),
                    max_iter=2,
                    sample_size=700,
                    rng=generator,
                    workers=workers,
                )
            )
    for other in results[1:]:
        for ours, theirs in zip(results[0].codes, other.codes, strict=True):
            np.testing.assert_array_equal(ours, theirs)


@given(models(steps=("bound",)))
def test_residuals_of_the_bound_are_within_half_a_unit(model: LatentFactorModel) -> None:
    sigmoid = 1 / (1 + np.exp(-model.theta(np.arange(model.n_bits + 1))))
    exact = model.tables.kind_weights[:, None] * np.stack([-sigmoid, 1 - sigmoid])
    assert np.all(np.abs(model.tables.residuals.reshape(2, -1) / ONE - exact) <= 0.5 / ONE * (1 + 1e-9))


@given(models(steps=("exact",)))
def test_tabulated_objective_is_within_half_a_unit_per_pair(model: LatentFactorModel) -> None:
    table, unit = model.tabulated
    exact = model.log_likelihoods(np.arange(-1, model.n_bits + 2))
    assert np.all(np.abs(table * unit - exact) <= 0.5 * unit * (1 + 1e-9))
    assert np.abs(model.tables.residuals).max() <= ONE


@given(problems(max_points=25), kinds, st.booleans())
def test_exact_steps_flip_a_bit_if_and_only_if_the_objective_increases(
    problem: Problem, kind: str, shared: bool
) -> None:
    model, rows = dataclasses.replace(problem.model, step="exact"), problem.rows(kind)
    codes = [pad_to_words(code) for code in problem.start(rows, 1 if shared else 2)]
    everything = np.arange(len(rows))
    with Workers(1) as workers:

        def objective() -> int:
            return tabulated_log_likelihood(model, rows.count_pairs(model.n_bits, (0, len(codes) - 1), codes, workers))

        for i in range(len(rows)):
            k = int(problem.rng.integers(model.n_bits))
            before = objective()
            codes[0][i, k >> 3] ^= 1 << (7 - (k & 7))
            after = objective()
            codes[0][i, k >> 3] ^= 1 << (7 - (k & 7))
            start = codes[0].copy()
            if shared:
                update_shared(model, codes[0], rows, (k, k + 1))
            else:
                columns = Columns.gather(rows, [everything], [rows.weights], [codes[1]])
                update(model, codes[0], rows, columns, workers, bits=(k, k + 1))
            # Rows of a shared code are updated in turn; only the first sees the others unchanged.
            if not shared or i == 0:
                assert (codes[0][i] != start[i]).any() == (after > before)
            codes[0][:] = start


@given(problems(max_points=25), kinds, st.booleans(), st.integers(2, 3))
def test_no_single_flip_improves_a_fixed_point_of_exact_steps(
    problem: Problem, kind: str, shared: bool, n_modalities: int
) -> None:
    model, rows = dataclasses.replace(problem.model, step="exact"), problem.rows(kind)
    with Workers(1) as workers:
        learned = factorize(
            model,
            rows,
            problem.start(rows, 1 if shared else n_modalities),
            max_iter=10_000,
            sample_size=None,
            rng=problem.rng,
            workers=workers,
        )
        assert learned.flips[-1] == 0

        def objective(codes: list[np.ndarray]) -> int:
            pairs = [(a, b) for b in range(len(codes)) for a in range(b)] or [(0, 0)]
            counts = sum(rows.count_pairs(model.n_bits, pair, codes, workers) for pair in pairs)
            return tabulated_log_likelihood(model, np.asarray(counts))

        codes = [pad_to_words(code) for code in learned.codes]
        best = objective(codes)
        for _ in range(20):
            a, i = int(problem.rng.integers(len(codes))), int(problem.rng.integers(len(rows)))
            k = int(problem.rng.integers(model.n_bits))
            codes[a][i, k >> 3] ^= 1 << (7 - (k & 7))
            assert objective(codes) <= best
            codes[a][i, k >> 3] ^= 1 << (7 - (k & 7))


def test_full_solver_stops_at_a_fixed_point() -> None:
    rng = np.random.default_rng(0)
    rows = LabelRows.of_label_sets(LabelSets.from_labels(rng.integers(0, 6, 200)))
    model = LatentFactorModel(32, 4.0)
    with Workers(1) as workers:
        first = factorize(
            model, rows, random_start(len(rows), 2, 32, rng), max_iter=500, sample_size=None, rng=rng, workers=workers
        )
        again = factorize(model, rows, first.codes, max_iter=3, sample_size=None, rng=rng, workers=workers)
    assert len(first.flips) < 500
    assert first.flips[-1] == 0
    assert again.flips == [0]


def test_early_stopping_ends_the_stochastic_solver_when_nothing_changes() -> None:
    rng = np.random.default_rng(0)
    rows = LabelRows.of_label_sets(LabelSets.from_labels(rng.integers(0, 3, 200)))
    with Workers(1) as workers:
        learned = factorize(
            LatentFactorModel(64, 8.0),
            rows,
            random_start(len(rows), 2, 64, rng),
            max_iter=1000,
            sample_size=100,
            rng=rng,
            workers=workers,
            early_stopping=True,
        )
    assert len(learned.flips) < 1000
    assert learned.flips[-1] == 0


def test_initial_codes_are_not_modified() -> None:
    rng = np.random.default_rng(0)
    rows = LabelRows.of_points(LabelSets.from_labels(rng.integers(0, 3, 50)))
    initial = random_start(len(rows), 2, 64, rng)
    kept = [code.copy() for code in initial]
    with Workers(1) as workers:
        factorize(LatentFactorModel(64, 8.0), rows, initial, max_iter=3, sample_size=50, rng=rng, workers=workers)
    for code, copy in zip(initial, kept, strict=True):
        np.testing.assert_array_equal(code, copy)


def test_similar_points_get_close_codes_and_others_distant_ones() -> None:
    rng = np.random.default_rng(3)
    classes = rng.integers(0, 5, 300)
    rows = LabelRows.of_points(LabelSets.from_labels(classes))
    with Workers(1) as workers:
        learned = factorize(
            LatentFactorModel(64, 8.0),
            rows,
            random_start(len(rows), 2, 64, rng),
            max_iter=30,
            sample_size=64,
            rng=rng,
            workers=workers,
        )
    U, V = (unpack(learned.codes_of_points(m), 64).astype(int) for m in range(2))
    agreement = U @ V.T
    same = classes[:, None] == classes
    assert agreement[same].min() > 0 > agreement[~same].max()
