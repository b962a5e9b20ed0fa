"""Which features serve best: candidates are tried on items that they were not fitted to, one modality after another.

Some items are drawn, a part of them is held out, and the method is fitted to the others once with each candidate. The
held-out items then ask for each other, as new items do; texts ask whole, and by one of their words, as people do. What
is best for one data set is not for another: colours tell clothes apart and icons hardly; pieces of words help short
questions and add noise to long ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._labels import LabelSets
from dlfh._validation import Features
from dlfh.features.base import Featurizer

if TYPE_CHECKING:
    from dlfh.methods import CrossModalHasher

__all__ = ["HELD_OUT", "LEAST_ITEMS", "MOST_ITEMS", "Draw", "Trial", "choose"]

#: How many items candidates are tried on at most, and which share of them asks; fewer than the least tell nothing.
MOST_ITEMS, HELD_OUT, LEAST_ITEMS = 1200, 1 / 3, 100

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Trial:
    """What a candidate did on items that were held out of a trial.

    Attributes
    ----------
    what : str
        The modality whose features were tried, "bits", or a method.
    option : str
        The features, the number of bits, or parameters.
    map, ndcg, exact : float
        How well items that training did not see find each other, in the mean over all directions: MAP, nDCG@10, and
        the share of the first five that have exactly the query's labels. Asymmetric ranking.
    n_items : int
        On how many items it was tried, those that asked among them.
    seconds : float
        How long it took, describing included.
    chosen : bool
    """

    what: str
    option: str
    map: float
    ndcg: float
    exact: float
    n_items: int
    seconds: float
    chosen: bool = False

    @property
    def merit(self) -> float:
        """What is compared. MAP alone takes functions that know what is common, and misses who has all labels."""
        return (self.map + self.ndcg + self.exact) / 3


def choose(
    candidates: Mapping[str, Sequence[Featurizer]],
    model: CrossModalHasher,
    values: Mapping[str, Any],
    labels: Any,
    random_state: int = 0,
) -> tuple[dict[str, Featurizer], list[Trial]]:
    """Return the featuriser of each modality that serves best, and what the trials of all of them said.

    Parameters
    ----------
    candidates : dict of str to list of Featurizer
        The first of each is taken where there are too few items to tell.
    model : CrossModalHasher
        What the features are for. It is not fitted here; where it chooses hash functions itself, trials take plain
        ones, since they compare features.
    values : dict of str to sequence
        By modality, the raw values of complete items.
    labels : array-like, or None
        Theirs, as for `CrossModalHasher.fit`.
    random_state : int
        The seed of the draw.

    Returns
    -------
    featurizers : dict of str to Featurizer
    trials : list of Trial
        In the order in which they were made, the last with twice the bits, to say what these would bring; empty if
        nothing was to be tried.
    """
    taken = {name: own[0] for name, own in candidates.items()}
    several = [name for name, own in candidates.items() if len(own) > 1]
    sets = LabelSets.from_labels(labels) if several and labels is not None and len(labels) else None
    if sets is None or sets.n_points < LEAST_ITEMS:
        return taken, []
    draw = Draw.of(values, sets, random_state)
    trials: list[Trial] = []
    for name in several:
        tried = [
            draw.trial({**taken, name: candidate}, model, name, repr(_quiet(candidate)))
            for candidate in candidates[name]
        ]
        best = max(range(len(tried)), key=lambda place: tried[place].merit)
        taken[name] = candidates[name][best]
        trials += [replace(trial, chosen=place == best) for place, trial in enumerate(tried)]
    n_bits = model.n_bits
    now = next(trial for trial in reversed(trials) if trial.chosen)  # the last that was chosen has all that was
    more = draw.trial(taken, _changed(model, n_bits=2 * n_bits), "bits", str(2 * n_bits))
    return taken, [*trials, replace(now, what="bits", option=str(n_bits), seconds=0.0), more]


@dataclass(frozen=True)
class Draw:
    """Items that candidates are tried on.

    Attributes
    ----------
    values : dict of str to sequence
    labels : csr_array (items, labels)
    seen, held_out : ndarray of int64
        Positions of those that are learned from, and of the others.
    rng_seed : int
    described : dict
        What was described before, by modality and featuriser.
    """

    values: dict[str, Any]
    labels: sp.csr_array
    seen: Rows
    held_out: Rows
    rng_seed: int
    described: dict[tuple[str, str], _Described] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        values: Mapping[str, Any],
        labels: LabelSets,
        random_state: int,
        most_items: int = MOST_ITEMS,
        held_out: float = HELD_OUT,
    ) -> Draw:
        drawn = np.random.default_rng(random_state).permutation(labels.n_points)[:most_items]
        some = {name: _take(own, drawn) for name, own in values.items()}
        n_held_out = int(len(drawn) * held_out)
        places = np.arange(len(drawn))
        own = labels.take(drawn)
        rows = own.rows()[own.set_of_point]
        return cls(some, rows, places[n_held_out:], places[:n_held_out], random_state)

    def trial(
        self,
        featurizers: Mapping[str, Featurizer],
        model: CrossModalHasher,
        what: str,
        option: str,
        *,
        as_it_is: bool = False,
    ) -> Trial:
        """Fit a model to what was drawn, plain or as it is, and ask with what it did not see."""
        began = time.perf_counter()
        described = {name: self._describe(name, featurizer) for name, featurizer in featurizers.items()}
        everyone = np.arange(len(self.seen) + len(self.held_out))
        readable = np.logical_and.reduce([np.isin(everyone, own.rows) for own in described.values()])
        seen, asking = self.seen[readable[self.seen]], self.held_out[readable[self.held_out]]
        matrices = {name: own.take(seen) for name, own in described.items()}
        own_model = _changed(model) if as_it_is else _plain(model, matrices)
        fitted = own_model.fit(matrices, self.labels[seen])
        found = {name: fitted.project(name, own.take(asking)) for name, own in described.items()}
        questions = list(found.items())
        for name, own in described.items():
            if own.words is not None:
                questions.append((name, fitted.project(name, own.words[np.searchsorted(self.held_out, asking)])))
        quality, graded, exact = np.mean([*_measured(questions, found, self.labels[asking])], axis=0).tolist()
        return Trial(what, option, quality, graded, exact, int(readable.sum()), time.perf_counter() - began)

    def _describe(self, name: str, featurizer: Featurizer) -> _Described:
        """Describe all items by a featuriser that is fitted to those that are learned from."""
        key = name, repr(featurizer)
        if key not in self.described:
            own = _quiet(featurizer)
            values = self.values[name]
            asking = _take(values, self.held_out)
            parts = own.fit_transform_readable(_take(values, self.seen)), own.transform_readable(asking)
            rows = np.concatenate([self.seen[parts[0].rows], self.held_out[parts[1].rows]])
            matrix = (sp.vstack if sp.issparse(parts[0].features) else np.vstack)([part.features for part in parts])
            words = own.transform(_one_word_each(asking, self.rng_seed)) if own.takes == "texts" else None
            self.described[key] = _Described(sp.csr_array(matrix) if sp.issparse(matrix) else matrix, rows, words)
        return self.described[key]


@dataclass(frozen=True)
class _Described:
    """Vectors of the items that can be read, and which these are; of texts, also of one word of each that asks."""

    matrix: Features
    rows: Rows
    words: Features | None

    def take(self, items: Rows) -> Features:
        order = np.argsort(self.rows)
        return self.matrix[order[np.searchsorted(self.rows, items, sorter=order)]]


def _take(values: Any, rows: Rows) -> Any:
    return [values[row] for row in rows] if isinstance(values, (list, tuple)) else values[rows]


def _one_word_each(texts: Sequence[str], seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return [str(rng.choice(text.split() or [text])) for text in texts]


def _quiet(featurizer: Featurizer) -> Featurizer:
    """Return a copy that has learned nothing, and shows no progress."""
    return type(featurizer)(**{**featurizer.get_params(deep=False), "verbose": False})


def _changed(model: CrossModalHasher, **changes: Any) -> CrossModalHasher:
    return type(model)(**{**model.get_params(deep=False), **changes})


def _plain(model: CrossModalHasher, matrices: Mapping[str, Features]) -> CrossModalHasher:
    """Return a model to fit, with hash functions that are good for most features if it would look for its own."""
    from dlfh.hashing import Auto, KernelRidge, LinearRidge

    changes: dict[str, Any] = {"verbose": False} if "verbose" in model.get_params(deep=False) else {}
    functions = getattr(model, "hash_function", None)
    if functions == "auto" or isinstance(functions, Auto):
        changes["hash_function"] = {
            name: LinearRidge(shrinkage=0.3) if sp.issparse(matrix) else KernelRidge(shrinkage=0.01, scaling="standard")
            for name, matrix in matrices.items()
        }
    return _changed(model, **changes)


def _measured(
    questions: Sequence[tuple[str, npt.NDArray[np.float32]]],
    found: Mapping[str, npt.NDArray[np.float32]],
    labels: sp.csr_array,
) -> Iterator[list[float]]:
    """Yield MAP, nDCG@10 and exact precision of each direction, each half of the items asking for the other."""
    from dlfh.codes import pack
    from dlfh.metrics import AP, P, evaluate, nDCG

    middle = labels.shape[0] // 2
    halves = slice(0, middle), slice(middle, None)
    measures = [AP, nDCG @ min(10, middle), P(match="all") @ min(5, middle)]
    for name, asked in questions:
        for database, values in found.items():
            if name != database:
                for mine, others in (halves, halves[::-1]):
                    result = evaluate(
                        asked[mine], pack(values[others]), labels[mine], labels[others], measures=measures
                    )
                    yield [result[measure] for measure in measures]
