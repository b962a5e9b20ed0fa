"""A searchable collection on disk: a model and an index of items, side by side in one folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from dlfh._persistence.model_folder import config_checksum, read_model
from dlfh.collection.calibration.model import Calibration
from dlfh.collection.columns import column_names, hashed_column, without_columns
from dlfh.collection.encoder import Encoder, from_parts
from dlfh.collection.folder import (
    check_free,
    new_folder,
    note_place,
    open_items,
    read_card,
    read_places,
    write_address,
    write_card,
)
from dlfh.collection.result import SearchResult
from dlfh.collection.searcher import How
from dlfh.collection.shortlist import searcher_of
from dlfh.collection.words import WordsOfItems
from dlfh.datasets.problem import RESERVED_NAMES, Problem
from dlfh.errors import InputError, ModelError, StorageError
from dlfh.index import Index
from dlfh.index.items import Item

if TYPE_CHECKING:
    from dlfh.collection.evaluation import EvaluationReport
    from dlfh.collection.item_vectors import ItemVectors
    from dlfh.collection.syncing import SyncResult
    from dlfh.datasets.items import Items

__all__ = ["BuildResult", "Collection"]


@dataclass(frozen=True)
class BuildResult:
    """Result of `Collection.build`.

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
    evaluation : EvaluationReport
        Retrieval quality and calibration, measured with held-out items; empty if none were held out.
    """

    collection: Collection
    n_trained: int
    n_incomplete: int
    problems: list[Problem]
    evaluation: EvaluationReport


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
        self._words = WordsOfItems(index, encoder.text_modalities(), path)
        self._searcher = searcher_of(encoder, index, self._words)

    # Making and opening

    @classmethod
    def create(cls, folder: str | os.PathLike[str], encoder: Encoder, *, address: str | None = None) -> Collection:
        """Make an empty collection for a fitted encoder, open for writing.

        Parameters
        ----------
        folder : path
            Where nothing is yet.
        encoder : Encoder
        address : str, optional
            The engine that the items are to be in, as `Index.create` takes it; by default the folder.
        """
        path = Path(folder)
        with new_folder(path) as building:
            cls._create(building, encoder, path, address).close()
        return cls(encoder, open_items(path, writable=True), path)

    @classmethod
    def _create(cls, folder: Path, encoder: Encoder, place: Path, address: str | None = None) -> Collection:
        """Make an empty collection in a folder that will be at ``place``: paths of images are relative to that."""
        reserved = sorted((RESERVED_NAMES | {*map(hashed_column, encoder.modalities_)}) & {*encoder.modalities_})
        if reserved:
            raise InputError(f"a modality of a collection cannot be called {reserved[0]!r}: something else is")
        encoder.save(folder / "model")
        at = folder / "index" if address is None else address
        index = Index.create(at, encoder.n_bits, column_names(encoder.modalities_))
        assert index.identity is not None
        try:
            if index.address is not None:
                write_address(folder, index.address)
            write_card(folder, config_checksum(read_model(folder / "model")[0]), index.identity)
            if encoder.image_modalities():
                note_place(folder, place)
        except BaseException:
            _undo(index)
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
        hold_out: int | None = None,
        random_state: int = 0,
        address: str | None = None,
    ) -> BuildResult:
        """Fit an encoder to items, and make a collection of them; the folder appears when it is complete.

        Parameters
        ----------
        folder : path
            Where nothing is yet.
        items : Items
        encoder : Encoder
            It is fitted here.
        fit : bool
            Whether to fit the encoder; if not, it was fitted before, to other items.
        hold_out : int, optional
            How many complete, labelled items, drawn at random, are kept out of training to measure with, and to
            calibrate probabilities by; by default a tenth of them, at most 300, if there are 200 or more. They are in
            the collection in the end, like all others.
        random_state : int
            The seed of the draw.
        address : str, optional
            The engine that the items are to be in, as `Index.create` takes it; by default the folder.

        Returns
        -------
        BuildResult
        """
        from dlfh.collection.adding import put_items  # searching adds nothing, and measures nothing
        from dlfh.collection.evaluation import fit_and_evaluate

        check_free(folder)
        parts = fit_and_evaluate(encoder, items, hold_out, fit=fit, random_state=random_state)
        training = parts.training
        with (
            new_folder(folder) as building,
            cls._create(building, encoder, Path(folder), address) as collection,
            _undone_if_it_fails(collection.index),
        ):
            problems = put_items(collection, parts.database, parts.database_vectors, training=training)
            if len(parts.queries):
                problems += put_items(collection, parts.queries, parts.query_vectors)
            parts.report.write(building)
        return BuildResult(
            cls.open(folder),
            0 if training is None else len(training),
            0 if training is None else training.n_incomplete,
            [*items.problems, *problems],
            parts.report,
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
        index = open_items(path, writable=writable)
        if index.n_bits != encoder.n_bits or tuple(index.modalities) != column_names(encoder.modalities_):
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
        self._words.keep()
        self.index.close()

    def verify(self) -> None:
        """Check every byte that the collection holds; raise `StorageError` if something is damaged."""
        self.index.verify()
        self._words.verify()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def copy(self, folder: str | os.PathLike[str], *, address: str | None = None) -> Collection:
        """Copy the collection to a new folder, its items to an engine if one is named; return the copy.

        Parameters
        ----------
        folder : path
            Where nothing is yet.
        address : str, optional
            The engine that the items are to be in, as `Index.create` takes it; by default the folder.
        """
        from dlfh.collection.copying import copy_items

        path = Path(folder)
        with (
            new_folder(path) as building,
            type(self)._create(building, self.encoder, path, address) as copy,
            _undone_if_it_fails(copy.index),
        ):
            copy_items(self, copy)
        return type(self).open(path)

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, identifier: object) -> bool:
        return identifier in self.index

    def __iter__(self) -> Iterator[Item]:
        """Yield the items, in the order in which they were added."""
        return (without_columns(item, self.encoder.modalities_) for item in self.index.items())

    def __repr__(self) -> str:
        return f"Collection({self.path}, {self.index!r})"

    def _repr_html_(self) -> str:
        """Return a table, as notebooks show it."""
        from dlfh.collection.html import html_table  # searching shows no HTML

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
        return without_columns(self.index.get(identifier), self.encoder.modalities_)

    # Changing

    def add(self, items: Items, *, update: bool = False, vectors: ItemVectors | None = None) -> list[Problem]:
        """Add items, all of them or, on an error, none.

        Items with labels have the learned code of their label set, as if they had been trained with; one is learned for
        a label set that is new, without training anything again. Items without labels, or with labels that training
        never saw, are hashed.

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
        from dlfh.collection.adding import put_items

        return put_items(self, items, vectors or self.encoder.describe(items), update=update)

    def sync(
        self,
        items: Items,
        *,
        remove: bool = True,
        max_removed: float = 0.5,
        dry_run: bool = False,
        rehash: bool = False,
    ) -> SyncResult:
        """Make the collection equal to items: add what is new, replace what changed, remove what is gone.

        An item is the same if its texts, labels, columns and paths are, and the contents of its images, by their
        hashes. Texts and images that the collection has a code of are not described again, also in another item.
        Stopped at any moment, it goes on from there the next time.

        Parameters
        ----------
        items : Items
            All that is to be in the collection, such as `dlfh.datasets.read_items` reads it.
        remove : bool
            Whether items that are gone are removed; if not, they stay.
        max_removed : float
            The largest share of the collection's items that may be removed; if more are gone, the source may be the
            wrong one, and InputError is raised before anything is done.
        dry_run : bool
            Say what would be done, and do nothing.
        rehash : bool
            Read every file again; if not, one with the same size and times as before is taken to be the same.

        Returns
        -------
        SyncResult

        Examples
        --------
        >>> import tempfile
        >>> from dlfh import DLFH, Collection, Encoder
        >>> from dlfh.datasets import Items
        >>> from dlfh.features import BagOfWords
        >>> texts = {"english": ["a car", "a dog", "a cat"], "german": ["Auto", "Hund", "Katze"]}
        >>> items = Items.of(texts, labels=[["car"], ["pet"], ["pet"]], ids=["car", "dog", "cat"])
        >>> encoder = Encoder({"english": BagOfWords(), "german": BagOfWords()}, DLFH(n_bits=16, random_state=0))
        >>> folder = tempfile.mkdtemp()
        >>> Collection.build(folder, items, encoder).collection.close()
        >>> items.modalities["german"][1] = items.metadata[1]["german"] = "der Hund"
        >>> with Collection.open(folder, writable=True) as collection:
        ...     print(collection.sync(items.take([0, 1])))
        0 added, 1 updated, 1 removed, 1 unchanged; described 1 german
        """
        from dlfh.collection.syncing import sync_items  # searching changes nothing

        return sync_items(self, items, remove=remove, max_removed=max_removed, dry_run=dry_run, rehash=rehash)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove items: all, or none if one is not there."""
        self.index.remove(ids)

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
        modalities: str | Sequence[str] | None = None,
        match: str | None = None,
        ranking: str | None = None,
        hashed_only: bool = False,
        min_probability: float | None = None,
        radius: int | None = None,
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> Any:
        """Find the items that a text, an image or a vector asks for, the most probable first.

        An item is right if it shares a label with what asks. How probable that is, held-out items told when the
        collection was built: by the similarity of codes, of each kind in each modality, and by the words of its texts.
        Equally probable items are told apart by their hashed codes, then by those in other modalities.

        Parameters
        ----------
        modality : str
            What the query is in.
        values : str, image, vector, or several of these
            A text is a string; an image is a path, bytes, a PIL image or an array; a vector
            has one axis. A list of these, or an array with one axis more, is a batch.
        k : int
            How many items to find.
        modalities : str or sequence of str, optional
            The modalities to search, "all" for every one. By default what answered held-out items best; without these,
            another than the query's.
        match : {"codes", "words", "both"}, optional
            What a text is compared with: the codes of items, the words of their texts, or both. By default what
            answered held-out items best; without these, codes. An image or a vector is compared with codes.
        ranking : {"asymmetric", "specific", "hamming"}, optional
            How codes are compared: by the bits apart, weighted by how sure the query is of each (the default); by what
            sets the query apart from the average one; or by the number of bits apart. Items with many labels are near
            to most queries: "specific" puts those first that are near to this one, which suits short texts.
        hashed_only : bool
            Find every item by its hashed code, so that those with labels are not before those without.
        min_probability : float, optional
            Find items that are at least so probable to be right.
        radius : int, optional
            Find all items within so many bits in the modality that is searched (the first, of several), not ``k``.
        ids : sequence of str, optional
            Restrict the search to items with these ids.
        where : dict, optional
            Find items of which this filter holds: of their labels, and of the columns of their table, such as
            ``{"labels": "sale", "price": {"<": 20}}``. `Index.matches` says what there is.

        Returns
        -------
        SearchResult, or list of SearchResult
            For one query, the items that it finds; for a batch, a list of what each finds.
        """
        how = How(modalities, match, ranking, hashed_only, min_probability, radius, ids, where)
        return self._searcher.search(modality, values, k, how)

    def similar(
        self,
        identifier: str,
        k: int = 10,
        *,
        modalities: str | None = None,
        hashed_only: bool = False,
        radius: int | None = None,
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> SearchResult:
        """Find items like one of the collection, itself excluded, by the Hamming distance of their codes.

        Equally near items are told apart by their hashed codes, and by those in other modalities.

        Parameters
        ----------
        identifier : str
            The id of the item. Its code in the modality that is searched asks, or its first if it has none there.
        k : int
            How many items to find.
        modalities : str, optional
            The modality to search; by default the first that the item has.
        hashed_only : bool
            Compare hashed codes, also of items that have learned ones.
        radius : int, optional
            Find all items within so many bits, not ``k``.
        ids : sequence of str, optional
            Restrict the search to items with these ids.
        where : dict, optional
            Find items of which this filter holds: of their labels, and of the columns of their table, such as
            ``{"labels": "sale", "price": {"<": 20}}``. `Index.matches` says what there is.

        Returns
        -------
        SearchResult
        """
        return self._searcher.similar(
            identifier, k, How(modalities, hashed_only=hashed_only, radius=radius, ids=ids, where=where)
        )

    @property
    def calibration(self) -> Calibration:
        """What distances and words say of the probability that an item is right; empty if no held-out items told."""
        return self._searcher.calibration

    # Measuring

    def evaluate(self, queries: Items) -> EvaluationReport:
        """Ask with labelled items for those of the collection, and measure the answers.

        Parameters
        ----------
        queries : Items

        Returns
        -------
        EvaluationReport
        """
        from dlfh.collection.evaluation import evaluate_collection

        return evaluate_collection(self, queries)


def _undo(index: Index) -> None:
    """Let go of an index that is in the way of nobody: an engine's tables are deleted, a folder is by who made it."""
    with suppress(StorageError):
        index.drop()
    index.close()


@contextmanager
def _undone_if_it_fails(index: Index) -> Iterator[None]:
    try:
        yield
    except BaseException:
        _undo(index)
        raise


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that no file can have
        return False
