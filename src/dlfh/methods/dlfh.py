"""DLFH: the discrete latent factor model for cross-modal hashing."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from dlfh._parallel import Workers
from dlfh._progress import progress
from dlfh.errors import InputError
from dlfh.factorization import Factorization, LatentFactorModel, Rows, factorize, random_start
from dlfh.hashing import Deep, FitContext, HashFunction, HashLearner, KernelLogistic, KernelRidge, LinearRidge, Targets
from dlfh.methods.base import CrossModalHasher
from dlfh.methods.info import MethodInfo
from dlfh.supervision import LabelSets
from dlfh.validation import Features, check_choice, check_flag, check_integer, check_positive, check_random_state

__all__ = ["DLFH"]


class DLFH(CrossModalHasher):
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
    max_iter : int, default 100
        Number of iterations T. (The paper: 30.)
    sample_size : int, optional
        Number m of points sampled for each update by the stochastic solver. (The paper: ``n_bits``.) By
        default as many as there are distinct label sets, but at least ``n_bits / 2`` and at most
        ``4 * n_bits``: `docs/defaults.md` has the evidence.
    solver : {"stochastic", "full"}, default "stochastic"
        "full" uses every point in each update: its objective never decreases, and it stops when nothing
        changes. With few bits and the default ``scale`` it may stall at a poor solution.
    init : {"labels", "random"}, default "labels"
        Start from one random code per distinct label set, so that training costs as much as there are
        label sets; or, as in the paper, from one per point.
    alpha : float or "auto", default "auto"
        Ridge of linear hash functions, the paper's gamma; "auto" follows the features' variances, so that
        their scale does not matter: see `LinearRidge`. (The paper: 1e-6.)
    fit_intercept : bool, default True
        Whether linear hash functions have an intercept. (The paper's have none.)
    hash_function : {"linear", "kernel", "kernel-ridge", "deep"}, HashLearner, or dict of these by modality
        What predicts codes from features: linear functions (``alpha`` and ``fit_intercept`` are for them);
        kernel logistic or kernel ridge regression; a network; or a learner of `dlfh.hashing` with
        parameters of its own.
    shared_code : bool, default False
        Learn one code for all modalities of a point instead of one for each.
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

    info = MethodInfo(
        title="Discrete latent factor model based cross-modal hashing",
        paper="Jiang and Li, IEEE TIP 2019",
        supervised=True,
        discrete=True,
        protocols=("learned", "hashed"),
        complexity="T g m c for codes, g label sets and m samples; n d² for hash functions",
        n_modalities=(2, None),
    )
    _saved_arrays = ("objective_", "flips_")

    objective_: np.ndarray[Any, np.dtype[np.float64]]
    flips_: np.ndarray[Any, np.dtype[np.int64]]

    def __init__(
        self,
        n_bits: int = 64,
        *,
        scale: float = 8.0,
        max_iter: int = 100,
        sample_size: int | None = None,
        solver: Literal["stochastic", "full"] = "stochastic",
        init: Literal["labels", "random"] = "labels",
        alpha: float | Literal["auto"] = "auto",
        fit_intercept: bool = True,
        hash_function: Any = "linear",
        shared_code: bool = False,
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
        self.init = init
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.hash_function = hash_function
        self.shared_code = shared_code
        self.early_stopping = early_stopping
        self.track_objective = track_objective
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_positive(self.scale, "scale")
        check_integer(self.max_iter, "max_iter", 0)
        if self.sample_size is not None:
            check_integer(self.sample_size, "sample_size", 1)
        check_choice(self.solver, "solver", ("stochastic", "full"))
        check_choice(self.init, "init", ("labels", "random"))
        for name in ("shared_code", "early_stopping", "track_objective"):
            check_flag(getattr(self, name), name)

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        label_sets = self._read_labels(labels, features)
        n_points = label_sets.n_points
        if self.sample_size is not None and self.sample_size > n_points and self.solver == "stochastic":
            raise InputError(f"sample_size is {self.sample_size} but there are only {n_points} points")
        learners = self._learners(tuple(features))
        rng = check_random_state(self.random_state)
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            learned = self._learn_codes(label_sets, len(features), rng, workers, bar)
            context = FitContext(workers, int(rng.integers(2**63)), bar)
            hash_functions: dict[str, HashFunction] = {}
            for index, (name, matrix) in enumerate(bar.track(features.items(), "hash functions")):
                targets = Targets(learned.codes_of_rows(index), learned.rows.row_of_point, int(self.n_bits))
                hash_functions[name] = learners[name].fit(matrix, targets, name, context)
        self.codes_ = {name: learned.codes_of_points(index) for index, name in enumerate(features)}
        self.hash_functions_ = hash_functions
        self.objective_ = np.array(learned.objective)
        self.flips_ = np.array(learned.flips, dtype=np.int64)

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
        return {name: self._learner(choice) for name, choice in chosen.items()}

    def _learner(self, choice: Any) -> HashLearner:
        named = {
            "linear": lambda: LinearRidge(self.alpha, fit_intercept=self.fit_intercept),
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

    @property
    def n_iter_(self) -> int:
        return len(self.flips_)

    def _learn_codes(
        self, labels: LabelSets, n_modalities: int, rng: np.random.Generator, workers: Workers, bar: Any
    ) -> Factorization:
        rows = Rows.of_label_sets(labels) if self.init == "labels" else Rows.of_points(labels)
        return factorize(
            LatentFactorModel(int(self.n_bits), float(self.scale)),
            rows,
            random_start(rows, 1 if self.shared_code else n_modalities, int(self.n_bits), rng),
            max_iter=int(self.max_iter),
            sample_size=None if self.solver == "full" else self._resolve_sample_size(labels),
            rng=rng,
            workers=workers,
            early_stopping=self.early_stopping,
            track_objective=self.track_objective,
            on_iteration=bar.counter("codes", int(self.max_iter)),
        )

    def _resolve_sample_size(self, labels: LabelSets) -> int:
        if self.sample_size is not None:
            return int(self.sample_size)
        # More samples help where label sets are many. Where they are few, sampling each of them makes
        # the solver nearly full, and it stalls as the full solver does.
        n_bits = int(self.n_bits)
        return min(labels.n_points, max(1, n_bits // 2, min(labels.n_sets, 4 * n_bits)))
