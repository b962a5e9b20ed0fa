"""A process that changes an index on request.

python -m tests.index.obedient_writer

It reads commands, one per line, and answers each with a line of JSON. ``create FOLDER`` creates an index there. ``go``
makes the next change and answers with the outcome, ``new`` or ``old`` (the state of the index afterwards), the error
message if the change was refused, and the number of changes made so far.
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


def answer(message: dict[str, Any]) -> None:
    """Print a message; repeat the system call if it was made to fail."""
    line = json.dumps(message).encode() + b"\n"
    for _ in range(1000):  # not forever: the reader may be gone
        with suppress(OSError):
            os.write(1, line)
            return
    sys.exit("cannot answer")


def main() -> None:
    compile_kernels()
    index, model, number = Index(N_BITS, MODALITIES), PlainIndex(N_BITS), 0
    for line in sys.stdin:
        command, _, folder = line.strip().partition(" ")
        if command == "create":
            index.close()
            index, model, number = Index.create(Path(folder), N_BITS, MODALITIES), PlainIndex(N_BITS), 0
            answer({"ready": True})
            continue
        after, message = model.copy(), ""
        try:
            change(number, after, index)
        except StorageError as error:
            message = str(error)
        except Exception:
            message = traceback.format_exc()
        found = contents(index)
        outcome = "new" if found == contents(after) else "old" if found == contents(model) else "neither"
        if outcome == "new":
            model, number = after, number + 1
        answer({"outcome": outcome, "message": message, "number": number})


if __name__ == "__main__":
    main()
