"""Raw data to vectors: one file per featuriser, over a small base.

A featuriser is registered by the line that imports it here; everything else about it stands in its file.
"""

from dlfh.features.base import Featurizer, Readable, featurizer_from_parts
from dlfh.features.clip import Clip
from dlfh.features.combined import CombinedImage
from dlfh.features.gist import Gist
from dlfh.features.hog import Hog
from dlfh.features.images import ImageFeaturizer, read_image
from dlfh.features.text import BagOfWords
from dlfh.features.thumbnail import Thumbnail
from dlfh.features.vectors import Vectors

__all__ = [
    "BagOfWords",
    "Clip",
    "CombinedImage",
    "Featurizer",
    "Gist",
    "Hog",
    "ImageFeaturizer",
    "Readable",
    "Thumbnail",
    "Vectors",
    "featurizer_from_parts",
    "read_image",
]
