"""Models and collections that commands open, and databases for the items of new collections."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dlfh.collection import Collection, Encoder


ItemsAt = Annotated[
    str | None,
    typer.Option(
        "--items",
        help="Database for the items: postgresql://HOST/DATABASE#TABLE, duckdb:FILE#TABLE or milvus://HOST:PORT#TABLE. "
        "Default: files in the output folder.",
    ),
]


def stored_in(address: str | None) -> str:
    """Return the part of a message that says in which database items are stored; empty if in none."""
    return "" if address is None else f", stored in {address}: name this address in DLFH_ENGINES to open them"


def load_encoder(path: Path, verbose: bool = False) -> Encoder:
    """Load the encoder of a model folder or a collection; wrap a bare method in an encoder of vectors."""
    from dlfh.collection import Encoder, load
    from dlfh.collection.folder import is_collection
    from dlfh.features import Vectors

    model = load(path / "model" if is_collection(path) else path)
    if not isinstance(model, Encoder):
        features = {name: Vectors() for name in model.modalities_}
        for name, featurizer in features.items():
            featurizer.n_features_ = model.n_features_[name]
        model = Encoder.from_fitted(features, model)
    set_verbosity(model, verbose)
    return model


def open_collection(path: Path, *, writable: bool = False, verbose: bool = False) -> Collection:
    """Open a collection."""
    from dlfh.collection import Collection

    collection = Collection.open(path, writable=writable)
    set_verbosity(collection.encoder, verbose)
    return collection


def set_verbosity(encoder: Encoder, verbose: bool) -> None:
    """Let the featurizers of an encoder report progress, or not."""
    for featurizer in encoder.featurizers_.values():
        featurizer.verbose = verbose
