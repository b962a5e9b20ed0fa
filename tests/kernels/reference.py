"""The kernels in plain NumPy: same names, same arguments, same results, slow and easy to check against the paper.

`dlfh._kernels.small_inputs` has the others, on which small inputs run.
"""

from __future__ import annotations

import itertools
import re

import numpy as np
import scipy.optimize
import scipy.sparse as sp
from scipy.special import expit

from dlfh._kernels import ONE


def bits(words, n_bits):
    return np.unpackbits(np.ascontiguousarray(words).view(np.uint8), axis=1, count=n_bits)


def label_matrix(starts, labels, n_labels):
    shape = (len(starts) - 1, n_labels)
    return sp.csr_array((np.ones(len(labels), np.int64), labels, starts), shape=shape).toarray()


def members(list_starts, list_members, n_members):
    """Return inverted lists as an indicator matrix (labels, members)."""
    return label_matrix(list_starts, list_members, n_members)


def _flips(tables, S, distances, weights, v, u):
    """Return which rows flip their bits u; S and distances are (rows, columns), weights and bits v are by column."""
    residual_table, curvature_table, kind_weights, unit_threshold, is_exact = tables
    kind = S.astype(np.int64)
    residuals = residual_table.reshape(2, -1)[kind, distances].astype(np.int64)
    gradient = (weights * residuals) @ v
    if is_exact:
        threshold = curvature_table.reshape(2, -1)[kind, distances].astype(np.int64) @ weights
        return -threshold - u * gradient > 0
    n_similar, total = kind @ weights, int(weights.sum())
    bound = (total - n_similar) * kind_weights[0] + n_similar * kind_weights[1]
    threshold = np.ceil(bound * unit_threshold).astype(np.int64) + (total + 1) // 2
    return np.where(gradient + threshold * u >= 0, 1, -1) != u


def _similar(row_sets, label_lists, inverted_lists, n_columns):
    labels = label_matrix(*label_lists, len(inverted_lists[0]) - 1)[row_sets]
    return (labels @ members(*inverted_lists, n_columns)) > 0


def update_rows(
    row_bytes, row_words, row_sets, label_lists, columns, inverted_lists, tables, first_bit, last_bit, start, stop
):
    """Update column by column for all rows at once, as in the paper."""
    _, column_masks, column_weights = columns
    n_bits = column_masks.shape[0]
    U = 2 * bits(row_words[start:stop], n_bits).astype(np.int64) - 1
    V = 2 * column_masks.T.astype(np.int64) + 1
    S = _similar(row_sets[start:stop], label_lists, inverted_lists, len(column_weights))
    flips = 0
    for k in range(first_bit, last_bit):
        flip = _flips(tables, S, (n_bits - U @ V.T) // 2, column_weights.astype(np.int64), V[:, k], U[:, k])
        flips += int(flip.sum())
        U[flip, k] *= -1
    packed = np.packbits(U > 0, axis=1)
    row_bytes[start:stop, : packed.shape[1]] = packed
    return flips


def update_shared_rows(
    row_bytes, row_words, row_sets, row_weights, label_lists, words, masks, inverted_lists, tables, first_bit, last_bit
):
    n_bits, n_rows = masks.shape
    U = 2 * bits(row_words, n_bits).astype(np.int64) - 1
    L = label_matrix(*label_lists, len(inverted_lists[0]) - 1)[row_sets]
    S = L @ L.T > 0
    flips = 0
    for i in range(n_rows):
        others = np.arange(n_rows) != i
        for k in range(first_bit, last_bit):
            distances = (n_bits - U[others] @ U[i]) // 2
            similar = S[i : i + 1, others]
            (flip,) = _flips(tables, similar, distances[None], row_weights[others], U[others, k], U[i, k : k + 1])
            flips += int(flip)
            U[i, k] *= -1 if flip else 1
    packed = np.packbits(U > 0, axis=1)
    row_bytes[:, : packed.shape[1]] = packed
    words[:] = row_words.T
    masks[:] = (U.T - 1) // 2
    return flips


def count_pairs(
    row_words, row_sets, row_weights, label_lists, column_words, column_weights, inverted_lists, n_bits, start, stop
):
    S = _similar(row_sets[start:stop], label_lists, inverted_lists, len(column_weights))
    distances = np.bitwise_count(row_words[start:stop, :, None] ^ column_words).sum(axis=1, dtype=np.int64)
    weights = np.outer(row_weights[start:stop], column_weights)
    counts = np.zeros((2, n_bits + 1), np.int64)
    np.add.at(counts, (S.astype(np.int64), distances), weights)
    return counts


def update_observed_rows(
    row_bytes, row_words, pairs, weights, column_bytes, column_words, tables, first_bit, last_bit, start, stop
):
    starts, columns, similar = pairs
    V = 2 * bits(column_words, 8 * column_bytes.shape[1]).astype(np.int64) - 1
    flips = 0
    for i in range(start, stop):
        row = slice(starts[i], starts[i + 1])
        observed, weight = V[columns[row]], weights[columns[row]].astype(np.int64)
        if weight.sum() == 0:
            continue
        for k in range(first_bit, last_bit):
            u = 2 * np.unpackbits(row_bytes[i]).astype(np.int64) - 1
            distances = np.sum(u != observed, axis=1)
            (flip,) = _flips(tables, similar[None, row] > 0, distances[None], weight, observed[:, k], u[k : k + 1])
            flips += int(flip)
            row_bytes[i, k >> 3] ^= np.uint8(int(flip) << (7 - (k & 7)))
    return flips


def count_observed_pairs(row_words, pairs, column_words, n_bits, start, stop):
    starts, columns, similar = pairs
    counts = np.zeros((2, n_bits + 1), np.int64)
    rows = np.repeat(np.arange(start, stop), np.diff(starts[start : stop + 1]))
    part = slice(starts[start], starts[stop])
    differing = bits(row_words[rows], n_bits) != bits(column_words[columns[part]], n_bits)
    np.add.at(counts, (similar[part], differing.sum(axis=1)), 1)
    return counts


def invert_lists(starts, labels, chosen, n_labels):
    member, label = np.nonzero(label_matrix(starts, labels, n_labels)[chosen])
    order = np.argsort(label, kind="stable")
    list_starts = np.concatenate([[0], np.cumsum(np.bincount(label, minlength=n_labels))])
    return list_starts.astype(np.int64), member[order].astype(np.int32)


def shared_labels(set_of_query, label_lists, inverted_lists, set_of_item, n_sets, limit, shared):
    queries = label_matrix(*label_lists, len(inverted_lists[0]) - 1)[set_of_query]
    counts = queries @ members(*inverted_lists, n_sets)
    shared[:] = np.minimum(counts, limit)[:, set_of_item]


def centre_rows(rows, centre, group_of_row, centred, sums, start_column, stop_column):
    columns = slice(start_column, stop_column)
    centred[:, columns] = rows[:, columns] - centre[columns]
    np.add.at(sums[:, columns], group_of_row, centred[:, columns].astype(np.float64))


def sum_sparse_rows_by_group(starts, columns, values, group_of_row, sums):
    np.add.at(sums, (np.repeat(group_of_row, np.diff(starts)), columns), values.astype(np.float64))


def add_sparse_gram(starts, columns, values, gram):
    matrix = sp.csr_array((values.astype(np.float64), columns, starts), shape=(len(starts) - 1, len(gram)))
    gram += np.triu((matrix.T @ matrix).toarray())


def hinge_losses(values, signs, residuals):
    gaps = np.maximum(1 - values * signs, 0)
    residuals[:] = 2 * gaps * signs
    return np.sum(gaps.astype(np.float64) ** 2, axis=0)


def hinge_curvatures(residuals, changes):
    return 2 * np.sum(np.where(residuals != 0, changes.astype(np.float64), 0) ** 2, axis=0)


def rank_by_distance(query_words, item_words, n_bits, places, sizes):
    for i, query in enumerate(query_words):
        distances = np.bitwise_count(query[:, None] ^ item_words).sum(axis=0, dtype=np.int64)
        places[i, np.argsort(distances, kind="stable")] = np.arange(len(distances))
        sizes[i] = np.bincount(distances, minlength=n_bits + 1)


def rank_by_score(tables, items, places, tied):
    for i, of_query in enumerate(tables):
        scores = np.zeros(len(items), np.float32)
        for table, values in zip(of_query, items.T, strict=True):
            scores += table[values]
        order = np.argsort(-scores, kind="stable")
        places[i, order] = np.arange(len(items))
        tied[i] = np.concatenate([[False], np.diff(scores[order]) == 0])


def reorder(gains, places, ranked):
    np.put_along_axis(ranked, places.astype(np.int64), gains, axis=1)


def count_marks(ranked, stops, found):
    for i, row in enumerate(ranked):
        found[i] = [np.count_nonzero(row[:stop]) for stop in stops[i]]


def sum_precisions(ranked, sizes, items_before, hits_before, depth, found):
    for i, row in enumerate(ranked):
        sums = hits = 0.0
        runs = np.split(row, np.cumsum(sizes[i])[:-1])
        for run, items, before in zip(runs, items_before[i], hits_before[i], strict=True):
            ranks = items + np.flatnonzero(run) + 1
            precisions = (before + np.arange(1, len(ranks) + 1)) / ranks
            sums += precisions[ranks <= depth].sum()
            hits += np.count_nonzero(ranks <= depth)
        found[i] = sums, hits, np.count_nonzero(row)


def pull_and_push(
    products, squared_norms, row_sets, row_weights, label_lists, inverted_lists, unit, first_row, outputs, start, stop
):
    pull, push = outputs
    rows = np.arange(first_row + start, first_row + stop)
    labels = members(*inverted_lists, len(label_lists[0]) - 1).T.astype(np.float64)
    labels /= np.sqrt(np.maximum(labels.sum(axis=1), 1))[:, None]
    p = unit * (labels @ labels.T)[row_sets[rows]][:, row_sets]
    distances = squared_norms[rows, None] + squared_norms - 2 * products[start:stop].astype(np.float64)
    distances = np.maximum(distances, 0)
    distances[np.arange(len(rows)), rows] = 0
    near = 1 / (1 + distances / 4)
    others = np.broadcast_to(row_weights, near.shape).astype(np.float64)
    pull[start:stop], push[start:stop] = others * p * near, others * near**2
    pull[np.arange(start, stop), rows] = push[np.arange(start, stop), rows] = 0
    others[np.arange(len(rows)), rows] -= 1
    pairs = row_weights[rows, None] * others
    return float(np.sum(pairs * near)), float(np.sum(pairs * p * np.log(near)))


def update_latent_bits(
    S, codes, weights, embedded, gram, other_by_bit, row_sets, label_lists, inverted_lists, set_sums, parameters
):
    """Set each bit to the value with the larger log-posterior."""
    precision, link, _, log_prior = parameters
    labels = members(*inverted_lists, len(label_lists[0]) - 1).T
    similar = ((labels @ labels.T) > 0)[row_sets][:, row_sets]
    V = other_by_bit.T.astype(np.float64)

    def log_posterior(i, u):
        others = np.arange(len(codes)) != i
        errors = S[i] - embedded @ u
        own_error = S[i, i] - u @ weights @ u
        intra = -precision / 2 * np.sum(errors[others] ** 2) - precision / 4 * own_error**2
        theta = link * (V @ u)
        return float(intra + np.sum(similar[i] * theta - np.logaddexp(0, theta)))

    flips = 0
    for i in range(len(codes)):
        for k in range(codes.shape[1]):
            plus, minus = codes[i].astype(np.float64), codes[i].astype(np.float64)
            plus[k], minus[k] = 1, -1
            new = 1 if log_prior + log_posterior(i, plus) - log_posterior(i, minus) > 0 else -1
            flips += int(new != codes[i, k])
            codes[i, k] = new
        embedded[i] = codes[i] @ weights
    gram[:] = embedded.T @ embedded
    return flips


def update_anchored_rows(codes, row_sets, similar, anchors_by_bit, sigmas, scale, targets, overlap, start, stop):
    """Update bit by bit for all rows at once, which is equivalent because rows do not interact."""
    n_bits, n_anchors = anchors_by_bit.shape
    B, A = codes[start:stop], anchors_by_bit.astype(np.int64)
    before = B.copy()
    for k in range(n_bits):
        residuals = similar[row_sets[start:stop]].astype(np.int64) * ONE - sigmas[B.astype(np.int64) @ A + n_bits]
        others = np.arange(n_bits) != k
        label_term = targets[start:stop, k] - B[:, others] @ overlap[others, k]
        values = scale * (residuals @ A[k] / ONE) + n_anchors * scale**2 / 4 * B[:, k] + label_term
        B[:, k] = np.where(values >= 0, 1, -1)
    return int(np.count_nonzero(before != B))


def fit_curves(scores, starts, positives, chosen, slopes, intercepts, pull_to, penalty, start, stop):
    for label in chosen[start:stop]:
        z = scores[label].astype(np.float64)
        y = np.zeros(len(z))
        y[positives[starts[label] : starts[label + 1]]] = 1

        def loss(parameters, z=z, y=y):
            a, b = parameters
            x = a * z + b
            error = expit(x) - y
            value = np.logaddexp(0, x).sum() - x @ y + penalty / 2 * (a - pull_to) ** 2
            return value, np.array([error @ z + penalty * (a - pull_to), error.sum()])

        start_at = np.array([slopes[label], intercepts[label]])
        found = scipy.optimize.minimize(loss, start_at, jac=True, method="BFGS", options={"gtol": 1e-6})
        slopes[label], intercepts[label] = found.x


def gather_strings(offsets, blob, rows, new_offsets, new_blob):
    for i, row in enumerate(rows):
        new_blob[new_offsets[i] : new_offsets[i + 1]] = blob[offsets[row] : offsets[row + 1]]


def number_words(offsets, blob, inside):
    number_of, numbers, n_words, firsts, lasts = {}, [], [], [], []
    for start, stop in itertools.pairwise(offsets.tolist()):
        text = "".join("x" if inside[byte] else " " for byte in blob[start:stop])
        places = [match.span() for match in re.finditer("x+", text)]
        for first, last in places:
            word = blob[start + first : start + last].tobytes()
            if word not in number_of:
                firsts.append(start + first)
                lasts.append(start + last)
            numbers.append(number_of.setdefault(word, len(number_of)))
        n_words.append(len(places))
    return tuple(np.array(each, np.int64) for each in (numbers, n_words, firsts, lasts))


def collect_possible(
    blocks, bounds, by_halves, tables, kinds, places, levels, mask, limits, losses, fine_losses, allowed, shift, rows
):
    loss, level = np.zeros(len(kinds)), np.zeros(len(kinds), np.uint8)
    level[places] = levels
    for c, of_term in enumerate(blocks):
        codes = of_term.transpose(0, 2, 1).reshape(-1, of_term.shape[1])[: len(kinds)]
        distances = tables[c][np.arange(codes.shape[1]), codes].sum(axis=1, dtype=np.int64)
        loss += fine_losses[c][kinds, np.minimum(distances >> shift, fine_losses.shape[2] - 1)]
    possible = loss <= allowed[kinds, level]
    found = np.flatnonzero(possible & (mask if len(mask) else True))
    rows[: len(found)] = found
    return len(found)


def score_words(rows, counts, starts, weights, lengths, mean_length, total, found, scores):
    sums = np.zeros(len(lengths))
    for weight, start, stop in zip(weights, starts[:-1], starts[1:], strict=True):
        frequency, of_word = counts[start:stop].astype(np.float64), rows[start:stop]
        shrunk = 1.2 * (1 - 0.75 + 0.75 * lengths[of_word] / mean_length)
        sums[of_word] += weight * ((frequency * (1.2 + 1.0)) / (frequency + shrunk))
    positive = np.flatnonzero(sums > 0)
    found[: len(positive)], scores[: len(positive)] = positive, sums[positive] / total
    return len(positive)


def levels_of(coverage, levels):
    square = coverage * coverage
    levels[:] = np.minimum(255, (127.5 * (2 * square / (1 + square))).astype(np.int64) + 1)


def add_tables(tables, codes, scores):
    scores[:] = sum(tables[byte][codes[:, byte]] for byte in range(codes.shape[1])).T
