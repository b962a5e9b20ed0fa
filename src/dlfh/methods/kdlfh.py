"""KDLFH: DLFH's codes with kernel logistic hash functions, the paper's most accurate system."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np

from dlfh.hashing import HashLearner, KernelLogistic
from dlfh.methods.dlfh import DLFH
from dlfh.methods.latent_factor import LatentFactorHasher

__all__ = ["KDLFH"]


class KDLFH(LatentFactorHasher):
    """DLFH with kernel logistic hash functions: the codes of `DLFH`, and `KernelLogistic` for each modality.

    Slower to train and to encode with than `DLFH`, and more accurate where features are dense and
    their relation to the labels is not linear. It learns from data by blocks and on a cluster, as `DLFH` does.

    Parameters
    ----------
    n_bits, scale, max_iter, sample_size, solver, step, balance, init, shared_code
        How codes are learned: as for `DLFH`.
    n_bases : int, default 500
        Number of kernel bases.
    bases : {"random", "kmeans"}, default "random"
        Random training points, the same in each modality, or cluster centres of each modality.
    penalty : float, default 0.01
        Weight of the penalty, the paper's eta.
    pair_weights, self_training, early_stopping, track_objective, random_state, n_jobs, verbose
        As for `DLFH`.

    Examples
    --------
    >>> from dlfh.datasets import make_paired
    >>> train, test = make_paired(n_points=600, n_labels=8, random_state=0).split(test_size=100)
    >>> model = KDLFH(n_bits=32, n_bases=100, random_state=0).fit(train.modalities, train.labels)
    >>> model.encode("text", test.modalities["text"]).shape
    (100, 4)
    """

    kind = "KDLFH"
    info = dataclasses.replace(
        DLFH.info,
        title="DLFH with kernel logistic hash functions",
        complexity="T g m c for codes; n k c per step of the regressions, k bases",
    )

    def __init__(
        self,
        n_bits: int = 64,
        *,
        scale: float = 8.0,
        max_iter: int | None = None,
        sample_size: int | None = None,
        solver: Literal["stochastic", "full", "auto"] = "auto",
        step: Literal["exact", "bound"] = "exact",
        balance: bool = True,
        init: Literal["labels", "random"] = "labels",
        shared_code: bool = False,
        n_bases: int = 500,
        bases: Literal["random", "kmeans"] = "random",
        penalty: float = 0.01,
        pair_weights: Mapping[tuple[str, str], int] | None = None,
        self_training: int = 0,
        early_stopping: bool = False,
        track_objective: bool = False,
        random_state: int | np.random.Generator | None = None,
        n_jobs: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.n_bits = n_bits
        self.scale = scale
        self.max_iter = max_iter
        self.sample_size = sample_size
        self.solver = solver
        self.step = step
        self.balance = balance
        self.init = init
        self.shared_code = shared_code
        self.pair_weights = pair_weights
        self.self_training = self_training
        self.early_stopping = early_stopping
        self.track_objective = track_objective
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.n_bases = n_bases
        self.bases = bases
        self.penalty = penalty

    @classmethod
    def paper(cls, n_bits: int = 64, **changes: Any) -> Self:
        """Return the model in the authors' setting, less what ``changes`` says.

        As `DLFH.paper`, with 50 iterations, and 500 random training points as kernel bases.

        Examples
        --------
        >>> KDLFH.paper(32, random_state=0).max_iter
        50
        """
        setting: dict[str, Any] = {
            "scale": 8.0,
            "max_iter": 50,
            "sample_size": n_bits,
            "solver": "stochastic",
            "step": "bound",
            "balance": False,
            "init": "random",
        }
        return cls(n_bits, **{**setting, **changes})

    def check_parameters(self) -> None:
        super().check_parameters()
        self._learner().check_parameters()

    def _learner(self) -> KernelLogistic:
        return KernelLogistic(self.n_bases, bases=self.bases, penalty=self.penalty)

    def _learners(self, modalities: tuple[str, ...]) -> dict[str, HashLearner]:
        return dict.fromkeys(modalities, self._learner())
