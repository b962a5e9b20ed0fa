"""Logistic curves, with one slope and one intercept per label."""

from __future__ import annotations

import numpy as np
from numba import njit

from dlfh._compile import Kernel

_MAX_STEPS = 60  # maximum number of Newton steps, including the halving of steps that do not lower the loss
#: More scores than this are binned, in intervals of 1/16 from -16 to 16, separately with and without the label.
_MAX_SCORES = 1024
_INTERVALS, _PER_UNIT = 512, 16


@njit
def _group(scores, label, positives, place, end, groups):
    """Fill ``groups`` with the size and the mean score of each group, groups of points with the label first.

    Returns the number of groups, and of groups of points with the label.
    """
    n = scores.shape[1]
    sums = np.zeros((2, max(_INTERVALS, n if n <= _MAX_SCORES else 0), 2))
    for i in range(n):
        z = np.float64(scores[label, i])
        is_positive = place < end and positives[place] == i
        place += 1 if is_positive else 0
        interval = i if n <= _MAX_SCORES else np.int64(min(max((z + 16) * _PER_UNIT, 0), _INTERVALS - 1))
        of_interval = sums[0 if is_positive else 1, interval]
        of_interval[0] += 1
        of_interval[1] += z
    found, n_positive = 0, 0
    for kind in range(2):
        for interval in range(sums.shape[1]):
            if sums[kind, interval, 0] > 0:
                groups[found, 0] = sums[kind, interval, 0]
                groups[found, 1] = sums[kind, interval, 1] / sums[kind, interval, 0]
                found += 1
        n_positive = found if kind == 0 else n_positive
    return found, n_positive


@Kernel
def fit_curves(scores, starts, positives, chosen, slopes, intercepts, pull_to, penalty, start, stop):
    """Fit sigma(slope z + intercept) to the scores of labels ``chosen[start:stop]`` by Newton's method.

    ``slopes`` and ``intercepts`` have the starting values of all labels, and are overwritten for these.

    Minimises the log loss plus ``penalty / 2 (slope - pull_to)^2``. Row l of ``scores`` has the scores of all points
    for label l, with mean 0 and standard deviation 1. The points ``positives[starts[l]:starts[l + 1]]``, in ascending
    order, have the label.
    """
    groups = np.empty((2 * max(_INTERVALS, _MAX_SCORES), 2))
    for label in chosen[start:stop]:
        n_groups, n_positive = _group(scores, label, positives, starts[label], starts[label + 1], groups)
        a, b = slopes[label], intercepts[label]
        step_a, step_b = 0.0, 0.0
        before = np.inf
        for _ in range(_MAX_STEPS):
            loss = 0.5 * penalty * (a - pull_to) ** 2
            gradient_a, gradient_b = penalty * (a - pull_to), 0.0
            aa, ab, bb = penalty, 0.0, 0.0
            for group in range(n_groups):
                count, z = groups[group, 0], groups[group, 1]
                x = a * z + b
                small = np.exp(-abs(x))
                p = 1 / (1 + small) if x >= 0 else small / (1 + small)
                is_positive = group < n_positive
                loss += count * (np.log1p(small) + (max(x, 0.0) - (x if is_positive else 0.0)))
                error = count * (p - (1.0 if is_positive else 0.0))
                weight = count * p * (1 - p)
                gradient_a += error * z
                gradient_b += error
                aa += weight * z * z
                ab += weight * z
                bb += weight
            if loss > before + 1e-12 * abs(before):  # overshot: go back half of the step
                step_a, step_b = step_a / 2, step_b / 2
                a, b = a - step_a, b - step_b
                continue
            determinant = aa * bb - ab * ab
            if before - loss <= 1e-9 * abs(loss) or determinant <= 1e-12 * aa * bb:
                break
            before = loss
            step_a = -(bb * gradient_a - ab * gradient_b) / determinant
            step_b = -(aa * gradient_b - ab * gradient_a) / determinant
            a, b = a + step_a, b + step_b
        slopes[label], intercepts[label] = a, b
