"""The hot loops, compiled by Numba; `tests/kernels` compares each with a plain NumPy version.

Codes are packed in `numpy.packbits` order, in rows of whole 64-bit words: a byte view addresses single bits, and a word
view of the same memory serves XOR and popcount, for which bit order is irrelevant. All sums that decide a bit are sums
of integers and therefore exact: the order of rows, blocks, columns and threads cannot change a code.

Modules, and with them Numba, are imported when one of their kernels is first used.
"""

from dlfh._imports import import_on_demand

#: The number 1 in fixed-point arithmetic, which adds exactly; sums over all weighted columns fit in 64 bits.
ONE = 1 << 22
#: Names of the kernels in each module.
MODULES = {
    "curves": "fit_curves",
    "factors": "count_observed_pairs count_pairs update_observed_rows update_rows update_shared_rows",
    "labels": "invert_lists shared_labels",
    "linear": "add_sparse_gram finish_products hinge_curvatures hinge_losses nearest_centroids sparse_products "
    "centre_rows sum_sparse_rows_by_group",
    "ranking": "count_marks hamming_block rank_by_distance rank_by_score reorder sum_precisions",
    "search": "add_tables collect_possible levels_of nearest_by_table nearest_by_weight score_words sum_tables "
    "weigh_candidates within_radius",
    "similarity": "pull_and_push update_anchored_rows update_latent_bits",
    "strings": "find_strings gather_strings hash_strings number_words",
}
#: Names of the kernels that run in NumPy on small inputs.
SMALL_INPUTS = (
    "find_strings finish_products hamming_block hash_strings nearest_by_table nearest_by_weight nearest_centroids "
    "sparse_products sum_tables weigh_candidates within_radius"
)

__getattr__, __dir__ = import_on_demand(__name__, {**MODULES, "small_inputs": SMALL_INPUTS})
