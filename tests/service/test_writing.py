"""Changes over HTTP are visible and durable when their response arrives, atomic, and idempotent."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dlfh import Collection
from tests.service.conftest import TOKEN, Running, serving


@pytest.fixture(scope="module")
def folder(stripes_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(stripes_folder, tmp_path_factory.mktemp("changed") / "stripes"))


@pytest.fixture(scope="module")
def writable(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    log = tmp_path_factory.mktemp("log") / "log"
    with serving(folder, log, "--writable", token=TOKEN) as running:
        yield running


def ok(response: httpx.Response) -> Any:
    assert response.status_code == 200, response.text
    return response.json()


def test_a_new_item_is_found_immediately_and_by_other_processes(writable: Running, folder: Path, photos: Path) -> None:
    picture = base64.b64encode((photos / "8.png").read_bytes()).decode()
    new = {"text": "zebra crossing", "image": picture, "labels": ["upright"], "columns": {"colour": "white"}}
    before = ok(writable.client.get("/v1/collection"))["items"]
    first = ok(writable.client.put("/v1/items/z%2F1", json=new))
    assert (first["items"], first["added"], first["replaced"]) == (before + 1, 1, 0)
    found = writable.search(text="zebra", match="words")
    assert found["state"] == first["state"]
    answer = found["results"][0]["answers"][0]
    assert (answer["id"], answer["labels"], answer["learned"]) == ("z/1", ["upright"], True)
    assert answer["metadata"]["columns"] == {"colour": "white"}
    assert writable.client.get(answer["thumbnail"]).headers["content-type"] == "image/webp"
    with Collection.open(folder) as collection:
        assert collection.index.state == first["state"]
        assert "z/1" in collection
    assert writable.search(text="x", where={"colour": "white"})["results"][0]["answers"][0]["id"] == "z/1"


def test_putting_an_item_is_idempotent(writable: Running) -> None:
    new = {"text": "level lines", "labels": ["level"]}
    first = ok(writable.client.put("/v1/items/twice", json=new))
    item = ok(writable.client.get("/v1/items/twice"))
    again = ok(writable.client.put("/v1/items/twice", json=new))
    assert (again["items"], again["added"], again["replaced"]) == (first["items"], 0, 1)
    assert ok(writable.client.get("/v1/items/twice")) | {"state": ""} == item | {"state": ""}


def test_a_removed_item_is_unknown(writable: Running) -> None:
    ok(writable.client.put("/v1/items/brief", json={"text": "level"}))
    assert ok(writable.client.delete("/v1/items/brief"))["removed"] == 1
    assert writable.client.get("/v1/items/brief").status_code == 404
    again = writable.client.delete("/v1/items/brief")
    assert (again.status_code, again.json()) == (404, {"error": "unknown item 'brief'"})


@pytest.mark.parametrize(
    ("items", "sentence"),
    [
        ([{"id": "n1", "text": "a"}, {"id": "n2"}], "nothing describes the item"),
        ([{"id": "n1", "text": "a"}, {"id": "n1", "text": "b"}], "duplicate id 'n1' in rows 0 and 1"),
        ([{"id": "n1", "text": "a"}, {"id": "n2", "image": "????"}], "not in base64"),
        ([{"id": "n1", "text": "a"}, {"id": "n2", "image": "aGVsbG8="}], "the image cannot be read"),
        ([{"id": "n1", "texts": {"image": "/etc/passwd"}}], "modality 'image' does not take texts"),
        ([{"id": "n1", "text": "a", "vectors": {"text": [1]}}], "'text' takes texts, not vectors"),
        ([{"id": "n1", "text": "a", "metadata": {"image": "/etc/passwd"}}], "extra inputs are not permitted"),
        ([{"id": "", "text": "a"}], "id: string should have at least 1 character"),
    ],
)
def test_items_are_added_together_or_not_at_all(writable: Running, items: list[Any], sentence: str) -> None:
    before = ok(writable.client.get("/v1/collection"))
    response = writable.client.post("/v1/items", json={"items": items})
    assert response.status_code == 422
    assert sentence in response.json()["error"]
    assert ok(writable.client.get("/v1/collection"))["state"] == before["state"]


def test_a_batch_is_added_in_one_step(writable: Running) -> None:
    items = [{"id": f"many {number}", "text": f"upright {number}"} for number in range(20)]
    before = ok(writable.client.get("/v1/collection"))["items"]
    done = ok(writable.client.post("/v1/items", json={"items": items}))
    assert (done["added"], done["items"]) == (20, before + 20)


def test_a_change_conflicts_with_another_writer(writable: Running, folder: Path) -> None:
    with Collection.open(folder, writable=True):
        response = writable.client.put("/v1/items/late", json={"text": "level"})
    assert response.status_code == 409
    assert response.headers["retry-after"] == "1"
    assert "another process is changing the collection" in response.json()["error"]
    assert ok(writable.client.put("/v1/items/late", json={"text": "level"}))["added"] == 1


def test_changes_need_the_token(writable: Running) -> None:
    with httpx.Client(base_url=writable.address, trust_env=False) as client:
        assert client.put("/v1/items/a", json={"text": "level"}).status_code == 401
        assert client.delete("/v1/items/8.png").status_code == 401
