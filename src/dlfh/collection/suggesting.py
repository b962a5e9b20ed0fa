"""Suggest probable labels that items do not have."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dlfh._arrays import Array, Floats, Integers, Mask, Singles
from dlfh._imports import require
from dlfh._parallel import checkpoint
from dlfh._probabilities.model import LabelModel
from dlfh._validation import check_flag, check_fraction, check_integer
from dlfh.collection.collection import Collection
from dlfh.collection.encoder import Encoder
from dlfh.collection.item_codes import suggested_labels
from dlfh.collection.query import html_table, labels_of
from dlfh.errors import InputError
from dlfh.index.items import Item

#: Maximum number of labelled items for choosing a threshold, drawn at random if there are more. With fewer than the
#: second number, the precision is estimated from the predicted probabilities themselves.
_MAX_CHECKED, _MIN_CHECKED = 20_000, 50
#: Margin above the requested precision, in standard errors. Curves are fitted to the same items, so 1 is too few.
_MARGIN = 2.0
#: Maximum numbers of items and of probabilities in a batch.
_MAX_BATCH, _MAX_PROBABILITIES = 1 << 12, 1 << 22
#: Thresholds are multiples of 1 / _STEPS.
_STEPS = 1000
_UNLABELLED = {"labels": None}
_FIELDS = ("id", "label", "probability")


class Suggestion(NamedTuple):
    """A label that an item probably has."""

    id: str
    label: str
    probability: float


@dataclass
class Precision:
    """Precision and recall of suggestions by threshold, from items whose labels are known."""

    counts: Floats = field(default_factory=lambda: np.zeros(_STEPS + 1))  # number of probabilities, by interval
    hits: Floats = field(default_factory=lambda: np.zeros(_STEPS + 1))  # number of correct labels, by interval
    n_items: int = 0  # number of labelled items; 0 if the precision is estimated from probabilities

    def add(self, probabilities: Singles, truth: Array) -> None:
        """Add probabilities of items (n, n_labels) and their true labels, or the probabilities in place of these."""
        places = np.clip(probabilities * _STEPS, 0, _STEPS).astype(np.int64).ravel()
        self.counts += np.bincount(places, minlength=_STEPS + 1)
        self.hits += np.bincount(places, truth.ravel(), _STEPS + 1)

    def threshold(self, precision: float, margin: float = 1.0) -> float | None:
        """Return the smallest threshold with this precision, plus a margin in standard errors and one wrong label."""
        counts, hits = self._above()
        errors = np.sqrt(precision * (1 - precision) * counts)
        enough = np.flatnonzero(hits >= precision * (counts + 1) + margin * errors)
        return float(enough[0] / _STEPS) if len(enough) else None

    def at(self, threshold: float | None) -> tuple[float, float]:
        """Return the precision and recall of the suggestions above a threshold; 0 if there are none."""
        if threshold is None:
            return 0.0, 0.0
        counts, hits = self._above()
        place = round(threshold * _STEPS)
        return float(hits[place] / max(counts[place], 1)), float(hits[place] / max(hits[0], 1))

    def _above(self) -> tuple[Floats, Floats]:
        return tuple(np.cumsum(each[::-1])[::-1] for each in (self.counts, self.hits))  # type: ignore[return-value]


@dataclass(repr=False)
class Suggestions(Sequence[Suggestion]):
    """Suggested labels, item by item, the most probable first.

    Attributes
    ----------
    suggestions : list of Suggestion
    threshold : float or None
        Minimum probability of a suggestion; None if no threshold reaches the precision.
    precision, recall : float
        Share of correct suggestions, and share of known labels that are suggested, measured on labelled items.
    n_checked : int
        Number of these items; 0 if there are too few, so that precision and recall are predicted.

    Examples
    --------
    >>> found = Suggestions([Suggestion("cat.jpg", "animal", 0.93)], 0.71, 0.8, 0.65, 1200)
    >>> print(found)
    cat.jpg: animal (93%)
    """

    suggestions: list[Suggestion]
    threshold: float | None
    precision: float
    recall: float
    n_checked: int

    def __getitem__(self, place: Any) -> Any:
        return self.suggestions[place]

    def __len__(self) -> int:
        return len(self.suggestions)

    def __str__(self) -> str:
        return "\n".join(f"{id}: {label} ({p:.0%})" for id, label, p in self) or "no suggestions"

    def __repr__(self) -> str:
        return f"Suggestions({len(self)} labels, precision {self.precision:.2f}, recall {self.recall:.2f})"

    def _repr_html_(self) -> str:
        return html_table(_FIELDS, ((id, label, f"{p:.0%}") for id, label, p in self), self.summary)

    @property
    def summary(self) -> str:
        """How many labels are suggested, and how reliable they are, in one sentence."""
        checked = f"checked on {self.n_checked:,} labelled items" if self.n_checked else "predicted"
        if self.threshold is None:
            return f"no suggestions: no threshold reaches this precision ({checked})"
        labels, items = _counted(len(self), "label"), _counted(len({id for id, _, _ in self}), "item")
        measures = f"precision {self.precision:.2f}, recall {self.recall:.2f}"
        return f"{labels} suggested for {items}; {measures} ({checked})"

    def to_dict(self) -> dict[str, Any]:
        """Return the suggestions and their reliability as plain values, ready for JSON."""
        about = {name: value for name, value in vars(self).items() if name != "suggestions"}
        return about | {"suggestions": [suggestion._asdict() for suggestion in self]}

    def to_file(self, suffix: str) -> bytes:
        """Return the content of a file: ``.csv``, ``.json`` or ``.parquet``."""
        if suffix == ".json":
            return json.dumps(self.to_dict(), ensure_ascii=False, indent=2).encode()
        if suffix == ".csv":
            table = io.StringIO()
            csv.writer(table, lineterminator="\n").writerows([_FIELDS, *self])
            return table.getvalue().encode()
        pa, parquet = (require(name, "writing Parquet", "parquet") for name in ("pyarrow", "pyarrow.parquet"))
        schema = pa.schema(zip(_FIELDS, (pa.string(), pa.string(), pa.float64()), strict=True))
        file = io.BytesIO()
        parquet.write_table(pa.Table.from_pylist([each._asdict() for each in self], schema=schema), file)
        return file.getvalue()


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def check_suffix(path: Path) -> str:
    """Return the suffix of a file for suggestions; raise InputError if it is not supported."""
    if path.suffix not in (".csv", ".json", ".parquet"):
        raise InputError(f"cannot write suggestions to {path.name!r}: its name must end in .csv, .json or .parquet")
    return path.suffix


def selected(
    collection: Collection, ids: Sequence[str] | None, where: Mapping[str, Any] | None, *, missing: bool
) -> Integers:
    """Return the positions of the items to suggest labels for; parameters as for `Collection.suggest`."""
    check_flag(missing, "missing")
    index = collection.index
    positions = index.positions()
    chosen = np.ones(len(positions), bool) if where is None else index.matches(where)
    if ids is not None:
        chosen &= np.isin(positions, index.positions(ids))
    if not missing:
        chosen &= index.matches(_UNLABELLED)
    return positions[chosen]


def suggest(
    collection: Collection, positions: Integers, *, precision: float, k: int, checked: Precision | None = None
) -> Suggestions:
    """Suggest labels that the items at the given positions do not have.

    checked: The result of `check_precision`, if known.
    """
    precision, k = check_fraction(precision, "precision"), check_integer(k, "k", 1)
    model = _label_model(collection.encoder)
    names = [*map(str, model.names or ())]
    checked = checked or check_precision(collection)
    threshold = checked.threshold(precision, _MARGIN if checked.n_items else 1.0)
    if threshold is not None:  # never suggest a label that is more likely wrong than right
        threshold = max(threshold, min(precision, 0.5))
    least = np.inf if threshold is None else threshold
    found: list[Suggestion] = []
    for identifiers, probabilities, known in predicted(collection, positions):
        if model.exclusive:  # an item with its only label lacks none
            known |= known.any(axis=1, keepdims=True)
        rows, labels = np.nonzero((probabilities >= least) & ~known)
        order = np.lexsort((labels, -probabilities[rows, labels], rows))
        rows, labels = rows[order], labels[order]
        rank = np.arange(len(rows)) - np.searchsorted(rows, rows)
        for row, label in zip(rows[rank < k].tolist(), labels[rank < k].tolist(), strict=True):
            found.append(Suggestion(identifiers[row], names[label], round(float(probabilities[row, label]), 4)))
    return Suggestions(found, threshold, *checked.at(threshold), checked.n_items)


def check_precision(collection: Collection) -> Precision:
    """Measure the precision of suggestions on labelled items.

    Their probabilities do not depend on their labels: for training items, they are leave-one-out predictions.
    """
    positions, checked = collection.index.positions(), Precision()
    labelled = positions[~collection.index.matches(_UNLABELLED)]
    for _, probabilities, known in predicted(collection, _sample(labelled)):
        has_label = known.any(axis=1)
        checked.add(probabilities[has_label], known[has_label])
        checked.n_items += int(has_label.sum())
    if checked.n_items < _MIN_CHECKED:
        checked = Precision()
        for _, probabilities, _ in predicted(collection, _sample(positions)):
            checked.add(probabilities, probabilities)
    return checked


def _sample(positions: Integers) -> Integers:
    size = min(len(positions), _MAX_CHECKED)
    return np.sort(np.random.default_rng(0).choice(positions, size, replace=False))


def predicted(collection: Collection, positions: Integers) -> Iterator[tuple[list[str], Singles, Mask]]:
    """Yield the ids, predicted probabilities and known labels (n, n_labels) of items, a batch at a time.

    Words that count as labels have a probability of 0 if any item has labels.
    """
    encoder, model = collection.encoder, _label_model(collection.encoder)
    only_words = np.zeros(model.n_labels, bool)
    if encoder.word_labels_:  # few items have labels
        labelled = collection.index.positions()[~collection.index.matches(_UNLABELLED)]
        stored = collection.index.existing_items(labelled.tolist())
        given = {label for _, item in stored for label in labels_of(item.metadata or {})}
        only_words = np.array([bool(given) and name not in given for name in model.names or ()])
    for items, probabilities in fused(collection, positions):
        probabilities[:, only_words] = 0
        known, _ = encoder.label_rows([labels_of(item.metadata or {}) for item in items])
        yield [item.id for item in items], probabilities, known > 0


def fused(collection: Collection, positions: Integers) -> Iterator[tuple[list[Item], Singles]]:
    """Yield items and the probabilities predicted from all of their modalities (n, n_labels), a batch at a time."""
    model = _label_model(collection.encoder)
    size = max(1, min(_MAX_BATCH, _MAX_PROBABILITIES // model.n_labels))
    for start in range(0, len(positions), size):
        checkpoint()
        stored = collection.index.existing_items(positions[start : start + size].tolist())
        items, codes = [], []
        for _, item in stored:
            found = {name: suggested_labels(item, name) for name in model.functions}
            if any(each is not None for each in found.values()):
                items.append(item)
                codes.append({name: each for name, each in found.items() if each is not None})
        probabilities = np.empty((len(items), model.n_labels), np.float32)
        for names in {tuple(each) for each in codes}:
            rows = [row for row, each in enumerate(codes) if tuple(each) == names]
            by_name = {name: np.stack([codes[row][name] for row in rows]) for name in names}
            probabilities[rows] = model.fuse({name: model.decode_suggested(name, by_name[name]) for name in names})
        yield items, probabilities


def _label_model(encoder: Encoder) -> LabelModel:
    if encoder.label_model is None:
        names = encoder.model_.label_names_  # raises InputError without label probabilities
        raise InputError(f"the {len(names)} labels of this model have no names: fit it to lists of labels")
    return encoder.label_model
