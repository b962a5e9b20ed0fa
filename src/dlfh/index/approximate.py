"""Approximate search: faster than exact search, with measured recall."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

from dlfh._arrays import Array, Codes
from dlfh._parallel import Workers, resolve_n_jobs
from dlfh._validation import check_choice, check_integer, check_random_state
from dlfh.errors import InputError
from dlfh.index import nearest
from dlfh.index.backend import check_options, list_defaults
from dlfh.index.index import Index
from dlfh.index.items import Hits
from dlfh.index.local import Snapshot
from dlfh.index.nearest import Column, Neighbours
from dlfh.index.where import Where, parse_where

Options = dict[str, int]
#: Inverted lists around centroids, hash tables of parts of the code, or a neighbourhood graph.
KINDS = ("ivf", "multihash", "hnsw")
_SAMPLE = 200  # number of items that are used as queries to measure recall, if no queries are given


class ApproximateSearch:
    """Approximate search in one modality of an index.

    For an index in memory or in a folder, faiss builds a structure in memory from the codes. It is never read from a
    file and does not follow later changes. In PostgreSQL, pgvector builds an index of the table, which the database
    keeps up to date. DuckDB and Milvus are not supported.

    Parameters
    ----------
    index : Index
    modality : str
    kind : {"ivf", "multihash", "hnsw"}
        Inverted lists around centroids (options ``n_lists``, ``n_probe``), hash tables of parts of the code
        (``n_tables``, ``bits``, ``n_flips``; not in PostgreSQL), or a neighbourhood graph (``n_links``,
        ``build_breadth``, ``breadth``). Larger ``n_probe``, ``n_flips`` and ``breadth`` increase recall and time.
    k : int
        Number of neighbours for which recall is measured.
    queries : array of uint8, shape (n, ceil(n_bits / 8)), optional
        Queries to measure recall with, ideally real ones. By default, 200 random items of the index.
    random_state : int, optional
        Random seed of this sample.
    n_jobs : int, optional
        Number of threads; all cores by default.
    **options : int
        Options of the kind.

    Attributes
    ----------
    recall_ : float
        Share of the k nearest items that were found. An item at the same distance as the k-th nearest counts as
        found.
    options_ : dict of int
        Options, with the defaults filled in.

    Examples
    --------
    >>> from dlfh.codes import random_codes
    >>> index = Index(n_bits=64, modalities=["image"])
    >>> index.add([f"item {i}" for i in range(1000)], {"image": random_codes(np.random.default_rng(0), 1000, 64)})
    >>> fast = ApproximateSearch(index, "image", kind="ivf", n_lists=10, n_probe=5, random_state=0)
    >>> 0.5 < fast.recall_ <= 1
    True
    >>> fast.search(index.get("item 7").codes["image"], k=1).ids
    [['item 7']]
    """

    def __init__(
        self,
        index: Index,
        modality: str,
        kind: Literal["ivf", "multihash", "hnsw"] = "ivf",
        *,
        k: int = 10,
        queries: Codes | None = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
        **options: int,
    ) -> None:
        k, rng = check_integer(k, "k", 1), check_random_state(random_state)
        self.kind, self._n_bits = kind, index.n_bits
        if not index.count(modality):
            raise InputError(f"no item has a code in modality {modality!r}: there is nothing to search")
        self._structure = index._backend.reader().approximate(index._column(modality), kind, options, n_jobs)
        self.options_ = dict(self._structure.options)
        if queries is None:
            queries = self._structure.sample(_SAMPLE, rng)
        queries = nearest.check_packed(queries, index.n_bits, "queries")
        exact, found = index.search(modality, queries, k).distances, self.search(queries, k).distances
        self.recall_ = float((found <= exact[:, -1:]).sum() / exact.size) if len(queries) else math.nan

    def search(
        self, queries: Array, k: int = 10, *, where: Mapping[str, Any] | None = None, n_jobs: int | None = None
    ) -> Hits:
        """Find approximately the ``k`` nearest items to each query by Hamming distance.

        Distances are exact and ordered as in `Index.search`, but some of the nearest items may be missing. With
        faiss, the search is exact if ``where`` is given or fewer than ``k`` items are found.
        """
        codes = nearest.as_codes(nearest.check_queries(queries, self._n_bits))
        condition = None if where is None else parse_where(where)
        return self._structure.search(codes, check_integer(k, "k", 1), condition, n_jobs)

    def __repr__(self) -> str:
        return f"ApproximateSearch({self.kind!r}, {len(self._structure):,} items, recall {self.recall_:.3f})"


class FaissIndex:
    """A faiss index, built in memory. Implements `ApproximateIndex`."""

    def __init__(self, snapshot: Snapshot, column: Column, kind: str, options: Options, n_jobs: int | None) -> None:
        check_choice(kind, "kind", KINDS)
        self._snapshot, self._column = snapshot, column
        codes = np.ascontiguousarray(column.codes)
        n_bits = 8 * codes.shape[1]
        self.options = check_options(kind, options, _defaults(kind, len(codes), n_bits))
        with nearest.faiss_threads(resolve_n_jobs(n_jobs)):
            self._faiss = _structure(nearest.import_faiss(), kind, len(codes), n_bits, self.options)
            self._faiss.train(codes)
            self._faiss.add(codes)

    def __len__(self) -> int:
        return len(self._column)

    def sample(self, n: int, rng: np.random.Generator) -> Codes:
        return self._column.codes[rng.choice(len(self), min(n, len(self)), replace=False)]

    def search(self, codes: Codes, k: int, where: Where | None, n_jobs: int | None) -> Hits:
        column = self._column
        if where is None:
            distances, rows = self._search(np.ascontiguousarray(codes), min(k, len(column)), n_jobs)
        else:  # faiss cannot filter
            column = column.within(self._snapshot.matches(where, None))
            distances, rows = nearest.nearest_by_hamming(codes, column.codes, k, n_jobs)
        return self._snapshot.hits(column, distances, rows)

    def _search(self, codes: Codes, k: int, n_jobs: int | None) -> Neighbours:
        distances, rows = np.empty((len(codes), k), np.int32), np.empty((len(codes), k), np.int64)

        def search(start: int, stop: int) -> None:
            with nearest.faiss_threads(1):
                distances[start:stop], rows[start:stop] = self._faiss.search(codes[start:stop], k)

        with Workers(n_jobs) as workers:
            workers.map_blocks(search, len(codes), workers.even_block(len(codes), 1e5))
        short = (rows < 0).any(axis=1)
        if short.any():
            distances[short], rows[short] = nearest.nearest_by_hamming(codes[short], self._column.codes, k, n_jobs)
        order = np.lexsort((rows, distances))
        return np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)


def _defaults(kind: str, n_items: int, n_bits: int) -> Options:
    if kind == "ivf":
        return list_defaults(n_items)
    if kind == "multihash":
        bits = max(1, min(n_bits, 30, n_items.bit_length() - 3))
        return {"n_tables": min(4, n_bits // bits), "bits": bits, "n_flips": 1}
    return {"n_links": 16, "build_breadth": 40, "breadth": 64}


def _structure(faiss: Any, kind: str, n_items: int, n_bits: int, options: Options) -> Any:
    if kind == "ivf":
        index = faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(n_bits), n_bits, min(options["n_lists"], n_items))
        index.cp.min_points_per_centroid = 1  # otherwise faiss prints a warning when items are few
        index.nprobe = options["n_probe"]
    elif kind == "multihash":
        if options["n_tables"] * options["bits"] > n_bits or options["bits"] > 62:
            raise InputError(f"n_tables * bits must be at most {n_bits} and bits at most 62, got {options}")
        index = faiss.IndexBinaryMultiHash(n_bits, options["n_tables"], options["bits"])
        index.nflip = options["n_flips"]
    else:
        index = faiss.IndexBinaryHNSW(n_bits, options["n_links"])
        index.hnsw.efConstruction = options["build_breadth"]
        index.hnsw.efSearch = options["breadth"]
    return index
