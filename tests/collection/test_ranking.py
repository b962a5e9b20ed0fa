"""Items are ranked by probability, and equally probable ones by their hashed codes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import DLFH, Collection, Encoder
from dlfh.codes import unpack
from dlfh.collection import ranking
from dlfh.collection.calibration.model import Calibration, probability
from dlfh.collection.collection import BuildResult
from dlfh.collection.query import Query, SearchOptions
from dlfh.collection.ranking import Ranker
from dlfh.datasets import Items, load_dataset
from dlfh.errors import InputError
from dlfh.features import BagOfWords, Vectors
from dlfh.hashing import KernelRidge
from dlfh.index.items import Item
from dlfh.index.scan import Bounds
from tests.collection.plain_ranking import rank

COLOURS = ["red", "blue", "green", "black"]
THINGS = ["shoe", "hat", "scarf", "glove", "sock", "belt"]


def drawn(n: int, seed: int, first: int = 0) -> Items:
    """Draw items with a colour, a thing and a brand, which is not a label; vectors take the place of images."""
    rng = np.random.default_rng(seed)
    colours, things = rng.integers(4, size=n), rng.integers(6, size=n)
    directions = np.random.default_rng(9).normal(size=(10, 12))
    pictures = directions[colours] + directions[4 + things] + rng.normal(0, 1.0, (n, 12))
    said = rng.random((n, 2)) < 0.7  # not every text names both
    texts = [
        " ".join(
            [
                *([COLOURS[colours[row]]] if said[row, 0] else []),
                *([THINGS[things[row]]] if said[row, 1] else []),
                f"by brand{rng.integers(20)} number{first + row}",
            ]
        )
        for row in range(n)
    ]
    labels = [[COLOURS[colour], THINGS[thing]] for colour, thing in zip(colours, things, strict=True)]
    return Items.of({"image": pictures, "text": texts}, labels, [f"i{first + row}" for row in range(n)])


def without_numbers(items: Items) -> Items:
    """Return items without the unique word of each text, which only features of training items contain."""
    texts = [text.rpartition(" ")[0] for text in items.modalities["text"]]
    return replace(items, modalities={**items.modalities, "text": texts})


def labels_of(item: Item) -> tuple[str, ...]:
    return tuple((item.metadata or {})["labels"])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BuildResult]:
    encoder = Encoder({"image": Vectors(), "text": BagOfWords()}, DLFH(n_bits=32, random_state=0))
    built = Collection.build(tmp_path_factory.mktemp("ranking") / "shop", drawn(600, 0), encoder)
    with built.collection:
        yield built


def test_results_are_sorted_by_probability(built: BuildResult) -> None:
    for how in (
        {},
        {"hashed_only": True},
        {"match": "codes"},
        {"match": "words"},
        {"modalities": "image"},
        {"ranking": "hamming"},
    ):
        found = built.collection.search("text", "red hat brand3", k=600, **how)
        chances = [item.probability for item in found]
        assert chances == sorted(chances, reverse=True)
        assert all(0 < chance < 1 for chance in chances)


@pytest.fixture(scope="module")
def mixed(built: BuildResult, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """A collection with several segments, removed items, items without labels, and items that lack a modality."""
    collection = built.collection.copy(tmp_path_factory.mktemp("mixed") / "shop")
    collection.close()
    with Collection.open(collection.path, writable=True) as collection:
        more = drawn(120, 3, first=2000)
        for rows, labels, names in (
            (range(40), more.labels, ["image", "text"]),
            (range(40, 70), None, ["image", "text"]),
            (range(70, 90), more.labels, ["image"]),
            (range(90, 105), None, ["text"]),
            (range(105, 120), None, ["image"]),
        ):
            some = more.take([*rows])
            modalities = {name: some.modalities[name] for name in names}
            collection.add(Items.of(modalities, None if labels is None else some.labels, some.ids))
        collection.remove([f"i{row}" for row in range(0, 600, 11)])
        assert len(collection.index.snapshot.parts) > 1
        yield collection


def test_a_scan_finds_what_exhaustive_comparison_finds(mixed: Collection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "_MIN_SCANNED", 16)
    monkeypatch.setattr(ranking, "_SAMPLE", 8)
    monkeypatch.setattr(ranking, "_SAMPLE_PER_RESULT", 1)
    monkeypatch.setattr(ranking, "_may_compile", lambda: True)
    monkeypatch.setattr(Calibration, "shown_log_odds", lambda _, log_odds, *__: log_odds)  # compare what is ranked by
    scans: list[int] = []
    real = Bounds.of

    def of(*given: Any) -> Bounds:
        scans.append(1)
        return real(*given)

    monkeypatch.setattr(Bounds, "of", of)
    rng, ids = np.random.default_rng(0), mixed.index.ids()
    words = [*COLOURS, *THINGS, *(f"brand{n}" for n in range(20)), "by", "number2101"]
    for number in range(120):
        options: dict[str, Any] = {"k": int(rng.choice([1, 5, 10, 40]))}
        modality = (None, "image", ("image", "text"), "text")[rng.integers(4)]
        ranked_by = (None, None, "asymmetric", "hamming", "any")[rng.integers(5)]
        options |= {} if modality is None else {"modalities": modality}
        options |= {} if ranked_by is None else {"ranking": ranked_by}
        if rng.random() < 0.3 and "ranking" not in options:
            options["min_probability"] = float(rng.choice([0.2, 0.9]))
        if rng.random() < 0.2:
            options = {name: value for name, value in options.items() if name != "ranking"} | {"hashed_only": True}
        if rng.random() < 0.3 and options.get("modalities") != "image":
            options["match"] = str(rng.choice(["codes", "words", "both"]))
        candidates = np.ones(len(ids), bool)
        if rng.random() < 0.3:
            candidates = rng.random(len(ids)) < 0.6
            options["ids"] = [name for name, allowed in zip(ids, candidates, strict=True) if allowed]
        text = " ".join(rng.choice(words, rng.integers(1, 4), replace=False))
        query = Query("text", text, "text", literal=True)
        if number % 6 == 0:
            query = Query("vector", rng.normal(size=12), "image")
            options.pop("match", None)
        elif number % 6 == 1:
            query = Query("id", ids[rng.integers(len(ids))])
            options = {name: options[name] for name in ("k", "ids", "hashed_only") if name in options}
            options["modalities"] = "image" if "image" in mixed.index.get(query.value).codes else "text"
            if rng.random() < 0.3:
                options["radius"] = 9
        if query.kind == "id":
            candidates = candidates & (np.array(ids) != query.value)
        expected = rank(mixed.searcher, query, SearchOptions(**options), candidates)
        (found,) = mixed.searcher.search([query], SearchOptions(**options))
        assert [(item.id, item.n_equal) for item in found] == [(ids[place], n) for place, _, n in expected]
        if found and found[0].probability is not None:
            chances = probability(np.array([log_odds for _, log_odds, _ in expected]))
            assert [item.probability for item in found] == chances.tolist()
    assert len(scans) > 50


def test_probabilities_are_calibrated(built: BuildResult) -> None:
    assert {(own.query.partition(":")[0], own.codes) for own in built.evaluation.calibration} == {
        (query, codes) for query in ("image", "text") for codes in ("learned", "hashed")
    }
    evaluated = built.collection.evaluate(drawn(150, 1, first=1000))
    for own in (*built.evaluation.calibration, *evaluated.calibration):
        assert own.calibration_error < 0.09  # built with 58 queries
        assert own.brier < own.share * (1 - own.share)
    # Some of these whole texts are as short as parts of texts, which have fewer right results.
    assert all(own.calibration_error < 0.05 and own.first_ten < 0.08 for own in evaluated.calibration)


def test_nearer_codes_are_at_least_as_probable(built: BuildResult) -> None:
    for modality, value in (("text", "black sock"), ("image", np.ones(12))):
        found = built.collection.search(modality, value, k=600, modalities="image", match="codes", ranking="asymmetric")
        assert all(item.learned for item in found)
        distances = [item.distance for item in found]
        assert (np.diff(distances) >= -1e-6).all()


@pytest.mark.parametrize("text", ["red hat", "Red, hats!", "blue", "gloves"])
def test_items_that_have_every_label_that_a_text_names_come_first(built: BuildResult, text: str) -> None:
    found = built.collection.search("text", text, k=600)
    asked = {label for label in (*COLOURS, *THINGS) if label in text.lower()}
    right = [asked <= {*item.labels} for item in found]
    n = sum(right)
    assert n > 10
    assert all(right[:n])
    assert found[n - 1].probability is not None
    assert found[n - 1].probability > 0.7 > 0.3 > (found[n].probability or 0)


def test_no_item_is_probable_for_two_labels_that_no_item_has(built: BuildResult) -> None:
    for text in ("red blue", "hat glove", "green black"):
        assert all((item.probability or 0) < 0.3 for item in built.collection.search("text", text, k=600))


def test_an_item_without_labels_is_found_by_what_its_image_and_text_suggest(built: BuildResult, tmp_path: Path) -> None:
    items = drawn(60, 5, first=5000)
    bare = replace(items, labels=None, metadata=[{"text": each["text"]} for each in items.metadata])
    with built.collection.copy(tmp_path / "copy") as copied:
        copied.close()
    with Collection.open(tmp_path / "copy", writable=True) as collection:
        collection.add(bare)
        for names in (["image"], ["text"], ["image", "text"]):
            some = replace(bare, modalities={name: bare.modalities[name] for name in names})
            given = [f"{identifier} {len(names)}{names[0]}" for identifier in bare.ids]
            collection.add(replace(some, ids=given))
        truth = dict(zip(items.ids, items.labels or [], strict=True))
        for text in ("red hat", "blue", "sock"):
            added = [name for name in collection.index.ids() if name.startswith("i50") and len(name) > 4]
            found = collection.search("text", text, k=300, ids=added)
            right = [{*text.split()} <= {*truth[item.id.split()[0]]} for item in found]
            probabilities = np.array([item.probability for item in found])
            assert abs(probabilities[:40].mean() - np.mean(right[:40])) < 0.2
            assert np.mean(right[:10]) > 2 * np.mean(right)


def test_a_changed_item_is_stored_like_a_new_one(built: BuildResult, tmp_path: Path) -> None:
    built.collection.copy(tmp_path / "copy").close()
    before, after = drawn(30, 6, first=7000), drawn(30, 7, first=7000)
    mixed = Items.of(
        {"image": before.modalities["image"], "text": after.modalities["text"]}, ids=[f"new{row}" for row in range(30)]
    )
    with Collection.open(tmp_path / "copy", writable=True) as collection:
        collection.add(Items.of(before.modalities, ids=before.ids))
        collection.add(Items.of({"text": after.modalities["text"]}, ids=before.ids), update=True)
        collection.add(mixed)
        for changed, new in zip(before.ids, mixed.ids, strict=True):
            stored, fresh = collection.index.get(changed), collection.index.get(new)
            assert {name: code.tobytes() for name, code in stored.codes.items()} == {
                name: code.tobytes() for name, code in fresh.codes.items()
            }


def test_min_probability_selects_from_the_full_result(built: BuildResult) -> None:
    everything = built.collection.search("text", "green glove", k=600)
    least = everything[40].probability
    found = built.collection.search("text", "green glove", k=600, min_probability=least)
    assert found.ids == [item.id for item in everything if item.probability >= least]
    assert len(built.collection.search("text", "green glove", min_probability=1 - 1e-15)) == 0


def test_words_and_hashed_codes_order_items_with_equal_learned_codes(built: BuildResult) -> None:
    known = built.collection.get("i0")
    (brand,) = (word for word in (known.metadata or {})["text"].split() if word.startswith("brand"))
    question = f"{' '.join(labels_of(known))} {brand}"
    answers = built.collection.search("text", question, k=600)
    mine = [
        brand in item.metadata["text"].split() for item in answers if tuple(item.metadata["labels"]) == labels_of(known)
    ]
    assert mine[0]
    assert len(mine) > 5 * sum(mine)
    codes = built.collection.search("text", question, k=60, modalities="image", match="codes")
    assert codes[0].n_equal == sum(item.metadata["labels"] == codes[0].metadata["labels"] for item in codes) > 5
    index, query = built.collection.index, built.collection.encoder.project("text", [question])
    positions = index.positions([item.id for item in codes[: codes[0].n_equal]])
    hashed = index.distances("image:hashed", query)[0, positions]
    assert (np.diff(hashed) >= 0).all()


def test_words_that_are_not_labels_are_found(built: BuildResult) -> None:
    found = built.collection.search("text", "number123", k=1)
    assert found.ids == ["i123"]
    for match in ("words", "both"):
        brand = built.collection.search("text", "brand7", k=10, match=match)
        assert all("brand7" in item.metadata["text"].split() for item in brand)


def test_hashed_only_compares_hashed_codes_of_all_items(built: BuildResult) -> None:
    collection = built.collection
    found = collection.search("text", "blue belt", k=600, modalities="image", hashed_only=True)
    assert not any(item.learned for item in found)
    query = collection.encoder.project("text", ["blue belt"])
    (distances,) = collection.index.distances("image:hashed", query)
    ids = collection.index.ids()
    expected = sorted(zip(distances, range(len(ids)), strict=True))
    ranked = [distances[ids.index(item.id)] for item in found]
    assert ranked == [distance for distance, _ in expected]


def test_hashed_codes_of_training_items_are_as_accurate_as_those_of_unseen_items() -> None:
    by_heart = KernelRidge(600, shrinkage=1e-6)
    encoder = Encoder({"image": Vectors(), "text": BagOfWords()}, DLFH(32, hash_function=by_heart, random_state=0))
    items, later = without_numbers(drawn(600, 0)), without_numbers(drawn(300, 1))
    training = encoder.fit_items(items)
    codes = encoder.encode_items(training.vectors, None, training)
    new = encoder.encode_items(encoder.featurize_items(later), later.labels)
    for name in ("image", "text"):
        repeated = encoder.model_.encode(name, training.vectors.matrices[name])
        assert (unpack(repeated, 32) == unpack(codes.learned[name], 32)).mean() > 0.9
        right = [(unpack(own.hashed[name], 32) == unpack(own.learned[name], 32)).mean() for own in (codes, new)]
        assert right[0] == pytest.approx(right[1], abs=0.03)


def test_labelled_items_added_later_rank_like_training_items(tmp_path: Path) -> None:
    encoder = Encoder({"image": Vectors(), "text": BagOfWords()}, DLFH(n_bits=32, random_state=0))
    later = drawn(60, 2, first=2000)
    unheard = Items.of({"text": ["purple hat", "purple"]}, [["purple", "hat"], ["purple"]], ["u0", "u1"])
    with Collection.build(tmp_path / "shop", drawn(500, 0), encoder).collection:
        pass
    with Collection.open(tmp_path / "shop", writable=True) as collection:
        collection.add(later)
        collection.add(unheard)
        trained = {labels_of(item): item for item in collection if item.id in ("i0", "i1", "i2")}
        for item in collection:
            twin = trained.get(labels_of(item))
            if twin is not None and item.id.startswith("i2"):
                assert item.states == {"image": "learned", "text": "learned"}
                np.testing.assert_array_equal(item.codes["image"], twin.codes["image"])
        assert collection.get("u0").states == {"image": "absent", "text": "learned"}  # from the known label
        assert collection.get("u1").states == {"image": "absent", "text": "hashed"}
        new = {*later.ids}
        shares = []
        for query in drawn(40, 3, first=3000).modalities["text"]:
            shares.append(np.mean([item.id in new for item in collection.search("text", query, k=50)]))
        assert np.mean(shares) == pytest.approx(60 / 562, abs=0.02)


def test_similar_items_with_equal_codes_are_ordered(built: BuildResult) -> None:
    found = built.collection.similar("i0", k=30)
    labels = labels_of(built.collection.get("i0"))
    n_same = sum(labels_of(item) == labels for item in built.collection) - 1
    assert (found[0].n_equal or 0) >= min(n_same, 1)
    assert all(tuple(item.metadata["labels"]) == labels for item in found[:n_same])
    assert "i0" not in found.ids
    hashed_only = built.collection.similar("i0", k=30, hashed_only=True)
    assert not any(item.learned for item in hashed_only)


def test_one_several_or_all_modalities_are_searched(built: BuildResult) -> None:
    collection = built.collection
    both, everything, image = (
        collection.search("text", "red hat", modalities=names, ranking="asymmetric")
        for names in (["image", "text"], "all", "image")
    )
    assert both == everything
    assert both.ids != image.ids
    with pytest.raises(InputError, match="unknown modality 'sound'"):
        collection.search("text", "red hat", modalities=["image", "sound"])


def test_a_fitted_encoder_keeps_its_calibration(built: BuildResult, tmp_path: Path) -> None:
    encoder = built.collection.encoder
    with Collection.build(tmp_path / "other", drawn(80, 5), encoder, fit=False).collection as other:
        assert other.calibration == built.collection.calibration
        assert other.search("text", "red hat", k=1)[0].probability is not None
    assert encoder.calibration_ is not None


@pytest.fixture(scope="module")
def icons(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    """Icons with one label each, and their file names as texts."""
    folder = tmp_path_factory.mktemp("icons")
    drawn_icons = load_dataset("icons", size=24).labelled()
    few = drawn_icons.take(np.arange(0, len(drawn_icons), 3))
    texts = [name.replace("-", " ") for name in few.ids]
    pictures = few.images.reshape(len(texts), -1)[:, ::7].astype(np.float32)
    items = Items.of({"image": pictures, "text": texts}, [own[:1] for own in few.labels], list(few.ids))
    encoder = Encoder({"image": Vectors(), "text": BagOfWords()}, DLFH(n_bits=32, random_state=0))
    with Collection.build(folder / "shop", items, encoder).collection as collection:
        yield collection


def test_matching_words_come_first_among_equal_icons(icons: Collection) -> None:
    asked = 0
    for item in list(icons)[::9]:
        word = max((item.metadata or {})["text"].split(), key=len)
        matching = {*icons.search("text", word, k=len(icons), match="words").ids}
        assert item.id in matching
        found = icons.search("text", word, k=len(icons))
        first = tuple(found[0].metadata["labels"])
        same = [own.id in matching for own in found if tuple(own.metadata["labels"]) == first]
        assert same[: sum(same)] == [True] * sum(same)
        asked += len(same) > sum(same)
    assert asked > 20


def test_few_of_the_first_results_are_in_insertion_order(icons: Collection) -> None:
    searcher = icons.searcher
    texts = [(item.metadata or {})["text"] for item in list(icons)[::9]]
    texts = [text for text in texts if icons.encoder.featurize("text", [text]).nnz]
    queries = [Query("text", text) for text in texts]
    searcher.encode(queries)
    options = searcher.resolve(queries[0], SearchOptions())
    ranker = Ranker(icons.index, icons.encoder, "text", options, searcher.words.matches)
    ranked = [ranker.rank(searcher._encoded(query, options)) for query in queries]
    before = np.mean([icons.search("text", text, modalities="image", match="codes")[9].n_equal > 1 for text in texts])
    after = []
    for query, own in zip(queries, ranked, strict=True):
        keys = [key(np.arange(len(icons))) for key in ranker._tie_breakers(searcher._encoded(query, options))]
        rows = np.stack([ranker.log_odds(searcher._encoded(query, options)), *keys])
        after.append(((rows[:, own.positions, None] == rows[:, None]).all(axis=0).sum(axis=1) > 1).mean())
    assert before > 0.9
    assert np.mean(after) < 0.1
