"""Searches of many queries: what they share is computed once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh._parallel import cancellable
from dlfh.collection import SearchOptions
from dlfh.collection.query import Query
from dlfh.datasets import Items
from dlfh.errors import DataWarning, InputError
from dlfh.features import BagOfWords
from tests.service.conftest import stripes_folder

__all__ = ["stripes_folder"]


class Filter(dict[str, Any]):
    """A filter that counts how often it is read."""

    n_read = 0

    def items(self) -> Any:
        self.n_read += 1
        return super().items()


@pytest.mark.parametrize(
    "queries", [[Query("code", "0" * 6)], [Query("text", "level")], [Query("id", "8.png")]], ids=["code", "text", "id"]
)
def test_a_filter_is_read_as_often_for_a_hundred_queries_as_for_one(stripes_folder: Any, queries: list[Query]) -> None:
    reads = []
    with Collection.open(stripes_folder) as collection:
        for n in (1, 100):
            part = Filter(parity=1)
            options = SearchOptions(k=3, modalities="image", where={"and": [part]})
            results = collection.searcher.search(queries * n, options)
            assert len(results) == n
            assert all(item.metadata["columns"]["parity"] == 1 for result in results for item in result)
            reads.append(part.n_read)
    assert reads[0] == reads[1]


def test_codes_and_other_queries_are_answered_in_their_order(stripes_folder: Any) -> None:
    queries = [Query("code", "0" * 6), Query("id", "8.png"), Query("code", "f" * 5 + "0"), Query("text", "level")]
    options = SearchOptions(k=4, modalities="image")
    with Collection.open(stripes_folder) as collection:
        together = collection.searcher.search(queries, options)
        assert together == [collection.searcher.search([query], options)[0] for query in queries]


def test_a_search_stops_when_it_is_cancelled(stripes_folder: Any) -> None:
    steps = 0

    def count() -> None:
        nonlocal steps
        steps += 1
        if steps == 3:
            raise TimeoutError

    with Collection.open(stripes_folder) as collection, cancellable(count), pytest.raises(TimeoutError):
        collection.searcher.search([Query("text", "level")] * 100, SearchOptions(match="codes", modalities="image"))


def test_a_picture_and_words_find_what_matches_both(stripes_folder: Any) -> None:
    with Collection.open(stripes_folder) as collection:
        picture = collection.image_path(collection.get("8.png").metadata or {})
        (words,) = collection.searcher.search([Query("text", "level")], SearchOptions(k=len(collection)))
        alone = collection.search("image", picture, len(collection))
        both = collection.search("image", picture, len(collection), text="level")
        of_words, of_picture = ({item.id: item.probability or 0.0 for item in found} for found in (words, alone))
        assert both.understanding == words.understanding
        assert [item.rank for item in both] == [*range(1, len(both) + 1)]
        for item in both if both[0].probability is not None else ():
            assert item.probability == pytest.approx(of_words[item.id] * of_picture[item.id])
        excluding = collection.search("image", picture, len(collection), text="not level")
        assert {*excluding.ids} == {*alone.ids} - {*collection.search("text", "level", 100, match="words").ids}
        similar = collection.similar("8.png", 5, text="level")
        assert "8.png" not in similar.ids
        with pytest.warns(DataWarning, match="None of these words"):
            assert not collection.similar("8.png", text="qqqqqq").ids


def test_words_beside_other_words_or_with_a_radius_are_one_clear_sentence(stripes_folder: Any) -> None:
    with Collection.open(stripes_folder) as collection:
        with pytest.raises(InputError, match="text is for queries by an image or a vector"):
            collection.search("text", "level", text="red")
        with pytest.raises(InputError, match="neither a radius nor a code"):
            collection.similar("8.png", text="level", radius=3)


def test_a_literal_text_is_searched_for_as_it_is(stripes_folder: Any) -> None:
    with Collection.open(stripes_folder) as collection:
        assert collection.search("text", "levl").understanding.corrected == {"levl": "level"}
        with pytest.warns(DataWarning, match="None of these words"):
            assert not collection.search("text", "levl", literal=True).ids


@pytest.fixture(scope="module")
def pets(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """A calibrated collection of 120 items."""
    names = [("car", "Auto"), ("dog", "Hund"), ("cat", "Katze")] * 40
    texts = {
        "english": [f"{n} {name} x{n}" for n, (name, _) in enumerate(names)],
        "german": [each for _, each in names],
    }
    items = Items.of(texts, labels=[["car"], ["pet"], ["pet"]] * 40)
    encoder = Encoder({"english": BagOfWords(), "german": BagOfWords()}, DLFH(n_bits=16, random_state=0))
    with Collection.build(tmp_path_factory.mktemp("pets"), items, encoder, hold_out=30).collection as collection:
        yield collection


def test_what_is_left_out_is_counted(pets: Collection) -> None:
    found = pets.search("english", "pet", 100)
    least = (found[0].probability or 0.0) - 1e-6
    fewer = pets.search("english", "pet", 100, min_probability=least)
    assert 0 < len(fewer) < 100
    assert fewer.ids == [item.id for item in found if (item.probability or 0.0) >= least]
    assert fewer.notes[-1] == f"{100 - len(fewer)} of the first 100 results are less probable than {least:.0%}"


def test_nothing_found_says_what_the_collection_is_about(pets: Collection) -> None:
    with pytest.warns(DataWarning, match="None of these words"):
        nothing = pets.search("english", "zzqqxx")
    assert not nothing.ids
    assert nothing.notes[-1] == "This collection is about pet, car"
    with pytest.warns(DataWarning, match="only excludes"):
        assert not pets.search("english", "not dog").ids


def test_a_corrected_word_lowers_the_probability(pets: Collection) -> None:
    typed, literal = pets.search("english", "pett"), pets.search("english", "pet")
    assert typed.ids == literal.ids
    assert (typed[0].probability or 0.0) == pytest.approx(0.99 * (literal[0].probability or 0.0))


@pytest.mark.parametrize("text", ["dog x7", "x7 dog cat", "7 x7", "cat", "pet x4"])
def test_items_with_everything_that_is_asked_for_come_first_and_probabilities_fall(pets: Collection, text: str) -> None:
    found = pets.search("english", text, 120)
    asked = {word for word in text.split() if word != "pet"}
    complete = [
        asked <= {*item.metadata["english"].split()} and ("pet" not in text or "pet" in item.labels) for item in found
    ]
    assert complete == sorted(complete, reverse=True)
    probabilities = [item.probability or 0.0 for item in found]
    assert probabilities == sorted(probabilities, reverse=True)
    assert pets.search("english", text, 5).ids == found.ids[:5]


def test_an_excluded_term_needs_all_of_its_words(pets: Collection) -> None:
    every = pets.search("english", "pet", 120).ids
    fewer = pets.search("english", "pet without dog x7", 120).ids
    assert {*every} - {*fewer} == {item.id for item in pets if (item.metadata or {})["english"] == "7 dog x7"}


def test_labels_that_no_item_has_together_are_named_with_their_numbers(pets: Collection) -> None:
    found = pets.search("english", "pet car")
    assert found.notes == ("No item has the labels pet and car together (80 pet, 40 car). Showing the closest items",)
    assert not pets.search("english", "pet").notes
