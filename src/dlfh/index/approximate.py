"""Approximate search, as an explicit choice: faster, and it says how much it misses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dlfh._parallel import Workers, resolve_n_jobs
from dlfh._validation import check_choice, check_integer, check_random_state
from dlfh.errors import InputError
from dlfh.index.batch import as_codes, check_codes_of, check_queries
from dlfh.index.hits import Hits
from dlfh.index.index import Index
from dlfh.index.nearest import Found, faiss_threads, import_faiss, nearest_by_hamming

__all__ = ["KINDS", "ApproximateSearch"]

Codes = npt.NDArray[np.uint8]
Options = dict[str, int]

#: Database items that serve as queries to measure recall, if none are given.
_SAMPLE = 200


class _Kind(NamedTuple):
    """A structure of faiss: its options, as they are by default for so many items and bits, and how to build it."""

    defaults: Callable[[int, int], Options]
    build: Callable[[Any, int, int, Options], Any]


def _ivf_defaults(n_items: int, n_bits: int) -> Options:
    n_lists = max(1, math.isqrt(n_items))
    return {"n_lists": n_lists, "n_probe": max(1, n_lists // 32)}


def _build_ivf(faiss: Any, n_bits: int, n_items: int, options: Options) -> Any:
    index = faiss.IndexBinaryIVF(faiss.IndexBinaryFlat(n_bits), n_bits, min(options["n_lists"], n_items))
    index.cp.min_points_per_centroid = 1  # few items are no reason for faiss to print a warning
    index.nprobe = options["n_probe"]
    return index


def _multihash_defaults(n_items: int, n_bits: int) -> Options:
    bits = max(1, min(n_bits, 30, n_items.bit_length() - 3))
    return {"n_tables": min(4, n_bits // bits), "bits": bits, "n_flips": 1}


def _build_multihash(faiss: Any, n_bits: int, n_items: int, options: Options) -> Any:
    if options["n_tables"] * options["bits"] > n_bits or options["bits"] > 62:
        raise InputError(f"n_tables * bits must be at most {n_bits} and bits at most 62, got {options}")
    index = faiss.IndexBinaryMultiHash(n_bits, options["n_tables"], options["bits"])
    index.nflip = options["n_flips"]
    return index


def _hnsw_defaults(n_items: int, n_bits: int) -> Options:
    return {"n_links": 16, "build_breadth": 40, "breadth": 64}


def _build_hnsw(faiss: Any, n_bits: int, n_items: int, options: Options) -> Any:
    index = faiss.IndexBinaryHNSW(n_bits, options["n_links"])
    index.hnsw.efConstruction = options["build_breadth"]
    index.hnsw.efSearch = options["breadth"]
    return index


#: What there is to choose from.
KINDS: dict[str, _Kind] = {
    "ivf": _Kind(_ivf_defaults, _build_ivf),
    "multihash": _Kind(_multihash_defaults, _build_multihash),
    "hnsw": _Kind(_hnsw_defaults, _build_hnsw),
}


class ApproximateSearch:
    """A faster search that may miss items, over one modality of an index as it is now.

    It is built in memory from the codes, never read from a file, and does not follow later changes. When it
    is built, its recall is measured against exact search.

    Parameters
    ----------
    index : Index
    modality : str
    kind : {"ivf", "multihash", "hnsw"}
        Inverted lists around centroids (options ``n_lists``, ``n_probe``), hash tables of parts of the code
        (``n_tables``, ``bits``, ``n_flips``), or a graph of neighbours (``n_links``, ``build_breadth``,
        ``breadth``). Larger ``n_probe``, ``n_flips`` and ``breadth`` find more and take longer.
    k : int
        How many items to find where recall is measured.
    queries : array of uint8, shape (n, ceil(n_bits / 8)), optional
        Queries to measure recall with: best, those that users ask. By default, 200 items of the index.
    random_state : int, optional
        Chooses these.
    n_jobs : int, optional
        Number of threads; all cores by default.
    **options : int
        Options of the kind.

    Attributes
    ----------
    recall_ : float
        The share of the k nearest items that it found. An item as near as the k-th nearest counts as found,
        whichever it is.
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
        check_choice(kind, "kind", tuple(KINDS))
        k = check_integer(k, "k", 1)
        rng = check_random_state(random_state)
        self.kind = kind
        self._n_bits = index.n_bits
        self._snapshot, self._column = index._search_space(modality)
        if not len(self._column):
            raise InputError(f"there is nothing to search: no item has a code in modality {modality!r}")
        codes = self._column.codes
        self.options_ = _check_options(kind, options, KINDS[kind].defaults(len(codes), 8 * codes.shape[1]))
        sample = codes[rng.choice(len(codes), min(_SAMPLE, len(codes)), replace=False)]
        asked = sample if queries is None else check_codes_of(queries, index.n_bits, "queries")
        self._faiss = _built(kind, codes, self.options_, resolve_n_jobs(n_jobs))
        self.recall_ = self._measure(asked, min(k, len(codes)), n_jobs)

    def search(self, queries: npt.NDArray[Any], k: int = 10, *, n_jobs: int | None = None) -> Hits:
        """Find about the ``k`` nearest items to each query by Hamming distance.

        The distances are right, and found items are in the order of `Index.search`; some of the nearest may
        be missing. A query for which fewer than ``k`` are found is answered by exact search.
        """
        asked = as_codes(check_queries(queries, self._n_bits))
        distances, rows = self._search(asked, min(check_integer(k, "k", 1), len(self._column)), n_jobs)
        return Hits(distances, self._column.positions_of(rows), self._column.learned[rows], self._snapshot)

    def __repr__(self) -> str:
        return f"ApproximateSearch({self.kind!r}, {len(self._column):,} items, recall {self.recall_:.3f})"

    def _search(self, queries: Codes, k: int, n_jobs: int | None) -> Found:
        queries = np.ascontiguousarray(queries)
        distances, rows = np.empty((len(queries), k), np.int32), np.empty((len(queries), k), np.int64)

        def search(start: int, stop: int) -> None:
            with faiss_threads(1):
                distances[start:stop], rows[start:stop] = self._faiss.search(queries[start:stop], k)

        with Workers(n_jobs) as workers:
            workers.map_blocks(search, len(queries), workers.even_block(len(queries), 1e5))
        short = (rows < 0).any(axis=1)
        if short.any():
            distances[short], rows[short] = nearest_by_hamming(queries[short], self._column.codes, k, n_jobs)
        order = np.lexsort((rows, distances))
        return np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)

    def _measure(self, queries: Codes, k: int, n_jobs: int | None) -> float:
        exact, _ = nearest_by_hamming(queries, self._column.codes, k, n_jobs)
        found, _ = self._search(queries, k, n_jobs)
        return float((found <= exact[:, -1:]).mean()) if len(queries) else math.nan


def _check_options(kind: str, options: Options, defaults: Options) -> Options:
    for name, value in options.items():
        if name not in defaults:
            raise InputError(f"kind {kind!r} has the options {', '.join(defaults)}, got {name!r}")
        check_integer(value, name, 0 if name == "n_flips" else 1)
    return defaults | options


def _built(kind: str, codes: Codes, options: Options, n_jobs: int) -> Any:
    faiss = import_faiss()
    codes = np.ascontiguousarray(codes)
    with faiss_threads(n_jobs):
        structure = KINDS[kind].build(faiss, 8 * codes.shape[1], len(codes), options)
        structure.train(codes)
        structure.add(codes)
    return structure
