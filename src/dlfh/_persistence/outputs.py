"""Where commands may write: never over what they read, and over what exists only if that was asked for."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from dlfh._persistence.files import replace_file
from dlfh.errors import InputError

__all__ = ["check_not_read", "check_outputs", "write_output"]


def check_outputs(
    outputs: Sequence[Path | None], inputs: Iterable[Path | None] = (), *, overwrite: bool = False
) -> None:
    """Say so, before any work, if a file cannot be written where it should be.

    Parameters
    ----------
    outputs : sequence of paths or None
        Files to write; None where none is.
    inputs : iterable of paths or None
        Files and folders that are read. No output goes over one, or over a file in one, by whatever name.
    overwrite : bool
        Whether files that exist may be replaced.

    Examples
    --------
    >>> import tempfile
    >>> table = Path(tempfile.mkdtemp(), "items.csv")
    >>> _ = table.write_text("id,text")
    >>> check_outputs([table.with_name("new.npz")], [table])
    >>> check_outputs([table], [table], overwrite=True)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dlfh.errors.InputError: cannot write /.../items.csv: it is what is read
    """
    wanted = [path for path in outputs if path is not None]
    read = list(inputs)
    for number, path in enumerate(wanted):
        parent = path.absolute().parent
        if not parent.is_dir():
            raise InputError(f"cannot write {path}: there is no folder {parent}")
        if path.is_dir():
            raise InputError(f"cannot write {path}: it is a folder")
        if any(_same(path, other) for other in wanted[:number]):
            raise InputError(f"cannot write {path}: two outputs would go there")
        if not os.path.lexists(path):
            continue
        check_not_read(path, read)
        if not path.is_file():
            raise InputError(f"cannot write {path}: it is not a regular file")
        if not overwrite:
            raise _there_already(path)


def write_output(path: Path, parts: Iterable[bytes | memoryview], *, overwrite: bool) -> None:
    """Write a file, whole or not at all; one that has come to be since the outputs were checked stays, too."""
    try:
        replace_file(path, parts, overwrite=overwrite)
    except FileExistsError:
        raise _there_already(path) from None


def _there_already(path: Path) -> InputError:
    return InputError(f"cannot write {path}: it is there already, and --overwrite would replace it")


def check_not_read(path: Path, inputs: Iterable[Path | None]) -> None:
    """Say so if a file is one that is read, or in a folder that is read; hard and symbolic links are seen through."""
    for source in inputs:
        if source is None or not source.exists():
            continue
        if _same(path, source):
            raise InputError(f"cannot write {path}: it is what is read")
        if source.is_dir() and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(source)):
            raise InputError(f"cannot write {path}: it is a file in {source}, which is read")


def _same(one: Path, other: Path) -> bool:
    if one.exists() and other.exists():
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)
