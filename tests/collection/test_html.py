"""HTML is escaped, whole, and asks no other host."""

from __future__ import annotations

from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from dlfh.collection.html import html_page, html_table


class Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words += data


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30))
def test_words_are_words_whatever_they_are(words: str) -> None:
    cells = Cells()
    cells.feed(html_table(["id"], [[words]]))
    cells.close()
    assert cells.tags == ["table", "thead", "tr", "th", "tbody", "tr", "td"]
    assert cells.words == "id" + words


def test_a_page_loads_nothing_from_elsewhere() -> None:
    page = html_page("</title><script>", "<p>body</p>")
    assert "default-src &#x27;none&#x27;" in page
    assert "<script" not in page
    assert "http:" not in page
    assert "https:" not in page
    assert "//" not in page
    assert "url(" not in page
