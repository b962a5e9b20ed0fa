"""Changes over HTTP are visible and durable when their response arrives, atomic, and idempotent."""

from __future__ import annotations

import base64
import resource
import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from PIL import Image

from dlfh import Collection
from dlfh.collection.marks import read_marks
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
    assert writable.search(text="zebra", where={"colour": "white"})["results"][0]["answers"][0]["id"] == "z/1"


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
        ([{"id": "n1", "text": "a"}, {"id": "n2"}], "the item has no content"),
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


def files_of(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("pictures/*")}


def truncated(photos: Path) -> str:
    """Return the head of a picture: it has a size, but cannot be decoded."""
    return base64.b64encode((photos / "8.png").read_bytes()[:60]).decode()


def test_a_refused_picture_leaves_no_file_and_tells_no_path(writable: Running, folder: Path, photos: Path) -> None:
    before = files_of(folder)
    whole = base64.b64encode((photos / "9.png").read_bytes()).decode()
    for items, sentence in (
        ([{"id": "n1", "image": truncated(photos)}], "cannot be decoded"),
        ([{"id": "n1", "image": whole}, {"id": "n2", "image": truncated(photos)}], "cannot be decoded"),
        ([{"id": "n1", "image": whole}, {"id": "n2"}], "the item has no content"),
    ):
        response = writable.client.post("/v1/items", json={"items": items})
        assert response.status_code == 422
        assert sentence in response.json()["error"]
        assert str(folder) not in response.text
        assert "pictures" not in response.text
        assert files_of(folder) == before


def test_the_picture_of_a_skipped_item_is_not_stored(writable: Running, folder: Path, photos: Path) -> None:
    before = files_of(folder)
    item = {"id": "8.png", "image": base64.b64encode((photos / "10.png").read_bytes()).decode()}
    done = ok(writable.client.post("/v1/items", json={"items": [item], "update": False}))
    assert done["skipped"] == ["8.png"]
    assert files_of(folder) == before


def test_a_full_disk_is_reported_and_leaves_no_file(stripes_folder: Path, photos: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stripes_folder, tmp_path / "full"))
    (folder / "pictures").mkdir()
    picture = BytesIO()
    Image.effect_noise((400, 400), 90).save(picture, "PNG")  # more than 100 kB, and thus than the limit
    new = {"image": base64.b64encode(picture.getvalue()).decode()}
    settings = f"Settings(token={TOKEN!r}, writable=True)"
    with serving(folder, tmp_path / "log", token=TOKEN, settings=settings, pictures=photos) as running:
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (100_000, 100_000))
        response = running.client.put("/v1/items/large", json=new)
        assert (response.status_code, response.json()) == (503, {"error": "the image cannot be stored: File too large"})
        assert response.headers["retry-after"] == "5"
        assert not list((folder / "pictures").iterdir())
        assert ok(running.client.put("/v1/items/small", json={"text": "level"}))["added"] == 1


def test_a_missing_folder_is_not_another_writer(stripes_folder: Path, photos: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(stripes_folder, tmp_path / "moved"))
    with serving(folder, tmp_path / "log", "--writable", token=TOKEN, pictures=photos) as running:
        folder.rename(tmp_path / "elsewhere")
        response = running.client.put("/v1/items/late", json={"text": "level"})
    assert response.status_code == 503
    assert response.json() == {"error": "the collection cannot be read or changed at the moment"}


@pytest.mark.parametrize("name", ["two\nlines", "\n", "end\n", "\r\n\t", "a\u2028b", "\x00", "\x7f"])
def test_an_item_of_any_name_can_be_fetched_and_removed(writable: Running, name: str) -> None:
    address = f"/v1/items/{quote(name, safe='')}"
    assert ok(writable.client.post("/v1/items", json={"items": [{"id": name, "text": "level"}]}))["added"] == 1
    assert ok(writable.client.get(address))["id"] == name
    assert ok(writable.client.put(address, json={"text": "upright"}))["replaced"] == 1
    assert ok(writable.client.delete(address))["removed"] == 1
    assert writable.client.get(address).status_code == 404


def test_an_id_that_is_named_twice_is_removed_once(writable: Running) -> None:
    items = [{"id": name, "text": "level"} for name in ("one", "other")]
    before = ok(writable.client.post("/v1/items", json={"items": items}))["items"]
    done = ok(writable.client.post("/v1/remove", json={"ids": ["one", "other", "one"]}))
    assert (done["removed"], done["items"]) == (2, before - 2)


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


def put(writable: Running, name: str, **item: Any) -> None:
    ok(writable.client.put(f"/v1/items/{name}", json={"text": "level lines", **item}))


def fields(writable: Running, name: str) -> tuple[list[str], dict[str, Any]]:
    item = ok(writable.client.get(f"/v1/items/{name}"))
    return item["labels"], item["metadata"].get("columns", {})


def test_a_patch_changes_only_what_it_names(writable: Running) -> None:
    put(writable, "patched", labels=["level"], columns={"price": 5, "shelf": "a"})
    codes = ok(writable.client.get("/v1/items/patched"))["codes"]
    for change, expected in (
        ({"columns": {"price": 6}}, (["level"], {"price": 6, "shelf": "a"})),
        ({"columns": {"shelf": None, "new": True}}, (["level"], {"price": 6, "new": True})),
        ({"labels": ["upright", "upright"]}, (["upright"], {"price": 6, "new": True})),
        ({"labels": []}, ([], {"price": 6, "new": True})),
        ({"labels": ["level"]}, (["level"], {"price": 6, "new": True})),
        ({}, (["level"], {"price": 6, "new": True})),
    ):
        ok(writable.client.patch("/v1/items/patched", json=change))
        assert fields(writable, "patched") == expected
    assert ok(writable.client.get("/v1/items/patched"))["codes"] == codes
    assert writable.client.patch("/v1/items/none", json={}).status_code == 404
    assert writable.client.patch("/v1/items/patched", json={"text": "new"}).status_code == 422


def test_labels_are_added_and_removed_for_all_items_or_none(writable: Running) -> None:
    put(writable, "one", labels=["level"])
    put(writable, "two")
    done = ok(writable.client.post("/v1/label", json={"ids": ["one", "two"], "add": ["upright"], "remove": ["level"]}))
    assert (done["replaced"], done["added"], done["removed"]) == (2, 0, 0)
    again = ok(writable.client.post("/v1/label", json={"ids": ["one", "two"], "add": ["upright"]}))
    assert (again["replaced"], again["undo"]) == (0, None)
    assert [fields(writable, name)[0] for name in ("one", "two")] == [["upright"], ["upright"]]
    assert ok(writable.client.get("/v1/items/two"))["codes"]["text"]["learned"]
    response = writable.client.post("/v1/label", json={"ids": ["one", "three"], "add": ["level"]})
    assert (response.status_code, response.json()) == (404, {"error": "unknown item 'three'"})
    assert fields(writable, "one")[0] == ["upright"]


def test_every_change_can_be_undone(writable: Running) -> None:
    put(writable, "kept", labels=["level"], columns={"price": 5})
    before = ok(writable.client.get("/v1/items/kept"))
    for method, path, body in (
        ("DELETE", "/v1/items/kept", None),
        ("PATCH", "/v1/items/kept", {"columns": {"price": None}}),
        ("POST", "/v1/label", {"ids": ["kept"], "add": ["upright"]}),
        ("PUT", "/v1/items/kept", {"text": "another text"}),
        ("POST", "/v1/items", {"items": [{"id": "fresh", "text": "level"}, {"id": "kept", "text": "x"}]}),
    ):
        done = ok(writable.client.request(method, path, json=body))
        undone = ok(writable.client.post("/v1/undo", json={"undo": done["undo"]}))
        assert ok(writable.client.get("/v1/items/kept")) | {"state": ""} == before | {"state": ""}
        assert undone["items"] == done["items"] - done["added"] + done["removed"]
        again = writable.client.post("/v1/undo", json={"undo": done["undo"]})
        assert (again.status_code, again.json()) == (404, {"error": "this change cannot be undone any more"})
        redone = ok(writable.client.post("/v1/undo", json={"undo": undone["undo"]}))
        assert redone["items"] == done["items"]
        ok(writable.client.post("/v1/undo", json={"undo": redone["undo"]}))
    assert writable.client.get("/v1/items/fresh").status_code == 404


def test_a_change_is_not_undone_over_a_later_one(writable: Running) -> None:
    put(writable, "kept")
    first = ok(writable.client.patch("/v1/items/kept", json={"columns": {"price": 1}}))
    ok(writable.client.patch("/v1/items/kept", json={"columns": {"price": 2}}))
    response = writable.client.post("/v1/undo", json={"undo": first["undo"]})
    assert (response.status_code, response.json()) == (409, {"error": "item 'kept' has been changed since"})


def test_a_repeated_idempotency_key_changes_nothing_again(writable: Running) -> None:
    headers = {"idempotency-key": "4711"}
    item = {"items": [{"id": "single", "text": "level"}], "update": False}
    first = writable.client.post("/v1/items", json=item, headers=headers)
    again = writable.client.post("/v1/items", json=item, headers=headers)
    assert ok(first) == ok(again)
    assert ok(again)["added"] == 1
    other = writable.client.post("/v1/remove", json={"ids": ["single"]}, headers=headers)
    assert (other.status_code, other.json()) == (422, {"error": "this Idempotency-Key was used for another request"})
    too_long = writable.client.delete("/v1/items/single", headers={"idempotency-key": "k" * 201})
    assert too_long.status_code == 422
    assert ok(writable.client.delete("/v1/items/single"))["removed"] == 1


def test_marked_results_change_the_ranking(writable: Running) -> None:
    def ids(**marks: Any) -> list[str]:
        return [item["id"] for item in writable.search(text="stripes", k=40, **marks)["results"][0]["answers"]]

    before = ids()
    wrong = before[0]
    after = ids(irrelevant=[wrong])
    assert wrong not in after
    assert ids(relevant=["9.png"]) != before
    unknown = writable.client.post("/v1/search", json={"text": "stripes", "relevant": ["none"]})
    assert (unknown.status_code, "'none'" in unknown.json()["error"]) == (422, True)
    both = writable.client.post("/v1/search", json={"text": "stripes", "relevant": [wrong], "irrelevant": [wrong]})
    assert both.status_code == 422


def test_feedback_is_kept_and_replaced(writable: Running, folder: Path, photos: Path) -> None:
    def give(status: int = 200, **feedback: Any) -> Any:
        response = writable.client.post("/v1/feedback", json=feedback)
        assert response.status_code == status, response.text
        return response.json()

    state = writable.search(text="stripes")["state"]
    assert give(text="stripes", relevant=["9.png"], irrelevant=["8.png"]) == {"state": state, "queries": 1}
    key = ok(writable.client.post("/v1/queries/image", files={"image": (photos / "8.png").read_bytes()}))["key"]
    assert give(image=key, relevant=["9.png"])["queries"] == 2
    assert give(text="stripes", relevant=["10.png"])["queries"] == 2
    picture, words = read_marks(folder)
    assert (words.text, words.relevant, words.irrelevant) == ("stripes", ("10.png",), ())
    assert (picture.modality, picture.text, picture.relevant) == ("image", "", ("9.png",))
    for message, status, wrong in (
        ("unknown item 'none'", 404, {"text": "stripes", "relevant": ["9.png", "none"]}),
        ("exactly one of text, image and vector", 422, {"text": "stripes", "image": key}),
        ("both", 422, {"text": "stripes", "relevant": ["9.png"], "irrelevant": ["9.png"]}),
        ("empty", 422, {"text": "  ", "relevant": ["9.png"]}),
        ("modality", 422, {"text": "stripes", "modality": "sound", "relevant": ["9.png"]}),
        ("modality", 422, {"vector": [1.0], "modality": "sound", "relevant": ["9.png"]}),
        ("is not kept any more", 404, {"image": "0" * 32, "relevant": ["9.png"]}),
    ):
        assert message in give(status, **wrong)["error"]
    assert read_marks(folder) == [picture, words]
    headers = {"idempotency-key": "once"}
    for _ in range(2):
        response = writable.client.post("/v1/feedback", json={"text": "stripes"}, headers=headers)
        assert ok(response)["queries"] == 1
    assert [each.modality for each in read_marks(folder)] == ["image"]


def test_what_to_label_next_comes_with_suggestions(writable: Running) -> None:
    for number in range(3):
        put(writable, f"unlabelled {number}", text=f"level stripes {number}")
    found = ok(writable.client.get("/v1/label/next?n=2"))["items"]
    assert len(found) == 2
    assert all(item["labels"] == [] and item["title"] for item in found)
    labels = {each["label"] for item in found for each in item["suggestions"]}
    assert labels <= {"level", "upright"}
    assert writable.client.get("/v1/label/next?n=101").status_code == 422


def test_a_collection_learns_again_and_goes_on(writable: Running) -> None:
    put(writable, "taught", labels=["brand new"], text="brand new words")
    done = ok(writable.client.patch("/v1/items/taught", json={"columns": {"price": 1}}))
    learned = ok(writable.client.post("/v1/relearn"))
    assert learned["items"] == done["items"]
    found = writable.search(text="brand new", k=3)
    assert found["state"] == learned["state"] != done["state"]
    # Not always first: in 71 items, images without texts are calibrated apart from items with texts.
    assert "taught" in [answer["id"] for answer in found["results"][0]["answers"]]
    again = writable.client.post("/v1/undo", json={"undo": done["undo"]})
    assert again.status_code == 404  # its codes are those of the former model
    ok(writable.client.patch("/v1/items/taught", json={"columns": {"price": 2}}))
    assert fields(writable, "taught")[1] == {"price": 2}
