"""The map shows all items, similar ones near each other."""

from __future__ import annotations

import numpy as np
import pytest

from dlfh.service.map import lay_out


def clusters(n: int, n_clusters: int, n_bits: int = 64) -> tuple[np.ndarray, np.ndarray]:
    """Return noisy copies of random codes, and the cluster of each."""
    rng = np.random.default_rng(3)
    centres = rng.choice([-1.0, 1.0], (n_clusters, n_bits))
    members = rng.integers(0, n_clusters, n)
    flips = rng.random((n, n_bits)) < 0.1
    return np.where(flips, -1, 1) * centres[members], members


def test_neighbours_on_the_map_share_a_cluster() -> None:
    codes, members = clusters(600, 20)
    places = lay_out(codes.astype(np.float32))
    distances = np.linalg.norm(places[:, None] - places, axis=2)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, :5]
    assert np.mean(members[nearest] == members[:, None]) > 0.9
    assert np.array_equal(places, lay_out(codes.astype(np.float32)))


@pytest.mark.parametrize("n", [0, 1, 2, 30, 31, 200])
@pytest.mark.parametrize("equal", [False, True])
def test_every_item_is_on_the_map(n: int, equal: bool) -> None:
    codes, _ = clusters(n, 3, 12)
    places = lay_out(np.ones_like(codes, np.float32) if equal else codes.astype(np.float32))
    assert places.shape == (n, 2)
    assert np.all(np.abs(places) <= 1 + 1e-9)
    assert n < 31 or len(np.unique(places, axis=0)) == n  # no two coincide


def test_a_single_bit_is_a_line() -> None:
    places = lay_out(np.tile([[1.0], [-1.0]], (10, 1)).astype(np.float32))
    assert set(map(tuple, places)) == {(1.0, 0.0), (-1.0, 0.0)}
