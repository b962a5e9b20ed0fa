from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from PIL import Image

from dlfh.datasets import Items, Paired, make_paired, read_items
from tests.index.engines import Databases

gc.set_threshold(100_000, 50, 100)  # thousands of collected tests make full collections slow
os.environ.setdefault("DLFH_CACHE", "off")  # tests must not touch the user's cache

#: `make nightly` tries more examples, and other ones each time.
settings.register_profile(
    "default", deadline=None, max_examples=25, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.register_profile("nightly", settings.get_profile("default"), max_examples=200, derandomize=False)
settings.load_profile("default")


SKIPPED_BY_DEFAULT = {
    "cluster": "starts a Dask cluster of processes: make test-cluster",
    "docs": "runs the snippets of the docs: make test-docs",
    "data": "needs data that is not part of the project: make test-data DLFH_DATA=...",
    "faults": "kills database servers: make test-engines",
    "fuzz": "takes minutes: make fuzz N=2000",
    "site": "builds the documentation site: make test-site",
    "notebooks": "takes minutes: make test-notebooks",
    "package": "builds and installs the package: make test-package",
    "milvus": "tests the embedded Milvus: make test-engines",
    "slow": "takes long: make test-slow",
    "kill": "takes minutes: pytest -m kill (DLFH_KILLS=1000)",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    selected = config.getoption("-m") or ""
    for marker, reason in SKIPPED_BY_DEFAULT.items():
        if marker not in selected:
            for item in items:
                if item.get_closest_marker(marker):  # not keywords, which include folder names
                    item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("DLFH_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("DLFH_DATA does not name a folder")
    return Path(folder)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the installed browser."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("Chromium is not installed")
    return browser


@pytest.fixture(scope="session")
def databases(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[Databases]:
    """Databases that all tests share, with one PostgreSQL server for all processes."""
    root = tmp_path_factory.getbasetemp()
    with ExitStack() as stack:
        shared = (root if worker_id == "master" else root.parent) / "postgres"
        yield Databases(tmp_path_factory.mktemp("databases"), shared, stack)


@pytest.fixture(scope="session")
def paired() -> tuple[Paired, Paired]:
    """Training and test points with planted structure."""
    return make_paired(n_points=700, n_labels=8, random_state=1).split(test_size=100)


def stripes(angle: int, seed: int) -> Image.Image:
    """Draw stripes in one of two directions, with noise."""
    y, x = np.mgrid[:32, :32]
    wave = np.sin((x if angle == 0 else y) * 0.8 + seed)
    noise = np.random.default_rng(seed).normal(0, 0.1, (32, 32))
    return Image.fromarray(np.uint8(np.clip(127 + 100 * (wave + noise), 0, 255)))


@pytest.fixture(scope="session")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_photos(tmp_path_factory.mktemp("photos"))


def draw_photos(folder: Path) -> Path:
    """Draw forty pictures of two kinds and a table that describes them; some are broken."""
    rows = ["file,caption,tags"]
    for number in range(40):
        kind = ("upright", "level")[number % 2]
        stripes(number % 2, number).save(folder / f"{number}.png")
        rows.append(f"{number}.png,{kind} stripes {number},{kind}")
    (folder / "3.png").write_bytes((folder / "3.png").read_bytes()[:60])
    (folder / "4.png").write_bytes(b"not an image")
    rows[6] = "5.png,,level"
    rows[8] = "7.png,level stripes seven,"
    (folder / "items.csv").write_text("\n".join(rows), encoding="utf-8")
    return folder


@pytest.fixture
def items(photos: Path) -> Items:
    return read_items(photos / "items.csv", image="file", text="caption", labels="tags")
