"""From questions to answers as JSON: what a request asks, found in one state of the collection."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote

import numpy as np
import numpy.typing as npt

from dlfh.codes import n_bytes
from dlfh.collection import ResultItem, SearchResult
from dlfh.collection.calibration.model import RANKINGS
from dlfh.collection.columns import without_columns
from dlfh.collection.searcher import How
from dlfh.errors import InputError
from dlfh.index.items import Item
from dlfh.service.errors import Refusal
from dlfh.service.facets import labels_of
from dlfh.service.states import State

__all__ = ["Asked", "Question", "Wanted", "about_item", "answer_together", "describe_item", "dump", "list_items"]

#: What a text gets for an answer that says nothing of it.
_UNKNOWN = "no word of the query is known to this model, so the answers say nothing of it"


@dataclass(frozen=True)
class Question:
    """What asks: a text, an image (as bytes), a vector of a modality, a code, or an item by its id."""

    kind: Literal["text", "image", "vector", "code", "id"]
    value: Any
    modality: str | None = None


@dataclass(frozen=True)
class Wanted:
    """What is asked for; names are those of `Collection.search`."""

    k: int = 10
    modalities: str | tuple[str, ...] | None = None
    match: str | None = None
    ranking: str | None = None
    hashed_only: bool = False
    min_probability: float | None = None
    where: Mapping[str, Any] = field(default_factory=dict)
    radius: int | None = None
    ids: Sequence[str] | None = None
    limit: int | None = None

    def how(self, state: State) -> How:
        """Return it as a collection takes it."""
        state.facets.check(self.where)
        return How(
            self.modalities,
            self.match,
            self.ranking,
            self.hashed_only,
            self.min_probability,
            self.radius,
            self.ids,
            self.where or None,
            self.limit,
        )


@dataclass(frozen=True)
class Asked:
    """What one request asks."""

    questions: tuple[Question, ...]
    wanted: Wanted


def answer_together(state: State, requests: Sequence[Asked]) -> list[bytes | Exception]:
    """Return the answer to each request as JSON, all from one state; an exception for one that has none.

    Questions of one kind in one modality are described and encoded together.
    """
    try:
        encoded = _encode(state, requests)
    except Exception:  # of one of them, so that each must tell for itself
        if len(requests) > 1:
            return [answer_together(state, [request])[0] for request in requests]
        encoded = {}
    return [_answer(state, request, encoded) for request in requests]


def _answer(state: State, request: Asked, encoded: _Encoded) -> bytes | Exception:
    try:
        how = request.wanted.how(state)
        results = [_result(state, question, request.wanted, how, encoded) for question in request.questions]
        return dump({"state": state.name, "results": results})
    except Exception as error:
        return error


# -------------------------------------------------------------------------------------------------- asking

#: By what asks, in which modality and for which ranking: its vector and its query.
_Encoded = dict[tuple[int, str | None], tuple[Any, Any]]


def _modality(state: State, question: Question) -> str:
    """Return the modality that a question is in."""
    own = {"text": state.text_modality, "image": state.image_modality}.get(question.kind)
    name = question.modality or own
    if name is None:
        what = {"text": "texts", "image": "images"}.get(question.kind)
        sentence = f"this collection has no modality of {what}" if what else "say which modality the vector is of"
        raise InputError(f"{sentence}: it has {', '.join(map(repr, state.encoder.modalities_))}")
    takes = state.encoder.featurizer(name).takes
    if question.kind in ("text", "image") and takes != f"{question.kind}s":
        raise InputError(
            f"{name!r} takes {takes}, and the query is {'a text' if question.kind == 'text' else 'an image'}"
        )
    return name


def _encode(state: State, requests: Sequence[Asked]) -> _Encoded:
    """Describe and encode all texts, images and vectors, those of one modality together."""
    groups: dict[tuple[str, str, str | None], list[Question]] = {}
    for request in requests:
        for question in request.questions:
            if question.kind in ("text", "image", "vector"):
                key = question.kind, _modality(state, question), request.wanted.ranking
                groups.setdefault(key, []).append(question)
    encoded: _Encoded = {}
    for (kind, modality, ranking), questions in groups.items():
        values = [question.value for question in questions]
        vectors = _as_vectors(state, modality, values) if kind == "vector" else state.encoder.vectors(modality, values)
        texts = values if kind == "text" else None
        queries = state.searcher.queries(modality, vectors, texts, ranking or RANKINGS[0])
        for row, (question, query) in enumerate(zip(questions, queries, strict=True)):
            encoded[id(question), ranking] = vectors[row : row + 1], query
    return encoded


def _as_vectors(state: State, modality: str, values: Sequence[Sequence[float]]) -> npt.NDArray[np.float32]:
    """Return vectors as an array, each of as many numbers as the model takes."""
    n = state.encoder.model_.n_features_[modality]
    for value in values:
        if len(value) != n:
            raise InputError(f"a vector of {modality!r} has {n} numbers, got {len(value)}")
    with np.errstate(over="ignore"):
        vectors = np.asarray(values, np.float32)
    if not np.isfinite(vectors).all():
        raise InputError("a vector must hold finite numbers")
    return vectors


def _result(state: State, question: Question, wanted: Wanted, how: How, encoded: _Encoded) -> dict[str, Any]:
    if question.kind == "id":
        return _like(state, question.value, wanted, how)
    if question.kind == "code":
        return _near(state, question.value, wanted, how)
    modality = _modality(state, question)
    searcher, ranking = state.searcher, how.ranking or RANKINGS[0]
    if (id(question), wanted.ranking) not in encoded:
        encoded = _encode(state, [Asked((question,), wanted)])
    vectors, query = encoded[id(question), wanted.ranking]
    options = searcher.options(wanted.k, how, *searcher.defaults(modality, how.modalities, how.match), ranking)
    searcher.check_probable(how, modality)
    found = searcher.answer(searcher.ranker(options), query, options)
    unknown = question.kind == "text" and bool(searcher.unknown(vectors, [question.value], options))
    return _shown(
        state, question.kind, modality, found, options.modalities, options.match, _UNKNOWN if unknown else None
    )


def _like(state: State, identifier: str, wanted: Wanted, how: How) -> dict[str, Any]:
    """Answer with items like one of the collection."""
    _check_codes_alone("an item of the collection", wanted)
    if identifier not in state.index:
        raise Refusal(404, f"there is no item {identifier[:200]!r}")
    if not isinstance(wanted.modalities, str | None):
        raise InputError("an item of the collection is compared in one modality: name one")
    found = state.searcher.similar(identifier, wanted.k, how)
    names = (wanted.modalities,) if wanted.modalities else tuple(state.collection.get(identifier).codes)[:1]
    return _shown(state, "id", None, found, names, "codes")


def _near(state: State, code: str, wanted: Wanted, how: How) -> dict[str, Any]:
    """Answer with the items whose codes are nearest to one, as the index finds them: ties in order of addition."""
    _check_codes_alone("a code", wanted)
    for name, asked in (("hashed_only", wanted.hashed_only), ("radius", wanted.radius is not None)):
        if asked:
            raise InputError(f"a code finds the codes nearest to it, as they are kept: {name} cannot be asked for")
    modality = how.modalities if isinstance(how.modalities, str) else state.encoder.searchable()[0]
    if modality not in state.encoder.modalities_ or isinstance(how.modalities, tuple):
        raise InputError(f"a code is compared in one modality of {', '.join(map(repr, state.encoder.modalities_))}")
    query = np.frombuffer(bytes.fromhex(code), np.uint8)
    n = n_bytes(state.index.n_bits)
    if len(query) != n or (state.index.n_bits % 8 and query[-1] & (0xFF >> state.index.n_bits % 8)):
        raise InputError(
            f"a code of {state.index.n_bits} bits has {2 * n} hexadecimal digits, and 0 in bits after these"
        )
    hits = state.index.search(modality, query[None], wanted.k, ids=how.ids, where=how.where, n_jobs=1)
    distances = hits.distances[0]
    whole = len(distances) < wanted.k  # all items are there: nobody is as far as the last one and not among them
    found = []
    for rank, item in enumerate(state.index.items(hits.positions[0].tolist())):
        counted = whole or distances[rank] < distances[-1]
        equals = int(np.count_nonzero(distances == distances[rank])) if counted else 0
        away = int(distances[rank])
        learned = bool(hits.learned[0, rank])
        stored = item.codes[modality].tobytes().hex()
        found.append(
            ResultItem(rank + 1, item.id, away, float(away), learned, item.metadata or {}, None, equals, stored)
        )
    return _shown(state, "code", None, SearchResult(found, code.lower()), (modality,), "codes")


def _check_codes_alone(what: str, wanted: Wanted) -> None:
    for name, value, allowed in (
        ("ranking", wanted.ranking, "hamming"),
        ("match", wanted.match, "codes"),
        ("min_probability", wanted.min_probability, None),
    ):
        if value not in (None, allowed):
            raise InputError(f"{what} cannot ask by {name} {value!r}: only codes are compared")


# ------------------------------------------------------------------------------------------------- showing


def _shown(
    state: State,
    kind: str,
    modality: str | None,
    found: SearchResult,
    modalities: Sequence[str],
    match: str,
    warning: str | None = None,
) -> dict[str, Any]:
    query = {"by": kind, "modality": modality, "code": found.code, "modalities": list(modalities), "match": match}
    return {"query": query, "warning": warning, "answers": [_found_item(state, item) for item in found]}


def _found_item(state: State, item: ResultItem) -> dict[str, Any]:
    return {
        "rank": item.rank,
        "id": item.id,
        "probability": item.probability,
        "hamming_distance": item.hamming_distance,
        "distance": item.distance,
        "n_equal": item.n_equal or None,
        "learned": item.learned,
        "code": item.code,
        **about_item(state, item.id, item.metadata),
    }


def about_item(state: State, identifier: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is shown of an item: its labels and metadata, and where its picture is asked for.

    Where pictures are on the disk is nobody's business.
    """
    images = state.encoder.image_modalities()
    pictured = any(isinstance(metadata.get(name), str) for name in images)
    return {
        "labels": labels_of(metadata),
        "metadata": {name: value for name, value in metadata.items() if name not in images and name != "labels"},
        "thumbnail": f"/v1/items/{quote(identifier, safe='')}/thumbnail" if pictured else None,
    }


def describe_item(state: State, identifier: str) -> dict[str, Any]:
    """Return an item: what is known of it, and its codes."""
    try:
        item = state.collection.get(identifier)
    except InputError:
        raise Refusal(404, f"there is no item {identifier[:200]!r}") from None
    return {"state": state.name, **_whole_item(state, item)}


def list_items(state: State, start: int, n: int) -> dict[str, Any]:
    """Return some items in the order in which they were added, and where the next ones begin."""
    places = range(start, min(start + n, len(state.index)))
    modalities = state.encoder.modalities_
    items = [_whole_item(state, without_columns(item, modalities)) for item in state.index.items(list(places))]
    following = places.stop if places and places.stop < len(state.index) else None
    return {"state": state.name, "items": items, "next": following}


def _whole_item(state: State, item: Item) -> dict[str, Any]:
    codes = {
        name: {"code": code.tobytes().hex(), "learned": item.states[name] == "learned"}
        for name, code in item.codes.items()
    }
    return {"id": item.id, **about_item(state, item.id, item.metadata or {}), "codes": codes}


def dump(value: Any) -> bytes:
    """Return a value as JSON, in ASCII: whatever texts hold can be sent."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()
