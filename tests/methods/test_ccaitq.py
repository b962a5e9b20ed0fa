"""CCA-ITQ: quantization errors, and the points from which the rotation is learned."""

from __future__ import annotations

import numpy as np

from dlfh._mathematics.centred import Centred
from dlfh._mathematics.rotation import iterative_quantization, random_rotation, signs
from dlfh.blocks.base import ArrayBlocks
from dlfh.codes import unpack
from dlfh.methods import CCAITQ
from dlfh.methods.ccaitq import correlated_embeddings
from tests.methods.small_data import small


def test_quantization_error_never_increases() -> None:
    model = CCAITQ(12, random_state=0).fit(small().modalities)
    assert len(model.quantization_error_) == 52
    assert np.all(np.diff(model.quantization_error_) <= 1e-9 * model.quantization_error_[0])


def test_rotation_is_learned_from_the_first_modality_or_from_both() -> None:
    data = small()
    x, y = (Centred(matrix, name) for name, matrix in data.modalities.items())
    weights = correlated_embeddings(x, y, 5, 1e-4)
    start = random_rotation(5, np.random.default_rng(0))
    for rotation, points in (("first", [x.times(weights[0])]), ("both", [x.times(weights[0]), y.times(weights[1])])):
        R, _ = iterative_quantization([ArrayBlocks(np.concatenate(points), None, "points")], start, 51)
        model = CCAITQ(5, rotation=rotation, random_state=0).fit(data.modalities)  # type: ignore[arg-type]
        expected = signs(y.times(weights[1]) @ R)
        assert np.mean(unpack(model.codes_["text"], 5) == expected) > 0.995


def test_one_modality_is_embedded_by_its_principal_components() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3)) @ rng.normal(size=(3, 10)) + 1e-6 * rng.normal(size=(300, 10))
    model = CCAITQ(n_bits=3, random_state=0).fit({"image": X})
    # A rotation of three components preserves the distances of points that have no others.
    embedded = model.project("image", X).astype(np.float64)
    np.testing.assert_allclose(embedded @ embedded.T, (X - X.mean(0)) @ (X - X.mean(0)).T, atol=1e-3)
    assert CCAITQ(n_bits=16, random_state=0).fit({"image": X}).codes_["image"].shape == (300, 2)
