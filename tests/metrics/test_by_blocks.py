"""Measures over a database in blocks are those of the whole."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh.blocks import ArrayBlocks
from dlfh.codes import random_codes
from dlfh.errors import InputError
from dlfh.metrics import evaluate
from tests.strategies import seeds

MEASURES = ["AP", "AP@7", "AP(normalize=possible)@7", "P@5", "R@9", "P", "R"]


@given(
    seeds,
    st.integers(1, 70),
    st.lists(st.integers(0, 50), max_size=5),
    st.sampled_from([3, 16, 20]),
    st.sampled_from(["indicator", "classes", "sparse"]),
)
def test_however_the_database_is_cut(seed: int, n_queries: int, inner: list[int], n_bits: int, form: str) -> None:
    rng = np.random.default_rng(seed)
    queries, database = random_codes(rng, n_queries, n_bits), random_codes(rng, 50, n_bits)
    labels: Any = [(rng.random((n, 4)) < 0.3).astype(int) for n in (n_queries, 50)]
    labels[1][0] = 1
    if form == "classes":
        labels = [rng.integers(0, 5, n) for n in (n_queries, 50)]
    elif form == "sparse":
        labels = [sp.csr_array(own) for own in labels]
    measures = [name for name in MEASURES if "possible" not in name]
    whole = evaluate(queries, database, *labels, measures=measures)
    starts = [0, *sorted(inner), 50]
    cut = ArrayBlocks(database, starts, "database")
    for given_labels in (labels[1], ArrayBlocks(labels[1], starts, "labels")):
        ours: Any = evaluate(queries, cut, labels[0], given_labels, measures=measures)
        assert ours.n_items == whole.n_items
        for name in measures:
            np.testing.assert_allclose(ours.per_query[name], whole.per_query[name], rtol=1e-12)
            assert ours[name] == pytest.approx(whole[name], rel=1e-12)


def test_what_cannot_be_measured_in_blocks_is_one_sentence() -> None:
    rng = np.random.default_rng(0)
    codes, classes = random_codes(rng, 20, 16), rng.integers(0, 3, 20)
    blocks: Any = ArrayBlocks(codes, [0, 12, 20], "database")
    for options, sentence in (
        ({"measures": "nDCG@5"}, "over a database in blocks there are AP, P and R"),
        ({"measures": "AP", "ties": "expected"}, "ties are broken by database order"),
        ({"measures": "AP@50"}, "the database has only 20 items"),
        ({"measures": "AP", "relevance": np.ones((20, 20))}, "relevance comes from labels"),
    ):
        with pytest.raises(InputError, match=sentence):
            evaluate(codes, blocks, classes, classes, **options)
    with pytest.raises(InputError, match="must be an array, a sparse matrix, or in blocks too"):
        evaluate(codes, blocks, classes, classes.tolist(), measures="AP")
    with pytest.raises(InputError, match="queries have codes of 1 bytes"):
        evaluate(codes[:, :1], blocks, classes, classes, measures="AP")
