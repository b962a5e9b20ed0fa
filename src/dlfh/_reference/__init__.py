"""What each kernel computes, in plain NumPy: same names, same arguments, same results to the last bit.

Slow, short and easy to check against the paper. Tests compare `dlfh._kernels` with this.
"""

from dlfh._reference.factors import (
    count_observed_pairs,
    count_pairs,
    update_observed_rows,
    update_rows,
    update_shared_rows,
)
from dlfh._reference.labels import equal_labels, invert_lists, shared_labels
from dlfh._reference.linear import (
    add_sparse_gram,
    finish_products,
    hinge_curvatures,
    hinge_losses,
    pack_signs,
    sparse_products,
    sum_rows_by_group,
)
from dlfh._reference.ranking import (
    count_marks,
    hamming_block,
    rank_by_distance,
    rank_by_score,
    reorder,
    sum_precisions,
)
from dlfh._reference.search import nearest_by_weight, weigh_candidates, within_radius
from dlfh._reference.similarity import pull_and_push, update_anchored_rows, update_latent_bits
from dlfh._reference.strings import find_strings, gather_strings, hash_strings

__all__ = [
    "add_sparse_gram",
    "count_marks",
    "count_observed_pairs",
    "count_pairs",
    "equal_labels",
    "find_strings",
    "finish_products",
    "gather_strings",
    "hamming_block",
    "hash_strings",
    "hinge_curvatures",
    "hinge_losses",
    "invert_lists",
    "nearest_by_weight",
    "pack_signs",
    "pull_and_push",
    "rank_by_distance",
    "rank_by_score",
    "reorder",
    "shared_labels",
    "sparse_products",
    "sum_precisions",
    "sum_rows_by_group",
    "update_anchored_rows",
    "update_latent_bits",
    "update_observed_rows",
    "update_rows",
    "update_shared_rows",
    "weigh_candidates",
    "within_radius",
]
