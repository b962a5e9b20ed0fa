"""Functions that kernels inline; never called from Python."""

from __future__ import annotations

from numba import njit, types
from numba.extending import intrinsic


@intrinsic
def popcount(typing_context, word):
    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@njit
def distances_to_all(code, words, distances):
    """Fill ``distances`` with the Hamming distances from one code to all; ``words[w, j]`` is word w of code j."""
    first = code[0]
    for j in range(distances.size):
        distances[j] = popcount(first ^ words[0, j])
    for w in range(1, code.size):
        word = code[w]
        for j in range(distances.size):
            distances[j] += popcount(word ^ words[w, j])


@njit
def count_shared(label_lists, label_set, inverted_lists, shared):
    """Set ``shared[q]`` to the number of labels that a label set shares with member q of the inverted lists."""
    set_starts, set_labels = label_lists
    list_starts, list_members = inverted_lists
    for q in range(shared.size):
        shared[q] = 0
    for p in range(set_starts[label_set], set_starts[label_set + 1]):
        label = set_labels[p]
        for t in range(list_starts[label], list_starts[label + 1]):
            shared[list_members[t]] += 1


@njit
def pack_row(values, code):
    """Pack the signs of ``values`` into a code, in `numpy.packbits` order."""
    n_bits = values.size
    for b in range(code.size):
        byte = 0
        for k in range(8 * b, min(8 * b + 8, n_bits)):
            byte |= (1 if values[k] > 0 else 0) << (7 - (k & 7))
        code[b] = byte
