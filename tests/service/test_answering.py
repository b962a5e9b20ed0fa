"""Searches are limited, and answered in batches as they are one by one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.collection import SearchOptions
from dlfh.collection.query import Query
from dlfh.datasets import Items
from dlfh.errors import InputError
from dlfh.features import BagOfWords
from dlfh.service.answering import SearchRequest, answer_together, suggest_labels
from dlfh.service.settings import Limits
from dlfh.service.states import State, States


@pytest.fixture(scope="module")
def state(stripes_folder: Path) -> State:
    return States(stripes_folder).current


def request(text: str, **options: object) -> SearchRequest:
    return SearchRequest([Query("text", text)], SearchOptions(**options))  # type: ignore[arg-type]


def test_a_radius_returns_all_items_or_an_error(state: State) -> None:
    whole, refused = answer_together(
        state, [request("level", radius=20, limit=38), request("level", radius=20, limit=37)]
    )
    assert isinstance(whole, bytes)
    assert len(json.loads(whole)["results"][0]["answers"]) == 38
    assert isinstance(refused, InputError)
    assert "38 items are within the radius, more than the limit of 37" in str(refused)


def test_batched_requests_get_the_same_responses(state: State) -> None:
    texts = ["level stripes 3", "upright", "stripes", "xylophone", "level", "upright 12"]
    requests = [request(text, k=1 + row, match="both") for row, text in enumerate(texts)]
    together = answer_together(state, requests)
    assert together == [answer_together(state, [single])[0] for single in requests]


def test_an_invalid_request_does_not_affect_its_batch(state: State) -> None:
    right, wrong, also_right = answer_together(
        state, [request("level"), request("x", modalities="sound"), request("upright")]
    )
    assert isinstance(wrong, InputError)
    assert [right, also_right] == [answer_together(state, [request(text)])[0] for text in ("level", "upright")]


def test_pages_of_suggestions_are_complete(tmp_path: Path) -> None:
    kinds = [["level"], ["upright"]] * 30
    texts = [f"{label} stripes {row}" for row, (label,) in enumerate(kinds)]
    items = Items.of({"text": texts, "words": texts}, labels=[*kinds[:50], *[[]] * 10])
    encoder = Encoder({"text": BagOfWords(), "words": BagOfWords()}, DLFH(16, hash_function="linear", random_state=0))
    asked: dict[str, Any] = {"ids": None, "where": None, "precision": 0.8, "k": 2, "missing": False}
    with Collection.build(tmp_path / "shop", items, encoder).collection as collection:
        state = State(collection, {})
        pages, start = [], 0
        while start is not None:
            pages.append(suggest_labels(state, Limits(answers=8), start=start, **asked))
            start = pages[-1]["next"]
        whole = suggest_labels(state, Limits(), start=0, **asked)
    assert [len(page["suggestions"]) for page in pages] == [4, 4, 2]
    assert [each for page in pages for each in page["suggestions"]] == whole["suggestions"]
    assert [(each["id"], [each["label"]]) for each in whole["suggestions"]] == [*zip(items.ids, kinds, strict=True)][
        50:
    ]
