"""Items are copies if they are equal in every modality: texts, contents of image files, vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh.collection.choosing import TrialSample
from dlfh.collection.evaluation import hold_out
from dlfh.collection.item_copies import item_groups
from dlfh.datasets import Items


def numbered(groups: np.ndarray) -> list[int]:
    return [groups.tolist().index(group) for group in groups]


def test_copies_are_equal_in_every_modality(tmp_path: Path) -> None:
    contents = [b"one", b"two", b"one", b"longer", b"two"]
    files = [tmp_path / f"{number}.png" for number in range(5)]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    vectors = np.array([[1.0, 2], [0, 1], [1, 2], [0, 0], [0, 1]])
    texts = ["a", "b", "a", None, "c"]
    assert numbered(item_groups({"image": files})) == [0, 1, 0, 3, 1]
    assert numbered(item_groups({"image": files, "text": texts})) == [0, 1, 0, 3, 4]
    for matrix in (vectors, sp.csr_array(vectors)):
        assert numbered(item_groups({"vector": matrix, "image": files})) == [0, 1, 0, 3, 1]


def test_missing_files_are_left_to_the_reader(tmp_path: Path) -> None:
    assert numbered(item_groups({"image": [tmp_path / "a.png", tmp_path / "b.png", None]})) == [0, 1, 2]


def test_copies_of_held_out_items_are_held_out() -> None:
    texts = [f"text {number % 50}" for number in range(200)]
    labels = [[f"label {number % 5}"] for number in range(200)]
    queries, others = hold_out(Items.of({"a": texts, "b": texts}, labels), 40)
    assert len(queries) == 40
    assert not set(queries.modalities["a"]) & set(others.modalities["a"])
    sample = TrialSample.draw({"a": texts}, LabelSets.from_labels(labels), 0)
    held_out = {sample.values["a"][row] for row in sample.held_out}
    assert len(sample.held_out) == 64
    assert not held_out & {sample.values["a"][row] for row in sample.train}
