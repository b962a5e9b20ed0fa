"""Servers that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.index.engines import postgres_server


@pytest.fixture(scope="session")
def postgres(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    """The address of a server of PostgreSQL: one for all processes that test."""
    root = tmp_path_factory.getbasetemp()
    with postgres_server((root if worker_id == "master" else root.parent) / "postgres") as address:
        yield address
