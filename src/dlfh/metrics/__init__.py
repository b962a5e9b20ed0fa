"""Retrieval measures over Hamming or asymmetric rankings, exact about ties.

`evaluate` ranks once and returns every measure asked for; the other functions are one measure each. All take
queries, a database and what is relevant to what:

- ``queries``: packed codes (uint8), ranked by Hamming distance; or real projections (float, one
  column per bit), ranked by falling inner product with the database's +-1 codes (*asymmetric*).
- ``database``: packed codes.
- ``query_labels`` and ``database_labels``: an item is relevant if it shares at least one label with
  the query; any form that ``fit`` takes. Or ``relevance``: a matrix of shape (queries, items), dense
  or sparse, positive where relevant.

**Measures** are objects, or their names: ``AP @ 50`` or ``"AP@50"``.

- ``AP``: average precision, whose mean is MAP. ``AP(normalize="possible")`` with a cut divides by the most relevant
  items that could have been found, instead of those that were.
- ``P``, ``R``: precision and recall. ``P`` without a cut is the share of relevant items: what a random order gets.
  ``P(match="all")`` counts items with the query's labels, all of them and no others.
- ``nDCG``: normalised discounted cumulative gain, graded by the number of shared labels; ``nDCG(gain="linear")``.
- ``PR``: the precision-recall curve along the ranking; ``PR(ranks=(1, 10))``, or up to a cut.
- ``PRH``: the same by Hamming radius; its cut is the largest radius.

**The cut is k**, a rank: ``AP@k`` looks at the first k items. Without it the whole database is ranked. A k beyond the
database is an InputError, for every measure: here every item is ranked, so that there are fewer than k means that the
question was meant for another database, and an AP@5000 over 1,000 items would stand beside published ones without
being one.

**Ties.** With short codes most items tie. ``ties="order"`` ranks them in database order (a stable
sort, as MATLAB's); ``ties="expected"`` gives the exact expectation over all orders of tied items.

**Queries without a relevant item** count as 0 in every mean and stay in its denominator, as in the
paper's protocol; ``empty="skip"`` leaves them out.
"""

from dlfh.metrics.evaluation import Evaluation, evaluate
from dlfh.metrics.functions import (
    average_precisions,
    mean_average_precision,
    ndcg,
    precision_at,
    precision_recall_by_radius,
    precision_recall_by_rank,
    recall_at,
)
from dlfh.metrics.measures import AP, PR, PRH, P, R, measure, nDCG

__all__ = [
    "AP",
    "PR",
    "PRH",
    "Evaluation",
    "P",
    "R",
    "average_precisions",
    "evaluate",
    "mean_average_precision",
    "measure",
    "nDCG",
    "ndcg",
    "precision_at",
    "precision_recall_by_radius",
    "precision_recall_by_rank",
    "recall_at",
]
