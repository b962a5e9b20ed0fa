"""JSON responses: search results, items, and the description of the collection."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple
from urllib.parse import quote

from dlfh._parallel import checkpoint
from dlfh.collection import SearchOptions
from dlfh.collection.evaluation import EvaluationReport
from dlfh.collection.item_codes import public_item
from dlfh.collection.query import Query, SearchResult, labels_of
from dlfh.collection.suggesting import check_precision, selected, suggest
from dlfh.errors import InputError
from dlfh.index.items import Item
from dlfh.service.errors import RequestError, unknown_item
from dlfh.service.settings import Limits, Settings
from dlfh.service.states import State


class SearchRequest(NamedTuple):
    """The queries of one request, and their options."""

    queries: Sequence[Query]
    options: SearchOptions


def answer_together(state: State, requests: Sequence[SearchRequest]) -> list[bytes | Exception]:
    """Return a response in JSON, or an exception, for each request, all from one state of the collection.

    The queries of all requests are encoded together.
    """
    try:
        state.searcher.encode([query for request in requests for query in request.queries])
    except Exception:
        if len(requests) > 1:  # one of them fails: answer each alone
            return [answer_together(state, [request])[0] for request in requests]
    return [_answer(state, request) for request in requests]


def _answer(state: State, request: SearchRequest) -> bytes | Exception:
    try:
        for query in request.queries:
            if query.kind == "id" and query.value not in state.index:
                raise unknown_item(query.value)
        if request.options.where is not None:
            state.facets.check(request.options.where)
        results = state.searcher.search(request.queries, request.options)
        # One by one, because the encoder lets no other thread run.
        shown = b",".join(dump(_result(state, *pair)) for pair in zip(request.queries, results, strict=True))
        return b'{"state":%s,"results":[%s]}' % (dump(state.name), shown)
    except Exception as error:
        return error


def _result(state: State, query: Query, result: SearchResult) -> dict[str, Any]:
    checkpoint()
    about = {"by": query.kind, **_fields(result, "modality", "code", "modalities", "match")}
    understanding = None if result.understanding is None else asdict(result.understanding)
    answers = [
        _fields(item, "rank", "id", "probability")
        | item_fields(state, item.id, item.metadata)
        | _fields(item, "n_equal", "hamming_distance", "distance", "learned", "code")
        for item in result
    ]
    return {"query": about, "understanding": understanding, **_fields(result, "notes", "warning"), "answers": answers}


def _fields(record: Any, *names: str) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


def item_fields(state: State, identifier: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the labels, metadata and thumbnail address of an item, without the paths of its images."""
    images = state.encoder.image_modalities()
    has_image = any(isinstance(metadata.get(name), str) for name in images)
    return {
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


def suggest_labels(
    state: State,
    limits: Limits,
    *,
    ids: Sequence[str] | None,
    where: Mapping[str, Any] | None,
    precision: float,
    k: int,
    missing: bool,
    start: int,
) -> dict[str, Any]:
    """Return suggested labels for as many items as one response may have, and the start of the next page."""
    if k > limits.k:
        raise RequestError(422, f"k must be at most {limits.k}")
    if where is not None:
        state.facets.check(where)
    positions = selected(state.collection, ids, where, missing=missing)
    positions, n = positions[positions >= start], max(1, limits.answers // k)
    checked = state.once("precision", lambda state: check_precision(state.collection))
    found = suggest(state.collection, positions[:n], precision=precision, k=k, checked=checked)
    following = int(positions[n]) if len(positions) > n else None
    return {"state": state.name, **found.to_dict(), "next": following}


def _item_with_codes(state: State, item: Item) -> dict[str, Any]:
    codes = {
        name: {"code": code.tobytes().hex(), "learned": item.states[name] == "learned"}
        for name, code in item.codes.items()
    }
    return {"id": item.id, **item_fields(state, item.id, item.metadata or {}), "codes": codes}


def describe_collection(state: State, settings: Settings) -> bytes:
    """Return in JSON the collection's size, model, quality and filters, and the settings of the service."""
    encoder, index = state.encoder, state.index
    model = encoder.model_
    evaluation = EvaluationReport.read(state.collection.path)
    about = {
        "name": state.collection.path.resolve().name,
        "state": state.name,
        "items": len(index),
        "bits": index.n_bits,
        "method": type(model).__name__,
        "parameters": {
            name: value if value is None or isinstance(value, (bool, int, str)) else repr(value)
            for name, value in model.get_params(deep=False).items()
        },
        "trained": len(next(iter(model.codes_.values()))),
        "labels": state.facets.n_labels,
        "modalities": {name: _describe_modality(state, name) for name in encoder.modalities_},
        "filters": {
            name: [{"value": value, "count": n} for value, n in counts]
            for name, counts in state.facets.values().items()
        },
        "calibrated": bool(state.collection.calibration.fits),
        "quality": [asdict(row) for row in evaluation.quality],
        "calibration": [asdict(row) for row in evaluation.calibration],
        "writable": settings.writable,
        "limits": asdict(settings.limits),
    }
    return dump(about)


def _describe_modality(state: State, name: str) -> dict[str, Any]:
    encoder, index = state.encoder, state.index
    chosen: dict[str, Any] = getattr(encoder.model_, "chosen_", {})
    return {
        "takes": encoder.featurizers_[name].takes,
        "features": repr(encoder.featurizers_[name]),
        "n_features": encoder.model_.n_features_[name],
        "hash_function": repr(chosen[name]) if name in chosen else encoder.model_.hash_functions_[name].kind,
        "learned": index.count(name, "learned"),
        "hashed": index.count(name, "hashed"),
    }


def dump(value: Any) -> bytes:
    """Return a value as JSON in ASCII."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
