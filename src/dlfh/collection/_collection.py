"""A searchable collection on disk: a model and an index of items, side by side in one folder."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._validation import check_integer
from dlfh.codes import Codes, hamming_distances, n_bytes
from dlfh.collection._encoder import Coded, Described, Encoder, from_parts
from dlfh.collection._evaluation import Database, Quality, measure
from dlfh.datasets._items import RESERVED_NAMES, Items
from dlfh.datasets._tables import Problem
from dlfh.errors import DataWarning, InputError, ModelError
from dlfh.index import Index
from dlfh.persistence._files import replace_file
from dlfh.persistence._model_folder import config_checksum, read_model

__all__ = ["Collection", "Found", "check_free"]

_CARD = "collection.json"
_FORMAT = "dlfh-collection"


@dataclass(frozen=True)
class Found:
    """An item that a search found.

    Attributes
    ----------
    rank : int
        From 1.
    id : str
    bits_apart : int
        In how many bits the item's code differs from the query's.
    distance : float
        What it is ranked by: the bits apart, or these weighted by how sure the query is of each.
    learned : bool
        Whether the item's code was learned; if not, the hash function made it.
    metadata : dict
    """

    rank: int
    id: str
    bits_apart: int
    distance: float
    learned: bool
    metadata: dict[str, Any]


class Collection:
    """A model, and an index of the items that it encoded.

    Made by `dlfh.build.build_collection`, or by `Collection.create` and `add`; opened by `Collection.open`.

    Attributes
    ----------
    encoder : Encoder
    index : Index
    path : Path
    """

    def __init__(self, encoder: Encoder, index: Index, path: Path) -> None:
        self.encoder = encoder
        self.index = index
        self.path = path
        self._averages: dict[str, npt.NDArray[np.float32]] = {}

    @classmethod
    def create(
        cls, folder: str | os.PathLike[str], encoder: Encoder, *, place: str | os.PathLike[str] | None = None
    ) -> Collection:
        """Make an empty collection for a fitted encoder, open for writing.

        ``place`` is where the folder will be when it is complete, if elsewhere: paths of images are relative to it.
        """
        path = Path(folder)
        check_free(path)
        reserved = sorted(RESERVED_NAMES & {*encoder.modalities_})
        if reserved:
            raise InputError(f"a modality of a collection cannot be called {reserved[0]!r}")
        path.mkdir(parents=True, exist_ok=True)
        encoder.save(path / "model")
        index = Index.create(path / "index", n_bits=encoder.n_bits, modalities=encoder.modalities_)
        card = {"format": _FORMAT, "format_version": 1, "model": config_checksum(read_model(path / "model")[0])}
        replace_file(path / _CARD, [json.dumps(card, indent=2).encode()])
        return cls(encoder, index, path if place is None else Path(place))

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, writable: bool = False) -> Collection:
        """Open a collection, for reading or, one process at a time, for changing it."""
        path = Path(folder)
        card = _read_card(path)
        config, arrays = read_model(path / "model")
        if card.get("model") != config_checksum(config):
            raise ModelError(f"collection {path} has another model than the one its items were encoded with")
        encoder = from_parts(path / "model", config, arrays)
        if not isinstance(encoder, Encoder):
            raise ModelError(f"the model of collection {path} takes vectors only, and a collection needs its features")
        index = Index.open(path / "index", writable=writable)
        if index.n_bits != encoder.n_bits or tuple(index.modalities) != encoder.modalities_:
            index.close()
            raise ModelError(f"collection {path} is damaged: its model and its index do not belong together")
        return cls(encoder, index, path)

    def __len__(self) -> int:
        return len(self.index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the files, and of the writer's lock."""
        self.index.close()

    def add(
        self,
        items: Items,
        *,
        update: bool = False,
        described: Described | None = None,
        trained: npt.NDArray[np.int64] | None = None,
    ) -> list[Problem]:
        """Add items, all of them or, on an error, none.

        Items without ids of their own (`Items.named`) keep their row numbers if none of these is taken, and get other
        numbers if one is.

        Parameters
        ----------
        items : Items
        update : bool
            Whether items whose id is there already replace the old ones; if not, they are left out. What an item had
            and the new one does not bring (a modality, labels) stays.
        described : Described, optional
            Their vectors, if they are known.
        trained : ndarray of int64, optional
            Which of them the model was just fitted to: their codes are its learned ones.

        Returns
        -------
        list of Problem
            What was left out, and why.
        """
        described = described or self.encoder.describe(items)
        problems = list(described.problems)
        if not described.features:
            raise InputError("the items have none of the modalities of this collection")
        coded = self.encoder.code(described, trained)
        clash = not items.named and self.index.contains(items.ids).any()
        ids = self._free_numbers(len(items)) if clash else items.ids
        has_code = np.logical_or.reduce(list(coded.present.values()))
        known = self.index.contains(ids)
        keep = has_code if update else has_code & ~known
        for row in np.flatnonzero(~keep):
            reason = "nothing of it can be read" if not has_code[row] else f"{ids[row]!r} is in the collection already"
            problems.append(Problem(items.places[row], "item", reason))
        rows = np.flatnonzero(keep)
        if not len(rows):
            return problems
        metadata = [self._card_of(items, int(row)) for row in rows]
        if update:
            self._keep_what_is_not_brought([ids[row] for row in rows], rows, coded, metadata)
        self.index.put(
            [ids[row] for row in rows],
            {name: codes[rows] for name, codes in coded.codes.items()},
            learned={name: mask[rows] for name, mask in coded.learned.items()},
            present={name: mask[rows] for name, mask in coded.present.items()},
            metadata=metadata,
        )
        return problems

    def _free_numbers(self, n: int) -> list[str]:
        start = len(self.index)
        while True:
            numbers = [str(number) for number in range(start, start + n)]
            taken = np.flatnonzero(self.index.contains(numbers))
            if not len(taken):
                return numbers
            start += int(taken[-1]) + 1

    def _keep_what_is_not_brought(
        self, ids: list[str], rows: npt.NDArray[np.int64], coded: Coded, metadata: list[dict[str, Any]]
    ) -> None:
        """Fill in, for items that are there already, the codes and metadata that the new ones lack."""
        n_items = len(next(iter(coded.codes.values())))
        for name in self.encoder.modalities_:
            coded.codes.setdefault(name, np.zeros((n_items, n_bytes(self.encoder.n_bits)), np.uint8))
            coded.present.setdefault(name, np.zeros(n_items, bool))
            coded.learned.setdefault(name, np.zeros(n_items, bool))
        for place in np.flatnonzero(self.index.contains(ids)):
            old, row = self.index.get(ids[place]), rows[place]
            metadata[place] = (old.metadata or {}) | metadata[place]
            for name, code in old.codes.items():
                if not coded.present[name][row]:
                    coded.codes[name][row] = code
                    coded.present[name][row] = True
                    coded.learned[name][row] = old.states[name] == "learned"

    def _card_of(self, items: Items, row: int) -> dict[str, Any]:
        """Return an item's metadata, with paths of images relative to the collection, so that both can be moved."""
        card = dict(items.metadata[row])
        for name, values in items.modalities.items():
            if isinstance(values, list) and isinstance(values[row], Path):
                card[name] = os.path.relpath(values[row], self.path.resolve())
        return card

    def image_path(self, metadata: dict[str, Any]) -> Path | None:
        """Return where an item's image is, the first if it has several, or None if it has none."""
        for name in self.encoder.image_modalities():
            if isinstance(metadata.get(name), str):
                return self.path.resolve() / str(metadata[name])
        return None

    def search(
        self,
        *,
        k: int = 10,
        radius: int | None = None,
        among: str | None = None,
        ranking: str | None = None,
        specific: bool = False,
        only: Sequence[str] | None = None,
        **query: Any,
    ) -> list[Found]:
        """Find the items that a text, an image or an item of the collection asks for.

        Parameters
        ----------
        k : int
            How many to find.
        radius : int, optional
            Find all items within so many bits instead.
        among : str, optional
            The modality to search; by default another one than the query's, and for an item its first.
        ranking : {"asymmetric", "rerank", "hamming"}, optional
            How to rank, see `Index.search`. By default a text or an image asks asymmetrically, which is better, and an
            item of the collection, of which only the code is kept, by Hamming distance.
        specific : bool
            Whether to rank by what sets the query apart from the average one. Items with many labels are near to
            most queries; this puts those first that are near to this one. It suits short texts, and costs where
            popular items are what is wanted: `evaluate` measures it beside the others.
        only : sequence of str, optional
            The ids to search among.
        **query
            One of: a modality's name and a raw value (``text="a red car"``, ``image="car.jpg"``), or ``id="..."`` for
            items like one of the collection (in the modality that is searched, if it has that), itself excluded.

        Returns
        -------
        list of Found
            The best first; equals in the order in which they were added.
        """
        check_integer(k, "k", 1)
        known = self.encoder.modalities_
        if len(query) != 1:
            expected = ", ".join(f"{name}=..." for name in (*known, "id"))
            raise InputError(f"a search takes one query, of {expected}; got {len(query)}")
        ((kind, value),) = query.items()
        if among is not None and among not in known:
            raise InputError(f"unknown modality {among!r}: this collection has {', '.join(map(repr, known))}")
        if specific and (kind == "id" or radius is not None or ranking == "hamming"):
            raise InputError("specific is for texts and images that are ranked asymmetrically")
        if kind == "id":
            return self._search_like(value, k, radius, among, ranking, only)
        found = among or next((name for name in known if name != kind), kind)
        vector = self.encoder.vectors(kind, [value])
        if sp.issparse(vector) and not vector.nnz:
            warnings.warn(
                f"no word of the query is known to this model, so the answers say nothing of {value!r}",
                DataWarning,
                stacklevel=2,
            )
        projection = self.encoder.model.project(kind, vector)
        code = self.encoder.model.encode(kind, vector)
        asked = projection - self._average(kind) if specific else projection
        return self._found(code, asked, found, k, radius, ranking or "asymmetric", only)

    def _average(self, modality: str) -> npt.NDArray[np.float32]:
        if modality not in self._averages:
            self._averages[modality] = self.encoder.average(modality)
        return self._averages[modality]

    def _search_like(
        self,
        identifier: str,
        k: int,
        radius: int | None,
        among: str | None,
        ranking: str | None,
        only: Sequence[str] | None,
    ) -> list[Found]:
        if ranking not in (None, "hamming"):
            raise InputError(f"an item of the collection cannot ask by ranking {ranking!r}: only its code is kept")
        codes = self.index.get(identifier).codes
        found = among or next(iter(codes))
        code = codes.get(found, next(iter(codes.values())))
        nearest = self._found(code[None], code[None], found, k + 1, radius, "hamming", only)
        others = [item for item in nearest if item.id != identifier]
        return [replace(item, rank=rank) for rank, item in enumerate(others if radius is not None else others[:k], 1)]

    def _found(
        self,
        code: Codes,
        asked: npt.NDArray[Any],
        modality: str,
        k: int,
        radius: int | None,
        ranking: Any,
        only: Sequence[str] | None,
    ) -> list[Found]:
        """Search with one code or projection; bits apart are counted from the code."""
        if radius is None:
            hits = self.index.search(asked, modality, k, ranking=ranking, only=only)
        else:
            (hits,) = self.index.search_radius(code, modality, radius, only=only)
        items = list(self.index.items(hits.positions[0].tolist()))
        if not items:
            return []
        apart = hamming_distances(code, np.stack([item.codes[modality] for item in items]))[0]
        return [
            Found(rank, hit.id, int(bits), float(hit.distance), hit.learned, item.metadata or {})
            for rank, (hit, item, bits) in enumerate(zip(hits[0], items, apart, strict=True), 1)
        ]

    def evaluate(self, queries: Items) -> tuple[list[Quality], list[Problem]]:
        """Ask with labelled items for those of the collection, and measure the answers.

        Returns
        -------
        qualities : list of Quality
        problems : list of Problem
            Queries that are not asked with: those that are in the collection themselves, or cannot be read.
        """
        seen = self.index.contains(queries.ids) if queries.named else np.zeros(len(queries), bool)
        if seen.all():
            raise InputError("every query is in the collection itself: evaluate with items that it does not have")
        problems = [
            Problem(queries.places[row], "item", f"{queries.ids[row]!r} is in the collection itself")
            for row in np.flatnonzero(seen)
        ]
        unseen = queries.take(np.flatnonzero(~seen).tolist())
        described = self.encoder.describe(unseen)
        qualities = measure(self.encoder, unseen, self.databases(), described=described)
        return qualities, [*queries.problems, *problems, *described.problems]

    def databases(self) -> dict[str, Database]:
        """Return the labelled items of each modality."""
        found: dict[str, tuple[list[Codes], list[list[str]], list[bool]]]
        found = {name: ([], [], []) for name in self.encoder.modalities_}
        for item in self.index.items():
            labels = (item.metadata or {}).get("labels")
            if labels:
                for name, code in item.codes.items():
                    codes, own, learned = found[name]
                    codes.append(code)
                    own.append(labels)
                    learned.append(item.states[name] == "learned")
        return {
            name: Database(np.stack(codes), labels, np.array(learned, bool))
            for name, (codes, labels, learned) in found.items()
            if codes
        }


def check_free(folder: str | os.PathLike[str]) -> None:
    """Say so if there is something already where a collection is to be."""
    path = Path(folder)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"cannot make a collection in {path}: there is something there already")


def _read_card(path: Path) -> dict[str, Any]:
    if not path.is_dir():
        raise ModelError(
            f"there is no collection at {path}: " + ("it is a file" if path.exists() else "no such folder")
        )
    try:
        card = json.loads((path / _CARD).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ModelError(f"{path} is not a collection: it has no {_CARD}") from None
    except (OSError, ValueError, RecursionError):
        raise ModelError(f"collection {path} is damaged: {_CARD} cannot be read") from None
    if not isinstance(card, dict) or card.get("format") != _FORMAT:
        raise ModelError(f"{path} is not a collection: its {_CARD} is of something else")
    if card.get("format_version") != 1:
        raise ModelError(f"collection {path} has format version {card.get('format_version')!r}, and this dlfh reads 1")
    return card
