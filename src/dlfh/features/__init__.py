"""Raw data to vectors: one file per featuriser, over a small base.

A featuriser is registered by the line that imports it here; everything else about it stands in its file.
"""

from dlfh.features._base import Featurizer, Readable, featurizer_from_parts
from dlfh.features._clip import Clip
from dlfh.features._combined import CombinedImage
from dlfh.features._gist import Gist
from dlfh.features._hog import Hog
from dlfh.features._images import ImageFeaturizer, read_image
from dlfh.features._text import BagOfWords
from dlfh.features._thumbnail import Thumbnail
from dlfh.features._vectors import Vectors

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
