"""Generated data: points with planted structure, and data of the same shape as published data sets."""

from __future__ import annotations

from collections import Counter

import numpy as np
import scipy.sparse as sp

from dlfh._arrays import Floats, Integers, Mask, Singles
from dlfh._validation import check_integer, check_positive, check_random_state
from dlfh.datasets.descriptions import Description, describe
from dlfh.datasets.paired import Paired, Split
from dlfh.errors import InputError

_NOISE = 2.0  # standard deviation of image noise in `make_like`
_DRAWS = 65536  # label sets drawn at a time


def make_paired(
    n_points: int = 2000,
    *,
    n_labels: int = 10,
    n_label_sets: int | None = None,
    image_features: int = 64,
    text_features: int = 200,
    words_per_point: float = 7.0,
    noise: float = 2.0,
    random_state: int | None = None,
) -> Paired:
    """Generate images and texts whose content depends on their labels.

    An image is the sum of one random vector per label, plus Gaussian noise. A text draws words from the
    topics of its labels and from a common background. Labels, label sets and words differ in popularity,
    as in real data.

    Parameters
    ----------
    n_points : int
    n_labels : int
        Number of distinct labels.
    n_label_sets : int, optional
        Number of distinct non-empty label sets; by default 3 x ``n_labels``, or fewer if fewer exist.
    image_features, text_features : int
    words_per_point : float
        Average number of words in a text.
    noise : float
        Standard deviation of the image noise; entries of label vectors have standard deviation 1.
    random_state : int, optional
        Random seed.

    Returns
    -------
    Paired
        ``modalities["image"]`` is dense float32, ``modalities["text"]`` a float32 CSR matrix of word counts, and
        ``labels`` a sparse indicator matrix.

    Examples
    --------
    >>> data = make_paired(n_points=100, random_state=0)
    >>> data.modalities["image"].shape, data.modalities["text"].shape, data.labels.shape
    ((100, 64), (100, 200), (100, 10))
    """
    counts = {"n_points": n_points, "n_labels": n_labels}
    for name, value in (counts | {"image_features": image_features, "text_features": text_features}).items():
        check_integer(value, name, 1)
    check_positive(words_per_point, "words_per_point")
    check_positive(noise, "noise", allow_zero=True)
    rng = check_random_state(random_state)
    default_sets = min(3 * n_labels, 2 ** min(n_labels, 40) - 1)
    sets = _random_label_sets(rng, n_labels, default_sets if n_label_sets is None else n_label_sets)
    set_of_point = rng.choice(sets.shape[0], n_points, p=_popularity(sets.shape[0]))
    labels = sp.csr_array(sets[set_of_point].astype(np.int8))
    image = _images(rng, sets, set_of_point, image_features, noise)
    text = _texts(rng, labels, text_features, words_per_point)
    return Paired({"image": image, "text": text}, labels)


def make_like(name: str, n_points: int | None = None, *, random_state: int | None = 0) -> Split:
    """Generate data of the same shape as a published data set, split like the original.

    The content is random, but the numbers of points (unless ``n_points`` is given), features, labels, label sets and
    labels per point, and the sparsity follow the original. Each point belongs to a scene, which has a probability for
    each label, so that labels occur together.
    """
    description = describe(name)
    n = description.n_points if n_points is None else check_integer(n_points, "n_points", 2)
    rng = check_random_state(random_state)
    sets, set_of_point = _label_sets_like(rng, description, n)
    labels = sp.csr_array(sets[set_of_point].astype(np.int8))
    image = _images(rng, sets, set_of_point, description.widths["image"], _NOISE)
    if description.labels_per_point == 1:
        topics = _images(rng, sets, set_of_point, description.widths["text"], _NOISE)
        # Images are histograms with some empty bins; texts are topic proportions.
        counts = np.maximum(image + 1, 0)
        histograms = counts / np.maximum(counts.sum(axis=1, keepdims=True), np.float32(1e-6))
        weights = np.exp(topics - topics.max(axis=1, keepdims=True))
        proportions = weights / weights.sum(axis=1, keepdims=True)
        data = Paired({"image": histograms, "text": proportions}, labels.indices.astype(np.int64) + 1)
    else:
        text = _texts(rng, labels, description.widths["text"], description.words_per_text)
        data = Paired({"image": image, "text": text}, labels)
    n_queries = max(1, round(n * description.n_queries / description.n_points))
    notes = (f"generated: only the shape is that of {description.title}",)
    title = f"{description.title}-shaped (generated)"
    return Split.by_protocol(data, n_queries, random_state=random_state, name=title, notes=notes)


def _popularity(n: int) -> Floats:
    weights = 1 / np.arange(1, n + 1) ** 0.7
    return weights / weights.sum()


def _images(rng: np.random.Generator, sets: Mask, set_of_point: Integers, n_features: int, noise: float) -> Singles:
    vectors = rng.standard_normal((sets.shape[1], n_features))
    image = rng.standard_normal((len(set_of_point), n_features), dtype=np.float32)
    image *= np.float32(noise)
    means = (sets @ vectors).astype(np.float32)
    for start in range(0, len(image), 65536):
        image[start : start + 65536] += means[set_of_point[start : start + 65536]]
    return image


def _texts(rng: np.random.Generator, labels: sp.csr_array, n_words: int, length: float) -> sp.csr_array:
    n, n_labels = labels.shape
    # Topic 0 is the background. Each topic ranks the words in a different order of popularity.
    topics = np.array([rng.permutation(n_words) for _ in range(n_labels + 1)])
    lengths = 1 + rng.poisson(max(length - 1, 0), n)
    point = np.repeat(np.arange(n), lengths)
    n_labels_of_point = np.diff(labels.indptr)[point]
    pick = labels.indptr[point] + (rng.random(len(point)) * n_labels_of_point).astype(np.int64)
    topic = np.where(rng.random(len(point)) < 0.7, labels.indices[np.minimum(pick, labels.nnz - 1)] + 1, 0)
    rank = np.searchsorted(np.cumsum(_popularity(n_words)), rng.random(len(point)))
    words = topics[topic, np.minimum(rank, n_words - 1)]
    counts = sp.csr_array((np.ones(len(point), np.float32), (point, words)), shape=(n, n_words))
    counts.sum_duplicates()
    return counts


def _random_label_sets(rng: np.random.Generator, n_labels: int, n_sets: int) -> Mask:
    check_integer(n_sets, "n_label_sets", 1)
    if n_labels < 40 and n_sets > 2**n_labels - 1:
        raise InputError(f"n_label_sets is {n_sets} but {n_labels} labels form only {2**n_labels - 1} label sets")
    distinct: dict[bytes, Mask] = {}
    probability = np.minimum(0.5, 0.7 * _popularity(n_labels))
    while len(distinct) < n_sets:
        row = rng.random(n_labels) < probability
        row[rng.integers(n_labels)] = True
        distinct.setdefault(row.tobytes(), row)
        probability = 0.999 * probability + 0.0005  # towards 1/2, so that every set can occur
    return np.array(list(distinct.values()))


def _label_sets_like(rng: np.random.Generator, description: Description, n_points: int) -> tuple[Mask, Integers]:
    """Return the distinct label sets, and the number of each point's set."""
    if description.labels_per_point == 1:
        sets, counts = np.eye(description.n_labels, dtype=bool), np.ones(description.n_labels)
    else:
        sets, counts = _scene_label_sets(rng, description)
    # At full size every set occurs at least once; the remaining points are drawn in proportion to the counts.
    n_full = max(n_points, description.n_points)
    further = rng.choice(len(sets), n_full - len(sets), p=counts / counts.sum())
    set_of_point = np.concatenate([np.arange(len(sets)), further])
    return sets, rng.permutation(set_of_point)[:n_points]


def _scene_label_sets(rng: np.random.Generator, description: Description) -> tuple[Mask, Floats]:
    """Draw the required number of distinct label sets, each from a random scene, and count how often each was drawn."""
    n_labels = description.n_labels
    # Each scene has a probability for each label, scaled to the required mean number of labels per labelled point.
    logits = -0.7 * np.log(np.arange(1, n_labels + 1)) + 1.5 * rng.standard_normal((2 * n_labels, n_labels))
    low, high = -20.0, 20.0
    for _ in range(60):  # bisection: the mean number of labels of a labelled point increases with the shift
        shift = (low + high) / 2
        probabilities = 1 / (1 + np.exp(-(logits + shift)))
        non_empty = 1 - np.prod(1 - probabilities, axis=1)
        too_few = probabilities.sum() / non_empty.sum() < description.labels_per_point
        low, high = (shift, high) if too_few else (low, shift)
    counts: Counter[bytes] = Counter()
    while len(counts) < description.n_label_sets:
        uniform = rng.random((_DRAWS, n_labels))
        drawn = uniform < probabilities[rng.integers(len(probabilities), size=_DRAWS)]
        for row in np.packbits(drawn[drawn.any(axis=1)], axis=1):
            counts[row.tobytes()] += 1
            if len(counts) == description.n_label_sets:
                break
    packed = np.frombuffer(b"".join(counts), np.uint8).reshape(len(counts), -1)
    sets = np.unpackbits(packed, axis=1, count=n_labels).astype(bool)
    return sets, np.array(list(counts.values()), np.float64)
