"""Featurisers: what they say of texts, images and vectors, how they are saved, and what they refuse."""

from __future__ import annotations

import io
import json
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer

from dlfh import InputError, ModelError, NotFittedError
from dlfh.features import (
    BagOfWords,
    Clip,
    CombinedImage,
    Featurizer,
    Gist,
    Hog,
    Thumbnail,
    Vectors,
    featurizer_from_parts,
    read_image,
)

TEXTS = ["The red cat", "a red, red dog!", "", "Über die Straße", "नमस्ते दुनिया", "東京タワー"]
PICTURES = list(np.random.default_rng(0).integers(0, 256, (10, 20, 30, 3), np.uint8))
EXAMPLES: list[tuple[Featurizer, Any]] = [
    (BagOfWords(), TEXTS),
    (BagOfWords("binary", analyzer="word+char", ngrams=(1, 2), stop_words=("the", "a"), max_features=50), TEXTS),
    (BagOfWords("count", analyzer="char", strip_accents=True, lowercase=False, min_df=2), TEXTS),
    (Vectors(), np.eye(3, 4)),
    (Vectors(), sp.csr_array(np.eye(3, 4))),
    (Gist(size=64), PICTURES),
    (Hog(), PICTURES),
    (Thumbnail(4), PICTURES),
    (CombinedImage(("hog", "thumbnail")), PICTURES),
]
each = pytest.mark.parametrize(("featurizer", "items"), EXAMPLES, ids=lambda value: getattr(value, "kind", ""))


def dense(features: Any) -> np.ndarray:
    return features.toarray() if sp.issparse(features) else np.asarray(features)


def with_json(parts: tuple[dict[str, Any], dict[str, Any]]) -> tuple[dict[str, Any], dict[str, Any]]:
    return json.loads(json.dumps(parts[0])), parts[1]


# What all featurisers have in common


@each
def test_a_saved_featuriser_gives_bit_for_bit_the_same_vectors(featurizer: Featurizer, items: Any) -> None:
    fitted = clone(featurizer).fit(items)
    again = featurizer_from_parts(*with_json(fitted.to_parts()))
    assert type(again) is type(fitted)
    assert repr(again.get_params()) == repr(fitted.get_params())
    first, second = fitted.transform(items), again.transform(items)
    assert type(first) is type(second)
    np.testing.assert_array_equal(dense(first), dense(second))


@each
def test_vectors_are_single_precision_rows_of_one_width(featurizer: Featurizer, items: Any) -> None:
    features = clone(featurizer).fit_transform(items)
    assert features.shape == (np.shape(items)[0], clone(featurizer).fit(items).n_features_)
    assert isinstance(featurizer, Vectors) or features.dtype == np.float32


@each
def test_each_item_is_described_on_its_own(featurizer: Featurizer, items: Any) -> None:
    fitted = clone(featurizer).fit(items)
    together = dense(fitted.transform(items))
    for row in range(together.shape[0]):
        alone = dense(fitted.transform(items[row : row + 1]))
        np.testing.assert_allclose(alone[0], together[row], rtol=1e-5, atol=1e-6)


@each
def test_no_items_give_no_rows(featurizer: Featurizer, items: Any) -> None:
    fitted = clone(featurizer).fit(items)
    assert fitted.transform(items[:0]).shape == (0, fitted.n_features_)


@each
def test_a_featuriser_that_is_not_fitted_says_so(featurizer: Featurizer, items: Any) -> None:
    for use in (featurizer.transform, featurizer.transform_readable, lambda _: featurizer.to_parts()):
        with pytest.raises(NotFittedError, match="is not fitted yet: call fit first"):
            use(items)


@each
def test_damaged_parts_are_refused_in_one_sentence(featurizer: Featurizer, items: Any) -> None:
    config, arrays = clone(featurizer).fit(items).to_parts()
    damaged = [
        {**config, "kind": "unheard-of"},
        {**config, "kind": None},
        {**config, "n_features": 0},
        {**config, "n_features": "7"},
        {**config, "parameters": {"no_such": 1}},
        {**config, "parameters": {**config["parameters"], "verbose": "yes"}},
        {**config, "parameters": None},
        *({name: value for name, value in config.items() if name != left_out} for left_out in config),
    ]
    if not isinstance(featurizer, Vectors):
        damaged.append({**config, "n_features": config["n_features"] + 1})
    for bad in damaged:
        with pytest.raises(ModelError) as error:
            featurizer_from_parts(bad, arrays)
        assert "\n" not in str(error.value)
    for name, array in arrays.items():
        for wrong in ({}, {name: array[:-1]}, {name: array.astype(np.int16)}, {name: array * np.nan}):
            with pytest.raises(ModelError, match="damaged"):
                featurizer_from_parts(config, wrong)


def test_a_featuriser_is_not_made_from_the_parts_of_another_kind() -> None:
    with pytest.raises(ModelError, match="not a Gist"):
        Gist.from_parts(*Vectors().fit(np.eye(2)).to_parts())


@pytest.mark.parametrize("one", ["text", b"bytes", 3])
def test_one_item_that_is_not_in_a_list_is_refused(one: Any) -> None:
    with pytest.raises(InputError, match=r"takes a list of items, got one \w+: wrap it"):
        BagOfWords().fit(one)


def test_items_may_come_from_a_generator() -> None:
    assert BagOfWords().fit_transform(text for text in TEXTS).shape[0] == len(TEXTS)


@pytest.mark.parametrize(
    ("featurizer", "named"),
    [
        (BagOfWords("idf"), "weighting"),
        (BagOfWords(analyzer="words"), "analyzer"),
        (BagOfWords(ngrams=(2, 1)), "ngrams"),
        (BagOfWords(char_ngrams=3), "char_ngrams"),
        (BagOfWords(max_features=0), "max_features"),
        (BagOfWords(min_df=0.5), "min_df"),
        (BagOfWords(stop_words="german"), "stop_words"),
        (BagOfWords(stop_words=[1]), "stop_words"),
        (BagOfWords(stop_words=7), "stop_words"),
        (BagOfWords(lowercase=1), "lowercase"),
        (BagOfWords(verbose="no"), "verbose"),
        (Gist(size=100), "size"),
        (Gist(n_jobs=0), "n_jobs"),
        (Thumbnail(0), "size"),
        (CombinedImage(("gist", "gist")), "parts"),
        (CombinedImage("gist"), "parts"),
        (CombinedImage([]), "parts"),
        (Clip(""), "name_or_folder"),
        (Clip("x", "audio"), "tower"),
        (Clip("x", batch_size=0), "batch_size"),
    ],
)
def test_a_wrong_parameter_is_named(featurizer: Featurizer, named: str) -> None:
    with pytest.raises(InputError, match=named):
        featurizer.fit(["a word"])


# Texts


def test_tfidf_is_that_of_scikit_learn() -> None:
    texts = ["the red cat", "the blue cat cat", "green birds", "", "unseen"]
    theirs = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+").fit(texts[:4])
    ours = BagOfWords().fit(texts[:4])
    assert ours.vocabulary_ == list(theirs.get_feature_names_out())
    np.testing.assert_allclose(ours.transform(texts).toarray(), theirs.transform(texts).toarray(), rtol=1e-6)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=8), st.sampled_from(["word", "char", "word+char"]))
def test_any_text_can_be_described(texts: list[str], analyzer: Any) -> None:
    words = BagOfWords(analyzer=analyzer).fit(["some words", *texts])
    again = featurizer_from_parts(*with_json(words.to_parts()))
    rows = words.transform(texts)
    lengths = np.sqrt(rows.multiply(rows).sum(axis=1))
    assert np.all(np.isclose(lengths, 1, atol=1e-5) | (lengths == 0))
    np.testing.assert_array_equal(again.transform(texts).toarray(), rows.toarray())


@given(st.text(st.characters(categories=["L", "M", "N", "Z"]), max_size=15))
def test_capital_letters_make_no_difference(text: str) -> None:
    words = BagOfWords("count").fit(["a word", text])
    folded = [words.transform([each]).toarray() for each in (text, text.casefold())]
    np.testing.assert_array_equal(*folded)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't STOP-me now_ok 42", ["42", "don't", "me", "now", "ok", "stop"]),
        ("Straße STRASSE", ["strasse"]),
        ("cafe\u0301 café", ["café"]),  # two spellings of one word
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


def test_accents_can_be_left_out_and_vowel_signs_stay() -> None:
    words = BagOfWords(strip_accents=True).fit(["Café Ёлка हिन्दी"])
    assert words.vocabulary_ == ["cafe", "елка", "हिन्दी"]


def test_a_text_without_known_words_is_a_row_of_zeros() -> None:
    for weighting in ("tfidf", "count", "binary"):
        assert not BagOfWords(weighting).fit(["a word"]).transform(["", "?!", "unheard"]).toarray().any()


def test_pieces_of_words_relate_words_that_training_never_saw() -> None:
    plain, pieces = BagOfWords().fit(["swimming"]), BagOfWords(analyzer="word+char").fit(["swimming"])
    assert plain.transform(["swimmer"]).nnz == 0
    assert pieces.transform(["swimmer"]).nnz > 0


def test_max_features_keeps_what_most_texts_have_and_min_df_what_enough_have() -> None:
    texts = ["b a c", "b a", "b d d d d"]
    assert BagOfWords(max_features=2).fit(texts).vocabulary_ == ["a", "b"]
    assert BagOfWords(min_df=3).fit(texts).vocabulary_ == ["b"]
    with pytest.raises(InputError, match="no word is in as many as min_df=4 of the 3 texts"):
        BagOfWords(min_df=4).fit(texts)


def test_stop_words_are_left_out() -> None:
    assert BagOfWords(stop_words="english").fit(["the cat and the hat"]).vocabulary_ == ["cat", "hat"]
    assert BagOfWords(stop_words=["CAT"]).fit(["the cat"]).vocabulary_ == ["the"]


@pytest.mark.parametrize("texts", [[], ["", " "], ["?!", "..."]])
def test_texts_without_a_word_are_refused(texts: list[str]) -> None:
    with pytest.raises(InputError, match=f"there is not one word in the {len(texts)} texts"):
        BagOfWords().fit(texts)


@pytest.mark.parametrize("wrong", [None, 3, b"x", float("nan")])
def test_what_is_not_a_string_is_named_by_its_position(wrong: Any) -> None:
    with pytest.raises(InputError, match="text 1 must be a string"):
        BagOfWords().fit(["a word", wrong])
    found = BagOfWords().fit_transform_readable(["a word", wrong, "more"])
    assert found.rows.tolist() == [0, 2]
    assert found.features.shape == (2, 3)
    assert list(found.problems) == [1]


# Vectors


def test_ready_vectors_are_not_copied() -> None:
    matrix = np.eye(3, dtype=np.float32)
    assert Vectors().fit_transform(matrix) is matrix


def test_vectors_of_another_length_are_refused() -> None:
    with pytest.raises(InputError, match="has 3 features but the model expects 2"):
        Vectors().fit(np.eye(2)).transform(np.eye(3))


@pytest.mark.parametrize("as_given", [np.asarray, sp.csr_array])
def test_vectors_with_holes_are_told_apart(as_given: Any) -> None:
    matrix = as_given(np.array([[1.0, 2], [np.nan, 0], [3, 4], [0, np.inf]]))
    vectors = Vectors().fit(matrix)
    with pytest.raises(InputError, match="NaN or infinity in row 1"):
        vectors.transform(matrix)
    found = vectors.transform_readable(matrix)
    assert found.rows.tolist() == [0, 2]
    np.testing.assert_array_equal(dense(found.features), [[1, 2], [3, 4]])
    assert found.problems == {1: "vector 1 has NaN or infinity", 3: "vector 3 has NaN or infinity"}


# Reading images


def saved(image: Image.Image, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


RGB = Image.fromarray(PICTURES[0])


def test_the_same_picture_is_read_from_a_path_bytes_pil_and_arrays(tmp_path: Path) -> None:
    file = tmp_path / "Bild — 画像.png"
    file.write_bytes(saved(RGB, "PNG"))
    sources = [file, str(file), file.read_bytes(), bytearray(file.read_bytes()), RGB, PICTURES[0], PICTURES[0] / 255]
    for source in sources:
        np.testing.assert_array_equal(read_image(source), PICTURES[0])


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "I;16"])
def test_every_mode_becomes_rgb_of_about_the_same_brightness(mode: str) -> None:
    gradient = np.tile(np.arange(0, 256, 4, dtype=np.uint8), (64, 1))
    if mode == "I;16":
        image = Image.fromarray(gradient.astype(np.uint16) * 257)
    elif mode == "LAB":
        image = Image.merge("LAB", [Image.fromarray(gradient), *[Image.new("L", (64, 64), 128)] * 2])
    else:
        image = Image.fromarray(gradient).convert("L" if mode in ("L", "LA", "1", "I", "F") else "RGB").convert(mode)
    pixels = read_image(image)
    assert pixels.shape == (64, 64, 3)
    assert pixels.dtype == np.uint8
    brightness = np.array([pixels.mean(axis=2), gradient]).reshape(2, 4, 16, 4, 16).mean(axis=(2, 4))  # over dither
    assert np.abs(brightness[0] - brightness[1]).max() < 15


def test_what_is_transparent_becomes_white() -> None:
    half = np.zeros((4, 4, 4), np.uint8)
    half[:2, :, 3] = 255
    for source in (half, half / 255, Image.fromarray(half), saved(Image.fromarray(half), "PNG")):
        pixels = read_image(source)
        assert not pixels[:2].any()
        assert (pixels[2:] == 255).all()
    palette = Image.fromarray(np.array([[0, 1]], np.uint8)).convert("P")
    palette.putpalette([0, 0, 0, 10, 20, 30])
    np.testing.assert_array_equal(read_image(saved(palette, "PNG", transparency=0)), [[[255] * 3, [10, 20, 30]]])


def test_a_photograph_is_turned_upright() -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # the camera was held upright: turn by 90 degrees clockwise
    content = saved(RGB, "PNG", exif=exif)
    np.testing.assert_array_equal(read_image(content), np.rot90(PICTURES[0], -1))


def test_of_an_animation_the_first_frame_is_taken() -> None:
    frames = [Image.new("RGB", (4, 4), colour) for colour in ("red", "blue")]
    pixels = read_image(saved(frames[0], "GIF", save_all=True, append_images=frames[1:]))
    np.testing.assert_array_equal(pixels[0, 0], [255, 0, 0])


def broken_files(folder: Path) -> dict[str, str]:
    png, jpeg = saved(RGB, "PNG"), saved(RGB.resize((300, 300)), "JPEG")
    contents = {
        "empty.png": b"",
        "short.jpg": jpeg[: len(jpeg) // 2],
        "words.jpg": b"not an image",
        "half.png": png[:90],
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    (folder / "folder.png").mkdir()
    return {
        "empty.png": "is empty",
        "short.jpg": "cannot be decoded: .*truncated",
        "words.jpg": "is not an image of a known format",
        "half.png": "cannot be decoded",
        "folder.png": "is a folder",
        "missing.png": "does not exist",
        "nul\0.png": "cannot be read",
    }


def test_a_broken_file_is_named_with_the_reason(tmp_path: Path) -> None:
    for name, reason in broken_files(tmp_path).items():
        with pytest.raises(InputError, match=reason) as error:
            read_image(tmp_path / name)
        assert name in str(error.value)
        assert "\n" not in str(error.value)


def test_a_picture_with_too_many_pixels_is_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    content = saved(Image.new("1", (400, 400)), "PNG")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100_000)
    assert read_image(content).shape == (400, 400, 3)  # Pillow would warn
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InputError, match="the image has more pixels than is safe to decode"):
        read_image(content)


@given(st.binary(max_size=60), st.integers(0, 200), st.sampled_from(["PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP"]))
def test_damage_anywhere_gives_a_picture_or_one_sentence(noise: bytes, place: int, form: str) -> None:
    content = bytearray(saved(RGB, form))
    content[place : place + len(noise)] = noise
    try:
        pixels = read_image(bytes(content))
    except InputError as error:
        assert "\n" not in str(error)  # noqa: PT017
    else:
        assert pixels.ndim == 3


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (np.zeros(4), "must have shape"),
        (np.zeros((3, 4, 2)), "must have shape"),
        (np.zeros((3, 4), complex), "must have shape"),
        (np.zeros((0, 4)), "no pixels"),
        (np.full((3, 4), 2.0), "fractions from 0 to 1"),
        (np.full((3, 4), np.nan), "fractions from 0 to 1"),
        (np.full((3, 4), -1), "whole numbers from 0 to 255"),
        (None, "must be a path, bytes, a PIL image or an array, got NoneType"),
    ],
)
def test_what_is_no_picture_is_refused(array: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        read_image(array)
    with pytest.raises(InputError, match=f"image 1 .*{reason}"):
        Thumbnail().fit([]).transform([PICTURES[0], array])


def test_deep_arrays_are_scaled_to_eight_bits() -> None:
    for top, dtype in ((65535, np.uint16), (255, np.int64), (1, bool), (1, np.float32)):
        pixels = read_image(np.array([[0, top]], dtype))
        np.testing.assert_array_equal(pixels[0], [[0] * 3, [255] * 3])


def test_images_that_cannot_be_read_are_skipped_and_reported(tmp_path: Path) -> None:
    reasons = broken_files(tmp_path)
    good = [tmp_path / f"good {number}.png" for number in range(12)]
    for number, file in enumerate(good):
        Image.fromarray(PICTURES[number % 10]).save(file)
    items = [*good[:5], *(tmp_path / name for name in reasons), *good[5:]]
    for featurizer in (Thumbnail(4), CombinedImage(("thumbnail", "hog"))):
        found = clone(featurizer).fit_transform_readable(items)
        assert found.rows.tolist() == [*range(5), *range(12, 19)]
        assert sorted(found.problems) == list(range(5, 12))
        for position, problem in found.problems.items():
            assert items[position].name in problem
        np.testing.assert_array_equal(found.features, clone(featurizer).fit_transform(good))
        with pytest.raises(InputError, match=r"empty\.png is empty"):
            clone(featurizer).fit(good).transform(items)


def test_nothing_but_broken_images_is_no_training_data() -> None:
    for items, reason in (([b""], "none of the 1 images can be read"), ([], "there are no images")):
        with pytest.raises(InputError, match=reason):
            CombinedImage().fit_transform_readable(items)


def test_reading_in_several_threads_leaves_the_warning_filters_as_they_were() -> None:
    before = list(warnings.filters)
    content = saved(RGB, "PNG")
    threads = [threading.Thread(target=lambda: [read_image(content) for _ in range(50)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert warnings.filters == before


# Descriptors (GIST has a file of its own)


def test_parts_of_a_combination_vary_as_much_as_each_other_and_are_the_parts_themselves() -> None:
    combined = CombinedImage(("hog", "thumbnail")).fit(PICTURES)
    blocks = np.split(combined.transform(PICTURES), [512], axis=1)
    for block, scale, part in zip(blocks, combined.scales_, (Hog(), Thumbnail()), strict=True):
        assert block.var(axis=0).sum() == pytest.approx(1, rel=1e-4)
        np.testing.assert_allclose(block, scale * part.fit([]).transform(PICTURES), rtol=1e-6)


def test_equal_images_do_not_break_a_combination() -> None:
    assert np.isfinite(CombinedImage().fit_transform([PICTURES[0]] * 3)).all()


def test_hog_of_one_colour_is_zero_and_contrast_hardly_matters() -> None:
    ramp = np.tile(np.linspace(0.2, 0.8, 64), (64, 1)) + 0.1 * np.sin(np.arange(64) / 2)[:, None]
    hog = Hog().fit([])
    assert not hog.transform([np.full((64, 64), 0.4)]).any()
    full, faint = hog.transform([np.clip(ramp, 0, 1), np.clip(ramp * 0.7, 0, 1)])
    assert full @ faint > 0.98 * np.linalg.norm(full) * np.linalg.norm(faint)


def test_turning_a_picture_turns_its_hog() -> None:
    picture = np.random.default_rng(1).integers(0, 256, (64, 64), np.uint8)
    hog = Hog().fit([])
    straight, turned = hog.transform([picture, np.rot90(picture)]).reshape(2, 8, 8, 8)
    expected = np.roll(np.rot90(straight), 4, axis=2)  # a quarter turn is four of eight directions
    np.testing.assert_allclose(turned, expected, atol=1e-5)


def test_any_number_of_threads_gives_the_same_vectors() -> None:
    for kind in (Gist, Hog, Thumbnail):
        one, four = (kind(n_jobs=n).fit([]).transform(PICTURES * 3) for n in (1, 4))
        np.testing.assert_array_equal(one, four)
