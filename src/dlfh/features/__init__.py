"""Featurisers, which convert raw texts and images to vectors.

To add one, write its module and register it below, by its class name and by its kind in saved models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dlfh._imports import import_on_demand
from dlfh.features.base import Featurizer, Vectors

if TYPE_CHECKING:
    from dlfh.features.combined import CombinedImage
    from dlfh.features.gist import Gist
    from dlfh.features.network import Clip, EfficientNet
    from dlfh.features.text import BagOfWords

__all__ = ["BagOfWords", "Clip", "CombinedImage", "EfficientNet", "Featurizer", "Gist", "Vectors"]

Featurizer._registry.declare(
    __name__,
    {
        "bag-of-words": "text",
        "clip": "network",
        "combined-image": "combined",
        "efficientnet": "network",
        "gist": "gist",
        "hog": "combined",
        "thumbnail": "combined",
        "vectors": "base",
    },
)

__getattr__, __dir__ = import_on_demand(
    __name__, {"combined": "CombinedImage", "gist": "Gist", "network": "Clip EfficientNet", "text": "BagOfWords"}
)
