"""The endpoints: addresses, the OpenAPI description, and how requests are read."""

from __future__ import annotations

import hashlib
import json
import mimetypes
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar
from urllib.parse import quote, unquote_to_bytes

from fastapi import FastAPI, Query, Request, Response
from fastapi.responses import RedirectResponse
from prometheus_client import CONTENT_TYPE_LATEST
from pydantic import BaseModel, ValidationError
from starlette.convertors import StringConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException

from dlfh._imports import require
from dlfh.collection.query import Query as SearchQuery
from dlfh.collection.teaching import edit_items
from dlfh.service import answering, responses, schemas
from dlfh.service.answering import RequestError, SearchRequest, shutting_down
from dlfh.service.map import draw_map
from dlfh.service.queries import DAYS
from dlfh.service.settings import Limits
from dlfh.service.states import State
from dlfh.service.thumbnails import Picture, check_image
from dlfh.service.writing import Changes

if TYPE_CHECKING:
    from dlfh.service.app import Resources, Service

_JSON = "application/json"
_STYLES = ("style", "answers", "panels", "item", "map")  # style sheets of the page; later ones take precedence
Model = TypeVar("Model", bound=BaseModel)


class _ItemId(StringConvertor):
    """Any string, including slashes and line breaks."""

    regex: ClassVar[str] = r"[\s\S]*"


register_url_convertor("item", _ItemId())


def as_json(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a response in JSON."""
    return Response(
        content if isinstance(content, bytes) else answering.dump(content), status, headers, media_type=_JSON
    )


def validation_error(errors: Sequence[Any]) -> RequestError:
    """Return the first error of pydantic as one sentence."""
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
        401: "The key is missing or wrong.",
        403: "The service is read-only, or the role of the key does not permit this.",
        404: "Unknown item.",
        408: "The request took too long to arrive.",
        409: "Another process is changing the collection.",
        413: "The request is too large.",
        421: "The host name is not allowed.",
        422: "The request is invalid.",
        503: "The service is busy: retry after the delay in Retry-After.",
    }
    errors = (401, 408, 413, 421, 503, *statuses)
    documented = {status: {"model": responses.ErrorMessage, "description": meanings[status]} for status in errors}
    return {"response_model": model, "responses": documented}


def add_endpoints(app: FastAPI, service: Service) -> None:
    """Add the endpoints that read."""
    limits = service.settings.limits

    @app.post("/v1/search", **_responses(responses.SearchResponse, 400, 404, 422), openapi_extra=_takes(schemas.Search))
    async def search(request: Request) -> Response:
        """Search by text, item, vector or code, or by a batch of these."""
        return await service.search(await _read_body(request))

    @app.post(
        "/v1/search/image", **_responses(responses.SearchResponse, 400, 422), openapi_extra={"requestBody": _FORM}
    )
    async def search_by_image(request: Request) -> Response:
        """Search by an image, uploaded as multipart/form-data."""
        content, options = await _read_form(request, limits)

        def answer(_: Any) -> Sequence[Any]:
            check_image(content, limits.pixels)
            text = None if options.text is None else SearchQuery("text", options.text, literal=options.literal)
            query = SearchQuery("image", content, options.modality, also=text)
            return service.answer([SearchRequest([query], options.options(limits))])

        return as_json(await service.resources.pictures.ask(answer, None))

    @app.post("/v1/suggest", **_responses(responses.SuggestResponse, 400, 422), openapi_extra=_takes(schemas.Suggest))
    async def suggest(request: Request) -> Response:
        """Suggest labels for items that have none, or that seem to lack some."""
        body = await _read_body(request)

        def answer(state: State) -> dict[str, Any]:
            return answering.suggest_labels(state, parse(schemas.Suggest, body, limits), limits)

        return await service.respond(service.resources.slow, answer)

    @app.post("/v1/queries/image", **_responses(responses.QueryImage, 400, 422), openapi_extra={"requestBody": _FORM})
    async def keep_query_image(request: Request) -> Response:
        """Keep an image for searches, uploaded as multipart/form-data, so that others can see and repeat the search."""
        content, _ = await _read_form(request, limits)
        keep = service.resources.query_images.keep
        key = await service.resources.pictures.ask(lambda _: [keep(content, limits.pixels)], None)
        return as_json({"key": key, "days": DAYS})

    @app.get("/v1/queries/{key}", responses=_THUMBNAIL | _responses(None, 404, 422)["responses"])
    async def get_query_image(key: schemas.Key, request: Request) -> Response:
        """Return an image that was uploaded to `/v1/queries/image`."""
        content = await service.resources.pictures.ask(lambda _: [service.resources.query_images.get(key)], None)
        return _tagged(request, content, f'"{key}"', "image/webp", {"cache-control": "private, max-age=86400"})

    @app.get("/v1/label/next", **_responses(responses.NextItems, 422))
    async def get_items_to_label(
        n: Annotated[int, Query(ge=1, le=Limits().batch, description="Number of items.")] = 20,
    ) -> Response:
        """Return items without labels to label next, typical ones that differ, and labels that they may have."""
        return await service.respond(service.resources.slow, answering.items_to_label, n)

    @app.get("/v1/complete", **_responses(responses.Completions, 422))
    async def complete(
        q: Annotated[str, Query(min_length=1, max_length=200, description="Text to complete.")],
        n: Annotated[int, Query(ge=1, le=100, description="Number of completions.")] = 10,
    ) -> Response:
        """Return labels, then titles of items, in which a word starts with the text; case and accents do not matter."""
        return await service.respond(service.resources.simple, answering.complete, q, n)

    @app.get("/v1/items/{id:item}/thumbnail", responses=_THUMBNAIL | _responses(None, 404, 422)["responses"])
    async def get_thumbnail(
        id: str,
        request: Request,
        size: Annotated[Literal["256", "1024"], Query(description="Longest side, in pixels.")] = "256",
    ) -> Response:
        """Return the thumbnail of an item. Ids are percent-encoded, including slashes."""
        return await get_picture(
            request, b"/thumbnail", lambda state, id: service.resources.thumbnails.of(state, id, int(size))
        )

    @app.get("/v1/items/{id:item}/image", responses=_IMAGE_FILE | _responses(None, 403, 404)["responses"])
    async def get_image(id: str, request: Request) -> Response:
        """Return the original image of an item, if the service has `--originals`."""
        if not service.settings.originals:
            raise RequestError(403, "this service does not offer original images: start it with --originals")
        return await get_picture(request, b"/image", service.resources.thumbnails.original)

    async def get_picture(request: Request, suffix: bytes, work: Callable[[State, str], Picture]) -> Response:
        raw = _raw_id(request)
        name = raw.removesuffix(suffix)
        if name in (raw, b""):  # an item whose id ends in /thumbnail, percent-encoded
            return await describe_item(request, raw)
        id = _decode(name)
        picture = await service.resources.pictures.ask(lambda _: [work(service.states.current, id)], None)
        headers = {"cache-control": "private, no-cache"}
        if picture.name is not None:
            headers["content-disposition"] = f"attachment; filename*=UTF-8''{quote(picture.name, safe='')}"
        return _tagged(request, picture.content, f'"{picture.tag}"', picture.kind, headers)

    @app.get("/v1/items/{id:item}", **_responses(responses.Item, 404))
    async def get_item(id: str, request: Request) -> Response:
        """Return the labels, metadata and codes of an item. Ids are percent-encoded, including slashes."""
        return await describe_item(request, _raw_id(request))

    async def describe_item(request: Request, raw: bytes) -> Response:
        work, id = answering.describe_item, _decode(raw)
        found = await service.resources.simple.ask(lambda _: [work(service.states.current, id)], None)
        item = answering.dump({name: value for name, value in found.items() if name != "state"})
        # Weak, because the state is not compared: it changes whenever any item does.
        tag = f'W/"{hashlib.sha256(item).hexdigest()[:32]}"'
        return _tagged(request, answering.dump(found), tag, _JSON, {"cache-control": "private, no-cache"})

    @app.get("/v1/collection", **_responses(responses.CollectionInfo))
    async def get_collection(request: Request) -> Response:
        """Return the contents, model, quality and filters of the collection, and what the client may do."""

        def describe(state: State) -> dict[str, Any]:
            about = state.once("about", answering.describe_collection, service.settings)
            return about | {"role": request.scope.get("dlfh.role", "read"), "multiple": service.is_one_of_several}

        return await service.respond(service.resources.simple, describe)

    @app.get("/v1/map", **_responses(responses.Map))
    async def get_map() -> Response:
        """Return the items in two dimensions, similar ones near each other."""
        return await service.respond(service.resources.map_drawer, State.once, "map", draw_map, limits.map_points)

    @app.get("/v1/items", **_responses(responses.ItemList, 422))
    async def get_items(
        start: Annotated[int, Query(ge=0, le=1 << 40, description="Position of the first item, from 0.")] = 0,
        n: Annotated[int, Query(ge=1, le=Limits().batch, description="Number of items.")] = 100,
    ) -> Response:
        """Return items in insertion order."""
        return await service.respond(service.resources.simple, answering.list_items, start, min(n, limits.batch))


def add_health(app: FastAPI, resources: Resources) -> None:
    """Add liveness, readiness and metrics."""

    @app.get("/healthz", response_model=responses.Health)
    async def check_health() -> Response:
        return as_json({"status": "ok"})

    @app.get("/readyz", **_responses(responses.Health))
    async def check_readiness() -> Response:
        if resources.metrics.draining:
            raise shutting_down()
        return as_json({"status": "ready"})

    @app.get("/metrics", response_class=Response, responses=_METRICS)
    async def get_metrics() -> Response:
        return Response(resources.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def add_list(app: FastAPI, services: Mapping[str, Service]) -> None:
    """Add the list of several collections."""

    @app.get("/v1/collections")
    async def get_collections() -> Response:
        """Return the names, addresses and sizes of the collections."""
        counts = {name: len(service.states.current.index) for name, service in services.items()}
        listed = [{"name": name, "address": f"c/{quote(name, safe='')}/", "items": n} for name, n in counts.items()]
        return as_json({"collections": listed})

    @app.get("/c/{name}", include_in_schema=False)
    async def add_slash(name: str) -> Response:
        if name not in services:
            raise HTTPException(404)
        return RedirectResponse(f"{quote(name, safe='')}/", 308)


def add_changes(app: FastAPI, service: Service) -> None:
    """Add the endpoints that change items, which need `--writable` and a key that may write."""
    limits = service.settings.limits
    documented = _responses(responses.ChangeResponse, 400, 403, 404, 409, 422)

    async def change(
        request: Request, model: type[Model], work: Callable[[Changes, Model], dict[str, Any]]
    ) -> Response:
        body = await _read_body(request)
        return await service.change(request, lambda changes: work(changes, parse(model, body, limits)))

    @app.post("/v1/items", **documented, openapi_extra=_takes(schemas.NewItems))
    async def add_several(request: Request) -> Response:
        """Add items or replace those with the same ids: all or, on an error, none."""
        return await change(request, schemas.NewItems, lambda changes, new: changes.put(new.items, new.update))

    @app.post("/v1/remove", **documented, openapi_extra=_takes(schemas.ItemIds))
    async def remove_several(request: Request) -> Response:
        """Remove items: all or, if an id is unknown, none."""
        return await change(request, schemas.ItemIds, lambda changes, items: changes.remove(items.ids))

    def label_items(changes: Changes, new: schemas.LabelChange) -> dict[str, Any]:
        return changes.edit(new.ids, lambda collection: collection.label(new.ids, add=new.add, remove=new.remove))

    @app.post("/v1/label", **documented, openapi_extra=_takes(schemas.LabelChange))
    async def label(request: Request) -> Response:
        """Add labels to items and remove labels from them: all items or, if an id is unknown, none."""
        return await change(request, schemas.LabelChange, label_items)

    def keep_feedback(changes: Changes, new: schemas.Feedback) -> dict[str, Any]:
        return changes.mark(service.prepare(new.query()), new.relevant, new.irrelevant)

    @app.post(
        "/v1/feedback", **_responses(responses.Kept, 400, 403, 404, 409, 422), openapi_extra=_takes(schemas.Feedback)
    )
    async def give_feedback(request: Request) -> Response:
        """Keep which results of a query are right or wrong, to learn from; without any, forget the query."""
        return await change(request, schemas.Feedback, keep_feedback)

    @app.post("/v1/undo", **documented, openapi_extra=_takes(schemas.Undo))
    async def undo(request: Request) -> Response:
        """Undo one of the last changes, unless its items have been changed since."""
        return await change(request, schemas.Undo, lambda changes, asked: changes.undo(asked.undo))

    @app.post("/v1/relearn", **_responses(responses.Relearned, 403, 409, 422))
    async def relearn() -> Response:
        """Learn again from all labels, and encode all items again. May take minutes; searches continue meanwhile."""
        service.check_writable()
        learned = await service.resources.learner.ask(lambda _: [service.changes.relearn()], None)
        service.log.event("relearned", **{name: learned[name] for name in ("items", "labelled", "labels", "seconds")})
        return as_json(learned)

    @app.put("/v1/items/{id:item}", **documented, openapi_extra=_takes(schemas.NewItem))
    async def put_item(id: str, request: Request) -> Response:
        """Add an item, or replace the one with its id. Idempotent."""
        name = _decode(_raw_id(request))

        def put(changes: Changes, new: schemas.NewItem) -> dict[str, Any]:
            return changes.put([parse(schemas.ItemWithId, new.model_dump() | {"id": name}, limits)])

        return await change(request, schemas.NewItem, put)

    @app.patch("/v1/items/{id:item}", **documented, openapi_extra=_takes(schemas.ItemChange))
    async def patch_item(id: str, request: Request) -> Response:
        """Change the labels and columns of an item; its texts and its image stay."""
        name = _decode(_raw_id(request))

        def edit(changes: Changes, new: schemas.ItemChange) -> dict[str, Any]:
            return changes.edit([name], lambda collection: edit_items(collection, [name], new.apply))

        return await change(request, schemas.ItemChange, edit)

    @app.delete("/v1/items/{id:item}", **documented)
    async def remove_item(id: str, request: Request) -> Response:
        """Remove an item."""
        name = _decode(_raw_id(request))
        return await service.change(request, lambda changes: changes.remove([name]))


_BINARY = {"type": "string", "format": "binary"}
_METRICS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
_THUMBNAIL: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/webp": {"schema": _BINARY}}, "description": "WebP."},
    304: {"description": "Not modified."},
}
_IMAGE_FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/*": {"schema": _BINARY}}, "description": "The original file."},
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


def parse(model: type[Model], body: Any, limits: Limits) -> Model:
    """Validate JSON or plain values. The number of JSON values is limited: each takes more memory when parsed."""
    try:
        if not isinstance(body, bytes):
            return model.model_validate(body)
        if body.count(b",") > limits.values:
            raise RequestError(413, f"the request has more than {limits.values:,} values")
        return model.model_validate_json(body)
    except ValidationError as error:
        raise validation_error(error.errors(include_input=False)) from None


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
    return content, parse(schemas.ImageSearch, plain, limits)


def _tagged(request: Request, content: bytes, tag: str, kind: str, headers: dict[str, str]) -> Response:
    """Return content with an entity tag; 304 if the client has it already."""
    headers = headers | {"etag": tag}
    if tag in (known.strip() for known in request.headers.get("if-none-match", "").split(",")):
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=kind)


def _raw_id(request: Request) -> bytes:
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    return raw.partition(b"?")[0].removeprefix(b"/v1/items/")


def _decode(raw: bytes) -> str:
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise RequestError(404, "unknown item: the id is not valid UTF-8") from None


def add_page(app: FastAPI, folder: Path, index: str) -> None:
    """Serve the files of the page; ``index`` at the address itself."""
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = file.relative_to(folder).as_posix()
        if name == index or not name.endswith(".html"):
            _add_file(app, "/" if name == index else f"/{name}", file)
    _add_file(app, "/page.css", *(folder / f"{name}.css" for name in _STYLES))  # in one request, before the first paint


def add_docs(app: FastAPI, folder: Path) -> None:
    """Serve a page about the endpoints at ``/docs``, with the files of Swagger UI from an installed package."""
    package = require("fastapi_swagger", "the page about the endpoints", "serve")
    resources = Path(package.__file__).parent / "resources"
    _add_file(app, "/docs", folder / "docs.html")
    for name in ("swagger-ui-bundle.js", "swagger-ui.css"):
        _add_file(app, f"/{name}", resources / name)


def _add_file(app: FastAPI, address: str, *files: Path) -> None:
    """Serve a file, or several of the same type as one."""
    content = b"".join(file.read_bytes() for file in files)
    kind, _ = mimetypes.guess_type(files[0].name)
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'

    @app.get(address, include_in_schema=False)
    async def page(request: Request) -> Response:
        return _tagged(request, content, tag, kind or "application/octet-stream", {"cache-control": "no-cache"})
