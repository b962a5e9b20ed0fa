"""`dlfh sync`: a collection that is made equal to a folder or a table, once or for as long as it runs.

Changes are looked for, not waited for: a file system tells of its changes on a local disk alone, not of what another
machine does to a shared folder, nor of more folders than the system's limit. Looking costs one call for each file.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlfh._terminal import plain
from dlfh.cli.options import AsJson, ItemOptions, Overwrite, ProblemFile, Quiet, shows_progress, with_options
from dlfh.cli.printing import report

if TYPE_CHECKING:
    from dlfh.collection import SyncResult
    from dlfh.datasets import Items

__all__ = ["Watch", "sync"]

#: A folder that is large is looked at less often: for this share of the time.
_BUSY_SHARE = 0.1
#: What goes on changing is taken as it is after so many looks.
_MOST_LOOKS = 10


@with_options(items=ItemOptions)
def sync(
    collection: Annotated[Path, typer.Argument(help="Folder of a collection.", show_default=False)],
    items: ItemOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Go on: look for changes until interrupted.")] = False,
    every: Annotated[float, typer.Option(help="With --watch, so many seconds between two looks.")] = 2.0,
    remove: Annotated[bool, typer.Option("--remove/--no-remove", help="Whether what is gone is removed.")] = True,
    max_removed: Annotated[float, typer.Option(help="The largest share of the items that may be removed.")] = 0.5,
    rehash: Annotated[
        bool, typer.Option("--rehash", help="Read every file, not only those whose size or times changed.")
    ] = False,
    problem_file: ProblemFile = None,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Make a collection equal to a folder or a table: add what is new, update what changed, remove what is gone.

    Only that is described: a picture with the same content as before keeps its codes, also under another name. Nothing
    is trained again. Stopped at any moment, it goes on from there. The collection can be searched meanwhile.

    [b]Examples[/b]

    $ dlfh sync shop/ PHOTOS/ --table items.csv --image file --text caption --labels tags

    $ dlfh sync shop/ PHOTOS/ --dry-run

    $ dlfh sync shop/ PHOTOS/ --watch
    """
    from dlfh._persistence.outputs import check_outputs
    from dlfh.cli.models import open_collection
    from dlfh.errors import DLFHError, InputError

    if not every > 0:
        raise InputError(f"--every takes a number of seconds, got {every:g}")
    if not 0 <= max_removed <= 1:
        raise InputError(f"--max-removed takes a share from 0 to 1, got {max_removed:g}")
    check_outputs([problem_file], [collection, *items.inputs()], overwrite=overwrite)
    verbose = shows_progress(quiet, as_json)
    named: list[Path] = []

    def once() -> SyncResult:
        with open_collection(collection, verbose=verbose) as opened:
            read = items.read(opened.encoder.modalities_, outputs=[problem_file])
            named[:] = _files(read)
            synced = opened.sync(read, remove=remove, max_removed=max_removed, dry_run=True, rehash=rehash)
        if synced.changed and not dry_run:  # only now nobody else may write
            with open_collection(collection, writable=True, verbose=verbose) as opened:
                synced = opened.sync(read, remove=remove, max_removed=max_removed)
        return synced

    def say(synced: SyncResult) -> None:
        counts = {name: value for name, value in asdict(synced).items() if name != "problems"}
        report(
            f"{collection}: {synced}" + (" (dry run: nothing was done)" if dry_run else ""),
            {"collection": str(collection), "dry_run": dry_run, **counts},
            synced.problems,
            as_json=as_json,
            problem_file=problem_file,
            overwrite=overwrite or watch,
        )
        sys.stdout.flush()

    looks = Watch(lambda: [*items.inputs(), *_images_in(items), *named], every) if watch else None
    if looks is not None:
        looks.look()  # before anything is read: what changes from here on is seen
    say(once())
    while looks is not None:
        looks.wait()
        try:
            synced = once()
            if synced.changed:
                say(synced)
        except DLFHError as error:  # a source that is away, or another writer, may be otherwise at the next look
            print(plain(f"dlfh: {error}"), file=sys.stderr, flush=True)
            looks.forget()


def _files(items: Items) -> list[Path]:
    lists = (values for values in items.modalities.values() if isinstance(values, list))
    return [value for values in lists for value in values if isinstance(value, Path)]


def _images_in(items: ItemOptions) -> Iterator[Path]:
    """Yield the images in the folder that items come from, and those that a table may come to name."""
    from dlfh.datasets.items import IMAGE_SUFFIXES

    source = items.source or items.table
    if source is None:
        return
    root = source if source.is_dir() else source.parent
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(folder, name) for name in files if name.lower().endswith(IMAGE_SUFFIXES))


class Watch:
    """Waits until files change and have come to rest.

    Parameters
    ----------
    files : function
        Returns the files to look at, whether they are there or not.
    every : float
        So many seconds between two looks.
    """

    def __init__(self, files: Callable[[], Iterable[Path | None]], every: float) -> None:
        self._files = files
        self._every = every
        self._seen: object = None
        self._took = 0.0

    def look(self) -> bool:
        """Look at the files; return whether anything changed since the last look."""
        began = time.perf_counter()
        before, self._seen = self._seen, hash(frozenset((path, _signs(path)) for path in self._files() if path))
        self._took = time.perf_counter() - began
        return before != self._seen

    def forget(self) -> None:
        """Let the next look see a change."""
        self._seen = None

    def wait(self) -> None:
        """Return when something changed, and then did not for a while."""
        self._sleep()
        while not self.look():
            self._sleep()
        for _ in range(_MOST_LOOKS):  # files that are being copied are half there
            self._sleep()
            if not self.look():
                return

    def _sleep(self) -> None:
        time.sleep(max(self._every, self._took / _BUSY_SHARE))


def _signs(path: Path) -> tuple[int, ...]:
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return ()
    return about.st_size, about.st_mtime_ns, about.st_ctime_ns, about.st_ino
