"""Response models, for the OpenAPI description."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field

from dlfh.collection.calibration.model import CalibrationReport
from dlfh.collection.evaluation import RetrievalQuality


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
    """Items to label next."""

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


class Kept(BaseModel):
    """The effect of feedback."""

    state: str
    queries: int = Field(description="Number of queries with feedback.")


class Health(BaseModel):
    """The health of the service."""

    status: Literal["ok", "ready"]
