"""The endpoints."""

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
from dlfh.service.about import describe_collection
from dlfh.service.answering import SearchRequest, answer_together, describe_item, dump, list_items
from dlfh.service.batching import Batcher
from dlfh.service.errors import Refusal
from dlfh.service.guard import Guard
from dlfh.service.logs import Log
from dlfh.service.map import draw_map
from dlfh.service.metrics import Metrics
from dlfh.service.schemas import (
    AboutCollection,
    Answers,
    Changed,
    Failed,
    Health,
    ImageSearch,
    Item,
    ItemList,
    Map,
    NamedItem,
    NewItem,
    NewItems,
    OldItems,
    Search,
)
from dlfh.service.settings import Limits, Settings
from dlfh.service.states import State, States
from dlfh.service.thumbnails import Thumbnails, check_pixels
from dlfh.service.writing import put_items, remove_items

_PAGE = Path(__file__).parent / "page"
_JSON = "application/json"
Model = TypeVar("Model", bound=BaseModel)

_DESCRIPTION = """Find items of a collection by a text, an image, an item, a vector or a code.

Every answer says how probable it is that it is right, and carries its code and the query's. Errors have a status and
one sentence: `{"error": "..."}`."""


def create_app(folder: str | os.PathLike[str], settings: Settings | None = None, *, log: Log | None = None) -> FastAPI:
    """Make an ASGI application that serves a collection.

    Parameters
    ----------
    folder : path
        Of the collection.
    settings : Settings, optional
    log : Log, optional
        Where lines about requests go; by default nowhere.

    Returns
    -------
    fastapi.FastAPI
        For uvicorn or another ASGI server; `serve` does it all.

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
        docs_url=None,  # its page loads scripts of another host
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
    """What the endpoints share."""

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
        # Changes come one after the other; what takes long and is done once keeps no worker from questions.
        self._writer = Batcher(1, limits.waiting, limits.answer_seconds)
        self._painter = Batcher(1, limits.waiting, limits.answer_seconds)
        self.metrics.waiting.set_function(lambda: len(self.batcher))
        self.metrics.items.set_function(lambda: len(self.states.current.index))

    @property
    def limits(self) -> Limits:
        return self.settings.limits

    @contextlib.asynccontextmanager
    async def lifespan(self, app: FastAPI) -> AsyncIterator[None]:
        """Look for changes of the collection while the service runs."""
        watching = asyncio.create_task(self._watch())
        try:
            yield
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching
            for batcher in (self.batcher, self._writer, self._painter):
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

    # What workers do

    async def search(self, search: SearchRequest) -> Response:
        """Answer the queries of a request."""
        limits, (queries, options) = self.limits, search
        if len(queries) > limits.batch:
            raise Refusal(422, f"a search has at most {limits.batch} queries")
        if len(queries) * options.k > limits.answers:
            raise Refusal(422, f"a search has at most {limits.answers:,} answers: send fewer queries, or reduce k")
        if options.radius is not None and len(queries) > 1:
            raise Refusal(422, "a radius is allowed for a single query only")
        if any(query.kind == "text" and len(query.value) > limits.text for query in queries):
            raise Refusal(422, f"a text has at most {limits.text:,} characters")
        group = ("search", queries[0].kind, queries[0].modality) if len(queries) == 1 else None
        return Response(await self.batcher.ask(self._answer, search, group), media_type=_JSON)

    def _answer(self, requests: Sequence[SearchRequest]) -> Sequence[Any]:
        return answer_together(self.states.current, requests)

    async def draw_map(self) -> bytes:
        """Return the map, drawn once for each state of the collection."""

        def draw(_: Any) -> list[bytes]:
            state = self.states.current
            return [state.once("map", lambda: dump(draw_map(state, self.limits.map_points)))]

        content: bytes = await self._painter.ask(draw, None)
        return content

    def about(self, state: State) -> bytes:
        """Return what the collection says of itself, found out once for each of its states."""
        content: bytes = state.once("about", lambda: dump(describe_collection(state, self.settings)))
        return content

    async def change(self, work: Callable[..., Any], *arguments: Any) -> Response:
        """Change the collection, if that is allowed."""
        if not self.settings.writable:
            raise Refusal(403, "this service takes no changes: it was started without --writable")
        done = await self._writer.ask(lambda _: [work(self.states, *arguments)], None)
        self.log.event("changed", **{name: done[name] for name in ("items", "added", "replaced", "removed")})
        return Response(dump(done), media_type=_JSON)

    async def run(self, work: Any, *arguments: Any) -> Any:
        """Return what a function gives, called by a worker with the current state."""
        return await self.batcher.ask(lambda _: [work(self.states.current, *arguments)], None)


def _add_handlers(app: FastAPI, service: Service) -> None:
    def failed(status: int, sentence: str, headers: dict[str, str] | None = None) -> Response:
        return Response(dump({"error": sentence}), status, headers, media_type=_JSON)

    @app.exception_handler(Refusal)
    async def refused(request: Request, error: Refusal) -> Response:
        return failed(error.status, error.sentence, error.headers)

    @app.exception_handler(DLFHError)
    async def wrong(request: Request, error: DLFHError) -> Response:
        if isinstance(error, InputError):
            return failed(422, str(error)[:1000])
        service.log.failure(error)
        return failed(503, "the collection cannot be read or changed at the moment", {"retry-after": "5"})

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return failed(*_sentence_of(error.errors()))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        sentences = {404: "there is nothing at this address", 405: "this address does not take that method"}
        headers = dict(error.headers) if error.headers else None
        return failed(error.status_code, sentences.get(error.status_code, "the request cannot be read"), headers)


def _sentence_of(errors: Sequence[Any]) -> tuple[int, str]:
    """Return a status and a sentence for what is wrong with a request."""
    first = errors[0]
    if first["type"] == "json_invalid":
        return 400, "the body is not JSON"
    place = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))[:200]
    message = str(first["msg"]).removeprefix("Value error, ")[:500]
    sentence = message[:1].lower() + message[1:]
    return 422, f"{place}: {sentence}" if place else sentence


def _responses(*statuses: int) -> dict[int | str, dict[str, Any]]:
    meanings = {
        400: "It cannot be read.",
        401: "The token is missing or wrong.",
        403: "The service does not take changes.",
        404: "There is no such item.",
        408: "It took too long to arrive.",
        409: "Another process is changing the collection.",
        413: "It is too large.",
        421: "The service is not called by that name.",
        422: "Something in it is wrong; the sentence says what.",
        503: "The service is busy; Retry-After says when to ask again.",
    }
    return {
        status: {"model": Failed, "description": meanings[status]} for status in (401, 408, 413, 421, 503, *statuses)
    }


def _add_endpoints(app: FastAPI, service: Service) -> None:
    @app.post("/v1/search", response_model=Answers, responses=_responses(400, 404, 422), summary="Search")
    async def search(search: Annotated[Search, Body()]) -> Response:
        """Find items by a text, an item, a vector or a code, or by several of these at once."""
        return await service.search(search.request(service.limits))

    @app.post(
        "/v1/search/image",
        response_model=Answers,
        responses=_responses(400, 422),
        summary="Search by an image",
        openapi_extra={"requestBody": _FORM},
    )
    async def search_by_image(request: Request) -> Response:
        """Find items by an image that is uploaded as a form (multipart/form-data)."""
        content, options = await _read_form(request)
        await service.run(lambda _: check_pixels(content, service.limits.pixels))
        query = SearchQuery("image", content, options.modality)
        return await service.search(SearchRequest([query], options.options(service.limits)))

    @app.get("/v1/items/{id:path}/thumbnail", responses=_THUMBNAIL | _responses(404), summary="An item's picture")
    async def thumbnail(id: str, request: Request) -> Response:
        """Return the picture of an item, small. Ids are percent-encoded, slashes too."""
        name, is_thumbnail = _item_of(request)
        if not is_thumbnail:
            return Response(dump(await service.run(describe_item, name)), media_type=_JSON)
        content, tag = await service.run(service.thumbnails.of, name)
        headers = {"etag": f'"{tag}"', "cache-control": "private, no-cache"}
        if request.headers.get("if-none-match") == headers["etag"]:
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type="image/webp")

    @app.get("/v1/items/{id:path}", response_model=Item, responses=_responses(404), summary="An item")
    async def item(id: str, request: Request) -> Response:
        """Return an item: its labels, metadata and codes. Ids are percent-encoded, slashes too."""
        name, _ = _item_of(request)
        return Response(dump(await service.run(describe_item, name)), media_type=_JSON)

    @app.get("/v1/collection", response_model=AboutCollection, responses=_responses(), summary="The collection")
    async def collection() -> Response:
        """Return what the collection holds, how its codes were learned, and what it can be filtered by."""
        return Response(await service.run(service.about), media_type=_JSON)

    @app.get("/v1/map", response_model=Map, responses=_responses(), summary="The map")
    async def map_of_codes() -> Response:
        """Return the codes in two dimensions, computed once for each state of the collection."""
        return Response(await service.draw_map(), media_type=_JSON)

    @app.post("/v1/items", response_model=Changed, responses=_responses(400, 403, 409, 422), summary="Add items")
    async def add(new: Annotated[NewItems, Body()]) -> Response:
        """Add items, or replace those with the same ids: all in one step or, on an error, none."""
        return await service.change(put_items, new.items, service.limits, new.update)

    @app.get("/v1/items", response_model=ItemList, responses=_responses(422), summary="All items, some at a time")
    async def items(
        start: Annotated[int, Query(ge=0, le=1 << 40, description="Which is the first, from 0.")] = 0,
        n: Annotated[int, Query(ge=1, le=Limits().batch, description="How many.")] = 100,
    ) -> Response:
        """Return items in the order in which they were added."""
        return Response(dump(await service.run(list_items, start, min(n, service.limits.batch))), media_type=_JSON)

    @app.post(
        "/v1/remove", response_model=Changed, responses=_responses(400, 403, 404, 409, 422), summary="Remove items"
    )
    async def remove_several(old: Annotated[OldItems, Body()]) -> Response:
        """Remove items: all in one step or, if one is not there, none. Needs `--writable` and a token."""
        return await service.change(remove_items, old.ids, service.limits)

    @app.put(
        "/v1/items/{id:path}", response_model=Changed, responses=_responses(400, 403, 409, 422), summary="Put an item"
    )
    async def put(id: str, request: Request, new: Annotated[NewItem, Body()]) -> Response:
        """Add an item, or replace the one with its id; again changes nothing more. Needs `--writable` and a token."""
        named = _checked(NamedItem, new.model_dump() | {"id": _id_of(request)})
        return await service.change(put_items, [named], service.limits)

    @app.delete(
        "/v1/items/{id:path}", response_model=Changed, responses=_responses(403, 404, 409), summary="Remove an item"
    )
    async def remove(id: str, request: Request) -> Response:
        """Remove an item. Needs `--writable` and a token."""
        return await service.change(remove_items, [_id_of(request)], service.limits)

    @app.get("/healthz", response_model=Health, summary="Whether the service is there")
    async def health() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get("/readyz", response_model=Health, responses=_responses(), summary="Whether it takes requests")
    async def ready() -> Response:
        if service.metrics.draining:
            raise Refusal(503, "the service is about to end", {"retry-after": "5"})
        return JSONResponse({"status": "ready"})

    @app.get("/metrics", summary="What is counted, for Prometheus", response_class=Response, responses=_METRICS)
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)


_METRICS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_THUMBNAIL: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/webp": {"schema": {"type": "string", "format": "binary"}}}, "description": "WebP."},
    304: {"description": "It is still the same."},
}
_FORM = {
    "required": True,
    "content": {
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["image"],
                "properties": {
                    "image": {"type": "string", "format": "binary", "description": "JPEG, PNG, WebP, GIF and others."},
                    "options": {
                        "type": "string",
                        "description": 'What is asked for, as JSON: {"k": 5, "modalities": "text"}.',
                        "examples": ['{"k": 5, "modalities": "text"}'],
                    },
                },
            },
        }
    },
}


async def _read_form(request: Request) -> tuple[bytes, ImageSearch]:
    """Return the image of a form, and what is asked for with it."""
    if not request.headers.get("content-type", "").lower().startswith("multipart/form-data"):
        raise Refusal(400, "the image is sent as multipart/form-data, in a field called image")
    try:
        form = await request.form(max_files=1, max_fields=1, max_part_size=1 << 16)
    except (MultiPartException, HTTPException, UnicodeDecodeError, ValueError):
        raise Refusal(400, "the form cannot be read: it has a file called image, and a field called options") from None
    try:
        image, options = form.get("image"), form.get("options", "{}")
        if image is None or isinstance(image, str) or not isinstance(options, str):
            raise Refusal(422, "the form has a file called image, and a field called options")
        content = await image.read()
    finally:
        await form.close()
    try:
        plain = json.loads(options)
    except (ValueError, RecursionError):
        raise Refusal(400, "the options are not JSON") from None
    return content, _checked(ImageSearch, plain)


def _checked(model: type[Model], plain: Any) -> Model:
    """Return what plain values describe, or say what is wrong with them."""
    try:
        return model.model_validate(plain)
    except ValidationError as error:
        raise Refusal(*_sentence_of(error.errors())) from None


def _item_of(request: Request) -> tuple[str, bool]:
    """Return the id in an address as it was written, and whether its picture is asked for.

    An id may hold slashes, and end like an address of a picture: what was percent-encoded is part of it.
    """
    written = _written_id(request)
    name, _, last = written.rpartition(b"/")
    is_thumbnail = last == b"thumbnail" and name != b""
    return _decoded(name if is_thumbnail else written), is_thumbnail


def _id_of(request: Request) -> str:
    """Return the id in an address as it was written."""
    return _decoded(_written_id(request))


def _written_id(request: Request) -> bytes:
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return raw.partition(b"?")[0].removeprefix(b"/v1/items/")


def _decoded(written: bytes) -> str:
    try:
        return unquote_to_bytes(written).decode()
    except UnicodeDecodeError:
        raise Refusal(404, "there is no such item: its id is not valid UTF-8") from None


def _add_page(app: FastAPI) -> None:
    """Serve the files of the page, each at its own address and no others."""
    for file in sorted(path for path in _PAGE.rglob("*") if path.is_file()):
        address = "/" + file.relative_to(_PAGE).as_posix()
        _add_file(app, "/" if address == "/index.html" else address, file)


def _add_file(app: FastAPI, address: str, file: Path) -> None:
    @app.get(address, include_in_schema=False)
    async def page() -> Response:
        return FileResponse(file, headers={"cache-control": "no-cache"})
