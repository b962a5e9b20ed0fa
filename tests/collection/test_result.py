"""What a search finds prints, is taken apart, and becomes JSON."""

from __future__ import annotations

import json

from dlfh.collection import ResultItem, SearchResult


def test_what_is_found_prints_and_comes_apart() -> None:
    items = [ResultItem(rank, f"{rank}.png", 3 * rank, 0.5 * rank, rank > 2, {"text": "x"}) for rank in range(1, 5)]
    found = SearchResult(items)
    assert found[0].rank == 1
    assert found[:2].ids == found.ids[:2]
    assert [item.id for item in found] == found.ids
    assert str(found).splitlines()[2] == "3. 3.png (9 bits apart, learned)"
    assert repr(found) == "SearchResult(4 items: '1.png', '2.png', '3.png', ...)"
    assert (str(found[:0]), repr(found[:0])) == ("nothing found", "SearchResult(0 items)")
    assert json.loads(json.dumps(found.to_dicts()))[3]["id"] == found[3].id
    assert found == SearchResult(items)
    assert found != found[:2]
    assert found != items


def test_what_is_found_shows_itself_in_notebooks() -> None:
    metadata = {"text": "a & b", "labels": ["x", "y"], "columns": {"price": 3}}
    found = SearchResult([ResultItem(1, "<b>", 3, 1.25, False, metadata, 0.875, 12)])
    assert str(found) == "1. <b> (88% probable, 3 bits apart, hashed, one of 12 equals)"
    for cell in ("&lt;b&gt;", "88%", "12", "3", "hashed", "a &amp; b | x, y"):
        assert f"<td>{cell}</td>" in found._repr_html_()
    assert "nothing found" in found[:0]._repr_html_()
