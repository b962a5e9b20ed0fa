"""Codes of data that is read by blocks, written block by block: a run that was stopped goes on where it was.

The folder gets a Parquet file for each block, whole or not at all, and first of all a file that says what they are
codes of. A block's codes follow from the block and the model alone, so whoever writes a file writes the same bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dlfh._persistence.files import create_folder, read_regular, remove_leftovers, replace_file, try_lock
from dlfh._progress import Advance, progress
from dlfh.blocks import Blocks
from dlfh.blocks.clusters import connect
from dlfh.blocks.values import BlockValues
from dlfh.datasets.parquet import write_parquet
from dlfh.errors import InputError
from dlfh.hashing import HashFunction
from dlfh.hashing.base import hash_block
from dlfh.hashing.by_blocks import NumberedRows
from dlfh.methods.base import CrossModalHasher

__all__ = ["Encoded", "encode_blocks"]

#: What the files are codes of; names with these first characters are nobody's data.
_ABOUT, _LOCK, _PARTS = "_dlfh.json", ".lock", "part-*.parquet"

#: Blocks that a cluster is asked for at a time.
_AT_A_TIME = 256


@dataclass(frozen=True)
class Encoded:
    """What was done: rows in all, blocks in all, and blocks that were there from a run before."""

    n_rows: int
    n_blocks: int
    n_before: int


@dataclass(frozen=True)
class _Job:
    """All that a block's codes follow from, and where they go."""

    functions: Mapping[str, HashFunction]
    features: Mapping[str, Blocks]
    real: bool
    folder: Path

    def write(self, number: int, blocks: list[Any]) -> int:
        """Write the codes of a block; return how many."""
        arrays = {}
        for (name, features), block in zip(self.features.items(), blocks, strict=True):
            with NumberedRows(int(features.starts[number]), block, name):
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
    """Write the codes of modalities in blocks to a folder of Parquet files, a file a block; go on if some are there.

    Parameters
    ----------
    features : dict of str to Blocks
        With blocks of the same rows. Workers of a cluster read them by the same paths.
    folder : path
        Its rows are in the order of the data: the files', by name.
    sources : dict of str to path
        The file or folder of each modality: if one changes, codes of before are of something else.
    cluster : str, optional
        Address of a Dask scheduler, or "local"; None works in this process.
    overwrite : bool
        Begin anew, whatever such codes are there.
    """
    first, *others = features.values()
    first.check_aligned(*others)
    functions = {name: model._check_blocks(name, blocks) for name, blocks in features.items()}
    job = _Job(functions, features, real, folder.absolute())
    about = _about(model, features, sources, real)
    _check_begun(folder, about, overwrite)
    with connect(cluster) as distribute, create_folder(folder), _alone(folder):
        _check_begun(folder, about, overwrite)
        if overwrite:
            for part in folder.glob(_PARTS):
                part.unlink()
        replace_file(folder / _ABOUT, [about])
        missing = [number for number in range(first.n_blocks) if not job.path(number).exists()]
        if not missing:
            raise InputError(f"cannot write {folder}: it exists; use --overwrite to replace it")
        with progress(show_progress) as bar:
            advance = bar.counter("blocks", len(missing))
            if cluster is None:
                _write_here(job, missing, advance)
            else:
                _write_there(job, missing, distribute, advance)
    return Encoded(first.shape[0], first.n_blocks, first.n_blocks - len(missing))


def _check_begun(folder: Path, about: bytes, overwrite: bool) -> None:
    """Say so if what is in a folder was not begun by such a run, or by a run on other data."""
    if not folder.exists():
        return
    begun = folder / _ABOUT
    if not begun.exists():
        if any(child.name != _LOCK and not child.name.startswith(".saving-") for child in folder.iterdir()):
            raise InputError(f"cannot write {folder}: it is a folder of something else")
    elif not overwrite and read_regular(begun, max_bytes=1 << 20) != about:
        raise InputError(
            f"cannot go on in {folder}: it has codes of other data, or of another model, and --overwrite would "
            "replace them"
        )


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Let nobody else write a folder meanwhile; what is left of a run that wrote no codes is taken away."""
    lock = try_lock(folder / _LOCK)
    if lock is None:
        raise InputError(f"cannot write {folder}: another run is writing it")
    with lock:
        try:
            yield
        finally:
            remove_leftovers(folder)
            if not any(folder.glob(_PARTS)):
                (folder / _ABOUT).unlink(missing_ok=True)
            (folder / _LOCK).unlink(missing_ok=True)


def _write_here(job: _Job, missing: list[int], advance: Advance) -> None:
    first, *others = job.features.values()
    for number, blocks in first.read_ahead(*others, numbers=missing):
        job.write(number, blocks)
        advance()


def _write_there(
    job: _Job, missing: list[int], distribute: Callable[[Sequence[Any]], BlockValues], advance: Advance
) -> None:
    shared = distribute([job])
    for start in range(0, len(missing), _AT_A_TIME):
        group = missing[start : start + _AT_A_TIME]
        distribute(group).map(_read_and_write, shared).results()
        advance(len(group))


def _read_and_write(number: int, job: _Job) -> int:
    return job.write(number, [blocks.read(number) for blocks in job.features.values()])


def _about(model: CrossModalHasher, features: Mapping[str, Blocks], sources: Mapping[str, Path], real: bool) -> bytes:
    """Return what says whether codes are those of this model and this data."""
    digest = hashlib.sha256()
    for name in features:
        function = model.hash_functions_[name]
        digest.update(json.dumps([name, HashFunction.registry.kind_of(type(function))]).encode())
        for key, array in sorted(function.to_arrays().items()):
            digest.update(f"{key} {array.dtype} {array.shape}".encode())
            digest.update(array.tobytes())
    data = hashlib.sha256()
    for name, source in sources.items():
        files = sorted(source.glob("**/*")) if source.is_dir() else [source]
        stats = [(str(file.relative_to(source)), file.stat()) for file in files if file.is_file()]
        data.update(json.dumps([name, [(own, stat.st_size, stat.st_mtime_ns) for own, stat in stats]]).encode())
        data.update(features[name].starts.tobytes())
    first, *_ = features.values()
    about = {
        "written_by": "dlfh encode",
        "modalities": [*features],
        "values": "real" if real else "codes",
        "n_bits": int(model.n_bits),
        "rows": first.shape[0],
        "blocks": first.n_blocks,
        "hash_functions": digest.hexdigest(),
        "data": data.hexdigest(),
    }
    return json.dumps(about, indent=1).encode()
