"""Request models: validation and the OpenAPI description."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, WithJsonSchema, model_validator

from dlfh.collection import SearchOptions
from dlfh.collection.query import Query
from dlfh.index.where import MAX_CHARACTERS
from dlfh.service.answering import RequestError, SearchRequest
from dlfh.service.settings import Limits

_LIMITS = Limits()  # default limits, for OpenAPI; a service also checks its own
Text = Annotated[str, Field(min_length=1, max_length=1 << 20)]
Identifier = Annotated[str, Field(min_length=1, max_length=4096)]
Ids = Annotated[list[Identifier], Field(max_length=10_000)]
Marked = Annotated[list[Identifier], Field(max_length=100)]
Hexadecimal = Annotated[str, Field(pattern=r"^([0-9a-fA-F]{2})+$", max_length=1 << 12)]
Key = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Number = Annotated[float, Field(allow_inf_nan=False)]
Scalar = Annotated[str, Field(max_length=4096)] | bool | int | Number
Name = Annotated[str, Field(min_length=1, max_length=200)]
Value = Annotated[str, Field(max_length=MAX_CHARACTERS)] | bool | int | Number | None
Values = Annotated[list[Value], Field(max_length=1000)]
Operator = Literal["<", "<=", ">", ">=", "=", "!=", "in", "not in", "all"]
#: A condition on a name, or nested filters under "and", "or" and "not".
Condition = Value | Values | dict[Operator, Value | Values] | dict[str, Any] | list[dict[str, Any]]
#: Filters in OpenAPI. `parse_where` validates them, because pydantic is slow: it tries all types for each value.
_FILTER = TypeAdapter(Annotated[dict[Name, Condition], Field(max_length=32)])
Filter = Annotated[dict[str, Any], WithJsonSchema(_FILTER.json_schema())]
Labels = Annotated[list[Name], Field(max_length=1000)]
Numbers = Annotated[list[Number], Field(max_length=1 << 16, fail_fast=True)]


def _optional(description: str, **settings: Any) -> Any:
    """Return a field that a request may omit; by default, it is null."""
    if "default_factory" not in settings:
        settings.setdefault("default", None)
    return Field(description=description, **settings)


def _examples(*examples: Any) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [*examples]})


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SearchQuery(_Strict):
    """A query: one of text, id, image, vector and code; a text may accompany an id, an image or a vector."""

    text: Text | None = _optional("A text; with another query, items must match both.", examples=["red shoes"])
    id: Identifier | None = _optional("The id of an item of the collection, to find similar ones.")
    image: Key | None = _optional("The key of an image that was uploaded to `/v1/queries/image`.")
    vector: Numbers | None = _optional("A feature vector of the given `modality`, with as many numbers as in training.")
    code: Hexadecimal | None = _optional("A hexadecimal code, as in search results.")
    modality: Name | None = _optional(
        "The modality of a text or a vector; by default, a text has the first modality that takes texts."
    )
    literal: bool = _optional(
        "Search for a text as it is, without correcting, replacing or excluding words.", default=False
    )

    @model_validator(mode="after")
    def _one(self) -> Self:
        names = ("text", "id", "image", "vector", "code", "queries")
        given = [name for name in names if getattr(self, name, None) is not None]
        if len(given) != 1 and given not in (["text", "id"], ["text", "image"], ["text", "vector"]):
            known = ", ".join(name for name in names if hasattr(self, name))
            raise ValueError(f"expected exactly one of {known}; only id, image and vector can be combined with a text")
        return self

    def query(self) -> Query:
        if self.code is not None:
            return Query("code", self.code)
        if self.vector is None and self.id is None and self.image is None:
            return Query("text", self.text, self.modality, self.literal)
        text = None if self.text is None else Query("text", self.text, literal=self.literal)
        if self.image is not None:
            return Query("image", self.image, self.modality, also=text)
        if self.vector is None:
            return Query("id", self.id, also=text)
        with np.errstate(over="ignore"):
            return Query("vector", np.asarray(self.vector, np.float32), self.modality, also=text)


class _Options(_Strict):
    """The fields of `dlfh.collection.SearchOptions`, within limits."""

    k: int = _optional("Number of items to return.", default=10, ge=1, le=_LIMITS.k)
    modalities: Name | Annotated[list[Name], Field(min_length=1, max_length=32)] | None = _optional(
        "One or more modalities to search, or `all`; by default the choice that ranked held-out items best."
    )
    match: Literal["codes", "words", "both"] | None = _optional(
        "Whether to match codes, words or both; by default the choice that ranked held-out items best."
    )
    ranking: Literal["all", "any", "asymmetric", "hamming"] | None = _optional(
        "Rank by the probability that an item has `all` or `any` labels of the query, or by the distance of codes; "
        "by default the choice that ranked held-out items best."
    )
    hashed_only: bool = _optional("Compare hashed codes only, so labelled items are not favoured.", default=False)
    min_probability: Annotated[float, Field(gt=0, lt=1)] | None = _optional(
        "Return only items whose probability is at least this."
    )
    where: Filter | None = _optional(
        "Filter by labels and columns, listed by `GET /v1/collection`: a value, a list of alternatives, or an "
        'operator as in `{"price": {"<": 20}}` or `{"labels": {"all": ["red", "shoes"]}}`; `and`, `or` and `not` '
        "combine filters. Upper and lower case are the same."
    )
    radius: Annotated[int, Field(ge=0, le=1 << 16)] | None = _optional(
        "Return all items within this Hamming distance, not just `k`; fails if they exceed the limit of `k`."
    )
    ids: Ids | None = _optional("Search only the items with these ids.")
    relevant: Marked | None = _optional("Ids of right results: items like these rise.")
    irrelevant: Marked | None = _optional("Ids of wrong results: items like these fall, and they are left out.")

    def options(self, limits: Limits) -> SearchOptions:
        if self.k > limits.k:
            raise RequestError(422, f"k, plus start if it is set, must be at most {limits.k}")
        return SearchOptions(**{name: getattr(self, name) for name in _Options.model_fields}, limit=limits.k)


class Search(_Options, SearchQuery):
    """A query, or a batch of them in `queries`, and its options."""

    model_config = _examples(
        {"text": "weather forecast", "k": 5},
        {"text": "money", "modalities": "image", "min_probability": 0.5, "where": {"labels": ["Business"]}},
        {"id": "bus", "modalities": "image"},
        {"id": "bus", "text": "not red"},
        {"queries": [{"text": "left arrow"}, {"id": "bus"}], "k": 3},
    )

    queries: Annotated[list[SearchQuery], Field(min_length=1, max_length=_LIMITS.batch)] | None = _optional(
        "Several queries, which share the options."
    )

    @model_validator(mode="after")
    def _modality_of_one(self) -> Self:
        if self.queries is not None and self.modality is not None:
            raise ValueError("set modality in each query, not next to queries")
        return self

    start: int = _optional("Number of results to leave out; `start + k` is limited like `k`.", default=0, ge=0)
    facets: bool = _optional(
        "Count the labels and columns of the first 1,000 results of a single query.", default=False
    )

    def request(self, limits: Limits) -> SearchRequest:
        """Return the request; raise `RequestError` if it exceeds the limits of this service."""
        if self.facets and self.queries is not None:
            raise RequestError(422, "facets are counted for a single query, not for queries")
        queries = [self.query()] if self.queries is None else [query.query() for query in self.queries]
        options = self.model_copy(update={"k": self.start + self.k}).options(limits)
        return SearchRequest(queries, options, self.start, self.facets)


class ImageSearch(_Options):
    """The options of a search by an uploaded image, and a text that items must match too."""

    modality: Name | None = None
    text: Text | None = None
    literal: bool = False


class NewItem(_Strict):
    """The content of an item: at least one of text, image and vectors."""

    model_config = _examples({"text": "a red running shoe", "labels": ["shoes"], "columns": {"price": 59}})

    text: Text | None = _optional("Text, in the first modality that takes texts.")
    texts: Annotated[dict[Name, Text], Field(max_length=32)] = _optional(
        "Texts by modality, if several take texts.", default_factory=dict
    )
    image: Annotated[str, Field(min_length=1, max_length=_LIMITS.upload_bytes)] | None = _optional("Image, in base64.")
    vectors: Annotated[dict[Name, Numbers], Field(max_length=32)] = _optional(
        "Vectors by modality, for modalities that take vectors.", default_factory=dict
    )
    labels: Labels = _optional("Labels, if known.", default_factory=list)
    columns: Annotated[dict[Name, Scalar], Field(max_length=100)] = _optional(
        "Further columns to show and to filter by.", default_factory=dict
    )


class ItemWithId(NewItem):
    """An item to add, with its id."""

    id: Identifier


class NewItems(_Strict):
    """Items to add: all of them or, on an error, none."""

    items: Annotated[list[ItemWithId], Field(min_length=1, max_length=_LIMITS.batch)]
    update: bool = _optional("Replace items with the same ids; otherwise skip them.", default=True)


class Undo(_Strict):
    """A change to undo."""

    undo: Key = Field(description="`undo` in the response to the change.")


class ItemIds(_Strict):
    """Items to remove: all of them or, if an id is unknown, none."""

    ids: Annotated[list[Identifier], Field(min_length=1, max_length=_LIMITS.batch)]


class ItemChange(_Strict):
    """New labels and columns of an item; omitted fields stay as they are."""

    model_config = _examples({"labels": ["shoes", "red"], "columns": {"price": 49, "discount": None}})

    labels: Labels | None = _optional("All labels of the item; an empty list removes them.")
    columns: Annotated[dict[Name, Scalar | None], Field(max_length=100)] = _optional(
        "Columns to set, or to remove with null; others stay.", default_factory=dict
    )

    def apply(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Return the changed metadata of an item."""
        old = metadata.get("columns")
        columns = (old if isinstance(old, dict) else {}) | self.columns
        fields: dict[str, Any] = {"columns": {name: value for name, value in columns.items() if value is not None}}
        fields |= {} if self.labels is None else {"labels": [*dict.fromkeys(self.labels)]}
        return {name: value for name, value in (metadata | fields).items() if value or name not in fields}


class LabelChange(_Strict):
    """Labels to add to items, and to remove from them."""

    model_config = _examples({"ids": ["sku-8", "sku-9"], "add": ["sale"], "remove": ["new"]})

    ids: Annotated[list[Identifier], Field(min_length=1, max_length=1000)]
    add: Labels = _optional("Labels that all these items get.", default_factory=list)
    remove: Labels = _optional("Labels that none of these items keeps.", default_factory=list)


class Feedback(_Strict):
    """A query, and the items that are right and wrong results; they replace earlier ones of the same query."""

    model_config = _examples({"text": "chess game", "relevant": ["chess-king"], "irrelevant": ["gamepad"]})

    text: Text | None = _optional("A text.")
    image: Key | None = _optional("The key of an image that was uploaded to `/v1/queries/image`.")
    vector: Numbers | None = _optional("A feature vector of the given `modality`.")
    modality: Name | None = _optional("The modality of the query, as in a search.")
    relevant: Marked = _optional("Ids of right results.", default_factory=list)
    irrelevant: Marked = _optional("Ids of wrong results.", default_factory=list)

    @model_validator(mode="after")
    def _one(self) -> Self:
        if [self.text, self.image, self.vector].count(None) != 2:
            raise ValueError("expected exactly one of text, image and vector")
        return self

    def query(self) -> Query:
        if self.vector is not None:
            with np.errstate(over="ignore"):
                return Query("vector", np.asarray(self.vector, np.float32), self.modality)
        return Query("text" if self.image is None else "image", self.text or self.image, self.modality)


class Suggest(_Strict):
    """The items to suggest labels for, and the minimum precision."""

    ids: Ids | None = _optional("Only the items with these ids.")
    where: Filter | None = _optional("Only items whose columns match this filter, as in a search.")
    precision: float = _optional("Minimum share of correct suggestions.", default=0.8, gt=0, lt=1)
    k: int = _optional("Maximum number of labels per item.", default=10, ge=1, le=_LIMITS.k)
    missing: bool = _optional(
        "Also suggest missing labels of labelled items, for which the precision is not guaranteed.", default=False
    )
    start: int = _optional("`next` of the previous page.", default=0, ge=0, le=1 << 40)


#: Request bodies, which endpoints parse themselves.
SEARCHES = (Search, Suggest)
CHANGES = (NewItems, NewItem, ItemIds, ItemChange, LabelChange, Feedback, Undo)
