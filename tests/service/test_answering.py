"""Questions are answered within limits, together as one by one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dlfh.collection import SearchOptions
from dlfh.collection.query import Query
from dlfh.errors import InputError
from dlfh.service.answering import SearchRequest, answer_together
from dlfh.service.states import State, States


@pytest.fixture(scope="module")
def state(stripes_folder: Path) -> State:
    return States(stripes_folder).current


def asked(text: str, **options: object) -> SearchRequest:
    return SearchRequest([Query("text", text)], SearchOptions(**options))  # type: ignore[arg-type]


def test_a_radius_finds_all_or_says_that_it_is_too_large(state: State) -> None:
    whole, refused = answer_together(state, [asked("level", radius=20, limit=38), asked("level", radius=20, limit=37)])
    assert isinstance(whole, bytes)
    assert len(json.loads(whole)["results"][0]["answers"]) == 38
    assert isinstance(refused, InputError)
    assert "38 items are within the radius, more than the limit of 37" in str(refused)


def test_questions_that_are_answered_together_get_what_each_gets_alone(state: State) -> None:
    texts = ["level stripes 3", "upright", "stripes", "xylophone", "level", "upright 12"]
    requests = [asked(text, k=1 + row, match="both") for row, text in enumerate(texts)]
    together = answer_together(state, requests)
    assert together == [answer_together(state, [request])[0] for request in requests]


def test_one_that_is_wrong_is_wrong_alone(state: State) -> None:
    right, wrong, also_right = answer_together(
        state, [asked("level"), asked("x", modalities="sound"), asked("upright")]
    )
    assert isinstance(wrong, InputError)
    assert [right, also_right] == [answer_together(state, [asked(text)])[0] for text in ("level", "upright")]
