"""Damaged requests, and what the description of the service allows: no failure, no growth, nobody waits too long."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.service.conftest import TOKEN, Running, serving
from tests.service.fuzzing import SETTINGS, fuzz

#: How many damaged requests, and how many for each endpoint by its description.
N_DAMAGED = int(os.environ.get("DLFH_REQUESTS", "200"))
N_DESCRIBED = int(os.environ.get("DLFH_EXAMPLES", "8"))


@pytest.fixture(scope="module")
def writable(stripes_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("fuzzed")
    folder = Path(shutil.copytree(stripes_folder, place / "stripes"))
    with serving(folder, place / "log", token=TOKEN, settings=SETTINGS) as running:
        yield running


def test_damaged_requests_are_refused_and_nothing_else_happens(writable: Running) -> None:
    report = fuzz(writable, N_DAMAGED, first=0)
    assert not report.findings, report.findings[:5]
    assert report.statuses["200"] > 0.02 * N_DAMAGED  # some are whole enough to get to the end
    assert report.statuses["422"] > 0.1 * N_DAMAGED


def test_nothing_that_the_description_allows_fails(writable: Running) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    schema = schemathesis.openapi.from_dict(writable.client.get("/openapi.json").json())
    schema.config.update(base_url=writable.address.rstrip("/"))
    operations = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]
    assert len(operations) > 10

    asked: set[int] = set()

    def ask_all(operation: Any) -> None:
        @given(st.data())
        @settings(
            max_examples=N_DESCRIBED,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=[*HealthCheck],
        )
        def ask(data: st.DataObject) -> None:
            mode = data.draw(st.sampled_from([*schemathesis.GenerationMode]))
            case = data.draw(operation.as_strategy(generation_mode=mode))
            response = case.call(headers=headers)
            asked.add(response.status_code)
            assert response.status_code < 500, (operation.label, response.status_code, response.text)

        ask()

    for operation in operations:
        ask_all(operation)
    assert {200, 422} <= asked
