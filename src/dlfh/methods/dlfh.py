"""DLFH: the discrete latent factor model for cross-modal hashing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dlfh._factorization.label_codes import LabelCodes
from dlfh._labels import LabelSets
from dlfh._mathematics.moments import Moments
from dlfh._mathematics.ridge import check_ridge
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers
from dlfh._progress import progress
from dlfh._validation import Features, check_flag, check_random_state
from dlfh.blocks import Blocks
from dlfh.errors import InputError
from dlfh.hashing import (
    Auto,
    Deep,
    FitContext,
    HashFunction,
    HashLearner,
    KernelLogistic,
    KernelRidge,
    LinearRidge,
)
from dlfh.hashing.auto import rescaled
from dlfh.hashing.base import SummedLearner
from dlfh.methods.growing import add_points, check_widths, summed, sums_from_parts, sums_to_parts
from dlfh.methods.info import MethodInfo
from dlfh.methods.latent_factor import LatentFactorHasher

if TYPE_CHECKING:
    from dlfh.methods.incomplete import Missing

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
        ``n_bits / 2`` and at most ``4 * n_bits``: `docs/defaults-before.md` has the evidence.
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
    keep_sums : bool, default False
        Keep the sums over points that hash functions follow from, so that `partial_fit` can take more points. They
        take 8 d (d + n_bits) bytes for each modality of d features (of d bases, for kernel functions), in memory and
        in files.
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
    sums_ : dict of str to Moments
        What hash functions follow from, by modality, with ``keep_sums``; otherwise empty.
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
        takes_blocks=True,
    )

    sums_: dict[str, Moments]

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
        keep_sums: bool = False,
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
        self.keep_sums = keep_sums
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
        check_flag(self.keep_sums, "keep_sums")
        if self.keep_sums and (self.init != "labels" or self.self_training):
            raise InputError('keep_sums needs init="labels" and self_training=0')
        for choice in self.hash_function.values() if isinstance(self.hash_function, dict) else [self.hash_function]:
            learner = self._learner(choice)
            if self.keep_sums and not isinstance(learner, (SummedLearner, Auto)):
                raise InputError(
                    f"keep_sums is for linear and kernel ridge functions, not for {type(learner).__name__}"
                )

    def partial_fit(self, modalities: Any, labels: Any = None) -> Self:
        """Learn from more points, without those that were learned from before.

        Codes that there are stay. New points have the code of their label set; a label set that was not there before
        gets one, learned against the others. Hash functions are those that all points, with these codes, would have
        given at once, to rounding; what "auto" chose, and the bases of kernels, are of the first points. The first call
        is a `fit`; later ones continue it, or a model that was loaded. Needs ``keep_sums=True``.

        Parameters
        ----------
        modalities : dict of str to array-like or sparse matrix
            As for `fit`: the same modalities and features each time.
        labels : array-like or sparse matrix
            As for `fit`, in the same form each time. Class ids and lists of labels may bring new labels; an indicator
            matrix always has the same columns.

        Returns
        -------
        self

        Examples
        --------
        >>> from dlfh.datasets import make_paired
        >>> data = make_paired(n_points=300, random_state=0)
        >>> model = DLFH(n_bits=16, keep_sums=True, random_state=0)
        >>> for rows in (slice(0, 200), slice(200, 300)):
        ...     part = {name: matrix[rows] for name, matrix in data.modalities.items()}
        ...     model = model.partial_fit(part, data.labels[rows])
        >>> model.codes_["text"].shape
        (300, 2)
        """
        if not hasattr(self, "modalities_"):
            self.check_parameters()
            if not self.keep_sums:
                raise InputError("partial_fit needs a model with keep_sums=True")
            return self.fit(modalities, labels)
        if not self.sums_ or self.label_codes_ is None:
            raise InputError("this model was fitted without keep_sums=True: what it was fitted to is not kept")
        with self._fitting_more(modalities) as features:
            self._add_points(features, self._read_labels(labels, features), self.label_codes_)
        return self

    def _add_points(self, features: dict[str, Features], labels: LabelSets, label_codes: LabelCodes) -> None:
        """Count new points and learn from them; if it fails, nothing has changed."""
        names = self.modalities_
        n_before = len(self.codes_[names[0]])
        rng = check_random_state(self.random_state)
        if not isinstance(self.random_state, np.random.Generator) and self.random_state is not None:
            rng = np.random.default_rng([int(self.random_state), n_before])
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            grown, row_of_point = label_codes.grown(
                labels, self._weights_of_pairs(names), rng, workers, self._model, self._resolve_sample_size
            )
            codes = [grown.codes[index if len(grown.codes) > 1 else 0] for index in range(len(names))]
            targets = {
                name: Targets(own, row_of_point, int(self.n_bits)) for name, own in zip(names, codes, strict=True)
            }
            # The ridge that "auto" found stays, and is less and less beside sums that grow.
            share = n_before / (n_before + labels.n_points)
            chosen = {name: rescaled(learner, share) for name, learner in self.chosen_.items()}
            learners = summed(self._learners(names) | chosen)
            context = FitContext(workers, 0, bar)
            functions, sums = add_points(self.hash_functions_, learners, self.sums_, features, targets, context)
        self.hash_functions_, self.sums_, self.chosen_, self.label_codes_ = functions, sums, chosen, grown
        self.codes_ = {
            name: np.concatenate([self.codes_[name], own[row_of_point]]) for name, own in zip(names, codes, strict=True)
        }

    def _learn_functions(
        self,
        features: dict[str, Features],
        targets: dict[str, Targets],
        learners: dict[str, HashLearner],
        context: FitContext,
    ) -> dict[str, HashFunction]:
        self.sums_ = {}
        if not self.keep_sums:
            return super()._learn_functions(features, targets, learners, context)
        check_widths(features)
        functions = super()._learn_functions(features, targets, learners, context)
        own = summed({name: context.chosen.get(name) or learner for name, learner in learners.items()})
        functions, self.sums_ = add_points(functions, own, {}, features, targets, context)
        return functions

    def _fit_incomplete(self, features: dict[str, Features], labels: Any, missing: Missing) -> None:
        if self.keep_sums:
            raise InputError("keep_sums needs points that have every modality, and labels")
        self.sums_ = {}
        super()._fit_incomplete(features, labels, missing)

    def _fit_by_blocks(self, features: dict[str, Blocks], labels: Any) -> None:
        if self.keep_sums:
            raise InputError("keep_sums is for arrays in memory")
        super()._fit_by_blocks(features, labels)
        self.sums_ = {}

    def to_parts(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        config, arrays = super().to_parts()
        config["sums"], own = sums_to_parts(self.sums_ if self.keep_sums else {})
        return config, arrays | own

    def _restore(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        super()._restore(config, arrays)
        # Only what has sums needs who learns: a network that is loaded needs no PyTorch.
        learners = self._learners(self.modalities_) | self.chosen_ if config["sums"] else {}
        self.sums_ = sums_from_parts(config["sums"], arrays, self.hash_functions_, learners)

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
