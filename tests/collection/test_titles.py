"""Every item has a title in one line: a chosen column, or else its text, or else its id."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.collection.titles import Titles
from dlfh.datasets import Items
from dlfh.errors import InputError
from dlfh.features import BagOfWords


@pytest.mark.parametrize(
    ("column", "metadata", "title"),
    [
        (None, {"text": "a red\n shoe", "columns": {"price": 3}}, "a red shoe"),
        (None, {"text": "a red shoe", "columns": {"name": "Runner"}}, "Runner"),
        (None, {"text": "a red shoe", "columns": {"name": "Runner", "title": "Run"}}, "Run"),
        ("sku", {"text": "a red shoe", "columns": {"sku": 17.0, "title": "Run"}}, "17.0"),
        ("text", {"text": "a red shoe", "columns": {"title": "Run"}}, "a red shoe"),
        ("sku", {"text": "a red shoe", "columns": {"sku": " "}}, "a red shoe"),
        (None, {"text": "  "}, "id 1"),
        (None, None, "id 1"),
        (None, {"text": "x" * 300}, "x" * 199 + "…"),
    ],
)
def test_titles(column: str | None, metadata: dict[str, Any] | None, title: str) -> None:
    assert Titles(["text"], column)("id 1", metadata) == title


def test_the_choice_is_kept_with_the_collection_and_its_copies(tmp_path: Path) -> None:
    items = Items.of({"english": ["car", "dog"] * 2, "german": ["Auto", "Hund"] * 2}, [["car"], ["dog"]] * 2)
    encoder = Encoder({"english": BagOfWords(), "german": BagOfWords()}, DLFH(n_bits=8, random_state=0))
    with pytest.raises(InputError, match="no item has a text or a column called 'french'"):
        Collection.build(tmp_path / "none", items, encoder, title="french")
    assert not (tmp_path / "none").exists()
    with Collection.build(tmp_path / "first", items, encoder, title="german").collection as collection:
        assert collection.titles("0", collection.get("0").metadata) == "Auto"
        with collection.copy(tmp_path / "second") as copy:
            assert copy.titles.column == "german"
