"""`dlfh sync`: keep a collection up to date with a folder or a table.

Changes are found by polling: file-system notifications are limited in number, and miss changes that other machines make
to a shared folder. A poll costs one system call per file.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dlfh._terminal import plain
from dlfh.cli.options import CollectionFolder, ItemOptions, OutputOptions, with_options
from dlfh.errors import DLFHError, InputError

if TYPE_CHECKING:
    from dlfh.collection.changing import SyncResult
    from dlfh.datasets import Items

#: Maximum share of the time spent polling; large folders are polled less often.
_MAX_BUSY_SHARE = 0.1
#: Number of polls after which files that keep changing are read as they are.
_MAX_POLLS = 10


@with_options(items=ItemOptions, options=OutputOptions)
def sync(
    collection: CollectionFolder,
    items: ItemOptions,
    options: OutputOptions,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Report the changes without applying them.")] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Keep running and apply changes as they happen.")] = False,
    interval: Annotated[float, typer.Option(help="Seconds between polls with --watch.")] = 2.0,
    remove: Annotated[
        bool, typer.Option("--remove/--no-remove", help="Whether to remove items that the source no longer has.")
    ] = True,
    max_removed: Annotated[float, typer.Option(help="Largest share of the items that may be removed at once.")] = 0.5,
    rehash: Annotated[
        bool, typer.Option("--rehash", help="Compare the content of every file, not just size and times.")
    ] = False,
) -> None:
    """Update a collection to match a folder or a table: add new items, update changed ones, remove missing ones.

    Features are computed for new content only; a renamed image keeps its codes. The model is not retrained. Searches
    continue to work meanwhile, and an interrupted sync can simply be run again.

    [b]Examples[/b]

    $ dlfh sync shop/ PHOTOS/ --table items.csv --image file --text caption --labels tags

    $ dlfh sync shop/ PHOTOS/ --dry-run

    $ dlfh sync shop/ PHOTOS/ --watch
    """
    from dlfh.cli.models import open_collection

    if not interval > 0:
        raise InputError(f"--interval must be positive, got {interval:g}")
    if not 0 <= max_removed <= 1:
        raise InputError(f"--max-removed must be between 0 and 1, got {max_removed:g}")
    options.check([collection, *items.inputs()])
    if watch:
        options = replace(options, overwrite=True)  # each round replaces the list of problems
    image_files: list[Path] = []

    def sync_once() -> SyncResult:
        with open_collection(collection, verbose=options.verbose) as opened:
            read = items.read(opened.encoder.modalities_, outputs=[options.problem_file])
            image_files[:] = _files(read)
            synced = opened.sync(read, remove=remove, max_removed=max_removed, dry_run=True, rehash=rehash)
        if synced.changed and not dry_run:  # take the write lock only now
            with open_collection(collection, writable=True, verbose=options.verbose) as opened:
                synced = opened.sync(read, remove=remove, max_removed=max_removed)
        return synced

    def report(synced: SyncResult) -> None:
        counts = {name: value for name, value in asdict(synced).items() if name != "problems"}
        options.report(
            f"{collection}: {synced}" + (" (dry run: nothing was changed)" if dry_run else ""),
            {"collection": str(collection), "dry_run": dry_run, **counts},
            synced.problems,
        )
        sys.stdout.flush()

    watcher = Watch(lambda: [*items.inputs(), *_images_in(items), *image_files], interval) if watch else None
    if watcher is not None:
        watcher.poll()  # before reading, so that later changes are noticed
    report(sync_once())
    while watcher is not None:
        watcher.wait()
        try:
            synced = sync_once()
            if synced.changed:
                report(synced)
        except DLFHError as error:  # a missing source or another writer may be temporary
            print(plain(f"dlfh: {error}"), file=sys.stderr, flush=True)
            watcher.reset()


def _files(items: Items) -> list[Path]:
    lists = (values for values in items.modalities.values() if isinstance(values, list))
    return [value for values in lists for value in values if isinstance(value, Path)]


def _images_in(items: ItemOptions) -> Iterator[Path]:
    """Yield the images in the source folder, including those that the table does not name yet."""
    from dlfh.datasets.image_files import IMAGE_SUFFIXES

    source = items.source or items.table
    if source is None:
        return
    root = source if source.is_dir() else source.parent
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(folder, name) for name in files if name.lower().endswith(IMAGE_SUFFIXES))


class Watch:
    """Waits until files have changed and are no longer changing.

    ``files`` returns the files to poll, whether or not they exist, every ``interval`` seconds.
    """

    def __init__(self, files: Callable[[], Iterable[Path | None]], interval: float) -> None:
        self._files = files
        self._interval = interval
        self._state: object = None
        self._poll_seconds = 0.0

    def poll(self) -> bool:
        """Poll the files and return whether any has changed since the last poll."""
        started = time.perf_counter()
        before, self._state = self._state, hash(frozenset((path, _signature(path)) for path in self._files() if path))
        self._poll_seconds = time.perf_counter() - started
        return before != self._state

    def reset(self) -> None:
        """Let the next poll report a change."""
        self._state = None

    def wait(self) -> None:
        """Return after a change, once the files have stopped changing."""
        self._sleep()
        while not self.poll():
            self._sleep()
        for _ in range(_MAX_POLLS):  # wait for files that are still being copied
            self._sleep()
            if not self.poll():
                return

    def _sleep(self) -> None:
        time.sleep(max(self._interval, self._poll_seconds / _MAX_BUSY_SHARE))


def _signature(path: Path) -> tuple[int, ...]:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return ()
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino
