"""The endpoints return the same results as the collection; errors have a status and a message."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import numpy as np
import pytest
from PIL import Image

from dlfh import DLFH, Collection, Encoder
from dlfh.cli import main
from dlfh.datasets import Items
from dlfh.features import BagOfWords
from dlfh.features.combined import Thumbnail
from tests.service.conftest import AWKWARD, TOKEN, Running, memory_of, serving


def answers(found: Any) -> list[dict[str, Any]]:
    (result,) = found["results"]
    items: list[dict[str, Any]] = result["answers"]
    return items


def shown(found: Any) -> list[tuple[Any, ...]]:
    """Return the results of a collection with the fields of the service."""
    return [
        (
            item.rank,
            item.id,
            item.probability,
            item.hamming_distance,
            item.distance,
            item.n_equal,
            item.learned,
            item.code,
        )
        for item in found
    ]


def served(found: Any) -> list[tuple[Any, ...]]:
    names = ("rank", "id", "probability", "hamming_distance", "distance", "n_equal", "learned", "code")
    return [tuple(item[name] for name in names) for item in answers(found)]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"k": 3, "modalities": "image"},
        {"match": "words"},
        {"modalities": "all", "hashed_only": True},
        {"min_probability": 0.6},
        {"ranking": "any", "modalities": ("image", "text")},
    ],
)
def test_a_text_finds_what_the_collection_finds(
    service: Running, stripes_folder: Path, options: dict[str, Any]
) -> None:
    with Collection.open(stripes_folder) as collection:
        found = collection.search("text", "level stripes", **options)
        assert served(service.search(text="level stripes", **options)) == shown(found)
        assert service.search(text="level stripes", **options)["results"][0]["query"]["code"] == found.code


def test_an_image_finds_what_the_collection_finds(service: Running, stripes_folder: Path, photos: Path) -> None:
    content = (photos / "8.png").read_bytes()
    response = service.client.post("/v1/search/image", files={"image": content}, data={"options": '{"k": 4}'})
    with Collection.open(stripes_folder) as collection:
        assert served(response.json()) == shown(collection.search("image", photos / "8.png", 4))


def test_an_item_finds_similar_items(service: Running, stripes_folder: Path) -> None:
    with Collection.open(stripes_folder) as collection:
        assert served(service.search(id="8.png", k=5)) == shown(collection.similar("8.png", 5))


def test_a_vector_finds_what_its_text_finds(service: Running, stripes_folder: Path) -> None:
    with Collection.open(stripes_folder) as collection:
        vector = collection.encoder.featurize("text", ["level"]).toarray()[0].tolist()
    options = {"modalities": "image", "ranking": "asymmetric"}  # only a text names labels
    by_text = service.search(text="level", match="codes", **options)
    assert served(service.search(vector=vector, modality="text", **options)) == served(by_text)


def test_a_code_finds_what_the_index_finds(service: Running, stripes_folder: Path) -> None:
    with Collection.open(stripes_folder) as collection:
        code = collection.get("8.png").codes["image"]
        hits = collection.index.search("image", code[None], 25)
    found = answers(service.search(code=code.tobytes().hex(), k=25, modalities="image"))
    assert [item["id"] for item in found] == hits.ids[0]
    assert [item["distance"] for item in found] == hits.distances[0].tolist()
    assert found[-1]["n_equal"] is None  # further items may be at the same distance
    assert found[0]["n_equal"] == np.count_nonzero(hits.distances[0] == hits.distances[0, 0])


def test_a_batch_is_answered_in_its_order(service: Running) -> None:
    queries = [{"text": "level"}, {"id": "8.png"}, {"text": "upright"}, {"code": "0" * 6}]
    together = service.search(queries=queries, k=4)
    assert [result["query"]["by"] for result in together["results"]] == ["text", "id", "text", "code"]
    for query, result in zip(queries, together["results"], strict=True):
        assert service.search(**query, k=4)["results"] == [result]


def test_filters_select_matching_items(service: Running) -> None:
    everything = answers(service.search(text="stripes", k=100, modalities="all"))
    for where, has in (
        ({"labels": "level"}, lambda item: "level" in item["labels"]),
        ({"labels": ["level", "upright"]}, lambda item: item["labels"]),
        ({"parity": 1, "half": ["first"]}, lambda item: item["metadata"]["columns"] == {"parity": 1, "half": "first"}),
        ({"parity": "1"}, lambda item: False),
        ({"parity": {"<": 1}}, lambda item: item["metadata"]["columns"]["parity"] == 0),
        ({"labels": None}, lambda item: not item["labels"]),
        ({"labels": {"all": ["level"]}}, lambda item: "level" in item["labels"]),
        ({"labels": {"all": ["level", "upright"]}}, lambda item: False),
        (
            {"LABELS": "LEVEL", "half": {"!=": "FIRST"}},
            lambda item: "level" in item["labels"] and item["metadata"]["columns"]["half"] == "second",
        ),
        (
            {"or": [{"half": {"!=": "first"}}, {"not": {"parity": {"in": [1]}}}]},
            lambda item: item["metadata"]["columns"] != {"parity": 1, "half": "first"},
        ),
    ):
        found = answers(service.search(text="stripes", k=100, where=where, modalities="all"))
        assert [item["id"] for item in found] == [item["id"] for item in everything if has(item)]
    of_first_half = {item["id"] for item in everything if item["metadata"]["columns"]["half"] == "first"}
    for query in ({"id": "8.png"}, {"code": "0" * 6}):
        found = answers(service.search(**query, k=100, where={"half": "first"}, modalities="text"))
        assert {item["id"] for item in found} <= of_first_half
        assert len(found) > 10


def test_pages_are_parts_of_the_whole_result(service: Running) -> None:
    everything = answers(service.search(text="level stripes", k=30))
    pages = [answers(service.search(text="level stripes", start=start, k=12)) for start in (0, 12, 24)]
    assert [item for page in pages for item in page][:30] == everything
    assert answers(service.search(text="level stripes", start=500, k=12)) == []
    response = service.client.post("/v1/search", json={"text": "level", "start": 995, "k": 10})
    assert (response.status_code, response.json()["error"]) == (422, "k, plus start if it is set, must be at most 1000")


@pytest.mark.parametrize("options", [{}, {"where": {"half": "first"}}, {"min_probability": 0.3}])
def test_facets_count_the_values_of_the_results(service: Running, options: dict[str, Any]) -> None:
    everything = answers(service.search(text="level", k=1000, **options))
    result = service.search(text="level", k=2, facets=True, **options)["results"][0]
    assert len(result["answers"]) == 2
    assert result["facets"]["counted"] == len(everything)
    for name, values in result["facets"]["values"].items():
        assert values
        for each in values:
            having = [
                item
                for item in everything
                if each["value"] in (item["labels"] if name == "labels" else [item["metadata"]["columns"][name]])
            ]
            assert each["count"] == len(having) > 0
            assert each["likely"] == sum(item["probability"] >= 0.5 for item in having)
    assert service.search(text="level", **options)["results"][0]["facets"] is None


def test_labels_and_titles_complete_a_text(service: Running) -> None:
    found = service.client.get("/v1/complete", params={"q": "LE"}).json()["completions"]
    assert found[0] == {"text": "level", "kind": "label", "count": 19}
    assert found[1] == {"text": "level stripes 1", "kind": "name", "id": "1.png"}
    assert len(found) == 10
    (only,) = service.client.get("/v1/complete", params={"q": "stripes seven"}).json()["completions"]
    assert (only["text"], only["id"]) == ("level stripes seven", "7.png")
    assert service.client.get("/v1/complete", params={"q": "zebra"}).json()["completions"] == []
    assert service.client.get("/v1/complete").status_code == 422


def test_unknown_words_produce_a_warning(service: Running) -> None:
    (known,), (unknown,) = (service.search(text=text)["results"] for text in ("level", "xylophone"))
    assert known["warning"] is None
    assert "None of these words occur in the collection: xylophone" in unknown["warning"]


def test_an_empty_result_is_a_success(service: Running) -> None:
    assert answers(service.search(text="level", min_probability=0.999999)) == []


def test_an_item_does_not_reveal_image_paths(service: Running) -> None:
    item = service.client.get("/v1/items/8.png").json()
    assert item["labels"] == ["upright"]
    assert item["metadata"] == {"text": "upright stripes 8", "columns": {"parity": 0, "half": "first"}}
    assert set(item["codes"]) == {"image", "text"}
    assert item["thumbnail"] == "/v1/items/8.png/thumbnail"


def test_an_item_has_a_title_and_an_entity_tag(service: Running) -> None:
    first = service.client.get("/v1/items/8.png")
    assert first.json()["title"] == "upright stripes 8"
    assert answers(service.search(id="6.png", k=1))[0]["title"].startswith("upright stripes")
    assert service.client.get("/v1/items/5.png").json()["title"] == "5.png"
    again = service.client.get("/v1/items/8.png", headers={"if-none-match": f'"other", {first.headers["etag"]}'})
    assert (again.status_code, again.content) == (304, b"")
    other = service.client.get("/v1/items/9.png", headers={"if-none-match": first.headers["etag"]})
    assert other.status_code == 200


def test_original_images_are_not_offered_by_default(service: Running) -> None:
    assert service.client.get("/v1/items/8.png/image").status_code == 403
    assert service.client.get("/v1/items/8.png/thumbnail?size=1024").status_code == 200
    assert service.client.get("/v1/items/8.png/thumbnail?size=4000").status_code == 422


def test_a_thumbnail_is_a_small_cacheable_image(service: Running) -> None:
    first = service.client.get("/v1/items/8.png/thumbnail")
    image = Image.open(BytesIO(first.content))
    assert (first.headers["content-type"], image.format, image.size) == ("image/webp", "WEBP", (32, 32))
    again = service.client.get("/v1/items/8.png/thumbnail", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_the_collection_is_described(service: Running, stripes_folder: Path) -> None:
    about = service.client.get("/v1/collection").json()
    assert (about["name"], about["items"], about["bits"], about["method"]) == ("stripes", 40, 20, "DLFH")
    assert about["calibrated"]
    assert not about["writable"]
    assert about["modalities"]["image"]["takes"] == "images"
    assert {"value": "second", "count": 20} in about["filters"]["half"]
    assert {value["value"] for value in about["filters"]["labels"]} == {"level", "upright"}
    assert {(row["query"], row["database"]) for row in about["quality"]} == {("image", "text"), ("text", "image")}
    assert all(row["chance"] < row["hamming"] <= 1 for row in about["quality"])
    kinds = {row["query"] for row in about["calibration"]}
    assert kinds >= {"image", "text: names of labels"}


def test_the_map_is_complete_and_deterministic(service: Running) -> None:
    drawn, again = (service.client.get("/v1/map").json() for _ in range(2))
    assert drawn == again
    assert len(drawn["points"]) == drawn["items"] == 40
    assert all(-1 <= point[axis] <= 1 for point in drawn["points"] for axis in "xy")


def test_the_page_loads_from_this_service_only(service: Running) -> None:
    page = service.client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    for name in re.findall(r'(?:href|src)="([^"#]+)"', page.text):
        assert "//" not in name
        assert service.client.get("/" + name).status_code == 200


def test_health_and_metrics_are_served(service: Running) -> None:
    service.search(text="level")
    assert service.client.get("/healthz").json() == {"status": "ok"}
    assert service.client.get("/readyz").json() == {"status": "ready"}
    metrics = service.client.get("/metrics").text
    assert re.search(r'dlfh_requests_total\{endpoint="/v1/search",method="POST",status="200"\} [1-9]', metrics)
    assert 'dlfh_items{collection="stripes"} 40.0' in metrics


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "message"),
    [
        ("GET", "/v1/items/nope", None, 404, "unknown item 'nope'"),
        ("GET", "/v1/items/nope/thumbnail", None, 404, "unknown item 'nope'"),
        ("GET", "/v1/items/%ff", None, 404, "not valid UTF-8"),
        ("GET", "/v1/items/", None, 404, "unknown item ''"),
        ("GET", "/v1/items/..%2f..%2f..%2fetc%2fpasswd/thumbnail", None, 404, "unknown item"),
        ("GET", "/../../etc/passwd", None, 404, "unknown address"),
        ("GET", "/nothing", None, 404, "unknown address"),
        ("GET", "/redoc", None, 404, "unknown address"),
        ("PATCH", "/v1/search", None, 405, "does not support the method"),
        ("POST", "/v1/search", {}, 422, "exactly one of"),
        ("POST", "/v1/search", {"text": "a", "code": "bb"}, 422, "exactly one of"),
        ("POST", "/v1/search", {"id": "nope"}, 404, "unknown item 'nope'"),
        ("POST", "/v1/search", {"text": "a", "k": 0}, 422, "k: input should be greater"),
        ("POST", "/v1/search", {"text": "a", "k": 10**9}, 422, "k: input should be less"),
        ("POST", "/v1/search", {"text": "a" * 10_001}, 422, "at most 10,000 characters"),
        ("POST", "/v1/search", {"queries": [{"text": "a"}] * 101}, 422, "at most 100 items"),
        ("POST", "/v1/search", {"queries": [{"text": "a"}] * 100, "k": 1000}, 422, "at most 10,000 results"),
        ("POST", "/v1/search", {"queries": [{"text": "a"}] * 2, "radius": 3}, 422, "a single query only"),
        ("POST", "/v1/search", {"code": "0" * 6, "radius": 3}, 422, "does not support radius"),
        ("POST", "/v1/search", {"text": "a", "ids": ["8.png", "nope"]}, 422, "'nope'"),
        ("POST", "/v1/search", {"text": "a", "ids": ["8.png"] * 10_001}, 422, "at most 10000 items"),
        ("POST", "/v1/suggest", {"precision": 1}, 422, "precision: input should be less"),
        ("POST", "/v1/suggest", {"ids": ["nope"]}, 422, "'nope'"),
        ("POST", "/v1/suggest", {"where": {"colour": "red"}}, 422, "unknown name 'colour' in where"),
        ("GET", "/v1/items?n=0", None, 422, "n: input should be greater"),
        ("GET", "/v1/items?start=-1", None, 422, "start: input should be greater"),
        ("POST", "/v1/remove", {"ids": ["8.png"]}, 403, "read-only"),
        ("POST", "/v1/search", {"text": "a", "modalities": "sound"}, 422, "unknown modality 'sound'"),
        ("POST", "/v1/search", {"text": "a", "where": {"colour": "red"}}, 422, "unknown name 'colour' in where"),
        ("POST", "/v1/search", {"text": "a", "where": {"parity": {"~": 1}}}, 422, "must have one of the operators"),
        ("POST", "/v1/search", {"text": "a", "where": {"or": [{"not": 1}]}}, 422, "a filter must be a dict"),
        ("POST", "/v1/search", {"text": "a", "min_probability": 1}, 422, "min_probability: input should be less"),
        ("POST", "/v1/search", {"id": "8.png", "min_probability": 0.5}, 422, "does not support min_probability"),
        ("POST", "/v1/search", {"code": "abc"}, 422, "code: string should match"),
        ("POST", "/v1/search", {"code": "abcd"}, 422, "20 bits must have 6 hexadecimal digits"),
        ("POST", "/v1/search", {"code": "00000f"}, 422, "20 bits must have 6 hexadecimal digits"),
        ("POST", "/v1/search", {"vector": [1.0], "modality": "text"}, 422, "modality 'text' has 1 features"),
        ("POST", "/v1/search", {"vector": [1.0]}, 422, "the modality of the vector is missing"),
        ("POST", "/v1/search", {"text": "a", "modality": "image"}, 422, "modality 'image' takes images, got a text"),
        ("PUT", "/v1/items/a", {"text": "b"}, 403, "read-only"),
        ("DELETE", "/v1/items/8.png", None, 403, "read-only"),
        ("POST", "/v1/items", {"items": [{"id": "a", "text": "b"}]}, 403, "read-only"),
    ],
)
def test_an_invalid_request_gets_a_status_and_a_message(
    service: Running, method: str, path: str, body: Any, status: int, message: str
) -> None:
    response = service.client.request(method, path, json=body)
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error"}
    assert message in response.json()["error"]
    assert "\n" not in response.json()["error"]


@pytest.mark.parametrize(
    "body", [b"{", b"\xff", b"[" * 100_000, b'{"text": "\\ud800"}', b'{"text": NaN}', b"null", b""]
)
def test_an_invalid_body_is_rejected(service: Running, body: bytes) -> None:
    response = service.client.post("/v1/search", content=body, headers={"content-type": "application/json"})
    assert response.status_code in (400, 422)
    assert set(response.json()) == {"error"}


@pytest.mark.parametrize(
    ("content", "status", "sentence"),
    [
        (b"", 422, "the image is empty"),
        (b"not an image", 422, "the image cannot be read"),
        (b"\x89PNG\r\n\x1a\n" + b"\0" * 50, 422, "the image cannot be read"),
    ],
)
def test_a_damaged_image_is_rejected(service: Running, content: bytes, status: int, sentence: str) -> None:
    response = service.client.post("/v1/search/image", files={"image": content})
    assert (response.status_code, sentence in response.json()["error"]) == (status, True), response.text


def test_a_decompression_bomb_is_rejected_without_decoding(service: Running) -> None:
    bomb = BytesIO()
    Image.new("1", (20_000, 20_000)).save(bomb, "PNG")
    assert len(bomb.getvalue()) < 100_000
    before = memory_of(service.process.pid)
    response = service.client.post("/v1/search/image", files={"image": bomb.getvalue()})
    assert response.status_code == 413
    assert "more than 32,000,000 pixels" in response.json()["error"]
    assert memory_of(service.process.pid) - before < 50 << 20


def test_ids_may_contain_slashes(service: Running) -> None:
    for name in AWKWARD:
        item = service.client.get(f"/v1/items/{quote(name, safe='')}").json()
        assert item["id"] == name
        assert service.client.get(item["thumbnail"]).headers["content-type"] == "image/webp"
    assert service.client.get("/v1/items/a/b").json()["id"] == "a/b"
    assert service.client.get("/v1/items/a/b/thumbnail").headers["content-type"] == "image/webp"


# ------------------------------------------------------------------------------------------------- documentation

DOCUMENT = Path(__file__).parents[2] / "docs" / "service.md"


@pytest.fixture(scope="module")
def shop(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service with the items of the documentation."""
    kinds = ["shoe" if number % 2 else "coat" for number in range(40)]
    texts = [f"a {('red', 'blue', 'green')[number % 3]} {kind}" for number, kind in enumerate(kinds)]
    images = [photos / f"{number}.png" if number not in (3, 4) else None for number in range(40)]
    items = Items.of(
        {"image": images, "text": texts}, [[kind + "s"] for kind in kinds], [f"sku-{n}" for n in range(40)]
    )
    for number, metadata in enumerate(items.metadata):
        metadata["columns"] = {"price": number}
    encoder = Encoder({"image": Thumbnail(8), "text": BagOfWords()}, DLFH(n_bits=20, random_state=0))
    place = tmp_path_factory.mktemp("shop")
    Collection.build(place / "shop", items, encoder, hold_out=12).collection.close()
    with serving(place / "shop", place / "log", "--writable", token=TOKEN, pictures=photos) as running:
        yield running


def test_the_examples_of_the_documentation_run(shop: Running, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "photo.png").write_bytes((photos / "8.png").read_bytes())
    text = DOCUMENT.read_text(encoding="utf-8").replace("http://127.0.0.1:8000", shop.address.rstrip("/"))
    text = text.replace("$KEY", "$DLFH_TOKEN")
    commands = [
        line.replace("curl -s ", 'curl -sSf -H "authorization: Bearer $DLFH_TOKEN" ')
        for block in re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for line in block.replace("\\\n", " ").splitlines()
    ]
    assert len(commands) >= 8
    for line in commands:
        done = subprocess.run(
            ["bash", "-c", line.replace('-H "authorization: Bearer $DLFH_TOKEN"', "", line.count("authorization") - 1)],
            cwd=tmp_path,
            env=os.environ | {"DLFH_TOKEN": TOKEN, "no_proxy": "*"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, (line, done.stderr)
        if "/v1/search" in line:
            assert all(result["answers"] for result in json.loads(done.stdout)["results"]), line
    (program,) = re.findall(r"^```py\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    program = program.replace('")  # was', f'", token={TOKEN!r})  # was')
    namespace: dict[str, Any] = {}
    with contextlib.chdir(tmp_path):
        exec(compile(program, str(DOCUMENT), "exec"), namespace)
    assert len(namespace["found"]) == 5
    assert all(item.metadata["columns"]["price"] < 30 for found in namespace["batch"] for item in found)
    namespace["collection"].close()


def test_the_endpoints_are_described_without_another_host(service: Running) -> None:
    page = service.client.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    for name in re.findall(r'(?:href|src)="([^"#]+)"', page.text):
        assert "//" not in name
        assert service.client.get("/" + name).status_code == 200


@pytest.fixture(scope="module")
def several(stripes_folder: Path, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Two collections in one process, with names that need escaping."""
    place = tmp_path_factory.mktemp("several")
    for name in ("stripes", "a c&"):
        shutil.copytree(stripes_folder, place / name)
    with Collection.open(place / "a c&", writable=True) as collection:
        collection.remove([f"{number}.png" for number in range(10, 20)])
    options = ("--writable", str(place / "a c&"))
    with serving(place / "stripes", place / "log", *options, token=TOKEN, pictures=photos) as running:
        yield running


def test_several_collections_have_separate_addresses(several: Running) -> None:
    listed = several.client.get("/v1/collections").json()["collections"]
    assert listed == [
        {"name": "stripes", "address": "c/stripes/", "items": 40},
        {"name": "a c&", "address": "c/a%20c%26/", "items": 30},
    ]
    page = several.client.get("/")
    assert "collections.js" in page.text
    for each in listed:
        address = f"/{each['address']}"
        about = several.client.get(f"{address}v1/collection").json()
        assert (about["name"], about["items"], about["multiple"]) == (each["name"], each["items"], True)
        assert several.client.get(address).status_code == 200
        assert several.client.get(f"{address}v1/items/a%2Fb/thumbnail").status_code == 200
        assert several.client.get(f"{address}docs").status_code == 200
        found = several.client.post(f"{address}v1/search", json={"text": "level", "k": 40}).json()["results"][0]
        assert len(found["answers"]) == each["items"]
    for path in ("/c/none/v1/collection", "/c/none", "/v1/collection", "/c//v1/items", "/c/stripes/../v1/items"):
        assert several.client.get(path).status_code == 404
    redirect = several.client.get("/c/a%20c%26")
    assert (redirect.status_code, redirect.headers["location"]) == (308, "a%20c%26/")
    assert 'dlfh_items{collection="a c&"} 30.0' in several.client.get("/metrics").text
    assert several.client.get("/readyz").status_code == 200


def test_several_collections_share_keys_and_change_separately(several: Running) -> None:
    with httpx.Client(base_url=several.address, trust_env=False) as client:
        assert client.get("/").status_code == 200
        for path in ("/v1/collections", "/c/stripes/v1/collection", "/c/a%20c%26/v1/items/8.png"):
            assert client.get(path).status_code == 401
        assert client.delete("/c/stripes/v1/items/8.png").status_code == 401
    assert several.client.delete("/c/stripes/v1/items/8.png").json()["items"] == 39
    assert several.client.get("/c/stripes/v1/items/8.png").status_code == 404
    assert several.client.get("/c/a%20c%26/v1/items/8.png").status_code == 200


def test_two_collections_need_two_names(
    stripes_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = shutil.copytree(stripes_folder, tmp_path / "stripes")
    assert main(["serve", str(stripes_folder), str(other), "--port", "0"]) == 2
    assert "two collections are called 'stripes'" in capsys.readouterr().err
