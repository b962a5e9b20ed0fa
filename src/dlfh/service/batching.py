"""Answer requests that arrive together in batches, in worker threads, from a bounded queue.

An idle worker takes the oldest request immediately, together with all waiting requests of the same group. An idle
service thus adds no delay, and a busy one answers larger batches. Work stops at its next `checkpoint` when nobody waits
for it any more: its client has disconnected, its time is up, or the service is shutting down.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any

from dlfh._parallel import cancellable
from dlfh.service.errors import RequestError, busy, shutting_down

#: Largest batch; a request waits for all others of its batch.
_MAX_BATCH = 32

#: Beginning of the names of worker threads.
THREAD_NAME = "dlfh-answers"

#: Takes requests and returns their answers.
Answer = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(eq=False)
class _Waiting:
    """A request in the queue."""

    group: Hashable
    request: Any
    answer: Answer
    deadline: float
    future: Future[Any] = field(default_factory=Future)

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self.future.done() or time.monotonic() > self.deadline

    def resolve(self, answer: Any) -> None:
        """Deliver an answer or an exception, unless nobody waits for it."""
        with suppress(InvalidStateError):
            if isinstance(answer, BaseException):
                self.future.set_exception(answer)
            else:
                self.future.set_result(answer)


class Batcher:
    """Worker threads and their queue of at most ``max_waiting`` requests.

    ``seconds`` is the time limit of a request, from its arrival to its answer.
    """

    def __init__(self, workers: int, max_waiting: int, seconds: float) -> None:
        self._queue: deque[_Waiting] = deque()
        self._unanswered: set[_Waiting] = set()
        self._filled = threading.Condition()
        self._max_waiting = max_waiting
        self._seconds = seconds
        self._closed = False
        self.on_batch: Callable[[int], None] = lambda size: None
        self._threads = [
            threading.Thread(target=self._work, name=f"{THREAD_NAME}-{number}", daemon=True)
            for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        return len(self._queue)

    async def ask(self, answer: Answer, request: Any, group: Hashable = None) -> Any:
        """Return the answer to a request, computed together with others of its group unless that is None.

        ``answer`` takes a list of requests and returns a list of answers. An exception in this list is raised for its
        request; an exception that ``answer`` raises is raised for all.
        """
        waiting = _Waiting(group, request, answer, time.monotonic() + self._seconds)
        with self._filled:
            if self._closed:
                raise shutting_down()
            if len(self._queue) >= self._max_waiting:
                raise busy()
            self._queue.append(waiting)
            self._filled.notify()
        self._unanswered.add(waiting)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(waiting.future), self._seconds)
        except TimeoutError:
            raise self._too_late() from None
        finally:
            waiting.future.cancel()  # a worker skips it, or stops at the next checkpoint
            self._unanswered.discard(waiting)

    def stop(self) -> None:
        """Answer all requests with an error. Called in the event loop."""
        self._closed = True
        for waiting in self._unanswered:
            waiting.resolve(shutting_down())

    def close(self, seconds: float = 0.5) -> None:
        """Let the threads end when the queue is empty, and wait for them a moment."""
        with self._filled:
            self._closed = True
            self._filled.notify_all()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while batch := self._take():
            self.on_batch(len(batch))
            try:
                with cancellable(partial(self._check, batch)):
                    answers = batch[0].answer([waiting.request for waiting in batch])
            except BaseException as error:
                answers = [error] * len(batch)
            for waiting, answer in zip(batch, answers, strict=True):
                waiting.resolve(answer)

    def _check(self, batch: Sequence[_Waiting]) -> None:
        if all(waiting.is_over for waiting in batch):
            raise self._too_late()

    def _too_late(self) -> RequestError:
        message = f"the request was not answered within {self._seconds:g} seconds: try again later"
        return RequestError(503, message, {"retry-after": "5"})

    def _take(self) -> list[_Waiting]:
        """Return the oldest request and the others of its batch; nothing when the queue is closed and empty."""

        def is_ready() -> bool:
            while self._queue and self._queue[0].is_over:
                self._queue.popleft()
            return bool(self._queue) or self._closed

        with self._filled:
            self._filled.wait_for(is_ready)
            batch = [self._queue.popleft()] if self._queue else []
            if batch and batch[0].group is not None:
                others = (waiting for waiting in self._queue if waiting.group == batch[0].group and not waiting.is_over)
                batch += islice(others, _MAX_BATCH - 1)
                taken = {*batch}
                self._queue = deque(waiting for waiting in self._queue if waiting not in taken)
            return batch
