"""Approximate search: faster than exact search, with measured recall."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Array
from dlfh._validation import check_integer, check_random_state
from dlfh.errors import InputError
from dlfh.index.batch import as_codes, check_packed, check_queries
from dlfh.index.hits import Hits
from dlfh.index.index import Index
from dlfh.index.where import parse_where

#: Number of items that are used as queries to measure recall, if no queries are given.
_SAMPLE = 200


class ApproximateSearch:
    """Approximate search in one modality of an index.

    For an index in memory or in a folder, faiss builds a structure in memory from the codes. It is never read from a
    file and does not follow later changes. In PostgreSQL, pgvector builds an index of the table, which the database
    keeps up to date. DuckDB and Milvus have none.

    Parameters
    ----------
    index : Index
    modality : str
    kind : {"ivf", "multihash", "hnsw"}
        Inverted lists around centroids (options ``n_lists``, ``n_probe``), hash tables of parts of the code
        (``n_tables``, ``bits``, ``n_flips``; not in PostgreSQL), or a neighbourhood graph (``n_links``,
        ``build_breadth``, ``breadth``). Larger ``n_probe``, ``n_flips`` and ``breadth`` find more and take longer.
    k : int
        Number of neighbours for which recall is measured.
    queries : array of uint8, shape (n, ceil(n_bits / 8)), optional
        Queries to measure recall with, ideally those of users. By default, 200 random items of the index.
    random_state : int, optional
        Random seed of this choice.
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
        queries: npt.NDArray[np.uint8] | None = None,
        random_state: int | None = None,
        n_jobs: int | None = None,
        **options: int,
    ) -> None:
        k = check_integer(k, "k", 1)
        rng = check_random_state(random_state)
        self.kind = kind
        self._n_bits = index.n_bits
        if not index.count(modality):
            raise InputError(f"no item has a code in modality {modality!r}: there is nothing to search")
        self._structure = index._open_backend().approximate(index._column(modality), kind, options, n_jobs)
        self.options_ = dict(self._structure.options)
        if queries is None:
            queries = self._structure.sample(_SAMPLE, rng)
        self.recall_ = self._measure_recall(index, modality, check_packed(queries, index.n_bits, "queries"), k)

    def _measure_recall(self, index: Index, modality: str, queries: npt.NDArray[np.uint8], k: int) -> float:
        exact, found = index.search(modality, queries, k).distances, self.search(queries, k).distances
        return float((found <= exact[:, -1:]).sum() / exact.size) if len(queries) else math.nan

    def search(
        self, queries: Array, k: int = 10, *, where: Mapping[str, Any] | None = None, n_jobs: int | None = None
    ) -> Hits:
        """Find approximately the ``k`` nearest items to each query by Hamming distance.

        Distances are exact and ordered as in `Index.search`, but some of the nearest items may be missing. faiss
        answers exactly where it finds fewer than ``k`` items, and where a filter is given (``where``).
        """
        codes = as_codes(check_queries(queries, self._n_bits))
        condition = None if where is None else parse_where(where)
        return self._structure.search(codes, check_integer(k, "k", 1), condition, n_jobs)

    def __repr__(self) -> str:
        return f"ApproximateSearch({self.kind!r}, {len(self._structure):,} items, recall {self.recall_:.3f})"
