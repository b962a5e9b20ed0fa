"""The hot loops, compiled by Numba. `dlfh._reference` says in plain NumPy what each one computes.

Codes are packed as by `numpy.packbits`, in rows of whole 64-bit words: a byte view addresses single
bits, a word view of the same memory serves XOR and popcount, which do not care about the order of
bits. All sums that decide a bit are sums of integers, so they are exact: the order of rows, blocks,
columns and threads cannot change a code.
"""

from dlfh._kernels.factors import (
    ONE,
    count_observed_pairs,
    count_pairs,
    update_observed_rows,
    update_rows,
    update_shared_rows,
)
from dlfh._kernels.labels import invert_lists, shared_labels
from dlfh._kernels.linear import add_sparse_gram, finish_products, pack_signs, sparse_products, sum_rows_by_group
from dlfh._kernels.ranking import hamming_block, rank_by_distance, rank_by_score, reorder, sum_precisions
from dlfh._kernels.search import nearest_by_weight, weigh_candidates, within_radius
from dlfh._kernels.similarity import pull_and_push, update_latent_bits
from dlfh._kernels.strings import find_strings, gather_strings, hash_strings

__all__ = [
    "ONE",
    "add_sparse_gram",
    "count_observed_pairs",
    "count_pairs",
    "find_strings",
    "finish_products",
    "gather_strings",
    "hamming_block",
    "hash_strings",
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
    "update_latent_bits",
    "update_observed_rows",
    "update_rows",
    "update_shared_rows",
    "weigh_candidates",
    "within_radius",
]
