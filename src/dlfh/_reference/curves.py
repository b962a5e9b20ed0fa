"""Logistic curves of many labels, each with its own slope and intercept."""

from __future__ import annotations

import numpy as np
import scipy.optimize
from scipy.special import expit


def fit_curves(scores, starts, positives, slopes, intercepts, pull_to, penalty, start, stop):
    for label in range(start, stop):
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
