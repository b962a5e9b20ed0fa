"""Marks of answers are kept beside a collection, and a collection learns from them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh import DLFH, Collection, Encoder
from dlfh.collection.marks import MARKS, _row, read_marks
from dlfh.datasets import Items, make_paired
from dlfh.errors import DLFHError, StorageError
from dlfh.features import BagOfWords, Vectors

N_POINTS, N_LABELLED = 300, 80


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of texts and of dense and sparse vectors, of which the first have labels."""
    data = make_paired(N_POINTS, n_labels=5, noise=2.0, random_state=3)
    labels = [[f"label {label}" for label in np.flatnonzero(row)] for row in data.labels.toarray()]
    texts = [" ".join(f"word{word}" for word in np.flatnonzero(row)[:9]) for row in data.modalities["text"].toarray()]
    items = Items.of(
        {"image": data.modalities["image"], "sparse": data.modalities["text"], "text": texts},
        [given if row < N_LABELLED else [] for row, given in enumerate(labels)],
    )
    encoder = Encoder(
        {"image": Vectors(), "sparse": Vectors(), "text": BagOfWords()},
        DLFH(16, hash_function="linear", random_state=0),
    )
    folder = tmp_path_factory.mktemp("marks") / "shop"
    Collection.build(folder, items, encoder).collection.close()
    return folder


@pytest.fixture
def shop(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "shop"))


def test_marks_of_a_question_replace_earlier_ones(shop: Path) -> None:
    with Collection.open(shop, writable=True) as collection:
        assert collection.mark("text", "word1 word2", relevant=["1", "2", "1"], irrelevant=["3"]) == 1
        assert collection.mark("text", "word3", relevant=["4"]) == 2
        assert collection.mark("text", " word1 word2 ", relevant=["1"]) == 2
        collection.copy(shop.with_name("copy")).close()
        assert collection.mark("text", "word3") == 1
    (first,) = read_marks(shop)
    assert (first.modality, first.text, first.relevant, first.irrelevant) == ("text", "word1 word2", ("1",), ())
    assert len(read_marks(shop.with_name("copy"))) == 2


def test_images_and_vectors_are_kept_as_vectors(shop: Path) -> None:
    rng = np.random.default_rng(0)
    with Collection.open(shop, writable=True) as collection:
        widths = collection.encoder.model_.n_features_
        dense = rng.normal(size=widths["image"]).astype(np.float32)
        sparse = sp.random_array((1, widths["sparse"]), density=0.2, rng=rng, dtype=np.float32, format="csr")
        collection.mark("image", dense, relevant=["1"])
        collection.mark("sparse", sparse[0] if sparse[0].ndim == 1 else sparse, irrelevant=["2"])
        first, second = read_marks(shop)
        np.testing.assert_array_equal(_row(collection, first)[0], dense)
        np.testing.assert_array_equal(_row(collection, second).toarray(), sparse.toarray())


def test_the_oldest_questions_are_dropped(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dlfh.collection.marks._MAX_BYTES", 500)
    with Collection.open(shop, writable=True) as collection:
        counts = [collection.mark("text", f"word{number}", relevant=["1"]) for number in range(9)]
    assert counts[0] == 1
    assert 1 < counts[-1] < 9
    assert (shop / MARKS).stat().st_size <= 500
    assert [each.text for each in read_marks(shop)] == [f"word{number}" for number in range(9)][-counts[-1] :]


@pytest.mark.parametrize(
    ("arguments", "marks", "message"),
    [
        (("text", "word1"), {"relevant": ["nope"]}, "'nope'"),
        (("text", "word1"), {"relevant": ["1"], "irrelevant": ["1"]}, "'1' is both relevant and irrelevant"),
        (("text", "word1"), {"relevant": "1"}, "relevant must be a list of strings"),
        (("text", " "), {"relevant": ["1"]}, "the text is empty"),
        (("text", ["word1", "word2"]), {"relevant": ["1"]}, "one query at a time"),
        (("sound", "word1"), {"relevant": ["1"]}, "unknown modality 'sound'"),
    ],
)
def test_mistakes_keep_nothing(shop: Path, arguments: Any, marks: Any, message: str) -> None:
    with Collection.open(shop, writable=True) as collection:
        with pytest.raises(DLFHError, match=message):
            collection.mark(*arguments, **marks)
        assert not (shop / MARKS).exists()


def test_readers_cannot_keep_marks(shop: Path) -> None:
    with Collection.open(shop) as collection, pytest.raises(DLFHError, match="open for reading"):
        collection.mark("text", "word1", relevant=["1"])


@pytest.mark.parametrize("content", [b"", b"{}x", b'[{"modality": "text"}]', b"[1]", b"3", b"\xff"])
def test_damaged_marks_are_named(shop: Path, content: bytes) -> None:
    (shop / MARKS).write_bytes(content)
    with pytest.raises(StorageError, match=r"repair or remove marks\.json"):
        read_marks(shop)


def test_a_crash_keeps_the_earlier_marks(shop: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Collection.open(shop, writable=True) as collection:
        collection.mark("text", "word1", relevant=["1"])
        before = (shop / MARKS).read_bytes()
        monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            collection.mark("text", "word2", relevant=["1"])
    assert (shop / MARKS).read_bytes() == before


def forget_labels(collection: Collection) -> None:
    collection.label([*map(str, range(N_LABELLED))], remove=[f"label {number}" for number in range(5)])


def test_relearning_learns_from_questions_whose_labels_are_certain(shop: Path) -> None:
    with Collection.open(shop, writable=True) as collection:
        forget_labels(collection)
        words = collection.encoder.word_labels_
        for word in words:
            has = np.array([word in (item.metadata or {})["text"].split() for item in collection])
            right, wrong = (np.flatnonzero(which)[:20] for which in (has, ~has))
            collection.mark("text", word, relevant=[*map(str, right)], irrelevant=[*map(str, wrong)])
        collection.mark("text", "word1", relevant=["1"])
        collection.remove(["1"])
        result = collection.relearn()
        assert 0 < result.n_queries <= len(words) + 1
        assert f"and the marks of {result.n_queries} queries" in str(result)
        assert result.n_items == len(collection) == N_POINTS - 1
        collection.verify()


def test_marks_are_not_learned_from_once_items_have_labels(shop: Path) -> None:
    with Collection.open(shop, writable=True) as collection:
        vector = np.zeros(collection.encoder.model_.n_features_["image"], np.float32)
        collection.mark("image", vector, relevant=[*map(str, range(30))])
        assert collection.relearn().n_queries == 0
        assert len(read_marks(shop)) == 1


def test_vectors_that_do_not_fit_are_named(shop: Path) -> None:
    with Collection.open(shop, writable=True) as collection:
        forget_labels(collection)
        vector = np.zeros(collection.encoder.model_.n_features_["image"], np.float32)
        collection.mark("image", vector, relevant=["1"])
        (shop / MARKS).write_text((shop / MARKS).read_text().replace("AAAA", "", 1))
        with pytest.raises(StorageError, match="repair or remove"):
            collection.relearn()
