"""How well queries in one modality find items of another: hold items out, ask with them, measure the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dlfh._validation import check_integer, check_random_state
from dlfh.codes import Codes, pack
from dlfh.collection.calibration_report import CalibrationReport
from dlfh.collection.encoder import Encoder
from dlfh.collection.item_vectors import ItemVectors, Training
from dlfh.collection.label_warnings import warn_of_labels, warn_of_strangers
from dlfh.datasets.items import Items
from dlfh.datasets.problem import LABEL_WORDS
from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.metrics.measures import Measure

__all__ = ["Database", "HeldOut", "RetrievalQuality", "evaluate_queries", "fit_and_evaluate", "hold_out"]


#: With fewer complete, labelled items none are held out unless a user says so; and no more than so many ever.
_LEAST_TO_HOLD_OUT, _MOST_HELD_OUT = 200, 300


@dataclass(frozen=True)
class Database:
    """The labelled items of one modality that queries are to find.

    Attributes
    ----------
    codes : ndarray of uint8 (items, bytes)
    labels : list of list of str
    learned : ndarray of bool (items,)
        Whether an item's code was learned; if not, the hash function made it.
    """

    codes: Codes
    labels: list[list[str]]
    learned: npt.NDArray[np.bool_]

    @property
    def kind(self) -> str:
        """What the codes are: "learned", "hashed", or the share that is learned."""
        share = float(self.learned.mean())
        return {0.0: "hashed", 1.0: "learned"}.get(share, f"{share:.0%} learned")


@dataclass(frozen=True)
class RetrievalQuality:
    """Mean average precision of one direction of search.

    Attributes
    ----------
    query, database : str
        The modalities of queries and database.
    n_queries, n_items : int
    codes : str
        What codes the database has: "learned", "hashed", or what share is learned.
    chance : float
        The share of relevant items: what a random order gets.
    hamming, asymmetric, specific : float
        MAP over the whole database by Hamming distance, by the queries' real values against the codes, and by these
        values less their average; ties in database order.
    ndcg, exact : float
        Of the ranking by real values: nDCG@10, which grades an item by how many labels it shares, and the share of the
        first five items that have the query's labels, all of them and no others. (Of as many as there are.)
    """

    query: str
    database: str
    n_queries: int
    n_items: int
    codes: str
    chance: float
    hamming: float
    asymmetric: float
    specific: float
    ndcg: float
    exact: float


@dataclass(frozen=True)
class HeldOut:
    """An encoder's items, some of them held out to measure with.

    Attributes
    ----------
    queries, database : Items
        Those that were held out, and the others.
    query_vectors, database_vectors : ItemVectors
    training : Training or None
        What the encoder learned from the others; None if it was fitted before.
    qualities : list of RetrievalQuality
        How well the queries find the others by hashed codes; empty if none were held out.
    calibration_reports : list of CalibrationReport
        How far the probabilities of answers can be trusted; empty if the encoder was not calibrated here.
    """

    queries: Items
    database: Items
    query_vectors: ItemVectors
    database_vectors: ItemVectors
    training: Training | None
    qualities: list[RetrievalQuality]
    calibration_reports: list[CalibrationReport]


def hold_out(items: Items, n_queries: int, random_state: int = 0) -> tuple[Items, Items]:
    """Draw labelled items that have every modality, to ask with for the others.

    Parameters
    ----------
    items : Items
    n_queries : int
        How many; half of those that there are at most.
    random_state : int
        The seed of the draw.

    Returns
    -------
    queries, others : Items
    """
    check_integer(n_queries, "hold_out", 0)
    rng = check_random_state(random_state)
    candidates = np.flatnonzero(items.complete())
    if n_queries > len(candidates) // 2:
        raise InputError(
            f"cannot hold out {n_queries} of {len(candidates)} complete, labelled items: half of them at most"
        )
    drawn = np.sort(rng.permutation(candidates)[:n_queries])
    return items.take(drawn), items.take(np.setdiff1d(np.arange(len(items)), drawn))


def fit_and_evaluate(
    encoder: Encoder, items: Items, n_queries: int | None = None, *, fit: bool = True, random_state: int = 0
) -> HeldOut:
    """Fit an encoder to items, some of which are held out, and measure how well these find the others.

    An encoder that is fitted here is calibrated by them, too.

    Parameters
    ----------
    encoder : Encoder
        It is fitted here.
    items : Items
    n_queries : int, optional
        How many complete, labelled items are held out; by default a tenth of them, at most 300, if there are 200 or
        more and the encoder is fitted.
    fit : bool
        Whether to fit the encoder; if not, it was fitted before, to other items.
    random_state : int
        The seed of the draw.

    Returns
    -------
    HeldOut
    """
    if n_queries is None:
        n_queries = default_hold_out(items) if fit else 0
    queries, others = hold_out(items, n_queries, random_state)
    warn_of_labels(others.labels or [])
    training = encoder.fit_items(others) if fit else None
    vectors = encoder.describe(others) if training is None else training.vectors
    query_vectors = encoder.describe(queries)
    qualities: list[RetrievalQuality] = []
    calibration_reports: list[CalibrationReport] = []
    if n_queries:
        qualities = evaluate_queries(
            encoder, queries, query_vectors, hashed_databases(encoder, others, vectors, training)
        )
    if n_queries and training is not None:
        from dlfh.collection.calibrating import calibrate  # searching calibrates nothing

        encoder.calibration_, calibration_reports = calibrate(
            encoder, queries, query_vectors, others, vectors, training, random_state
        )
    return HeldOut(queries, others, query_vectors, vectors, training, qualities, calibration_reports)


def default_hold_out(items: Items) -> int:
    """Return how many items to hold out: a tenth of the complete, labelled ones, if there are many."""
    n_complete = int(items.complete().sum())
    return min(n_complete // 10, _MOST_HELD_OUT) if n_complete >= _LEAST_TO_HOLD_OUT else 0


def hashed_databases(
    encoder: Encoder, items: Items, vectors: ItemVectors, training: Training | None
) -> dict[str, Database]:
    """Return the labelled items of each modality, with the codes of hash functions that did not see them."""
    coded = encoder.encode_items(vectors, None, training)
    databases = {}
    for name in coded.hashed:
        rows = np.flatnonzero(coded.present[name] & items.labelled())
        labels = items.take(rows).labels or []
        databases[name] = Database(coded.hashed[name][rows], labels, np.zeros(len(rows), bool))
    return databases


def evaluate_queries(
    encoder: Encoder, queries: Items, vectors: ItemVectors, databases: Mapping[str, Database]
) -> list[RetrievalQuality]:
    """Ask with each modality of labelled queries for each other one, or for itself if it is alone; measure the answers.

    Parameters
    ----------
    encoder : Encoder
    queries : Items
        Those without labels are not asked with.
    vectors : ItemVectors
        Theirs.
    databases : dict of str to Database

    Returns
    -------
    list of RetrievalQuality
        One for each ordered pair of different modalities; labels that stand for a second one only ask.
    """
    labelled = np.flatnonzero(queries.labelled())
    warn_of_strangers(queries.labels or [], [own for database in databases.values() for own in database.labels])
    qualities = []
    for name in vectors.matrices:
        rows = np.intersect1d(vectors.positions[name], labelled)
        labels = queries.take(rows).labels
        for other, database in databases.items():
            if _is_direction(name, other, encoder.modalities_) and len(rows) and len(database.codes):
                matrix = vectors.take(name, rows)
                qualities.append(_evaluate_direction(encoder, name, matrix, labels, other, database))
    if not qualities:
        raise InputError(
            "there is nothing to measure: no query with labels in one modality meets a labelled item in another"
        )
    return qualities


def _is_direction(query: str, database: str, modalities: tuple[str, ...]) -> bool:
    """Return whether users search so: across modalities, and within one if there is but one beside labels."""
    if LABEL_WORDS not in modalities:
        return query != database
    return database != LABEL_WORDS and (query != database or len(modalities) == 2)


def _evaluate_direction(
    encoder: Encoder, query: str, matrix: Any, query_labels: Any, other: str, database: Database
) -> RetrievalQuality:
    from dlfh.metrics import AP, P, evaluate, nDCG  # searching measures nothing

    def rank(queries: npt.NDArray[Any], *others: Measure) -> Any:
        return evaluate(queries, database.codes, query_labels, database.labels, measures=[AP, P, *others])

    n_items = len(database.codes)
    graded, exact = nDCG @ min(10, n_items), P(match="all") @ min(5, n_items)
    projections = encoder.model_.project(query, matrix)
    by_hamming, by_value = rank(pack(projections)), rank(projections, graded, exact)
    return RetrievalQuality(
        query,
        other,
        by_hamming.n_queries,
        by_hamming.n_items,
        database.kind,
        chance=by_hamming["P"],  # precision over the whole ranking
        hamming=by_hamming["AP"],
        asymmetric=by_value["AP"],
        specific=rank(projections - encoder.mean_code(query))["AP"],
        ndcg=by_value[graded],
        exact=by_value[exact],
    )
