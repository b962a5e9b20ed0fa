"""Random inputs shared by property tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from hypothesis import strategies as st

from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.solver import LabelRows, random_start
from dlfh._labels import LabelSets
from dlfh._mathematics.boosting import WeightedPairs


@dataclass
class Problem:
    """A small factorization problem: labels, model and starting codes."""

    indicator: np.ndarray
    labels: LabelSets
    model: LatentFactorModel
    rng: np.random.Generator

    def rows(self, kind: str) -> LabelRows:
        return LabelRows.of_label_sets(self.labels) if kind == "labels" else LabelRows.of_points(self.labels)

    def start(self, rows: LabelRows, n_modalities: int = 2) -> list[np.ndarray]:
        return random_start(len(rows), n_modalities, self.model.n_bits, self.rng)


code_lengths = st.one_of(st.integers(1, 20), st.sampled_from([31, 63, 64, 65, 100, 128, 130, 511, 512]))
scales = st.floats(-4, np.log10(32)).map(lambda exponent: 10.0**exponent)
seeds = st.integers(0, 2**32 - 1)


@st.composite
def models(draw: st.DrawFn, steps: tuple[Literal["bound", "exact"], ...] = ("bound", "exact")) -> LatentFactorModel:
    step = draw(st.sampled_from(steps))
    if draw(st.booleans()):
        return LatentFactorModel(draw(code_lengths), draw(scales), step)
    return LatentFactorModel.balanced(draw(code_lengths), draw(scales), step, draw(st.floats(0.001, 0.999)))


@st.composite
def problems(draw: st.DrawFn, max_points: int = 60) -> Problem:
    rng = np.random.default_rng(draw(seeds))
    n_points, n_labels = draw(st.integers(2, max_points)), draw(st.integers(1, 12))
    indicator = (rng.random((n_points, n_labels)) < draw(st.floats(0.02, 0.9))).astype(np.int8)
    indicator[rng.integers(n_points), rng.integers(n_labels)] = 1
    model = draw(models())
    return Problem(indicator, LabelSets.from_labels(indicator), model, rng)


def tabulated_log_likelihood(model: LatentFactorModel, pair_counts: np.ndarray) -> int:
    """Return the objective that exact steps never decrease, in units of `tabulated`, from the counts of pairs."""
    values, _ = model.tabulated
    return sum(int(count) * int(value) for count, value in zip(pair_counts.flat, values[:, 1:-1].flat, strict=True))


def random_pairs(rng: np.random.Generator, n_points: int = 12, n_pairs: int = 40) -> WeightedPairs:
    """Draw similar and dissimilar pairs of points with weights that sum to one."""
    first, second = rng.integers(n_points, size=(2, n_pairs))
    pairs = WeightedPairs(first, second, rng.random(n_pairs) < 0.5)
    pairs.weights = rng.dirichlet(np.ones(n_pairs))
    return pairs
