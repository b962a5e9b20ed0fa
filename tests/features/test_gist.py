"""GIST: laws of the descriptor, and agreement with a direct implementation."""

from __future__ import annotations

import numpy as np
import pytest

from dlfh.features import Gist

SIZE = 128


def gist(*pictures: np.ndarray) -> np.ndarray:
    """Return strengths by picture, scale, orientation, row and column."""
    return Gist().fit([]).transform(list(pictures)).reshape(len(pictures), 4, 8, 4, 4)


def cloudy(seed: int = 0) -> np.ndarray:
    """Return a random picture with the spectrum of photographs."""
    rng = np.random.default_rng(seed)
    radius = np.hypot(*np.meshgrid(*[np.fft.fftfreq(SIZE)] * 2))
    radius[0, 0] = 1
    picture = np.fft.ifft2(np.fft.fft2(rng.standard_normal((SIZE, SIZE))) / radius**1.2).real
    return np.clip((picture - picture.mean()) / picture.std() * 45 + 128, 0, 255).astype(np.uint8)


def grating(frequency: float, angle: float) -> np.ndarray:
    down, right = np.mgrid[:SIZE, :SIZE]
    wave = np.sin(2 * np.pi * frequency * (right * np.cos(angle) + down * np.sin(angle)))
    return np.rint(128 + 60 * wave).astype(np.uint8)


def direct_gist(picture: np.ndarray) -> np.ndarray:
    """Compute GIST filter by filter, in double precision, on the full grid."""

    def low_pass(image: np.ndarray) -> np.ndarray:
        cycles = np.fft.fftfreq(len(image)) * len(image)
        window = 2.0 ** (-(cycles[:, None] ** 2 + cycles[None, :] ** 2) / 16)
        return np.fft.ifft2(np.fft.fft2(image) * window).real

    image = np.pad(np.log(picture.astype(float) + 1), 5, mode="symmetric")
    image = image - low_pass(image)
    image = (image / (0.2 + np.sqrt(np.abs(low_pass(image**2)))))[5:-5, 5:-5]
    image = np.pad(image, 32, mode="symmetric")
    spectrum = np.fft.fft2(image)
    down, right = np.meshgrid(*[np.fft.fftfreq(len(image))] * 2, indexing="ij")
    waves = right + 1j * down
    strengths = np.empty((4, 8, 4, 4))
    for scale in range(4):
        for orientation in range(8):
            turned = np.angle(waves * np.exp(-1j * np.pi * orientation / 8))
            radius = np.abs(waves) * 1.85**scale / 0.3
            passed = np.exp(-3.5 * (radius - 1) ** 2 - 2 * np.pi * turned**2)
            response = np.abs(np.fft.ifft2(spectrum * passed))[32:-32, 32:-32]
            for row in range(4):
                for column in range(4):
                    block = response[32 * row : 32 * row + 32, 32 * column : 32 * column + 32]
                    strengths[scale, orientation, row, column] = block.mean()
    return strengths


def test_there_are_512_non_negative_numbers() -> None:
    vectors = Gist().fit([]).transform([cloudy()])
    assert vectors.shape == (1, 512)
    assert vectors.dtype == np.float32
    assert vectors.min() >= 0


@pytest.mark.parametrize("seed", range(3))
def test_it_agrees_with_the_direct_computation_on_photographs(seed: int) -> None:
    expected = direct_gist(cloudy(seed))
    (found,) = gist(cloudy(seed))
    assert np.linalg.norm(found - expected) < 0.006 * np.linalg.norm(expected)
    np.testing.assert_allclose(found, expected, rtol=0.05)


def test_it_agrees_with_the_direct_computation_on_line_art() -> None:
    picture = np.full((SIZE, SIZE), 255, np.uint8)
    picture[30:90, 40:60] = 0
    picture[100:104, :] = 0
    (found,) = gist(picture)
    expected = direct_gist(picture)
    assert np.linalg.norm(found - expected) < 0.02 * np.linalg.norm(expected)


@pytest.mark.parametrize("grey", [0, 100, 255])
def test_gist_of_one_colour_is_zero(grey: int) -> None:
    assert not gist(np.full((SIZE, SIZE), grey, np.uint8)).any()


def test_a_grating_responds_most_at_its_scale_and_orientation() -> None:
    for scale, orientation in np.ndindex(4, 8):
        (strengths,) = gist(grating(0.3 / 1.85**scale, np.pi / 8 * orientation)).mean(axis=(3, 4))
        assert np.unravel_index(strengths.argmax(), strengths.shape) == (scale, orientation)


def test_a_quarter_turn_shifts_orientations_by_four_and_rotates_the_grid() -> None:
    straight, turned = gist(cloudy(), np.rot90(cloudy()))
    expected = np.roll(np.rot90(straight, axes=(2, 3)), 4, axis=1)
    assert np.linalg.norm(turned - expected) < 0.01 * np.linalg.norm(expected)


def test_a_mirror_reverses_orientations_and_columns() -> None:
    straight, mirrored = gist(cloudy(), cloudy()[:, ::-1])
    expected = straight[:, -np.arange(8) % 8, :, ::-1]
    assert np.linalg.norm(mirrored - expected) < 0.01 * np.linalg.norm(expected)


def test_gist_is_nearly_invariant_to_brightness_and_contrast() -> None:
    picture = cloudy().astype(float)
    original, dimmed, flat = gist(*(each.astype(np.uint8) for each in (picture, picture * 0.7, 60 + picture * 0.6)))
    for changed in (dimmed, flat):
        cosine = np.vdot(original, changed) / np.linalg.norm(original) / np.linalg.norm(changed)
        assert cosine > 0.98


def test_a_local_change_affects_only_its_block() -> None:
    plain = np.full((SIZE, SIZE), 128, np.uint8)
    spotted = plain.copy()
    spotted[8:24, 8:24] = np.random.default_rng(0).integers(0, 256, (16, 16))
    (strengths,) = gist(spotted).mean(axis=(1, 2))
    assert strengths[0, 0] > 5 * np.delete(strengths.ravel(), 0).max()


def test_gist_is_nearly_invariant_to_image_size() -> None:
    picture = np.kron(cloudy()[::4, ::4], np.ones((4, 4), np.uint8))
    large = np.kron(picture, np.ones((3, 2), np.uint8))
    first, second = gist(picture, large)
    assert np.vdot(first, second) > 0.98 * np.linalg.norm(first) * np.linalg.norm(second)
