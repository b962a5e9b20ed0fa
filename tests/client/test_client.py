"""A client returns the results of a collection for the same calls."""

from __future__ import annotations

import inspect
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dlfh import DLFH, Collection, Encoder
from dlfh.client import Client
from dlfh.collection.query import SearchResult
from dlfh.collection.suggesting import Suggestions
from dlfh.datasets import Items
from dlfh.errors import DataWarning, InputError, ServiceError
from dlfh.features import BagOfWords, Vectors
from dlfh.index.items import Item
from tests.service.conftest import AWKWARD, TOKEN, Running, serving

Call = Callable[[Any], Any]


@pytest.fixture(scope="module")
def both(service: Running, stripes_folder: Path) -> Iterator[tuple[Collection, Client]]:
    with Collection.open(stripes_folder) as collection, Client(service.address) as client:
        yield collection, client


def without_images(metadata: dict[str, Any] | None) -> dict[str, Any]:
    return {name: value for name, value in (metadata or {}).items() if name != "image"}


def plain(answer: Any) -> Any:
    """Return a result without the paths of images, which a service does not disclose."""
    if isinstance(answer, SearchResult):
        # Matrix products of one row and of several round differently.
        return answer.code, [
            own
            | {"metadata": without_images(own["metadata"])}
            | {name: own[name] and round(own[name], 4) for name in ("probability", "distance")}
            for own in answer.to_dicts()
        ]
    if isinstance(answer, Suggestions):
        return answer.to_dict()
    if isinstance(answer, Item):
        codes = {name: code.tolist() for name, code in answer.codes.items()}
        return answer.id, without_images(answer.metadata), codes, answer.states
    return [plain(own) for own in answer] if isinstance(answer, list) else answer


def outcome(call: Call, collection: Any) -> Any:
    """Return the result of a call, or the type of its error."""
    try:
        return plain(call(collection))
    except InputError as error:
        return type(error)


TEXTS = ["level stripes 3", "upright", "stripes"]
CALLS: dict[str, Call] = {
    "a text": lambda c: c.search("text", "level stripes"),
    "few": lambda c: c.search("text", "upright", 3),
    "a NumPy number": lambda c: c.search("text", "upright", np.int64(3)),
    "in images": lambda c: c.search("text", "upright", modalities="image"),
    "in all": lambda c: c.search("text", "upright", modalities="all", hashed_only=True),
    "in two": lambda c: c.search("text", "upright", modalities=("image", "text"), ranking="any"),
    "by words": lambda c: c.search("text", "stripes 12", match="words"),
    "by both": lambda c: c.search("text", "stripes 12", match="both"),
    "by bits": lambda c: c.search("text", "level", ranking="hamming"),
    "the probable": lambda c: c.search("text", "level", min_probability=0.6),
    "nothing": lambda c: c.search("text", "level", min_probability=0.999999),
    "within a radius": lambda c: c.search("text", "level", radius=4, modalities="image"),
    "within no radius": lambda c: c.search("text", "level", radius=0, modalities="image"),
    "some": lambda c: c.search("text", "level", ids=["8.png", "9.png", "a/b"]),
    "none of some": lambda c: c.search("text", "level", ids=[]),
    "several": lambda c: c.search("text", TEXTS, 4),
    "one in a list": lambda c: c.search("text", TEXTS[:1], 4),
    "no values": lambda c: c.search("text", []),
    "more than a batch": lambda c: c.search("text", [f"level {number}" for number in range(230)], 2),
    "more than all answers": lambda c: c.search("text", TEXTS * 8, 1000),
    "like": lambda c: c.similar("8.png"),
    "like, few": lambda c: c.similar("8.png", 3, modalities="text", hashed_only=True),
    "like, near": lambda c: c.similar("8.png", radius=3),
    "like, some": lambda c: c.similar("8.png", ids=["9.png", "a/b"]),
    "awkward": lambda c: [c.similar(name, 2) for name in AWKWARD],
    "items": lambda c: [c.get(name) for name in ("8.png", *AWKWARD)],
    "all items": lambda c: list(c),
    "how many": len,
    "whether": lambda c: [name in c for name in ("8.png", "nope", "", "..", ".", 3)],
    "suggestions": lambda c: c.suggest(),
    "suggestions, all": lambda c: c.suggest(missing=True, precision=0.5, k=1),
    "suggestions, some": lambda c: c.suggest(["7.png", "8.png"], {"half": "first"}),
    "marked": lambda c: c.search("text", "stripes", relevant=["8.png"], irrelevant=["9.png"]),
    "to label": lambda c: c.label_next(5),
    # Errors
    "unknown mark": lambda c: c.search("text", "stripes", relevant=["nope"]),
    "none to label": lambda c: c.label_next(0),
    "no precision": lambda c: c.suggest(precision=1.5),
    "unknown suggestions": lambda c: c.suggest(["nope"]),
    "unknown modality": lambda c: c.search("sound", "x"),
    "unknown modalities": lambda c: c.search("text", "x", modalities="sound"),
    "no k": lambda c: c.search("text", "x", 0),
    "no ranking": lambda c: c.search("text", "x", ranking="best"),
    "no probability": lambda c: c.search("text", "x", min_probability=2),
    "unknown some": lambda c: c.search("text", "x", ids=["nope"]),
    "unknown item": lambda c: c.get("nope"),
    "unknown like": lambda c: c.similar("nope"),
    "dots": lambda c: c.get(".."),
    "no text": lambda c: c.search("text", 3),
    "words of images": lambda c: c.search("text", "x", match="words", modalities="image"),
    "no image": lambda c: c.search("image", "no-such-file.png"),
    "a broken image": lambda c: c.search("image", b"no image"),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS.keys())
def test_a_client_returns_the_results_of_the_collection(both: tuple[Collection, Client], call: Call) -> None:
    of_folder, of_service = (outcome(call, own) for own in both)
    assert of_service == of_folder


def test_images_of_any_form_find_the_same(both: tuple[Collection, Client], photos: Path) -> None:
    path = photos / "8.png"
    image = Image.open(path)
    pixels = np.asarray(image.convert("RGB"))
    stack = np.stack([pixels, pixels[::-1]])
    for value in (path, str(path), path.read_bytes(), image, pixels, pixels[..., :1] / 255, [path, pixels], stack):
        of_folder, of_service = (plain(own.search("image", value, 5, modalities="text")) for own in both)
        assert of_service == of_folder


def test_both_warn_of_unknown_words(both: tuple[Collection, Client]) -> None:
    for own in both:
        with pytest.warns(DataWarning, match=r"None of these words occur in the collection: xylophone \(and 1 more"):
            own.search("text", ["level", "xylophone", "quixotic"])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            own.search("text", "level")


def test_the_methods_of_client_and_collection_have_the_same_parameters() -> None:
    for name in ("search", "similar", "suggest", "get", "label", "label_next", "mark", "add", "remove", "close"):
        own, other = (inspect.signature(getattr(kind, name)).parameters for kind in (Client, Collection))
        for parameter in other.values():
            if (name, parameter.name) != ("add", "vectors"):  # the service computes features itself
                assert own[parameter.name] == parameter


def test_filters_return_matching_items_only(both: tuple[Collection, Client]) -> None:
    found = both[1].search("text", "stripes", 40, where={"half": "first", "labels": ["level"]})
    assert found
    assert all(own.metadata["columns"]["half"] == "first" and own.metadata["labels"] == ["level"] for own in found)


def test_thumbnails_are_webp_images(both: tuple[Collection, Client]) -> None:
    assert all(both[1].thumbnail(name)[8:12] == b"WEBP" for name in ("8.png", *AWKWARD))


def test_vectors_find_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    matrix = rng.normal(size=(40, 6)).astype(np.float32)
    labels = [["plus" if row[0] > 0 else "minus"] for row in matrix]
    items = Items.of({"vector": matrix, "text": [own[0] for own in labels]}, labels, [f"v{n}" for n in range(40)])
    encoder = Encoder({"vector": Vectors(), "text": BagOfWords()}, DLFH(n_bits=20, random_state=0))
    Collection.build(tmp_path / "vectors", items, encoder).collection.close()
    new = Items.of({"vector": matrix[:3] + 1, "text": ["plus", None, None]}, None, ["new 0", "new 1", "new 2"])
    copy = Path(shutil.copytree(tmp_path / "vectors", tmp_path / "copy"))
    with (
        serving(tmp_path / "vectors", tmp_path / "log", "--writable", token=TOKEN) as running,
        Client(running.address, token=TOKEN) as client,
        Collection.open(copy, writable=True) as collection,
    ):
        calls: list[Call] = [
            lambda c: c.search("vector", matrix[0], 5),
            lambda c: c.search("vector", matrix[:7].tolist(), 5),
            lambda c: c.search("vector", matrix[:2].astype(np.float64), 5, modalities="vector"),
            lambda c: c.search("vector", matrix[0, :3]),
            lambda c: c.search("vector", matrix[0] * np.nan),
            lambda c: c.add(new),
            lambda c: c.search("vector", matrix[1] + 1, 5, modalities="vector"),
            lambda c: [c.get(name) for name in new.ids],
        ]
        for call in calls:
            of_folder, of_service = (outcome(call, own) for own in (collection, client))
            assert of_service == of_folder


def test_changes_have_the_same_effect(stripes_folder: Path, photos: Path, tmp_path: Path) -> None:
    folder, copy = (Path(shutil.copytree(stripes_folder, tmp_path / name)) for name in ("served", "copy"))
    texts = [f"level {number}" for number in range(230)]
    many = Items.of({"text": texts}, None, [f"many {number}" for number in range(230)])
    some = Items.of(
        {"text": ["zebra crossing", None], "image": [photos / "8.png", photos / "9.png"]},
        [["upright"], []],
        ["z/1", "z/2"],
    )
    again = Items.of({"text": ["a zebra", "a horse"]}, None, ["z/1", "h"])
    calls: list[Call] = [
        lambda c: c.add(some),
        lambda c: c.search("text", "zebra", match="words"),
        lambda c: c.similar("z/2", 5),
        lambda c: c.add(again),
        lambda c: c.get("z/1"),
        lambda c: c.add(again, update=True),
        lambda c: [c.get(name) for name in ("z/1", "h")],
        lambda c: c.add(many),
        lambda c: c.add(many),
        len,
        lambda c: list(c),
        lambda c: c.label(["h", "z/1", "8.png"], add=["upright", "new"], remove=["level"]),
        lambda c: [c.get(name).metadata["labels"] for name in ("h", "z/1", "8.png")],
        lambda c: c.label(["h", "8.png"], add=["upright"]),
        lambda c: c.label(["h", "nope"], add=["level"]),
        lambda c: c.label(["h"], add=["level"], remove=["level"]),
        lambda c: c.get("h").metadata["labels"],
        lambda c: c.mark("text", "level stripes", relevant=["h"], irrelevant=["8.png", "8.png"]),
        lambda c: c.mark("image", photos / "8.png", relevant=["8.png"]),
        lambda c: c.mark("text", " level stripes ", relevant=["8.png"]),
        lambda c: c.mark("text", "level stripes", relevant=["h"], irrelevant=["h"]),
        lambda c: c.mark("text", ["level", "upright"], relevant=["h"]),
        lambda c: c.mark("sound", "level", relevant=["h"]),
        lambda c: c.mark("text", "level stripes"),
        lambda c: c.remove(["h", "nope"]),
        lambda c: "h" in c,
        lambda c: c.remove(["h", "z/1"]),
        lambda c: c.remove([f"many {number}" for number in range(200)]),
        lambda c: list(c),
        lambda c: c.add(Items.of({"sound": ["x"]}, None, ["s"])),
    ]
    with (
        serving(folder, tmp_path / "log", "--writable", token=TOKEN) as running,
        Client(running.address, token=TOKEN) as client,
        Collection.open(copy, writable=True) as collection,
    ):
        for number, call in enumerate(calls):
            of_folder, of_service = (outcome(call, own) for own in (collection, client))
            assert of_service == of_folder, number
        with pytest.raises(InputError, match="the items need ids"):
            client.add(Items.of({"text": ["x"]}))
        assert client.relearn()["items"] == collection.relearn().n_items
        assert client.complete("LEV")[0] == "level"
        client.add(many, update=True)
        reading = iter(client)
        next(reading)
        client.remove(["z/2"])
        with pytest.raises(ServiceError, match="changed while its items were read"):
            list(reading)


def test_missing_permissions_are_reported(
    both: tuple[Collection, Client], stripes_folder: Path, tmp_path: Path
) -> None:
    with pytest.raises(ServiceError, match="this service is read-only"):
        both[1].remove(["8.png"])
    with serving(stripes_folder, tmp_path / "log", token=TOKEN) as running:
        with Client(running.address) as client, pytest.raises(ServiceError, match="a key is required"):
            len(client)
        with Client(running.address, token="another token") as client, pytest.raises(ServiceError, match="is wrong"):
            client.search("text", "x")
