"""Texts are read as people mean them: typing errors, synonyms, negation, emoji, and words that nothing has."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

from dlfh.collection.understanding import LabelNames, QueryReader, Understanding, label_words, read_synonyms
from dlfh.errors import InputError

WORDS = "red black blue shoes shoe sunglasses handbag watch watches leather belt navy white winter heels 501 tshirt"
PHRASES = {"no smoking", "nike"}
LABELS = ["Watches", "Casual Shoes", "Shoes", "Berry", "Navy_Blue", "Blue", "!"]
NAMES = LabelNames(["Red", "Navy Blue", "Casual Shoes", "Watches", "Black"], {})


def read(text: str, synonyms: dict[str, str] | None = None) -> Understanding:
    words = frozenset(WORDS.split())
    return QueryReader(words, PHRASES.__contains__, NAMES.name_length, synonyms or {}).read(text)


@pytest.mark.parametrize(
    ("text", "corrected"),
    [
        ("sunglases", {"sunglases": "sunglasses"}),
        ("SUNGLASES, red", {"sunglases": "sunglasses"}),
        ("handbg", {"handbg": "handbag"}),
        ("red tshrit", {"tshrit": "tshirt"}),
        ("wtach", {"wtach": "watch"}),
        ("sunglsases", {"sunglsases": "sunglasses"}),
        ("shores", {}),  # a word of English
        ("belts", {}),  # a plural
        ("502", {}),  # a number
        ("rde", {}),  # too short
        ("nike", {}),  # a word of some text
        ("rote schuhe", {}),  # mostly unknown: another language
        ("sungl", {"sungl": "sunglasses"}),  # still being typed
        ("sungl red", {}),
        ("car", {}),
    ],
)
def test_typing_errors_are_corrected(text: str, corrected: dict[str, str]) -> None:
    understood = read(text)
    assert understood.corrected == corrected
    assert all(word in understood.text for word in corrected.values())
    assert not any(word in understood.text.lower().split() for word in corrected)


def test_a_word_is_replaced_by_the_form_that_text_features_know() -> None:
    words = frozenset(WORDS.split())
    reader = QueryReader(words, PHRASES.__contains__, NAMES.name_length, features=frozenset(["heels", "shoe", "shoes"]))
    understood = reader.read("red heel, shoe and shoes")
    assert understood.text == "red heels, shoe and shoes"
    assert [*understood.sentences()] == []


def test_several_words_that_are_as_near_are_offered() -> None:
    words = frozenset(["zarda", "zardo", "heels"])
    near = QueryReader(words, PHRASES.__contains__, NAMES.name_length).read("zardi heels")
    assert near.corrected == {}
    assert near.alternatives == {"zardi": ("zarda", "zardo")}
    assert near.unknown == ("zardi",)
    assert [*near.sentences()] == ["“zardi” does not occur in this collection. Did you mean zarda or zardo?"]


def test_emoji_ask_by_their_names() -> None:
    assert "heart" in read("\N{BLACK HEART SUIT}\N{VARIATION SELECTOR-16} red").text
    assert read("\N{ATHLETIC SHOE}").text.split() == ["athletic", "shoe"]


def test_words_that_the_collection_lacks_are_named() -> None:
    understood = read("red umbrella")
    assert understood.unknown == ("umbrella",)
    assert [*understood.sentences()] == ["Not in this collection: umbrella"]
    assert read("the red shoes for winter") == Understanding("the red shoes for winter")


def test_unknown_words_beside_labels_or_one_word_are_left_out_and_lower_the_confidence() -> None:
    reader = QueryReader(frozenset(WORDS.split()), PHRASES.__contains__, NAMES.name_length, drops_unknown=True)
    understood = reader.read("red watches forecast")
    assert (understood.text, understood.unknown) == ("red watches", ("forecast",))
    assert understood.confidence == pytest.approx(4 / 9)
    assert reader.read("belt forecast").confidence == 1 / 4
    assert reader.read("belt").confidence == reader.read("leather belt forecast").confidence == 1
    assert reader.read("parliament").text == "parliament"  # nothing else is left


def test_hyphens_and_spaces_in_names_of_labels_do_not_matter() -> None:
    for label in ("Tshirts", "T-Shirt"):
        names = LabelNames([label, "Red"], {})
        reader = QueryReader(names.words | {"kurta"}, lambda _: False, names.name_length)
        for typed in ("t-shirt", "tshirt", "T-shirts", "Tshirts"):
            understood = reader.read(f"red {typed}")
            assert understood.unknown == ()
            assert [numbers for _, numbers in names.find(understood.text)] == [[1], [0]]
        assert reader.read("red-kurta").corrected == {}


def test_a_file_of_synonyms_replaces_words(tmp_path: Path) -> None:
    assert read_synonyms(tmp_path) == {}
    (tmp_path / "synonyms.txt").write_text("# mine\nsneakers, Trainers => shoes\n\nrouge, red\nnavy jeans => blue\n")
    synonyms = read_synonyms(tmp_path)
    assert synonyms == {"sneakers": "shoes", "trainers": "shoes", "rouge": "red", "navy jeans": "blue"}
    understood = read("Rouge sneakers", synonyms)
    assert understood.text == "red shoes"
    assert understood.synonyms == {"rouge": "red", "sneakers": "shoes"}
    assert read("navy jeans not trainers", synonyms).text == "blue"


@pytest.mark.parametrize("line", ["=> shoes", "sneakers =>", "a, , b => c", "alone"])
def test_an_invalid_line_of_synonyms_is_one_clear_sentence(tmp_path: Path, line: str) -> None:
    (tmp_path / "synonyms.txt").write_text(f"good => fine\n{line}\n")
    with pytest.raises(InputError, match=r"line 2 of .*synonyms\.txt must be like"):
        read_synonyms(tmp_path)


def test_a_file_of_synonyms_in_another_encoding_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "synonyms.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="cannot be read as UTF-8 text"):
        read_synonyms(tmp_path)


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("a WATCH, please", [0]),
        ("watches", [0]),
        ("casual shoe", [1]),
        ("shoes, casual", [2]),
        ("navy blue berries", [4, 3]),
        ("blue navy", [5]),
        ("timepiece", [0]),
        ("swatch", []),
        ("", []),
        ("!", []),
    ],
)
def test_names_are_found_in_texts(text: str, labels: list[int]) -> None:
    names = LabelNames(LABELS, {"timepiece": "Watches", "unknown": "No such label"})
    assert [number for _, numbers in names.find(text) for number in numbers] == labels


def test_a_word_that_names_a_label_means_no_other_label() -> None:
    names = LabelNames(["Shirts", "Tshirts"], {"shirt": "Tshirts", "tee": "Tshirts"})
    assert [*names.find("a shirt")] == [(["shirt"], [0])]
    assert [*names.find("a tee")] == [(["tee"], [1])]


@pytest.mark.parametrize("text", ["women's red belts", "WOMEN’S red belts"])
def test_possessives_find_the_word_and_the_label(text: str) -> None:
    assert read(text).text.lower() == "women red belts"
    names = LabelNames(["Women's belts"], {})
    assert [words for words, _ in names.find("belts of a women belt")] == [["women", "belt"]]


def test_a_word_of_the_same_meaning_is_not_a_name() -> None:
    names = LabelNames(LABELS, {"timepiece": "Watches"})
    assert names.is_name(["watch"])
    assert not names.is_name(["timepiece"])


def test_the_words_of_a_name_are_those_of_the_text() -> None:
    assert [words for words, _ in LabelNames(LABELS, {}).find("Casual SHOES and a Watch")] == [
        ["casual", "shoes"],
        ["watch"],
    ]


def test_a_word_means_a_label_if_it_implies_it_and_is_implied_by_it() -> None:
    texts = np.array([[1, 1, 0], [1, 0, 0], [1, 0, 1], [1, 0, 0], [0, 0, 1]])  # dog, poodle, and a word of two labels
    labels = np.array([[1, 0], [1, 0], [1, 0], [1, 0], [0, 1]], np.float32)
    assert label_words(["dog", "poodle", "pet"], sp.csr_array(texts), labels) == {"dog": 0}
    assert label_words(["dog", "poodle", "pet"], sp.csr_array(texts[:2]), labels[:2]) == {}
