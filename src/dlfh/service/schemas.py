"""Request and response models: validation and the OpenAPI description."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, WithJsonSchema, model_validator

from dlfh.collection import SearchOptions
from dlfh.collection.calibration.model import CalibrationReport
from dlfh.collection.evaluation import RetrievalQuality
from dlfh.collection.query import Query, labels_of
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

    def apply(self, metadata: dict[str, Any]) -> dict[str, Any]:
        """Return the changed metadata of an item."""
        kept = [label for label in [*labels_of(metadata), *self.add] if label not in self.remove]
        return ItemChange(labels=kept).apply(metadata)


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


class ErrorMessage(BaseModel):
    """An error."""

    error: str = Field(description="One sentence.", examples=["unknown item 'sku-17'"])


class _Item(BaseModel):
    id: str
    title: str = Field(description="The name to show: a column, the text or the id, in one line.")
    labels: list[str]
    metadata: dict[str, Any] = Field(description="Texts and columns.")
    thumbnail: str | None = Field(description="Address of the thumbnail; null without an image.")


class Answer(_Item):
    """An item in a search result."""

    rank: int = Field(description="Rank, from 1.")
    probability: float | None = Field(description="Probability that the item is relevant; null if not calibrated.")
    hamming_distance: int = Field(description="Number of bits in which the codes of item and query differ.")
    distance: float = Field(description="Distance by which the items are ranked.")
    n_equal: int | None = Field(description="Number of equally ranked items; null if not counted.")
    learned: bool = Field(description="Whether the code is learned; otherwise it is hashed.")
    code: str = Field(description="Hexadecimal code.", examples=["9f3c0a51e2b47d88"])


class QueryInfo(BaseModel):
    """A query, as it was interpreted."""

    by: Literal["text", "image", "vector", "code", "id"]
    modality: str | None = Field(description="Modality of the query; null for an item or a code.")
    code: str = Field(description="Hexadecimal code.")
    modalities: list[str] = Field(description="The modalities that were searched.")
    match: Literal["codes", "words", "both"]


class Understanding(BaseModel):
    """How a text was understood."""

    text: str = Field(description="The text that was searched for.")
    corrected: dict[str, str] = Field(description="Words with a typing error, and their replacements.")
    alternatives: dict[str, list[str]] = Field(description="Unknown words, and similar words of the collection.")
    synonyms: dict[str, str] = Field(description="Words, and the synonyms that replace them.")
    similar: dict[str, str] = Field(description="Words, and the words of similar meaning that replace them.")
    excluded: list[str] = Field(description="Excluded words and labels.")
    unknown: list[str] = Field(description="Words that do not occur in the collection.")


class FacetValue(BaseModel):
    """A value, and the number of results that have it."""

    value: str | bool | int | float
    count: int
    likely: int | None = Field(description="Of these, results with a probability of at least 0.5; null without any.")


class Facets(BaseModel):
    """The labels and columns of the first results."""

    counted: int = Field(description="Number of results that were counted, at most 1,000.")
    values: dict[str, list[FacetValue]] = Field(description="By name, the most frequent values.")


class Result(BaseModel):
    """The results of one query."""

    query: QueryInfo
    understanding: Understanding | None = Field(description="How a text was understood; null for other queries.")
    notes: list[str] = Field(description="The understanding as sentences, and a note if no item has all labels.")
    warning: str | None = Field(description="Reason not to rely on these results, if any.")
    answers: list[Answer] = Field(description="Items, best first.")
    facets: Facets | None = Field(description="Counts of labels and columns; null unless they were requested.")


class SearchResponse(BaseModel):
    """The results of all queries, from one state of the collection."""

    state: str = Field(description="State of the collection.")
    results: list[Result] = Field(description="One result per query, in the same order.")


class Suggestion(BaseModel):
    """A label that an item probably has."""

    id: str
    label: str
    probability: float


class Completion(BaseModel):
    """A label or the title of an item that completes a text."""

    text: str
    kind: Literal["label", "name"]
    count: int | None = Field(default=None, description="Number of items with a label.")
    id: str | None = Field(default=None, description="The item with this title.")


class Completions(BaseModel):
    """Completions, labels first."""

    state: str
    completions: list[Completion]


class SuggestResponse(BaseModel):
    """A page of suggested labels, item by item, the most probable first."""

    state: str = Field(description="State of the collection.")
    threshold: float | None = Field(description="Minimum probability; null if no threshold reaches the precision.")
    precision: float = Field(description="Share of correct suggestions for labelled items.")
    recall: float = Field(description="Share of the labels of these labelled items that are suggested.")
    n_checked: int = Field(description="Number of these labelled items; 0 if precision and recall are predicted.")
    suggestions: list[Suggestion]
    next: int | None = Field(description="`start` of the next page; null on the last page.")


class QueryImage(BaseModel):
    """An image that was uploaded as a query."""

    key: str = Field(description="For `image` in a search, and for `/v1/queries/{key}`.")
    days: int = Field(description="Days that the image is kept after it was last used.")


class NextItem(_Item):
    """An item to label, and labels that it may have."""

    suggestions: list[Suggestion]


class NextItems(BaseModel):
    """Items whose labels would teach most."""

    state: str
    items: list[NextItem]


class Relearned(BaseModel):
    """What the collection has learned from its labels."""

    state: str
    items: int
    labelled: int
    labels: int
    seconds: float


class Code(BaseModel):
    """The code of an item in one modality."""

    code: str
    learned: bool


class ListedItem(_Item):
    """An item in a list."""

    codes: dict[str, Code] = Field(description="Codes by modality.")


class Item(ListedItem):
    """An item."""

    state: str


class ItemList(BaseModel):
    """A page of items, in insertion order."""

    state: str
    items: list[ListedItem]
    next: int | None = Field(description="`start` of the next page; null on the last page.")


class Modality(BaseModel):
    """A modality of the collection."""

    takes: Literal["texts", "images", "vectors"]
    features: str
    n_features: int
    hash_function: str
    learned: int = Field(description="Items with a learned code.")
    hashed: int = Field(description="Items with a hashed code.")


class FilterValue(BaseModel):
    """A value to filter by, and the number of items that have it."""

    value: str | bool | int | float
    count: int


class CollectionInfo(BaseModel):
    """The contents, model and quality of the collection."""

    name: str
    state: str
    items: int
    bits: int
    method: str
    parameters: dict[str, Any] = Field(description="Parameters of the method.")
    title: str | None = Field(description="The column that was chosen for titles.")
    trained: int = Field(description="Number of training items.")
    labels: int = Field(description="Number of distinct labels.")
    modalities: dict[str, Modality]
    filters: dict[str, list[FilterValue]] = Field(description="Names and values for `where`, with item counts.")
    calibrated: bool = Field(description="Whether results have probabilities.")
    quality: list[RetrievalQuality] = Field(description="Held-out retrieval quality; empty if it was not measured.")
    calibration: list[CalibrationReport] = Field(
        description="Held-out calibration of the probabilities; empty if it was not measured."
    )
    writable: bool = Field(description="Whether the service allows changes.")
    originals: bool = Field(description="Whether original images can be downloaded.")
    role: Literal["read", "write", "admin"] = Field(description="What the client may do, by its key.")
    multiple: bool = Field(description="Whether the service has several collections; `../../` lists them.")
    limits: dict[str, float]


class Point(BaseModel):
    """An item on the map."""

    id: str
    x: float = Field(ge=-1, le=1)
    y: float = Field(ge=-1, le=1)
    title: str
    labels: list[str]
    thumbnail: str | None


class Map(BaseModel):
    """The items in two dimensions, similar ones near each other."""

    state: str
    items: int = Field(description="Size of the collection; `points` may be a random sample.")
    points: list[Point]


class ChangeResponse(BaseModel):
    """The effect of a change."""

    state: str = Field(description="State of the collection after the change.")
    items: int
    added: int
    replaced: int
    removed: int
    skipped: list[str] = Field(description="Ids of existing items that were not replaced.")
    undo: str | None = Field(description="Key for `POST /v1/undo`; null if nothing changed.")


class Health(BaseModel):
    """The health of the service."""

    status: Literal["ok", "ready"]


#: Request bodies, which endpoints parse themselves.
SEARCHES = (Search, Suggest)
CHANGES = (NewItems, NewItem, ItemIds, ItemChange, LabelChange, Undo)
