"""Searches are limited, and answered in batches as they are one by one. Work that nobody waits for any more stops."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh._parallel import checkpoint
from dlfh.collection import SearchOptions
from dlfh.collection.query import Query
from dlfh.datasets import Items
from dlfh.errors import InputError
from dlfh.features import BagOfWords
from dlfh.service.answering import Batcher, RequestError, SearchRequest, answer_together, suggest_labels
from dlfh.service.schemas import Suggest
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
    with Collection.build(tmp_path / "shop", items, encoder).collection as collection:
        state = State(collection, {})
        pages, start = [], 0
        while start is not None:
            pages.append(suggest_labels(state, Suggest(k=2, start=start), Limits(answers=8)))
            start = pages[-1]["next"]
        whole = suggest_labels(state, Suggest(k=2), Limits())
    assert [len(page["suggestions"]) for page in pages] == [4, 4, 2]
    assert [each for page in pages for each in page["suggestions"]] == whole["suggestions"]
    assert [(each["id"], [each["label"]]) for each in whole["suggestions"]] == [*zip(items.ids, kinds, strict=True)][
        50:
    ]


class Endless:
    """Work that ends only by cancellation, and records that it was."""

    def __init__(self) -> None:
        self.started, self.stopped = threading.Event(), threading.Event()

    def __call__(self, requests: Sequence[Any]) -> Sequence[Any]:
        self.started.set()
        try:
            while True:
                checkpoint()
                time.sleep(0.001)
        finally:
            self.stopped.set()


def run(work: Callable[[Batcher, Endless], Any], seconds: float = 30.0) -> Endless:
    endless, batcher = Endless(), Batcher(1, 10, seconds)
    try:
        asyncio.run(work(batcher, endless))
        assert endless.stopped.wait(5)
    finally:
        batcher.close()
    return endless


def test_work_stops_at_its_deadline() -> None:
    async def work(batcher: Batcher, endless: Endless) -> None:
        with pytest.raises(RequestError, match=r"not answered within 0\.1 seconds"):
            await batcher.ask(endless, None)
        assert await batcher.ask(lambda _: ["next"], None) == "next"

    run(work, 0.1)


def test_work_stops_when_its_client_has_left() -> None:
    async def work(batcher: Batcher, endless: Endless) -> None:
        asking = asyncio.create_task(batcher.ask(endless, None))
        await asyncio.to_thread(endless.started.wait)
        asking.cancel()
        assert await batcher.ask(lambda _: ["next"], None) == "next"

    run(work)


def test_work_of_a_batch_stops_when_nobody_waits_for_any_of_it() -> None:
    async def work(batcher: Batcher, endless: Endless) -> None:
        release = threading.Event()
        first = asyncio.create_task(batcher.ask(lambda _: [release.wait()], None))
        asking = [asyncio.create_task(batcher.ask(endless, number, "group")) for number in range(2)]
        await asyncio.sleep(0.05)
        release.set()
        await first
        await asyncio.to_thread(endless.started.wait)
        asking[0].cancel()
        await asyncio.sleep(0.05)
        assert not endless.stopped.is_set()
        asking[1].cancel()

    run(work)


def test_a_stopping_batcher_answers_running_and_waiting_requests() -> None:
    async def work(batcher: Batcher, endless: Endless) -> None:
        asking = [asyncio.create_task(batcher.ask(endless, None)) for _ in range(3)]
        await asyncio.to_thread(endless.started.wait)
        batcher.stop()
        for error in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(error, RequestError)
            assert (error.status, error.message) == (503, "the service is shutting down")
        with pytest.raises(RequestError, match="shutting down"):
            await batcher.ask(lambda _: ["late"], None)

    run(work)
