"""Results are drawn as a contact sheet and written as an HTML page with all text escaped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from dlfh import Collection, InputError
from dlfh.collection.pictures import contact_sheet, html_page, write_answers
from dlfh.collection.query import ResultItem, SearchResult


class Shop:
    """The parts of a collection that drawing needs."""

    class encoder:  # noqa: N801
        modalities_ = ("image", "text")

        @staticmethod
        def image_modalities() -> tuple[str, ...]:
            return ("image",)

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def image_path(self, metadata: dict[str, str]) -> Path | None:
        return self.folder / metadata["image"] if "image" in metadata else None


def answers(folder: Path, result: SearchResult, title: str, image: Path | None = None) -> tuple[int, str]:
    missing = write_answers(Shop(folder), result, title, folder / "found.png", image=image)  # type: ignore[arg-type]
    return missing, (folder / "found.html").read_text(encoding="utf-8")


def test_the_page_shows_ranks_ids_and_texts_in_full(tmp_path: Path) -> None:
    Image.fromarray(np.full((40, 80, 3), 120, np.uint8)).save(tmp_path / "a.png")
    name = "folder/" * 30 + '<img src="http://elsewhere/x.png">.png'
    items = [
        ResultItem(1, name, {"image": "a.png", "text": "<script>alert(1)</script>", "labels": ["x&y"]}, 0.75),
        ResultItem(2, "gone", {"image": "gone.png"}),
        ResultItem(3, "words", {"text": "no image"}),
    ]
    missing, page = answers(tmp_path, SearchResult(items), 'text: "red"', tmp_path / "a.png")
    assert missing == 2
    assert page.count("<figure") == 4
    assert page.count("<img") == page.count('src="data:image/jpeg;base64,') == 2
    assert "<script" not in page
    assert "folder/" * 30 + "&lt;img src=&quot;http:" in page
    assert "75% · x&amp;y" in page
    with Image.open(tmp_path / "found.png") as sheet:
        assert sheet.width == 8 + 4 * 200


def test_the_sheet_shows_the_query_ranks_ids_and_texts(tmp_path: Path) -> None:
    Image.fromarray(np.full((40, 80, 3), 120, np.uint8)).save(tmp_path / "a.png")

    def drawn(rank: int, name: str, text: str, asked: Path | None = None) -> bytes:
        item = ResultItem(rank, name, {"image": "a.png", "text": text})
        answers(tmp_path, SearchResult([item]), "red", asked)
        return (tmp_path / "found.png").read_bytes()

    first = drawn(1, "one", "a car")
    assert first == drawn(1, "one", "a car")
    others = drawn(7, "one", "a car"), drawn(1, "two", "a car"), drawn(1, "one", "a dog")
    assert len({first, *others, drawn(1, "one", "a car", tmp_path / "a.png")}) == 5


def test_a_result_without_images_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to draw"):
        answers(tmp_path, SearchResult([ResultItem(1, "a", {})]), "text: red")


def test_notebooks_show_a_collection_as_a_table(items: object, photos: Path, tmp_path: Path) -> None:
    from dlfh import DLFH, Encoder
    from dlfh.features import BagOfWords
    from dlfh.features.combined import Thumbnail

    encoder = Encoder(
        {"image": Thumbnail(), "text": BagOfWords()}, DLFH(n_bits=16, random_state=0, hash_function="linear")
    )
    with Collection.build(tmp_path / "<shop>", items, encoder).collection as collection:  # type: ignore[arg-type]
        shown = collection._repr_html_()
        assert "&lt;shop&gt;: 40 items, 16 bits, DLFH" in shown
        assert "<td>image</td><td>37</td><td>1</td>" in shown
    assert "closed" in collection._repr_html_()


def test_the_page_loads_nothing_from_other_hosts() -> None:
    page = html_page("</title><script>", "<p>body</p>")
    assert "default-src &#x27;none&#x27;" in page
    assert "<script" not in page
    assert "http:" not in page
    assert "https:" not in page
    assert "//" not in page
    assert "url(" not in page


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
