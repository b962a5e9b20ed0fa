"""DLFH: the discrete latent factor model for cross-modal hashing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np

from dlfh._arrays import Array, Codes, Integers, Mask, Singles
from dlfh._factorization.label_set_codes import LabelSetCodes
from dlfh._factorization.observed_pairs import ObservedPairs
from dlfh._factorization.solver import LabelRows
from dlfh._labels import LabelSets
from dlfh._mathematics.moments import Moments
from dlfh._mathematics.ridge import RidgeSolution
from dlfh._mathematics.targets import BlockTargets, LabelledTargets, RealTargets, Targets
from dlfh._parallel import Workers, blas_threads
from dlfh._persistence.model_folder import with_prefix
from dlfh._persistence.registry import parameters_from_json, values_to_json
from dlfh._probabilities.fit import FirstLabels, LabelFit
from dlfh._progress import progress
from dlfh._validation import Features, check_features, check_random_state
from dlfh.blocks.base import Blocks
from dlfh.blocks.opening import align, in_one_block
from dlfh.codes import unpack
from dlfh.errors import InputError
from dlfh.hashing import Auto, Deep, HashLearner, KernelLogistic, KernelRidge, LinearRidge
from dlfh.hashing.auto import rescaled
from dlfh.hashing.base import FitContext, SummedLearner
from dlfh.methods.code_learning import CodeLearning, check_pair_weights
from dlfh.methods.growing import add_points, check_widths, sums_from_parts, sums_to_parts
from dlfh.methods.method import Method, MethodInfo
from dlfh.methods.parameter_types import NonNegativeInt, Positive, PositiveInt, RidgeOrAuto

#: Maximum size of the matrix of a regression that is kept for leave-one-out predictions, in bytes.
_MAX_SOLUTION = 64 << 20


@dataclass(eq=False, repr=False, kw_only=True)
class DLFH(Method):
    """Discrete latent factor model for cross-modal hashing (Jiang and Li, 2019).

    Codes are learned from labels alone, directly in the discrete domain: points that share a label get codes at a small
    Hamming distance across modalities. Hash functions then predict the codes of new points from each modality.

    Parameters
    ----------
    n_bits : int, default 64
        Code length c, 1 to 512.
    scale : float, default 8
        The paper's lambda: how sharply the probability of similarity depends on Hamming distance.
    max_iter : int, optional
        Maximum number of iterations T. (The paper: 30.) By default 10 for exact steps with sampled columns, which
        gain nothing from more, and 100 otherwise.
    sample_size : int, optional
        Number m of points sampled for each update by the stochastic solver. (The paper: ``n_bits``.) By default
        ``16 * n_bits``; with ``step="bound"`` the number of distinct label sets, but at least ``n_bits / 2`` and at
        most ``4 * n_bits``: `benchmarks/defaults_before.md` has the evidence.
    solver : {"auto", "full", "stochastic"}, default "auto"
        "full" uses every point in each update: its objective never decreases, and it stops when nothing changes. With
        few bits, the default ``scale`` and ``step="bound"`` it may stall at a poor solution. "auto" is full for up to
        2,048 label sets (or points), and stochastic for more. (The paper: "stochastic".)
    step : {"exact", "bound"}, default "exact"
        Flip a bit if that increases the objective ("exact") or, as in the paper, a lower bound of it ("bound").
    balance : bool, default True
        Weight similar pairs by (1 - p) / p, where p is their share of all pairs, and give Theta the bias
        log(p / (1 - p)), so that dissimilar pairs, the majority, do not outweigh them. (The paper does not.)
    init : {"labels", "random"}, default "labels"
        Start from one random code per distinct label set ("labels"), so that the cost of training depends on the number
        of label sets; or, as in the paper, from one per point ("random").
    ridge : float or "auto", default "auto"
        Regularisation of linear hash functions, the paper's gamma; "auto" is proportional to the features' variances,
        so that their scale does not matter: see `LinearRidge`. (The paper: 1e-6.)
    fit_intercept : bool, default True
        Whether linear hash functions have an intercept. (The paper's have none.)
    hash_function : {"auto", "linear", "kernel", "kernel-ridge", "deep"}, HashLearner, or dict of these by modality
        How codes are predicted from features: "auto" selects a linear or kernel function on held-out training points
        (`dlfh.hashing.Auto`); "linear", as in the paper (``ridge`` and ``fit_intercept`` apply); "kernel" is kernel
        logistic regression, "kernel-ridge" kernel ridge regression, "deep" a network. Pass a learner of `dlfh.hashing`
        to set its parameters.
    shared_code : bool, default False
        Learn one code for all modalities of a point instead of one for each.
    pair_weights : dict of (str, str) to int, optional
        For three or more modalities: the weight of each pair of modalities, a non-negative integer, by default 1.
    self_training : int, default 0
        Number of rounds in which hash functions are also fitted to codes predicted for unlabelled points.
    keep_sums : bool, default False
        Keep the sufficient statistics of the hash functions, so that `partial_fit` can add points. For each modality
        of d features (d bases, for kernel functions) they take 8 d (d + n_bits) bytes, in memory and in files.
    early_stopping : bool, default False
        Stop the stochastic solver after an iteration that changes no bit.
    track_objective : bool, default False
        Compute the log-likelihood, eq. (1), at the start and after each iteration, in ``objective_``.
    random_state : int, numpy Generator or None
        Random seed. The same seed and data give the same codes on any machine and number of threads.
    n_jobs : int, optional
        Number of threads, for BLAS too; all cores by default.
    verbose : bool, default False
        Show progress bars.

    Attributes
    ----------
    modalities_, codes_, hash_functions_, n_features_, fit_seconds_ : as for `CrossModalHasher`
    objective_ : ndarray of float64 (n_iter_ + 1,)
        The log-likelihood by iteration; empty unless ``track_objective``.
    flips_ : ndarray of int64 (n_iter_,)
        The number of bits that each iteration changed.
    n_iter_ : int
    sums_ : dict of str to Moments
        Sufficient statistics of the hash functions by modality, with ``keep_sums``; otherwise empty.
    chosen_ : dict of str to HashLearner
        The learner that ``hash_function="auto"`` selected, by modality; empty otherwise.

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
        complexity="T g m c for codes, g label sets and m samples; n d² or n k (d + k) for hash functions, k bases",
        n_modalities=(2, None),
        takes_incomplete=True,
        takes_blocks=True,
    )
    _saved_arrays = ("objective_", "flips_")
    _reads_together = False

    scale: Positive = 8.0
    max_iter: NonNegativeInt | None = None
    sample_size: PositiveInt | None = None
    solver: Literal["stochastic", "full", "auto"] = "auto"
    step: Literal["exact", "bound"] = "exact"
    balance: bool = True
    init: Literal["labels", "random"] = "labels"
    ridge: RidgeOrAuto = "auto"
    fit_intercept: bool = True
    hash_function: Any = "auto"
    shared_code: bool = False
    pair_weights: Mapping[tuple[str, str], int] | None = None
    self_training: NonNegativeInt = 0
    keep_sums: bool = False
    early_stopping: bool = False
    track_objective: bool = False

    flips_: Integers = field(init=False)
    #: Label-set codes; None if the model learned from pairwise similarities, or from too many label sets to keep.
    label_codes_: LabelSetCodes | None = field(init=False)
    chosen_: dict[str, HashLearner] = field(init=False)
    #: Codes of label sets that `fit` keeps, from an earlier model with the same modalities.
    _known_codes: LabelSetCodes | None = field(init=False, default=None)
    #: Labels that a first model predicted, for the next fit; see `FirstLabels`.
    _first: Mapping[str, FirstLabels] | None = field(init=False, default=None)
    sums_: dict[str, Moments] = field(init=False)
    #: Regressions of the last fit, from which leave-one-out predictions follow.
    _solutions: dict[str, RidgeSolution] | None = field(init=False, default=None)

    @classmethod
    def paper(cls, n_bits: int = 64, **changes: Any) -> Self:
        """Return the model in the paper's setting, section 4, with ``changes`` applied.

        One random code per point, T = 30, m = c, lambda = 8; linear functions without an intercept, gamma = 1e-6.

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
        functions = {"ridge": 1e-6, "fit_intercept": False, "hash_function": "linear"}
        return cls(n_bits, **{**cls._paper_codes(n_bits), **functions, **changes})

    @staticmethod
    def _paper_codes(n_bits: int) -> dict[str, Any]:
        solver = {"solver": "stochastic", "max_iter": 30, "sample_size": n_bits, "step": "bound"}
        return {"scale": 8.0, "balance": False, "init": "random", **solver}

    @property
    def n_iter_(self) -> int:
        return len(self.flips_)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_pair_weights(self.pair_weights)
        if self.keep_sums and (self.init != "labels" or self.self_training):
            raise InputError('keep_sums needs init="labels" and self_training=0')
        for choice in self.hash_function.values() if isinstance(self.hash_function, dict) else [self.hash_function]:
            learner = self._learner(choice)
            if self.keep_sums and not isinstance(learner, (SummedLearner, Auto)):
                raise InputError(
                    f"keep_sums needs linear or kernel ridge hash functions, but hash_function is "
                    f"{type(learner).__name__}"
                )

    def fit(
        self, modalities: Any, labels: Any = None, *, present: Any = None, labelled: Any = None, similarity: Any = None
    ) -> Self:
        """Learn codes and hash functions from paired modalities, complete or not, in memory or in blocks.

        Parameters
        ----------
        modalities, labels
            As for `CrossModalHasher.fit`. Modalities in blocks can be dense or sparse. Labels in blocks, an indicator
            matrix or class ids, give codes in blocks. Codes are the same as for arrays in memory; hash functions are
            the same up to rounding (logistic functions up to their tolerance).
        present : dict of str to array of bool (n,), optional
            By modality, a mask of the points that have it; all by default. Rows of other points are ignored.
        labelled : array of bool (n,), optional
            Mask of the points with known labels. Similarities of other points are unknown; in contrast, points with an
            empty label set are dissimilar to all points.
        similarity : matrix (n, n), optional
            Pairwise similarities instead of labels: 1 if point i in a modality is similar to point j in a later one, 0
            if not; may be asymmetric. Dense, with NaN for unobserved pairs; or sparse, with zeros stored if observed.
        """
        with self._fitting(modalities) as features:
            if present is None and labelled is None and similarity is None:
                self._fit(features, labels)
            else:
                self._fit_incomplete(features, labels, present, labelled, similarity)
        return self

    def _fit(self, features: dict[str, Blocks], labels: Any) -> None:
        from dlfh.methods.block_labels import BlockLabels  # imported here, because searches read no labels

        if self.keep_sums:
            check_widths(features)
        self._check_labels_given(labels)
        learners, known = self._learners(tuple(features)), BlockLabels(labels, features)
        if known.sets is None:  # codes are by block of points, so all modalities need the same blocks
            features = align(features)
        rng = check_random_state(self.random_state)
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            learning = CodeLearning(self, tuple(features))  # section 3.2
            targets, codes, learned, label_codes = learning.learn_points(known, features, rng, workers, bar)
            context = FitContext(
                workers, int(rng.integers(2**63)), bar, needs_sums=self.keep_sums, first=self._first or {}
            )
            fits = LabelFit(int(self.n_bits), context)
            functions = {  # section 3.3
                name: fits.fit(learners[name], blocks, targets[name], name)
                for name, blocks in bar.track(features.items(), "hash functions")
            }
            label_model = fits.model(tuple(features))
            sums: dict[str, Moments] = {}
            if self.keep_sums:
                used = learners | context.chosen
                labelled = {name: each.with_labels() or each for name, each in targets.items()}
                functions, _, sums = add_points(functions, used, {}, features, labelled, context)
        self.hash_functions_, self.codes_, self.chosen_, self.sums_ = functions, codes, context.chosen, sums
        self.objective_, self.flips_ = np.array(learned.objective), np.array(learned.flips, np.int64)
        self.label_codes_ = label_codes
        solved = context.solutions.items()
        self._solutions = {name: each for name, each in solved if each.factor.nbytes <= _MAX_SOLUTION}
        self._calibrate_later(label_model)

    def _fit_incomplete(
        self, features: dict[str, Blocks], labels: Any, present: Any, labelled: Any, similarity: Any
    ) -> None:
        from dlfh.methods.incomplete import IncompleteData

        if any(blocks.whole is None for blocks in features.values()):
            raise InputError("present, labelled and similarity need arrays in memory, not data in blocks")
        if self.keep_sums:
            raise InputError("keep_sums needs points that have every modality, and labels")
        arrays = {name: blocks.whole for name, blocks in features.items()}
        learners, learning = self._learners(tuple(arrays)), CodeLearning(self, tuple(arrays))
        rng = check_random_state(self.random_state)
        label_sets = None if similarity is not None else self._read_labels(labels, arrays)
        if label_sets is None and (labels is not None or labelled is not None):
            raise InputError("pass either labels or similarity, not both")
        if self.shared_code and similarity is not None:
            raise InputError("shared_code learns from labels, not from similarity")
        data = IncompleteData(arrays, label_sets, present, labelled)
        if self.shared_code and data.masks is not None:
            raise InputError("shared_code needs points that have every modality")
        supervision: LabelRows | ObservedPairs
        if data.label_sets is None:
            learning.check_sample_size(data.n_points)
            supervision = ObservedPairs.from_matrix(similarity, data.n_points, data.masks, learning.pair_weights)
            supervision.check(tuple(arrays))
        else:
            masks = data.masks and tuple(mask[data.known] for mask in data.masks)
            supervision = learning.rows(data.label_sets, present=masks)
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            learned, label_codes = learning.learn(supervision, rng, workers, bar)
            context = FitContext(workers, int(rng.integers(2**63)), bar, first=self._first or {})
            functions, codes, label_model = data.learn_functions(learned, learners, context, int(self.self_training))
        self.hash_functions_, self.codes_, self.chosen_, self.sums_ = functions, codes, context.chosen, {}
        self.objective_, self.flips_ = np.array(learned.objective), np.array(learned.flips, np.int64)
        self.label_codes_ = label_codes
        solved = context.solutions.items()
        self._solutions = {name: each for name, each in solved if each.factor.nbytes <= _MAX_SOLUTION}
        self._calibrate_later(label_model)

    def codes_of_labels(self, labels: Any) -> tuple[dict[str, Codes], Mask]:
        """Return the learned codes of points with given labels, including new points and label sets.

        A label set of the training data has its learned code. The code of a new label set is learned against the codes
        of the others, which do not change. Labels that were not in the training data are ignored.

        Parameters
        ----------
        labels : list of lists of labels, or indicator matrix
            In the form given to `fit`.

        Returns
        -------
        codes : dict of str to ndarray of uint8 (n, ceil(n_bits / 8))
        known : ndarray of bool (n,)
            False for points without any known label; their codes are zeros.

        Examples
        --------
        >>> from dlfh import DLFH
        >>> X = np.random.default_rng(0).normal(size=(6, 4))
        >>> model = DLFH(n_bits=8, random_state=0).fit({"a": X, "b": X}, [["red"], ["red", "big"], ["small"]] * 2)
        >>> codes, known = model.codes_of_labels([["red"], ["big", "small"], ["unheard-of"]])
        >>> bool((codes["a"][0] == model.codes_["a"][0]).all()), known
        (True, array([ True,  True, False]))
        """
        self._check_fitted()
        if self.label_codes_ is None:
            raise InputError(
                "this model has no label-set codes: it learned from pairwise similarities, or from too many label "
                "sets to keep"
            )
        with Workers(self.n_jobs) as workers:
            codes, known = self.label_codes_.encode(labels, workers)
        return dict(zip(self.modalities_, codes, strict=True)), known

    def project_leave_one_out(self, modality: str, features: Any, codes: Codes) -> Singles | None:
        return self._leave_one_out(modality, features, codes, None)[0]

    def _leave_one_out(
        self, modality: str, features: Any, codes: Codes, labels: Singles | None
    ) -> tuple[Singles | None, Singles | None]:
        function = self._function_of(modality)
        matrix = check_features(features, modality, self.n_features_[modality])
        if self.self_training:
            return None, None  # the function was also fitted to predicted codes
        learner = self.chosen_.get(modality) or self._learners(self.modalities_)[modality]
        n_bits, points = int(self.n_bits), np.arange(len(codes))
        model = None if labels is None else self._label_predictor()
        with blas_threads(self.n_jobs):
            labeller = None if model is None else learner.label_learner()
            if model is None or labels is None or labeller is None:
                return learner.leave_one_out(function, matrix, Targets(codes, points, n_bits)), None
            of_labels = model.functions[modality]
            if labeller is learner:  # one regression predicts both
                values = np.hstack([unpack(codes, n_bits).astype(np.float32), labels])
                together = RealTargets(values, points, values.shape[1])
                solved = (self._solutions or {}).pop(modality, None)
                if solved is not None and (solved.n_points, solved.weights.shape[1]) != values.shape:
                    solved = None
                assert isinstance(learner, SummedLearner)
                found = learner.leave_one_out(function, matrix, together, solved)
                of_codes, scores = (None, None) if found is None else (found[:, :n_bits], found[:, n_bits:])
            else:
                targets = Targets(codes, points, n_bits), RealTargets(labels, points, labels.shape[1])
                of_codes = learner.leave_one_out(function, matrix, targets[0])
                scores = labeller.leave_one_out(of_labels.scores, matrix, targets[1])
        return of_codes, None if scores is None else of_labels.curves(scores)

    def partial_fit(self, modalities: Any, labels: Any = None) -> Self:
        """Learn from more points, without access to earlier ones.

        Existing codes do not change. New points get the code of their label set; the code of a new label set is learned
        against the others. Hash functions are the same, up to rounding, as if fitted to all points and codes at once;
        the choice of "auto", the kernel bases and the calibration of label probabilities come from the first points.
        The probability of a new label is its share of the points. The first call is a `fit`; later calls continue it,
        or a loaded model. Needs ``keep_sums=True``.

        Parameters
        ----------
        modalities : dict of str to array-like or sparse matrix
            As for `fit`: the same modalities and features each time.
        labels : array-like or sparse matrix
            As for `fit`, in the same form each time. Class ids and lists of labels may contain new labels; an indicator
            matrix always has the same columns.

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
            raise InputError("this model was fitted without keep_sums=True, so it cannot be continued")
        with self._fitting_more(modalities) as features:
            self._add_points(features, self._read_labels(labels, features), self.label_codes_)
        return self

    def _add_points(self, features: dict[str, Features], labels: LabelSets, label_codes: LabelSetCodes) -> None:
        names, n_before = self.modalities_, len(self.codes_[self.modalities_[0]])
        rng = self._generator(n_before)
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            learning = CodeLearning(self, names)
            rules = learning.likelihood, learning.sample_size
            grown, row_of_point = label_codes.extended(labels, learning.pair_weights, rng, workers, *rules)
            codes = {name: grown.codes[index if len(grown.codes) > 1 else 0] for index, name in enumerate(names)}
            rows, n_bits = grown.sets.rows(), int(self.n_bits)
            targets = {
                name: BlockTargets.in_memory(LabelledTargets(codes[name], row_of_point, n_bits + rows.shape[1], rows))
                for name in names
            }
            # The ridge of "auto" stays constant, so its effect decreases as the sums grow.
            share = n_before / (n_before + labels.n_points)
            chosen = {name: rescaled(learner, share) for name, learner in self.chosen_.items()}
            used, context = self._learners(names) | chosen, FitContext(workers, 0, bar)
            blocks = {name: in_one_block(matrix, name) for name, matrix in features.items()}
            functions, scores, sums = add_points(self.hash_functions_, used, self.sums_, blocks, targets, context)
        shares = {name: moments.target_mean[n_bits:] for name, moments in sums.items()}
        self._solutions = None
        self.label_model_ = self.label_model_ and self.label_model_.grown(grown.sets.names, scores, shares)
        self.hash_functions_, self.sums_, self.chosen_, self.label_codes_ = functions, sums, chosen, grown
        self.codes_ = {name: np.concatenate([self.codes_[name], codes[name][row_of_point]]) for name in names}

    def _to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        config, arrays = super()._to_parts()
        config["chosen"] = values_to_json(self.chosen_, HashLearner._registry)
        config["label_codes"] = None
        if self.label_codes_ is not None:
            config["label_codes"], label_arrays = self.label_codes_.to_parts()
            arrays |= {f"labels/{key}": array for key, array in label_arrays.items()}
        config["sums"], sum_arrays = sums_to_parts(self.sums_ if self.keep_sums else {})
        return config, arrays | sum_arrays

    def _restore(self, config: dict[str, Any], arrays: dict[str, Array]) -> None:
        super()._restore(config, arrays)
        self.chosen_ = parameters_from_json(config["chosen"], HashLearner._registry)
        if not set(self.chosen_) <= set(self.modalities_):
            raise ValueError("its chosen learners do not match its modalities")
        for learner in self.chosen_.values():
            if not isinstance(learner, HashLearner):
                raise ValueError("its chosen learners include a value that is not a learner")
            learner.check_parameters()
        self.label_codes_ = None
        if (about := config["label_codes"]) is not None:
            parts = about, with_prefix(arrays, "labels/")
            self.label_codes_ = LabelSetCodes.from_parts(*parts, int(self.n_bits), len(self.modalities_))
        # Learners are created only if there are sums: loading a network must not require PyTorch.
        learners = self._learners(self.modalities_) | self.chosen_ if config["sums"] else {}
        n_labels = 0 if self.label_codes_ is None else self.label_codes_.sets.n_labels
        self.sums_ = sums_from_parts(config["sums"], arrays, self.hash_functions_, learners, n_labels)

    def _learners(self, modalities: tuple[str, ...]) -> dict[str, HashLearner]:
        choices = self.hash_function
        if not isinstance(choices, dict):
            choices = dict.fromkeys(modalities, choices)
        elif (given := sorted(choices)) != sorted(modalities):
            raise InputError(f"hash_function has the modalities {given}, but the data has {sorted(modalities)}")
        learners = {name: self._learner(choice) for name, choice in choices.items()}
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
