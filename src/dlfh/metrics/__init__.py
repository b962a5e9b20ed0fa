"""Retrieval metrics over Hamming or asymmetric rankings, exact about ties.

Every function takes queries, a database and what is relevant to what:

- ``queries``: packed codes (uint8), ranked by Hamming distance; or real projections (float, one
  column per bit), ranked by falling inner product with the database's +-1 codes (*asymmetric*).
- ``database``: packed codes.
- ``query_labels`` and ``database_labels``: an item is relevant if it shares at least one label with
  the query; any form that ``fit`` takes. Or ``relevance``: a matrix of shape (queries, items), dense
  or sparse, positive where relevant.

**Ties.** With short codes most items tie. ``ties="order"`` ranks them in database order (a stable
sort, as MATLAB's); ``ties="expected"`` gives the exact expectation over all orders of tied items.

**Queries without a relevant item** count as 0 in every mean and stay in its denominator, as in the
paper's protocol; ``empty="skip"`` leaves them out.
"""

from dlfh.metrics._functions import (
    PrecisionRecall,
    average_precisions,
    mean_average_precision,
    ndcg,
    precision_at,
    precision_recall_by_radius,
    precision_recall_by_rank,
    recall_at,
)

__all__ = [
    "PrecisionRecall",
    "average_precisions",
    "mean_average_precision",
    "ndcg",
    "precision_at",
    "precision_recall_by_radius",
    "precision_recall_by_rank",
    "recall_at",
]
