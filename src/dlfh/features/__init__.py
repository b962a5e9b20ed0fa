"""Raw data to vectors: one file per featuriser, over a small base.

A featuriser is registered by the line that imports it here; everything else about it stands in its file.
"""

from dlfh.features.base import Featurizer, Readable, featurizer_from_parts
from dlfh.features.gist import Gist
from dlfh.features.images import ImageFeaturizer, read_image
from dlfh.features.text import BagOfWords
from dlfh.features.vectors import Vectors

__all__ = [
    "BagOfWords",
    "Featurizer",
    "Gist",
    "ImageFeaturizer",
    "Readable",
    "Vectors",
    "featurizer_from_parts",
    "read_image",
]
