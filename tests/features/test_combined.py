"""Image descriptors: effects of contrast and rotation on HOG, and scales of combined ones."""

from __future__ import annotations

import numpy as np
import pytest

from dlfh.features import CombinedImage
from dlfh.features.combined import Hog, Thumbnail
from tests.features.examples import PICTURES


def test_parts_are_the_single_descriptors_scaled_to_equal_variance() -> None:
    combined = CombinedImage(("hog", "thumbnail")).fit(PICTURES)
    blocks = np.split(combined.transform(PICTURES), [512], axis=1)
    for block, scale, part in zip(blocks, combined.scales_, (Hog(), Thumbnail()), strict=True):
        assert block.var(axis=0).sum() == pytest.approx(1, rel=1e-4)
        np.testing.assert_allclose(block, scale * part.fit([]).transform(PICTURES), rtol=1e-6)


def test_equal_images_yield_finite_features() -> None:
    assert np.isfinite(CombinedImage().fit_transform([PICTURES[0]] * 3)).all()


def test_hog_of_one_colour_is_zero_and_contrast_hardly_matters() -> None:
    ramp = np.tile(np.linspace(0.2, 0.8, 64), (64, 1)) + 0.1 * np.sin(np.arange(64) / 2)[:, None]
    hog = Hog().fit([])
    assert not hog.transform([np.full((64, 64), 0.4)]).any()
    full, faint = hog.transform([np.clip(ramp, 0, 1), np.clip(ramp * 0.7, 0, 1)])
    assert full @ faint > 0.98 * np.linalg.norm(full) * np.linalg.norm(faint)


def test_rotating_an_image_rotates_its_hog() -> None:
    picture = np.random.default_rng(1).integers(0, 256, (64, 64), np.uint8)
    hog = Hog().fit([])
    straight, turned = hog.transform([picture, np.rot90(picture)]).reshape(2, 8, 8, 8)
    expected = np.roll(np.rot90(straight), 4, axis=2)  # a quarter turn is four of eight directions
    np.testing.assert_allclose(turned, expected, atol=1e-5)
