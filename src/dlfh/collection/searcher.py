"""From a question to an answer: what asks is described, encoded and compared, and what is found gets its names."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._validation import Features, check_choice, check_flag, check_integer
from dlfh.codes import Codes, hamming_distances, pack, unpack
from dlfh.collection.calibration.model import RANKINGS, Calibration, probability, query_values
from dlfh.collection.columns import hashed_codes
from dlfh.collection.contents import without_contents
from dlfh.collection.encoder import Encoder
from dlfh.collection.queries import is_single
from dlfh.collection.ranking import Options, Query, Ranker
from dlfh.collection.result import ResultItem, SearchResult
from dlfh.collection.words import WordsOfItems
from dlfh.errors import DataWarning, InputError
from dlfh.index import Index
from dlfh.index.where import names_of, parse_where

__all__ = ["How", "Searcher"]


@dataclass(frozen=True)
class How:
    """How a question is asked, as users say it; `Collection.search` says what each is.

    What is served over a network answers no more than ``limit`` items within a radius: where there are others, it says
    so.
    """

    modalities: str | Sequence[str] | None = None
    match: str | None = None
    ranking: str | None = None
    hashed_only: bool = False
    min_probability: float | None = None
    radius: int | None = None
    ids: Sequence[str] | None = None
    where: Mapping[str, Any] | None = None
    limit: int | None = None


class Searcher:
    """Asks the items of an index.

    Parameters
    ----------
    encoder : Encoder
    index : Index
        With the columns of a collection.
    words : WordsOfItems
    """

    def __init__(self, encoder: Encoder, index: Index, words: WordsOfItems) -> None:
        self.encoder = encoder
        self.index = index
        self.words = words
        self._mean_codes: dict[str, npt.NDArray[np.float32]] = {}

    @property
    def calibration(self) -> Calibration:
        return self.encoder.calibration_ or Calibration()

    def search(self, modality: str, values: Any, k: int, how: How) -> Any:
        """Return what a value finds, or a list of what each of several finds."""
        featurizer = self.encoder.featurizer(modality)
        ranking = how.ranking or RANKINGS[0]
        options = self.options(k, how, *self.defaults(modality, how.modalities, how.match), ranking)
        self.check_probable(how, modality)
        single = is_single(values, featurizer.takes)
        batch = [values] if single else values
        if not sp.issparse(batch) and isinstance(batch, Sequence) and not len(batch):
            return []
        vectors = self.encoder.vectors(modality, batch)
        ranker = self.ranker(options)
        texts = batch if featurizer.takes == "texts" else None
        found = [self.answer(ranker, query, options) for query in self.queries(modality, vectors, texts, ranking)]
        self._warn_of_unknown_words(vectors, batch, options)
        return found[0] if single else found

    def log_odds_of_all(
        self, modality: str, vectors: Features, texts: Sequence[str] | None
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.bool_]] | None:
        """Return the log-odds of every item for some queries, asked as by default, and which items have learned codes.

        None if nothing is calibrated.
        """
        if not self.calibration.is_fitted_for(RANKINGS[0], modality):
            return None
        options = self.options(1, How(), *self.defaults(modality, None, None), RANKINGS[0])
        ranker = self.ranker(options)
        log_odds = [ranker.log_odds(query, options) for query in self.queries(modality, vectors, texts, RANKINGS[0])]
        learned = np.logical_or.reduce([self.index.states(name)[1] for name in options.modalities])
        return np.stack(log_odds), learned

    def queries(self, modality: str, vectors: Features, texts: Sequence[str] | None, ranking: str) -> Iterator[Query]:
        """Yield what asks: the codes of vectors, what other codes are compared with, and texts as they are."""
        projections = self.encoder.model_.project(modality, vectors)
        codes, asked = pack(projections), query_values(projections, ranking, self._mean_code(modality, ranking))
        for row, (code, own) in enumerate(zip(codes, asked, strict=True)):
            hashed = dict.fromkeys(self.encoder.modalities_, own)
            yield Query(modality, code, own, hashed, None if texts is None else texts[row])

    def similar(self, identifier: str, k: int, how: How) -> SearchResult:
        """Return the items that are like one of the collection, itself excluded."""
        item = self.index.get(identifier)
        hashed = hashed_codes(item, self.encoder.modalities_)
        first = next(iter(hashed))
        (name,) = self._named(how.modalities or first)
        options = self.options(k, how, (name,), "codes", "hamming")
        codes = hashed if how.hashed_only else item.codes
        code = codes.get(name, codes[first])
        own = {
            other: _signs(hashed.get(other, hashed[first]), self.encoder.n_bits) for other in self.encoder.modalities_
        }
        query = Query(None, code, _signs(code, self.encoder.n_bits), own)
        return self.answer(self.ranker(options), query, self._without(options, identifier))

    def _without(self, options: Options, identifier: str) -> Options:
        """Return the options with an item left out."""
        candidates = np.ones(len(self.index), bool) if options.candidates is None else options.candidates.copy()
        candidates[self.index.positions([identifier])] = False
        return replace(options, candidates=candidates)

    def exact(self) -> Searcher:
        """Return what asks all items, which may be slower than this."""
        return self

    def _named(self, modalities: str | Sequence[str]) -> tuple[str, ...]:
        """Return the modalities that are named, in their order; all for "all"."""
        known = self.encoder.modalities_
        everything = self.encoder.searchable()
        names = (
            everything
            if modalities == "all" and "all" not in known
            else (modalities,)
            if isinstance(modalities, str)
            else tuple(modalities)
        )
        unknown = [name for name in names if name not in known]
        if unknown or not names:
            missing = f"unknown modality {unknown[0]!r}" if unknown else "no modality to search is named"
            raise InputError(f"{missing}: this collection has {', '.join(map(repr, known))}")
        return tuple(dict.fromkeys(names))

    def defaults(
        self, modality: str, modalities: str | Sequence[str] | None, match: str | None
    ) -> tuple[tuple[str, ...], str]:
        """Return which modalities a query searches, and whether by codes or words."""
        known, texts = self.encoder.searchable(), self.encoder.text_modalities()
        if match is not None:
            check_choice(match, "match", ("codes", "words", "both"))
            if match != "codes" and modality not in texts:
                raise InputError(f"words are looked for by texts, and {modality!r} is none: match must be 'codes'")
        other = next((name for name in known if name != modality), modality if modality in known else known[0])
        if modalities is not None:
            names = self._named(modalities)
        elif match == "words":
            names = texts
        else:
            names = self.calibration.modalities.get(modality, (other,) if match != "both" else known)
        heard = bool({*names} & {*texts})
        if match not in (None, "codes") and not heard:
            raise InputError(f"there are no words in {', '.join(map(repr, names))}: search a modality of texts")
        default = "both" if heard and self.calibration.words.get(modality) else "codes"
        return names, match or default

    def options(self, k: int, how: How, modalities: tuple[str, ...], match: str, ranking: str) -> Options:
        """Return how a question is answered, all of it checked."""
        check_integer(k, "k", 1)
        check_choice(ranking, "ranking", RANKINGS)
        check_flag(how.hashed_only, "hashed_only")
        if how.radius is not None:
            check_integer(how.radius, "radius", 0)
        least = how.min_probability
        if least is not None and not (isinstance(least, (int, float)) and 0 < least < 1):
            raise InputError(f"min_probability must be a number between 0 and 1, got {least!r}")
        candidates = self._candidates(how)
        limits = (candidates, least, how.limit, how.ids, how.where)
        return Options(k, modalities, match, ranking, how.hashed_only, how.radius, *limits)

    def _candidates(self, how: How) -> npt.NDArray[np.bool_] | None:
        """Return which items may be found; None if all may."""
        if how.ids is None and how.where is None:
            return None
        candidates = np.ones(len(self.index), bool)
        if how.ids is not None:
            candidates[:] = False
            candidates[self.index.positions(how.ids)] = True
        if how.where is not None:
            candidates &= self.index.matches(how.where)
            for name in names_of(parse_where(how.where)):
                if not self.index.matches({name: {"!=": None}}).any():
                    message = f"where names {name!r}, and no item of the collection has a value there"
                    warnings.warn(message, DataWarning, stacklevel=5)
        return candidates

    def check_probable(self, how: How, modality: str) -> None:
        """Say so if answers are to be probable, and nobody knows how probable they are."""
        if how.min_probability is not None and not self.calibration.is_fitted_for(how.ranking or RANKINGS[0], modality):
            raise InputError("answers of this collection have no probabilities: no items were held out to tell them")

    def ranker(self, options: Options) -> Ranker:
        """Return what ranks the items as they are now."""
        words = None if options.match == "codes" else self.words.now()
        texts = self.encoder.text_modalities()
        return Ranker(self.index, self.encoder.modalities_, texts, self.calibration, words)

    def answer(self, ranker: Ranker, query: Query, options: Options) -> SearchResult:
        """Return what a query finds."""
        ranked = ranker.rank(query, options)
        calibrated = query.modality is not None and self.calibration.is_fitted_for(options.ranking, query.modality)
        chances = probability(ranked.log_odds).tolist() if calibrated else [None] * len(ranked.positions)
        found = []
        for rank, item in enumerate(self.index.items(ranked.positions.tolist())):
            name = next((name for name in options.modalities if name in item.codes), next(iter(item.codes)))
            code = hashed_codes(item, [name])[name] if options.hashed_only else item.codes[name]
            found.append(
                ResultItem(
                    rank + 1,
                    item.id,
                    int(hamming_distances(query.code[None], code[None])[0, 0]),
                    _distance(query.asked, code),
                    item.states[name] == "learned" and not options.hashed_only,
                    without_contents(item.metadata) or {},
                    chances[rank],
                    int(ranked.n_equal[rank]),
                    code.tobytes().hex(),
                )
            )
        return SearchResult(found, query.code.tobytes().hex())

    def unknown(self, vectors: Features, queries: Any, options: Options) -> list[int]:
        """Return the queries that say nothing: texts of words that neither the model nor any item knows."""
        if not sp.issparse(vectors):
            return []
        empty = np.flatnonzero(np.diff(vectors.indptr) == 0).tolist()
        if options.match == "codes":
            return empty
        return [row for row in empty if not self.words.now().coverage(queries[row]).any()]

    def _mean_code(self, modality: str, ranking: str) -> npt.NDArray[np.float32]:
        if ranking != "specific":
            return np.zeros(self.encoder.n_bits, np.float32)
        if modality not in self._mean_codes:
            self._mean_codes[modality] = self.encoder.mean_code(modality)
        return self._mean_codes[modality]

    def _warn_of_unknown_words(self, vectors: Features, queries: Any, options: Options) -> None:
        """Warn of queries that say nothing."""
        empty = self.unknown(vectors, queries, options)
        if len(empty) and isinstance(queries, Sequence):
            others = f" and {len(empty) - 1} more" if len(empty) > 1 else ""
            warnings.warn(
                "no word of the query is known to this model, so the answers say nothing of "
                f"{queries[empty[0]]!r}{others}",
                DataWarning,
                stacklevel=3,
            )


def _signs(code: Codes, n_bits: int) -> npt.NDArray[np.float32]:
    return unpack(code[None], n_bits)[0].astype(np.float32)


def _distance(asked: npt.NDArray[Any], code: Codes) -> float:
    """Return the bits in which a code is not the sign of what asks, weighted by how sure this is of each."""
    differs = (asked > 0) != (unpack(code[None], len(asked))[0] > 0)
    return float(np.abs(asked[differs].astype(np.float64)).sum())
