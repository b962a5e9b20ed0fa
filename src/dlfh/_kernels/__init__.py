"""The hot loops, compiled by Numba. `dlfh._reference` says in plain NumPy what each one computes.

Codes are packed as by `numpy.packbits`, in rows of whole 64-bit words: a byte view addresses single
bits, a word view of the same memory serves XOR and popcount, which do not care about the order of
bits. All sums that decide a bit are sums of integers, so they are exact: the order of rows, blocks,
columns and threads cannot change a code.

Numba is loaded when a kernel is asked for; those that encode and search wait until there is enough to do.
"""

from dlfh._kernels.fixed_point import ONE
from dlfh._kernels.small import SmallFirst
from dlfh._lazy import import_on_demand

__all__ = [
    "ONE",
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

finish_products = SmallFirst("linear", "finish_products", lambda rows, *_: 10 * rows.size)
pack_signs = SmallFirst("linear", "pack_signs", lambda values, _: values.size)
sparse_products = SmallFirst(
    "linear",
    "sparse_products",
    lambda starts, columns, values, weights, *_: weights.shape[1] * (int(starts[-1] - starts[0]) + 100 * len(starts)),
)
hamming_block = SmallFirst("ranking", "hamming_block", lambda a_words, b_words, _: 8 * len(a_words) * b_words.size)
nearest_by_weight = SmallFirst(
    "search",
    "nearest_by_weight",
    lambda query_words, weights, low, high, steps, item_words, start, stop, *_: weights.size * (stop - start),
)
weigh_candidates = SmallFirst(
    "search",
    "weigh_candidates",
    lambda query_words, weights, item_words, candidates, *_: candidates.size * weights.shape[1],
)
within_radius = SmallFirst("search", "within_radius", lambda query_words, item_words, _: 8 * item_words.size)
find_strings = SmallFirst(
    "strings", "find_strings", lambda sorted_hashes, *others: 50 * len(sorted_hashes) * len(others[3])
)
hash_strings = SmallFirst("strings", "hash_strings", lambda offsets, blob, _: 10 * blob.size)

__getattr__, __dir__ = import_on_demand(
    __name__,
    {
        "factors": "count_observed_pairs count_pairs update_observed_rows update_rows update_shared_rows",
        "labels": "equal_labels invert_lists shared_labels",
        "linear": "add_sparse_gram hinge_curvatures hinge_losses sum_rows_by_group",
        "ranking": "count_marks rank_by_distance rank_by_score reorder sum_precisions",
        "similarity": "pull_and_push update_anchored_rows update_latent_bits",
        "strings": "gather_strings",
    },
)
