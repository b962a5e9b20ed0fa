"""Output files of commands. They never replace an input, and replace other existing files only on request."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from dlfh._persistence.files import replace_file
from dlfh.errors import InputError


def check_outputs(
    outputs: Sequence[Path | None], inputs: Iterable[Path | None] = (), *, overwrite: bool = False
) -> None:
    """Raise InputError, before any work is done, if an output cannot be written; no output may overwrite an input."""
    targets = [path for path in outputs if path is not None]
    sources = list(inputs)
    for number, path in enumerate(targets):
        parent = path.absolute().parent
        if not parent.is_dir():
            raise InputError(f"cannot write {path}: the folder {parent} does not exist")
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder")
        if any(_same(path, other) for other in targets[:number]):
            raise InputError(f"cannot write {path}: another output has the same path")
        if not os.path.lexists(path):
            continue
        check_not_input(path, sources)
        if not path.is_file():
            raise InputError(f"cannot write {path}: it is not a regular file")
        if not overwrite:
            raise _exists(path)


def write_output(path: Path, parts: Iterable[bytes | memoryview], *, overwrite: bool) -> None:
    """Write a file atomically; without ``overwrite``, keep a file created since `check_outputs`."""
    try:
        replace_file(path, parts, overwrite=overwrite)
    except FileExistsError:
        raise _exists(path) from None


def _exists(path: Path) -> InputError:
    return InputError(f"cannot write {path}: it exists; use --overwrite to replace it")


def check_not_input(path: Path, inputs: Iterable[Path | None]) -> None:
    """Raise InputError if a file is an input or inside an input folder, directly or through links."""
    for source in inputs:
        if source is None or not source.exists():
            continue
        if _same(path, source):
            raise InputError(f"cannot write {path}: it is also an input")
        if source.is_dir() and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(source)):
            raise InputError(f"cannot write {path}: it is inside the input folder {source}")


def _same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)
