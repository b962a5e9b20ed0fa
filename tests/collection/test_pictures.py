"""Contact sheets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dlfh import InputError
from dlfh.collection.pictures import contact_sheet


def test_images_are_arranged_in_rows_in_order() -> None:
    greys = [np.full((5, 5), grey, np.uint8) for grey in (10, 60, 110, 160, 210)]
    sheet = np.asarray(contact_sheet(greys, columns=3, size=20))
    assert sheet.shape == (8 + 2 * 28, 8 + 3 * 28, 3)
    centres = [sheet[18 + 28 * (n // 3), 18 + 28 * (n % 3), 0] for n in range(5)]
    assert centres == [10, 60, 110, 160, 210]
    assert sheet[46, 74, 0] == 255  # there is no sixth image


@given(st.lists(st.text(max_size=30), min_size=1, max_size=5), st.integers(1, 4), st.text(max_size=40))
def test_any_caption_can_be_drawn(captions: list[str], columns: int, title: str) -> None:
    pictures = [np.zeros((3, 9))] * len(captions)
    with_words = contact_sheet(pictures, captions, columns=columns, title=title, size=32)
    assert with_words.width == contact_sheet(pictures, columns=columns, size=32).width


def test_long_captions_are_cut_to_the_width_of_the_image() -> None:
    white = np.ones((4, 4))
    sheet = np.asarray(contact_sheet([white, white], ["m" * 200, ""], size=40))
    assert (sheet[:, :48] < 128).any()
    assert not (sheet[:, 49:] < 128).any()


def test_aspect_ratios_are_kept_and_broken_images_are_crossed_boxes() -> None:
    sheet = np.asarray(contact_sheet([np.zeros((10, 40)), b"broken"], size=40))
    assert not sheet[28, 8:48].any()
    assert (sheet[10, 8:48] == 255).all()
    assert (sheet[:, 56:96] < 200).any()


def test_a_sheet_without_images_is_empty() -> None:
    assert np.asarray(contact_sheet([])).min() == 255


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"captions": ["a"]}, "captions has 1 entries but images has 2"),
        ({"columns": 0}, "columns"),
        ({"size": 1}, "size"),
    ],
)
def test_invalid_arguments_raise_input_errors(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        contact_sheet([np.zeros((3, 3))] * 2, **options)
