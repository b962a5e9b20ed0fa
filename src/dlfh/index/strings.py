"""Byte strings in two arrays, which can be mapped from a file."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dlfh import _kernels
from dlfh._arrays import Integers


@dataclass(frozen=True)
class Strings:
    """Byte strings; string i is ``blob[offsets[i]:offsets[i + 1]]``."""

    offsets: Integers
    blob: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, strings: Sequence[bytes]) -> Strings:
        lengths = itertools.chain((0,), map(len, strings))
        offsets = np.fromiter(lengths, np.int64, len(strings) + 1).cumsum()
        return cls(offsets, np.frombuffer(b"".join(strings), np.uint8))

    @classmethod
    def empty(cls, n: int) -> Strings:
        return cls(np.broadcast_to(np.int64(0), n + 1), np.empty(0, np.uint8))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> bytes:
        return self.blob[self.offsets.item(row) : self.offsets.item(row + 1)].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        blob = np.ascontiguousarray(self.blob).data
        return (bytes(blob[start:stop]) for start, stop in itertools.pairwise(self.offsets.tolist()))

    def take(self, rows: Integers) -> Strings:
        offsets = np.zeros(len(rows) + 1, np.int64)
        np.cumsum(np.diff(self.offsets)[rows], out=offsets[1:])
        blob = np.empty(offsets[-1], np.uint8)
        _kernels.gather_strings(self.offsets, self.blob, rows, offsets, blob)
        return Strings(offsets, blob)

    @classmethod
    def concatenate(cls, several: Iterable[Strings]) -> Strings:
        parts = list(several)
        ends = np.cumsum([0, *(part.offsets[-1] for part in parts)])
        offsets = [part.offsets[:-1] + start for part, start in zip(parts, ends, strict=False)]
        return cls(np.concatenate([*offsets, ends[-1:]]), np.concatenate([part.blob for part in parts]))

    def find_duplicate(self) -> bytes | None:
        hashes, order = self.hash_table()
        equal = np.flatnonzero(hashes[1:] == hashes[:-1])
        pairs = zip(order[equal].tolist(), order[equal + 1].tolist(), strict=True)
        return next((self[first] for first, second in pairs if self[first] == self[second]), None)

    def hashes(self) -> npt.NDArray[np.uint64]:
        """Return the 64-bit FNV-1a hash of each string."""
        values = np.empty(len(self), np.uint64)
        _kernels.hash_strings(self.offsets, self.blob, values)
        return values

    def hash_table(self) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint32]]:
        """Return the sorted hashes and their rows: a dictionary that can be mapped from a file."""
        hashes = self.hashes()
        order = np.argsort(hashes, kind="stable")
        return hashes[order], order.astype(np.uint32)
