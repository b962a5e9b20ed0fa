"""The icons: their content, splits, and errors if their package is missing or has another format."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dlfh import InputError
from dlfh.datasets import icons, load_dataset
from dlfh.datasets.icons import Icons

if importlib.util.find_spec("fontawesomefree") is None or importlib.util.find_spec("resvg_py") is None:
    pytest.skip('the icons are not installed: pip install "dlfh[icons]"', allow_module_level=True)


@pytest.fixture(scope="module")
def data() -> Icons:
    return load_dataset("icons", size=24)


def test_some_icons_have_categories(data: Icons) -> None:
    assert len(data.labelled()) == 1446
    assert len({label for labels in data.labels for label in labels}) == 68
    assert len(data.labelled()) + len(data.unlabelled()) == len(data) == len(set(data.ids))
    assert not any(data.unlabelled().labels)


def test_pictures_are_dark_on_white(data: Icons) -> None:
    assert data.images.shape == (len(data), 24, 24)
    assert data.images.dtype == np.uint8
    assert (data.images.min(axis=(1, 2)) < 160).all()
    assert np.median(data.images[:, [0, 0, -1, -1], [0, -1, 0, -1]]) == 255


def test_wide_and_tall_icons_are_centred(data: Icons) -> None:
    for name in ("info", "minus", "exclamation", "left-right"):
        rows, columns = np.nonzero(data.images[data.ids.index(name)] < 200)
        for places in (rows, columns):
            assert abs((places.min() + places.max()) / 2 - 11.5) <= 1


def test_words_and_categories_belong_to_their_icon(data: Icons) -> None:
    dog = data.ids.index("dog")
    assert data.labels[dog] == ("Animals",)
    assert data.texts[dog].startswith("Dog, ")
    assert "canine" in data.texts[dog]
    assert "'n'" not in data.ids
    assert "Alphabet" in data.labels[data.ids.index("n")]


def test_texts_are_lists_of_distinct_terms(data: Icons) -> None:
    for text in data.texts:
        terms = text.split(", ")
        assert len({term.casefold() for term in terms}) == len(terms)
        assert text == " ".join(text.split())


def test_categories_do_not_leak_into_texts(data: Icons) -> None:
    named = [label for text, labels in zip(data.texts, data.labels, strict=True) for label in labels if label in text]
    assert len(named) < 0.03 * sum(map(len, data.labels))


def test_a_split_contains_each_icon_once(data: Icons) -> None:
    train, test = data.split(test_size=100, random_state=3)
    assert len(test) == 100
    assert sorted(train.ids + test.ids) == sorted(data.ids)
    again = data.split(test_size=100, random_state=3)[1]
    assert again.ids == test.ids
    place = data.ids.index(test.ids[7])
    np.testing.assert_array_equal(test.images[7], data.images[place])
    assert (test.texts[7], test.labels[7]) == (data.texts[place], data.labels[place])
    wrong: list[Any] = [0, len(data), "10"]
    for size in wrong:
        with pytest.raises(InputError, match="test_size"):
            data.split(test_size=size)


def test_files_are_overwritten_only_on_request(data: Icons, tmp_path: Path) -> None:
    few = data.take(range(3))
    for name in ("items.csv", f"{few.ids[2]}.png"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / name).write_text("mine")
        with pytest.raises(InputError, match=rf"cannot write .*{name}: it exists; pass overwrite=True"):
            few.write(folder)
        assert [path.read_text() for path in folder.iterdir()] == ["mine"]
        table = few.write(folder, overwrite=True).read_text(encoding="utf-8")
        assert table.splitlines()[0] == "name,file,title,words,categories"
        assert (folder / f"{few.ids[2]}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("size", [0, 7, 5000, "32"])
def test_a_wrong_size_is_refused(size: int) -> None:
    with pytest.raises(InputError, match="size must be an integer from 8 to 1024"):
        load_dataset("icons", size=size)


def test_errors_for_missing_packages_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "resvg_py", None)
        with pytest.raises(InputError, match=r'resvg_py, which is not installed: pip install "dlfh\[icons\]"'):
            load_dataset("icons", size=24)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r'fontawesomefree, which is not installed: pip install "dlfh\[icons\]"'):
        load_dataset("icons", size=24)


def test_another_format_of_the_package_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "categories.yml"
    good = "animals:\n  icons:\n    - dog\n    - 'n'\n  label: Animals\n"
    file.write_text(good)
    assert icons._read_labels(file) == {"dog": ["Animals"], "n": ["Animals"]}
    for bad in ("animals: {icons: [dog]}\n", good + "  colour: red\n", good.replace("    - dog", "  - dog")):
        file.write_text(bad)
        with pytest.raises(InputError, match=r"unexpected format of categories\.yml in fontawesomefree, line \d"):
            icons._read_labels(file)
    for bad in ("{", "[]", '{"dog": {}}', '{"dog": {"free": ["odd"], "label": "Dog", "search": {"terms": []}}}'):
        (tmp_path / "icons.json").write_text(bad)
        with pytest.raises(InputError, match=r"unexpected format of icons\.json"):
            icons._read_icons(tmp_path / "icons.json")
