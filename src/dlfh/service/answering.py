"""Responses in JSON, computed by worker threads in batches of waiting requests.

An idle worker takes the oldest request immediately, together with all waiting requests of the same group. An idle
service thus adds no delay, and a busy one answers larger batches. Work stops at its next `checkpoint` once its result
is not needed any more: the client has disconnected, its time is up, or the service is shutting down.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from dlfh._parallel import cancellable, checkpoint
from dlfh.collection import SearchOptions
from dlfh.collection.evaluation import EvaluationReport
from dlfh.collection.item_codes import public_item
from dlfh.collection.query import Query, SearchResult, labels_of
from dlfh.collection.suggesting import check_precision, selected, suggest
from dlfh.errors import InputError
from dlfh.index.items import Item
from dlfh.service.completing import fold
from dlfh.service.facets import Key, filter_values, most_frequent, shown
from dlfh.service.settings import Limits, Settings
from dlfh.service.states import State

if TYPE_CHECKING:
    from dlfh.service.schemas import Suggest

_MAX_BATCH = 32  # maximum batch size; a request waits for all others in its batch
_N_COUNTED, _LIKELY = 1000, 0.5  # results that facets count, and the smallest probability of likely ones
_GUESS, _N_GUESSES = 0.3, 5  # precision and number of the labels suggested for an item to label
THREAD_NAME = "dlfh-answers"  # prefix of the names of worker threads
Answer = Callable[[Sequence[Any]], Sequence[Any]]  # a function from requests to their responses


class RequestError(Exception):
    """A request that fails with an HTTP status and a message."""

    def __init__(self, status: int, message: str, **headers: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


def unknown_item(identifier: str) -> RequestError:
    """Return the error for an id that no item has."""
    return RequestError(404, f"unknown item {identifier[:200]!r}")


def shutting_down() -> RequestError:
    """Return the error for a request that is not finished when the service exits."""
    return RequestError(503, "the service is shutting down", retry_after="5")


def busy() -> RequestError:
    """Return the error for a request that exceeds the capacity of the service."""
    return RequestError(503, "too many requests are waiting: try again in a second", retry_after="1")


@dataclass(eq=False)
class _PendingRequest:
    group: Hashable
    request: Any
    answer: Answer
    deadline: float
    future: Future[Any] = field(default_factory=Future)

    @property
    def is_over(self) -> bool:
        return self.future.done() or time.monotonic() > self.deadline

    def resolve(self, answer: Any) -> None:
        with suppress(InvalidStateError):
            if isinstance(answer, BaseException):
                self.future.set_exception(answer)
            else:
                self.future.set_result(answer)


class Batcher:
    """Worker threads and their queue; ``seconds`` is the time limit from a request's arrival to its response."""

    def __init__(self, workers: int, max_waiting: int, seconds: float) -> None:
        self._queue: deque[_PendingRequest] = deque()
        self._unanswered: set[_PendingRequest] = set()
        self._filled, self._closed = threading.Condition(), False
        self._max_waiting, self._seconds = max_waiting, seconds
        self.on_batch: Callable[[int], None] = lambda size: None
        names = [f"{THREAD_NAME}-{number}" for number in range(workers)]
        self._threads = [threading.Thread(target=self._work, name=name, daemon=True) for name in names]
        for thread in self._threads:
            thread.start()

    def __len__(self) -> int:
        return len(self._queue)

    async def ask(self, answer: Answer, request: Any, group: Hashable = None) -> Any:
        """Return the response to a request, batched with others of its group, if any; raise it if it is an error."""
        waiting = _PendingRequest(group, request, answer, time.monotonic() + self._seconds)
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
            raise self._timeout_error() from None
        finally:
            waiting.future.cancel()  # a worker skips it, or stops at the next checkpoint
            self._unanswered.discard(waiting)

    def stop(self) -> None:
        """Answer all requests with an error. Called in the event loop."""
        self._closed = True
        for waiting in self._unanswered:
            waiting.resolve(shutting_down())

    def close(self, seconds: float = 0.5) -> None:
        """Let the threads end when the queue is empty, and wait up to ``seconds`` for them."""
        with self._filled:
            self._closed = True
            self._filled.notify_all()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _work(self) -> None:
        while batch := self._next_batch():
            self.on_batch(len(batch))
            try:
                with cancellable(partial(self._check, batch)):
                    answers = batch[0].answer([waiting.request for waiting in batch])
            except BaseException as error:
                answers = [error] * len(batch)
            for waiting, answer in zip(batch, answers, strict=True):
                waiting.resolve(answer)

    def _check(self, batch: Sequence[_PendingRequest]) -> None:
        if all(waiting.is_over for waiting in batch):
            raise self._timeout_error()

    def _timeout_error(self) -> RequestError:
        message = f"the request was not answered within {self._seconds:g} seconds: try again later"
        return RequestError(503, message, retry_after="5")

    def _next_batch(self) -> list[_PendingRequest]:
        """Wait for a batch, the oldest request and others of its group; return [] if the queue is closed and empty."""

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


class SearchRequest(NamedTuple):
    """The queries of one request, and their options."""

    queries: Sequence[Query]
    options: SearchOptions
    start: int = 0  # number of results to leave out
    facets: bool = False


def answer_together(state: State, requests: Sequence[SearchRequest]) -> list[bytes | Exception]:
    """Return a response in JSON, or an exception, for each request; their queries are encoded together."""
    try:
        state.searcher.encode([query for request in requests for query in request.queries])
    except Exception:
        if len(requests) > 1:  # one of them is invalid: answer each separately
            return [answer_together(state, [request])[0] for request in requests]
    return [_answer(state, request) for request in requests]


def _answer(state: State, request: SearchRequest) -> bytes | Exception:
    try:
        for query in request.queries:
            if query.kind == "id" and query.value not in state.index:
                raise unknown_item(query.value)
        options = replace(request.options, where=state.facets.resolve(request.options.where))
        if request.facets:
            options = replace(options, k=max(options.k, min(_N_COUNTED, options.limit or _N_COUNTED)))
        results = state.searcher.search(request.queries, options)
        # One result at a time: the JSON encoder blocks all other threads.
        shown = b",".join(dump(_result(state, request, *pair)) for pair in zip(request.queries, results, strict=True))
        return b'{"state":%s,"results":[%s]}' % (dump(state.name), shown)
    except Exception as error:
        return error


def _result(state: State, request: SearchRequest, query: Query, result: SearchResult) -> dict[str, Any]:
    checkpoint()
    about = {"by": query.kind, **_fields(result, "modality", "code", "modalities", "match")}
    understanding = None if result.understanding is None else asdict(result.understanding)
    answers = [
        _fields(item, "rank", "id", "probability")
        | item_fields(state, item.id, item.metadata)
        | _fields(item, "n_equal", "hamming_distance", "distance", "learned", "code")
        for item in result.items[request.start : None if request.options.radius is not None else request.options.k]
    ]
    notes, facets = _fields(result, "notes", "warning"), _count_values(result) if request.facets else None
    return {"query": about, "understanding": understanding, **notes, "answers": answers, "facets": facets}


def _count_values(result: SearchResult) -> dict[str, Any]:
    """Count the labels and columns of the first results, and of those that are probably relevant."""
    items = result.items[:_N_COUNTED]
    counts: dict[str, tuple[Counter[Key], Counter[Key]]] = {}
    for item in items:
        for name, found in filter_values(item.metadata):
            count, likely = counts.setdefault(name, (Counter(), Counter()))
            keys = {(type(value), value) for value in found}
            count.update(keys)
            likely.update(keys if (item.probability or 0.0) >= _LIKELY else ())
    is_calibrated = any(item.probability is not None for item in items)
    values: dict[str, list[dict[str, Any]]] = {}
    for name, (count, likely) in counts.items():
        values[name] = [
            {"value": shown(key), "count": n, "likely": likely[key] if is_calibrated else None}
            for key, n in most_frequent(count)
        ]
    return {"counted": len(items), "values": values}


def _fields(record: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def item_fields(state: State, identifier: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the title, labels, metadata and thumbnail address of an item, without the paths of its images."""
    images = state.encoder.image_modalities()
    has_image = any(isinstance(metadata.get(name), str) for name in images)
    return {
        "title": state.titles(identifier, metadata),
        "labels": labels_of(metadata),
        "metadata": {name: value for name, value in metadata.items() if name not in images and name != "labels"},
        "thumbnail": f"/v1/items/{quote(identifier, safe='')}/thumbnail" if has_image else None,
    }


def describe_item(state: State, identifier: str) -> dict[str, Any]:
    """Return an item with its metadata and codes."""
    try:
        item = state.collection.get(identifier)
    except InputError:
        raise unknown_item(identifier) from None
    return {"state": state.name, **_item_with_codes(state, item)}


def list_items(state: State, start: int, n: int) -> dict[str, Any]:
    """Return ``n`` items in insertion order, and the start of the next page."""
    positions = range(start, min(start + n, len(state.index)))
    modalities = state.encoder.modalities_
    items = [_item_with_codes(state, public_item(item, modalities)) for item in state.index.items(list(positions))]
    following = positions.stop if positions and positions.stop < len(state.index) else None
    return {"state": state.name, "items": items, "next": following}


def complete(state: State, prefix: str, n: int) -> dict[str, Any]:
    """Return labels, and titles of items, in which a word starts with a prefix."""
    found: list[dict[str, Any]] = [
        {"text": label, "kind": "label", "count": count} for label, count in state.facets.labels(prefix, n)
    ]
    seen = {fold(each["text"]) for each in found}
    for position in islice(state.facets.titled(prefix), 10 * n):  # titles may be equal
        for item in state.index.items([position]):
            title = state.titles(item.id, item.metadata)
            if len(found) < n and fold(title) not in seen:
                found.append({"text": title, "kind": "name", "id": item.id})
                seen.add(fold(title))
        if len(found) == n:
            break
    return {"state": state.name, "completions": found}


def suggest_labels(state: State, asked: Suggest, limits: Limits) -> dict[str, Any]:
    """Return suggested labels for as many items as one response may have, and the start of the next page."""
    if asked.k > limits.k:
        raise RequestError(422, f"k must be at most {limits.k}")
    where = state.facets.resolve(asked.where)
    positions = selected(state.collection, asked.ids, where, missing=asked.missing)
    positions, n = positions[positions >= asked.start], max(1, limits.answers // asked.k)
    checked = state.once("precision", lambda state: check_precision(state.collection))
    found = suggest(state.collection, positions[:n], precision=asked.precision, k=asked.k, checked=checked)
    following = int(positions[n]) if len(positions) > n else None
    return {"state": state.name, **found.to_dict(), "next": following}


def items_to_label(state: State, n: int) -> dict[str, Any]:
    """Return the items to label next, and labels that they may have."""
    collection = state.collection
    ids = collection.label_next(n)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in ids}
    if ids and state.encoder.label_model is not None:
        checked = state.once("precision", lambda state: check_precision(state.collection))
        for each in suggest(collection, state.index.positions(ids), precision=_GUESS, k=_N_GUESSES, checked=checked):
            found[each.id].append(each._asdict())
    items = [collection.get(name) for name in ids]
    shown = [{"id": item.id, **item_fields(state, item.id, item.metadata or {})} for item in items]
    return {"state": state.name, "items": [item | {"suggestions": found[item["id"]]} for item in shown]}


def _item_with_codes(state: State, item: Item) -> dict[str, Any]:
    codes = {
        name: {"code": code.tobytes().hex(), "learned": item.states[name] == "learned"}
        for name, code in item.codes.items()
    }
    return {"id": item.id, **item_fields(state, item.id, item.metadata or {}), "codes": codes}


def describe_collection(state: State, settings: Settings) -> dict[str, Any]:
    """Return the collection's size, model, quality and filters, and the settings of the service."""
    encoder, index = state.encoder, state.index
    model = encoder.model_
    evaluation = EvaluationReport.read(state.collection.path)
    parameters = {
        name: value if value is None or isinstance(value, (bool, int, str)) else repr(value)
        for name, value in model.get_params(deep=False).items()
    }
    modalities = {}
    for name in encoder.modalities_:
        counts = {kind: index.count(name, kind) for kind in ("learned", "hashed")}
        modalities[name] = {"takes": encoder.featurizers_[name].takes, **encoder.describe(name), **counts}
    listed = state.facets.values().items()
    return {
        **{"name": state.collection.path.resolve().name, "state": state.name, "items": len(index)},
        **{"bits": index.n_bits, "method": type(model).__name__, "parameters": parameters},
        "title": state.titles.column,
        **{"trained": len(next(iter(model.codes_.values()))), "labels": state.facets.n_labels},
        "modalities": modalities,
        "filters": {name: [{"value": value, "count": n} for value, n in values] for name, values in listed},
        "calibrated": bool(state.collection.calibration.fits),
        "quality": [asdict(row) for row in evaluation.quality],
        "calibration": [asdict(row) for row in evaluation.calibration],
        **{"writable": settings.writable, "originals": settings.originals, "limits": asdict(settings.limits)},
    }


def dump(value: Any) -> bytes:
    """Return a value as JSON in ASCII."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
