"""Kill syncs repeatedly, and check the result of the next one.

python -m tests.collection.kill_syncs FOLDER KILLS SEED

The folder changes at random: pictures come, go, change, change places, are touched. A forked child syncs, and is killed
(SIGKILL): by its parent after a random time, or by itself before a random system call. Then a sync that runs to its end
must make the collection equal to the folder, to the last bit of every code, and must not describe any picture or text
that the killed ones left a code of.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from dlfh import Collection, Encoder
from dlfh.collection import changing
from dlfh.collection.contents import content_hash
from dlfh.datasets import Items, read_items
from dlfh.features import BagOfWords
from dlfh.features.combined import Thumbnail
from tests.collection.folders import assert_equal, draw, make_folder, plain_model
from tests.index.kill_writers import kill_self_at

KINDS = ("upright", "level")
MOST_FILES = 40


def change(photos: Path, number: int, rng: np.random.Generator) -> None:
    """Change a few files of the folder."""
    for step in range(int(rng.integers(3, 12))):
        files = sorted(photos.rglob("*.png"))
        file = files[rng.integers(len(files))]
        new = photos / str(rng.choice(KINDS)) / f"{number} {step}.png"
        kind = str(rng.choice(["add", "add", "change", "remove", "move", "swap", "copy", "touch"]))
        if kind == "add":
            draw(new, int(rng.integers(1 << 30)), new.parent.name == "level")
        elif kind == "change":
            draw(file, int(rng.integers(1 << 30)), file.parent.name == "level")
        elif kind == "move":
            file.rename(new)
        elif kind == "copy" and len(files) < MOST_FILES:
            new.write_bytes(file.read_bytes())
        elif kind == "swap":
            other = files[rng.integers(len(files))]
            mine, theirs = file.read_bytes(), other.read_bytes()
            file.write_bytes(theirs)
            other.write_bytes(mine)
        elif kind == "touch":
            os.utime(file)
        elif len(files) > 5:
            file.unlink()
    for file in sorted(photos.rglob("*.png"))[MOST_FILES:]:
        file.unlink()


def sync(folder: Path) -> None:
    with Collection.open(folder / "shop", writable=True) as collection:
        collection.sync(read_items(folder / "photos"), max_removed=1)


def killed_sync(folder: Path, rng: np.random.Generator) -> bool:
    """Start a sync and kill it; return whether it finished before."""
    call = int(rng.integers(1, 120)) if rng.random() < 0.7 else None
    child = os.fork()
    if child == 0:
        try:
            if call is not None:
                kill_self_at(call)
            sync(folder)
        finally:
            os._exit(0)
    if call is None:
        time.sleep(float(rng.uniform(0, 0.15)))
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    return not os.WIFSIGNALED(status)


def known(folder: Path) -> set[tuple[str, str]]:
    """Return the contents that the collection has codes of."""
    with Collection.open(folder / "shop") as collection:
        return {
            (name, changing._content(item.metadata or {}, name))
            for item in collection.index.items()
            for name in ("image", "text")
            if name in item.codes
        }


def described(folder: Path) -> set[tuple[str, str]]:
    """Finish a sync; return the contents whose features were computed."""
    seen: set[tuple[str, str]] = set()
    real = Encoder.featurize_items

    def describe(encoder: Encoder, items: Items) -> Any:
        seen.update(("image", content_hash(value)) for value in items.modalities["image"] if value is not None)
        seen.update(("text", value) for value in items.modalities["text"] if value is not None)
        return real(encoder, items)

    Encoder.featurize_items = describe  # type: ignore[assignment, method-assign]
    try:
        sync(folder)
    finally:
        Encoder.featurize_items = real  # type: ignore[method-assign]
    return seen


def main() -> None:
    folder, kills, rng = Path(sys.argv[1]), int(sys.argv[2]), np.random.default_rng(int(sys.argv[3]))
    make_folder(folder / "photos", 20)
    encoder = Encoder({"image": Thumbnail(4), "text": BagOfWords()}, plain_model())
    Collection.build(folder / "shop", read_items(folder / "photos"), encoder).collection.close()
    sync(folder)
    changing._BLOCK = 3  # several steps per sync
    counts: Counter[str] = Counter({"described": 0, "described twice": 0})
    for number in range(kills):
        change(folder / "photos", number, rng)
        before = known(folder)
        counts["came to their end before"] += killed_sync(folder, rng)
        counts["kills"] += 1
        after = known(folder)
        counts["partly done"] += before != after
        new = described(folder)
        counts["described"] += len(new)
        counts["described twice"] += len(new & after)
        assert_equal(folder / "shop", folder / "photos")
        assert not described(folder)
    print(json.dumps(counts))


if __name__ == "__main__":
    main()
