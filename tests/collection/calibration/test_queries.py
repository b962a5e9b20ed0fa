"""Items have the words of a query if one of their texts has all of them."""

from __future__ import annotations

import numpy as np

from dlfh.collection.calibration.queries import Queries, Sample, said_pairs

TEXTS = ["Red Shoes", "a red shoe", "striped shoes", "stripes"]


def test_plurals_of_a_word_are_the_same_word_but_other_forms_are_not() -> None:
    items = Sample([[]] * len(TEXTS), {}, np.zeros((len(TEXTS), 0), np.uint8), {"text": TEXTS})
    asked = ["the red shoe", "striped", "stripe", "of the", "blue shoes"]
    rows, no = np.arange(len(asked)), np.zeros(len(asked), bool)
    queries = Queries("text", [[]] * len(asked), np.zeros((len(asked), 0), np.float32), None, asked, [], rows, no, no)
    assert said_pairs(queries, items, rows).astype(int).tolist() == [
        [1, 1, 0, 0],
        [0, 0, 1, 0],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
        [0, 0, 0, 0],
    ]
