"""The endpoints answer as the collection does, and errors have a status and a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import Collection
from tests.service.conftest import Running


def answers(found: Any) -> list[dict[str, Any]]:
    (result,) = found["results"]
    own: list[dict[str, Any]] = result["answers"]
    return own


def shown(found: Any) -> list[tuple[Any, ...]]:
    """What a collection finds, as the service shows it."""
    return [
        (item.rank, item.id, item.probability, item.bits_apart, item.distance, item.n_equal, item.learned, item.bits)
        for item in found
    ]


def served(found: Any) -> list[tuple[Any, ...]]:
    names = ("rank", "id", "probability", "bits_apart", "distance", "n_equal", "learned", "bits")
    return [tuple(item[name] for name in names) for item in answers(found)]


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"k": 3, "among": "image"},
        {"match": "words"},
        {"among": "all", "fair": True},
        {"min_probability": 0.6},
        {"ranking": "specific", "among": ("image", "text")},
    ],
)
def test_a_text_finds_what_the_collection_finds(service: Running, stripes_folder: Path, how: dict[str, Any]) -> None:
    asked = {"in" if name == "among" else name: value for name, value in how.items()}
    with Collection.open(stripes_folder) as collection:
        found = collection.search("text", "level stripes", **how)
        assert served(service.search(text="level stripes", **asked)) == shown(found)
        assert service.search(text="level stripes", **asked)["results"][0]["query"]["bits"] == found.bits


def test_an_image_finds_what_the_collection_finds(service: Running, stripes_folder: Path, photos: Path) -> None:
    content = (photos / "8.png").read_bytes()
    response = service.client.post("/v1/search/image", files={"image": content}, data={"options": '{"k": 4}'})
    with Collection.open(stripes_folder) as collection:
        assert served(response.json()) == shown(collection.search("image", photos / "8.png", 4))


def test_an_item_finds_its_like(service: Running, stripes_folder: Path) -> None:
    with Collection.open(stripes_folder) as collection:
        assert served(service.search(id="8.png", k=5)) == shown(collection.similar("8.png", 5))


def test_a_vector_finds_what_its_text_finds(service: Running, stripes_folder: Path) -> None:
    with Collection.open(stripes_folder) as collection:
        vector = collection.encoder.vectors("text", ["level"]).toarray()[0].tolist()
    by_text = service.search(text="level", match="codes", **{"in": "image"})
    assert served(service.search(vector=vector, modality="text", **{"in": "image"})) == served(by_text)


def test_a_code_finds_what_the_index_finds(service: Running, stripes_folder: Path) -> None:
    with Collection.open(stripes_folder) as collection:
        code = collection.get("8.png").codes["image"]
        hits = collection.index.search(code[None], "image", 25)
    found = answers(service.search(code=code.tobytes().hex(), k=25, **{"in": "image"}))
    assert [item["id"] for item in found] == hits.ids[0]
    assert [item["distance"] for item in found] == hits.distances[0].tolist()
    assert found[-1]["n_equal"] is None  # others may be as far
    assert found[0]["n_equal"] == np.count_nonzero(hits.distances[0] == hits.distances[0, 0])
