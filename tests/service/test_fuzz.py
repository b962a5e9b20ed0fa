"""Fuzz tests: damaged requests, and requests generated from the OpenAPI description."""

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

#: Number of damaged requests, and of generated requests per endpoint.
N_DAMAGED = int(os.environ.get("DLFH_REQUESTS", "200"))
N_DESCRIBED = int(os.environ.get("DLFH_EXAMPLES", "8"))


@pytest.fixture(scope="module")
def writable(stripes_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    place = tmp_path_factory.mktemp("fuzzed")
    folder = Path(shutil.copytree(stripes_folder, place / "stripes"))
    with serving(folder, place / "log", token=TOKEN, settings=SETTINGS) as running:
        yield running


def test_damaged_requests_cause_no_failure(writable: Running) -> None:
    report = fuzz(writable, N_DAMAGED, first=0)
    assert not report.findings, report.findings[:5]
    assert report.statuses["200"] > 0.02 * N_DAMAGED  # some remain valid
    assert report.statuses["422"] > 0.1 * N_DAMAGED


@pytest.mark.slow
def test_generated_requests_cause_no_failure(writable: Running) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    schema = schemathesis.openapi.from_dict(writable.client.get("/openapi.json").json())
    schema.config.update(base_url=writable.address.rstrip("/"))
    operations = [result.ok() for result in schema.get_all_operations()]  # type: ignore[union-attr]
    assert len(operations) > 10

    statuses: set[int] = set()

    def send_requests(operation: Any) -> None:
        @given(st.data())
        @settings(
            max_examples=N_DESCRIBED,
            deadline=None,
            database=None,
            derandomize=True,
            phases=[Phase.generate],
            suppress_health_check=[*HealthCheck],
        )
        def send(data: st.DataObject) -> None:
            mode = data.draw(st.sampled_from([*schemathesis.GenerationMode]))
            case = data.draw(operation.as_strategy(generation_mode=mode))
            response = case.call(headers=headers)
            statuses.add(response.status_code)
            assert response.status_code < 500, (operation.label, response.status_code, response.text)

        send()

    for operation in operations:
        send_requests(operation)
    assert {200, 422} <= statuses
