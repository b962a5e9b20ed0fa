"""The index: items with ids, metadata and codes, in memory or in a folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlfh._validation import check_choice, check_integer
from dlfh.errors import InputError, StorageError
from dlfh.index import changes as changes
from dlfh.index import nearest as nearest
from dlfh.index.batch import MOST_BITS, as_codes, check_ids, check_queries, check_schema, make_segment
from dlfh.index.hits import Hits
from dlfh.index.items import Item, read_item, read_items
from dlfh.index.segment import ABSENT, LEARNED, STATES
from dlfh.index.snapshot import Column, Part, Snapshot
from dlfh.index.store import Store
from dlfh.index.strings import Strings
from dlfh.index.where import parse_where

__all__ = ["Index"]

Ranking = Literal["hamming", "asymmetric"]
Parts = tuple[Part, ...]


class Index:
    """Items that are found by their codes.

    An item has an id (a string), metadata (a dict that JSON can hold, or None), and a packed code in one or
    several named modalities. In each modality its code is ``"learned"`` (it was in the training set),
    ``"hashed"`` (by the hash function, as everything new is), or ``"absent"``.

    ``Index(...)`` is in memory. `Index.create` makes one in a folder, and `Index.open` opens it: for reading,
    by as many processes as you like, or for writing, by one at a time. Every change is made whole or not at
    all, also if the process is killed. Searching from several threads is fine.

    Parameters
    ----------
    n_bits : int
        Code length, from 1.
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
        self.n_bits = check_integer(n_bits, "n_bits", 1, MOST_BITS)
        self.modalities = check_schema(modalities)
        self._store: Store | None = None
        self._writing = threading.RLock()
        self._snapshot: Snapshot | None = None
        self._set_parts(())

    # Opening and closing

    @classmethod
    def create(cls, folder: str | os.PathLike[str], n_bits: int, modalities: Sequence[str]) -> Index:
        """Make a new, empty index in a folder and open it for writing.

        The folder must be new, or empty.

        Examples
        --------
        >>> import tempfile
        >>> with Index.create(tempfile.mkdtemp(), n_bits=64, modalities=["image"]) as index:
        ...     len(index)
        0
        """
        index = cls(n_bits, modalities)
        index._store = Store.create(Path(folder), index.n_bits, index.modalities)
        return index

    @classmethod
    def open(cls, folder: str | os.PathLike[str], *, writable: bool = False, verify: bool = True) -> Index:
        """Open the index in a folder, for reading or for writing.

        Large files are mapped into memory, not read. A reader sees the index as it was when it was opened, until
        `refresh`. A second writer is refused.

        Parameters
        ----------
        folder : path
        writable : bool
            Whether to open it for writing.
        verify : bool
            Whether to check codes and ids against their checksums (a few milliseconds per million codes).
            Metadata are checked whenever an item's are read.

        Examples
        --------
        >>> import tempfile
        >>> folder = tempfile.mkdtemp()
        >>> Index.create(folder, n_bits=64, modalities=["image"]).close()
        >>> with Index.open(folder) as index:
        ...     index.modalities
        ('image',)
        """
        store = Store.open(Path(folder), writable=writable, verify=verify)
        index = cls(store.n_bits, store.modalities)
        index._store = store
        index._set_parts(store.parts)
        return index

    @property
    def folder(self) -> Path | None:
        """Where the index is; None if in memory."""
        return None if self._store is None else self._store.folder

    @property
    def identity(self) -> str | None:
        """What tells the index in a folder from all others, from the day it was made; None if in memory."""
        return None if self._store is None else self._store.identity

    @property
    def state(self) -> str | None:
        """What tells the items that are there now from all others that there were or will be; None if in memory.

        Other indexes have other states, and so has a backup that was restored and then changed.
        """
        return None if self._store is None else self._store.state

    @property
    def writable(self) -> bool:
        """Whether this process may change it."""
        return self._snapshot is not None and (self._store is None or self._store.is_mine)

    def positions(self, ids: Sequence[str]) -> npt.NDArray[np.int64]:
        """Return the places of items in `ids`, by their ids."""
        return self._positions(self._current(), Strings.of(check_ids(ids)))

    def places(self) -> npt.NDArray[np.int64]:
        """Return the positions of all items: 0, 1, 2, ..., and what numbers an engine has."""
        return np.arange(len(self._current()))

    def close(self) -> None:
        """Let go of the folder, so that another process may write. An index in memory is gone."""
        with self._writing:
            if self._store is not None:
                self._store.close()
            self._snapshot = None

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def refresh(self) -> bool:
        """Take the newest state of the folder, if another process changed it; return whether it did."""
        with self._writing:
            self._current()
            if self._store is None or self._store.writable or not self._store.refresh():
                return False
            self._set_parts(self._store.parts)
            return True

    def verify(self) -> None:
        """Check every byte that the folder holds now; raise `StorageError` if something is damaged."""
        with self._writing:
            self._current()
            if self._store is not None:
                self._store.verify()

    # Changing

    def add(
        self,
        ids: Sequence[str],
        codes: dict[str, npt.NDArray[np.uint8]],
        *,
        learned: Any = False,
        metadata: Sequence[dict[str, Any] | None] | None = None,
        present: dict[str, npt.NDArray[np.bool_]] | None = None,
    ) -> None:
        """Add items at the end: all, or none if anything is wrong with one.

        Parameters
        ----------
        ids : sequence of str
            New, distinct and not empty.
        codes : dict of arrays of uint8, shape (n, ceil(n_bits / 8))
            Packed codes by modality. A modality that is left out is absent for all.
        learned : bool, array of bool, or dict of these by modality
            Whether codes are learned; hashed by default.
        metadata : sequence of dict or None, optional
        present : dict of arrays of bool, optional
            By modality, which items have a code there; all by default. Every item must have one somewhere.
        """
        segment = make_segment(ids, codes, learned, metadata, present, self.n_bits, self.modalities)
        with self._writing:
            snapshot = self._writable()
            known = snapshot.find(segment.ids)
            if (known >= 0).any():
                raise InputError(
                    f"id {segment.ids[int(np.argmax(known >= 0))].decode()!r} is already in the index: use update"
                )
            if len(segment):
                self._commit(changes.append(snapshot.parts, segment, self.n_bits))

    def remove(self, ids: Sequence[str]) -> None:
        """Remove items: all, or none if one is not there."""
        wanted = Strings.of(check_ids(ids))
        with self._writing:
            snapshot = self._writable()
            self._commit(changes.remove(snapshot.parts, self._rows(snapshot, wanted), self.n_bits))

    def update(
        self,
        ids: Sequence[str],
        codes: dict[str, npt.NDArray[np.uint8]],
        *,
        learned: Any = False,
        metadata: Sequence[dict[str, Any] | None] | None = None,
        present: dict[str, npt.NDArray[np.bool_]] | None = None,
    ) -> None:
        """Replace items by new ones with the same ids, in one step. Parameters are those of `add`.

        Codes, states and metadata are all replaced, and the items count as newly added: they go last.
        """
        segment = make_segment(ids, codes, learned, metadata, present, self.n_bits, self.modalities)
        with self._writing:
            snapshot = self._writable()
            left = changes.remove(snapshot.parts, self._rows(snapshot, segment.ids), self.n_bits)
            if len(segment):
                self._commit(changes.append(left, segment, self.n_bits))

    def put(
        self,
        ids: Sequence[str],
        codes: dict[str, npt.NDArray[np.uint8]],
        *,
        learned: Any = False,
        metadata: Sequence[dict[str, Any] | None] | None = None,
        present: dict[str, npt.NDArray[np.bool_]] | None = None,
    ) -> None:
        """Add items, or replace those that are there, in one step. Parameters are those of `add`."""
        segment = make_segment(ids, codes, learned, metadata, present, self.n_bits, self.modalities)
        with self._writing:
            snapshot = self._writable()
            known = [rows[rows >= 0] for rows in snapshot.find_rows(segment.ids)]
            if len(segment):
                left = changes.remove(snapshot.parts, known, self.n_bits)
                self._commit(changes.append(left, segment, self.n_bits))

    def compact(self) -> None:
        """Write everything anew as one segment, without what was removed.

        Searches then run straight from the mapped file. Changes do this in part, as needed.
        """
        with self._writing:
            self._commit(changes.compact(self._writable().parts, self.n_bits))

    # Asking

    def search(
        self,
        modality: str,
        queries: npt.NDArray[Any],
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
        queries : array of uint8, shape (n, ceil(n_bits / 8)), or of float, shape (n, n_bits)
            Packed codes, or projections: the real values whose signs are the code. One query may be given
            as a single row.
        k : int
            How many items; all that there are, if there are fewer.
        ranking : {"hamming", "asymmetric"}
            By Hamming distance; or, for projections z, by the sum of ``|z_j|`` over the bits in which a code
            differs from the sign of z. The latter is the order of decreasing inner products.
        ids : sequence of str, optional
            Search these items only.
        where : dict, optional
            Search among items of which this filter holds, as `matches` takes it.
        shortlist : int, optional
            For asymmetric ranking: rank only this many items, the nearest by Hamming distance. All items are
            ranked by default. A shortlist of ``max(5 * k, 200)`` finds nearly the same items in less time.
        n_jobs : int, optional
            Number of threads; all cores by default.

        Returns
        -------
        Hits
            The nearest first, equally near items in the order in which they were added.
        """
        k = check_integer(k, "k", 1)
        check_choice(ranking, "ranking", ("hamming", "asymmetric"))
        if shortlist is not None:
            check_integer(shortlist, "shortlist", k)
        asked = check_queries(queries, self.n_bits)
        if ranking != "hamming" and asked.dtype == np.uint8:
            raise InputError(f"ranking {ranking!r} needs queries as projections (float), got packed codes")
        snapshot, column = self._search_space(modality, ids, where)
        if ranking == "hamming":
            distances, rows = nearest.nearest_by_hamming(as_codes(asked), column.codes, k, n_jobs)
        elif shortlist is None:
            distances, rows = nearest.nearest_by_weight(asked, column.words, k, n_jobs)
        else:
            _, rows = nearest.nearest_by_hamming(as_codes(asked), column.codes, shortlist, n_jobs)
            distances, rows = nearest.rerank(asked, column.words, rows, k, n_jobs)
        return Hits(distances, column.positions_of(rows), column.learned[rows], snapshot)

    def search_radius(
        self,
        modality: str,
        queries: npt.NDArray[Any],
        radius: int,
        *,
        ids: Sequence[str] | None = None,
        where: Mapping[str, Any] | None = None,
        n_jobs: int | None = None,
    ) -> list[Hits]:
        """Find all items within a Hamming distance of each query; one `Hits` of one row per query.

        Parameters
        ----------
        modality : str
        queries : array of uint8 or float
            As in `search`.
        radius : int
            The largest distance, from 0.
        ids : sequence of str, optional
            Search these items only.
        where : dict, optional
            Search among items of which this filter holds, as `matches` takes it.
        n_jobs : int, optional
            Number of threads; all cores by default.
        """
        radius = check_integer(radius, "radius", 0)
        codes = as_codes(check_queries(queries, self.n_bits))
        snapshot, column = self._search_space(modality, ids, where)
        return [
            Hits(distances[None], column.positions_of(rows)[None], column.learned[rows][None], snapshot)
            for distances, rows in nearest.within(codes, column.words, min(radius, self.n_bits), n_jobs)
        ]

    def distances(
        self, modality: str, queries: npt.NDArray[Any], positions: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.float64]:
        """Return how far items are from each query; infinity for items without a code there.

        What `search` ranks by, for those who rank by more than one modality.

        Parameters
        ----------
        modality : str
        queries : array of uint8 or float
            As in `search`: Hamming distances from codes, weighted ones from projections.
        positions : array of int64, optional
            The items' places in `ids`; by default all, in that order.

        Returns
        -------
        ndarray of float64, shape (n_queries, n_items)

        Examples
        --------
        >>> index = Index(n_bits=4, modalities=["image", "text"])
        >>> codes = np.array([[0b11000000], [0]], np.uint8)
        >>> index.add(["a", "b"], {"image": codes, "text": codes}, present={"text": np.array([True, False])})
        >>> index.distances("text", np.array([[0b01000000]], np.uint8))
        array([[ 1., inf]])
        """
        asked = check_queries(queries, self.n_bits)
        snapshot, column = self._search_space(modality)
        n_items = len(snapshot)
        if positions is None:
            rows, codes_by_byte = column.positions, column.by_byte
        else:
            n_items = len(positions)
            rows, codes_by_byte = column.find(positions)
        distances = nearest.distances_to_all(asked, codes_by_byte)
        if rows is None:
            return distances
        spread = np.full((len(asked), n_items), np.inf)
        spread[:, rows] = distances
        return spread

    def get(self, identifier: str) -> Item:
        """Return an item by its id."""
        snapshot = self._current()
        (position,) = self._positions(snapshot, Strings.of(check_ids([identifier])))
        return read_item(*snapshot.locate(int(position)), self.modalities)

    def items(self, positions: Sequence[int] | None = None) -> Iterator[Item]:
        """Yield items by their positions (`Hits.positions`), or all in the order in which they were added."""
        snapshot = self._current()
        wanted = np.arange(len(snapshot)) if positions is None else np.asarray(positions, np.int64)
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < len(snapshot):
            raise InputError(f"positions must be from 0 to {len(snapshot) - 1}, got {wanted.min()} to {wanted.max()}")
        for segment, rows in snapshot.locate_runs(wanted):
            yield from read_items(segment, rows, self.modalities)

    def contains(self, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return which of many ids are in the index."""
        return self._current().find(Strings.of(check_ids(ids))) >= 0

    def ids(self) -> list[str]:
        """Return all ids, in the order in which items were added."""
        snapshot = self._current()
        return snapshot.ids_at(np.arange(len(snapshot)))

    def codes(self, modality: str) -> tuple[list[str], npt.NDArray[np.uint8]]:
        """Return the ids of the items that have a code in a modality, and their codes."""
        snapshot, column = self._search_space(modality)
        return snapshot.ids_at(column.positions_of(np.arange(len(column)))), column.codes

    def states(self, modality: str) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return, in the order of items, which have a code in a modality, and of which it is learned."""
        states = self._current().states_of(self._modality(modality))
        return states != ABSENT, states == LEARNED

    def matches(self, where: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
        """Return, in the order of items, of which a filter of their metadata holds.

        Parameters
        ----------
        where : dict
            Names, and the values that items must have there: one value, a list of which one must be there, ``None`` for
            none at all, or a dict of operators (``<``, ``<=``, ``>``, ``>=``, ``=``, ``!=``, ``in``, ``not in``). All
            must hold; ``"and"``, ``"or"`` and ``"not"`` combine such dicts.

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
        return self._current().mask(parse_where(where))

    def count(self, modality: str, state: str | None = None) -> int:
        """Return how many items have a code in a modality, or are in a state there."""
        states = self._current().states_of(self._modality(modality))
        if state is None:
            return int(np.count_nonzero(states != ABSENT))
        return int(np.count_nonzero(states == STATES.index(check_choice(state, "state", STATES))))

    def __len__(self) -> int:
        return len(self._current())

    def __contains__(self, identifier: object) -> bool:
        snapshot = self._current()
        try:
            wanted = Strings.of(check_ids([identifier]))
        except InputError:  # what cannot be an id is not there
            return False
        return bool(snapshot.find(wanted)[0] >= 0)

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._snapshot is None

    def __repr__(self) -> str:
        where = "in memory" if self._store is None else f"in {self._store.folder}"
        size = "closed" if self._snapshot is None else f"{len(self._snapshot):,} items"
        return f"Index({size}, {self.n_bits} bits, {', '.join(self.modalities)}, {where})"

    # Inside

    def _set_parts(self, parts: Parts) -> None:
        self._snapshot = Snapshot(parts, self.n_bits, len(self.modalities))

    def _current(self) -> Snapshot:
        if self._snapshot is None:
            raise StorageError("the index is closed")
        return self._snapshot

    def _writable(self) -> Snapshot:
        snapshot = self._current()
        if self._store is not None:
            self._store.check_writable()
        return snapshot

    def _commit(self, parts: Parts) -> None:
        if self._store is None:
            self._set_parts(parts)
            return
        try:
            self._store.commit(parts)
        finally:  # whatever happened, the folder says what is there now
            self._set_parts(self._store.parts)

    @staticmethod
    def _positions(snapshot: Snapshot, wanted: Strings) -> npt.NDArray[np.int64]:
        positions = snapshot.find(wanted)
        if (positions < 0).any():
            raise InputError(f"id {wanted[int(np.argmax(positions < 0))].decode()!r} is not in the index")
        return positions

    def _rows(self, snapshot: Snapshot, wanted: Strings) -> list[npt.NDArray[np.int64]]:
        self._positions(snapshot, wanted)
        return [rows[rows >= 0] for rows in snapshot.find_rows(wanted)]

    def _modality(self, modality: str) -> int:
        if modality not in self.modalities:
            raise InputError(f"the index has the modalities {list(self.modalities)}, got {modality!r}")
        return self.modalities.index(modality)

    def _search_space(
        self, modality: str, ids: Sequence[str] | None = None, where: Mapping[str, Any] | None = None
    ) -> tuple[Snapshot, Column]:
        snapshot = self._current()
        column = snapshot.column(self._modality(modality))
        if ids is not None:
            column = column.select(self._positions(snapshot, Strings.of(check_ids(ids))))
        if where is not None:
            column = column.within(snapshot.mask(parse_where(where)))
        return snapshot, column
