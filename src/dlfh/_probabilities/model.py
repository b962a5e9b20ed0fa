"""The label probabilities of a fitted method: a function per modality, their combination, and match probabilities.

Scores become probabilities by curves. `LabelCurves` turn the scores of a regression into label probabilities, by a
logistic curve per label. `MatchCurves` turn the score of a query and an item (`scores`) into the probability that the
item matches the query. These scores multiply the probabilities of labels as if labels were independent, and
overestimate the items ranked first. Curves fitted to pairs of left-out points correct both: a
monotone, piecewise linear function of the score plus two features of the query, in log-odds, for each choice of
modalities for queries and for items.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh._arrays import Array, Codes, Floats, Integers, Singles
from dlfh._labels import are_label_names
from dlfh._parallel import Workers
from dlfh._persistence.model_folder import with_prefix
from dlfh._probabilities.scores import MATCHES, N_CENTROIDS, LabelQuantizer, Match, label_scores, score_tables
from dlfh._validation import Features
from dlfh.codes import n_bytes
from dlfh.hashing.base import HashFunction, check_array

#: Maximum number of modalities for which every subset is fitted.
_MAX_MODALITIES = 4
#: Probabilities are clipped to this distance from 0 and 1 before taking log-odds.
_SMALLEST = 1e-6

#: Rows whose probabilities are computed at once, in the processor's cache.
_BLOCK_ROWS = 128

#: The modalities that label probabilities come from; none if labels are known.
Source = tuple[str, ...]

N_KNOTS = 9
#: Knots, their heights, and the weights of a query's features.
N_PARAMETERS = 2 * N_KNOTS + 2

#: Label probabilities that are calibrated when this is called, see `FittedLabels.model`; None if a modality has none.
PendingLabels = Callable[..., Any]


def _sigmoid(values: Floats) -> Floats:
    # Not scipy.special.expit: a search must not load it.
    return 1 / (1 + np.exp(-np.clip(values, -700, 700)))


@dataclass(frozen=True)
class LabelCurves:
    """Probabilities of labels from their scores: trust x sigma(slope x score + intercept) + (1 - trust) x prior.

    prior, trust: Share of points with each label, and weight of its curve, n / (n + 1) for a label of n points.
    exclusive: Whether every point has exactly one label, so that probabilities sum to 1.
    """

    slope: Floats
    intercept: Floats
    prior: Floats
    trust: Floats
    exclusive: bool

    def __call__(self, scores: Array) -> Singles:
        slope, intercept, trust = (each.astype(np.float32) for each in (self.slope, self.intercept, self.trust))
        base = ((1 - self.trust) * self.prior).astype(np.float32)
        found = np.empty(scores.shape, np.float32)
        for start in range(0, len(scores), _BLOCK_ROWS):
            values = np.multiply(scores[start : start + _BLOCK_ROWS], slope, out=found[start : start + _BLOCK_ROWS])
            values += intercept
            np.negative(np.clip(values, -80, 80, out=values), out=values)
            np.add(np.exp(values, out=values), 1, out=values)
            np.divide(trust, values, out=values)
            values += base
            if self.exclusive:
                values /= np.maximum(values.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return found

    def of_log_odds(self, values: Floats, labels: Any = slice(None)) -> Floats:
        """Return probabilities from the log-odds of curves, of some labels."""
        trust = self.trust[labels]
        return trust * _sigmoid(values) + (1 - trust) * self.prior[labels]

    def log_odds(self, probabilities: npt.NDArray[np.floating]) -> Floats:
        """Return the log-odds of curves from probabilities; 0 for labels that have no curve."""
        shares = (probabilities - (1 - self.trust) * self.prior) / np.where(self.trust > 0, self.trust, 1)
        return np.where(self.trust > 0, log_odds(shares), 0.0)

    def extended(self, prior: Floats) -> LabelCurves:
        """Return curves with new priors, and with new labels that have only a prior."""
        more = (0, len(prior) - len(self.prior))
        slope, intercept, trust = (np.pad(each, more) for each in (self.slope, self.intercept, self.trust))
        return LabelCurves(slope, intercept, prior, trust, self.exclusive)

    def to_arrays(self) -> dict[str, Array]:
        curves = np.stack([self.slope, self.intercept, self.prior, self.trust])
        return {"curves": curves, "exclusive": np.array([self.exclusive])}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], n_labels: int) -> LabelCurves:
        slope, intercept, prior, trust = check_array(arrays, "curves", np.float64, (4, n_labels))
        if min(prior.min(), trust.min()) < 0 or max(prior.max(), trust.max()) > 1:
            raise ValueError("its label curves have a prior or weight outside 0 to 1")
        return cls(slope, intercept, prior, trust, bool(check_array(arrays, "exclusive", np.bool_, (1,))[0]))


@dataclass(frozen=True)
class MatchCurves:
    """Curves by match and by the sources of queries and items: parameters (2, n_sources, n_sources, 20)."""

    sources: tuple[Source, ...]
    parameters: Floats

    def __call__(self, scores: Array, queries: Singles, match: Match, asked: Source, stored: Source) -> Floats:
        """Return probabilities for the scores (n, k) of n queries with given label probabilities."""
        place = MATCHES.index(match), self.sources.index(asked), self.sources.index(stored)
        knots, heights, weights = np.split(self.parameters[place], [N_KNOTS, 2 * N_KNOTS])
        return _sigmoid(np.interp(scores, knots, heights) + (query_features(queries) @ weights)[:, None])

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array], sources: tuple[Source, ...]) -> MatchCurves:
        n = len(sources)
        parameters = check_array(arrays, "matches", np.float64, (len(MATCHES), n, n, N_PARAMETERS))
        if (np.diff(parameters[..., :N_KNOTS]) <= 0).any() or (np.diff(parameters[..., N_KNOTS:-2]) < 0).any():
            raise ValueError("its match curves must be increasing")
        return cls(sources, parameters)


def query_features(queries: Singles) -> Floats:
    """Return the expected number of labels of queries, as a logarithm, and their largest probability."""
    return np.stack([np.log(queries.sum(axis=1, dtype=np.float64) + 0.01), queries.max(axis=1)], axis=1)


class LabelFunction(HashFunction):
    """Label probabilities of one modality: a regression of the labels, and a curve per label.

    Its projections are the probabilities, so code that hashes points in blocks can also compute them.

    A *record* lists the labels whose log-odds are most above average for an item, each with its log-odds in a byte.
    Quantised probabilities come from centroids that many items share; the record tells these items apart.

    spread (3, n_labels): Means and standard deviations of log-odds, and the range above the mean that a byte covers.
    first: A function that learned some of the labels from points with known labels only, and the columns of these
        labels: their log-odds are the means of both functions. None if all points had known labels.
    """

    def __init__(
        self,
        scores: HashFunction,
        curves: LabelCurves,
        spread: Floats,
        first: tuple[LabelFunction, Integers] | None = None,
    ) -> None:
        self.scores, self.curves, self.spread, self.first = scores, curves, spread, first
        self.n_features, self.n_bits = scores.n_features, scores.n_bits

    def _entries(self, n_bits: int) -> tuple[int, int]:
        """Return the number of labels in a record, and the bits of each: its number, and a byte."""
        size = max(1, (self.n_bits - 1).bit_length()) + 8
        return min(self.n_bits, n_bits // size), size

    def record(self, probabilities: Singles, n_bits: int) -> Codes:
        """Return the records of items with these label probabilities, shape (n, bytes of n_bits)."""
        n, size = self._entries(n_bits)
        mean, deviation, room = self.spread
        above = self.curves.log_odds(probabilities) - mean
        labels = np.argpartition(-above / deviation, n - 1, axis=1)[:, :n] if n else np.empty((len(above), 0), np.int64)
        levels = np.clip(np.rint(255 * np.take_along_axis(above, labels, axis=1) / room[labels]), 0, 255)
        entries = labels << 8 | levels.astype(np.int64)
        bits = (entries[:, :, None] >> np.arange(size)[::-1] & 1).astype(np.uint8).reshape(len(above), -1)
        return np.packbits(np.pad(bits, ((0, 0), (0, n_bits - bits.shape[1]))), axis=1)

    def read_record(self, records: Codes, n_bits: int, probabilities: Singles) -> Singles:
        """Return the centroids' probabilities, replaced by the records' for labels that are above average there."""
        n, size = self._entries(n_bits)
        bits = np.unpackbits(records, axis=1)[:, : n * size].reshape(len(records), n, size)
        entries = bits @ (1 << np.arange(size)[::-1])
        labels, levels = entries >> 8, entries & 255
        mean, _, room = self.spread
        values = self.curves.of_log_odds(mean[labels] + levels / 255 * room[labels], labels)
        rough, found = np.take_along_axis(probabilities, labels, axis=1), probabilities.copy()
        np.put_along_axis(found, labels, np.where(levels > 0, values, rough).astype(np.float32), axis=1)
        return found

    def project(self, features: Features, modality: str, workers: Workers) -> Singles:
        found = self.curves(self.scores.project(features, modality, workers))
        return found if self.first is None else self.mixed(found, self.first[0].project(features, modality, workers))

    def mixed(self, probabilities: Singles, of_first: Singles) -> Singles:
        """Return the probabilities of points, mixed with those of the first function if there is one."""
        if self.first is None:
            return probabilities
        found, columns = probabilities.copy(), self.first[1]
        found[:, columns] = _sigmoid((log_odds(found[:, columns]) + log_odds(of_first)) / 2)
        if self.curves.exclusive:
            found /= np.maximum(found.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
        return found

    def to_arrays(self) -> dict[str, Array]:
        kind = HashFunction._registry.kind_of(type(self.scores))
        arrays = {f"scores/{name}": array for name, array in self.scores.to_arrays().items()}
        if self.first is not None:
            function, columns = self.first
            arrays |= {f"first/{name}": array for name, array in function.to_arrays().items()}
            arrays["first_columns"] = columns
        about = {"kind": np.frombuffer(kind.encode(), np.uint8)}
        return self.curves.to_arrays() | arrays | about | {"spread": self.spread}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> LabelFunction:
        kind = check_array(arrays, "kind", np.uint8, (None,)).tobytes().decode()
        scores = HashFunction._registry.find(kind).from_arrays(with_prefix(arrays, "scores/"))
        spread = check_array(arrays, "spread", np.float64, (3, scores.n_bits))
        if spread[1:].min() <= 0:
            raise ValueError("the deviations of its label probabilities must be positive")
        first = None
        if "first_columns" in arrays:
            function = cls.from_arrays(with_prefix(arrays, "first/"))
            columns = check_array(arrays, "first_columns", np.int64, (function.n_bits,))
            numbers = {*columns.tolist()}
            if function.n_features != scores.n_features or not numbers <= {*range(scores.n_bits)}:
                raise ValueError("the first predictions of its labels do not match its features or labels")
            first = function, columns
        return cls(scores, LabelCurves.from_arrays(arrays, scores.n_bits), spread, first)


@dataclass(frozen=True)
class Fusion:
    """Probabilities from several modalities: log-odds of the prior, plus weighted log-odds ratios of the modalities."""

    weights: tuple[float, ...]
    bias: float

    def __call__(self, probabilities: Sequence[Singles], prior: Floats) -> Singles:
        from scipy.special import expit  # here, because opening a collection must not load it

        base, found = log_odds(prior), np.empty(probabilities[0].shape, np.float32)
        start = self.bias + base * (1 - sum(self.weights))
        for at in range(0, len(found), _BLOCK_ROWS):
            block = slice(at, at + _BLOCK_ROWS)
            parts = zip(self.weights, probabilities, strict=True)
            found[block] = expit(sum((weight * log_odds(each[block]) for weight, each in parts), start))
        return found


@dataclass(frozen=True)
class LabelPredictor:
    """Label probabilities of points, from one modality or several.

    names: Names of the labels; None if they are the columns of an indicator matrix.
    fusions: Functions that combine two or more modalities, by the modalities' names in the order of the method.
    """

    names: tuple[Any, ...] | None
    functions: dict[str, LabelFunction]
    fusions: dict[tuple[str, ...], Fusion]

    @property
    def exclusive(self) -> bool:
        """Whether every training point has exactly one label."""
        return all(function.curves.exclusive for function in self.functions.values())

    @property
    def prior(self) -> Floats:
        """Share of the points with each label."""
        return next(iter(self.functions.values())).curves.prior

    def fuse(self, probabilities: Mapping[str, Singles]) -> Singles:
        """Combine the probabilities of one or several modalities into one per point and label."""
        names = tuple(name for name in self.functions if name in probabilities)
        if len(names) == 1:
            return probabilities[names[0]]
        fused = self.fusion(names)([probabilities[name] for name in names], self.prior)
        return fused / np.maximum(fused.sum(axis=1, keepdims=True), np.float32(1e-30)) if self.exclusive else fused

    def fusion(self, names: tuple[str, ...]) -> Fusion:
        """Return the fusion of some modalities; if it was not fitted, with their weights in the fusion of all."""
        if names in self.fusions:
            return self.fusions[names]
        whole = self.fusions[tuple(self.functions)]
        weights = zip(self.functions, whole.weights, strict=True)
        return Fusion(tuple(weight for name, weight in weights if name in names), whole.bias)


@dataclass(frozen=True)
class LabelModel(LabelPredictor):
    """Label probabilities of a fitted method, and rankings by them.

    weights, lifts: Weights of the labels, and weight of the lift for each match: `redundancy_weights`, `label_scores`.
    matches: Functions from scores to probabilities; None until they are fitted.
    """

    weights: Floats
    quantizer: LabelQuantizer
    lifts: dict[Match, float]
    matches: MatchCurves | None

    @property
    def n_labels(self) -> int:
        return len(self.weights)

    def grown(
        self, names: tuple[Any, ...] | None, scores: Mapping[str, HashFunction], shares: Mapping[str, Floats]
    ) -> LabelModel:
        """Return the model with new scores, and with new labels after the existing ones.

        Curves stay as they were. A new label has its share of the points as probability.
        """
        more = next(iter(scores.values())).n_bits - self.n_labels
        functions = {}
        for name, old in self.functions.items():
            spread = np.pad(old.spread, ((0, 0), (0, more)), constant_values=1.0)
            functions[name] = LabelFunction(scores[name], old.curves.extended(shares[name]), spread, old.first)
        weights = np.pad(self.weights, (0, more), constant_values=1.0)
        new = next(iter(shares.values()))[self.n_labels :]
        return replace(self, names=names, weights=weights, functions=functions, quantizer=self.quantizer.extended(new))

    def without_lifts(self) -> LabelModel:
        """Return the model with scores for independent labels, see `probability_of`."""
        return replace(self, lifts=dict.fromkeys(MATCHES, 0.0))

    def terms(self, queries: Singles, items: Singles, match: Match, labels: Any = slice(None)) -> Singles:
        """Return the terms of scores, by query, item and label of ``items``: shape (queries, items, labels)."""
        how: dict[str, Any] = {"exclusive": self.exclusive, "prior": self.prior[labels], "lift": self.lifts[match]}
        return label_scores(queries[:, labels], items, self.weights[labels], match, **how)

    def tables(self, probabilities: Singles, match: Match) -> Singles:
        """Return score tables of queries, shape (queries, n_bytes, 256)."""
        order, lift = self.quantizer.order, self.lifts[match]
        items = self.quantizer.centroids[:, order] ** 2
        tables = np.zeros((len(probabilities), n_bytes(self.quantizer.n_bits), N_CENTROIDS), np.float32)
        how = self.weights[order], match, self.quantizer.parts
        tables[:, : self.quantizer.n_groups] = score_tables(
            probabilities[:, order], items, *how, exclusive=self.exclusive
        )
        return tables + np.float32(lift) * self.lift_tables(probabilities, match) if lift else tables

    def lift_tables(self, probabilities: Singles, match: Match) -> Singles:
        """Return the part of score tables that a lift multiplies, which is linear in the items' probabilities."""
        order = self.quantizer.order
        items = self.quantizer.centroids[:, order] ** 2
        beyond = (probabilities - self.prior.astype(np.float32))[:, order]
        if not self.exclusive:
            beyond *= self.weights[order].astype(np.float32)
        tables = np.zeros((len(probabilities), n_bytes(self.quantizer.n_bits), N_CENTROIDS), np.float32)
        for number, labels in enumerate(self.quantizer.parts):
            tables[:, number] = beyond[:, labels] @ items[:, labels].T
            if match == "all" and not self.exclusive:
                tables[:, number] -= np.maximum(beyond[:, labels], 0).sum(axis=1, keepdims=True)
        return tables

    def encode(self, probabilities: npt.NDArray[np.floating]) -> Codes:
        """Return the bytes in which the probabilities of items are stored, shape (n, n_bytes)."""
        return self.quantizer.encode(probabilities)

    def encode_suggested(self, modality: str, probabilities: Singles) -> Codes:
        """Return a modality's probabilities in bytes, followed by their records, shape (n, 2 n_bytes)."""
        records = self.functions[modality].record(probabilities, self.quantizer.n_bits)
        return np.hstack([self.encode(probabilities), records])

    def decode_suggested(self, modality: str, codes: Codes) -> Singles:
        """Return the probabilities that `encode_suggested` stored, shape (n, n_labels)."""
        rough, records = np.split(codes, 2, axis=1)
        return self.functions[modality].read_record(records, self.quantizer.n_bits, self.quantizer.decode(rough))

    def to_parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return the configuration and the arrays to save."""
        config = {
            "names": None if self.names is None else list(self.names),
            "n_labels": self.n_labels,
            "lifts": [self.lifts[match] for match in MATCHES],
            "fusions": [
                {"modalities": list(names), "weights": list(fusion.weights), "bias": fusion.bias}
                for names, fusion in self.fusions.items()
            ],
        }
        assert self.matches is not None
        arrays: dict[str, Array] = {"weights": self.weights, "matches": self.matches.parameters}
        arrays |= self.quantizer.to_arrays()
        for name, function in self.functions.items():
            arrays |= {f"of/{name}/{key}": array for key, array in function.to_arrays().items()}
        return config, arrays

    @classmethod
    def from_parts(
        cls, config: dict[str, Any], arrays: Mapping[str, Array], n_features: Mapping[str, int], n_bits: int
    ) -> LabelModel:
        """Restore a model from `to_parts`; raise ValueError for any part that is invalid."""
        names, n_labels = config["names"], config["n_labels"]
        if type(n_labels) is not int or not 1 <= n_labels < 2**31:
            raise ValueError("the number of its labels is missing or out of range")
        if names is not None and not are_label_names(names, n_labels):
            raise ValueError(f"its label names must be {n_labels} distinct strings or numbers")
        functions = {name: LabelFunction.from_arrays(with_prefix(arrays, f"of/{name}/")) for name in n_features}
        for name, width in n_features.items():
            if (functions[name].n_features, functions[name].n_bits) != (width, n_labels):
                raise ValueError("its label probabilities do not match its features or labels")
        fusions = {}
        for entry in config["fusions"]:
            combined = tuple(entry["modalities"])
            numbers = [*entry["weights"], entry["bias"]]
            if len(numbers) != len(combined) + 1 or not all(isinstance(n, float) and abs(n) < 1e6 for n in numbers):
                raise ValueError("the weights of its combined probabilities must be finite numbers")
            fusions[combined] = Fusion(tuple(numbers[:-1]), numbers[-1])
        if set(fusions) != set(combinations(tuple(n_features))):
            raise ValueError("its combined probabilities do not match its modalities")
        weights = check_array(arrays, "weights", np.float64, (n_labels,))
        if not (weights > 0).all():
            raise ValueError("its label weights must be positive")
        lifts = config["lifts"]
        if not isinstance(lifts, list) or not all(isinstance(each, float) and 0 <= each < 1e6 for each in lifts):
            raise ValueError("its score lifts must be finite numbers")
        names = None if names is None else tuple(names)
        quantizer = LabelQuantizer.from_arrays(arrays, n_labels, n_bits)
        matches = MatchCurves.from_arrays(arrays, sources(tuple(n_features)))
        return cls(names, functions, fusions, weights, quantizer, dict(zip(MATCHES, lifts, strict=True)), matches)


def combinations(modalities: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the subsets of two or more modalities to fit: all or, with many modalities, only the full set."""
    n = len(modalities)
    sizes = range(2, n + 1) if n <= _MAX_MODALITIES else (n,)
    return [names for size in sizes for names in itertools.combinations(modalities, size)]


def sources(modalities: Sequence[str]) -> tuple[Source, ...]:
    """Return the possible sources of label probabilities: one modality, several, or known labels."""
    return (*((name,) for name in modalities), *combinations(modalities), ())


def log_odds(probabilities: npt.NDArray[np.floating]) -> Floats:
    clipped = np.clip(np.asarray(probabilities, np.float64), _SMALLEST, 1 - _SMALLEST)
    return np.log(clipped / (1 - clipped))
