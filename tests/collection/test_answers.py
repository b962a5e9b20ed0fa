"""Results are drawn as a contact sheet and written as an HTML page with all text escaped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from dlfh import Collection, InputError
from dlfh.collection.answers import html_page, write_answers
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
    from dlfh.features.thumbnail import Thumbnail

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
