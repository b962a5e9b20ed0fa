"""Generated data with known structure: images as dense vectors, texts as bags of words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from dlfh._validation import check_integer, check_positive, check_random_state
from dlfh.datasets.paired import Paired
from dlfh.errors import InputError

__all__ = ["make_paired"]


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
    """Generate images and texts whose content depends on the points' labels.

    An image is the sum of a random vector for each of its labels, plus Gaussian noise. A text draws
    words from the topics of its labels and from a background common to all. Labels, label sets and
    words are popular to different degrees, as in real data.

    Parameters
    ----------
    n_points : int
    n_labels : int
        Number of different labels.
    n_label_sets : int, optional
        Number of different label sets that may occur, each of one label or more; 3 x n_labels by
        default, as far as there are so many.
    image_features, text_features : int
    words_per_point : float
        Average number of words in a text.
    noise : float
        Standard deviation of the images' noise; label vectors have entries of standard deviation 1.
    random_state : int, optional

    Returns
    -------
    Paired
        ``modalities["image"]`` is dense float32, ``modalities["text"]`` CSR float32 of word counts, and
        ``labels`` a sparse indicator matrix.

    Examples
    --------
    >>> data = make_paired(n_points=100, random_state=0)
    >>> data.modalities["image"].shape, data.modalities["text"].shape, data.labels.shape
    ((100, 64), (100, 200), (100, 10))
    """
    for name, value in (
        ("n_points", n_points),
        ("n_labels", n_labels),
        ("image_features", image_features),
        ("text_features", text_features),
    ):
        check_integer(value, name, 1)
    check_positive(words_per_point, "words_per_point")
    check_positive(noise, "noise", allow_zero=True)
    rng = check_random_state(random_state)
    default_sets = min(3 * n_labels, 2 ** min(n_labels, 40) - 1)
    sets = _label_sets(rng, n_labels, default_sets if n_label_sets is None else n_label_sets)
    set_of_point = rng.choice(sets.shape[0], n_points, p=_popularity(sets.shape[0]))
    labels = sp.csr_array(sets[set_of_point].astype(np.int8))
    image = generate_images(rng, sets, set_of_point, image_features, noise)
    text = generate_texts(rng, labels, text_features, words_per_point)
    return Paired({"image": image, "text": text}, labels)


def _popularity(n: int) -> npt.NDArray[np.float64]:
    weights = 1 / np.arange(1, n + 1) ** 0.7
    return weights / weights.sum()


def _label_sets(rng: np.random.Generator, n_labels: int, n_sets: int) -> npt.NDArray[np.bool_]:
    check_integer(n_sets, "n_label_sets", 1)
    if n_labels < 40 and n_sets > 2**n_labels - 1:
        raise InputError(f"there are only {2**n_labels - 1} label sets of {n_labels} labels, not {n_sets}")
    found: dict[bytes, npt.NDArray[np.bool_]] = {}
    chance = np.minimum(0.5, 0.7 * _popularity(n_labels))
    while len(found) < n_sets:
        row = rng.random(n_labels) < chance
        row[rng.integers(n_labels)] = True
        found.setdefault(row.tobytes(), row)
        chance = 0.999 * chance + 0.0005  # towards 1/2, so that every set can turn up
    return np.array(list(found.values()))


def generate_images(
    rng: np.random.Generator,
    sets: npt.NDArray[np.bool_],
    set_of_point: npt.NDArray[np.int64],
    n_features: int,
    noise: float,
) -> npt.NDArray[np.float32]:
    """Return images: the sum of a random vector for each of a point's labels, plus noise."""
    vectors = rng.standard_normal((sets.shape[1], n_features))
    image = rng.standard_normal((len(set_of_point), n_features), dtype=np.float32)
    image *= np.float32(noise)
    means = (sets @ vectors).astype(np.float32)
    for start in range(0, len(image), 65536):
        image[start : start + 65536] += means[set_of_point[start : start + 65536]]
    return image


def generate_texts(rng: np.random.Generator, labels: sp.csr_array, n_words: int, length: float) -> sp.csr_array:
    """Return bags of words, drawn from the topics of each point's labels and a background."""
    n, n_labels = labels.shape
    # Topic 0 is the background; each label's topic is a popularity over its own order of the words.
    topics = np.array([rng.permutation(n_words) for _ in range(n_labels + 1)])
    lengths = 1 + rng.poisson(max(length - 1, 0), n)
    point = np.repeat(np.arange(n), lengths)
    n_own = np.diff(labels.indptr)[point]
    pick = labels.indptr[point] + (rng.random(len(point)) * n_own).astype(np.int64)
    topic = np.where(rng.random(len(point)) < 0.7, labels.indices[np.minimum(pick, labels.nnz - 1)] + 1, 0)
    place = np.searchsorted(np.cumsum(_popularity(n_words)), rng.random(len(point)))
    words = topics[topic, np.minimum(place, n_words - 1)]
    counts = sp.csr_array((np.ones(len(point), np.float32), (point, words)), shape=(n, n_words))
    counts.sum_duplicates()
    return counts
