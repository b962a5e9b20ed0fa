"""What a case is, and what a target does with it."""

from __future__ import annotations

import io
import random
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["CORPUS", "Case", "ChangedError", "Target", "packed", "unpacked"]

#: Files that once broke something, and small ones to start from: a folder for each format.
CORPUS = Path(__file__).parent / "corpus"


class ChangedError(Exception):
    """Damage was not seen, and what was read is not what was written."""


@dataclass(frozen=True)
class Case:
    """Files by name, and whether checksums were made to fit what was changed."""

    files: dict[str, bytes]
    signed: bool = False

    def write(self, folder: Path) -> None:
        for name, content in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


@dataclass(frozen=True)
class Target:
    """A format: how a case is made, and what is done with it.

    Attributes
    ----------
    name : str
    make : function of a random generator
    use : function of a case and an empty folder
        Raises an error of the library where it refuses, and ChangedError where it should have.
    prepare : function
        Called once, before workers are forked: what it computes, all of them have.
    seconds, megabytes : float
        What a case may take.
    """

    name: str
    make: Callable[[random.Random], Case]
    use: Callable[[Case, Path], None]
    prepare: Callable[[], None] = lambda: None
    seconds: float = 5.0
    megabytes: float = 300.0

    def case(self, seed: int) -> Case:
        """Return a case: the same for the same seed. What cannot be written down is drawn again."""
        rng = random.Random(f"{self.name} {seed}")
        for _ in range(20):
            with suppress(Exception):
                return self.make(rng)
        return self.make(rng)

    def run(self, case: Case, folder: Path) -> None:
        self.use(case, folder)

    def corpus(self) -> list[Path]:
        """Return the files of this format that are kept."""
        folder = CORPUS / self.name
        return sorted(folder.iterdir()) if folder.is_dir() else []


def packed(case: Case) -> bytes:
    """Return a case as one file: a zip archive, that says whether it is signed."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = b"signed" if case.signed else b""
        for name, data in sorted(case.files.items()):
            archive.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def unpacked(path: Path) -> Case:
    """Return the case that a file of the corpus holds."""
    with zipfile.ZipFile(path) as archive:
        return Case({name: archive.read(name) for name in archive.namelist()}, archive.comment == b"signed")
