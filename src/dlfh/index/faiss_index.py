"""Approximate search structures of faiss over the codes of a snapshot."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dlfh._arrays import Array, Codes, Integers
from dlfh._parallel import Workers, resolve_n_jobs
from dlfh._validation import check_choice
from dlfh.errors import InputError
from dlfh.index.backend import check_options
from dlfh.index.hits import Hits
from dlfh.index.nearest import faiss_threads, import_faiss, nearest_by_hamming
from dlfh.index.snapshot import Column, Snapshot
from dlfh.index.where import Where

Options = dict[str, int]

#: Inverted lists around centroids, hash tables of parts of the code, or a neighbourhood graph.
KINDS = ("ivf", "multihash", "hnsw")


def _defaults(kind: str, n_items: int, n_bits: int) -> Options:
    if kind == "ivf":
        n_lists = max(1, math.isqrt(n_items))
        return {"n_lists": n_lists, "n_probe": max(1, n_lists // 32)}
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


class FaissIndex:
    """A structure of faiss, built in memory. Implements `ApproximateIndex`."""

    def __init__(
        self, snapshot: Snapshot, column: Column, kind: str, options: Options, n_jobs: int | None = None
    ) -> None:
        check_choice(kind, "kind", KINDS)
        self._snapshot, self._column = snapshot, column
        codes = np.ascontiguousarray(column.codes)
        n_bits = 8 * codes.shape[1]
        self.options = check_options(kind, options, _defaults(kind, len(codes), n_bits))
        with faiss_threads(resolve_n_jobs(n_jobs)):
            self._faiss = _structure(import_faiss(), kind, len(codes), n_bits, self.options)
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
            column = column.within(self._snapshot.mask(where))
            distances, rows = nearest_by_hamming(codes, column.codes, k, n_jobs)
        return Hits(distances, column.positions_of(rows), column.learned[rows], self._snapshot)

    def _search(self, codes: Codes, k: int, n_jobs: int | None) -> tuple[Array, Integers]:
        distances, rows = np.empty((len(codes), k), np.int32), np.empty((len(codes), k), np.int64)

        def search(start: int, stop: int) -> None:
            with faiss_threads(1):
                distances[start:stop], rows[start:stop] = self._faiss.search(codes[start:stop], k)

        with Workers(n_jobs) as workers:
            workers.map_blocks(search, len(codes), workers.even_block(len(codes), 1e5))
        short = (rows < 0).any(axis=1)
        if short.any():
            distances[short], rows[short] = nearest_by_hamming(codes[short], self._column.codes, k, n_jobs)
        order = np.lexsort((rows, distances))
        return np.take_along_axis(distances, order, axis=1), np.take_along_axis(rows, order, axis=1)
