"""Bags of words, in any script."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer, TfidfVectorizer

from dlfh import InputError
from dlfh.features import BagOfWords, Featurizer
from dlfh.features.text import _words
from tests.features.examples import with_json


def test_tfidf_equals_scikit_learns() -> None:
    texts = ["the red cat", "the blue cat cat", "green birds", "", "unseen"]
    reference = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+").fit(texts[:4])
    words = BagOfWords().fit(texts[:4])
    assert words.vocabulary_ == list(reference.get_feature_names_out())
    np.testing.assert_allclose(words.transform(texts).toarray(), reference.transform(texts).toarray(), rtol=1e-6)


@given(
    st.lists(st.text("aAbcé ß'ไท中文", max_size=30), min_size=1, max_size=8),
    st.sampled_from(["word", "char", "word+char"]),
    st.sampled_from([(1, 1), (1, 2), (2, 3)]),
)
def test_counts_equal_those_of_scikit_learn(texts: list[str], analyzer: Any, ngrams: Any) -> None:
    words = BagOfWords("count", analyzer=analyzer, ngrams=ngrams, max_features=None)
    reference = CountVectorizer(analyzer=words._analyser(), dtype=np.float32)
    try:
        expected = reference.fit_transform(texts)
    except ValueError:
        with pytest.raises(InputError, match="contain no words"):
            words.fit(texts)
        return
    counts = words.fit_transform(texts)
    expected.sort_indices()
    assert words.vocabulary_ == list(reference.get_feature_names_out())
    for part in ("data", "indices", "indptr"):
        assert getattr(counts, part).dtype == getattr(expected, part).dtype
        np.testing.assert_array_equal(getattr(counts, part), getattr(expected, part))


@given(st.text(st.characters(max_codepoint=0x2FF), max_size=40))
def test_the_simple_pattern_finds_the_same_words(text: str) -> None:
    assert list(_words(text)) == [word for word in _words(text + " \u0300") if word != "\u0300"]


def test_english_stop_words_equal_those_of_scikit_learn() -> None:
    assert BagOfWords(stop_words="english")._stop_words() == ENGLISH_STOP_WORDS


@given(st.lists(st.text(max_size=20), min_size=1, max_size=8), st.sampled_from(["word", "char", "word+char"]))
def test_any_text_yields_a_vector(texts: list[str], analyzer: Any) -> None:
    words = BagOfWords(analyzer=analyzer).fit(["some words", *texts])
    again = Featurizer.from_parts(*with_json(words.to_parts()))
    rows = words.transform(texts)
    lengths = np.sqrt(rows.multiply(rows).sum(axis=1))
    assert np.all(np.isclose(lengths, 1, atol=1e-5) | (lengths == 0))
    np.testing.assert_array_equal(again.transform(texts).toarray(), rows.toarray())


@given(st.text(st.characters(categories=["L", "M", "N", "Z"]), max_size=15))
def test_case_is_ignored(text: str) -> None:
    words = BagOfWords("count").fit(["a word", text])
    folded = [words.transform([each]).toarray() for each in (text, text.casefold())]
    np.testing.assert_array_equal(*folded)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't STOP-me now_ok 42", ["42", "don't", "me", "now", "ok", "stop"]),
        ("Straße STRASSE", ["strasse"]),
        ("cafe\u0301 café", ["café"]),  # two Unicode forms of one word
        ("हिन्दी", ["हिन्दी"]),
        ("привет мир", ["мир", "привет"]),
        ("مرحبا", ["مرحبا"]),
        ("한국어 말", ["말", "한국어"]),
        ("猫が", ["が", "猫", "猫が"]),
        ("ＡＢＣ", ["abc"]),
    ],
)
def test_words_are_found_in_any_script(text: str, words: list[str]) -> None:
    assert BagOfWords().fit([text]).vocabulary_ == words


def test_accents_are_removed_but_vowel_signs_are_not() -> None:
    words = BagOfWords(strip_accents=True).fit(["Café Ёлка हिन्दी"])
    assert words.vocabulary_ == ["cafe", "елка", "हिन्दी"]


def test_a_text_without_known_words_is_a_row_of_zeros() -> None:
    for weighting in ("tfidf", "count", "binary"):
        assert not BagOfWords(weighting).fit(["a word"]).transform(["", "?!", "unheard"]).toarray().any()


def test_character_ngrams_relate_unseen_words_to_known_ones() -> None:
    plain, ngrams = BagOfWords().fit(["swimming"]), BagOfWords(analyzer="word+char").fit(["swimming"])
    assert plain.transform(["swimmer"]).nnz == 0
    assert ngrams.transform(["swimmer"]).nnz > 0


def test_max_features_and_min_df_keep_the_most_frequent_words() -> None:
    texts = ["b a c", "b a", "b d d d d"]
    assert BagOfWords(max_features=2).fit(texts).vocabulary_ == ["a", "b"]
    assert BagOfWords(min_df=3).fit(texts).vocabulary_ == ["b"]
    with pytest.raises(InputError, match="no word occurs in at least min_df=4 of the 3 texts"):
        BagOfWords(min_df=4).fit(texts)


def test_stop_words_are_ignored() -> None:
    assert BagOfWords(stop_words="english").fit(["the cat and the hat"]).vocabulary_ == ["cat", "hat"]
    assert BagOfWords(stop_words=["CAT"]).fit(["the cat"]).vocabulary_ == ["the"]


@pytest.mark.parametrize("texts", [[], ["", " "], ["?!", "..."]])
def test_texts_without_a_word_are_refused(texts: list[str]) -> None:
    with pytest.raises(InputError, match=f"the {len(texts)} texts contain no words"):
        BagOfWords().fit(texts)


@pytest.mark.parametrize("wrong", [None, 3, b"x", float("nan")])
def test_the_error_for_another_type_names_the_position(wrong: Any) -> None:
    with pytest.raises(InputError, match="text 1 must be a string"):
        BagOfWords().fit(["a word", wrong])
    found = BagOfWords().fit_transform_readable(["a word", wrong, "more"])
    assert found.rows.tolist() == [0, 2]
    assert found.features.shape == (2, 3)
    assert list(found.problems) == [1]


@pytest.mark.parametrize("parameter", ["ngrams", "char_ngrams"])
def test_excessive_ngram_lengths_are_refused(parameter: str) -> None:
    wrong: Any = {parameter: (1, 10**30)}
    with pytest.raises(InputError, match=f"{parameter} must be two whole numbers from 1 to 1000 in ascending"):
        BagOfWords(**wrong).fit(["a text"])
