"""SCM: directions of the similarity matrix, all at once or bit by bit."""

from __future__ import annotations

import numpy as np

from dlfh._mathematics.centred import Centred
from dlfh._mathematics.correlation import Whitening, canonical_directions
from dlfh._mathematics.rotation import signs
from dlfh.codes import unpack
from dlfh.methods import SCM
from tests.methods.small_data import centred, small, unit_labels


def test_orthogonal_directions_equal_those_of_the_dense_similarity_matrix() -> None:
    data = small()
    X, Y = centred(data)
    S = 2 * unit_labels(data) @ unit_labels(data).T - 1
    expected = canonical_directions(Whitening(X.T @ X, 1e-6), Whitening(Y.T @ Y, 1e-6), X.T @ S @ Y)
    model = SCM(3, variant="orthogonal").fit(data.modalities, data.labels)
    for name, directions in (("image", expected.x), ("text", expected.y)):
        ours = model.hash_functions_[name].weights  # type: ignore[attr-defined]
        cosines = np.sum(ours * directions[:, :3], axis=0) / (
            np.linalg.norm(ours, axis=0) * np.linalg.norm(directions[:, :3], axis=0)
        )
        np.testing.assert_allclose(np.abs(cosines), 1, atol=1e-4)


def test_each_sequential_bit_is_learned_from_the_residual_similarity() -> None:
    data = small(1)
    X, Y = centred(data)
    n_bits = 16
    residual = n_bits * (2 * unit_labels(data) @ unit_labels(data).T - 1)
    whitening = Whitening(X.T @ X, 1e-6), Whitening(Y.T @ Y, 1e-6)
    model = SCM(n_bits).fit(data.modalities, data.labels)
    for bit in range(4):
        top = canonical_directions(*whitening, X.T @ residual @ Y).first(1)
        u, v = np.sign(X @ top.x), np.sign(Y @ top.y)
        residual = residual - u @ v.T
        for name, expected in (("image", u), ("text", v)):
            ours = unpack(model.codes_[name], n_bits)[:, bit]
            assert abs(np.mean(ours * expected[:, 0])) > 0.97, (bit, name)


def test_uninformative_labels_give_the_directions_of_the_pairs() -> None:
    data = small()
    model = SCM(4).fit(data.modalities, np.zeros(len(data), int))
    x, y = (Centred(matrix, name) for name, matrix in data.modalities.items())
    plain = canonical_directions(Whitening(x.gram, 1e-6), Whitening(y.gram, 1e-6), x.cross(y)).first(4)
    agreement = np.abs(np.mean(signs(x.times(plain.x[:, ::-1])) * unpack(model.codes_["image"], 4), axis=0))
    assert np.all(agreement > 0.98)
