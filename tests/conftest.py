from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dlfh.datasets import Paired, make_paired

settings.register_profile(
    "default", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)
settings.load_profile("default")


SKIPPED_UNLESS_ASKED_FOR = {
    "data": "needs data that does not come with the project: make test-data DLFH_DATA=...",
    "kill": "takes minutes: pytest -m kill (DLFH_KILLS=1000)",
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    asked = config.getoption("-m") or ""
    for marker, reason in SKIPPED_UNLESS_ASKED_FOR.items():
        if marker not in asked:
            for item in items:
                if marker in item.keywords:
                    item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session")
def data_folder() -> Path:
    folder = os.environ.get("DLFH_DATA", "")
    if not folder or not Path(folder).is_dir():
        pytest.skip("DLFH_DATA does not name a folder")
    return Path(folder)


@pytest.fixture(scope="session")
def paired() -> tuple[Paired, Paired]:
    """Training and test points with planted structure."""
    return make_paired(n_points=700, n_labels=8, random_state=1).split(test_size=100)
