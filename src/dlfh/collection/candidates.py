"""Featurisers that `Encoder.for_items` offers for each modality, by the names that choose them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from dlfh._optional import is_installed
from dlfh.datasets.problem import LABEL_WORDS
from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.datasets.items import Items
    from dlfh.features import Featurizer

#: Default code length; docs/answers.md compares the accuracy of several.
N_BITS = 128

Kind = Literal["image", "text"]

#: Kinds of image featurisers by name.
IMAGE_FEATURES = {
    "combined": "combined-image",
    "gist": "gist",
    "hog": "hog",
    "thumbnail": "thumbnail",
    "cnn": "efficientnet",
}

#: Parameters of `BagOfWords` by name.
TEXT_FEATURES = {
    "tfidf": {},
    "pieces": {"analyzer": "word+char", "min_df": 2},
    "count": {"weighting": "count"},
    "binary": {"weighting": "binary"},
}

#: Candidates of "auto", the default first; "cnn" is added if it is installed.
_AUTO: dict[Kind, tuple[str, ...]] = {"image": ("combined", "gist", "thumbnail"), "text": ("tfidf", "pieces")}


def candidate_featurizers(
    items: Items, *, image: str = "auto", text: str = "auto", verbose: bool = False
) -> dict[str, list[Featurizer]]:
    """Return the candidate featurisers of each modality; `Encoder.for_items` documents the parameters."""
    from dlfh.features import Vectors

    featurizers: dict[str, list[Featurizer]] = {}
    for name, values in items.modalities.items():
        if not isinstance(values, list):
            featurizers[name] = [Vectors()]
            continue
        kind: Kind = "text" if all(value is None or isinstance(value, str) for value in values) else "image"
        choice = {"image": image, "text": text}[kind]
        if choice != "auto":
            names: tuple[str, ...] = (choice,)
        elif name == LABEL_WORDS:
            names = ("tfidf",)
        else:
            names = (*_AUTO[kind], *(["cnn"] if kind == "image" and _has_network() else []))
        featurizers[name] = [_featurizer(name, each, kind, verbose) for each in names]
    return featurizers


def feature_names(kind: Kind) -> list[str]:
    """Return the names of all installed features of images or texts."""
    return [name for name in _features(kind) if name != "cnn" or _has_network()]


def _features(kind: Kind) -> tuple[str, ...]:
    return tuple(IMAGE_FEATURES if kind == "image" else TEXT_FEATURES)


def _has_network() -> bool:
    return all(map(is_installed, ("torch", "efficientnet_lite_pytorch")))


def _featurizer(modality: str, choice: str, kind: Kind, verbose: bool) -> Featurizer:
    from dlfh import features  # each featuriser is imported on first use

    family, _, folder = choice.partition(":")
    if family == "clip" and folder:
        return features.Clip(folder, tower=kind, verbose=verbose)
    if choice not in _features(kind):
        known = ", ".join(("auto", *_features(kind)))
        raise InputError(f"the features of {modality!r} must be {known} or clip:FOLDER, got {choice!r}")
    if kind == "text":
        return features.BagOfWords(**TEXT_FEATURES[choice], verbose=verbose)  # type: ignore[arg-type]
    featurizer: type[Any] = features.Featurizer._registry.find(IMAGE_FEATURES[choice])
    return featurizer(verbose=verbose)
