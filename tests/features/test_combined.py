"""Combined image descriptors."""

from __future__ import annotations

import numpy as np
import pytest

from dlfh.features import CombinedImage
from dlfh.features.hog import Hog
from dlfh.features.thumbnail import Thumbnail
from tests.features.examples import PICTURES


def test_parts_are_the_single_descriptors_scaled_to_equal_variance() -> None:
    combined = CombinedImage(("hog", "thumbnail")).fit(PICTURES)
    blocks = np.split(combined.transform(PICTURES), [512], axis=1)
    for block, scale, part in zip(blocks, combined.scales_, (Hog(), Thumbnail()), strict=True):
        assert block.var(axis=0).sum() == pytest.approx(1, rel=1e-4)
        np.testing.assert_allclose(block, scale * part.fit([]).transform(PICTURES), rtol=1e-6)


def test_equal_images_yield_finite_features() -> None:
    assert np.isfinite(CombinedImage().fit_transform([PICTURES[0]] * 3)).all()
