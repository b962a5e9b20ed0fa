"""Logistic curves of many labels, each with its own slope and intercept."""

from __future__ import annotations

import numpy as np

from dlfh._compile import Kernel

#: Newton steps; a step that does not lower the loss is halved instead.
_MAX_STEPS = 60


@Kernel
def fit_curves(scores, starts, positives, slopes, intercepts, pull_to, penalty, start, stop):
    """Fit sigma(slope z + intercept) to each label's scores by Newton's method, from the given slopes and intercepts.

    Minimises the log loss plus ``penalty / 2 (slope - pull_to)^2``. Row l of ``scores`` has the scores of all points
    for label l, of which the points ``positives[starts[l]:starts[l + 1]]``, ascending, have the label.
    """
    n = scores.shape[1]
    for label in range(start, stop):
        a, b = slopes[label], intercepts[label]
        step_a, step_b = 0.0, 0.0
        before = np.inf
        for _ in range(_MAX_STEPS):
            loss = 0.5 * penalty * (a - pull_to) ** 2
            gradient_a, gradient_b = penalty * (a - pull_to), 0.0
            aa, ab, bb = penalty, 0.0, 0.0
            place, end = starts[label], starts[label + 1]
            for i in range(n):
                z = np.float64(scores[label, i])
                x = a * z + b
                small = np.exp(-abs(x))
                p = 1 / (1 + small) if x >= 0 else small / (1 + small)
                is_positive = place < end and positives[place] == i
                place += 1 if is_positive else 0
                loss += np.log1p(small) + (max(x, 0.0) - (x if is_positive else 0.0))
                error = p - (1.0 if is_positive else 0.0)
                weight = p * (1 - p)
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
