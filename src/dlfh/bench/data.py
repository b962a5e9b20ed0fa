"""The data of a run: fingerprinted, stored once for all workers, dealt out by seeds."""

from __future__ import annotations

import functools
import hashlib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh._persistence.files import replace_file
from dlfh.bench.cells import Deal
from dlfh.datasets.paired import Paired
from dlfh.errors import InputError

__all__ = ["Parts", "Source"]


@dataclass(frozen=True)
class Parts:
    """Points to learn from, points to ask with, and points that training never sees."""

    train: Paired
    queries: Paired
    unseen: Paired | None


@dataclass(frozen=True)
class Source:
    """A data set as a run uses it: floating-point features, CSR indicator labels.

    Attributes
    ----------
    name : str
    parts : dict of str to Paired
        "all", to be split at random; or "train" and "queries", and perhaps "unseen".
    notes : tuple of str
        What a reader of the results should know of the data.
    like : str
        The key in `dlfh.datasets.DATA_SETS` of the data set that it is, or imitates.
    as_published : bool
        Whether points and features are as many as those of the data set that it is.

    Examples
    --------
    >>> from dlfh.datasets import make_paired
    >>> source = Source.of("generated", {"all": make_paired(100, random_state=0)})
    >>> parts = source.deal(Deal(seed=0, queries=20, unseen_share=0.25))
    >>> len(parts.train), len(parts.queries), len(parts.unseen)
    (60, 20, 20)
    """

    name: str
    parts: dict[str, Paired]
    notes: tuple[str, ...] = ()
    like: str = ""
    as_published: bool = False

    @classmethod
    def of(cls, name: str, parts: dict[str, Paired], notes: tuple[str, ...] = (), **others: Any) -> Source:
        """Bring parts of a data set into the form of a source."""
        names = list(next(iter(parts.values())).modalities)
        if len(names) < 2:
            raise InputError(f"{name} has the modality {names[0]!r} alone, and two or more are needed")
        labels = _indicators([part.labels for part in parts.values()])
        plain = {
            role: Paired({key: _plain(matrix) for key, matrix in part.modalities.items()}, indicator)
            for (role, part), indicator in zip(parts.items(), labels, strict=True)
        }
        return cls(name, plain, notes, **others)

    @property
    def modalities(self) -> tuple[str, ...]:
        return tuple(next(iter(self.parts.values())).modalities)

    @property
    def is_split(self) -> bool:
        """Whether the data comes with queries of its own, so that no seed changes the split."""
        return "queries" in self.parts

    @functools.cached_property
    def fingerprint(self) -> str:
        """A hash of all arrays: other data under the same name is other data."""
        digest = hashlib.sha256()
        for name, array in sorted(self._arrays().items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]

    def n_train(self, deal: Deal) -> int:
        """Return how many training points a split leaves."""
        n_points = len(self.parts["train"]) if self.is_split else len(self.parts["all"]) - self._n_queries(deal)
        for share in (deal.validation, deal.unseen_share):
            n_points -= round(share * n_points)
        return min(n_points, deal.size or n_points)

    def check(self, deal: Deal) -> None:
        """Raise InputError if a split leaves nothing to ask with, or fewer than two points to learn from."""
        n_points = self.n_train(replace(deal, size=None, validation=0.0, unseen_share=0.0))
        for name, share in (("validation", deal.validation), ("unseen_share", deal.unseen_share)):
            taken = max(1, round(share * n_points)) if share else 0
            if n_points - taken < 2:
                raise InputError(
                    f"{name} is {share:g}, which leaves {n_points - taken} of {n_points} points to learn from"
                )
            n_points -= taken

    def deal(self, deal: Deal) -> Parts:
        """Return the parts that a split describes."""
        if self.is_split:
            train, queries, unseen = self.parts["train"], self.parts["queries"], self.parts.get("unseen")
        else:
            train, queries = self.parts["all"].split(self._n_queries(deal), deal.seed)
            unseen = None
        if deal.validation:
            train, queries = train.split(max(1, round(deal.validation * len(train))), deal.validation_seed)
        if deal.unseen_share:
            train, unseen = train.split(max(1, round(deal.unseen_share * len(train))), deal.seed + 2)
        if deal.size is not None and deal.size < len(train):
            order = np.random.default_rng(deal.seed + 3).permutation(len(train))
            train = train.take(np.sort(order[: deal.size]))
        return Parts(train, queries, unseen)

    def _n_queries(self, deal: Deal) -> int:
        n_points = len(self.parts["all"])
        chosen = min(2000, max(1, n_points // 5)) if deal.queries is None else deal.queries
        if chosen >= n_points:
            raise InputError(f"{self.name} has {n_points} points: {chosen} queries leave none to learn from")
        return chosen

    def save(self, folder: Path) -> Path:
        """Write the data as one file into a folder, unless it is there already, and whole."""
        import safetensors.numpy

        target = folder / f"data-{self.fingerprint}.safetensors"
        if not self._is_in(target):
            roles = ",".join(self.parts)
            arrays = {name: np.ascontiguousarray(array) for name, array in self._arrays().items()}
            payload = safetensors.numpy.save(
                arrays, metadata={"name": self.name, "roles": roles, "modalities": "\n".join(self.modalities)}
            )
            replace_file(target, [payload])
        return target

    def _is_in(self, path: Path) -> bool:
        from safetensors import SafetensorError

        try:
            return path.exists() and Source.open(path).fingerprint == self.fingerprint
        except (SafetensorError, KeyError, ValueError):
            return False

    @classmethod
    def open(cls, path: Path) -> Source:
        """Read what `save` wrote."""
        from safetensors import safe_open

        with safe_open(path, "numpy") as file:
            about = file.metadata()
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        parts = {
            role: Paired(
                {name: _matrix_from(arrays, f"{role}/{name}") for name in about["modalities"].split("\n")},
                _matrix_from(arrays, f"{role}/labels of points"),
            )
            for role in about["roles"].split(",")
        }
        return cls(about["name"], parts)

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        arrays: dict[str, npt.NDArray[Any]] = {}
        for role, part in self.parts.items():
            for name, matrix in {**part.modalities, "labels of points": part.labels}.items():
                arrays |= _arrays_of(matrix, f"{role}/{name}")
        return arrays


def _plain(matrix: Any) -> Any:
    """Return features as floating-point numbers, of the precision that they have."""
    dtype = matrix.dtype if matrix.dtype in (np.float32, np.float64) else np.float32
    if sp.issparse(matrix):
        plain = sp.csr_array(matrix, dtype=dtype)
        plain.sum_duplicates()
        return plain
    return np.ascontiguousarray(matrix, dtype)


def _indicators(labels: list[Any]) -> list[sp.csr_array]:
    """Return labels of any form as indicator matrices with the same columns."""
    if all(getattr(each, "ndim", 1) == 2 and 1 not in each.shape[1:] for each in labels):
        matrices = [sp.csr_array(each) for each in labels]
        if any(not np.isin(matrix.data, (0, 1)).all() for matrix in matrices):
            raise InputError("labels must be indicators of 0 and 1")
        return [sp.csr_array(matrix, dtype=np.int8) for matrix in matrices]
    flat = [np.asarray(each).ravel() if hasattr(each, "shape") else each for each in labels]
    together = LabelSets.from_labels([label for each in flat for label in each])
    lengths = np.diff(together.starts)
    sets = sp.csr_array(
        (np.ones(int(lengths.sum()), np.int8), together.labels, together.starts),
        shape=(together.n_sets, together.n_labels),
    )
    bounds = np.cumsum([0, *map(len, flat)])
    return [sets[together.set_of_point[bounds[i] : bounds[i + 1]]] for i in range(len(flat))]


def _arrays_of(matrix: Any, name: str) -> dict[str, npt.NDArray[Any]]:
    if not sp.issparse(matrix):
        return {name: matrix}
    return {
        f"{name}/data": matrix.data,
        f"{name}/indices": matrix.indices,
        f"{name}/indptr": matrix.indptr,
        f"{name}/shape": np.array(matrix.shape, np.int64),
    }


def _matrix_from(arrays: dict[str, npt.NDArray[Any]], name: str) -> Any:
    if name in arrays:
        return arrays[name]
    parts = (arrays[f"{name}/{part}"] for part in ("data", "indices", "indptr"))
    return sp.csr_array(tuple(parts), shape=tuple(arrays[f"{name}/shape"].tolist()))
