"""How well queries in one modality find items of another: what `dlfh evaluate` says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dlfh.codes import Codes
from dlfh.collection._encoder import Described, Encoder
from dlfh.datasets._items import Items
from dlfh.errors import InputError
from dlfh.metrics import mean_average_precision, precision_at

__all__ = ["Database", "Quality", "measure"]


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
class Quality:
    """Mean average precision of one direction of search.

    Attributes
    ----------
    asked, found : str
        The modalities of queries and database.
    n_queries, n_items : int
    codes : str
        What codes the database has: "learned", "hashed", or what share is learned.
    chance : float
        The share of relevant items: what a random order gets.
    hamming, asymmetric, specific : float
        MAP over the whole database by Hamming distance, by the queries' real values against the codes, and by these
        values less their average; ties in database order.
    """

    asked: str
    found: str
    n_queries: int
    n_items: int
    codes: str
    chance: float
    hamming: float
    asymmetric: float
    specific: float


def measure(
    encoder: Encoder, queries: Items, databases: Mapping[str, Database], *, described: Described | None = None
) -> list[Quality]:
    """Ask with each modality of labelled queries for each other modality, and measure the answers.

    Parameters
    ----------
    encoder : Encoder
    queries : Items
        Those without labels are not asked with.
    databases : dict of str to Database
    described : Described, optional
        The queries' vectors, if they are known.

    Returns
    -------
    list of Quality
        One for each ordered pair of different modalities.
    """
    described = described or encoder.describe(queries)
    labelled = np.flatnonzero(queries.labelled())
    found = []
    for asked in described.features:
        rows = np.intersect1d(described.rows[asked], labelled)
        for modality, database in databases.items():
            if asked != modality and len(rows) and len(database.codes):
                found.append(_measured(encoder, asked, described.take(asked, rows), queries, rows, modality, database))
    if not found:
        raise InputError(
            "there is nothing to measure: no query with labels in one modality meets a labelled item in another"
        )
    return found


def _measured(
    encoder: Encoder, asked: str, features: Any, queries: Items, rows: Any, modality: str, database: Database
) -> Quality:
    labels = (queries.take(rows).labels, database.labels)
    codes, projections = encoder.model.encode(asked, features), encoder.model.project(asked, features)
    return Quality(
        asked,
        modality,
        len(rows),
        len(database.codes),
        database.kind,
        chance=float(precision_at(codes, database.codes, *labels, k=len(database.codes))),
        hamming=float(mean_average_precision(codes, database.codes, *labels)),
        asymmetric=float(mean_average_precision(projections, database.codes, *labels)),
        specific=float(mean_average_precision(projections - encoder.average(asked), database.codes, *labels)),
    )
