"""Label probabilities in bytes."""

from __future__ import annotations

import numpy as np
import pytest

from dlfh._probabilities.quantizer import N_CENTROIDS, LabelQuantizer


def probabilities(n: int, n_labels: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.beta(0.2, 1.0, (n, n_labels)).astype(np.float32)


@pytest.mark.parametrize(("n_labels", "n_bytes"), [(1, 1), (3, 8), (10, 4), (40, 2)])
def test_tables_score_the_decoded_probabilities(n_labels: int, n_bytes: int) -> None:
    items, queries = probabilities(700, n_labels), probabilities(5, n_labels, 1)
    quantizer = LabelQuantizer.fit(items, 8 * n_bytes, 0)
    codes = quantizer.encode(items)
    assert codes.shape == (700, n_bytes)
    tables = quantizer.tables(queries[:, None, :] * quantizer.centroids**2)
    scores = sum(tables[:, byte, codes[:, byte]] for byte in range(n_bytes))
    np.testing.assert_allclose(scores, queries @ quantizer.decode(codes).T, rtol=1e-4, atol=1e-6)


def test_few_distinct_points_are_stored_exactly() -> None:
    items = (probabilities(900, 6) > 0.3).astype(np.float32)
    quantizer = LabelQuantizer.fit(items, 16, 0)
    np.testing.assert_array_equal(quantizer.decode(quantizer.encode(items)), items)


def test_more_bytes_lose_less() -> None:
    items = probabilities(3000, 24)
    errors = []
    for n_bytes in (1, 4, 12, 24):
        quantizer = LabelQuantizer.fit(items, 8 * n_bytes, 0)
        errors.append(np.abs(quantizer.decode(quantizer.encode(items)) - items).mean())
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 0.01


def test_groups_differ_by_one_label_at_most() -> None:
    sizes = np.bincount(LabelQuantizer.fit(probabilities(400, 43), 64, 0).group)
    assert len(sizes) == 8
    assert sizes.max() - sizes.min() <= 1


def test_each_point_has_its_nearest_centroid() -> None:
    items = probabilities(1000, 5)
    quantizer = LabelQuantizer.fit(items, 8, 0)
    distances = np.linalg.norm(np.sqrt(items)[:, None] - quantizer.centroids, axis=2)
    chosen = distances[np.arange(1000), quantizer.encode(items)[:, 0]]
    np.testing.assert_allclose(chosen, distances.min(axis=1), atol=1e-3)
    assert quantizer.centroids.shape == (N_CENTROIDS, 5)


@pytest.mark.parametrize("n_bits", [1, 5, 12, 20])
def test_unused_bits_are_zero_as_in_codes(n_bits: int) -> None:
    items = probabilities(700, 10)
    quantizer = LabelQuantizer.fit(items, n_bits, 0)
    codes = quantizer.encode(items)
    assert not np.unpackbits(codes, axis=1)[:, n_bits:].any()
    nearest = LabelQuantizer(8 * codes.shape[1], quantizer.group, quantizer.centroids)  # no bit is unused
    np.testing.assert_array_equal(quantizer.decode(codes), nearest.decode(nearest.encode(items)))
    assert len(np.unique(codes[:, -1])) > 1
