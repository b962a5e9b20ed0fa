"""MLBE: monotone log-posterior, and recovery of planted codes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dlfh import InputError
from dlfh._labels import LabelSets
from dlfh._parallel import Workers
from dlfh.codes import unpack
from dlfh.datasets import make_paired
from dlfh.methods import MLBE
from dlfh.methods.mlbe import Posterior, start_codes
from tests.methods.small_data import small
from tests.strategies import seeds


def planted(seed: int, n: int, n_bits: int, noise: float) -> tuple[list[np.ndarray], LabelSets, np.ndarray]:
    """Return noisy similarities of random codes, labels that identify equal codes, and the codes."""
    rng = np.random.default_rng(seed)
    U = rng.choice([-1, 1], (n, n_bits))
    W = np.diag(1 + rng.random(n_bits)) / n_bits
    similarities = []
    for _ in range(2):
        errors = noise * rng.standard_normal((n, n))
        similarities.append((U @ W @ U.T + (errors + errors.T) / 2).astype(np.float32))
    return similarities, LabelSets.from_labels(U @ 2 ** np.arange(n_bits)), U


def start(similarities: list[np.ndarray], n_bits: int, seed: int, kind: str = "spectral") -> list[np.ndarray]:
    return start_codes(similarities, n_bits, kind, np.random.default_rng(seed))


@settings(max_examples=15)
@given(seeds, st.integers(2, 40), st.integers(1, 10), st.floats(0.1, 0.9), st.floats(1, 5), st.floats(0.01, 10))
def test_log_posterior_never_decreases(
    seed: int, n: int, n_bits: int, bit_prior: float, shape: float, rate: float
) -> None:
    similarities, labels, _ = planted(seed, n, n_bits, 0.3)
    priors: Any = {"bit_prior": bit_prior, "shape": shape, "rate": rate}
    with Workers(1) as workers:
        codes = start(similarities, n_bits, seed, "random" if seed % 2 else "spectral")
        posterior = Posterior(similarities, labels, codes, workers, MLBE(**priors))
        history = posterior.ascend(6, 0.0)
    assert np.all(np.diff(history) >= -1e-6 * np.maximum(np.abs(history[:-1]), 1))


def test_log_posterior_equals_the_dense_formula() -> None:
    similarities, labels, _ = planted(0, 20, 4, 0.3)
    with Workers(1) as workers:
        posterior = Posterior(similarities, labels, start(similarities, 4, 0, "random"), workers, MLBE())

        def dense_formula() -> float:
            U, V = (view.codes.astype(np.float64) for view in posterior.views)
            S = labels.similar(labels.set_of_point, labels.set_of_point)
            theta = posterior.link * U @ V.T
            value = np.sum(S * theta - np.logaddexp(0, theta))
            value -= posterior.link**2 / (2 * posterior.phi) + np.log(posterior.phi) / 2 + 1 / posterior.phi
            for view in posterior.views:
                error = view.S - view.codes.astype(np.float64) @ view.W @ view.codes.T
                value -= np.sum(error**2) / (4 * view.theta) + 400 / 4 * np.log(view.theta) + 1 / view.theta
                value -= np.sum(view.W**2) / (4 * view.phi) + 16 / 4 * np.log(view.phi) + 1 / view.phi
                value += view.codes.size * np.log(0.5)
            return float(value)

        assert posterior.log_posterior() == pytest.approx(dense_formula(), rel=1e-5, abs=1e-3)
        posterior.ascend(3, 0.0)
        assert posterior.log_posterior() == pytest.approx(dense_formula(), rel=1e-5, abs=1e-3)


@pytest.mark.parametrize("n_bits", [2, 4, 6])
@pytest.mark.parametrize("seed", range(3))
def test_mlbe_recovers_planted_codes(seed: int, n_bits: int) -> None:
    similarities, labels, U = planted(seed, 200, n_bits, 0.2)
    with Workers(1) as workers:
        runs = []
        for restart in range(4):
            posterior = Posterior(similarities, labels, start(similarities, n_bits, restart), workers, MLBE())
            runs.append((posterior.ascend(30, 1e-2)[-1], restart, posterior))
    _, _, best = max(runs)
    for view in best.views:
        # Bits are recovered up to order and sign.
        agreement = np.abs(view.codes.T @ U) / len(U)
        assert agreement.max(axis=0).min() > 0.99


def test_training_on_a_sample_encodes_the_other_points() -> None:
    data = make_paired(300, n_labels=4, noise=1.0, random_state=0)
    model = MLBE(8, n_train=100, max_iter=5, random_state=0).fit(data.modalities, data.labels)
    assert model.codes_["image"].shape == (300, 1)
    encoded = model.encode("image", data.modalities["image"])
    assert (model.codes_["image"] == encoded).all(axis=1).sum() >= 200


def test_error_reports_the_memory_needed() -> None:
    data = small()
    with pytest.raises(InputError, match="MLBE on 150 points needs"):
        MLBE(8, memory=1000).fit(data.modalities, data.labels)


def test_sweep_encoding_follows_the_bit_rule() -> None:
    data = small()
    model = MLBE(6, encoding="sweep", max_iter=5, random_state=0).fit(data.modalities, data.labels)
    function: Any = model.hash_functions_["image"]
    K = function.kernel(data.modalities["image"][:20])
    for values, code in zip(K, unpack(model.encode("image", data.modalities["image"][:20]), 6), strict=True):
        u = function.start.astype(np.float64)
        for k in range(6):
            errors = []
            for bit in (1, -1):
                u[k] = bit
                errors.append(np.sum((values - function.embedded @ u) ** 2))
            u[k] = 1 if errors[0] < errors[1] else -1
        np.testing.assert_array_equal(u, code)
