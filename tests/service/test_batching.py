"""Work that nobody waits for any more stops, and does not delay other work."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from dlfh._parallel import checkpoint
from dlfh.service.batching import Batcher
from dlfh.service.errors import RequestError


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
