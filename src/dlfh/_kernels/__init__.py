"""The hot loops, compiled by Numba; `dlfh._reference` has the same functions in plain NumPy.

Codes are packed in `numpy.packbits` order, in rows of whole 64-bit words: a byte view addresses single bits, and a word
view of the same memory serves XOR and popcount, for which bit order is irrelevant. All sums that decide a bit are sums
of integers and therefore exact: the order of rows, blocks, columns and threads cannot change a code.

Modules, and with them Numba, are imported when one of their kernels is first used.
"""

from dlfh._kernels.dispatch import SizeDispatch
from dlfh._kernels.fixed_point import ONE
from dlfh._lazy import import_on_demand

__all__ = ["MODULES", "ONE"]

#: Names of the kernels in each module.
MODULES = {
    "curves": "fit_curves",
    "factors": "count_observed_pairs count_pairs update_observed_rows update_rows update_shared_rows",
    "labels": "equal_labels invert_lists shared_labels",
    "linear": "add_sparse_gram finish_products hinge_curvatures hinge_losses sparse_products sum_rows_by_group",
    "ranking": "count_marks fill_byte_tables hamming_block rank_by_distance rank_by_score reorder sum_precisions",
    "search": "nearest_by_table nearest_by_weight weigh_candidates within_radius",
    "similarity": "pull_and_push update_anchored_rows update_latent_bits",
    "strings": "find_strings gather_strings hash_strings",
}

finish_products = SizeDispatch("linear", "finish_products", lambda rows, *others: 2000 + rows.size // 4)
sparse_products = SizeDispatch(
    "linear",
    "sparse_products",
    lambda starts, columns, values, weights, *others: (
        2500 * len(starts) + int(starts[-1] - starts[0]) * weights.shape[1] // 8
    ),
)
hamming_block = SizeDispatch("ranking", "hamming_block", lambda a_words, b_words, _: 2 * len(a_words) * b_words.size)
nearest_by_table = SizeDispatch(
    "search",
    "nearest_by_table",
    lambda tables, blocks, start, stop, *_: len(tables) * (2000 + tables.shape[1] * (stop - start) // 4),
)
nearest_by_weight = SizeDispatch(
    "search",
    "nearest_by_weight",
    lambda query_words, weights, low, high, steps, item_words, start, stop, *_: 4 * weights.size * (stop - start),
)
weigh_candidates = SizeDispatch(
    "search",
    "weigh_candidates",
    lambda query_words, weights, item_words, candidates, *_: 4 * candidates.size * weights.shape[1],
)
within_radius = SizeDispatch("search", "within_radius", lambda query_words, item_words, _: 2 * item_words.size)
find_strings = SizeDispatch("strings", "find_strings", lambda *arguments: 500 * len(arguments[4]))
hash_strings = SizeDispatch("strings", "hash_strings", lambda offsets, blob, hashes: 100 * len(hashes) + 20 * blob.size)

__getattr__, __dir__ = import_on_demand(__name__, MODULES)
