"""Functions that kernels inline; never called from Python."""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic


@intrinsic
def popcount(typing_context, word):
    def codegen(context, builder, signature, arguments):
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def trailing_zeros(typing_context, word):
    def codegen(context, builder, signature, arguments):
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.uint32(types.uint32), codegen


@intrinsic
def byte_at(typing_context, address):
    def codegen(context, builder, signature, arguments):
        return builder.load(builder.inttoptr(arguments[0], ir.IntType(8).as_pointer()))

    return types.uint8(types.uint64), codegen


def _byte_mask(comparison):
    """Return the code of `bytes_at_most` or `bytes_equal`."""

    def codegen(context, builder, signature, arguments):
        number, vector = ir.IntType(32), ir.VectorType(ir.IntType(8), 32)
        values = builder.load(builder.inttoptr(arguments[0], vector.as_pointer()), align=1)
        others = builder.insert_element(ir.Constant(vector, [0] * 32), arguments[1], number(0))
        others = builder.shuffle_vector(others, others, ir.Constant(ir.VectorType(number, 32), [0] * 32))
        return builder.bitcast(builder.icmp_unsigned(comparison, values, others), number)

    return codegen


@intrinsic
def bytes_at_most(typing_context, address, limit):
    """Return a mask of the 32 bytes at an address that are at most ``limit``."""
    return types.uint32(types.uint64, types.uint8), _byte_mask("<=")


@intrinsic
def bytes_equal(typing_context, address, value):
    """Return a mask of the 32 bytes at an address that equal ``value``."""
    return types.uint32(types.uint64, types.uint8), _byte_mask("==")


def _table_sums(store, by_halves=False):
    """Return the code of `sums_at_most` or, if ``store``, of `store_sums` or, if ``by_halves``, `store_half_sums`."""

    def codegen(context, builder, signature, arguments):
        triple, _, features = context.codegen().magic_tuple()
        width, shuffle = 16, None
        if triple.startswith("x86_64") and "+avx2" in features:
            width, shuffle = 32, "llvm.x86.avx2.pshuf.b"
        elif triple.startswith("x86_64") and "+ssse3" in features:
            shuffle = "llvm.x86.ssse3.pshuf.b.128"
        whole = width == 32 and not by_halves and {"+avx512vl", "+avx512vbmi"} <= {*features.split(",")}
        byte, number = ir.IntType(8), ir.IntType(32)
        table_type, vector, places = ir.VectorType(byte, 16), ir.VectorType(byte, width), ir.VectorType(number, width)
        binary = ir.FunctionType(vector, [vector, vector])
        add = cgutils.get_or_insert_function(builder.module, binary, f"llvm.uadd.sat.v{width}i8")

        def splat(value):
            return ir.Constant(vector, [value] * width)

        def look_up(table, index):
            if shuffle is not None:
                return builder.call(cgutils.get_or_insert_function(builder.module, binary, shuffle), [table, index])
            found = splat(0)
            for i in range(width):
                entry = builder.extract_element(table, builder.extract_element(index, number(i)))
                found = builder.insert_element(found, entry, number(i))
            return found

        table_address, code_address, n, last = arguments
        table_pointer = builder.inttoptr(table_address, table_type.as_pointer())
        code_pointer = builder.inttoptr(code_address, vector.as_pointer())
        parts = range(32 // width)
        sums = [cgutils.alloca_once_value(builder, splat(0)) for _ in parts]
        with cgutils.for_range(builder, n) as loop:
            byte_number, index_type, halves = loop.index, loop.index.type, []
            if whole:  # all 32 entries of a table are in one register
                tables = builder.bitcast(table_pointer, vector.as_pointer())
                entries = builder.load(builder.gep(tables, [byte_number]), align=1)
            for half in () if whole else range(2):
                at = builder.add(builder.mul(byte_number, index_type(2)), index_type(half))
                table = builder.load(builder.gep(table_pointer, [at]), align=1)
                halves.append(builder.shuffle_vector(table, table, ir.Constant(places, [*range(16)] * (width // 16))))
            for part in parts:
                at = builder.add(builder.mul(byte_number, index_type(len(parts))), index_type(part))
                code = builder.load(builder.gep(code_pointer, [at]), align=1)
                if whole:  # shifts of words leave bits of the next byte above an index, which are ignored
                    words = ir.VectorType(ir.IntType(16), 16)
                    shifted = builder.lshr(builder.bitcast(code, words), ir.Constant(words, [3] * 16))
                    permute = "llvm.x86.avx512.permvar.qi.256"
                    look_up_all = cgutils.get_or_insert_function(builder.module, binary, permute)
                    found = builder.call(look_up_all, [entries, builder.bitcast(shifted, vector)])
                elif by_halves:
                    indices = [builder.and_(builder.lshr(code, splat(shift)), splat(15)) for shift in (4, 0)]
                    found = builder.call(add, [*map(look_up, halves, indices)])
                else:
                    index = builder.and_(builder.lshr(code, splat(3)), splat(15))
                    low, high = (look_up(table, index) for table in halves)
                    found = builder.select(builder.icmp_signed("<", code, splat(0)), high, low)
                builder.store(builder.call(add, [builder.load(sums[part]), found]), sums[part])

        if store:
            target = builder.inttoptr(last, vector.as_pointer())
            for part in parts:
                builder.store(builder.load(sums[part]), builder.gep(target, [number(part)]), align=1)
            return context.get_dummy_value()
        limits = builder.insert_element(splat(0), last, number(0))
        limits = builder.shuffle_vector(limits, limits, ir.Constant(places, [0] * width))
        mask = number(0)
        for part in parts:
            near = builder.icmp_unsigned("<=", builder.load(sums[part]), limits)
            bits = builder.bitcast(near, ir.IntType(width))
            bits = builder.zext(bits, number) if width < 32 else bits
            mask = builder.or_(mask, builder.shl(bits, number(part * width)))
        return mask

    return codegen


@intrinsic
def sums_at_most(typing_context, tables, codes, n_bytes, limit):
    """Return a mask of the 32 codes whose sums of ``tables[b, byte >> 3]``, saturating at 255, are at most ``limit``.

    ``tables`` and ``codes`` are the addresses of uint8 arrays of shape (n_bytes, 32). Tables of 16 entries fit into a
    vector register, in which most processors look up all bytes of another register at once.
    """
    return types.uint32(types.uint64, types.uint64, types.intp, types.uint8), _table_sums(store=False)


@intrinsic
def store_sums(typing_context, tables, codes, n_bytes, sums):
    """Store the sums of `sums_at_most` at the address ``sums``."""
    return types.void(types.uint64, types.uint64, types.intp, types.uint64), _table_sums(store=True)


@intrinsic
def store_half_sums(typing_context, tables, codes, n_bytes, sums):
    """Store the sums of ``tables[b, byte >> 4] + tables[b, 16 + (byte & 15)]``, as `store_sums` does."""
    return types.void(types.uint64, types.uint64, types.intp, types.uint64), _table_sums(store=True, by_halves=True)


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
    n_whole, one = values.size // 8, np.uint8
    for b in range(n_whole):  # whole bytes compile to vector instructions
        k = 8 * b
        byte = one(values[k] > 0) << 7 | one(values[k + 1] > 0) << 6 | one(values[k + 2] > 0) << 5
        byte |= one(values[k + 3] > 0) << 4 | one(values[k + 4] > 0) << 3 | one(values[k + 5] > 0) << 2
        code[b] = byte | one(values[k + 6] > 0) << 1 | one(values[k + 7] > 0)
    if n_whole < code.size:
        code[n_whole] = 0
        for k in range(8 * n_whole, values.size):
            code[n_whole] |= one(values[k] > 0) << (7 - (k & 7))
