"""The index: items with ids, metadata and codes, in memory, in a folder or in a database."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Array, Floats, Integers, Mask
from dlfh._validation import check_choice, check_integer, shown
from dlfh.errors import InputError
from dlfh.index.backend import Backend, Reader, Request, check_known, check_layout
from dlfh.index.engines.address import create_engine, is_address, open_engine
from dlfh.index.items import Hits, Item
from dlfh.index.local import LocalBackend, Snapshot
from dlfh.index.nearest import Tables, as_array, as_codes, check_queries
from dlfh.index.segment import ABSENT, HASHED, LEARNED, STATES, check_ids, make_segment
from dlfh.index.store import Store
from dlfh.index.where import Where, parse_where
from dlfh.index.words import WordIndex

Ranking = Literal["hamming", "asymmetric"]

#: Minimum batch size of a filter when only the first matches are needed.
_FILTER_BATCH = 5_000


class Index:
    """Items that are searched by their codes.

    An item has an id (a string), metadata (a dict of JSON values, or None) and a packed code in one or more named
    modalities. In each modality the code is ``"learned"`` (the item was in the training set), ``"hashed"`` (computed
    by the hash function, as for every new item) or ``"absent"``.

    ``Index(...)`` creates an index in memory. `Index.create` creates one in a folder or a database, and `Index.open`
    opens it. Any number of processes can read a folder while one writes to it. A change takes effect completely or
    not at all, even if the process is killed. An index can be searched from several threads.

    Parameters
    ----------
    n_bits : int
        Code length, at least 1.
    modalities : sequence of str

    Attributes
    ----------
    n_bits : int
    modalities : tuple of str

    Examples
    --------
    >>> from dlfh.codes import pack
    >>> index = Index(n_bits=4, modalities=["image", "text"])
    >>> index.add(["cat", "dog"], {"image": pack([[1, 1, -1, -1], [-1, -1, 1, 1]])}, learned=True)
    >>> index.add(["fish"], {"image": pack([[1, 1, 1, 1]]), "text": pack([[1, 1, 1, 1]])}, metadata=[{"legs": 0}])
    >>> index.search("image", pack([[1, 1, -1, 1]]), k=2)[0]
    [Hit(id='cat', distance=1, learned=True), Hit(id='fish', distance=1, learned=False)]
    >>> index.get("fish").metadata
    {'legs': 0}
    >>> index.remove(["cat"])
    >>> index.ids()
    ['dog', 'fish']
    """

    def __init__(self, n_bits: int, modalities: Sequence[str]) -> None:
        self._use(LocalBackend(*check_layout(n_bits, modalities)))

    def _use(self, backend: Backend) -> Self:
        self._backend = backend
        self.n_bits = backend.n_bits
        self.modalities = backend.modalities
        return self

    # Opening and closing

    @classmethod
    def create(
        cls, place: str | os.PathLike[str], n_bits: int, modalities: Sequence[str], *, texts: Sequence[str] = ()
    ) -> Self:
        """Create an empty index in a folder or a database, and open it for writing.

        Parameters
        ----------
        place : str or path
            A new or empty folder, or the address of a database: ``postgresql://USER@HOST/DATABASE#TABLE``,
            ``duckdb:FILE#TABLE``, ``milvus://HOST:PORT#TABLE`` or ``milvus:FILE.db#TABLE``. The default table is
            ``dlfh``; a password can also come from the environment.
        n_bits : int
        modalities : sequence of str
        texts : sequence of str
            Names of metadata whose words are indexed with the items, for `Collection.search`; in a folder only.

        Examples
        --------
        >>> import tempfile
        >>> with Index.create(tempfile.mkdtemp(), n_bits=64, modalities=["image"]) as index:
        ...     len(index)
        0
        >>> with Index.create("duckdb:", n_bits=8, modalities=["image"]) as index:
        ...     index.add(["a", "b"], {"image": np.array([[7], [1]], np.uint8)}, metadata=[{"price": 3}, {"price": 5}])
        ...     index.search("image", np.array([[3]], np.uint8), where={"price": {"<": 4}})[0]
        [Hit(id='a', distance=1, learned=False)]
        """
        layout = check_layout(n_bits, modalities)
        if is_address(place):
            return cls.__new__(cls)._use(create_engine(str(place), *layout))
        names = check_layout(n_bits, texts)[1] if texts else ()
        return cls.__new__(cls)._use(LocalBackend(*layout, Store.create(Path(place), *layout, names)))

    @classmethod
    def open(cls, place: str | os.PathLike[str], *, writable: bool = False, verify: bool = True) -> Self:
        """Open the index in a folder or a database.

        Large files are memory-mapped. A reader sees the index as it was when it was opened, until it calls `refresh`.
        A folder has one writer at a time; a second one is refused.

        Parameters
        ----------
        place : str or path
            A folder, or the address of a database as in `create`.
        writable : bool
            Whether to open a folder for writing. A database has its own access rights.
        verify : bool
            Whether to compare the codes and ids in a folder with their checksums (a few milliseconds per million
            codes). The metadata of an item is always checked when it is read.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> Index.create(folder, n_bits=64, modalities=["image"]).close()
        >>> with Index.open(folder) as index:
        ...     index.modalities
        ('image',)
        """
        if is_address(place):
            return cls.__new__(cls)._use(open_engine(str(place)))
        store = Store.open(Path(place), writable=writable, verify=verify)
        return cls.__new__(cls)._use(LocalBackend(store.manifest.n_bits, store.manifest.modalities, store))

    @property
    def folder(self) -> Path | None:
        """The folder of the index; None in memory and in a database."""
        return self._backend.folder

    @property
    def address(self) -> str | None:
        """The address of the database, without passwords; None in memory and in a folder."""
        return self._backend.address

    @property
    def writable(self) -> bool:
        """Whether this process may change the index; a database may still refuse."""
        return self._backend.writable

    @property
    def closed(self) -> bool:
        """Whether the index was closed."""
        return self._backend.closed

    def close(self) -> None:
        """Close the index and release its lock, so that another process may write. An index in memory is lost."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refresh(self) -> bool:
        """Load the changes that another process made to the folder; return whether there were any."""
        return self._open_backend().refresh()

    def verify(self) -> None:
        """Check all stored data; raise `StorageError` if any is damaged."""
        self._open_backend().verify()

    def drop(self) -> None:
        """Close the index and delete its tables, if it is in a database. A folder is not deleted."""
        self._open_backend().drop()

    # Changing

    def add(
        self,
        ids: Sequence[str],
        codes: Mapping[str, npt.NDArray[np.uint8]],
        *,
        learned: Any = False,
        metadata: Sequence[Mapping[str, Any] | None] | None = None,
        present: Mapping[str, Mask] | None = None,
    ) -> None:
        """Append items: all of them or, if one is invalid, none.

        Parameters
        ----------
        ids : sequence of str
            New, distinct and not empty.
        codes : dict of arrays of uint8, shape (n, ceil(n_bits / 8))
            Packed codes by modality. A modality that is not given is absent for all items.
        learned : bool, array of bool, or dict of these by modality
            Whether codes are learned; hashed by default.
        metadata : sequence of dict or None, optional
        present : dict of arrays of bool, optional
            Which items have a code in each modality; all by default. Every item needs a code in at least one.
        """
        segment = make_segment(
            self.n_bits, self.modalities, ids, codes, learned, metadata, present, texts=self._backend.texts
        )
        self._open_backend().write(segment, replace=False)

    def put(self, ids: Sequence[str], codes: Mapping[str, npt.NDArray[np.uint8]], **options: Any) -> None:
        """Add items, replacing those with the same ids. Parameters as in `add`.

        Codes, states and metadata of an item are all replaced. The item counts as newly added: it moves to the end.
        """
        segment = make_segment(self.n_bits, self.modalities, ids, codes, **options, texts=self._backend.texts)
        self._open_backend().write(segment, replace=True)

    def remove(self, ids: Sequence[str]) -> None:
        """Remove items: all of them or, if an id is not in the index, none."""
        self._open_backend().remove(check_ids(ids))

    def compact(self) -> None:
        """Rewrite all items as one segment, without removed rows, to speed up searches.

        Changes also merge segments, gradually and as needed. Has no effect in a database.
        """
        self._open_backend().compact()

    # Searching

    def search(
        self,
        modality: str,
        queries: Array,
        k: int = 10,
        *,
        ranking: Ranking = "hamming",
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        shortlist: int | None = None,
        n_jobs: int | None = None,
    ) -> Hits:
        """Find the ``k`` nearest items to each query by their codes in a modality.

        Parameters
        ----------
        modality : str
            The modality whose codes are searched.
        queries : array of uint8, shape (n, ceil(n_bits / 8)), or of float, shape (n, n_bits) or (n, bytes, 256)
            Packed codes; projections, the real values whose signs are the code; or score tables
            (`DLFH.score_tables`), for a modality that stores label probabilities (`DLFH.quantize_probabilities`). A
            single code or projection may be one-dimensional.
        k : int
            Number of items to find for each query; all items, if the index has fewer.
        ranking : {"hamming", "asymmetric"}
            By Hamming distance or, for projections z, by the sum of ``|z_j|`` over the bits in which a code differs
            from the sign of z. The latter is the order of decreasing inner products. Score tables always rank
            items by decreasing score, the sum of ``table[b, byte b of the item]`` over all bytes b.
        ids : sequence of str, optional
            Search only these items.
        where : dict, optional
            Search only the items that match this filter; see `matches`.
        shortlist : int, optional
            For asymmetric ranking: number of items to rank, the nearest by Hamming distance. By default all items
            are ranked; in a database, ``max(5 * k, 200)``.
        n_jobs : int, optional
            Number of threads; all cores by default.

        Returns
        -------
        Hits
            Nearest items first; items at the same distance in the order in which they were added.
        """
        reader, column = self._backend.reader(), self._column(modality)
        k = check_integer(k, "k", 1)
        check_choice(ranking, "ranking", ("hamming", "asymmetric"))
        if shortlist is not None:
            shortlist = check_integer(shortlist, "shortlist", k)
        values = check_queries(queries, self.n_bits)
        if values.ndim == 3:
            if shortlist is not None:
                raise InputError("shortlist applies only to projections: score tables rank all items")
        elif ranking == "hamming":
            values = as_codes(values)
        elif values.dtype == np.uint8:
            raise InputError(f"ranking {ranking!r} needs queries as projections (float), got packed codes")
        return reader.nearest(Request(column, values, *_scope(reader, ids, where), shortlist, n_jobs), k)

    def search_radius(
        self,
        modality: str,
        queries: Array,
        radius: int,
        *,
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> list[Hits]:
        """Find all items within a Hamming distance of each query; return one `Hits` with one row per query.

        Parameters
        ----------
        radius : int
            The largest Hamming distance, at least 0.
        modality, queries, ids, where, n_jobs
            As in `search`.
        """
        reader, column = self._backend.reader(), self._column(modality)
        radius = min(check_integer(radius, "radius", 0), self.n_bits)
        codes = as_codes(check_queries(queries, self.n_bits))
        return reader.within(Request(column, codes, *_scope(reader, ids, where), n_jobs=n_jobs), radius)

    # Items

    def get(self, identifier: str) -> Item:
        """Return the item with the given id."""
        reader = self._backend.reader()
        for _, item in reader.items(reader.find(check_ids([identifier])).tolist()):
            return item
        raise InputError(f"id {identifier!r} is not in the index")

    def items(self, positions: Sequence[int] | None = None) -> Iterator[Item]:
        """Yield the items at the given positions (`Hits.positions`), or all items in the order they were added."""
        reader = self._backend.reader()
        if positions is None:
            yield from (item for _, item in reader.items(None))
            return
        values = as_array(positions, "positions")
        if values.ndim != 1 or (values.size and values.dtype.kind not in "iu"):
            raise InputError(f"positions must be a list of integers, got {shown(positions)}")
        places = values.tolist()
        for position, (at, item) in itertools.zip_longest(places, reader.items(places), fillvalue=(None, None)):
            if at != position or item is None:
                raise InputError(f"positions must refer to items in the index, got {position}")
            yield item

    def ids(self) -> list[str]:
        """Return all ids, in the order in which items were added."""
        return self._backend.reader().ids()

    def contains(self, ids: Sequence[str]) -> Mask:
        """Return which of the given ids are in the index."""
        return self._backend.reader().find(check_ids(ids)) >= 0

    def count(self, modality: str, state: str | None = None) -> int:
        """Return the number of items with a code in a modality, or with the given state there."""
        states = (LEARNED, HASHED) if state is None else (STATES.index(check_choice(state, "state", STATES)),)
        return self._backend.reader().count(self._column(modality), states)

    def matches(self, where: Mapping[str, Any]) -> Mask:
        """Return a boolean mask of the items that match a filter, in the order in which they were added.

        Parameters
        ----------
        where : dict
            Metadata names, each with the value that an item must have: one value, a list of alternatives, ``None`` for
            no value, or a dict of operators (``<``, ``<=``, ``>``, ``>=``, ``=``, ``!=``, ``in``, ``not in``, and
            ``all`` for a list of values that an item must all have). An item must meet all conditions; ``"and"``,
            ``"or"`` and ``"not"`` combine filters.

        Examples
        --------
        >>> index = Index(n_bits=8, modalities=["image"])
        >>> animals = [{"legs": 4, "tags": ["pet", "loud"]}, {"legs": 0}, None]
        >>> index.add(["dog", "fish", "?"], {"image": np.zeros((3, 1), np.uint8)}, metadata=animals)
        >>> index.matches({"legs": {"<": 4}})
        array([False,  True, False])
        >>> index.matches({"or": [{"tags": "pet"}, {"legs": None}]})
        array([ True, False,  True])
        """
        return self._backend.reader().matches(parse_where(where), None)

    def __len__(self) -> int:
        return len(self._backend.reader())

    def __contains__(self, identifier: object) -> bool:
        reader = self._backend.reader()
        try:
            return bool(reader.find(check_ids([identifier]))[0] >= 0)
        except InputError:  # not a valid id
            return False

    def __repr__(self) -> str:
        place = f"in {self.folder}" if self.folder else f"at {self.address}" if self.address else "in memory"
        parts = [f"{self.n_bits} bits", *self.modalities, place]
        if self.closed:
            parts.insert(0, "closed")
        elif self.address is None:  # in a database, counting would take a query
            parts.insert(0, f"{len(self):,} items")
        return f"Index({', '.join(parts)})"

    # For the packages built on the index; not part of the documented interface

    @property
    def identity(self) -> str | None:
        """An identifier drawn when the index was created; None in memory."""
        return self._backend.identity

    @property
    def state(self) -> str | None:
        """A globally unique identifier of the current content; None in memory."""
        return self._backend.state

    def newer(self) -> Self | None:
        """Return a reader of the current state that shares unchanged segments with this one; None in a database."""
        if not isinstance(self._backend, LocalBackend) or self.folder is None:
            return None
        return type(self).__new__(type(self))._use(self._backend.newer())

    @property
    def words(self) -> WordIndex | None:
        """The word index of the metadata that `create` got as ``texts``; None if there is none."""
        reader = self._backend.reader()
        return reader.words if isinstance(reader, Snapshot) and reader.texts else None

    def existing_items(self, positions: Sequence[int]) -> list[tuple[int, Item]]:
        """Return the given positions and their items, without items that another process has removed."""
        return list(self._backend.reader().items(positions))

    def positions(self, ids: Sequence[str] | None = None) -> Integers:
        """Return the positions of the given ids, or of all items, as `Reader` defines them."""
        reader = self._backend.reader()
        return reader.positions() if ids is None else _find(reader, ids)

    def states(self, modality: str) -> tuple[Mask, Mask]:
        """Return two masks: of the items with a code in a modality, and of the items with a learned code there."""
        states = self._backend.reader().states(self._column(modality))
        return states != ABSENT, states == LEARNED

    def first_matching(
        self,
        positions: Sequence[int],
        n: int,
        *,
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
    ) -> list[int]:
        """Return the first ``n`` of the given positions whose items are among ``ids`` and match ``where``."""
        if ids is not None:
            allowed = {*self.positions(ids).tolist()}
            positions = [position for position in positions if position in allowed]
        if where is None:
            return [*positions[:n]]
        condition, size, found = parse_where(where), max(n, _FILTER_BATCH), list[int]()
        for start in range(0, len(positions), size):
            batch = positions[start : start + size]
            found += itertools.compress(batch, self._backend.reader().matches(condition, batch).tolist())
            if len(found) >= n:
                break
        return found[:n]

    def distances(self, modality: str, queries: Array) -> Floats:
        """Return the distances of all items from each query, shape (n_queries, n_items); infinity without a code.

        Codes give Hamming distances, projections weighted ones, and score tables negated scores. Not for databases.
        """
        tables = Tables.of(check_queries(queries, self.n_bits))
        return self.snapshot.distances_at((self._column(modality),), tables, self.snapshot.positions())

    @property
    def snapshot(self) -> Snapshot:
        """The current items, unless they are in a database."""
        reader = self._backend.reader()
        assert isinstance(reader, Snapshot)
        return reader

    def _open_backend(self) -> Backend:
        self._backend.check_open()
        return self._backend

    def _column(self, modality: str) -> int:
        if modality not in self.modalities:
            raise InputError(f"the index has the modalities {list(self.modalities)}, got {shown(modality)}")
        return self.modalities.index(modality)


def _find(reader: Reader, ids: Sequence[str]) -> Integers:
    names = check_ids(ids)
    positions = reader.find(names)
    check_known(names, positions >= 0)
    return positions


def _scope(
    reader: Reader, ids: Sequence[str] | None, where: Mapping[str, Any] | None
) -> tuple[Integers | None, Where | None]:
    return None if ids is None else np.unique(_find(reader, ids)), None if where is None else parse_where(where)
