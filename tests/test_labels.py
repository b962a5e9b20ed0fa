"""Label sets from every form of labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from dlfh import InputError
from dlfh._labels import LabelSets
from tests.strategies import Problem, problems, seeds


def assert_same(a: LabelSets, b: LabelSets) -> None:
    assert a.n_labels == b.n_labels
    for field in ("starts", "labels", "set_of_point", "counts"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@given(problems())
def test_the_type_and_layout_of_an_indicator_matrix_do_not_matter(problem: Problem) -> None:
    for dtype in (bool, np.int8, np.uint8, np.int64, np.float32, np.float64):
        assert_same(problem.labels, LabelSets.from_labels(problem.indicator.astype(dtype)))
    for form in (sp.csr_array, sp.csc_array, sp.coo_array, sp.csr_matrix, sp.lil_array, np.asmatrix):
        assert_same(problem.labels, LabelSets.from_labels(form(problem.indicator)))


@given(problems())
def test_label_sets_are_the_distinct_rows_in_lexicographic_order(problem: Problem) -> None:
    labels = problem.labels
    sets = [tuple(labels.labels[a:b]) for a, b in zip(labels.starts[:-1], labels.starts[1:], strict=True)]
    rows = [tuple(np.flatnonzero(row)) for row in problem.indicator]
    assert sets == sorted(set(rows))
    assert [sets[index] for index in labels.set_of_point] == rows
    np.testing.assert_array_equal(labels.counts, [rows.count(each) for each in sets])


@given(problems())
def test_label_lists_give_the_same_sets_as_an_indicator_matrix(problem: Problem) -> None:
    present = problem.indicator[:, problem.indicator.any(axis=0)]
    names = [f"label {index:03d}" for index in range(present.shape[1])]
    lists = [[names[j] for j in np.flatnonzero(row)] for row in present]
    as_lists = LabelSets.from_labels(lists)
    assert as_lists.names == tuple(names)
    assert_same(LabelSets.from_labels(present), as_lists)
    shuffled = [list(problem.rng.permutation(row)) + row[:1] for row in lists]  # order, repeats
    assert_same(as_lists, LabelSets.from_labels(shuffled))
    assert_same(as_lists, LabelSets.from_labels([set(row) for row in lists]))


@given(seeds)
def test_class_ids_are_one_label_each(seed: int) -> None:
    classes = np.random.default_rng(seed).integers(-3, 4, 30)
    one_hot = (classes[:, None] == np.unique(classes)).astype(int)
    expected = LabelSets.from_labels(one_hot)
    for form in (classes, classes.tolist(), classes.astype(float), classes.astype(np.int8)):
        assert_same(expected, LabelSets.from_labels(form))
    names = np.array(["a", "b", "c", "d", "e", "f", "g"])[classes + 3]
    for form in (names, names.tolist(), names.astype(object)):
        assert_same(expected, LabelSets.from_labels(form))


@given(problems())
def test_the_order_of_points_does_not_change_the_sets(problem: Problem) -> None:
    order = problem.rng.permutation(len(problem.indicator))
    permuted = LabelSets.from_labels(problem.indicator[order])
    np.testing.assert_array_equal(problem.labels.labels, permuted.labels)
    np.testing.assert_array_equal(problem.labels.set_of_point[order], permuted.set_of_point)


def test_hash_collisions_between_label_sets_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    real = np.random.default_rng

    class Colliding:
        def integers(self, *_: Any, size: int, **__: Any) -> np.ndarray:
            return np.ones(size, np.uint64)  # every set of one size has one hash

    monkeypatch.setattr(np.random, "default_rng", lambda seed: Colliding() if seed == 0 else real(seed))
    labels = LabelSets.from_labels(["a", "b", "a", "c"])
    np.testing.assert_array_equal(labels.set_of_point, [0, 1, 0, 2])


def test_points_without_labels_are_one_set() -> None:
    labels = LabelSets.from_labels([["a"], [], ["b"], []])
    np.testing.assert_array_equal(labels.counts, [2, 1, 1])


def test_many_label_names() -> None:
    rng = np.random.default_rng(0)
    indicator = sp.random_array((500, 100_000), density=5e-5, format="csr", rng=rng)
    labels = LabelSets.from_labels(indicator > 0)
    assert labels.n_labels == 100_000
    assert labels.counts.sum() == 500


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (np.zeros((4, 3)), "labels are all empty"),
        (sp.csr_array((4, 3)), "labels are all empty"),
        ([[], [], []], "labels are all empty"),
        ([], "labels is empty"),
        (np.zeros((0, 3)), "labels is empty"),
        (np.array([[0, 1], [2, 0]]), "must be an indicator matrix of 0 and 1; found 2 in row 1"),
        (np.array([[1], [2]]), "pass class ids as a one-dimensional array"),
        (sp.csr_array([[0, 1], [3, 0]]), "must contain only 0 and 1, found 3"),
        (np.array([[0.0, np.nan]]), "must be an indicator matrix of 0 and 1; found .*nan.* in row 0"),
        (np.array([0.5, 1.0]), "must contain integer class ids, found .*0.5.* in row 0"),
        (np.array([1.0, np.nan]), "must contain integer class ids, found .*nan.* in row 1"),
        (["a", 1], "mixes strings and numbers"),
        ([["a"], [1]], "mixes strings and numbers"),
        ([["a"], "b"], "row 1 is 'b'"),
        ([[0, 1], [1, 0]], "looks like an indicator matrix; pass it as an array"),
        ([[["a"]], [["b"]]], "must be lists of numbers or strings"),
        (np.zeros((2, 2, 2)), "must have one or two dimensions, got 3"),
        ([["a"], [None]], r"labels must be numbers or strings, found None; use \[\] for a point without labels"),
        (["a", None], "labels must be numbers or strings, found None"),
        ([[float("nan")], [1.0]], "labels must be numbers or strings, found nan"),
        (np.array([1.0, np.inf]), "must contain integer class ids, found inf in row 1"),
        (np.ma.masked_array([1, 2], [False, True]), "labels is a masked array"),
        (sp.coo_array(np.array([0, 1, 1])), "must have two dimensions, got 1"),
        ("cat", "must be an indicator matrix, class ids or lists of labels, got str"),
        (7, "must be an indicator matrix, class ids or lists of labels, got int"),
    ],
)
def test_invalid_labels_are_described(labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        LabelSets.from_labels(labels)


@given(st.lists(st.lists(st.sampled_from("abcdef"), max_size=4), min_size=1, max_size=12))
def test_aligned_vocabularies_keep_the_label_sets(lists: list[list[str]]) -> None:
    first = LabelSets.from_labels([*lists, ["c"]])
    other = LabelSets.from_labels([["b", "z"], ["a"]])
    a, b = first.aligned_with(other, name="first", other_name="other")
    assert a.names == b.names
    for before, after in ((first, a), (other, b)):
        assert [before.names[i] for i in before.labels] == [after.names[i] for i in after.labels]  # type: ignore[index]


def test_different_forms_cannot_be_aligned() -> None:
    indicator, classes = LabelSets.from_labels(np.eye(2)), LabelSets.from_labels(["a", "b"])
    with pytest.raises(InputError, match="must have the same form"):
        indicator.aligned_with(classes, name="query_labels", other_name="database_labels")
    with pytest.raises(InputError, match="query_labels has 2 label columns but database_labels has 3"):
        indicator.aligned_with(LabelSets.from_labels(np.eye(3)), name="query_labels", other_name="database_labels")


@given(problems(max_points=40))
def test_similarities_and_cosines_follow_their_definition(problem: Problem) -> None:
    L, sets = problem.indicator.astype(np.float64), problem.labels
    points = sets.set_of_point
    np.testing.assert_array_equal(sets.similar(points, points[::2]), (L @ L[::2].T) > 0)
    unit = L / np.sqrt(np.maximum(L.sum(axis=1), 1))[:, None]
    np.testing.assert_allclose(sets.unit_rows()[points].toarray(), unit)


@given(problems(max_points=40))
def test_taking_points_keeps_their_label_sets(problem: Problem) -> None:
    chosen = problem.rng.permutation(len(problem.indicator))[: problem.rng.integers(1, len(problem.indicator) + 1)]
    taken = problem.labels.take(chosen)
    expected = problem.indicator[chosen].astype(np.float64)
    found = (taken.unit_rows()[taken.set_of_point] > 0).toarray()
    np.testing.assert_array_equal(found, expected > 0)
    np.testing.assert_array_equal(taken.counts, np.bincount(taken.set_of_point))


@given(problems(max_points=40), st.integers(1, 300))
def test_sampled_pairs_have_the_stated_similarity(problem: Problem, n_pairs: int) -> None:
    S = (problem.indicator @ problem.indicator.T) > 0
    off_diagonal = ~np.eye(len(S), dtype=bool)
    first, second, similar = problem.labels.sample_pairs(n_pairs, problem.rng)
    assert np.all(first != second)
    np.testing.assert_array_equal(S[first, second], similar)
    # If neither kind is rare, the sample is complete and balanced.
    if 0.05 < S[off_diagonal].mean() < 0.95:
        assert len(first) == n_pairs
        assert similar.sum() == n_pairs // 2


def test_pairs_are_all_similar_if_all_points_are() -> None:
    first, _, similar = LabelSets.from_labels([[0]] * 9).sample_pairs(40, np.random.default_rng(0))
    assert similar.all()
    assert len(first) == 40
    with pytest.raises(InputError, match="fewer than two points"):
        LabelSets.from_labels([[0]]).sample_pairs(40, np.random.default_rng(0))
