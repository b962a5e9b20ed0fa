"""The ASGI application and its endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import os
import warnings
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from dlfh._version import __version__
from dlfh.collection.query import Query as SearchQuery
from dlfh.errors import DataWarning, DLFHError, InputError
from dlfh.service import answering, schemas
from dlfh.service.answering import Batcher, RequestError, SearchRequest, dump, shutting_down
from dlfh.service.guard import Guard, Log, Metrics
from dlfh.service.map import draw_map
from dlfh.service.settings import Limits, Settings
from dlfh.service.states import State, States
from dlfh.service.thumbnails import Thumbnails, check_image
from dlfh.service.writing import put_items, remove_items

_PAGE = Path(__file__).parent / "page"
_MAX_INLINE_BYTES = 1 << 16  # larger bodies are parsed in a worker thread, because parsing blocks the event loop
#: Maximum results and bytes of a simple search. Others use separate worker threads, so that simple ones never wait.
_MAX_SIMPLE_K, _MAX_SIMPLE_BYTES = 100, 1 << 11
_JSON = "application/json"
Model = TypeVar("Model", bound=BaseModel)
_DESCRIPTION = """Search a collection by text, image, item, vector or code.

Results have probabilities and codes. Errors have an HTTP status and a message: `{"error": "..."}`."""


def create_app(folder: str | os.PathLike[str], settings: Settings | None = None, *, log: Log | None = None) -> FastAPI:
    """Create an ASGI application that serves a collection.

    Parameters
    ----------
    folder : path
        Folder of the collection.
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
    service = Service(Path(folder), settings or Settings(), log or Log(None))
    about: Any = {"title": "dlfh", "version": __version__, "description": _DESCRIPTION}
    # The documentation pages of FastAPI load scripts from another host.
    options: Any = {"docs_url": None, "redoc_url": None, "redirect_slashes": False}
    app = FastAPI(**about, **options, lifespan=service.lifespan)
    app.state.service = service
    app.add_middleware(Guard, settings=service.settings, metrics=service.metrics, log=service.log)
    for kind in (RequestError, DLFHError, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, functools.partial(_error_response, service.log))
    _add_endpoints(app, service)
    for file in sorted(path for path in _PAGE.rglob("*") if path.is_file()):
        address = "/" + file.relative_to(_PAGE).as_posix()
        _add_file(app, "/" if address == "/index.html" else address, file)
    bodies = (schemas.Search, schemas.Suggest, schemas.NewItems, schemas.ItemIds, schemas.NewItem)
    models: Any = [(model, "validation") for model in bodies]
    _, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")
    app.openapi()["components"]["schemas"] |= definitions["$defs"]
    return app


class _ItemId(StringConvertor):
    """Any string, including slashes and line breaks."""

    regex: ClassVar[str] = r"[\s\S]*"


register_url_convertor("item", _ItemId())


class Service:
    """State that the endpoints share."""

    def __init__(self, folder: Path, settings: Settings, log: Log) -> None:
        self.settings, self.log, self.metrics = settings, log, Metrics()
        self.states = States(folder)
        if settings.writable:
            self.states.current.warm_up_changes()
        self.thumbnails = Thumbnails(settings.pictures)
        warning = self.thumbnails.warning(self.states.current)
        if warning is not None:
            warnings.warn(warning, DataWarning, stacklevel=3)

        limits, workers = settings.limits, settings.workers
        # Slow work never occupies the threads of simple searches. Changes are applied one at a time.
        self._batchers = [Batcher(n, limits.waiting, limits.answer_seconds) for n in (workers, workers, workers, 1, 1)]
        self.simple, self.slow, self.pictures, self.writer, self.map_drawer = self._batchers
        self.simple.on_batch = self.metrics.batches.observe
        self.metrics.waiting.set_function(lambda: sum(map(len, self._batchers)))
        self.metrics.items.set_function(lambda: len(self.states.current.index))

    @contextlib.asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Watch for changes to the collection while the service runs."""
        watcher = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher
            await asyncio.gather(*(asyncio.to_thread(batcher.close) for batcher in self._batchers))

    def stop(self) -> None:
        """Answer all requests with an error, because the service must exit."""
        for batcher in self._batchers:
            batcher.stop()

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(self.settings.refresh_seconds)
            try:
                if await asyncio.to_thread(self.states.refresh):
                    self.metrics.refreshes.labels("taken").inc()
                    self.log.event("refreshed", items=len(self.states.current.index))
            except (DLFHError, OSError) as error:
                self.metrics.refreshes.labels("failed").inc()
                self.log.event("refresh failed", error=type(error).__name__)

    async def search(self, body: bytes) -> Response:
        if len(body) > _MAX_INLINE_BYTES:
            return _json(await self.slow.ask(lambda _: self.answer([self._parse_search(body)]), None))
        search = self._parse_search(body)
        (query, *others), options = search
        is_small = len(body) <= _MAX_SIMPLE_BYTES or (query.kind == "vector" and not options.where and not options.ids)
        if others or options.k > _MAX_SIMPLE_K or not is_small:
            return _json(await self.slow.ask(self.answer, search))
        return _json(await self.simple.ask(self.answer, search, ("search", query.kind, query.modality)))

    def _parse_search(self, body: bytes) -> SearchRequest:
        limits = self.settings.limits
        search = _parse(schemas.Search, body, limits).request(limits)
        queries, options = search
        if len(queries) > limits.batch:
            raise InputError(f"a search can have at most {limits.batch} queries")
        if len(queries) * options.k > limits.answers:
            raise InputError(f"a search can have at most {limits.answers:,} results: send fewer queries, or reduce k")
        if options.radius is not None and len(queries) > 1:
            raise InputError("a radius is allowed for a single query only")
        if any(query.kind == "text" and len(query.value) > limits.text for query in queries):
            raise InputError(f"a text can have at most {limits.text:,} characters")
        searcher = self.states.current.searcher
        for query in queries:
            if query.kind == "vector":
                name, n = searcher.modality_of(query), len(query.value)
                expected = searcher.encoder.model_.n_features_[name]
                if n != expected:
                    raise InputError(f"modality {name!r} has {n} features but the model expects {expected}")
        return search

    def answer(self, requests: Sequence[SearchRequest]) -> Sequence[Any]:
        """Return a response in JSON, or an exception, for each request."""
        return answering.answer_together(self.states.current, requests)

    async def respond(self, batcher: Batcher, work: Callable[..., Any], *arguments: Any) -> Response:
        """Call a function with the current state, in a thread of the batcher, and return its result as JSON."""
        return _json(await batcher.ask(lambda _: [work(self.states.current, *arguments)], None))

    async def change(self, work: Callable[[States], dict[str, Any]]) -> Response:
        if not self.settings.writable:
            raise RequestError(403, "this service is read-only: start it with --writable to allow changes")
        done = await self.writer.ask(lambda _: [work(self.states)], None)
        self.log.event("changed", **{name: done[name] for name in ("items", "added", "replaced", "removed")})
        return _json(done)


def _json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(content if isinstance(content, bytes) else dump(content), status, headers, media_type=_JSON)


async def _error_response(log: Log, request: Request, error: Exception) -> Response:
    if isinstance(error, RequestValidationError):
        error = _validation_error(error.errors())
    match error:
        case RequestError():
            return _json({"error": error.message}, error.status, error.headers)
        case InputError():
            return _json({"error": str(error)[:1000]}, 422)
        case HTTPException():
            messages = {404: "unknown address", 405: "this address does not support the method"}
            message = messages.get(error.status_code, "the request cannot be read")
            return _json({"error": message}, error.status_code, dict(error.headers) if error.headers else None)
    log.failure(error)
    return _json({"error": "the collection cannot be read or changed at the moment"}, 503, {"retry-after": "5"})


def _validation_error(errors: Sequence[Any]) -> RequestError:
    first = errors[0]
    if first["type"] == "json_invalid":
        return RequestError(400, "the body is not JSON")
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))[:200]
    message = str(first["msg"]).removeprefix("Value error, ")[:500]
    message = message[:1].lower() + message[1:]
    return RequestError(422, f"{place}: {message}" if place else message)


def _responses(model: type[BaseModel] | None, *statuses: int) -> dict[str, Any]:
    meanings = {
        400: "The request cannot be read.",
        401: "The token is missing or wrong.",
        403: "The service is read-only.",
        404: "Unknown item.",
        408: "The request took too long to arrive.",
        409: "Another process is changing the collection.",
        413: "The request is too large.",
        421: "The host name is not allowed.",
        422: "The request is invalid.",
        503: "The service is busy: retry after the delay in Retry-After.",
    }
    errors = (401, 408, 413, 421, 503, *statuses)
    documented = {status: {"model": schemas.ErrorMessage, "description": meanings[status]} for status in errors}
    return {"response_model": model, "responses": documented}


def _add_endpoints(app: FastAPI, service: Service) -> None:
    limits = service.settings.limits

    @app.post("/v1/search", **_responses(schemas.SearchResponse, 400, 404, 422), openapi_extra=_takes(schemas.Search))
    async def search(request: Request) -> Response:
        """Search by text, item, vector or code, or by a batch of these."""
        return await service.search(await _read_body(request))

    @app.post("/v1/search/image", **_responses(schemas.SearchResponse, 400, 422), openapi_extra={"requestBody": _FORM})
    async def search_by_image(request: Request) -> Response:
        """Search by an image, uploaded as multipart/form-data."""
        content, options = await _read_form(request, limits)

        def answer(_: Any) -> Sequence[Any]:
            check_image(content, limits.pixels)
            text = None if options.text is None else SearchQuery("text", options.text, literal=options.literal)
            query = SearchQuery("image", content, options.modality, also=text)
            return service.answer([SearchRequest([query], options.options(limits))])

        return _json(await service.pictures.ask(answer, None))

    @app.post("/v1/suggest", **_responses(schemas.SuggestResponse, 400, 422), openapi_extra=_takes(schemas.Suggest))
    async def suggest(request: Request) -> Response:
        """Suggest labels for items that have none, or that seem to lack some."""
        body = await _read_body(request)

        def answer(state: State) -> dict[str, Any]:
            return answering.suggest_labels(state, _parse(schemas.Suggest, body, limits), limits)

        return await service.respond(service.slow, answer)

    @app.get("/v1/items/{id:item}/thumbnail", responses=_THUMBNAIL | _responses(None, 404)["responses"])
    async def get_thumbnail(id: str, request: Request) -> Response:
        """Return the thumbnail of an item. Ids are percent-encoded, including slashes."""
        raw = _raw_id(request)
        name = raw.removesuffix(b"/thumbnail")
        if name in (raw, b""):  # an item whose id ends in /thumbnail, percent-encoded
            return await service.respond(service.simple, answering.describe_item, _decode(raw))
        work, id = service.thumbnails.of, _decode(name)
        content, tag = await service.pictures.ask(lambda _: [work(service.states.current, id)], None)
        headers = {"etag": f'"{tag}"', "cache-control": "private, no-cache"}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="image/webp")

    @app.get("/v1/items/{id:item}", **_responses(schemas.Item, 404))
    async def get_item(id: str, request: Request) -> Response:
        """Return the labels, metadata and codes of an item. Ids are percent-encoded, including slashes."""
        return await service.respond(service.simple, answering.describe_item, _decode(_raw_id(request)))

    @app.get("/v1/collection", **_responses(schemas.CollectionInfo))
    async def get_collection() -> Response:
        """Return the contents, model, quality and filters of the collection."""
        describe = answering.describe_collection
        return await service.respond(service.simple, State.once, "about", describe, service.settings)

    @app.get("/v1/map", **_responses(schemas.Map))
    async def get_map() -> Response:
        """Return the items in two dimensions, similar ones near each other."""
        return await service.respond(service.map_drawer, State.once, "map", draw_map, limits.map_points)

    changes = _responses(schemas.ChangeResponse, 400, 403, 409, 422)

    @app.post("/v1/items", **changes, openapi_extra=_takes(schemas.NewItems))
    async def add_several(request: Request) -> Response:
        """Add items or replace those with the same ids: all or, on an error, none. Needs `--writable` and a token."""
        body = await _read_body(request)

        def add(states: States) -> dict[str, Any]:
            new = _parse(schemas.NewItems, body, limits)
            return put_items(states, new.items, limits, new.update)

        return await service.change(add)

    @app.get("/v1/items", **_responses(schemas.ItemList, 422))
    async def get_items(
        start: Annotated[int, Query(ge=0, le=1 << 40, description="Position of the first item, from 0.")] = 0,
        n: Annotated[int, Query(ge=1, le=Limits().batch, description="Number of items.")] = 100,
    ) -> Response:
        """Return items in insertion order."""
        return await service.respond(service.simple, answering.list_items, start, min(n, limits.batch))

    removals = _responses(schemas.ChangeResponse, 400, 403, 404, 409, 422)

    @app.post("/v1/remove", **removals, openapi_extra=_takes(schemas.ItemIds))
    async def remove_several(request: Request) -> Response:
        """Remove items: all or, if an id is unknown, none. Needs `--writable` and a token."""
        body = await _read_body(request)
        return await service.change(
            lambda states: remove_items(states, _parse(schemas.ItemIds, body, limits).ids, limits)
        )

    @app.put("/v1/items/{id:item}", **changes, openapi_extra=_takes(schemas.NewItem))
    async def put_item(id: str, request: Request) -> Response:
        """Add an item, or replace the one with its id. Idempotent. Needs `--writable` and a token."""
        name, body = _decode(_raw_id(request)), await _read_body(request)

        def put(states: States) -> dict[str, Any]:
            new = _parse(schemas.NewItem, body, limits).model_dump()
            return put_items(states, [_parse(schemas.ItemWithId, new | {"id": name}, limits)], limits)

        return await service.change(put)

    @app.delete("/v1/items/{id:item}", **_responses(schemas.ChangeResponse, 403, 404, 409))
    async def remove_item(id: str, request: Request) -> Response:
        """Remove an item. Needs `--writable` and a token."""
        return await service.change(lambda states: remove_items(states, [_decode(_raw_id(request))], limits))

    @app.get("/healthz", response_model=schemas.Health)
    async def check_health() -> Response:
        return _json({"status": "ok"})

    @app.get("/readyz", **_responses(schemas.Health))
    async def check_readiness() -> Response:
        if service.metrics.draining:
            raise shutting_down()
        return _json({"status": "ready"})

    @app.get("/metrics", response_class=Response, responses=_METRICS)
    async def get_metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


_BINARY = {"type": "string", "format": "binary"}
_METRICS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_THUMBNAIL: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/webp": {"schema": _BINARY}}, "description": "WebP."},
    304: {"description": "Not modified."},
}
_EXAMPLES = ['{"k": 5, "modalities": "text"}', '{"text": "red"}']
_OPTIONS: Any = {"type": "string", "description": "Search options, as JSON, and a `text` that items must match too."}
_IMAGE = _BINARY | {"description": "JPEG, PNG, WebP, GIF and other formats."}
_FIELDS = {"image": _IMAGE, "options": _OPTIONS | {"examples": _EXAMPLES}}
_FORM_SCHEMA = {"type": "object", "required": ["image"], "properties": _FIELDS}
_FORM = {"required": True, "content": {"multipart/form-data": {"schema": _FORM_SCHEMA}}}


def _takes(model: type[BaseModel]) -> dict[str, Any]:
    """Return the OpenAPI description of a request body, which the endpoint parses itself."""
    schema = {"$ref": f"#/components/schemas/{model.__name__}"}
    return {"requestBody": {"required": True, "content": {_JSON: {"schema": schema}}}}


async def _read_body(request: Request) -> bytes:
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _JSON:
        raise RequestError(422, f"send the body as {_JSON}")
    return await request.body()


def _parse(model: type[Model], body: Any, limits: Limits) -> Model:
    """Validate JSON or plain values. The number of JSON values is limited: each takes more memory when parsed."""
    try:
        if not isinstance(body, bytes):
            return model.model_validate(body)
        if body.count(b",") > limits.values:
            raise RequestError(413, f"the request has more than {limits.values:,} values")
        return model.model_validate_json(body)
    except ValidationError as error:
        raise _validation_error(error.errors(include_input=False)) from None


async def _read_form(request: Request, limits: Limits) -> tuple[bytes, schemas.ImageSearch]:
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise RequestError(400, "send the image as multipart/form-data, in a field named image")
    try:
        form = await request.form(max_files=1, max_fields=1, max_part_size=1 << 16)
    except (MultiPartException, HTTPException, UnicodeDecodeError, ValueError):
        raise RequestError(400, "the form cannot be read: expected a file named image") from None
    try:
        image, options = form.get("image"), form.get("options", "{}")
        if image is None or isinstance(image, str) or not isinstance(options, str):
            raise RequestError(422, "the form must have a file named image, and may have a field named options")
        content = await image.read()
    finally:
        await form.close()
    try:
        plain = json.loads(options)
    except (ValueError, RecursionError):
        raise RequestError(400, "the options are not JSON") from None
    return content, _parse(schemas.ImageSearch, plain, limits)


def _raw_id(request: Request) -> bytes:
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return raw.partition(b"?")[0].removeprefix(b"/v1/items/")


def _decode(raw: bytes) -> str:
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise RequestError(404, "unknown item: the id is not valid UTF-8") from None


def _add_file(app: FastAPI, address: str, file: Path) -> None:
    @app.get(address, include_in_schema=False)
    async def page() -> Response:
        return FileResponse(file, headers={"cache-control": "no-cache"})
