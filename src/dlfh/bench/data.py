"""The data of a run: loaded by name, fingerprinted, stored once for all workers, split by seed."""

from __future__ import annotations

import functools
import hashlib
import json
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array
from dlfh._labels import LabelSets
from dlfh._persistence.files import replace_file
from dlfh._selection import hold_out_groups
from dlfh.bench.cells import SplitSpec
from dlfh.datasets import Paired, load_dataset
from dlfh.datasets.descriptions import DATA_SETS, GENERATED, canonical_name, describe
from dlfh.datasets.leakage import fingerprints, shared_points
from dlfh.datasets.loaders import load_file
from dlfh.errors import InputError

_FORMAT = "dlfh-splits 1"  # format of published splits


class Partition(NamedTuple):
    """Training points, queries, and points that training never sees."""

    train: Paired
    queries: Paired
    unseen: Paired | None


@dataclass(frozen=True)
class Source:
    """A data set with floating-point features and CSR indicator labels."""

    name: str
    parts: dict[str, Paired]  # "all", to be split at random; or "train", "queries" and optionally "unseen"
    notes: tuple[str, ...] = ()  # remarks for the report
    like: str = ""  # key in `dlfh.datasets.descriptions.DATA_SETS` of this data set, or of the one that it imitates
    as_published: bool = False  # whether it has as many points and features as the published data set

    @classmethod
    def of(cls, name: str, parts: dict[str, Paired], notes: tuple[str, ...] = (), **others: Any) -> Source:
        """Convert features and labels of any form."""
        names = list(next(iter(parts.values())).modalities)
        if len(names) < 2:
            raise InputError(f"{name} has only the modality {names[0]!r}, but at least two are needed")
        labels = _indicators([part.labels for part in parts.values()])
        converted = {
            role: Paired({key: _to_floats(matrix) for key, matrix in part.modalities.items()}, indicator)
            for (role, part), indicator in zip(parts.items(), labels, strict=True)
        }
        return cls(name, converted, notes, **others)

    @property
    def modalities(self) -> tuple[str, ...]:
        return tuple(next(iter(self.parts.values())).modalities)

    @property
    def has_queries(self) -> bool:
        """Whether the data set defines its queries, so that the split does not depend on the seed."""
        return "queries" in self.parts

    @functools.cached_property
    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for name, array in sorted(self._arrays().items()):
            digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
            digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()[:16]

    def n_train(self, spec: SplitSpec) -> int:
        n_points = len(self.parts["train"]) if self.has_queries else len(self.parts["all"]) - self._n_queries(spec)
        for share in (spec.validation_share, spec.unseen_share):
            n_points -= round(share * n_points)
        return min(n_points, spec.size or n_points)

    def check(self, spec: SplitSpec) -> None:
        """Raise InputError if a split leaves no queries, or fewer than two training points."""
        n_points = self.n_train(replace(spec, size=None, validation_share=0.0, unseen_share=0.0))
        for name in ("validation_share", "unseen_share"):
            share = getattr(spec, name)
            n_held_out = max(1, round(share * n_points)) if share else 0
            if n_points - n_held_out < 2:
                raise InputError(f"{name} = {share:g} leaves {n_points - n_held_out} of {n_points} points for training")
            n_points -= n_held_out

    def split(self, spec: SplitSpec) -> Partition:
        if self.has_queries:
            train, queries, unseen = self.parts["train"], self.parts["queries"], self.parts.get("unseen")
        else:
            train, queries = self.parts["all"].split(self._n_queries(spec), spec.seed)
            unseen = None
        if spec.validation_share:
            n_validation = max(1, round(spec.validation_share * len(train)))
            order = np.random.default_rng(spec.validation_seed).permutation(len(train))
            groups = fingerprints([matrix[order] for matrix in train.modalities.values()])
            validation, rest = hold_out_groups(order, np.unique(groups, return_inverse=True)[1], n_validation)
            train, queries = train.take(np.sort(rest)), train.take(np.sort(validation))
        if spec.unseen_share:
            train, unseen = train.split(max(1, round(spec.unseen_share * len(train))), spec.seed + 2)
        if spec.size is not None and spec.size < len(train):
            order = np.random.default_rng(spec.seed + 3).permutation(len(train))
            train = train.take(np.sort(order[: spec.size]))
        return Partition(train, queries, unseen)

    def _n_queries(self, spec: SplitSpec) -> int:
        n_points = len(self.parts["all"])
        n_queries = min(2000, max(1, n_points // 5)) if spec.queries is None else spec.queries
        if n_queries >= n_points:
            raise InputError(f"{self.name} has {n_points} points: {n_queries} queries leave none for training")
        return n_queries

    def save(self, folder: Path) -> Path:
        """Write the data to a file in a folder, unless an intact copy exists, and return its path."""
        import safetensors.numpy

        target = folder / f"data-{self.fingerprint}.safetensors"
        try:
            if target.exists() and Source.open(target).fingerprint == self.fingerprint:
                return target
        except (safetensors.SafetensorError, KeyError, ValueError):
            pass
        arrays = {name: np.ascontiguousarray(array) for name, array in self._arrays().items()}
        about = {"name": self.name, "roles": ",".join(self.parts), "modalities": "\n".join(self.modalities)}
        replace_file(target, [safetensors.numpy.save(arrays, metadata=about)])
        return target

    @classmethod
    def open(cls, path: Path) -> Source:
        from safetensors import safe_open

        with safe_open(path, "numpy") as file:
            about = file.metadata()
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        parts = {}
        for role in about["roles"].split(","):
            features = {name: _matrix_from(arrays, f"{role}/{name}") for name in about["modalities"].split("\n")}
            parts[role] = Paired(features, _matrix_from(arrays, f"{role}/labels of points"))
        return cls(about["name"], parts)

    def _arrays(self) -> dict[str, Array]:
        arrays: dict[str, Array] = {}
        for role, part in self.parts.items():
            for name, matrix in {**part.modalities, "labels of points": part.labels}.items():
                if sp.issparse(matrix):
                    parts = {each: getattr(matrix, each) for each in ("data", "indices", "indptr")}
                    parts["shape"] = np.array(matrix.shape, np.int64)
                    arrays |= {f"{role}/{name}/{each}": array for each, array in parts.items()}
                else:
                    arrays[f"{role}/{name}"] = matrix
        return arrays


def _to_floats(matrix: Any) -> Any:
    """Convert features to floating point, keeping double precision."""
    dtype = matrix.dtype if matrix.dtype in (np.float32, np.float64) else np.float32
    if not sp.issparse(matrix):
        return np.ascontiguousarray(matrix, dtype)
    floats = sp.csr_array(matrix, dtype=dtype)
    floats.sum_duplicates()
    return floats


def _indicators(labels: list[Any]) -> list[sp.csr_array]:
    """Convert labels of any form to indicator matrices with the same columns."""
    if all(getattr(each, "ndim", 1) == 2 and 1 not in each.shape[1:] for each in labels):
        matrices = [sp.csr_array(each) for each in labels]
        if any(not np.isin(matrix.data, (0, 1)).all() for matrix in matrices):
            raise InputError("label matrices must contain only 0 and 1")
        return [sp.csr_array(matrix, dtype=np.int8) for matrix in matrices]
    flat = [np.asarray(each).ravel() if hasattr(each, "shape") else each for each in labels]
    together = LabelSets.from_labels([label for each in flat for label in each])
    sets = together.rows().astype(np.int8)
    bounds = np.cumsum([0, *map(len, flat)]).tolist()
    return [sets[together.set_of_point[start:stop]] for start, stop in pairwise(bounds)]


def _matrix_from(arrays: dict[str, Array], name: str) -> Any:
    if name in arrays:
        return arrays[name]
    parts = (arrays[f"{name}/{part}"] for part in ("data", "indices", "indptr"))
    return sp.csr_array(tuple(parts), shape=tuple(arrays[f"{name}/shape"].tolist()))


def load_source(name: str, file: Path | None = None, *, n_points: int | None = None) -> Source:
    """Load the icons, a data set by its key and file, ``n_points`` points of "generated:" data, or an array file."""
    name = canonical_name(name)
    is_generated = name.startswith(GENERATED)
    if is_generated and file is not None:
        key = name.removeprefix(GENERATED)
        raise InputError(f"{name} is generated, not read: omit --file, or load the file as {key}")
    if n_points is not None and not is_generated:
        raise InputError(f"--points applies only to generated data, such as {GENERATED}wiki")
    if name == "icons":
        return _icons(file)
    if is_generated:
        split = load_dataset(name, n_points=n_points)
        parts = {"train": split.train, "queries": split.queries}
        return Source.of(split.name, parts, split.notes, like=name.removeprefix(GENERATED))
    if file is None and name in DATA_SETS:
        raise InputError(f"{name} does not come with dlfh: name its file with --file, or try {GENERATED}{name}")
    if file is None and not Path(name).exists():
        known = ", ".join(("icons", *DATA_SETS, f"{GENERATED}wiki"))
        raise InputError(f"no data set or file {name!r}: data sets are {known}, or an array file")
    description = None if file is None else describe(name)
    loaded = load_file(file or Path(name), description)
    known_as = {} if description is None else {"like": description.key, "as_published": loaded.as_published}
    parts = loaded.parts
    if "database" in parts:
        # Training sets are usually drawn from the database; the points they share are not unseen.
        database, train = parts["database"], parts["train"]
        rows = np.setdiff1d(np.arange(len(database)), shared_points(database.modalities, train.modalities)[0])
        parts = {"train": train, "queries": parts["queries"]}
        parts |= {"unseen": database.take(rows)} if len(rows) else {}
    return Source.of(loaded.name, parts, loaded.notes, **known_as)


def _icons(file: Path | None) -> Source:
    from dlfh.features import BagOfWords, Gist

    if file is not None:
        raise InputError('the icons come with the extra "icons", not from a file: omit --file')
    icons = load_dataset("icons").labelled()
    words = BagOfWords(min_df=3)
    image, text = Gist().fit(icons.images).transform(icons.images), words.fit(icons.texts).transform(icons.texts)
    notes = (
        "Font Awesome's free icons (CC BY 4.0 by Fonticons, Inc.): GIST features of the pictures, TF-IDF of the words "
        "that occur in at least three icons.",
    )
    return Source.of("icons", {"all": Paired({"image": image, "text": text}, list(map(list, icons.labels)))}, notes)


def splits_of(source: Source, seeds: int, queries: int | None = None) -> dict[str, Any]:
    """Return the query rows by seed ("any" if the data set defines them), with checksums of all arrays and of labels.

    All other rows are training points, and form the database of the *hashed* and *learned* protocols.
    """
    first = np.cumsum([0, *map(len, source.parts.values())])
    numbered = {
        role: Paired({"row": np.arange(start, start + len(part))[:, None]}, part.labels)
        for (role, part), start in zip(source.parts.items(), first, strict=False)
    }
    rows = Source(source.name, numbered)
    by_name = {"any": 0} if source.has_queries else {str(seed): seed for seed in range(seeds)}
    drawn = {name: rows.split(SplitSpec(seed=seed, queries=queries)).queries for name, seed in by_name.items()}
    about = {"format": _FORMAT, "data": source.name, "points": int(first[-1]), "fingerprint": source.fingerprint}
    lists = {name: part.modalities["row"][:, 0].tolist() for name, part in drawn.items()}
    return about | {"labels": _label_checksum(source), "queries": lists}


def compare_splits(published: Any, source: Source) -> list[str]:
    """Return the differences between the data with its splits and a published splits file, one sentence each."""
    if not isinstance(published, dict) or published.get("format") != _FORMAT:
        raise InputError(f"not a splits file: its format is not {_FORMAT!r}")
    n_queries = len(next(iter(published["queries"].values())))
    splits = splits_of(source, len(published["queries"]), None if source.has_queries else n_queries)
    compared = {"points": "numbers of points", "labels": "labels, or their order,"}
    compared |= {"fingerprint": "features", "queries": "queries"}
    return [f"{what} differ ({key})" for key, what in compared.items() if published[key] != splits[key]]


def _label_checksum(source: Source) -> str:
    digest = hashlib.sha256()
    for role, part in source.parts.items():
        labels = part.labels
        pairs = np.stack([np.repeat(np.arange(labels.shape[0]), np.diff(labels.indptr)), labels.indices])
        ordered = pairs[:, np.lexsort(pairs[::-1])]
        digest.update(f"{role} {json.dumps(labels.shape)}\n".encode())
        digest.update(np.ascontiguousarray(ordered, "<i8").data)
    return digest.hexdigest()
