"""Models and collections from the folders that commands name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dlfh.collection._collection import Collection
    from dlfh.collection._encoder import Encoder

__all__ = ["is_collection", "load_pipeline", "open_collection"]


def is_collection(path: Path) -> bool:
    """Return whether a folder is that of a collection."""
    return (path / "collection.json").exists()


def load_pipeline(path: Path, verbose: bool = False) -> Encoder:
    """Load the encoder of a model's folder or a collection's; a model of vectors alone becomes one."""
    from dlfh.collection._encoder import Encoder, load
    from dlfh.features import Vectors

    model = load(path / "model" if is_collection(path) else path)
    if not isinstance(model, Encoder):
        features = {name: Vectors() for name in model.modalities_}
        for name, featurizer in features.items():
            featurizer.n_features_ = model.n_features_[name]
        model = Encoder(features, model)
    for modality in model.modalities_:
        model.features[modality].verbose = verbose
    return model


def open_collection(path: Path, *, writable: bool = False, verbose: bool = False) -> Collection:
    """Open a collection."""
    from dlfh.collection._collection import Collection

    collection = Collection.open(path, writable=writable)
    for featurizer in collection.encoder.features.values():
        featurizer.verbose = verbose
    return collection
