"""KDLFH: DLFH's codes with kernel logistic hash functions, the paper's most accurate system."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn, Self

from dlfh.hashing import HashLearner, KernelLogistic
from dlfh.methods.dlfh import DLFH
from dlfh.methods.parameter_types import Positive, PositiveInt, RidgeOrAuto


@dataclass(eq=False, repr=False, kw_only=True)
class KDLFH(DLFH):
    """DLFH with kernel logistic hash functions (`KernelLogistic`) for every modality.

    Slower to train and to encode with, and more accurate where dense features have a nonlinear relation to labels.

    Parameters
    ----------
    n_bits, scale, max_iter, sample_size, solver, step, balance, init, shared_code : as for `DLFH`
    pair_weights, self_training, early_stopping, track_objective, random_state, n_jobs, verbose : as for `DLFH`
    n_bases : int, default 500
        Number of kernel bases.
    bases : {"random", "kmeans"}, default "random"
        Random training points, the same in each modality, or cluster centres of each modality.
    penalty : float, default 0.01
        Regularisation strength, the paper's eta.

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

    # Fixed choices, which are not parameters.
    ridge: RidgeOrAuto = field(default="auto", init=False)
    fit_intercept: bool = field(default=True, init=False)
    hash_function: Any = field(default="kernel", init=False)
    keep_sums: bool = field(default=False, init=False)

    n_bases: PositiveInt = 500
    bases: Literal["random", "kmeans"] = "random"
    penalty: Positive = 0.01

    @classmethod
    def paper(cls, n_bits: int = 64, **changes: Any) -> Self:
        """Return the model in the authors' setting, with ``changes`` applied.

        Like `DLFH.paper`, but with 50 iterations, and 500 random training points as kernel bases.

        Examples
        --------
        >>> KDLFH.paper(32, random_state=0).max_iter
        50
        """
        return cls(n_bits, **{**cls._paper_codes(n_bits), "max_iter": 50, **changes})

    @property
    def partial_fit(self) -> NoReturn:
        """Not available: logistic regressions need all points at once."""
        raise AttributeError("KDLFH has no partial_fit: use DLFH with a linear or kernel ridge hash function")

    def _learner(self, choice: Any) -> HashLearner:
        learner = KernelLogistic(self.n_bases, bases=self.bases, penalty=self.penalty)
        learner.check_parameters()
        return learner
