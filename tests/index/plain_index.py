"""A reference index: a list of items, all of which every search compares."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal

import numpy as np

from dlfh.index import Index
from dlfh.index.words import WordIndex

MODALITIES = ("image", "text")


@dataclass
class PlainItem:
    id: str
    metadata: dict[str, Any] | None
    codes: dict[str, np.ndarray]
    states: dict[str, str]


@dataclass
class PlainIndex:
    n_bits: int
    items: list[PlainItem] = field(default_factory=list)

    def ids(self) -> list[str]:
        return [item.id for item in self.items]

    def copy(self) -> PlainIndex:
        return PlainIndex(self.n_bits, list(self.items))

    def add(self, new: list[PlainItem]) -> None:
        self.items += new

    def remove(self, ids: list[str]) -> None:
        self.items = [item for item in self.items if item.id not in set(ids)]

    def update(self, new: list[PlainItem]) -> None:
        self.remove([item.id for item in new])
        self.add(new)

    def nearest(
        self, query: np.ndarray, modality: str, k: int | None, ids: list[str] | None = None
    ) -> list[tuple[float, str, bool]]:
        """Return (distance, id, learned) of the k nearest items to a code, a projection or a score table."""
        found = []
        for item in self.items:
            if modality in item.codes and (ids is None or item.id in ids):
                distance = self._distance(query, item.codes[modality])
                found.append((distance, item.id, item.states[modality] == "learned"))
        found.sort(key=lambda entry: entry[0])
        return [(float(distance), name, learned) for distance, name, learned in found[:k]]

    def _distance(self, query: np.ndarray, packed: np.ndarray) -> Any:
        if query.ndim == 2:
            return -sum(Fraction(float(table[byte])) for table, byte in zip(query, packed, strict=True))
        weights: list[Any] = [1] * self.n_bits if query.dtype == np.uint8 else fixed_point(query)
        bits = np.unpackbits(query, count=self.n_bits) if query.dtype == np.uint8 else query > 0
        code = np.unpackbits(packed, count=self.n_bits)
        return sum(weight for weight, a, b in zip(weights, bits, code, strict=True) if a != b)


def fixed_point(projection: np.ndarray) -> list[Fraction]:
    """Return |z| rounded to multiples of 2**-24 of the power of two above the largest."""
    magnitudes = [abs(Fraction(float(value))) for value in projection]
    unit = Fraction(1, 2**24)
    while max(magnitudes) >= unit * 2**24:
        unit *= 2
    while 0 < max(magnitudes) < unit * 2**23:
        unit /= 2
    return [round(value / unit) * unit for value in magnitudes]  # ties to even, as NumPy's rint


def random_items(rng: np.random.Generator, ids: list[str], n_bits: int, alphabet: int = 4) -> list[PlainItem]:
    """Return items in one or two modalities, with few distinct codes, so that distances are often equal."""
    choices = np.packbits(rng.random((alphabet, n_bits)) < 0.5, axis=1)
    items = []
    for name in ids:
        chosen = rng.choice(["learned", "hashed", "absent"], 2)
        chosen[rng.integers(2)] = rng.choice(["learned", "hashed"])
        states = dict(zip(MODALITIES, map(str, chosen), strict=True))
        codes = {m: choices[rng.integers(alphabet)] for m, state in states.items() if state != "absent"}
        number = int(rng.integers(9))
        metadata = {"n": number, "title": f"kiwi plum{number}"} if rng.random() < 0.5 else None
        items.append(PlainItem(name, metadata, codes, states))
    return items


def as_arguments(items: list[PlainItem], n_bits: int) -> dict[str, Any]:
    """Return the arguments of `Index.add` and `Index.put` for items."""
    nothing = np.zeros(-(-n_bits // 8), np.uint8)
    return {
        "ids": [item.id for item in items],
        "codes": {
            m: np.array([item.codes.get(m, nothing) for item in items], np.uint8).reshape(-1, len(nothing))
            for m in MODALITIES
        },
        "learned": {m: np.array([item.states[m] == "learned" for item in items], bool) for m in MODALITIES},
        "present": {m: np.array([item.states[m] != "absent" for item in items], bool) for m in MODALITIES},
        "metadata": [item.metadata for item in items],
    }


def parts_of(index: Index) -> Any:
    """Return the parts of a local index."""
    backend: Any = index._backend
    return backend.reader().parts


def assert_same(index: Index, model: PlainIndex) -> None:
    """Compare everything except searches."""
    assert index.ids() == model.ids()
    assert len(index) == len(model.items)
    for item in model.items:
        stored = index.get(item.id)
        assert stored.id == item.id
        assert stored.metadata == item.metadata
        assert stored.states == item.states
        assert {m: code.tobytes() for m, code in stored.codes.items()} == {
            m: code.tobytes() for m, code in item.codes.items()
        }
    if index.words is not None:
        titles = WordIndex.build([[(item.metadata or {}).get("title")] for item in model.items])
        for text in ("plum3 kiwi", "plum5"):
            assert np.array_equal(index.words.coverage(text), titles.coverage(text))
    for modality in MODALITIES:
        for state in ("learned", "hashed", "absent"):
            assert index.count(modality, state) == sum(item.states[modality] == state for item in model.items)


def assert_search_agrees(
    index: Index, model: PlainIndex, query: np.ndarray, modality: str, k: int, **options: Any
) -> None:
    ranking: Literal["hamming", "asymmetric"] = "hamming" if query.dtype == np.uint8 else "asymmetric"
    (found,) = index.search(modality, query[None], k=k, ranking=ranking, **options)
    expected = model.nearest(query, modality, k, options.get("ids"))
    assert [(hit.distance, hit.id, hit.learned) for hit in found] == expected
