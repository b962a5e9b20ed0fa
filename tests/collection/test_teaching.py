"""Labels can be changed, items to label are chosen well, and a collection learns again without a gap."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.collection import folder as folder_module
from dlfh.collection import teaching
from dlfh.collection.query import labels_of
from dlfh.collection.teaching import edit_items
from dlfh.collection.vectors import vector_file
from dlfh.datasets import Items, Paired, make_paired, read_items
from dlfh.errors import DLFHError, InputError
from dlfh.features import BagOfWords, Vectors

N_POINTS, N_LABELLED = 300, 80


@pytest.fixture(scope="module")
def data() -> Paired:
    return make_paired(N_POINTS, n_labels=5, noise=2.0, random_state=3)


@pytest.fixture(scope="module")
def truth(data: Paired) -> list[list[str]]:
    return [[f"label {label}" for label in np.flatnonzero(row)] for row in data.labels.toarray()]


def vector_encoder() -> Encoder:
    return Encoder({"image": Vectors(), "text": Vectors()}, DLFH(16, hash_function="linear", random_state=0))


@pytest.fixture(scope="module")
def built(data: Paired, truth: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of dense and sparse vectors, of which the first have labels."""
    labels = [given if row < N_LABELLED else [] for row, given in enumerate(truth)]
    folder = tmp_path_factory.mktemp("teaching") / "shop"
    Collection.build(folder, Items.of(data.modalities, labels), vector_encoder(), hold_out=0).collection.close()
    return folder


@pytest.fixture
def shop(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "shop"))


def stored(collection: Collection) -> dict[str, Any]:
    """Return everything that the index stores, by id."""
    found = {}
    for item in collection.index.items():
        codes = {name: code.tobytes() for name, code in item.codes.items()}
        found[item.id] = item.metadata, codes, item.states
    return found


def test_labelled_items_are_as_if_they_had_been_added_with_their_labels(
    shop: Path, tmp_path: Path, data: Paired, truth: list[list[str]]
) -> None:
    rows = [*range(N_LABELLED, N_LABELLED + 4)]
    other = Path(shutil.copytree(shop, tmp_path / "other"))
    part = Items.of(data.modalities, truth, [*map(str, range(N_POINTS))]).take(rows)
    with Collection.open(shop, writable=True) as collection:
        collection.remove(part.ids)
        collection.add(Items.of(part.modalities, ids=part.ids))
        assert [collection.label([str(row)], add=truth[row]) for row in rows] == [1] * 4
        assert collection.label(["0"], remove=truth[0]) == 1
        labelled = stored(collection)
    with Collection.open(other, writable=True) as collection:
        collection.remove(part.ids)
        collection.add(part)
        expected = stored(collection)
    for row in rows:
        assert labelled[str(row)] == expected[str(row)]
    metadata, _, states = labelled["0"]
    assert "labels" not in metadata
    assert states["image"] == "hashed"
    assert states["labels"] == "hashed"


def test_labels_that_change_nothing_write_nothing(shop: Path, truth: list[list[str]]) -> None:
    with Collection.open(shop, writable=True) as collection:
        before = collection.index.state
        assert collection.label(["0", "1"], add=[], remove=["label 99"]) == 0
        assert collection.label(["0"], add=truth[0][:1]) == 0
        assert collection.index.state == before


@pytest.mark.parametrize(
    ("ids", "changes", "message"),
    [
        (["0", "nope"], {"add": ["sale"]}, "'nope'"),
        ("0", {"add": ["sale"]}, "ids must be a list of strings"),
        (["0"], {"add": "sale"}, "add must be a list of labels"),
        (["0"], {"remove": ["  "]}, "remove must be a list of labels"),
        (["0"], {"add": ["sale"], "remove": ["sale"]}, "'sale' is both added and removed"),
    ],
)
def test_mistakes_change_no_label(shop: Path, ids: Any, changes: Any, message: str) -> None:
    with Collection.open(shop, writable=True) as collection:
        before = stored(collection)
        with pytest.raises(DLFHError, match=message):
            collection.label(ids, **changes)
        assert stored(collection) == before


def test_label_words_follow_the_labels(tmp_path: Path) -> None:
    items = Items.of(
        {"text": ["a red car", "a blue car", "a dog", "a cat"] * 4}, [["car"], ["car"], ["pet"], ["pet"]] * 4
    )
    encoder = Encoder({"text": BagOfWords(), "label": BagOfWords()}, DLFH(16, random_state=0))
    Collection.build(tmp_path / "shop", items.with_label_words(), encoder).collection.close()
    with Collection.open(tmp_path / "shop", writable=True) as collection:
        collection.label(["0"], add=["pet"], remove=["car"])
        assert stored(collection)["0"][1] == stored(collection)["2"][1] | {
            name: code for name, code in stored(collection)["0"][1].items() if name.startswith("text:")
        }
        assert collection.relearn().n_items == 16
        assert {*collection.search("label", "pet", k=9).ids} >= {"0", "2", "3"}


def test_items_to_label_next_have_no_labels_and_represent_the_others(built: Path) -> None:
    with Collection.open(built) as collection:
        chosen = collection.label_next(20)
        assert chosen == collection.label_next(20)
        assert len({*chosen}) == 20
        assert min(map(int, chosen)) >= N_LABELLED
        assert len(collection.label_next(1000)) == N_POINTS - N_LABELLED
        assert len({*collection.label_next(200)}) == 200
        ids, features = teaching._beliefs(collection, collection.index.positions([*map(str, range(80, N_POINTS))]))
        _, known = teaching._beliefs(collection, collection.index.positions([*map(str, range(N_LABELLED))]))
        distances = np.linalg.norm(features[:, None] - features, axis=2)
        covered = np.linalg.norm(features[:, None] - known, axis=2).min(axis=1)
        at_random = [np.random.default_rng(seed).permutation(len(ids))[:20] for seed in range(20)]
        reach = [distances[:, [ids.index(name) for name in chosen]], *(distances[:, rows] for rows in at_random)]
        ours, *theirs = [float(np.minimum(each.min(axis=1), covered).mean()) for each in reach]
        assert ours < np.mean(theirs)
        with pytest.raises(InputError, match="n must be an integer of at least 1"):
            collection.label_next(0)


def test_relearning_improves_the_predictions_and_keeps_known_codes(shop: Path, truth: list[list[str]]) -> None:
    rest = [*range(200, N_POINTS)]

    def n_right(collection: Collection) -> int:
        found = collection.suggest([*map(str, rest)], precision=0.5, k=1)
        return sum(label in truth[int(name)] for name, label, _ in found)

    with Collection.open(shop, writable=True) as collection:
        before, codes, reader = n_right(collection), stored(collection), Collection.open(shop)
        for row in range(N_LABELLED, 200):
            collection.label([str(row)], add=[*truth[row], "new"])
        result = collection.relearn()
        assert (result.n_labelled, result.n_items, result.n_labels) == (200, N_POINTS, 6)
        assert str(result) == "learned 6 labels from 200 of 300 items"
        after = stored(collection)
        assert n_right(collection) > before
        assert collection.search("image", np.zeros(collection.encoder.model_.n_features_["image"])).ids
        collection.label(["299"], add=["new"])
    for row in range(N_LABELLED):
        for name in ("image", "text"):
            assert codes[str(row)][1][name] == after[str(row)][1][name]
    assert reader.similar("0", k=3).ids  # a reader that is open keeps the old model
    with Collection.open(shop) as collection:
        collection.verify()
        assert collection.get("299").metadata is not None
        assert {path.name.split("-")[0] for path in shop.iterdir() if path.is_dir()} == {"model", "index"}
        assert len([path for path in shop.iterdir() if path.is_dir()]) == 2
        assert "new" in collection.encoder.model_.label_names_


@pytest.mark.parametrize("function", ["write_card", "replace_file"])
def test_a_crash_while_relearning_leaves_the_old_collection(
    shop: Path, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with Collection.open(shop, writable=True) as collection:
        before = stored(collection)
        with monkeypatch.context() as patch:
            patch.setattr(teaching if function == "write_card" else folder_module, function, crash)
            with pytest.raises(KeyboardInterrupt):
                collection.relearn()
        assert stored(collection) == before
        (shop / "index-0123456789abcdef").mkdir()  # left by a killed process
        collection.relearn()
        assert not (shop / "index-0123456789abcdef").exists()
    with Collection.open(shop) as collection:
        assert len(collection) == N_POINTS


def test_lost_vectors_are_named(shop: Path) -> None:
    vector_file(shop, 1).unlink()
    with Collection.open(shop, writable=True) as collection:
        before = stored(collection)
        with pytest.raises(InputError, match="the vectors of 300 items in the modality 'text' are not kept"):
            collection.relearn()
        assert stored(collection) == before
    with Collection.open(shop) as collection, pytest.raises(InputError, match="open for reading"):
        collection.relearn()


def test_images_whose_vectors_are_lost_are_read_again(photos: Path, tmp_path: Path) -> None:
    items = read_items(photos / "items.csv", image="file", text="caption", labels="tags")
    encoder = Encoder.for_items(items, DLFH(16, random_state=0), image_features="thumbnail", text_features="tfidf")
    Collection.build(tmp_path / "shop", items, encoder).collection.close()
    codes = []
    for lose in (False, True):
        with Collection.open(tmp_path / "shop", writable=True) as collection:
            if lose:
                content = vector_file(tmp_path / "shop", 0).read_bytes()
                vector_file(tmp_path / "shop", 0).write_bytes(content[: len(content) // 2])
            collection.relearn()
            codes.append(stored(collection))
    assert codes[0] == codes[1]


def test_a_copy_can_learn_again(shop: Path, tmp_path: Path) -> None:
    with Collection.open(shop) as collection:
        collection.copy(tmp_path / "copy").close()
    with Collection.open(tmp_path / "copy", writable=True) as copy:
        assert copy.relearn().n_labelled == N_LABELLED


@pytest.mark.parametrize("other", ["german", "label"])
def test_an_edited_item_equals_an_item_that_was_added_with_its_labels(other: str, tmp_path: Path) -> None:
    english, german = ["a car", "a dog", "a cat"] * 4, ["Auto", "Hund", "Katze"] * 4
    labels = [["car"], ["dog", "pet"], ["pet"]] * 4
    items = Items.of({"english": english} | ({"german": german} if other == "german" else {}), labels)
    encoder = Encoder({"english": BagOfWords(), other: BagOfWords()}, DLFH(n_bits=16, random_state=0))
    new = Items.of({"english": ["a big car"]}, ids=["new"])
    with Collection.build(tmp_path / "c", items.with_label_words() if other == "label" else items, encoder).collection:
        pass
    with Collection.open(tmp_path / "c", writable=True) as collection:
        for given in (["pet"], ["dog", "pet"], ["pet", "car"], ["never seen"], []):
            labelled = Items.of({"english": ["a big car"]}, [given], ids=["labelled"])
            collection.add(labelled.with_label_words() if other == "label" else labelled, update=False)
            collection.add(new, update=True)
            edit_items(collection, ["new"], lambda metadata, given=given: metadata | {"labels": given})  # type: ignore[misc]
            edited, added = (collection.index.get(name) for name in ("new", "labelled"))
            assert edited.states == added.states
            assert {name: code.tobytes() for name, code in edited.codes.items()} == {
                name: code.tobytes() for name, code in added.codes.items()
            }
            assert labels_of(edited.metadata or {}) == given
            edit_items(collection, ["new"], lambda metadata: metadata | {"columns": {"price": 3}})
            again = collection.index.get("new")
            assert [*map(bytes, again.codes.values())] == [*map(bytes, edited.codes.values())]
            with pytest.raises(InputError, match="'missing' is not in the index"):
                edit_items(collection, ["new", "missing"], lambda metadata: {})
            assert collection.index.get("new").metadata == again.metadata
            collection.remove(["new", "labelled"])
