"""Data sets of runs: splits, fingerprints and labels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given

from dlfh.bench.cells import SplitSpec
from dlfh.bench.data import Source
from dlfh.datasets import Paired
from dlfh.errors import InputError
from tests.bench.test_cells import specs


def numbered(n_points: int) -> Source:
    """Return points whose features are their row numbers."""
    ids = np.arange(n_points, dtype=np.float32)[:, None]
    return Source.of("numbered", {"all": Paired({"image": ids, "text": ids}, [0] * n_points)})


@given(specs)
def test_the_parts_of_a_split_are_disjoint_and_hold_every_point(spec: SplitSpec) -> None:
    source = numbered(100)
    parts = source.split(spec)
    points = [parts.train, parts.queries] + ([] if parts.unseen is None else [parts.unseen])
    ids = np.concatenate([each.modalities["text"].ravel() for each in points])
    assert len(np.unique(ids)) == len(ids)
    assert len(parts.train) == source.n_train(spec)
    if spec.size is None and not spec.validation_share:
        assert len(ids) == 100
    assert (parts.unseen is not None) == (spec.unseen_share > 0)
    again = source.split(spec)
    np.testing.assert_array_equal(again.train.modalities["image"], parts.train.modalities["image"])


@given(specs)
def test_validation_points_are_never_queries(spec: SplitSpec) -> None:
    source = numbered(100)
    queries = source.split(replace(spec, validation_share=0.0)).queries.modalities["text"]
    tuned = source.split(replace(spec, validation_share=0.3))
    seen = np.concatenate([tuned.train.modalities["text"], tuned.queries.modalities["text"]])
    assert not np.isin(queries, seen).any()


def test_too_many_queries_are_rejected() -> None:
    with pytest.raises(InputError, match="numbered has 10 points: 10 queries leave none for training"):
        numbered(10).split(SplitSpec(queries=10))


def test_the_fingerprint_depends_on_the_arrays_alone(source: Source, tmp_path: Path) -> None:
    again = Source.open(source.save(tmp_path))
    assert again.fingerprint == source.fingerprint
    assert again.modalities == source.modalities
    changed = source.parts["all"].modalities["image"].copy()
    changed[3, 4] += 1
    other = Paired({**source.parts["all"].modalities, "image": changed}, source.parts["all"].labels)
    assert Source.of("generated", {"all": other}).fingerprint != source.fingerprint


def test_labels_of_every_form_become_the_same_indicators() -> None:
    def part(labels: object, n_points: int) -> Paired:
        return Paired({"image": np.ones((n_points, 2)), "text": np.ones((n_points, 2))}, labels)

    for train, queries in (
        ([0, 2, 2], [2, 1]),
        ([["a"], ["c"], ["c"]], [["c"], ["b"]]),
        (np.array([[0], [2], [2]]), np.array([[2], [1]])),
        (np.eye(3)[[0, 2, 2]], sp.csr_array(np.eye(3)[[2, 1]])),
    ):
        source = Source.of("data", {"train": part(train, 3), "queries": part(queries, 2)})
        np.testing.assert_array_equal(source.parts["train"].labels.toarray(), np.eye(3)[[0, 2, 2]])
        np.testing.assert_array_equal(source.parts["queries"].labels.toarray(), np.eye(3)[[2, 1]])
