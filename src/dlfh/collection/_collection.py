"""A searchable collection on disk: a model and an index of items, side by side in one folder."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._validation import Features, check_choice, check_integer
from dlfh.codes import Codes, hamming_distances, n_bytes, pack
from dlfh.collection._encoder import Encoder, from_parts
from dlfh.collection._evaluation import Database, Quality, evaluate_queries, fit_and_evaluate
from dlfh.collection._folder import check_free, new_folder, note_place, read_card, read_places, write_card
from dlfh.collection._found import Found, FoundItem
from dlfh.collection._item_vectors import ItemCodes, ItemVectors, Training
from dlfh.collection._queries import is_single
from dlfh.datasets._items import LABEL_WORDS, RESERVED_NAMES, Items
from dlfh.datasets._tables import Problem
from dlfh.errors import DataWarning, InputError, ModelError
from dlfh.index import Index
from dlfh.index._items import Item
from dlfh.persistence._model_folder import config_checksum, read_model

__all__ = ["Built", "Collection"]

#: How answers may be ranked: as an index does, or by what sets the query apart.
RANKINGS = ("asymmetric", "hamming", "rerank", "specific")


@dataclass(frozen=True)
class Built:
    """What `Collection.build` made.

    Attributes
    ----------
    collection : Collection
        Open for reading.
    n_trained : int
        Items that the encoder learned from.
    n_incomplete : int
        How many of these lack a modality or labels.
    problems : list of Problem
        What of the items is left out, and why.
    qualities : list of Quality
        How well held-out items find the others, if some were held out.
    """

    collection: Collection
    n_trained: int
    n_incomplete: int
    problems: list[Problem]
    qualities: list[Quality]


class Collection:
    """A model, and an index of the items that it encoded, in a folder.

    Made by `Collection.build`, or empty by `Collection.create`; opened by `Collection.open`.

    Attributes
    ----------
    encoder : Encoder
    index : Index
    path : Path

    Examples
    --------
    >>> import tempfile
    >>> from dlfh import DLFH, Collection, Encoder
    >>> from dlfh.datasets import Items
    >>> from dlfh.features import BagOfWords
    >>> english = ["a red car", "a blue car", "a small dog", "a big dog"]
    >>> german = ["ein rotes Auto", "ein blaues Auto", "ein kleiner Hund", "ein grosser Hund"]
    >>> items = Items.of({"english": english, "german": german}, labels=[["car"], ["car"], ["dog"], ["dog"]])
    >>> encoder = Encoder({"english": BagOfWords(), "german": BagOfWords()}, DLFH(n_bits=16, random_state=0))
    >>> collection = Collection.build(tempfile.mkdtemp(), items, encoder).collection
    >>> collection.search("english", "car", k=2).ids
    ['0', '1']
    >>> [found.ids for found in collection.search("german", ["Auto", "Hund"], k=2)]
    [['0', '1'], ['2', '3']]
    >>> collection.similar("2", k=1).ids
    ['3']
    """

    def __init__(self, encoder: Encoder, index: Index, path: Path) -> None:
        self.encoder = encoder
        self.index = index
        self.path = path
        self._mean_codes: dict[str, npt.NDArray[np.float32]] = {}

    # Making and opening

    @classmethod
    def create(cls, folder: str | os.PathLike[str], encoder: Encoder) -> Collection:
        """Make an empty collection for a fitted encoder, open for writing.

        Parameters
        ----------
        folder : path
            Where nothing is yet.
        encoder : Encoder
        """
        path = Path(folder)
        with new_folder(path) as building:
            cls._create(building, encoder, path).close()
        return cls(encoder, Index.open(path / "index", writable=True), path)

    @classmethod
    def _create(cls, folder: Path, encoder: Encoder, place: Path) -> Collection:
        """Make an empty collection in a folder that will be at ``place``: paths of images are relative to that."""
        reserved = sorted(RESERVED_NAMES & {*encoder.modalities_})
        if reserved:
            raise InputError(f"a modality of a collection cannot be called {reserved[0]!r}: metadata have it")
        encoder.save(folder / "model")
        index = Index.create(folder / "index", n_bits=encoder.n_bits, modalities=encoder.modalities_)
        assert index.identity is not None
        try:
            write_card(folder, config_checksum(read_model(folder / "model")[0]), index.identity)
            if encoder.image_modalities():
                note_place(folder, place)
        except BaseException:
            index.close()
            raise
        return cls(encoder, index, place)

    @classmethod
    def build(
        cls,
        folder: str | os.PathLike[str],
        items: Items,
        encoder: Encoder,
        *,
        fit: bool = True,
        hold_out: int = 0,
        learned: bool = True,
        random_state: int = 0,
    ) -> Built:
        """Fit an encoder to items, and make a collection of them; the folder appears when it is complete.

        Parameters
        ----------
        folder : path
            Where nothing is yet.
        items : Items
        encoder : Encoder
            It is fitted here.
        fit : bool
            Whether to fit the encoder; if not, it was fitted before, and all items are hashed.
        hold_out : int
            How many complete, labelled items, drawn at random, are kept out of training to measure with. They are in
            the collection in the end, like all others.
        learned : bool
            Whether the training items have their learned codes in the collection; if not, all items are hashed.
        random_state : int
            The seed of the draw.

        Returns
        -------
        Built
        """
        check_free(folder)
        parts = fit_and_evaluate(encoder, items, hold_out, fit=fit, random_state=random_state)
        training = parts.training
        with new_folder(folder) as building, cls._create(building, encoder, Path(folder)) as collection:
            problems = collection._put(parts.database, parts.database_vectors, training=training if learned else None)
            if hold_out:
                problems += collection._put(parts.queries, parts.query_vectors)
        return Built(
            cls.open(folder),
            0 if training is None else len(training),
            0 if training is None else training.n_incomplete,
            [*items.problems, *problems],
            parts.qualities,
        )

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, writable: bool = False) -> Collection:
        """Open a collection, for reading or, one process at a time, for changing it."""
        path = Path(folder)
        card = read_card(path)
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
        if index.identity != card.get("index"):
            index.close()
            raise ModelError(f"collection {path} has another index than the one that was made with it")
        if writable and encoder.image_modalities():
            with suppress(OSError):  # pictures are not worth an error
                note_place(path, path)
        return cls(encoder, index, path)

    def close(self) -> None:
        """Let go of the files, and of the writer's lock."""
        self.index.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, identifier: object) -> bool:
        return identifier in self.index

    def __iter__(self) -> Iterator[Item]:
        """Yield the items, in the order in which they were added."""
        return self.index.items()

    def __repr__(self) -> str:
        return f"Collection({self.path}, {self.index!r})"

    def _repr_html_(self) -> str:
        """Return a table, as notebooks show it."""
        from dlfh.collection._html import html_table  # searching shows no HTML

        if self.index.closed:
            return html_table((), (), repr(self))
        rows = [
            (name, *(f"{self.index.count(name, state):,}" for state in ("learned", "hashed")), featurizer)
            for name, featurizer in self.encoder.featurizers_.items()
        ]
        caption = f"{self.path}: {len(self):,} items, {self.encoder.n_bits} bits, {type(self.encoder.model_).__name__}"
        return html_table(("modality", "learned codes", "hashed codes", "features"), rows, caption)

    def get(self, identifier: str) -> Item:
        """Return an item by its id: its metadata, its codes, and whether these are learned or hashed."""
        return self.index.get(identifier)

    # Changing

    def add(self, items: Items, *, update: bool = False, vectors: ItemVectors | None = None) -> list[Problem]:
        """Add items, all of them or, on an error, none. They are hashed.

        Items without ids of their own (`Items.named`) keep their row numbers if none of these is taken, and get other
        numbers if one is.

        Parameters
        ----------
        items : Items
        update : bool
            Whether items whose id is there already replace the old ones; if not, they are left out. What an item had
            and the new one does not bring (a modality, labels) stays.
        vectors : ItemVectors, optional
            What ``encoder.describe(items)`` gives, if it is known. Describing images takes long and needs no writer.

        Returns
        -------
        list of Problem
            What was left out, and why.
        """
        return self._put(items, vectors or self.encoder.describe(items), update=update)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove items: all, or none if one is not there."""
        self.index.remove(ids)

    def _put(
        self, items: Items, vectors: ItemVectors, *, training: Training | None = None, update: bool = False
    ) -> list[Problem]:
        problems = list(vectors.problems)
        if not vectors.matrices:
            raise InputError("the items have none of the modalities of this collection")
        coded = self.encoder.encode_items(vectors, training)
        clash = not items.named and self.index.contains(items.ids).any()
        ids = self._free_numbers(len(items)) if clash else items.ids
        # Labels alone describe no item: they are there to ask with.
        has_code = np.logical_or.reduce([mask for name, mask in coded.present.items() if name != LABEL_WORDS])
        known = self.index.contains(ids)
        keep = has_code if update else has_code & ~known
        for row in np.flatnonzero(~keep):
            reason = "nothing of it can be read" if not has_code[row] else f"{ids[row]!r} is in the collection already"
            problems.append(Problem(items.places[row], "item", reason))
        rows = np.flatnonzero(keep)
        if not len(rows):
            return problems
        metadata = [self._metadata(items, int(row)) for row in rows]
        if update:
            self._keep_old_parts([ids[row] for row in rows], rows, coded, metadata)
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

    def _keep_old_parts(
        self, ids: list[str], rows: npt.NDArray[np.int64], coded: ItemCodes, metadata: list[dict[str, Any]]
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

    def _metadata(self, items: Items, row: int) -> dict[str, Any]:
        """Return an item's metadata, with paths of images relative to the collection, so that both can be moved."""
        metadata = dict(items.metadata[row])
        for name, values in items.modalities.items():
            if isinstance(values, list) and isinstance(values[row], Path):
                metadata[name] = os.path.relpath(values[row], self.path.resolve())
        return metadata

    def image_path(self, metadata: dict[str, Any]) -> Path | None:
        """Return where an item's image is, the first if it has several, or None if it has none.

        Images are found by their paths from the collection: from where it is, if they moved with it, or from where it
        was when they came, if it moved alone.
        """
        return next(self.image_paths(metadata), None)

    def image_paths(self, metadata: dict[str, Any]) -> Iterator[Path]:
        """Yield where an item's images are."""
        for name in self.encoder.image_modalities():
            if isinstance(metadata.get(name), str):
                here = self.path.resolve() / str(metadata[name])
                # (By words alone: what was at such a place may be gone, and with it the way up from there.)
                elsewhere = (Path(os.path.normpath(place / str(metadata[name]))) for place in self._places)
                yield here if _is_file(here) else next(filter(_is_file, elsewhere), here)

    @cached_property
    def _places(self) -> list[Path]:
        return read_places(self.path)

    # Asking

    def search(
        self,
        modality: str,
        values: Any,
        k: int = 10,
        *,
        among: str | None = None,
        ranking: str | None = None,
        radius: int | None = None,
        only: Sequence[str] | None = None,
    ) -> Any:
        """Find the items that a text, an image or a vector asks for.

        Parameters
        ----------
        modality : str
            What the query is in.
        values : str, image, vector, or several of these
            A text is a string; an image is a path, bytes, a PIL image or an array, as `dlfh.features.read_image` takes
            it; a vector has one axis. A list of these, or an array with one axis more, is a batch.
        k : int
            How many items to find.
        among : str, optional
            The modality to search; by default another one than the query's.
        ranking : {"asymmetric", "hamming", "rerank", "specific"}, optional
            By the bits apart, weighted by how sure the query is of each (the default); by their number; by their
            number first, and the best of these by weight (`Index.search`); or as "asymmetric", by what sets the query
            apart from the average one. Items with many labels are near to most queries: "specific" puts those first
            that are near to this one. It suits short texts, and costs where popular items are what is wanted:
            `evaluate` measures it beside the others.
        radius : int, optional
            Find all items within so many bits, not ``k``; they are ranked by "hamming".
        only : sequence of str, optional
            The ids to search among.

        Returns
        -------
        Found, or list of Found
            For one query, the items that it finds; for a batch, a list of what each finds.
        """
        check_integer(k, "k", 1)
        among = self._target(among, modality)
        if ranking is not None:
            check_choice(ranking, "ranking", RANKINGS)
        if radius is not None and ranking not in (None, "hamming"):
            raise InputError(f"a radius counts bits: items within it are ranked by 'hamming', not by {ranking!r}")
        single = is_single(values, self.encoder.featurizer(modality).takes)
        batch = [values] if single else values
        if not sp.issparse(batch) and isinstance(batch, Sequence) and not len(batch):
            return []
        vectors = self.encoder.vectors(modality, batch)
        _warn_of_unknown_words(vectors, batch)
        projections = self.encoder.model_.project(modality, vectors)
        codes = pack(projections)
        if ranking == "specific":
            projections = projections - self._mean_code(modality)
        method = {None: "asymmetric", "specific": "asymmetric"}.get(ranking, ranking)
        found = self._find(codes, projections, among, k, radius, method, only)
        return found[0] if single else found

    def similar(
        self,
        identifier: str,
        k: int = 10,
        *,
        among: str | None = None,
        radius: int | None = None,
        only: Sequence[str] | None = None,
    ) -> Found:
        """Find items like one of the collection, itself excluded, by the Hamming distance of their codes.

        Parameters
        ----------
        identifier : str
            The id of the item. Its code in the modality that is searched asks, or its first if it has none there.
        k : int
            How many items to find.
        among : str, optional
            The modality to search; by default the first that the item has.
        radius : int, optional
            Find all items within so many bits, not ``k``.
        only : sequence of str, optional
            The ids to search among.

        Returns
        -------
        Found
        """
        check_integer(k, "k", 1)
        codes = self.index.get(identifier).codes
        first = next(iter(codes))
        among = self._target(among or first)
        code = codes.get(among, codes[first])[None]
        (nearest,) = self._find(code, code, among, k + 1, radius, "hamming", only)
        others = [item for item in nearest if item.id != identifier]
        wanted = others if radius is not None else others[:k]
        return Found(replace(item, rank=rank) for rank, item in enumerate(wanted, 1))

    def _target(self, among: str | None, query: str | None = None) -> str:
        """Return the modality to search: the one asked for, or another than the query's."""
        known = self.encoder.modalities_
        if among is not None and among not in known:
            raise InputError(f"unknown modality {among!r}: this collection has {', '.join(map(repr, known))}")
        # The labels of items that have one modality stand for words, and those without labels have none.
        return among or next((name for name in known if name not in (query, LABEL_WORDS)), query or known[0])

    def _mean_code(self, modality: str) -> npt.NDArray[np.float32]:
        if modality not in self._mean_codes:
            self._mean_codes[modality] = self.encoder.mean_code(modality)
        return self._mean_codes[modality]

    def _find(
        self,
        codes: Codes,
        queries: npt.NDArray[Any],
        modality: str,
        k: int,
        radius: int | None,
        ranking: Any,
        only: Sequence[str] | None,
    ) -> list[Found]:
        """Search with codes or projections; bits apart are counted from the codes."""
        if radius is None:
            hits = self.index.search(queries, modality, k, ranking=ranking, only=only)
            nearest = [(hits[query], hits.positions[query]) for query in range(len(hits))]
        else:
            within = self.index.search_radius(codes, modality, radius, only=only)
            nearest = [(hits[0], hits.positions[0]) for hits in within]
        items = self.index.items(np.concatenate([positions for _, positions in nearest]).tolist())
        answers = []
        for code, (hits_of_query, positions) in zip(codes, nearest, strict=True):
            found = [next(items) for _ in positions]
            apart = _bits_apart(code, [item.codes[modality] for item in found])
            answers.append(
                Found(
                    FoundItem(rank, hit.id, bits, float(hit.distance), hit.learned, item.metadata or {})
                    for rank, (hit, item, bits) in enumerate(zip(hits_of_query, found, apart, strict=True), 1)
                )
            )
        return answers

    # Measuring

    def evaluate(self, queries: Items) -> tuple[list[Quality], list[Problem]]:
        """Ask with labelled items for those of the collection, and measure the answers.

        Parameters
        ----------
        queries : Items

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
        unseen = queries.take(np.flatnonzero(~seen))
        vectors = self.encoder.describe(unseen)
        qualities = evaluate_queries(self.encoder, unseen, vectors, self._databases())
        return qualities, [*queries.problems, *problems, *vectors.problems]

    def _databases(self) -> dict[str, Database]:
        """Return the labelled items of each modality."""
        by_modality: dict[str, tuple[list[Codes], list[list[str]], list[bool]]]
        by_modality = {name: ([], [], []) for name in self.encoder.modalities_}
        for item in self.index.items():
            labels = (item.metadata or {}).get("labels")
            if labels:
                for name, code in item.codes.items():
                    codes, own, learned = by_modality[name]
                    codes.append(code)
                    own.append(labels)
                    learned.append(item.states[name] == "learned")
        return {
            name: Database(np.stack(codes), labels, np.array(learned, bool))
            for name, (codes, labels, learned) in by_modality.items()
            if codes
        }


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False


def _bits_apart(code: Codes, codes: Sequence[Codes]) -> list[int]:
    return hamming_distances(code[None], np.stack(codes))[0].tolist() if codes else []


def _warn_of_unknown_words(vectors: Features, queries: Any) -> None:
    """Warn of queries that say nothing to the model: texts of words that it does not know."""
    if not sp.issparse(vectors):
        return
    empty = np.flatnonzero(np.diff(vectors.indptr) == 0)
    if len(empty) and isinstance(queries, Sequence):
        others = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
        warnings.warn(
            f"no word of the query is known to this model, so the answers say nothing of {queries[empty[0]]!r}{others}",
            DataWarning,
            stacklevel=3,
        )
