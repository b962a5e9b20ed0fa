"""The ASGI application and its endpoints."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import unquote_to_bytes

from fastapi import Body, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ValidationError
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from dlfh._version import __version__
from dlfh.collection.query import Query as SearchQuery
from dlfh.errors import DLFHError, InputError
from dlfh.service import schemas
from dlfh.service.answering import SearchRequest, answer_together, describe_collection, describe_item, dump, list_items
from dlfh.service.batching import Batcher
from dlfh.service.errors import RequestError
from dlfh.service.guard import Guard
from dlfh.service.map import draw_map
from dlfh.service.monitoring import Log, Metrics
from dlfh.service.settings import Limits, Settings
from dlfh.service.states import State, States
from dlfh.service.thumbnails import Thumbnails, check_image
from dlfh.service.writing import put_items, remove_items

_PAGE = Path(__file__).parent / "page"
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
    app = FastAPI(
        title="dlfh",
        version=__version__,
        description=_DESCRIPTION,
        docs_url=None,  # it loads scripts from another host
        redoc_url=None,
        lifespan=service.lifespan,
        redirect_slashes=False,
    )
    app.state.service = service
    app.add_middleware(Guard, settings=service.settings, metrics=service.metrics, log=service.log)
    _add_handlers(app, service)
    _add_endpoints(app, service)
    _add_page(app)
    return app


class Service:
    """State that the endpoints share."""

    def __init__(self, folder: Path, settings: Settings, log: Log) -> None:
        self.settings = settings
        self.log = log
        self.metrics = Metrics()
        self.states = States(folder)
        if settings.writable:
            self.states.current.warm_up_changes()
        self.thumbnails = Thumbnails()
        limits = settings.limits
        self.batcher = Batcher(settings.workers, limits.waiting, limits.answer_seconds)
        self.batcher.on_batch = self.metrics.batches.observe
        # Changes are applied one at a time. Neither they nor the map, which is slow, occupy a search thread.
        self._writer = Batcher(1, limits.waiting, limits.answer_seconds)
        self._map_drawer = Batcher(1, limits.waiting, limits.answer_seconds)
        self.metrics.waiting.set_function(lambda: len(self.batcher))
        self.metrics.items.set_function(lambda: len(self.states.current.index))

    @property
    def limits(self) -> Limits:
        return self.settings.limits

    @contextlib.asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Watch for changes of the collection while the service runs."""
        watcher = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watcher
            for batcher in (self.batcher, self._writer, self._map_drawer):
                await asyncio.to_thread(batcher.close)

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

    async def search(self, search: SearchRequest) -> Response:
        """Answer a search."""
        limits, (queries, options) = self.limits, search
        if len(queries) > limits.batch:
            raise RequestError(422, f"a search can have at most {limits.batch} queries")
        if len(queries) * options.k > limits.answers:
            raise RequestError(
                422, f"a search can have at most {limits.answers:,} answers: send fewer queries, or reduce k"
            )
        if options.radius is not None and len(queries) > 1:
            raise RequestError(422, "a radius is allowed for a single query only")
        if any(query.kind == "text" and len(query.value) > limits.text for query in queries):
            raise RequestError(422, f"a text can have at most {limits.text:,} characters")
        group = ("search", queries[0].kind, queries[0].modality) if len(queries) == 1 else None
        return Response(await self.batcher.ask(self._answer, search, group), media_type=_JSON)

    def _answer(self, requests: Sequence[SearchRequest]) -> Sequence[Any]:
        return answer_together(self.states.current, requests)

    async def draw_map(self) -> bytes:
        """Return the map, computed once per state of the collection."""

        def draw(_: Any) -> list[bytes]:
            state = self.states.current
            return [state.once("map", lambda: dump(draw_map(state, self.limits.map_points)))]

        content: bytes = await self._map_drawer.ask(draw, None)
        return content

    def describe(self, state: State) -> bytes:
        """Return the description of the collection, computed once per state."""
        content: bytes = state.once("description", lambda: dump(describe_collection(state, self.settings)))
        return content

    async def change(self, work: Callable[..., Any], *arguments: Any) -> Response:
        """Change the collection, if the service is writable."""
        if not self.settings.writable:
            raise RequestError(403, "this service is read-only: start it with --writable to allow changes")
        done = await self._writer.ask(lambda _: [work(self.states, *arguments)], None)
        self.log.event("changed", **{name: done[name] for name in ("items", "added", "replaced", "removed")})
        return Response(dump(done), media_type=_JSON)

    async def run(self, work: Any, *arguments: Any) -> Any:
        """Call a function with the current state, in a search thread."""
        return await self.batcher.ask(lambda _: [work(self.states.current, *arguments)], None)


def _add_handlers(app: FastAPI, service: Service) -> None:
    def respond(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
        return Response(dump({"error": message}), status, headers, media_type=_JSON)

    @app.exception_handler(RequestError)
    async def request_error(request: Request, error: RequestError) -> Response:
        return respond(error.status, error.message, error.headers)

    @app.exception_handler(DLFHError)
    async def library_error(request: Request, error: DLFHError) -> Response:
        if isinstance(error, InputError):
            return respond(422, str(error)[:1000])
        service.log.failure(error)
        return respond(503, "the collection cannot be read or changed at the moment", {"retry-after": "5"})

    @app.exception_handler(RequestValidationError)
    async def validation_error(request: Request, error: RequestValidationError) -> Response:
        return respond(*_validation_message(error.errors()))

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        messages = {404: "unknown address", 405: "this address does not support the method"}
        headers = dict(error.headers) if error.headers else None
        return respond(error.status_code, messages.get(error.status_code, "the request cannot be read"), headers)


def _validation_message(errors: Sequence[Any]) -> tuple[int, str]:
    """Return the status and message of the first validation error."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return 400, "the body is not JSON"
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))[:200]
    message = str(first["msg"]).removeprefix("Value error, ")[:500]
    message = message[:1].lower() + message[1:]
    return 422, f"{place}: {message}" if place else message


def _responses(model: type[BaseModel] | None, *statuses: int) -> dict[str, Any]:
    """Return the arguments of an endpoint that document its responses."""
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
    @app.post("/v1/search", **_responses(schemas.SearchResponse, 400, 404, 422))
    async def search(search: Annotated[schemas.Search, Body()]) -> Response:
        """Search by text, item, vector or code, or by a batch of these."""
        return await service.search(search.request(service.limits))

    @app.post("/v1/search/image", **_responses(schemas.SearchResponse, 400, 422), openapi_extra={"requestBody": _FORM})
    async def search_by_image(request: Request) -> Response:
        """Search by an image, uploaded as multipart/form-data."""
        content, options = await _read_form(request)
        await service.run(lambda _: check_image(content, service.limits.pixels))
        query = SearchQuery("image", content, options.modality)
        return await service.search(SearchRequest([query], options.options(service.limits)))

    @app.get("/v1/items/{id:path}/thumbnail", responses=_THUMBNAIL | _responses(None, 404)["responses"])
    async def get_thumbnail(id: str, request: Request) -> Response:
        """Return the thumbnail of an item. Ids are percent-encoded, including slashes."""
        name, is_thumbnail = _item_of(request)
        if not is_thumbnail:
            return Response(dump(await service.run(describe_item, name)), media_type=_JSON)
        content, tag = await service.run(service.thumbnails.of, name)
        headers = {"etag": f'"{tag}"', "cache-control": "private, no-cache"}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="image/webp")

    @app.get("/v1/items/{id:path}", **_responses(schemas.Item, 404))
    async def get_item(id: str, request: Request) -> Response:
        """Return the labels, metadata and codes of an item. Ids are percent-encoded, including slashes."""
        name, _ = _item_of(request)
        return Response(dump(await service.run(describe_item, name)), media_type=_JSON)

    @app.get("/v1/collection", **_responses(schemas.CollectionInfo))
    async def get_collection() -> Response:
        """Return the contents, model, quality and filters of the collection."""
        return Response(await service.run(service.describe), media_type=_JSON)

    @app.get("/v1/map", **_responses(schemas.Map))
    async def get_map() -> Response:
        """Return the items in two dimensions, similar ones near each other."""
        return Response(await service.draw_map(), media_type=_JSON)

    @app.post("/v1/items", **_responses(schemas.ChangeResponse, 400, 403, 409, 422))
    async def add_several(new: Annotated[schemas.NewItems, Body()]) -> Response:
        """Add items or replace those with the same ids: all or, on an error, none. Needs `--writable` and a token."""
        return await service.change(put_items, new.items, service.limits, new.update)

    @app.get("/v1/items", **_responses(schemas.ItemList, 422))
    async def get_items(
        start: Annotated[int, Query(ge=0, le=1 << 40, description="Position of the first item, from 0.")] = 0,
        n: Annotated[int, Query(ge=1, le=Limits().batch, description="Number of items.")] = 100,
    ) -> Response:
        """Return items in insertion order."""
        return Response(dump(await service.run(list_items, start, min(n, service.limits.batch))), media_type=_JSON)

    @app.post("/v1/remove", **_responses(schemas.ChangeResponse, 400, 403, 404, 409, 422))
    async def remove_several(old: Annotated[schemas.ItemIds, Body()]) -> Response:
        """Remove items: all or, if an id is unknown, none. Needs `--writable` and a token."""
        return await service.change(remove_items, old.ids, service.limits)

    @app.put("/v1/items/{id:path}", **_responses(schemas.ChangeResponse, 400, 403, 409, 422))
    async def put_item(id: str, request: Request, new: Annotated[schemas.NewItem, Body()]) -> Response:
        """Add an item, or replace the one with its id. Idempotent. Needs `--writable` and a token."""
        named = _validate(schemas.ItemWithId, new.model_dump() | {"id": _id_of(request)})
        return await service.change(put_items, [named], service.limits)

    @app.delete("/v1/items/{id:path}", **_responses(schemas.ChangeResponse, 403, 404, 409))
    async def remove_item(id: str, request: Request) -> Response:
        """Remove an item. Needs `--writable` and a token."""
        return await service.change(remove_items, [_id_of(request)], service.limits)

    @app.get("/healthz", response_model=schemas.Health)
    async def check_health() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", **_responses(schemas.Health))
    async def check_readiness() -> Response:
        if service.metrics.draining:
            raise RequestError(503, "the service is shutting down", {"retry-after": "5"})
        return JSONResponse({"status": "ready"})

    @app.get("/metrics", response_class=Response, responses=_METRICS)
    async def get_metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


_METRICS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_THUMBNAIL: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/webp": {"schema": {"type": "string", "format": "binary"}}}, "description": "WebP."},
    304: {"description": "Not modified."},
}
_FORM_FIELDS = {
    "image": {"type": "string", "format": "binary", "description": "JPEG, PNG, WebP, GIF and other formats."},
    "options": {
        "type": "string",
        "description": "Search options, as JSON.",
        "examples": ['{"k": 5, "modalities": "text"}'],
    },
}
_FORM = {
    "required": True,
    "content": {
        "multipart/form-data": {"schema": {"type": "object", "required": ["image"], "properties": _FORM_FIELDS}}
    },
}


async def _read_form(request: Request) -> tuple[bytes, schemas.ImageSearch]:
    """Return the image and the search options of a form."""
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
    return content, _validate(schemas.ImageSearch, plain)


def _validate(model: type[Model], plain: Any) -> Model:
    """Validate plain values; raise `RequestError` if they are invalid."""
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        raise RequestError(*_validation_message(error.errors())) from None


def _item_of(request: Request) -> tuple[str, bool]:
    """Return the id in an address, and whether the address is that of the thumbnail.

    An id may contain slashes, and even end in "/thumbnail": percent-encoded slashes belong to the id.
    """
    raw = _raw_id(request)
    name, _, last = raw.rpartition(b"/")
    is_thumbnail = last == b"thumbnail" and name != b""
    return _decode(name if is_thumbnail else raw), is_thumbnail


def _id_of(request: Request) -> str:
    """Return the item id in a URL."""
    return _decode(_raw_id(request))


def _raw_id(request: Request) -> bytes:
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return raw.partition(b"?")[0].removeprefix(b"/v1/items/")


def _decode(raw: bytes) -> str:
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise RequestError(404, "unknown item: the id is not valid UTF-8") from None


def _add_page(app: FastAPI) -> None:
    """Serve the files of the search page."""
    for file in sorted(path for path in _PAGE.rglob("*") if path.is_file()):
        address = "/" + file.relative_to(_PAGE).as_posix()
        _add_file(app, "/" if address == "/index.html" else address, file)


def _add_file(app: FastAPI, address: str, file: Path) -> None:
    @app.get(address, include_in_schema=False)
    async def page() -> Response:
        return FileResponse(file, headers={"cache-control": "no-cache"})
