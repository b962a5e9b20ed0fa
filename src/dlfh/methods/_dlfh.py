"""DLFH: the discrete latent factor model for cross-modal hashing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from dlfh._parallel import Workers
from dlfh._progress import Bar, progress
from dlfh._validation import (
    Features,
    check_choice,
    check_flag,
    check_integer,
    check_positive,
    check_random_state,
    raise_if_not_finite,
)
from dlfh.codes import Codes, pack
from dlfh.errors import InputError
from dlfh.factorization.label_rows import LabelRows
from dlfh.factorization.likelihood import LatentFactorModel
from dlfh.factorization.observed_pairs import ObservedPairs
from dlfh.factorization.solver import Factorization, factorize, random_start
from dlfh.factorization.supervision import Supervision
from dlfh.hashing import Deep, FitContext, HashFunction, HashLearner, KernelLogistic, KernelRidge, LinearRidge
from dlfh.mathematics._targets import Targets
from dlfh.methods._base import CrossModalHasher
from dlfh.methods._incomplete import Holes
from dlfh.methods._info import MethodInfo

__all__ = ["DLFH"]

Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]

#: Weights of pairs of modalities are exact factors in sums of 64-bit integers.
MAX_PAIR_WEIGHT = 1000


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
    ridge : float or "auto", default "auto"
        Ridge of linear hash functions, the paper's gamma; "auto" follows the features' variances, so that
        their scale does not matter: see `LinearRidge`. (The paper: 1e-6.)
    fit_intercept : bool, default True
        Whether linear hash functions have an intercept. (The paper's have none.)
    hash_function : {"linear", "kernel", "kernel-ridge", "deep"}, HashLearner, or dict of these by modality
        What predicts codes from features: linear functions (``ridge`` and ``fit_intercept`` are for them);
        kernel logistic or kernel ridge regression; a network; or a learner of `dlfh.hashing` with
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
        takes_holes=True,
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
        ridge: float | Literal["auto"] = "auto",
        fit_intercept: bool = True,
        hash_function: Any = "linear",
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

    def check_parameters(self) -> None:
        super().check_parameters()
        check_positive(self.scale, "scale")
        check_integer(self.max_iter, "max_iter", 0)
        if self.sample_size is not None:
            check_integer(self.sample_size, "sample_size", 1)
        check_choice(self.solver, "solver", ("stochastic", "full"))
        check_choice(self.init, "init", ("labels", "random"))
        check_integer(self.self_training, "self_training", 0)
        for name in ("shared_code", "early_stopping", "track_objective"):
            check_flag(getattr(self, name), name)

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        self._fit_with_holes(features, labels, Holes())

    def _fit_with_holes(self, features: dict[str, Features], labels: Any, holes: Holes) -> None:
        masks = holes.masks(features)
        points, supervision = self._supervision(features, labels, holes, masks)
        learners = self._learners(tuple(features))
        rng = check_random_state(self.random_state)
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            learned = self._learn_codes(supervision, len(features), rng, workers, bar)
            context = FitContext(workers, int(rng.integers(2**63)), bar)
            data = _Incomplete(features, masks, points, learned, learners, context, int(self.n_bits))
            self.hash_functions_ = data.hash_functions()
            if points is not None:
                for _ in range(int(self.self_training)):
                    data.guess(self.hash_functions_)
                    self.hash_functions_ = data.hash_functions()
                data.guess(self.hash_functions_)
            self.codes_ = data.codes(self.hash_functions_)
        self.objective_ = np.array(learned.objective)
        self.flips_ = np.array(learned.flips, dtype=np.int64)

    def _supervision(
        self, features: dict[str, Features], labels: Any, holes: Holes, masks: tuple[Mask, ...] | None
    ) -> tuple[Integers | None, Supervision]:
        """Return the points to learn codes for (None: all), and what is known of their similarities."""
        n_points = next(iter(features.values())).shape[0]
        if masks is not None and self.shared_code:
            raise InputError("shared_code needs points that have every modality")
        options: dict[str, Any] = {"present": masks, "pair_weights": self._weights_of_pairs(tuple(features))}
        if holes.similarity is not None:
            if labels is not None or holes.labelled is not None:
                raise InputError("pass either labels or similarity, not both")
            if self.shared_code:
                raise InputError("shared_code learns from labels, not from similarity")
            self._check_sample_size(n_points)
            pairs = ObservedPairs.from_matrix(holes.similarity, n_points, **options)
            pairs.check(tuple(features))
            return None, pairs
        label_sets = self._read_labels(labels, features)
        points = holes.labelled_points(n_points)
        if points is not None:
            label_sets = label_sets.take(points)
            if len(label_sets.labels) == 0:
                raise InputError("labels are all empty: no labelled point has any label, so nothing is similar")
            if masks is not None:
                options["present"] = tuple(mask[points] for mask in masks)
                for name, mask in zip(features, options["present"], strict=True):
                    if not mask.any():
                        raise InputError(f"no labelled point has the modality {name!r}")
        self._check_sample_size(label_sets.n_points)
        rows = LabelRows.of_label_sets if self.init == "labels" else LabelRows.of_points
        return points, rows(label_sets, **options)

    def _check_sample_size(self, n_points: int) -> None:
        if self.sample_size is not None and self.sample_size > n_points and self.solver == "stochastic":
            raise InputError(f"sample_size is {self.sample_size} but there are only {n_points} points")

    def _weights_of_pairs(self, modalities: tuple[str, ...]) -> Integers | None:
        """Return the weights of pairs of modalities as a symmetric matrix."""
        if self.pair_weights is None:
            return None
        if not isinstance(self.pair_weights, Mapping):
            raise InputError(f'pair_weights must be a dict such as {{("image", "text"): 2}}, got {self.pair_weights!r}')
        weights = np.ones((len(modalities), len(modalities)), np.int64)
        np.fill_diagonal(weights, 0)
        for pair, weight in self.pair_weights.items():
            if not isinstance(pair, tuple) or len(pair) != 2 or not set(pair) <= set(modalities) or pair[0] == pair[1]:
                raise InputError(f"pair_weights names {pair!r}, not a pair of the modalities {sorted(modalities)}")
            a, b = (modalities.index(name) for name in pair)
            weights[a, b] = weights[b, a] = check_integer(weight, f"pair_weights[{pair!r}]", 0, MAX_PAIR_WEIGHT)
        if not weights.any(axis=1).all():
            alone = modalities[int(np.flatnonzero(~weights.any(axis=1))[0])]
            raise InputError(f"pair_weights leaves modality {alone!r} without any pair that counts")
        return weights

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

    @property
    def n_iter_(self) -> int:
        return len(self.flips_)

    def _learn_codes(
        self, supervision: Supervision, n_modalities: int, rng: np.random.Generator, workers: Workers, bar: Bar
    ) -> Factorization:
        return factorize(
            LatentFactorModel(int(self.n_bits), float(self.scale)),
            supervision,
            random_start(len(supervision), 1 if self.shared_code else n_modalities, int(self.n_bits), rng),
            max_iter=int(self.max_iter),
            sample_size=None if self.solver == "full" else self._resolve_sample_size(supervision),
            rng=rng,
            workers=workers,
            early_stopping=self.early_stopping,
            track_objective=self.track_objective,
            on_iteration=bar.counter("codes", int(self.max_iter)),
        )

    def _resolve_sample_size(self, supervision: Supervision) -> int:
        if self.sample_size is not None:
            return int(self.sample_size)
        # More samples help where label sets are many. Where they are few, sampling each of them makes
        # the solver nearly full, and it stalls as the full solver does.
        n_points, n_bits = len(supervision.row_of_point), int(self.n_bits)
        n_kinds = supervision.labels.n_sets if isinstance(supervision, LabelRows) else n_points
        return min(n_points, max(1, n_bits // 2, min(n_kinds, 4 * n_bits)))


class _Incomplete:
    """Features with holes, and the codes that hash functions are to predict from them."""

    def __init__(
        self,
        features: dict[str, Features],
        masks: tuple[Mask, ...] | None,
        points: Integers | None,
        learned: Factorization,
        learners: dict[str, HashLearner],
        context: FitContext,
        n_bits: int,
    ) -> None:
        self.features = features
        self.masks = masks
        self.learned = learned
        self.learners = learners
        self.context = context
        self.n_bits = n_bits
        self.n_points = next(iter(features.values())).shape[0]
        self.points = np.arange(self.n_points) if points is None else points
        self.others = np.setdiff1d(np.arange(self.n_points), self.points)
        #: Codes of points without labels, once there are hash functions to tell them.
        self.guessed: Codes | None = None

    def _having(self, index: int, points: Integers) -> Integers:
        """Return which of some points have a modality, as places in ``points``."""
        return np.arange(len(points)) if self.masks is None else np.flatnonzero(self.masks[index][points])

    def hash_functions(self) -> dict[str, HashFunction]:
        """Fit each modality's function to the codes of the points that have it."""
        functions: dict[str, HashFunction] = {}
        for index, (name, matrix) in enumerate(self.context.bar.track(self.features.items(), "hash functions")):
            own = self._having(index, self.points)
            codes, chosen = self.learned.codes_of_rows(index), self.points[own]
            rows = self.learned.rows.row_of_point[own]
            if self.guessed is not None:
                more = self._having(index, self.others)
                chosen, rows = np.concatenate([chosen, self.others[more]]), np.concatenate([rows, len(codes) + more])
                codes = np.concatenate([codes, self.guessed])
            # Without holes features are passed as they are, not copied.
            own_features = matrix
            if not np.array_equal(chosen, np.arange(self.n_points)):
                own_features = matrix[chosen]
                raise_if_not_finite(own_features, name, chosen)  # by the numbers of the user's rows
            targets = Targets(codes, rows, self.n_bits)
            functions[name] = self.learners[name].fit(own_features, targets, name, self.context)
        return functions

    def guess(self, functions: dict[str, HashFunction]) -> None:
        """Give each point without labels one code: the signs of its modalities' projections, added up."""
        total = np.zeros((len(self.others), self.n_bits), np.float32)
        for index, (name, matrix) in enumerate(self.features.items()):
            own = self._having(index, self.others)
            own_features = matrix[self.others[own]]
            raise_if_not_finite(own_features, name, self.others[own])
            total[own] += functions[name].project(own_features, name, self.context.workers)
        self.guessed = pack(total)

    def codes(self, functions: dict[str, HashFunction]) -> dict[str, Codes]:
        """Return every point's code in every modality: learned, or hashed, or guessed from other modalities."""
        codes = {}
        for index, (name, matrix) in enumerate(self.features.items()):
            codes[name] = learned = self.learned.codes_of_points(index)
            if self.guessed is not None:
                codes[name] = np.empty((self.n_points, learned.shape[1]), np.uint8)
                codes[name][self.points], codes[name][self.others] = learned, self.guessed
                own = self.others[self._having(index, self.others)]
                codes[name][own] = functions[name].encode(matrix[own], name, self.context.workers)
        return codes
