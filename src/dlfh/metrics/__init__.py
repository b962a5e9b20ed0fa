"""Retrieval measures for Hamming and asymmetric rankings, with exact treatment of ties.

`evaluate` ranks the database once per query and returns any number of measures; `mean_average_precision` returns the
one that papers report. Both take:

- ``queries``: packed codes (uint8), ranked by Hamming distance; or real-valued projections (float, one column per
  bit), ranked by decreasing inner product with the database's +-1 codes (*asymmetric* ranking); or score tables
  (float, shape (queries, bytes, 256)), ranked by the sum of one table entry per byte (by *label probabilities*, see
  `DLFH.score_tables`).
- ``database``: packed codes; for score tables, quantised label probabilities.
- ``query_labels`` and ``database_labels``, in any form that ``fit`` accepts: an item is relevant to a query if they
  share at least one label. Alternatively ``relevance``: a dense or sparse matrix (queries, items), positive where an
  item is relevant.

**Measures** are named, with options in parentheses and a cut-off after ``@``: ``"AP@50"``.

- ``AP``: average precision; its mean over queries is MAP. With a cut-off, ``AP(normalize="possible")`` divides by the
  number of relevant items that could have been retrieved instead of the number that were.
- ``P``, ``R``: precision and recall. ``P`` without a cut-off is the proportion of relevant items, the precision of a
  random ranking. ``P(match="all")`` counts only items whose label set equals the query's.
- ``nDCG``: normalised discounted cumulative gain, graded by the number of shared labels; ``nDCG(gain="linear")``.
- ``PR``: precision-recall curve by rank, up to the cut-off or at given ranks: ``PR(ranks=(1, 10))``.
- ``PRH``: precision-recall curve by Hamming radius; the cut-off is the largest radius.

**The cut-off k** is a rank: ``AP@k`` considers the first k items. Without it, the whole database is ranked. A k larger
than the database raises `InputError`, because an AP@5000 computed over 1,000 items is not comparable with published
values.

**Ties.** With short codes, most items tie. ``ties="order"`` ranks tied items in database order (a stable sort, as in
MATLAB); ``ties="expected"`` returns the exact expectation over all orders of tied items.

**Queries without a relevant item** count as 0 in every mean, as in the paper's protocol; ``empty="skip"`` excludes
them.
"""

from dlfh.metrics.evaluation import evaluate, mean_average_precision

__all__ = ["evaluate", "mean_average_precision"]
