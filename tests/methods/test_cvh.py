"""CVH: directions minimise the objective."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

from dlfh import InputError
from dlfh._mathematics.correlation import Whitening, canonical_directions
from dlfh._mathematics.rotation import signs
from dlfh.codes import unpack
from dlfh.methods import CVH
from tests.methods.small_data import centred, small, unit_labels


def test_cvh_with_pairs_equals_cca() -> None:
    data = small()
    X, Y = centred(data)
    expected = canonical_directions(Whitening(X.T @ X, 1e-4), Whitening(Y.T @ Y, 1e-4), X.T @ Y)
    model = CVH(5, similarity="pairs").fit(data.modalities)
    for name, projected in (("image", X @ expected.x[:, :5]), ("text", Y @ expected.y[:, :5])):
        agreement = np.abs(np.mean(signs(projected) * unpack(model.codes_[name], 5), axis=0))
        assert np.all(agreement > 0.98)


def test_directions_minimise_the_dense_objective() -> None:
    data = small(2)
    views = [*centred(data), centred(data)[0] ** 2]
    views[2] -= views[2].mean(axis=0)
    modalities = data.modalities | {"squares": views[2]}
    W = unit_labels(data) @ unit_labels(data).T
    D = np.diag(W.sum(axis=1))
    blocks = [
        [X.T @ (2 * (D - W) + 2 * D) @ X if X is Z else -X.T @ W @ Z for Z in views] for X in views
    ]  # K = 3 views
    constraint = scipy.linalg.block_diag(*[X.T @ X + 1e-4 * np.eye(X.shape[1]) for X in views])
    _, vectors = scipy.linalg.eigh(np.block(blocks), constraint)
    model = CVH(3, similarity="labels").fit(modalities, data.labels)
    stacked = np.concatenate([model.hash_functions_[name].weights for name in modalities])  # type: ignore[attr-defined]
    cosines = np.sum(stacked * vectors[:, :3], axis=0) / (
        np.linalg.norm(stacked, axis=0) * np.linalg.norm(vectors[:, :3], axis=0)
    )
    np.testing.assert_allclose(np.abs(cosines), 1, atol=1e-4)


@pytest.mark.parametrize("similarity", ["pairs", "labels"])
def test_bits_beyond_the_correlated_directions_are_constant(similarity: Any) -> None:
    rng = np.random.default_rng(0)
    data = small(1)
    X, Y = centred(data)
    views = {"image": X[:, :4] @ rng.standard_normal((4, 6)), "text": Y[:, :5] @ rng.standard_normal((5, 7))}
    model = CVH(12, similarity=similarity).fit(views, data.labels)
    for name in views:
        varying = np.ptp(unpack(model.codes_[name], 12), axis=0) > 0
        assert varying[:3].all()
        assert not varying[4:].any()


def test_labels_are_required_for_label_similarity() -> None:
    with pytest.raises(InputError, match="CVH learns from labels: pass labels to fit"):
        CVH(4, similarity="labels").fit(small().modalities)
