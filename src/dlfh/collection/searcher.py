"""Answer queries: encode them, rank the items of a collection, and return the results."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Array, Codes, Floats, Integers, Mask, Singles
from dlfh._parallel import checkpoint
from dlfh._probabilities.scores import Match
from dlfh._validation import Features, check_features
from dlfh.codes import n_bytes, pack, unpack
from dlfh.collection.calibration.model import (
    LABEL_RANKINGS,
    Calibration,
    content_words,
    explained_words,
    probability,
    query_values,
)
from dlfh.collection.encoder import Encoder
from dlfh.collection.first_results import FirstResults
from dlfh.collection.item_codes import LABELS, hashed_codes, without_contents
from dlfh.collection.query import Query, ResultItem, SearchOptions, SearchResult, labels_of
from dlfh.collection.ranking import EncodedQuery, Ranked, Ranker, SearchSpace, fetch_shortlist, in_memory
from dlfh.collection.understanding import (
    SIMILAR_FILE,
    SYNONYMS_FILE,
    LabelNames,
    Named,
    QueryReader,
    Understanding,
    read_synonyms,
)
from dlfh.collection.words import WordIndexFile, tokens
from dlfh.errors import InputError
from dlfh.features.text import BagOfWords
from dlfh.index import Index
from dlfh.index.where import names_of, parse_where

#: Maximum number of labels in a text to note that no item has all of them: longer texts are not lists of labels.
_MAX_TOGETHER = 8


class Searcher:
    """Answers queries with the items of a collection, whose index has the columns of `dlfh.collection.item_codes`."""

    def __init__(self, encoder: Encoder, index: Index, words: WordIndexFile) -> None:
        self.encoder = encoder
        self.index = index
        self.words = words
        self._in_database = index.address is not None
        self._first_results = FirstResults(encoder, index, words)

    @property
    def calibration(self) -> Calibration:
        return self.encoder.calibration_ or Calibration()

    def search(self, queries: Sequence[Query], options: SearchOptions) -> list[SearchResult]:
        not_ranked = options.radius is not None or any(query.kind == "code" for query in queries)
        if not_ranked and (options.relevant or options.irrelevant):
            raise InputError("marked results are ranked by probability: they take neither a radius nor a code")
        asked = [query if query.also is None else self._with_text(query, options) for query in queries]
        resolved = [self.resolve(query, options) for query in asked]
        self.encode([each for query in asked for each in (query, query.also) if each is not None])
        is_ranked = any(query.kind != "code" for query in queries)
        space = self._local_space(options) if is_ranked and not self._in_database else None
        rankers: dict[str, Ranker] = {}  # shared by the queries of one modality
        by_code: Iterator[SearchResult] | None = None  # all codes are searched at once
        results = []
        for given, query, filled in zip(queries, asked, resolved, strict=True):
            checkpoint()
            if query.kind == "code":
                by_code = by_code or self._nearest([each for each in queries if each.kind == "code"], filled)
                results.append(next(by_code))
                continue
            encoded = self._encoded(query, filled)
            needed = content_words(encoded.text or "", query.named.words)
            here = space or fetch_shortlist(self.index, self.words, encoded, needed, filled)
            ranker = rankers.get(encoded.modality or "")
            if ranker is None:  # min_probability refers to the probabilities shown
                scope = filled if filled.min_probability is None else replace(filled, min_probability=None)
                ranker = Ranker(here.items, self.encoder, encoded.modality, scope, here.matches)
            if space is not None and encoded.modality is not None:
                rankers[encoded.modality] = ranker
            results.append(self._answer(given, encoded, filled, ranker, here))
        return results

    def _with_text(self, query: Query, options: SearchOptions) -> Query:
        """Return a query whose results must also match a text; an item is replaced by its labels and hashed code."""
        if options.radius is not None or query.kind == "code":
            raise InputError("a query with added words is ranked by probability: it takes neither a radius nor a code")
        if query.kind != "id":
            return query
        item, model = self.index.get(query.value), self.encoder.label_model
        (name, code), *_ = hashed_codes(item, self.encoder.searchable_modalities()).items()
        labels = None if model is None else model.quantizer.decode(item.codes[LABELS][None])[0]
        return Query("vector", None, name, also=query.also, projection=self._signs(code), labels=labels)

    # Options

    def resolve(self, query: Query, options: SearchOptions) -> SearchOptions:
        """Return the options with modalities, match and ranking filled in; raise InputError if they do not apply."""
        if not query.has_value:
            return self._resolve_codes_only(query, options)
        if query.kind == "text" and isinstance(query.value, str) and not query.value.strip():
            raise InputError("the text is empty: pass a text to search for")
        modality = self.modality_of(query)
        ranking = options.ranking or self._default_ranking(query.kind, modality, options)
        if ranking in LABEL_RANKINGS and self.encoder.label_model is None:
            raise InputError(f"ranking={ranking!r} needs label probabilities, which the model of this collection lacks")
        if ranking in LABEL_RANKINGS and options.hashed_only:
            raise InputError(f"hashed_only compares codes: use it with the ranking 'asymmetric', not {ranking!r}")
        modalities, match = self._defaults(modality, options)
        if options.min_probability is not None and not self.calibration.is_fitted_for(ranking, modality):
            raise InputError(
                "min_probability needs probabilities, which this collection does not have: build it with held-out items"
            )
        return options.filled_in(modalities, match, ranking)

    def _defaults(self, modality: str, options: SearchOptions) -> tuple[tuple[str, ...], str]:
        """Return the modalities that a query searches, and whether it matches codes, words or both."""
        known, texts, match = self.encoder.searchable_modalities(), self.encoder.text_modalities(), options.match
        if match not in (None, "codes") and modality not in texts:
            raise InputError(f"match={match!r} needs a text, but {modality!r} does not take texts: use match='codes'")
        if options.modalities is not None:
            names = self._named(options.modalities)
        elif match == "words":
            names = texts
        else:
            other = next((name for name in known if name != modality), modality if modality in known else known[0])
            is_text = modality in texts and match != "codes"
            names = self.calibration.modalities.get(modality, known if is_text else (other,))
        has_texts = bool({*names} & {*texts})
        if match not in (None, "codes") and not has_texts:
            raise InputError(f"match={match!r} needs texts, but {', '.join(map(repr, names))} has none")
        default = "both" if has_texts and self.calibration.words.get(modality, modality in texts) else "codes"
        return names, match or default

    def _default_ranking(self, kind: str, modality: str, options: SearchOptions) -> str:
        if self.encoder.label_model is None or options.hashed_only:
            return "asymmetric"
        return self.calibration.rankings.get(modality, "all" if kind == "text" else "any")

    def _resolve_codes_only(self, query: Query, options: SearchOptions) -> SearchOptions:
        """Fill in the options of a query by a code or an item, for which only codes are compared."""
        what = "a code" if query.kind == "code" else "an item of the collection"
        for name, value, allowed in (
            ("ranking", options.ranking, "hamming"),
            ("match", options.match, "codes"),
            ("min_probability", options.min_probability, None),
            ("hashed_only", options.hashed_only, options.hashed_only if query.kind == "id" else False),
            ("radius", options.radius, options.radius if query.kind == "id" else None),
        ):
            if value not in (None, allowed):
                raise InputError(f"a search by {what} does not support {name}={value!r}")
        names = () if options.modalities is None else self._named(options.modalities)
        if options.modalities is None:
            known = self.encoder.searchable_modalities() if query.kind == "code" else self.index.get(query.value).codes
            names = (next(iter(known)),)
        if len(names) != 1:
            raise InputError(f"a search by {what} compares codes of one modality: name one of {names}")
        return options.filled_in(names, "codes", "hamming")

    def _named(self, modalities: str | Sequence[str]) -> tuple[str, ...]:
        """Return the named modalities; for "all", every searchable one."""
        known = self.encoder.modalities_
        names = (modalities,) if isinstance(modalities, str) else tuple(dict.fromkeys(modalities))
        if names == ("all",) and "all" not in known:
            return self.encoder.searchable_modalities()
        for name in names:
            if name not in known:
                raise InputError(f"unknown modality {name!r}: this collection has {', '.join(map(repr, known))}")
        return names

    def default_modality(self, kind: str) -> str | None:
        """Return the modality of texts or images: the one named "text" or "image", or else the first of that kind."""
        names = [name for name, featurizer in self.encoder.featurizers_.items() if featurizer.takes == f"{kind}s"]
        return kind if kind in names else next(iter(names), None)

    def modality_of(self, query: Query) -> str:
        name = query.modality or self.default_modality(query.kind)
        known = ", ".join(map(repr, self.encoder.modalities_))
        if name is None and query.kind == "vector":
            raise InputError(f"the modality of the vector is missing: this collection has {known}")
        if name is None:
            raise InputError(f"this collection cannot be searched by {query.kind}: it has {known}")
        takes = self.encoder.featurizer(name).takes
        if query.kind != "vector" and takes != f"{query.kind}s":
            raise InputError(f"modality {name!r} takes {takes}, got {'a text' if query.kind == 'text' else 'an image'}")
        return name

    # Queries

    @cached_property
    def _reader(self) -> QueryReader:
        encoder = self.encoder
        texts = [encoder.featurizers_[name] for name in encoder.text_modalities()]
        words = {word for each in texts if isinstance(each, BagOfWords) for word in each.vocabulary_}
        labels = () if encoder.label_model is None else encoder.label_model.names or ()
        names = LabelNames([*map(str, labels)], {})
        synonyms, similar = (read_synonyms(self.words.folder, file) for file in (SYNONYMS_FILE, SIMILAR_FILE))
        # Pieces of an unknown word may be known, and so may words of a database that are not loaded yet.
        drops = not self._in_database and all(
            isinstance(each, BagOfWords) and each.analyzer == "word" for each in texts
        )
        known = frozenset(words | names.words)
        features = frozenset(words if len(texts) == 1 and drops else ())
        return QueryReader(known, self.words.contains, names.name_length, synonyms, similar, drops, features)

    def forget_words(self) -> None:
        """Read synonyms again before the next query."""
        self.__dict__.pop("_reader", None)

    def encode(self, queries: Sequence[Query]) -> None:
        """Encode the texts, images and vectors that are not encoded yet, one modality at a time."""
        groups: dict[tuple[str, str], list[Query]] = {}
        for query in queries:
            if query.has_value and query.projection is None:
                groups.setdefault((self.modality_of(query), query.kind), []).append(query)
        for (modality, kind), group in groups.items():
            featurizer = self.encoder.featurizer(modality)
            for query in group if kind == "text" and isinstance(featurizer, BagOfWords) else ():
                if isinstance(query.value, str):  # the featuriser rejects other values
                    understood = Understanding(query.value) if query.literal else self._reader.read(query.value)
                    query.understanding = understood
            values: Any = [query.understanding.text if query.understanding else query.value for query in group]
            if sp.issparse(values[0]):
                values = sp.vstack([value.reshape((1, -1)) for value in values], format="csr")
            if kind == "vector" and featurizer.takes != "vectors":  # already in the form that the featuriser returns
                vectors = check_features(values, modality, featurizer.n_features_)
            else:
                vectors = featurizer.transform(values)
            known = np.diff(vectors.indptr) > 0 if sp.issparse(vectors) else np.ones(len(group), bool)
            projections = self.encoder.project_vectors(modality, vectors)
            labels: Sequence[Singles | None] = [None] * len(group)
            named = [Named()] * len(group)
            if self.encoder.label_model is not None and kind == "text":
                predicted = self.encoder.label_probabilities(modality, vectors)
                labels, named = self.encoder.label_queries(modality, values, predicted)  # type: ignore[assignment]
            elif self.encoder.label_model is not None:
                labels = self.encoder.label_probabilities(modality, vectors)  # type: ignore[assignment]
            for query, *encoded in zip(group, projections, known.tolist(), labels, named, strict=True):
                query.projection, query.is_known, query.labels, query.named = encoded

    def _encoded(self, query: Query, options: SearchOptions) -> EncodedQuery:
        if query.kind == "id":
            return self._encoded_item(query, options)
        modality, ranking = self.modality_of(query), options.ranking or ""
        assert query.projection is not None
        values = query_values(query.projection[None], ranking)[0]
        tie_breakers = dict.fromkeys(self.encoder.modalities_, values)
        labels = query.labels if ranking in LABEL_RANKINGS else None
        code = pack(query.projection[None])[0]
        explained = explained_words(self.calibration.names.get(modality, ""), query.text, query.named.words)
        return EncodedQuery(modality, code, values, tie_breakers, query.text, labels, explained)

    def _encoded_item(self, query: Query, options: SearchOptions) -> EncodedQuery:
        item, (searched,) = self.index.get(query.value), tuple(options.modalities or ())
        hashed = hashed_codes(item, self.encoder.modalities_)
        first = next(iter(hashed))
        codes = hashed if options.hashed_only else item.codes
        code = codes.get(searched, codes[first])
        signs = {name: self._signs(hashed.get(name, hashed[first])) for name in self.encoder.modalities_}
        return EncodedQuery(None, code, self._signs(code), signs)

    def _signs(self, code: Codes) -> Singles:
        return unpack(code[None], self.encoder.n_bits)[0].astype(np.float32)

    # Items

    def _local_space(self, options: SearchOptions) -> SearchSpace:
        candidates: Mask | None = None
        warnings = list[str]()
        if options.ids is not None:
            candidates = np.zeros(len(self.index), bool)
            candidates[self.index.positions(options.ids)] = True
        if options.where is not None:
            matching = self.index.matches(options.where)
            candidates = matching if candidates is None else candidates & matching
            keys = sorted(names_of(parse_where(options.where)))
            empty = [key for key in keys if not self.index.matches({key: {"!=": None}}).any()]
            warnings = [f"the filter names {key!r}, but no item of the collection has a value for it" for key in empty]
        return SearchSpace(self.index, self.words.matches, candidates, warnings)

    def in_memory(self) -> Searcher:
        """Return a searcher that ranks all items, for evaluation; items in a database are copied into memory."""
        if not self._in_database:
            return self
        index = in_memory(self.index.items(), self.index.n_bits, self.index.modalities)
        return Searcher(self.encoder, index, WordIndexFile(index, self.words.modalities, self.words.folder))

    def log_odds(self, modality: str, vectors: Features, texts: Sequence[str] | None) -> tuple[Floats, Mask] | None:
        """Return the log-odds of every item for queries with default options, and a mask of items with learned codes.

        Return None if the collection is not calibrated.
        """
        ranking = self._default_ranking("vector" if texts is None else "text", modality, SearchOptions())
        if not self.calibration.is_fitted_for(ranking, modality):
            return None
        modalities, match = self._defaults(modality, SearchOptions())
        options = SearchOptions(modalities=modalities, match=match, ranking=ranking)
        ranker = Ranker(self.index, self.encoder, modality, options, self.words.matches)
        if texts is None:
            each = [[row] if sp.issparse(vectors) else row for row in range(vectors.shape[0])]
            queries = [Query("vector", vectors[row], modality) for row in each]
        else:
            queries = [Query("text", text, modality, literal=True) for text in texts]
        self.encode(queries)
        encoded = [self._encoded(query, options) for query in queries]
        space, every = self._local_space(options), np.arange(len(self.index))
        log_odds = [
            self._first_results.shown(ranker.log_odds(each), every, query, each, options, space)
            for query, each in zip(queries, encoded, strict=True)
        ]
        learned = np.logical_or.reduce([self.index.states(name)[1] for name in modalities])
        return np.stack(log_odds), learned

    # Results

    def _answer(
        self, query: Query, encoded: EncodedQuery, options: SearchOptions, ranker: Ranker, space: SearchSpace
    ) -> SearchResult:
        text = query.also or query
        candidates, excluded = space.candidates, self._excluded(query, text, space)
        if excluded is not None:
            candidates = ~excluded if candidates is None else candidates & ~excluded
        excludes_only = bool(text.understanding and text.understanding.excluded and not tokens(text.text or ""))
        unknown = [] if excludes_only and query.also else self._unknown_words(text, options)
        if excludes_only and not query.also:
            unknown = ["This text only excludes items: add words to search for"]
        if unknown:  # results would be arbitrary
            candidates = np.zeros(len(space.items), bool)
        is_marked = bool(options.relevant or options.irrelevant)
        if query.also is None and not is_marked:
            ranked = self._first_results.rank(query, encoded, options, ranker, space, candidates)
        else:
            log_odds = ranker.log_odds(encoded)
            log_odds = ties = self._first_results.shown(
                log_odds, np.arange(len(log_odds)), query, encoded, options, space
            )
            if query.also is not None:
                log_odds, ties = self._with_words(log_odds, query.also, options, space)
            if is_marked:
                log_odds = self._with_marks(log_odds, options, space)
            ranked = _best(log_odds, ties, options, candidates)
        searched = tuple(options.modalities or ())
        is_calibrated = self.calibration.is_fitted_for(options.ranking or "", encoded.modality or "")
        confidence = 1.0 if text.understanding is None else text.understanding.confidence
        probabilities: Sequence[float | None] = [None] * len(ranked.positions)
        if is_calibrated:
            shown = ranked.log_odds
            if query.also is None and not is_marked:
                shown = self._first_results.shown(shown, ranked.positions, query, encoded, options, space)
            probabilities = np.minimum.accumulate(confidence * probability(shown)).tolist()
        found = []
        items = list(space.items.items(ranked.positions.tolist()))
        names = [next((name for name in searched if name in item.codes), next(iter(item.codes))) for item in items]
        codes = np.zeros((len(items), len(encoded.code)), np.uint8)
        for row, (item, name) in enumerate(zip(items, names, strict=True)):
            codes[row] = hashed_codes(item, [name])[name] if options.hashed_only else item.codes[name]
        hamming = np.bitwise_count(encoded.code ^ codes).sum(axis=1).tolist()
        distances = _weighted_distances(encoded.values, codes).tolist()
        for row, (item, name) in enumerate(zip(items, names, strict=True)):
            if (probabilities[row] or 0.0) < (options.min_probability or 0.0):
                break
            is_learned = item.states[name] == "learned" and not options.hashed_only
            measured = int(ranked.n_equal[row]), hamming[row], distances[row], is_learned
            metadata = without_contents(item.metadata) or {}
            code = codes[row].tobytes().hex()
            found.append(ResultItem(row + 1, item.id, metadata, probabilities[row], *measured, code))
        warning = "; ".join([*unknown, *space.warnings]) or None
        about = encoded.modality, searched, options.match or "codes", warning, text.understanding
        notes = [*self._notes(text, found)]
        if len(found) < len(ranked.positions):
            n_less, least = len(ranked.positions) - len(found), f"{options.min_probability:.0%}"
            notes.append(f"{n_less} of the first {len(ranked.positions)} results are less probable than {least}")
        if unknown and self._topics:
            notes.append(f"This collection is about {', '.join(self._topics)}")
        return SearchResult(found, encoded.code.tobytes().hex(), *about, tuple(notes))

    @cached_property
    def _topics(self) -> list[str]:
        """The most frequent labels among at most a thousand items."""
        some = itertools.islice(self.index.items(), 1000)
        counts = Counter(label for item in some for label in labels_of(item.metadata or {}))
        return [label for label, _ in counts.most_common(8)]

    def _with_words(
        self, log_odds: Floats, text: Query, options: SearchOptions, space: SearchSpace
    ) -> tuple[Floats, Floats]:
        """Return the log-odds that items match another query, given as log-odds, and a text; and a key for ties."""
        scope = SearchOptions(options.k, hashed_only=options.hashed_only)
        filled = self.resolve(text, scope)
        encoded = self._encoded(text, filled)
        others = np.full(len(log_odds), 700.0)  # a text that only excludes matches with certainty
        if tokens(encoded.text or ""):
            others = Ranker(space.items, self.encoder, encoded.modality, filled, space.matches).log_odds(encoded)
        every = np.arange(len(others))
        product = probability(log_odds) * probability(
            self._first_results.shown(others, every, text, encoded, filled, space)
        )
        with np.errstate(divide="ignore"):
            return np.log(product) - np.log1p(-np.minimum(product, 1 - 1e-16)), log_odds + others

    def _with_marks(self, log_odds: Floats, options: SearchOptions, space: SearchSpace) -> Floats:
        """Return the log-odds of all items after marked ones; items that were marked irrelevant are left out."""
        from dlfh.collection.feedback import similarities, updated  # most searches have no marks

        match: Match = "all" if options.ranking == "all" else "any"
        right, wrong = (dict.fromkeys(names or ()) for names in (options.relevant, options.irrelevant))
        known = {name: self.index.get(name) for name in (*right, *wrong)}
        # An item that lacks one of several labels says little about others: it often has most of them.
        ids = [*right] if match == "all" else [*known]
        marked, relevant = [known[name] for name in ids], np.array([name in right for name in ids], bool)
        stored = in_memory(marked, self.index.n_bits, self.index.modalities)
        covariance = similarities(space.items, self.encoder, marked, match, space.matches)
        among = similarities(stored, self.encoder, marked, match)
        places, is_here = self._places(space.items, ids)
        at_marked = np.zeros(len(ids))  # in a database, marked items may not be on the shortlist
        at_marked[is_here], among[:, is_here] = np.maximum(log_odds[places], -20.0), covariance[:, places]
        changed = updated(log_odds, covariance, at_marked, among, relevant)
        changed[self._places(space.items, [*wrong])[0]] = -np.inf
        return changed

    @staticmethod
    def _places(items: Index, ids: Sequence[str]) -> tuple[Integers, Mask]:
        """Return the positions of the items that an index has, and a mask of their ids."""
        is_here = items.contains(ids)
        return items.positions([name for name, here in zip(ids, is_here, strict=True) if here]), is_here

    def _excluded(self, query: Query, text: Query, space: SearchSpace) -> Mask | None:
        """Return a mask of the query's own item and of items with all labels and words of an excluded term.

        Return None without any.
        """
        asked = text.understanding.excluded if text.understanding is not None else ()
        is_item = query.kind == "id" and query.value in space.items
        if not asked and not is_item:
            return None
        excluded, model = np.zeros(len(space.items), bool), self.encoder.label_model
        if is_item:
            excluded[space.items.positions([query.value])] = True
        for term in asked:
            names = [] if model is None else [*self.encoder.label_names(self.modality_of(text))[0].find(term)]
            words = content_words(term, frozenset(word for named, _ in names for word in named))
            positions = self._first_results.with_words(words, space) if words else np.arange(len(excluded))
            has_labels = self._first_results.with_labels([numbers for _, numbers in names], positions, space)
            excluded[positions[has_labels & bool(names or words)]] = True
        return excluded

    def _notes(self, query: Query, found: Sequence[ResultItem]) -> Iterator[str]:
        """Yield notes on how a text was understood, and a note if no item has all of its labels."""
        if query.understanding is not None:
            yield from query.understanding.sentences()
        model = self.encoder.label_model
        if model is None or not found:
            return
        names = [*dict.fromkeys(str((model.names or ())[labels[0]]) for labels in query.named.labels)]
        if not 2 <= len(names) <= _MAX_TOGETHER:
            return
        of_words = {*self.encoder.word_labels_.values()}  # filters know labels only
        if {*names} <= {*found[0].labels} or {*names} & of_words:
            return
        every: dict[str, Any] = {"and": [{"labels": name} for name in names]}
        if not self.index.matches(every).any():
            counts = ", ".join(f"{int(self.index.matches({'labels': name}).sum()):,} {name}" for name in names)
            yield f"No item has the labels {' and '.join(names)} together ({counts}). Showing the closest items"

    def _nearest(self, queries: Sequence[Query], options: SearchOptions) -> Iterator[SearchResult]:
        """Yield the items whose codes are nearest to each code; ties are in insertion order."""
        (modality,) = tuple(options.modalities or ())
        codes = np.stack([self._code(query) for query in queries])
        hits = self.index.search(modality, codes, options.k, ids=options.ids, where=options.where, n_jobs=1)
        for query, distances, learned, positions in zip(
            queries, hits.distances, hits.learned, hits.positions.tolist(), strict=True
        ):
            is_all = len(distances) < options.k  # otherwise further items may tie with the last one
            found = []
            for row, item in enumerate(self.index.items(positions)):
                distance, code = int(distances[row]), item.codes[modality].tobytes().hex()
                n_equal = int(np.count_nonzero(distances == distance)) if is_all or distance < distances[-1] else None
                about = None, n_equal, distance, float(distance), bool(learned[row]), code
                found.append(ResultItem(row + 1, item.id, without_contents(item.metadata) or {}, *about))
            yield SearchResult(found, query.value.lower(), modalities=(modality,))

    def _code(self, query: Query) -> Codes:
        n_bits = self.index.n_bits
        code = np.frombuffer(bytes.fromhex(query.value), np.uint8)
        if len(code) != n_bytes(n_bits) or (n_bits % 8 and code[-1] & (0xFF >> n_bits % 8)):
            raise InputError(
                f"a code of {n_bits} bits must have {2 * n_bytes(n_bits)} hexadecimal digits, with unused bits 0"
            )
        return code

    def _unknown_words(self, query: Query, options: SearchOptions) -> list[str]:
        """Return a warning if the model knows no word of a text and, if words are searched, no item contains one."""
        if query.kind != "text" or query.is_known or query.named.words:
            return []
        # A search by codes alone does not need the word index, which is slow to build for a database.
        if self.words.modalities and (options.match != "codes" or not self._in_database):
            if not len(self.words.matches(query.text or "").positions):
                return [f"None of these words occur in the collection: {query.value}"]
            if options.match != "codes":
                return []
        return [f"None of these words occur in the texts that the model learned from: {query.value}"]


def _best(log_odds: Floats, ties: Floats, options: SearchOptions, candidates: Mask | None) -> Ranked:
    """Return the most probable candidates; equally probable ones by ``ties``."""
    eligible = np.isfinite(log_odds) & (probability(log_odds) >= (options.min_probability or 0.0))
    positions = np.flatnonzero(eligible if candidates is None else candidates & eligible)
    values = log_odds[positions]
    order = np.lexsort((positions, -ties[positions], -values))[: options.k]
    n_equal = np.count_nonzero(values[order][:, None] == values, axis=1)
    return Ranked(positions[order], values[order], n_equal)


def _weighted_distances(values: Array, codes: Codes) -> Floats:
    """Return, for each code, the sum of the absolute values whose signs differ from the code's bits."""
    differs = (values > 0) != (unpack(codes, len(values)) > 0)
    return np.where(differs, np.abs(values.astype(np.float64)), 0.0).sum(axis=1)
