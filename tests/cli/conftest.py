from __future__ import annotations

from pathlib import Path

import pytest

from dlfh.cli import main

COLUMNS = ["--image", "file", "--text", "caption", "--labels", "tags"]


@pytest.fixture(scope="module")
def shop(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "shop"
    assert main(["build", str(photos / "items.csv"), *COLUMNS, "-o", str(folder), "-b", "16", "-q"]) == 0
    return folder
