"""DLFH: the discrete latent factor model for cross-modal hashing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, Self

import numpy as np

from dlfh._validation import check_flag
from dlfh.errors import InputError
from dlfh.hashing import Auto, Deep, HashLearner, KernelLogistic, KernelRidge, LinearRidge
from dlfh.mathematics._ridge import check_ridge
from dlfh.methods._info import MethodInfo
from dlfh.methods._latent_factor import LatentFactorHasher

__all__ = ["DLFH"]


class DLFH(LatentFactorHasher):
    """Discrete latent factor model for cross-modal hashing (Jiang and Li, 2019).

    Codes are learned from labels alone, directly in the discrete domain: pairs of points that share a
    label get codes at a small Hamming distance across modalities. Hash functions then predict the codes
    from each modality's features, for points that training never saw.

    Parameters
    ----------
    n_bits : int, default 64
        Code length c, 1 to 512.
    scale : float, default 8
        The paper's lambda: how sharply the probability of similarity depends on Hamming distance.
    max_iter : int, optional
        Number of iterations T, at most. (The paper: 30.) By default 10 for exact steps with sampled columns, which
        gain nothing by more, and 100 otherwise.
    sample_size : int, optional
        Number m of points sampled for each update by the stochastic solver. (The paper: ``n_bits``.) By
        default ``16 * n_bits``; with ``step="bound"`` as many as there are distinct label sets, but at least
        ``n_bits / 2`` and at most ``4 * n_bits``: `docs/defaults.md` has the evidence.
    solver : {"auto", "full", "stochastic"}, default "auto"
        "full" uses every point in each update: its objective never decreases, and it stops when nothing
        changes. With few bits, the default ``scale`` and ``step="bound"`` it may stall at a poor solution. "auto"
        is full for up to 2,048 label sets (or points), and stochastic for more. (The paper: "stochastic".)
    step : {"exact", "bound"}, default "exact"
        Flip a bit when the objective rises, or when a lower bound of it does, as in the paper.
    balance : bool, default True
        Weigh similar pairs by (1 - p) / p, p their share among all pairs, and let Theta have the bias log(p / (1 - p)),
        so that dissimilar pairs, which are most of all, do not outweigh them. (The paper does not.)
    init : {"labels", "random"}, default "labels"
        Start from one random code per distinct label set, so that training costs as much as there are
        label sets; or, as in the paper, from one per point.
    ridge : float or "auto", default "auto"
        Ridge of linear hash functions, the paper's gamma; "auto" follows the features' variances, so that
        their scale does not matter: see `LinearRidge`. (The paper: 1e-6.)
    fit_intercept : bool, default True
        Whether linear hash functions have an intercept. (The paper's have none.)
    hash_function : {"auto", "linear", "kernel", "kernel-ridge", "deep"}, HashLearner, or dict of these by modality
        What predicts codes from features: what serves best on held-out training points, a linear function or a
        kernel one (`dlfh.hashing.Auto`); linear functions (``ridge`` and ``fit_intercept`` are for them), as in
        the paper; kernel logistic or kernel ridge regression; a network; or a learner of `dlfh.hashing` with
        parameters of its own.
    shared_code : bool, default False
        Learn one code for all modalities of a point instead of one for each.
    pair_weights : dict of (str, str) to int, optional
        How much the similarities across two modalities count, whole numbers of at least 0; 1 for pairs that
        are not named. For three modalities or more.
    self_training : int, default 0
        Rounds in which hash functions learn from the points without labels too, from the codes that their
        modalities agree on.
    early_stopping : bool, default False
        Stop the stochastic solver after an iteration that changes no bit.
    track_objective : bool, default False
        Compute the log-likelihood, eq. (1), at the start and after each iteration, in ``objective_``.
    random_state : int, numpy Generator or None
        Seed. The same seed and data give the same codes on any machine and number of threads.
    n_jobs : int, optional
        Number of threads, for BLAS too; all cores by default.
    verbose : bool, default False
        Show progress bars.

    Attributes
    ----------
    codes_ : dict of str to ndarray of uint8 (n, ceil(n_bits / 8))
        Learned codes of the training points, packed as by `numpy.packbits`.
    hash_functions_ : dict of str to HashFunction
    objective_ : ndarray of float64 (n_iter_ + 1,)
        The log-likelihood by iteration; empty unless ``track_objective``.
    flips_ : ndarray of int64 (n_iter_,)
        How many bits each iteration changed.
    n_iter_ : int
    chosen_ : dict of str to HashLearner
        What ``hash_function="auto"`` chose, by modality; empty otherwise.
    modalities_, n_features_, fit_seconds_
        See `CrossModalHasher`.

    Examples
    --------
    >>> from dlfh.datasets import make_paired
    >>> train, test = make_paired(n_points=600, n_labels=8, random_state=0).split(test_size=100)
    >>> model = DLFH(n_bits=32, random_state=0).fit(train.modalities, train.labels)
    >>> model.codes_["image"].shape, model.encode("text", test.modalities["text"]).shape
    ((500, 4), (100, 4))
    """

    kind = "DLFH"
    info = MethodInfo(
        title="Discrete latent factor model based cross-modal hashing",
        paper="Jiang and Li, IEEE TIP 2019",
        supervised=True,
        discrete=True,
        protocols=("learned", "hashed"),
        complexity="T g m c for codes, g label sets and m samples; n d² or n k (d + k) for hash functions, k bases",
        n_modalities=(2, None),
        takes_incomplete=True,
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
        ridge: float | Literal["auto"] = "auto",
        fit_intercept: bool = True,
        hash_function: Any = "auto",
        shared_code: bool = False,
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
        self.ridge = ridge
        self.fit_intercept = fit_intercept
        self.hash_function = hash_function
        self.shared_code = shared_code
        self.pair_weights = pair_weights
        self.self_training = self_training
        self.early_stopping = early_stopping
        self.track_objective = track_objective
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def paper(cls, n_bits: int = 64, **changes: Any) -> Self:
        """Return the model in the paper's own setting, section 4, less what ``changes`` says.

        One random code per point, 30 iterations, m = c sampled columns, lambda = 8; linear hash functions without an
        intercept, gamma = 1e-6.

        Parameters
        ----------
        n_bits : int
        **changes
            Any parameters of the class: ``solver="full"``, ``random_state=0``, ...

        Examples
        --------
        >>> DLFH.paper(32).sample_size
        32
        """
        setting: dict[str, Any] = {
            "scale": 8.0,
            "max_iter": 30,
            "sample_size": n_bits,
            "solver": "stochastic",
            "step": "bound",
            "balance": False,
            "init": "random",
            "ridge": 1e-6,
            "fit_intercept": False,
            "hash_function": "linear",
        }
        return cls(n_bits, **{**setting, **changes})

    def check_parameters(self) -> None:
        super().check_parameters()
        check_ridge(self.ridge)
        check_flag(self.fit_intercept, "fit_intercept")
        for choice in self.hash_function.values() if isinstance(self.hash_function, dict) else [self.hash_function]:
            self._learner(choice)

    def _learners(self, modalities: tuple[str, ...]) -> dict[str, HashLearner]:
        """Return who learns each modality's hash function."""
        chosen = self.hash_function
        if isinstance(chosen, dict):
            if set(chosen) != set(modalities):
                raise InputError(
                    f"hash_function names the modalities {sorted(chosen)}, but there are {sorted(modalities)}"
                )
        else:
            chosen = dict.fromkeys(modalities, chosen)
        learners = {name: self._learner(choice) for name, choice in chosen.items()}
        for learner in learners.values():
            learner.check_installed()
        return learners

    def _learner(self, choice: Any) -> HashLearner:
        named: dict[str, Callable[[], HashLearner]] = {
            "auto": Auto,
            "linear": lambda: LinearRidge(self.ridge, fit_intercept=self.fit_intercept),
            "kernel": KernelLogistic,
            "kernel-ridge": KernelRidge,
            "deep": Deep,
        }
        if isinstance(choice, str) and choice in named:
            choice = named[choice]()
        if not isinstance(choice, HashLearner):
            raise InputError(
                f"hash_function must be one of {', '.join(map(repr, named))}, a learner of dlfh.hashing, or a dict of "
                f"these by modality, got {choice!r}"
            )
        choice.check_parameters()
        return choice
