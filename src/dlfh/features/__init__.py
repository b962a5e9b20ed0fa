"""Raw data to vectors: one file per featuriser, over a small base.

A featuriser is registered by the line that names it here; everything else about it stands in its file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._lazy import import_on_demand
from dlfh.features._base import Featurizer

if TYPE_CHECKING:
    from dlfh.features._cache import cached
    from dlfh.features._clip import Clip
    from dlfh.features._combined import CombinedImage
    from dlfh.features._efficientnet import EfficientNet
    from dlfh.features._gist import Gist
    from dlfh.features._hog import Hog
    from dlfh.features._images import read_image
    from dlfh.features._text import BagOfWords
    from dlfh.features._thumbnail import Thumbnail
    from dlfh.features._vectors import Vectors

__all__ = [
    "BagOfWords",
    "Clip",
    "CombinedImage",
    "EfficientNet",
    "Featurizer",
    "Gist",
    "Hog",
    "Thumbnail",
    "Vectors",
    "cached",
    "read_image",
]

#: In which file each kind is that a saved model may name.
Featurizer.registry.expect(
    __name__,
    {
        "bag-of-words": "_text",
        "clip": "_clip",
        "combined-image": "_combined",
        "efficientnet": "_efficientnet",
        "gist": "_gist",
        "hog": "_hog",
        "thumbnail": "_thumbnail",
        "vectors": "_vectors",
    },
)

__getattr__, __dir__ = import_on_demand(
    __name__,
    {
        "_cache": "cached",
        "_clip": "Clip",
        "_combined": "CombinedImage",
        "_efficientnet": "EfficientNet",
        "_gist": "Gist",
        "_hog": "Hog",
        "_images": "read_image",
        "_text": "BagOfWords",
        "_thumbnail": "Thumbnail",
        "_vectors": "Vectors",
    },
)
