"""Collections are built atomically, searched, changed and evaluated."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from dlfh import DLFH, Collection, Encoder, ModelError, load
from dlfh._persistence.files import try_lock
from dlfh.codes import hamming_distances, unpack
from dlfh.collection.query import SearchResult
from dlfh.datasets import Items, Paired, read_items
from dlfh.errors import DataWarning, InputError, StorageError
from dlfh.features import BagOfWords, Gist, Vectors


def encoder(n_bits: int = 16) -> Encoder:
    return Encoder(
        {"image": Gist(size=64), "text": BagOfWords()}, DLFH(n_bits=n_bits, random_state=0, hash_function="linear")
    )


def codes_of(collection: Collection, modality: str) -> tuple[list[str], np.ndarray]:
    """Return the ids of the items that have a modality, and their codes."""
    found = [(item.id, item.codes[modality]) for item in collection.index.items() if modality in item.codes]
    return [name for name, _ in found], np.array([code for _, code in found])


@pytest.fixture(scope="module")
def built_shop(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    items = read_items(photos / "items.csv", image="file", text="caption", labels="tags")
    folder = tmp_path_factory.mktemp("collections") / "shop"
    Collection.build(folder, items, encoder()).collection.close()
    return folder


@pytest.fixture
def shop(built_shop: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built_shop, tmp_path / "shop"))


def test_a_built_collection_contains_every_item(items: Items, tmp_path: Path) -> None:
    built = Collection.build(tmp_path / "shop", items, encoder())
    with built.collection as collection:
        assert collection.index.ids() == items.ids
        assert (built.n_trained, built.n_incomplete) == (39, 3)
        assert collection.get("3.png").states == {"image": "absent", "text": "learned"}
        assert collection.get("5.png").states == {"image": "learned", "text": "absent"}
        assert collection.get("7.png").states == {"image": "hashed", "text": "hashed"}
        assert collection.get("0.png").states == {"image": "learned", "text": "learned"}
        assert (collection.get("0.png").metadata or {})["text"] == "upright stripes 0"
        assert {problem.where for problem in built.problems} == {f"items.csv, line {n}" for n in (5, 6, 7)}
        assert os.listdir(tmp_path) == ["shop"]


def test_search_equals_brute_force(items: Items, shop: Path) -> None:
    with Collection.open(shop) as collection:
        position = {name: place for place, name in enumerate(collection.index.ids())}
        ids, codes = codes_of(collection, "image")
        for ranking in ("hamming", "asymmetric"):
            projection = collection.encoder.project("text", ["level stripes"])[0].astype(np.float64)
            weights = np.ones(16) if ranking == "hamming" else np.abs(projection)

            def cost(code: np.ndarray, weights: np.ndarray = weights, projection: np.ndarray = projection) -> float:
                return round(float(((projection > 0) != (unpack(code[None], 16)[0] > 0)) @ weights), 5)

            def key(name: str, code: np.ndarray) -> tuple[float, ...]:
                row = items.ids.index(name)
                hashed = [
                    cost(collection.encoder.encode(kind, [items.modalities[kind][row]])[0])
                    if items.modalities[kind][row] is not None
                    else np.inf
                    for kind in ("image", "text")
                ]
                return (cost(code), *hashed, position[name])

            expected = sorted(ids, key=lambda name: key(name, codes[ids.index(name)]))[:25]
            found = collection.search("text", "level stripes", k=25, ranking=ranking, modalities="image")
            assert found.ids == expected
            assert [item.rank for item in found] == list(range(1, 26))
            code = collection.encoder.encode("text", ["level stripes"])
            costs = [cost(own) for own in codes]
            for item in found:
                own = codes[ids.index(item.id)]
                assert item.hamming_distance == hamming_distances(code, own[None])[0, 0]
                assert item.distance == pytest.approx(cost(own), abs=1e-4)
                assert item.n_equal == costs.count(cost(own)) > 0
                assert item.probability is None


def test_images_find_texts_and_items_find_similar_items(photos: Path, shop: Path) -> None:
    with Collection.open(shop) as collection:
        found = collection.search("image", photos / "8.png", k=3)
        assert all("upright" in item.metadata["text"] for item in found)
        like = collection.similar("8.png", k=39)
        assert "8.png" not in like.ids
        assert [item.rank for item in like] == list(range(1, len(like) + 1))
        assert len(collection.similar("8.png", radius=0)) < len(like) == 37  # two images are broken
        assert collection.similar("3.png", k=1, modalities="image").ids  # by its text's code
        assert len(collection.search("text", "level", radius=0, ids=["0.png"])) == 0
        assert collection.search("text", "level", ids=["1.png", "2.png"]).ids == ["1.png", "2.png"]


@pytest.mark.parametrize("hashed_only", [False, True])
def test_a_radius_includes_items_at_exactly_that_distance(shop: Path, hashed_only: bool) -> None:
    with Collection.open(shop) as collection:
        options: dict[str, Any] = {"modalities": "image", "match": "codes", "hashed_only": hashed_only}
        everything = collection.search("text", "level stripes", k=40, **options)
        distances = sorted(item.hamming_distance for item in everything)
        for radius in {*distances}:
            found = collection.search("text", "level stripes", radius=radius, **options)
            assert sorted(item.hamming_distance for item in found) == [own for own in distances if own <= radius]
            assert max(item.hamming_distance for item in found) == radius
        similar = collection.similar("8.png", k=40, hashed_only=hashed_only)
        nearest = min(item.hamming_distance for item in similar)
        found = collection.similar("8.png", radius=nearest, hashed_only=hashed_only)
        assert {item.hamming_distance for item in found} == {nearest}


def assert_same(answers: list[SearchResult], expected: list[SearchResult]) -> None:
    """Assert that results are equal up to rounding."""
    assert len(answers) == len(expected)
    for found, other in zip(answers, expected, strict=True):
        plain = [[replace(item, distance=0, probability=None) for item in own] for own in (found, other)]
        assert plain[0] == plain[1]
        for name in ("distance", "probability"):
            values = [[getattr(item, name) for item in own] for own in (found, other)]
            assert values[0] == (pytest.approx(values[1], abs=1e-5) if None not in values[1] else values[1])


@pytest.mark.parametrize("ranking", [None, "all", "any", "asymmetric", "hamming"])
def test_a_batch_equals_single_queries(photos: Path, shop: Path, ranking: str | None) -> None:
    texts = ["level stripes", "upright", "stripes 8"]
    images = [photos / "8.png", np.asarray(Image.open(photos / "9.png")), (photos / "10.png").read_bytes()]
    with Collection.open(shop) as collection:
        for modality, values in (("text", texts), ("image", images)):
            together = collection.search(modality, values, k=5, ranking=ranking)
            alone = [collection.search(modality, value, k=5, ranking=ranking) for value in values]
            assert all(isinstance(found, SearchResult) and len(found) == 5 for found in together)
            assert_same(together, alone)
            assert_same(collection.search(modality, values[:1], k=5, ranking=ranking), alone[:1])
        within = collection.search("text", texts, radius=4)
        assert within == [collection.search("text", text, radius=4) for text in texts]
        assert collection.search("text", []) == []


def test_a_vector_is_one_query_and_a_matrix_is_a_batch(paired: tuple[Paired, Paired], tmp_path: Path) -> None:
    train, test = paired
    items = Items.of(train.modalities, [[str(label) for label in row.nonzero()[0]] for row in train.labels.toarray()])
    vectors = Encoder({"image": Vectors(), "text": Vectors()}, DLFH(n_bits=16, random_state=0, hash_function="linear"))
    with Collection.build(tmp_path / "shop", items, vectors).collection as collection:
        images, texts = test.modalities["image"][:3], test.modalities["text"][:3]
        together = collection.search("image", images)
        assert_same(together, [collection.search("image", image) for image in images])
        assert_same(together, collection.search("image", images.tolist()))
        assert_same(together[:1], [collection.search("image", images[0].tolist())])
        assert [found.ids for found in collection.search("text", texts)] == [
            collection.search("text", texts[[row]])[0].ids for row in range(3)
        ]


def test_a_collection_is_a_container_of_items(items: Items, shop: Path) -> None:
    with Collection.open(shop) as collection:
        assert [item.id for item in collection] == items.ids
        assert "8.png" in collection
        assert "nobody" not in collection
        assert 8 not in collection
        assert repr(collection).startswith("Collection(")


@pytest.mark.parametrize("names", [("id", "k"), ("ranking", "radius"), ("modalities", "ids"), ("values", "modality")])
def test_modalities_may_be_named_like_parameters(tmp_path: Path, names: tuple[str, str]) -> None:
    words = [["red car", "blue sea"][row % 2] for row in range(12)]
    items = Items.of(dict.fromkeys(names, words), [[word] for word in words])
    both = Encoder({name: BagOfWords() for name in names}, DLFH(n_bits=8, random_state=0, hash_function="linear"))
    with Collection.build(tmp_path / "shop", items, both).collection as collection:
        assert collection.search(names[0], "car", k=6).ids == [str(row) for row in range(0, 12, 2)]
        assert collection.search(names[1], "sea", k=1, modalities=names[1]).ids == ["1"]


@pytest.mark.parametrize("match", ["codes", "words", "both"])
def test_a_filter_keeps_the_order_of_the_remaining_items(shop: Path, match: str) -> None:
    with Collection.open(shop) as collection:
        everything = collection.search("text", "level stripes", 100, match=match)
        some = collection.search("text", "level stripes", 100, match=match, where={"labels": ["level"]})
        assert some.ids == [item.id for item in everything if "level" in item.metadata.get("labels", [])]
        assert 0 < len(some) < len(everything)
        like = collection.similar(everything.ids[0], 100, where={"labels": {"!=": "level"}})
        assert not any("level" in item.metadata.get("labels", []) for item in like)
        assert like
        with pytest.warns(DataWarning, match="the filter names 'colour', but no item"):
            assert not collection.search("text", "level", where={"colour": "red"})


def test_items_are_added_updated_and_removed(items: Items, shop: Path) -> None:
    with Collection.open(shop, writable=True) as collection:
        problems = collection.add(items.take([0, 1]))
        assert [problem.reason for problem in problems] == [
            f"id '{n}.png' is already in the collection" for n in (0, 1)
        ]
        new = items.take([8, 9])
        new = Items(["new", "8.png"], new.modalities, new.labels, new.metadata, new.places, [])
        assert not collection.add(new, update=True)
        assert collection.index.ids()[-2:] == ["new", "8.png"]
        assert len(collection) == 41
        assert collection.get("8.png").states["image"] == "learned"  # its labels are known
        collection.remove(["new"])
    with Collection.open(shop) as collection:
        assert len(collection) == 40
        assert "new" not in collection


def test_images_are_found_after_collection_and_images_moved_together(photos: Path, tmp_path: Path) -> None:
    shutil.copytree(photos, tmp_path / "here" / "photos")
    items = read_items(tmp_path / "here" / "photos" / "items.csv", image="file", text="caption", labels="tags")
    Collection.build(tmp_path / "here" / "shop", items, encoder()).collection.close()
    (tmp_path / "here").rename(tmp_path / "there")
    with Collection.open(tmp_path / "there" / "shop") as collection:
        path = collection.image_path(collection.get("8.png").metadata or {})
        assert path is not None
        assert path.samefile(tmp_path / "there" / "photos" / "8.png")
        assert collection.image_path({}) is None


def test_images_are_found_after_the_collection_moved_alone(photos: Path, tmp_path: Path) -> None:
    items = read_items(photos / "items.csv", image="file", text="caption", labels="tags")
    Collection.build(tmp_path / "shop", items, encoder()).collection.close()
    (tmp_path / "a" / "b").mkdir(parents=True)
    first, second = tmp_path / "a" / "shop", tmp_path / "a" / "b" / "shop"
    shutil.copytree(photos, tmp_path / "a" / "photos")
    (tmp_path / "shop").rename(first)
    with Collection.open(first, writable=True) as collection:  # images of items added here are found relative to here
        frame = read_items(tmp_path / "a" / "photos" / "items.csv", image="file", text="caption").take([20])
        collection.add(replace(frame, ids=["new"]))
    first.rename(second)
    with Collection.open(second) as collection:
        for name, folder in (("8.png", photos), ("new", tmp_path / "a" / "photos")):
            path = collection.image_path(collection.get(name).metadata or {})
            assert path is not None
            assert path.parent.samefile(folder)
        assert collection.image_path({"image": "gone\0.png"}) == second.resolve() / "gone\0.png"
    for content in (b"", b"{", b"3", b"[3]", b'["\\u0000"]', b"[" * 100_000):
        (second / "places.json").write_bytes(content)
        with Collection.open(second) as collection:
            assert collection.image_path({"image": "8.png"}) == second.resolve() / "8.png"


def test_an_update_keeps_modalities_and_labels_that_it_lacks(items: Items, shop: Path) -> None:
    texts = Items(["8.png", "9.png"], {"text": ["level", None]}, None, [{"text": "level"}, {}], ["a", "b"], [])
    with Collection.open(shop, writable=True) as collection:
        before = {name: collection.get(name) for name in ("8.png", "9.png")}
        problems = collection.add(texts, update=True)
        after = collection.get("8.png")
        assert [problem.reason for problem in problems] == ["no readable content"]
        np.testing.assert_array_equal(after.codes["image"], before["8.png"].codes["image"])
        hashed = collection.index.get("8.png").codes["text:hashed"]
        np.testing.assert_array_equal(hashed, collection.encoder.encode("text", ["level"])[0])
        np.testing.assert_array_equal(after.codes["text"], before["8.png"].codes["text"])  # the code of its labels
        assert after.states == {"image": "learned", "text": "learned"}
        assert after.metadata == {**(before["8.png"].metadata or {}), "text": "level"}
        unchanged = collection.get("9.png")
        assert (unchanged.states, unchanged.metadata) == (before["9.png"].states, before["9.png"].metadata)


def test_items_without_ids_get_unused_numbers(items: Items, tmp_path: Path) -> None:
    numbered = replace(items, ids=[str(row) for row in range(len(items))], named=False)
    with Collection.build(tmp_path / "shop", numbered, encoder(), hold_out=5).collection as collection:
        for row in (0, 17, 39):  # ids are row numbers
            assert (collection.get(str(row)).metadata or {})["text"] == items.modalities["text"][row]
        assert collection.evaluate(numbered).quality[0].n_queries == 37
    with Collection.open(tmp_path / "shop", writable=True) as collection:
        collection.remove(["1"])
        collection.add(numbered.take([0, 1, 2]))
        assert len(collection) == 42
        assert collection.index.ids()[-3:] == ["40", "41", "42"]


def test_the_next_build_removes_folders_of_killed_builds(items: Items, tmp_path: Path) -> None:
    swept, young, busy = (f".shop-{digit * 16}.dlfh" for digit in "abc")
    mine = [".shop-settings", ".shop-deadbeef", f".shop-{'d' * 16}.dlfh"]  # other names or contents
    for name, age in ((swept, 3600), (young, 0), (busy, 3600), *((name, 3600) for name in mine)):
        (tmp_path / name / "whole").mkdir(parents=True)
        (tmp_path / name / ".building").touch()
        os.utime(tmp_path / name / ".building", (time.time() - age, time.time() - age))
    (tmp_path / mine[-1] / "notes.txt").write_text("keep")
    lock = try_lock(tmp_path / busy / ".building")
    assert lock is not None
    Collection.build(tmp_path / "shop", items, encoder()).collection.close()
    assert sorted(os.listdir(tmp_path)) == sorted([young, busy, *mine, "shop"])
    lock.close()


def test_a_build_holds_its_lock_until_the_rename(items: Items, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free, real = [], os.rename

    def rename(source: Path, target: Path) -> None:
        free.append(try_lock(Path(source).parent / ".building"))
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    Collection.build(tmp_path / "shop", items, encoder()).collection.close()
    assert free == [None]


def test_the_rename_of_a_new_collection_is_flushed_to_disk(
    items: Items, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[Any] = []
    real_rename, real_fsync = os.rename, os.fsync

    def rename(source: Path, target: Path) -> None:
        real_rename(source, target)
        events.append("rename")

    def fsync(descriptor: int) -> None:
        real_fsync(descriptor)
        events.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "rename", rename)
    monkeypatch.setattr(os, "fsync", fsync)
    Collection.build(tmp_path / "new" / "shop", items, encoder()).collection.close()
    assert events[events.index("rename") + 1 :] == [(tmp_path / "new").stat().st_ino]
    assert tmp_path.stat().st_ino in events


def test_a_folder_created_during_a_build_is_kept(items: Items, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.rename

    def rename(source: Path, target: Path) -> None:
        (tmp_path / "shop").mkdir()
        (tmp_path / "shop" / "mine.txt").write_text("keep")
        real(source, target)

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(StorageError, match=r"cannot create a collection in .*shop: Directory not empty"):
        Collection.build(tmp_path / "shop", items, encoder())
    assert [path.name for path in tmp_path.rglob("*")] == ["shop", "mine.txt"]


def test_a_full_disk_leaves_no_files(items: Items, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    learned = encoder()
    learned.fit_items(items)
    real = os.replace
    for name, kind in (("config.json", ModelError), ("manifest.json", StorageError), ("collection.json", StorageError)):

        def replace(source: Path, target: Path, full: str = name) -> None:
            if Path(target).name == full:
                raise OSError(28, "No space left on device")
            real(source, target)

        monkeypatch.setattr(os, "replace", replace)
        shop = tmp_path / "new" / "shop"
        with pytest.raises(kind, match=rf"{shop}(/model|/index)?: No space left on device"):
            Collection.build(shop, items, learned, fit=False)
        with pytest.raises(kind, match=rf"{shop}(/model|/index)?: No space left on device"):
            Collection.create(shop, learned)
        assert os.listdir(tmp_path) == []
        shop.mkdir(parents=True)  # an existing empty folder is kept
        with pytest.raises(kind, match="No space left on device"):
            Collection.create(shop, learned)
        assert [path.name for path in tmp_path.rglob("*")] == ["new", "shop"]
        shutil.rmtree(tmp_path / "new")


def test_the_index_of_another_collection_is_refused(items: Items, shop: Path, tmp_path: Path) -> None:
    with Collection.open(shop) as collection:
        Collection.build(tmp_path / "other", items, collection.encoder, fit=False).collection.close()
    shutil.rmtree(shop / "index")
    shutil.copytree(tmp_path / "other" / "index", shop / "index")
    with pytest.raises(ModelError, match="has a different index from the one that it was created with"):
        Collection.open(shop)


def test_unknown_words_cause_a_warning(shop: Path) -> None:
    with (
        Collection.open(shop) as collection,
        pytest.warns(DataWarning, match="None of these words occur in the collection"),
    ):
        assert len(collection.search("text", "qqqq zzz", k=2)) == 0


def test_a_failed_build_leaves_no_files(items: Items, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot hold out 30 of 38 complete, labelled items"):
        Collection.build(tmp_path / "shop", items, encoder(), hold_out=30)
    bad = Items(items.ids, items.modalities, items.labels, [{"x": object()}] * len(items), items.places, [])
    with pytest.raises(InputError, match="metadata"):
        Collection.build(tmp_path / "shop", bad, encoder())
    assert os.listdir(tmp_path) == []
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "mine.txt").write_text("keep")
    with pytest.raises(InputError, match="it is not an empty folder"):
        Collection.build(tmp_path / "shop", items, encoder())
    assert os.listdir(tmp_path / "shop") == ["mine.txt"]


def test_a_collection_may_be_created_in_an_empty_folder(items: Items, shop: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    with Collection.open(shop) as collection:
        built = Collection.build(tmp_path / "other", items, collection.encoder, fit=False)
        with built.collection as other:
            assert len(other) == 40
            assert other.index.count("text", "hashed") == 1  # the item without labels
            assert len(built.problems) == 3  # two images that cannot be read, and an empty text
            assert built.n_trained == 0
    with Collection.create(tmp_path / "empty", collection.encoder) as empty:
        assert len(empty) == 0
        empty.add(items.take([8, 9]))
        assert [item.states["image"] for item in empty] == ["learned", "learned"]


def test_folders_that_are_not_collections_are_refused(items: Items, shop: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        Collection.open(tmp_path / "nowhere")
    with pytest.raises(ModelError, match="it is a file"):
        Collection.open(shop / "collection.json")
    with pytest.raises(ModelError, match=r"has no collection\.json"):
        Collection.open(shop / "index")
    card = shop / "collection.json"
    good = card.read_text()
    for text, sentence in (
        ("{", "cannot be read"),
        ("[]", "has another format"),
        (json.dumps(json.loads(good) | {"format_version": 2}), "has format version 2, but .*: upgrade dlfh"),
        (json.dumps(json.loads(good) | {"format_version": True}), "is damaged: its format version is True"),
        (json.dumps(json.loads(good) | {"format_version": 0}), "is damaged: its format version is 0"),
        (good + "\n", "was altered"),
    ):
        card.write_text(text)
        with pytest.raises(ModelError, match=sentence):
            Collection.open(shop)
    card.write_text(good)
    other = encoder(n_bits=8)
    other.fit_items(items)
    other.save(shop / "model")
    with pytest.raises(ModelError, match="different model from the one that encoded its items"):
        Collection.open(shop)


def test_a_collection_is_not_loaded_as_a_model(shop: Path) -> None:
    with pytest.raises(ModelError, match=r"is a collection, not a model: open it with Collection\.open, or .*model$"):
        load(shop)
    with pytest.raises(ModelError, match="is not a collection: it is a model; dlfh build --model"):
        Collection.open(shop / "model")
    assert isinstance(load(shop / "model"), Encoder)


def test_invalid_searches_raise_input_errors(shop: Path, tmp_path: Path) -> None:
    with Collection.open(shop) as collection:
        for modality, value, options, sentence in (
            ("sound", "a", {}, "unknown modality 'sound'"),
            (["a"], "text", {}, "the first argument must be the name of a modality"),
            ("text", "level", {"modalities": "sound"}, "unknown modality 'sound'"),
            ("text", "level", {"k": 0}, "k must be an integer"),
            ("text", "level", {"ranking": "best"}, "ranking must be one of 'all', 'any', 'asymmetric', 'hamming'"),
            ("text", "level", {"ids": ["nobody"]}, "'nobody' is not in the index"),
            ("text", 3, {}, "text 0 must be a string"),
            ("text", ["level", 3], {}, "text 1 must be a string"),
            ("image", tmp_path / "gone.png", {}, "does not exist"),
            ("text", "level", {"radius": -1}, "radius must be an integer"),
            ("text", "level", {"match": "sounds"}, "match must be one of 'codes', 'words', 'both'"),
            ("image", "level", {"match": "words"}, "match='words' needs a text, but 'image' does not take texts"),
            (
                "text",
                "level",
                {"match": "both", "modalities": "image"},
                "match='both' needs texts, but 'image' has none",
            ),
            ("text", "level", {"modalities": []}, "modalities is empty: name at least one"),
            ("text", "level", {"min_probability": 0.5}, "min_probability needs probabilities"),
            (
                "text",
                "level",
                {"min_probability": 2},
                "min_probability must be a number greater than 0 and less than 1",
            ),
        ):
            with pytest.raises(InputError, match=sentence):
                collection.search(modality, value, **options)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="'nobody' is not in the index"):
            collection.similar("nobody")
        with pytest.raises(InputError, match="unknown modality 'sound'"):
            collection.similar("0.png", modalities="sound")
        with pytest.raises(StorageError, match="read"):
            collection.remove(["0.png"])


@pytest.mark.parametrize(
    "address", ["postgresql://ann:s3cret@db/shop", "postgres://db/shop", "duckdb:x", "milvus://db"]
)
def test_a_database_address_is_not_accepted_as_a_folder(
    address: str, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise a folder would be created whose name contains the password.
    monkeypatch.chdir(tmp_path)
    with Collection.open(shop) as collection:
        with pytest.raises(InputError, match="the collection must be a folder") as of_opening:
            Collection.open(address)
        with pytest.raises(InputError, match="the collection must be a folder") as of_copying:
            collection.copy(address)
    assert "s3cret" not in f"{of_opening.value}{of_copying.value}"
    assert not [path.name for path in tmp_path.iterdir() if ":" in path.name]
