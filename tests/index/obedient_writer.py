"""A writer of an index that makes one change whenever it is told to, and says what came of it.

python -m tests.index.obedient_writer FOLDER

It reads a line and makes the next change; it prints one line of JSON for each: ``new`` or ``old``, which the index
holds now, and the sentence, if the change was refused.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from dlfh.errors import StorageError
from dlfh.index import Index
from tests.index.kill_writers import N_BITS, change, compile_kernels, contents
from tests.index.plain_index import MODALITIES, PlainIndex


def say(message: dict[str, Any]) -> None:
    """Print a message; try again if it is here that a system call was made to fail."""
    line = json.dumps(message).encode() + b"\n"
    for _ in range(1000):  # and not for ever: whoever listened may be gone
        with suppress(OSError):
            os.write(1, line)
            return
    sys.exit("nobody listens")


def main() -> None:
    compile_kernels()
    folder = Path(sys.argv[1])
    model = PlainIndex(N_BITS)
    number = 0
    with Index.create(folder, N_BITS, MODALITIES) as index:
        say({"ready": True})
        for _ in sys.stdin:
            after, sentence = model.copy(), ""
            try:
                change(number, after, index)
            except StorageError as error:
                sentence = str(error)
            except Exception:
                sentence = traceback.format_exc()
            found = contents(index)
            outcome = "new" if found == contents(after) else "old" if found == contents(model) else "neither"
            if outcome == "new":
                model, number = after, number + 1
            say({"outcome": outcome, "sentence": sentence, "number": number})


if __name__ == "__main__":
    main()
