"""The ASGI application and its endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import os
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic.json_schema import models_json_schema
from starlette.exceptions import HTTPException

from dlfh._version import __version__
from dlfh.collection.query import Query
from dlfh.errors import DataWarning, DLFHError, InputError
from dlfh.service import answering, endpoints, schemas
from dlfh.service.answering import Batcher, RequestError, SearchRequest
from dlfh.service.endpoints import as_json, parse, validation_error
from dlfh.service.guard import Guard, Log, Metrics
from dlfh.service.keys import Keys
from dlfh.service.queries import QueryImages
from dlfh.service.settings import Settings
from dlfh.service.states import States
from dlfh.service.thumbnails import Thumbnails
from dlfh.service.writing import Changes

_PAGE = Path(__file__).parent / "page"
_MAX_INLINE_BYTES = 1 << 16  # larger bodies are parsed in a worker thread, because parsing blocks the event loop
#: Maximum results and bytes of a simple search. Others use separate worker threads, so that simple ones never wait.
_MAX_SIMPLE_K, _MAX_SIMPLE_BYTES = 100, 1 << 11
_LEARNING_SECONDS = 3600.0  # time limit for learning again
_MAX_KEY = 200  # maximum length of an idempotency key
_LOGGED = ("items", "added", "replaced", "removed", "queries")  # counts in the response to a change
_DESCRIPTION = """Search a collection by text, image, item, vector or code.

Results have probabilities and codes. Errors have an HTTP status and a message: `{"error": "..."}`."""


def create_app(
    folder: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    settings: Settings | None = None,
    *,
    log: Log | None = None,
) -> FastAPI:
    """Create an ASGI application that serves one or several collections.

    Parameters
    ----------
    folder : path or sequence of paths
        Folder of the collection. A single collection is served at ``/``; several are served at ``/c/NAME/``, by the
        names of their folders, and ``/`` lists them.
    settings : Settings, optional
    log : Log, optional
        The service's log; by default, nothing is logged.

    Returns
    -------
    fastapi.FastAPI
        To run with uvicorn or another ASGI server; `serve` runs it itself.

    Examples
    --------
    >>> from dlfh.service import create_app
    >>> create_app("no-such-folder")
    Traceback (most recent call last):
    dlfh.errors.ModelError: there is no collection at no-such-folder: no such folder
    """
    resources = Resources(settings or Settings(), log or Log(None))
    is_single = isinstance(folder, (str, os.PathLike))
    services: dict[str, Service] = {}
    for path in [Path(folder)] if isinstance(folder, (str, os.PathLike)) else map(Path, folder):
        name = path.resolve().name
        if name in services:
            raise InputError(f"two collections are called {name!r}: rename one of their folders")
        services[name] = Service(path, resources, is_one_of_several=not is_single)
    lifespan = functools.partial(_running, resources, [*services.values()])
    if is_single:
        (service,) = services.values()
        app, collections = _collection_app(service, lifespan), {}
    else:
        collections = {name: _collection_app(service, None) for name, service in services.items()}
        app = _new_app(resources, lifespan)
        endpoints.add_list(app, services)
        endpoints.add_health(app, resources)
        endpoints.add_page(app, _PAGE, "collections.html")
    app.state.service = resources
    shared: Any = {name: getattr(resources, name) for name in ("settings", "keys", "metrics", "log")}
    app.add_middleware(Guard, **shared, collections=collections)
    return app


def _new_app(resources: Resources, lifespan: Any, **options: Any) -> FastAPI:
    # The documentation pages of FastAPI load scripts from another host.
    app = FastAPI(docs_url=None, redoc_url=None, redirect_slashes=False, lifespan=lifespan, **options)
    for kind in (RequestError, DLFHError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, functools.partial(_error_response, resources.log))
    return app


def _collection_app(service: Service, lifespan: Any) -> FastAPI:
    about: Any = {"title": "dlfh", "version": __version__, "description": _DESCRIPTION}
    app = _new_app(service.resources, lifespan, **about)
    endpoints.add_endpoints(app, service)
    endpoints.add_changes(app, service)
    endpoints.add_health(app, service.resources)
    endpoints.add_page(app, _PAGE, "index.html")
    endpoints.add_docs(app, _PAGE)
    models: Any = [(model, "validation") for model in (*schemas.SEARCHES, *schemas.CHANGES)]
    _, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")
    description = app.openapi()
    description["components"]["schemas"] |= definitions["$defs"]
    description["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    description |= {"security": [{"key": []}, {}], "servers": [{"url": "."}]}  # relative to the description
    return app


@contextlib.asynccontextmanager
async def _running(resources: Resources, services: Sequence[Service], app: FastAPI) -> AsyncIterator[None]:
    """Watch for changes to the collections while the service runs."""
    watchers = [asyncio.create_task(service.watch()) for service in services]
    try:
        yield
    finally:
        for watcher in watchers:
            watcher.cancel()
        await asyncio.gather(*watchers, return_exceptions=True)
        await asyncio.gather(*(asyncio.to_thread(batcher.close) for batcher in resources.batchers))


class Resources:
    """Settings, log, metrics and worker threads, which all collections of a service share."""

    def __init__(self, settings: Settings, log: Log) -> None:
        self.settings, self.log, self.metrics = settings, log, Metrics()
        self.keys = Keys(settings.keys, settings.token)
        self.query_images = QueryImages(settings.queries)
        self.thumbnails = Thumbnails(settings.pictures)
        limits, workers = settings.limits, settings.workers
        # Slow work never occupies the threads of simple searches. Changes are applied one at a time.
        self.batchers = [Batcher(n, limits.waiting, limits.answer_seconds) for n in (workers, workers, workers, 1, 1)]
        self.batchers.append(Batcher(1, 1, _LEARNING_SECONDS))
        self.simple, self.slow, self.pictures, self.writer, self.map_drawer, self.learner = self.batchers
        self.simple.on_batch = self.metrics.batches.observe
        self.metrics.waiting.set_function(lambda: sum(map(len, self.batchers)))

    def stop(self) -> None:
        """Answer all requests with an error, because the service must exit."""
        for batcher in self.batchers:
            batcher.stop()


class Service:
    """A served collection."""

    def __init__(self, folder: Path, resources: Resources, *, is_one_of_several: bool) -> None:
        self.resources, self.settings, self.log = resources, resources.settings, resources.log
        self.is_one_of_several = is_one_of_several
        self.states = States(folder, self.settings.title)
        self.changes = Changes(self.states, self.settings.limits)
        if self.settings.writable:
            self.states.current.warm_up_changes()
        warning = resources.thumbnails.warning(self.states.current)
        if warning is not None:
            warnings.warn(warning, DataWarning, stacklevel=3)
        name = folder.resolve().name
        resources.metrics.items.labels(name).set_function(lambda: len(self.states.current.index))

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(self.settings.refresh_seconds)
            try:
                if await asyncio.to_thread(self.states.refresh):
                    self.resources.metrics.refreshes.labels("taken").inc()
                    self.log.event("refreshed", items=len(self.states.current.index))
            except (DLFHError, OSError) as error:
                self.resources.metrics.refreshes.labels("failed").inc()
                self.log.event("refresh failed", error=type(error).__name__)

    async def search(self, body: bytes) -> Response:
        if len(body) > _MAX_INLINE_BYTES:
            return as_json(await self.resources.slow.ask(lambda _: self.answer([self._parse_search(body)]), None))
        search = self._parse_search(body)
        (query, *others), options, _, facets = search
        is_small = len(body) <= _MAX_SIMPLE_BYTES or (query.kind == "vector" and not options.where and not options.ids)
        if any(each.kind == "image" for each in search.queries):
            return as_json(await self.resources.pictures.ask(self.answer, search))
        if others or facets or options.k > _MAX_SIMPLE_K or not is_small:
            return as_json(await self.resources.slow.ask(self.answer, search))
        return as_json(await self.resources.simple.ask(self.answer, search, (self, query.kind, query.modality)))

    def _parse_search(self, body: bytes) -> SearchRequest:
        limits = self.settings.limits
        search = parse(schemas.Search, body, limits).request(limits)
        queries, options, *_ = search
        if len(queries) > limits.batch:
            raise InputError(f"a search can have at most {limits.batch} queries")
        if len(queries) * options.k > limits.answers:
            raise InputError(f"a search can have at most {limits.answers:,} results: send fewer queries, or reduce k")
        if options.radius is not None and len(queries) > 1:
            raise InputError("a radius is allowed for a single query only")
        if any(query.kind == "text" and len(query.value) > limits.text for query in queries):
            raise InputError(f"a text can have at most {limits.text:,} characters")
        for query in queries:
            self.prepare(query)
        return search

    def prepare(self, query: Query) -> Query:
        """Replace the key of an image by the image, and check the length of a vector."""
        if query.kind == "image":
            query.value = self.resources.query_images.get(query.value)
        if query.kind == "vector":
            searcher = self.states.current.searcher
            name, n = searcher.modality_of(query), len(query.value)
            expected = searcher.encoder.model_.n_features_[name]
            if n != expected:
                raise InputError(f"modality {name!r} has {n} features but the model expects {expected}")
        return query

    def answer(self, requests: Sequence[SearchRequest]) -> Sequence[Any]:
        """Return a response in JSON, or an exception, for each request."""
        return answering.answer_together(self.states.current, requests)

    async def respond(self, batcher: Batcher, work: Callable[..., Any], *arguments: Any) -> Response:
        """Call a function with the current state, in a thread of the batcher, and return its result as JSON."""
        return as_json(await batcher.ask(lambda _: [work(self.states.current, *arguments)], None))

    def check_writable(self) -> None:
        """Raise an error unless this service allows changes."""
        if not self.settings.writable:
            raise RequestError(403, "this service is read-only: start it with --writable to allow changes")

    async def change(self, request: Request, work: Callable[[Changes], dict[str, Any]]) -> Response:
        """Make a change, once if the request has an idempotency key, and return its summary."""
        self.check_writable()
        key = request.headers.get("idempotency-key")
        if key is not None and not 0 < len(key) <= _MAX_KEY:
            raise RequestError(422, f"an Idempotency-Key must have 1 to {_MAX_KEY} characters")
        content = f"{request.method} {request.scope['path']} ".encode() + await request.body()

        def make() -> dict[str, Any]:
            done = work(self.changes)
            self.log.event("changed", **{name: done[name] for name in _LOGGED if name in done})
            return done

        def answer(_: Any) -> Sequence[Any]:
            return [self.changes.once(key, hashlib.sha256(content).hexdigest(), make)]

        return as_json(await self.resources.writer.ask(answer, None))


async def _error_response(log: Log, request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        error = validation_error(error.errors())
    match error:
        case RequestError():
            return as_json({"error": error.message}, error.status, error.headers)
        case InputError():
            return as_json({"error": str(error)[:1000]}, 422)
        case HTTPException():
            messages = {404: "unknown address", 405: "this address does not support the method"}
            message = messages.get(error.status_code, "the request cannot be read")
            return as_json({"error": message}, error.status_code, dict(error.headers) if error.headers else None)
    log.failure(error)
    return as_json({"error": "the collection cannot be read or changed at the moment"}, 503, {"retry-after": "5"})
