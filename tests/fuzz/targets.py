"""Every format that is read, by name."""

from __future__ import annotations

from tests.fuzz.cases import Target
from tests.fuzz.data_files import DATA_FILES
from tests.fuzz.own_files import OWN_FILES

__all__ = ["TARGETS"]

TARGETS: dict[str, Target] = {target.name: target for target in (*DATA_FILES, *OWN_FILES)}
