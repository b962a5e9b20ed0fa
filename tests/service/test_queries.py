"""Uploaded query images: the same image and the same results for everyone with the link, for a while."""

from __future__ import annotations

import os
import time
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from dlfh.errors import InputError
from dlfh.service import queries
from dlfh.service.answering import RequestError
from dlfh.service.queries import DAYS, QueryImages
from tests.service.conftest import Running


def picture(seed: int, size: int = 40) -> bytes:
    content = BytesIO()
    Image.effect_noise((size, size), 20 + seed).convert("RGB").save(content, "PNG")
    return content.getvalue()


def upload(service: Running, content: bytes) -> str:
    response = service.client.post("/v1/queries/image", files={"image": content})
    assert response.status_code == 200, response.text
    return str(response.json()["key"])


def test_a_link_shows_the_same_image_and_the_same_results(service: Running, photos: Path) -> None:
    content = (photos / "9.png").read_bytes()
    key = upload(service, content)
    assert upload(service, content) == key
    shown = service.client.get(f"/v1/queries/{key}")
    assert shown.headers["content-type"] == "image/webp"
    assert Image.open(BytesIO(shown.content)).size == (32, 32)
    found = service.search(image=key, k=5)["results"][0]
    assert found == service.search(image=key, k=5)["results"][0]
    assert found["query"]["by"] == "image"
    by_upload = service.client.post("/v1/search/image", files={"image": shown.content}, data={"options": '{"k": 5}'})
    assert by_upload.json()["results"][0] == found
    both = service.search(image=key, text="stripes not upright", k=40)["results"][0]
    assert all("upright" not in item["labels"] for item in both["answers"])
    assert service.search(queries=[{"image": key}, {"text": "level"}], k=5)["results"][0] == found
    again = service.client.get(f"/v1/queries/{key}", headers={"if-none-match": shown.headers["etag"]})
    assert again.status_code == 304


@pytest.mark.parametrize("key", ["../../collection.json", "%2e%2e%2fcollection", "A" * 32, "0" * 31, "0" * 33, "."])
def test_a_key_names_no_file(service: Running, key: str) -> None:
    assert service.client.get(f"/v1/queries/{key}").status_code in (404, 422)
    assert service.client.post("/v1/search", json={"image": key}).status_code == 422


def test_unknown_and_unreadable_images_are_refused(service: Running) -> None:
    missing = "this image is not kept any more: upload it again"
    assert service.client.post("/v1/search", json={"image": "0" * 32}).json() == {"error": missing}
    assert service.client.get(f"/v1/queries/{'0' * 32}").status_code == 404
    for content in (b"<html><script>alert(1)</script>", picture(0)[:100]):
        response = service.client.post("/v1/queries/image", files={"image": content})
        assert (response.status_code, "cannot be read" in response.json()["error"]) == (422, True)


def test_old_images_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queries, "_MAX_IMAGES", 3)
    images = QueryImages(tmp_path)
    keys = [images.keep(picture(seed), 10_000) for seed in range(5)]
    for age, key in enumerate(keys[::-1]):
        if (tmp_path / f"{key}.webp").exists():
            os.utime(tmp_path / f"{key}.webp", (time.time() - 100 * age,) * 2)
    assert len({*tmp_path.iterdir()}) == 3
    images.get(keys[2])  # used again, so it is kept
    images.keep(picture(9), 10_000)
    assert (tmp_path / f"{keys[2]}.webp").exists()
    assert not (tmp_path / f"{keys[3]}.webp").exists()
    os.utime(tmp_path / f"{keys[2]}.webp", (time.time() - (DAYS + 1) * 86_400,) * 2)
    with pytest.raises(RequestError, match="not kept any more"):
        images.get(keys[2])


def test_images_are_reduced_and_have_no_metadata(tmp_path: Path) -> None:
    content = BytesIO()
    exif = Image.Exif()
    exif[0x010E] = "my home"
    Image.new("RGB", (2000, 1000)).save(content, "JPEG", exif=exif)
    stored = Image.open(BytesIO(QueryImages(tmp_path).get(QueryImages(tmp_path).keep(content.getvalue(), 10**7))))
    assert stored.size == (512, 256)
    assert not stored.getexif()
    with pytest.raises(RequestError, match="more than 1,000 pixels"):
        QueryImages(tmp_path).keep(content.getvalue(), 1000)


def test_the_folder_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--queries must be a folder"):
        QueryImages(tmp_path / "none")
