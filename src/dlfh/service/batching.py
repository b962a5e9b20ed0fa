"""Questions that arrive together are answered together, in threads, off the event loop, from a bounded queue.

A worker that is free takes the oldest question at once, and with it all others of its kind that wait: an idle service
adds no wait, and a busy one answers more at a time.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from dlfh.service.errors import busy, too_slow

__all__ = ["Batcher"]

#: So many questions are answered together at most: what comes after them waits for all.
_MOST_TOGETHER = 32

Answer = Callable[[Sequence[Any]], Sequence[Any]]


@dataclass(eq=False)
class _Waiting:
    """A question in the queue."""

    kind: Hashable
    question: Any
    answer: Answer
    future: asyncio.Future[Any]
    loop: asyncio.AbstractEventLoop
    given_up: bool = False


class Batcher:
    """Threads that answer, and the queue before them.

    Parameters
    ----------
    workers : int
        How many threads.
    most_waiting : int
        How many questions may be in the queue.
    seconds : float
        How long a question waits for its answer.
    """

    def __init__(self, workers: int, most_waiting: int, seconds: float) -> None:
        self._queue: deque[_Waiting] = deque()
        self._filled = threading.Condition()
        self._most_waiting = most_waiting
        self._seconds = seconds
        self._closed = False
        self.on_batch: Callable[[int], None] = lambda size: None
        self._threads = [
            threading.Thread(target=self._work, name=f"dlfh-answers-{number}", daemon=True) for number in range(workers)
        ]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        """Return how many questions are in the queue."""
        return len(self._queue)

    async def ask(self, answer: Answer, question: Any, kind: Hashable = None) -> Any:
        """Return what ``answer`` gives for a question, together with others of its kind if it is not None.

        ``answer`` takes a list of questions and returns a list of their answers; an exception among these is raised
        here, and one that it raises itself is every question's.
        """
        loop = asyncio.get_running_loop()
        waiting = _Waiting(kind, question, answer, loop.create_future(), loop)
        with self._filled:
            if len(self._queue) >= self._most_waiting or self._closed:
                raise busy()
            self._queue.append(waiting)
            self._filled.notify()
        try:
            return await asyncio.wait_for(waiting.future, self._seconds)
        except TimeoutError:
            raise too_slow(self._seconds) from None
        finally:
            waiting.given_up = True  # what still waits is not worth the work

    def close(self) -> None:
        """Let threads end when the queue is empty, and wait for them a little."""
        with self._filled:
            self._closed = True
            self._filled.notify_all()
        for thread in self._threads:
            thread.join(self._seconds)

    def _work(self) -> None:
        while True:
            together = self._take()
            if together is None:
                return
            self.on_batch(len(together))
            try:
                answers = together[0].answer([waiting.question for waiting in together])
            except BaseException as error:
                answers = [error] * len(together)
            by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Any], Any]]] = {}
            for waiting, answer in zip(together, answers, strict=True):
                by_loop.setdefault(waiting.loop, []).append((waiting.future, answer))
            for loop, pairs in by_loop.items():
                if not loop.is_closed():
                    loop.call_soon_threadsafe(_deliver, pairs)

    def _take(self) -> list[_Waiting] | None:
        """Return the oldest question and those that go with it; None when there will be no more."""
        with self._filled:
            while True:
                while self._queue and self._queue[0].given_up:
                    self._queue.popleft()
                if self._queue:
                    break
                if self._closed:
                    return None
                self._filled.wait()
            first = self._queue.popleft()
            if first.kind is None:
                return [first]
            together, others = [first], deque[_Waiting]()
            while self._queue and len(together) < _MOST_TOGETHER:
                waiting = self._queue.popleft()
                if not waiting.given_up:
                    (together if waiting.kind == first.kind else others).append(waiting)
            self._queue.extendleft(reversed(others))
            return together


def _deliver(pairs: Sequence[tuple[asyncio.Future[Any], Any]]) -> None:
    for future, answer in pairs:
        if future.done():  # whoever asked has gone
            continue
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        else:
            future.set_result(answer)
