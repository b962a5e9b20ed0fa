"""What DLFH and KDLFH share: codes by the discrete latent factor model, then a hash function for each modality."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dlfh._factorization.label_codes import LabelCodes
from dlfh._factorization.label_rows import LabelRows
from dlfh._factorization.likelihood import LatentFactorModel
from dlfh._factorization.solver import Factorization, factorize, random_start
from dlfh._factorization.supervision import Supervision
from dlfh._labels import LabelSets
from dlfh._mathematics.targets import Targets
from dlfh._parallel import Workers, blas_threads
from dlfh._persistence.plain import parameters_from_plain, plain_values
from dlfh._progress import Bar, progress
from dlfh._validation import (
    Features,
    check_choice,
    check_flag,
    check_integer,
    check_positive,
    check_random_state,
)
from dlfh.blocks import Blocks
from dlfh.codes import Codes
from dlfh.errors import InputError
from dlfh.hashing import FitContext, HashFunction, HashLearner
from dlfh.methods.base import CrossModalHasher

if TYPE_CHECKING:
    from dlfh.methods.incomplete import Missing

__all__ = ["LatentFactorHasher"]

Integers = npt.NDArray[np.int64]

#: Up to so many rows ``solver="auto"`` is the full solver.
FULL_SOLVER_ROWS = 2048

#: Weights of pairs of modalities are exact factors in sums of 64-bit integers.
MAX_PAIR_WEIGHT = 1000


class LatentFactorHasher(CrossModalHasher):
    """Codes by the discrete latent factor model; subclasses say who learns the hash functions."""

    scale: float
    max_iter: int | None
    sample_size: int | None
    solver: Literal["stochastic", "full", "auto"]
    step: Literal["exact", "bound"]
    balance: bool
    init: Literal["labels", "random"]
    shared_code: bool
    pair_weights: Mapping[tuple[str, str], int] | None
    self_training: int
    early_stopping: bool
    track_objective: bool

    _saved_arrays = ("objective_", "flips_")
    _reads_together = False

    objective_: npt.NDArray[np.float64]
    flips_: Integers
    #: The codes of label sets; None where the model learned from single pairs, or from too many sets to keep here.
    label_codes_: LabelCodes | None
    chosen_: dict[str, HashLearner]

    @property
    def n_iter_(self) -> int:
        return len(self.flips_)

    def fit(
        self, modalities: Any, labels: Any = None, *, present: Any = None, labelled: Any = None, similarity: Any = None
    ) -> Self:
        """Learn codes and hash functions from paired modalities, complete or not, in memory or by blocks.

        Parameters
        ----------
        modalities, labels
            As for `CrossModalHasher.fit`. Modalities may also be large memory-mapped arrays, what
            `dlfh.blocks.open_blocks` opens, and Dask arrays, dense or of blocks of scipy.sparse; labels may be the
            same, as an indicator matrix or class ids, and then codes are where labels are. Codes are those that arrays
            in memory would get, and hash functions the same to rounding (logistic ones: to their tolerance).
        present : dict of str to array of bool (n,), optional
            By modality, which points have it; all for modalities that are not named. What stands in the rows of
            points that have not is not looked at.
        labelled : array of bool (n,), optional
            Which points' labels are known. The others are not unlike everything, as points without labels are:
            nothing is known of their similarities.
        similarity : matrix (n, n), optional
            Similarities of single pairs in place of labels: 1 where point i in a modality is similar to point j in
            a later one, 0 where it is not. Dense, with NaN for what is unobserved, or sparse, with the stored
            entries observed, zeros among them. Not necessarily symmetric.

        Returns
        -------
        self
        """
        with self._fitting(modalities) as features:
            complete = present is None and labelled is None and similarity is None
            if any(isinstance(own, Blocks) for own in features.values()):
                if not complete:
                    raise InputError(
                        f"by blocks, {type(self).__name__} learns from complete points alone: no present, labelled or "
                        "similarity"
                    )
                self._fit_by_blocks(features, labels)
            elif complete:
                self._fit(features, labels)
            else:
                from dlfh.methods.incomplete import Missing

                self._fit_incomplete(features, labels, Missing(present, labelled, similarity))
        return self

    def _fit(self, features: dict[str, Features], labels: Any) -> None:
        names, learners = tuple(features), self._learners(tuple(features))
        rng = check_random_state(self.random_state)
        rows = self._rows(self._read_labels(labels, features), names)
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            learned = self._learn_codes(rows, len(names), rng, workers, bar)  # section 3.2
            context = FitContext(workers, int(rng.integers(2**63)), bar, rows.labels)
            targets = {name: learned.targets(index) for index, name in enumerate(names)}
            self.hash_functions_ = self._learn_functions(features, targets, learners, context)  # section 3.3
        self.chosen_ = context.chosen
        self.codes_ = {name: learned.codes_of_points(index) for index, name in enumerate(names)}

    def _learn_functions(
        self,
        features: dict[str, Features],
        targets: dict[str, Targets],
        learners: dict[str, HashLearner],
        context: FitContext,
    ) -> dict[str, HashFunction]:
        """Return a hash function for each modality."""
        return {
            name: learners[name].fit(matrix, targets[name], name, context)
            for name, matrix in context.bar.track(features.items(), "hash functions")
        }

    def _fit_incomplete(self, features: dict[str, Features], labels: Any, missing: Missing) -> None:
        from dlfh.methods.incomplete import IncompleteData

        names, learners = tuple(features), self._learners(tuple(features))
        rng = check_random_state(self.random_state)
        label_sets = None if missing.similarity is not None else self._read_labels(labels, features)
        if label_sets is None and labels is not None:
            raise InputError("pass either labels or similarity, not both")
        if self.shared_code and missing.similarity is not None:
            raise InputError("shared_code learns from labels, not from similarity")
        data = IncompleteData.of(features, missing, label_sets)
        if self.shared_code and data.masks is not None:
            raise InputError("shared_code needs points that have every modality")
        supervision: Supervision
        if data.label_sets is None:
            self._check_sample_size(data.n_points)
            supervision = data.observed_pairs(self._weights_of_pairs(names))
        else:
            supervision = self._rows(data.label_sets, names, present=data.masks_of_labelled)
        with Workers(self.n_jobs) as workers, progress(self.verbose) as bar:
            learned = self._learn_codes(supervision, len(names), rng, workers, bar)
            context = FitContext(workers, int(rng.integers(2**63)), bar)
            self.hash_functions_, self.codes_ = data.learn_functions(
                learned, learners, context, int(self.self_training)
            )
        self.chosen_ = context.chosen

    def _fit_by_blocks(self, features: dict[str, Blocks], labels: Any) -> None:
        from dlfh.methods.by_blocks import learn_by_blocks  # searching fits nothing

        self.hash_functions_, self.codes_, self.chosen_ = learn_by_blocks(self, features, labels)

    @abstractmethod
    def _learners(self, modalities: tuple[str, ...]) -> dict[str, HashLearner]:
        """Return who learns each modality's hash function, their parameters checked."""

    def _rows(self, label_sets: LabelSets, modalities: tuple[str, ...], **options: Any) -> LabelRows:
        """Return what the rows of U and V stand for: label sets, or points as in the paper."""
        self._check_sample_size(label_sets.n_points)
        make = LabelRows.of_label_sets if self.init == "labels" else LabelRows.of_points
        return make(label_sets, pair_weights=self._weights_of_pairs(modalities), **options)

    def _learn_codes(
        self, supervision: Supervision, n_modalities: int, rng: np.random.Generator, workers: Workers, bar: Bar
    ) -> Factorization:
        n_bits, sample_size = int(self.n_bits), self._resolve_sample_size(supervision)
        max_iter = self._most_iterations(sample_size)
        model = self._model(supervision, n_modalities)
        learned = factorize(
            model,
            supervision,
            random_start(len(supervision), 1 if self.shared_code else n_modalities, n_bits, rng),
            max_iter=max_iter,
            sample_size=sample_size,
            rng=rng,
            workers=workers,
            early_stopping=self.early_stopping,
            track_objective=self.track_objective,
            on_iteration=bar.counter("codes", max_iter),
        )
        self.objective_ = np.array(learned.objective)
        self.flips_ = np.array(learned.flips, dtype=np.int64)
        self.label_codes_ = None
        if isinstance(supervision, LabelRows):
            self.label_codes_ = LabelCodes.of(supervision, learned.codes, model, n_modalities)
        return learned

    def codes_of_labels(self, labels: Any) -> tuple[dict[str, Codes], npt.NDArray[np.bool_]]:
        """Return the codes that points with some labels have, also points and label sets that training never saw.

        A label set that was trained with has its learned code. A new one gets a code of its own, learned against those
        of the others, which stay as they are: nothing is trained again. Labels that training never saw are left out.

        Parameters
        ----------
        labels : list of lists of labels, or indicator matrix
            As they were given to `fit`.

        Returns
        -------
        codes : dict of str to ndarray of uint8 (n, ceil(n_bits / 8))
        known : ndarray of bool (n,)
            False for points of whose labels none is known; their codes are zeros and say nothing.

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
                "this model has no codes of labels: it learned from similarities of single pairs, or from more label "
                "sets than it keeps"
            )
        with Workers(self.n_jobs) as workers:
            codes, known = self.label_codes_.codes_of(labels, workers)
        return dict(zip(self.modalities_, codes, strict=True)), known

    def project_left_out(self, modality: str, features: Any, codes: Codes) -> npt.NDArray[np.float32] | None:
        function, matrix = self._for_modality(modality, features)
        if self.self_training:
            return None  # fitted to guesses, too
        learner = self.chosen_.get(modality) or self._learners(self.modalities_)[modality]
        targets = Targets(codes, np.arange(len(codes)), int(self.n_bits))
        with blas_threads(self.n_jobs):
            return learner.left_out(function, matrix, targets)

    def to_parts(self) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
        config, arrays = super().to_parts()
        config["chosen"] = plain_values(self.chosen_, HashLearner.registry)
        config["label_codes"] = None
        if self.label_codes_ is not None:
            config["label_codes"], own = self.label_codes_.to_parts()
            arrays |= {f"labels/{key}": array for key, array in own.items()}
        return config, arrays

    def _restore(self, config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> None:
        super()._restore(config, arrays)
        self.chosen_ = parameters_from_plain(config["chosen"], HashLearner.registry)
        if not set(self.chosen_) <= set(self.modalities_):
            raise ValueError("its chosen learners are not of its modalities")
        for learner in self.chosen_.values():
            if not isinstance(learner, HashLearner):
                raise ValueError("its chosen learners are not all learners")
            learner.check_parameters()
        own = {key.removeprefix("labels/"): array for key, array in arrays.items() if key.startswith("labels/")}
        about, n_modalities = config["label_codes"], len(self.modalities_)
        self.label_codes_ = None if about is None else LabelCodes.from_parts(about, own, int(self.n_bits), n_modalities)

    def _model(self, supervision: Supervision, n_modalities: int) -> LatentFactorModel:
        """Return the likelihood, section 3.1, balanced or as the paper has it."""
        return self._likelihood(supervision.similar_share, n_modalities)

    def _likelihood(self, similar_share: Callable[[int], float], n_modalities: int) -> LatentFactorModel:
        if not self.balance:
            return LatentFactorModel(int(self.n_bits), float(self.scale), self.step)
        share = similar_share(n_modalities)
        return LatentFactorModel.balanced(int(self.n_bits), float(self.scale), self.step, share)

    def _resolve_sample_size(self, supervision: Supervision) -> int | None:
        """Return how many points an update looks at; None for all of them."""
        # Single pairs cost as much as were observed: the full solver is quick.
        small = not isinstance(supervision, LabelRows) or len(supervision) <= FULL_SOLVER_ROWS
        if self.solver == "full" or (self.solver == "auto" and small):
            return None
        if not isinstance(supervision, LabelRows):
            return self._n_samples(len(supervision.row_of_point), len(supervision.row_of_point))
        return self._n_samples(supervision.labels.n_points, supervision.labels.n_sets)

    def _most_iterations(self, sample_size: int | None) -> int:
        """Return how many iterations there are at most."""
        if self.max_iter is not None:
            return int(self.max_iter)
        # Exact steps with sampled columns arrive in a few iterations; full solvers stop by themselves.
        return 10 if self.step == "exact" and sample_size is not None else 100

    def _n_samples(self, n_points: int, n_kinds: int) -> int:
        """Return how many points are sampled, of so many, of so many label sets."""
        if self.sample_size is not None:
            return int(self.sample_size)
        n_bits = int(self.n_bits)
        if self.step == "exact":
            return min(n_points, 16 * n_bits)  # an exact step believes what it sees: it must see enough
        # More samples help where label sets are many. Where they are few, sampling each of them makes
        # the solver nearly full, and it stalls as the full solver does.
        return min(n_points, max(1, n_bits // 2, min(n_kinds, 4 * n_bits)))

    def _check_sample_size(self, n_points: int) -> None:
        if self.sample_size is not None and self.sample_size > n_points and self.solver != "full":
            raise InputError(f"sample_size is {self.sample_size} but there are only {n_points} points")

    def check_parameters(self) -> None:
        super().check_parameters()
        check_positive(self.scale, "scale")
        if self.max_iter is not None:
            check_integer(self.max_iter, "max_iter", 0)
        if self.sample_size is not None:
            check_integer(self.sample_size, "sample_size", 1)
        check_choice(self.solver, "solver", ("stochastic", "full", "auto"))
        check_choice(self.step, "step", ("exact", "bound"))
        check_choice(self.init, "init", ("labels", "random"))
        check_integer(self.self_training, "self_training", 0)
        for name in ("balance", "shared_code", "early_stopping", "track_objective"):
            check_flag(getattr(self, name), name)
        self._check_pair_weights()

    def _check_pair_weights(self) -> None:
        """Raise InputError for weights of pairs that no modalities could fit."""
        if self.pair_weights is None:
            return
        if not isinstance(self.pair_weights, Mapping):
            raise InputError(f'pair_weights must be a dict such as {{("image", "text"): 2}}, got {self.pair_weights!r}')
        for pair, weight in self.pair_weights.items():
            if not isinstance(pair, tuple) or len(pair) != 2 or not all(isinstance(name, str) for name in pair):
                raise InputError(f'pair_weights must have keys such as ("image", "text"), got {pair!r}')
            check_integer(weight, f"pair_weights[{pair!r}]", 0, MAX_PAIR_WEIGHT)

    def _weights_of_pairs(self, modalities: tuple[str, ...]) -> Integers | None:
        """Return the weights of pairs of modalities as a symmetric matrix."""
        if self.pair_weights is None:
            return None
        weights = np.ones((len(modalities), len(modalities)), np.int64)
        np.fill_diagonal(weights, 0)
        for pair, weight in self.pair_weights.items():
            if not set(pair) <= set(modalities) or pair[0] == pair[1]:
                raise InputError(f"pair_weights names {pair!r}, not a pair of the modalities {sorted(modalities)}")
            a, b = (modalities.index(name) for name in pair)
            weights[a, b] = weights[b, a] = weight
        if not weights.any(axis=1).all():
            alone = modalities[int(np.flatnonzero(~weights.any(axis=1))[0])]
            raise InputError(f"pair_weights leaves modality {alone!r} without any pair that counts")
        return weights
