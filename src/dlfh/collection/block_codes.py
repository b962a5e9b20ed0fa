"""Encode data in blocks and write the codes to a folder block by block, so that an interrupted run can resume.

The folder contains a description of the data and the model, and a Parquet file for each block, each written atomically.
A file depends only on its block and the model, so every run writes the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlfh._persistence.files import create_folder, read_regular, remove_leftovers, replace_file, try_lock
from dlfh._progress import progress
from dlfh.blocks.base import Blocks
from dlfh.blocks.dask import connect
from dlfh.datasets.arrow import write_parquet
from dlfh.errors import InputError
from dlfh.hashing import HashFunction
from dlfh.hashing.base import hash_block, numbered_rows
from dlfh.methods.base import CrossModalHasher

#: Description of the run, lock and codes; readers of Parquet folders skip names that begin with "_" or ".".
_DESCRIPTION, _LOCK, _PARTS = "_dlfh.json", ".lock", "part-*.parquet"

#: Blocks in one request to a cluster.
_BATCH = 256


@dataclass(frozen=True)
class Encoded:
    """Result of `encode_blocks`: the numbers of rows, of blocks, and of blocks written by an earlier run."""

    n_rows: int
    n_blocks: int
    n_before: int


@dataclass(frozen=True)
class _Job:
    functions: Mapping[str, HashFunction]
    features: Mapping[str, Blocks]
    real: bool
    folder: Path

    def write(self, number: int, blocks: list[Any]) -> int:
        arrays = {}
        for (name, features), block in zip(self.features.items(), blocks, strict=True):
            with numbered_rows(int(features.starts[number]), block, name):
                arrays[name] = hash_block(self.functions[name], name, 1, self.real, block)
        replace_file(self.path(number), [write_parquet(arrays)])
        return len(blocks[0])

    def path(self, number: int) -> Path:
        return self.folder / f"part-{number:06}.parquet"


def encode_blocks(
    model: CrossModalHasher,
    features: Mapping[str, Blocks],
    folder: Path,
    *,
    sources: Mapping[str, Path],
    real: bool = False,
    cluster: str | None = None,
    overwrite: bool = False,
    show_progress: bool = False,
) -> Encoded:
    """Encode data in blocks to a folder, one Parquet file per block; skip blocks that an earlier run has written.

    features: Modalities, split into blocks at the same rows. Workers of a cluster must find them at the same paths.
    folder: Output folder. Sorted by name, its files are in the order of the data.
    sources: File or folder of each modality. An earlier run is resumed only if they have not changed.
    cluster: Address of a Dask scheduler, or "local"; by default, this process.
    """
    first, *others = features.values()
    first.check_aligned(*others)
    functions = {name: model._check_blocks(name, blocks) for name, blocks in features.items()}
    job = _Job(functions, features, real, folder.absolute())
    description = _describe(model, features, sources, real)
    _check_resumable(folder, description, overwrite)
    with connect(cluster) as distribute, create_folder(folder), _locked(folder):
        _check_resumable(folder, description, overwrite)
        if overwrite:
            for part in folder.glob(_PARTS):
                part.unlink()
        replace_file(folder / _DESCRIPTION, [description])
        missing = [number for number in range(first.n_blocks) if not job.path(number).exists()]
        if not missing:
            raise InputError(f"cannot write {folder}: it is complete; use --overwrite to replace it")
        with progress(show_progress) as bar:
            advance = bar.counter("blocks", len(missing))
            if cluster is None:
                for number, blocks in first.read_ahead(*others, numbers=missing):
                    job.write(number, blocks)
                    advance()
            else:
                shared = distribute([job])
                for start in range(0, len(missing), _BATCH):
                    group = missing[start : start + _BATCH]
                    distribute(group).map(_read_and_write, shared).results()
                    advance(len(group))
    return Encoded(first.shape[0], first.n_blocks, first.n_blocks - len(missing))


def _check_resumable(folder: Path, description: bytes, overwrite: bool) -> None:
    """Raise InputError if a folder holds other files, or codes of different data or of a different model."""
    if not folder.exists():
        return
    existing = folder / _DESCRIPTION
    if not existing.exists():
        if any(child.name != _LOCK and not child.name.startswith(".saving-") for child in folder.iterdir()):
            raise InputError(f"cannot write {folder}: the folder has other contents")
    elif not overwrite and read_regular(existing, max_bytes=1 << 20) != description:
        raise InputError(
            f"cannot resume in {folder}: it has codes of other data or another model; use --overwrite to replace it"
        )


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other runs; clean up on exit."""
    lock = try_lock(folder / _LOCK)
    if lock is None:
        raise InputError(f"cannot write {folder}: another run is writing it")
    with lock:
        try:
            yield
        finally:
            remove_leftovers(folder)
            if not any(folder.glob(_PARTS)):
                (folder / _DESCRIPTION).unlink(missing_ok=True)
            (folder / _LOCK).unlink(missing_ok=True)


def _read_and_write(number: int, job: _Job) -> int:
    return job.write(number, [blocks.read(number) for blocks in job.features.values()])


def _describe(
    model: CrossModalHasher, features: Mapping[str, Blocks], sources: Mapping[str, Path], real: bool
) -> bytes:
    """Return JSON that identifies the model and the data by checksums."""
    digest = hashlib.sha256()
    for name in features:
        function = model.hash_functions_[name]
        digest.update(json.dumps([name, HashFunction._registry.kind_of(type(function))]).encode())
        for key, array in sorted(function.to_arrays().items()):
            digest.update(f"{key} {array.dtype} {array.shape}".encode())
            digest.update(array.tobytes())
    data = hashlib.sha256()
    for name, source in sources.items():
        files = sorted(source.glob("**/*")) if source.is_dir() else [source]
        stats = [(str(file.relative_to(source)), file.stat()) for file in files if file.is_file()]
        data.update(json.dumps([name, [(path, stat.st_size, stat.st_mtime_ns) for path, stat in stats]]).encode())
        data.update(features[name].starts.tobytes())
    first, *_ = features.values()
    description = {
        "written_by": "dlfh encode",
        "modalities": [*features],
        "values": "real" if real else "codes",
        "n_bits": int(model.n_bits),
        "rows": first.shape[0],
        "blocks": first.n_blocks,
        "hash_functions": digest.hexdigest(),
        "data": data.hexdigest(),
    }
    return json.dumps(description, indent=1).encode()
