"""Generated data of the shape of real data sets, for when the originals cannot be had.

Points, dimensions, sparsity, the number of labels, how many a point has and how many different label sets
there are follow the original. What the points look like does not: results on generated data are no results
on the original, and the name of the data says so.
"""

from __future__ import annotations

from collections import Counter

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._validation import check_integer, check_random_state
from dlfh.datasets.descriptions import Description, describe
from dlfh.datasets.generated import generate_images, generate_texts
from dlfh.datasets.paired import Paired
from dlfh.datasets.split import Split

__all__ = ["make_like"]

_NOISE = 2.0
_DRAWS = 65536


def make_like(name: str, n_points: int | None = None, *, random_state: int | None = 0) -> Split:
    """Generate data of the shape of a real data set, split as the original is.

    Labels occur together in kinds of scenes: a point has a scene, and a scene its own chances of each label.

    Parameters
    ----------
    name : str
        "wiki", "mirflickr-25k", "nus-wide" or "iapr-tc12".
    n_points : int, optional
        Queries included; as many as the original by default. Fewer are like a sample of the original.
    random_state : int, optional
        Of the points and of the split.

    Returns
    -------
    Split
        Its name says that it is generated. The database is the training set.

    Examples
    --------
    >>> split = make_like("nus-wide", n_points=2000)
    >>> split.name, len(split.queries), split.train.modalities["text"].shape
    ('NUS-WIDE-shaped (generated)', 20, (1980, 1000))
    """
    description = describe(name)
    n = description.n_points if n_points is None else check_integer(n_points, "n_points", 2)
    rng = check_random_state(random_state)
    sets, set_of_point = _label_sets(rng, description, n)
    labels = sp.csr_array(sets[set_of_point].astype(np.int8))
    image = generate_images(rng, sets, set_of_point, description.widths["image"], _NOISE)
    if description.labels_per_point == 1:
        topics = generate_images(rng, sets, set_of_point, description.widths["text"], _NOISE)
        modalities = {"image": _histograms(image), "text": _proportions(topics)}
        data = Paired(modalities, labels.indices.astype(np.int64) + 1)
    else:
        text = generate_texts(rng, labels, description.widths["text"], description.words_per_text)
        data = Paired({"image": image, "text": text}, labels)
    n_queries = max(1, round(n * description.n_queries / description.n_points))
    notes = (f"generated: of the shape of {description.title}, and otherwise unlike it",)
    train, queries = data.split(n_queries, random_state)
    return Split(f"{description.title}-shaped (generated)", train, queries, train, notes)


def _histograms(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Return shares that add up to 1, some of them 0."""
    counts = np.maximum(values + 1, 0)
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), np.float32(1e-6))


def _proportions(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    weights = np.exp(values - values.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def _label_sets(
    rng: np.random.Generator, description: Description, n_points: int
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]:
    """Return the different label sets, and each point's."""
    if description.labels_per_point == 1:
        sets, counts = np.eye(description.n_labels, dtype=bool), np.ones(description.n_labels)
    else:
        sets, counts = _distinct_sets(rng, description)
    # At full size every set occurs, the others of its points being drawn by how often it turned up.
    n_full = max(n_points, description.n_points)
    further = rng.choice(len(sets), n_full - len(sets), p=counts / counts.sum())
    of_all = np.concatenate([np.arange(len(sets)), further])
    return sets, rng.permutation(of_all)[:n_points]


def _distinct_sets(
    rng: np.random.Generator, description: Description
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64]]:
    """Draw sets until there are as many different ones as there should be, and count how often each turned up."""
    chances = _scenes(rng, description.n_labels, description.labels_per_point)
    found: Counter[bytes] = Counter()
    while len(found) < description.n_label_sets:
        drawn = rng.random((_DRAWS, description.n_labels)) < chances[rng.integers(len(chances), size=_DRAWS)]
        for row in np.packbits(drawn[drawn.any(axis=1)], axis=1):
            found[row.tobytes()] += 1
            if len(found) == description.n_label_sets:
                break
    packed = np.frombuffer(b"".join(found), np.uint8).reshape(len(found), -1)
    sets = np.unpackbits(packed, axis=1, count=description.n_labels).astype(bool)
    return sets, np.array(list(found.values()), np.float64)


def _scenes(rng: np.random.Generator, n_labels: int, labels_per_point: float) -> npt.NDArray[np.float64]:
    """Return each scene's chances of each label, such that points with labels have as many as they should."""
    popularity = -0.7 * np.log(np.arange(1, n_labels + 1))
    logits = popularity + 1.5 * rng.standard_normal((2 * n_labels, n_labels))
    low, high = -20.0, 20.0
    for _ in range(60):  # bisection: more of everything means more labels per point
        shift = (low + high) / 2
        chances = 1 / (1 + np.exp(-(logits + shift)))
        some = 1 - np.prod(1 - chances, axis=1)
        low, high = (shift, high) if chances.sum() / some.sum() < labels_per_point else (low, shift)
    return chances
