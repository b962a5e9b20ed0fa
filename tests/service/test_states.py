"""A collection that changes while it is served: each response comes from one state, and no request fails."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from dlfh import Collection
from dlfh.datasets import Items
from dlfh.service.states import States
from tests.index.engines import Databases
from tests.service.conftest import serving


def change(folder: Path, step: int) -> str:
    """Add three items in one step; return the new state."""
    with Collection.open(folder, writable=True) as collection:
        ids = [f"step {step} of {number}" for number in range(3)]
        texts = [f"level stage{step}"] * 3
        collection.add(Items.of({"text": texts}, ids=ids))
        assert collection.index.state is not None
        return collection.index.state


def test_a_response_comes_from_one_state_during_changes(stripes_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stripes_folder, tmp_path / "stripes"))
    with Collection.open(folder) as collection:
        steps = {collection.index.state: -1}
    seen: list[Any] = []
    failures: list[Any] = []
    done = threading.Event()

    def ask(address: str) -> None:
        with httpx.Client(base_url=address, timeout=30, trust_env=False) as client:
            while not done.is_set():
                queries = [{"text": "level"}, {"text": "upright"}]
                response = client.post(
                    "/v1/search", json={"queries": queries, "k": 500, "modalities": "text", "match": "codes"}
                )
                (seen if response.status_code == 200 else failures).append(response)

    settings = "Settings(refresh_seconds=0.05)"
    with serving(folder, tmp_path / "log", settings=settings) as running:
        threads = [threading.Thread(target=ask, args=(running.address,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for step in range(7):
            time.sleep(0.05)
            last = change(folder, step)
            steps[last] = step
            until = time.monotonic() + 10
            while step % 2 == 0 and running.search(text="level")["state"] != last and time.monotonic() < until:
                time.sleep(0.05)
        done.set()
        for thread in threads:
            thread.join()
        assert running.search(text="level")["state"] == last  # the change was picked up
    assert not failures
    assert len(seen) > 20
    for response in seen:
        found = response.json()
        step = steps[found["state"]]  # a state that existed
        expected = {f"step {earlier} of {number}" for earlier in range(step + 1) for number in range(3)}
        for result in found["results"]:
            assert {item["id"] for item in result["answers"] if item["id"].startswith("step")} == expected
    assert len({response.json()["state"] for response in seen}) >= 4


def test_a_damaged_folder_keeps_the_last_state(stripes_folder: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stripes_folder, tmp_path / "stripes"))
    states = States(folder)
    before = states.current
    whole = (folder / "collection.json").read_bytes()
    (folder / "collection.json").write_bytes(b"{")
    for _ in range(2):
        try:
            states.refresh()
        except Exception as error:
            assert "damaged" in str(error)  # noqa: PT017
        else:
            raise AssertionError("nothing was said")
        assert states.current is before
    (folder / "collection.json").write_bytes(whole)
    assert not states.refresh()
    change(folder, 0)
    assert states.refresh()
    assert states.current is not before
    assert len(states.current.index) == len(before.index) + 3


def test_items_in_postgresql_are_served_and_changed(
    stripes_folder: Path, tmp_path: Path, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = databases.place("postgresql")
    monkeypatch.setenv("DLFH_ENGINES", address)
    with Collection.open(stripes_folder) as collection:
        collection.copy(tmp_path / "there", address=address).close()
        expected = collection.search("text", "level", 5).ids
    settings = "Settings(refresh_seconds=0.05)"
    with serving(tmp_path / "there", tmp_path / "log", settings=settings) as running:
        answers = running.search(text="level", k=5)["results"][0]["answers"]
        assert [item["id"] for item in answers] == expected
        filtered = running.search(text="level", k=100, where={"half": "first"})["results"][0]["answers"]
        assert {item["metadata"]["columns"]["half"] for item in filtered} == {"first"}
        assert len(running.client.get("/v1/map").json()["points"]) == len(collection_ids(tmp_path / "there"))
        before = running.client.get("/v1/collection").json()["state"]
        after = change(tmp_path / "there", 0)
        for _ in range(100):
            if running.client.get("/v1/collection").json()["state"] == after:
                break
            time.sleep(0.05)
        assert before != running.client.get("/v1/collection").json()["state"] == after
        assert running.client.get(f"/v1/items/{'step 0 of 1'}").json()["id"] == "step 0 of 1"


def collection_ids(folder: Path) -> list[str]:
    with Collection.open(folder) as collection:
        return collection.index.ids()
