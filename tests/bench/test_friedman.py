"""Ranks and critical differences, against published tables and SciPy's test."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import friedmanchisquare

from dlfh.bench.friedman import critical_difference, iman_davenport, rank_methods
from dlfh.errors import InputError

#: Demšar (2006), table 5: critical values of Nemenyi's test for two to ten methods.
PUBLISHED = {
    0.05: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
    0.10: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
}


@pytest.mark.parametrize("level", PUBLISHED)
def test_critical_values_are_the_published_ones(level: float) -> None:
    # With k (k + 1) / 6 blocks the difference is the critical value itself.
    for n_methods, value in enumerate(PUBLISHED[level], 2):
        scaled = critical_difference(n_methods, 1, level) / np.sqrt(n_methods * (n_methods + 1) / 6)
        assert scaled == pytest.approx(value, abs=0.0012)


def test_the_published_example_is_reproduced() -> None:
    # Demšar (2006), section 3.2.2: four methods on fourteen data sets.
    assert critical_difference(4, 14) == pytest.approx(1.25, abs=0.005)
    assert critical_difference(4, 14, 0.10) == pytest.approx(1.12, abs=0.005)
    assert iman_davenport(9.28, 4, 14) == pytest.approx(3.69, abs=0.005)


_SCORES = st.tuples(st.integers(2, 8), st.integers(3, 7)).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.integers(0, 5).map(float))
)


@given(_SCORES)
def test_ranks_and_statistic_match_the_definition(scores: np.ndarray) -> None:
    labels = [f"m{i}" for i in range(scores.shape[1])]
    ranking = rank_methods(labels, scores)
    # A rank is 1 plus the number of better scores plus half the number of equal ones.
    better = (scores[:, None, :] > scores[:, :, None]).sum(axis=2)
    level = (scores[:, None, :] == scores[:, :, None]).sum(axis=2) - 1
    expected = (1 + better + level / 2).mean(axis=0)
    assert list(ranking.ranks.values()) == sorted(expected.tolist())
    assert [ranking.ranks[label] for label in labels] == pytest.approx(expected.tolist())
    assert sum(ranking.ranks.values()) == pytest.approx(len(labels) * (len(labels) + 1) / 2)
    if all(len(set(row)) == 1 for row in scores.tolist()):
        assert (ranking.statistic, ranking.p_value) == (0.0, 1.0)
    else:
        assert ranking.statistic == pytest.approx(friedmanchisquare(*scores.T).statistic)
    first = next(iter(ranking.ranks))
    assert set(ranking.tied_with_best()) | set(ranking.worse_than(first)) == set(labels)
    assert not set(ranking.tied_with_best()) & set(ranking.worse_than(first))


def test_a_method_that_is_always_better_differs_with_enough_blocks() -> None:
    scores = np.tile([0.3, 0.2, 0.1], (12, 1))
    ranking = rank_methods(["a", "b", "c"], scores)
    assert ranking.ranks == {"a": 1.0, "b": 2.0, "c": 3.0}
    assert ranking.p_value == 0.0
    assert ranking.worse_than("a") == ["b", "c"]
    assert rank_methods(["a", "b", "c"], scores[:2]).worse_than("a") == []


def test_a_ranking_needs_three_methods_and_two_blocks() -> None:
    with pytest.raises(InputError, match="at least 3 methods and 2 blocks, got 2 and 4"):
        rank_methods(["a", "b"], np.zeros((4, 2)))
    with pytest.raises(InputError, match="at least 3 methods and 2 blocks, got 3 and 1"):
        rank_methods(["a", "b", "c"], np.zeros((1, 3)))
