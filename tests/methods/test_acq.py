"""ACQ: co-quantization with one rotation per modality."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh import InputError
from dlfh._mathematics.centred import Centred
from dlfh._mathematics.rotation import iterative_quantization, random_rotation, signs
from dlfh.blocks.base import ArrayBlocks
from dlfh.codes import pack
from dlfh.datasets import make_paired
from dlfh.methods import ACQ
from dlfh.methods.acq import co_quantize
from dlfh.methods.ccaitq import correlated_embeddings
from tests.methods.small_data import small
from tests.strategies import seeds


@given(seeds, st.integers(1, 10), st.floats(0, 1))
def test_objective_never_increases(seed: int, c: int, coupling: float) -> None:
    rng = np.random.default_rng(seed)
    points = [rng.standard_normal((50, c)), rng.standard_normal((50, c))]
    rotations, history = co_quantize(points, random_rotation(c, rng), coupling, 15)
    assert np.all(np.diff(history) <= 1e-9 * history[0])
    rotated = [P @ R for P, R in zip(points, rotations, strict=True)]
    first, second = signs(rotated[0] + coupling * rotated[1]), signs(rotated[1] + coupling * rotated[0])
    expected: float = sum(np.sum((B - P) ** 2) for B, P in ((first, rotated[0]), (second, rotated[1])))
    expected += coupling * sum(np.sum((B - P) ** 2) for B, P in ((second, rotated[0]), (first, rotated[1])))
    assert history[-1] == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(5))
def test_one_rotation_per_modality_quantizes_better_than_a_shared_one(seed: int) -> None:
    data = make_paired(600, n_labels=8, image_features=20, text_features=40, random_state=seed)
    x, y = (Centred(matrix, name) for name, matrix in data.modalities.items())
    points = [view.times(A) for view, A in zip((x, y), correlated_embeddings(x, y, 12, 1e-4), strict=True)]
    start = random_rotation(12, np.random.default_rng(seed))
    rotations, _ = co_quantize(points, start, 1.0, 50)
    shared, _ = iterative_quantization([ArrayBlocks(np.concatenate(points), None, "points")], start, 50)

    def error(Rx: np.ndarray, Ry: np.ndarray) -> float:
        rotated = points[0] @ Rx, points[1] @ Ry
        B = signs(rotated[0] + rotated[1])
        return float(sum(np.sum((B - each) ** 2) for each in rotated))

    assert error(*rotations) <= error(shared, shared)


def test_unified_code_is_the_sign_of_the_summed_projections() -> None:
    data = small()
    model = ACQ(6, random_state=0).fit(data.modalities)
    projections = [model.project(name, data.modalities[name]) for name in ("image", "text")]
    np.testing.assert_array_equal(model.encode_unified(data.modalities), pack(projections[0] + projections[1]))
    with pytest.raises(InputError, match="coupling must be a number from 0 to 1"):
        ACQ(6, coupling=1.5).fit(data.modalities)
