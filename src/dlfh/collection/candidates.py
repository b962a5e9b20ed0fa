"""What `dlfh build` learns with: the model that is recommended, and the featurisers for what items have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from dlfh._optional import is_installed
from dlfh.datasets.problem import LABEL_WORDS
from dlfh.errors import InputError

if TYPE_CHECKING:
    from dlfh.datasets.items import Items
    from dlfh.features import Featurizer
    from dlfh.methods import DLFH

__all__ = ["IMAGE_FEATURES", "N_BITS", "TEXT_FEATURES", "featurizers_for", "recommended_model"]

#: Bits by what they bring for their bytes (docs/answers.md, on validation items).
N_BITS = 128

Takes = Literal["image", "text"]

#: Image featurisers by the names that choose them.
IMAGE_FEATURES = {
    "combined": "CombinedImage",
    "gist": "Gist",
    "hog": "Hog",
    "thumbnail": "Thumbnail",
    "cnn": "EfficientNet",
}

#: Parameters of bags of words, by the names that choose them.
TEXT_FEATURES = {
    "tfidf": {},
    "pieces": {"analyzer": "word+char", "min_df": 2},
    "count": {"weighting": "count"},
    "binary": {"weighting": "binary"},
}

#: What is tried, in each case; the first is what is taken where nothing can be tried. A network is, if it is installed.
_TRIED: dict[Takes, tuple[str, ...]] = {"image": ("combined", "gist", "thumbnail"), "text": ("tfidf", "pieces")}


def recommended_model(**parameters: Any) -> DLFH:
    """Return the model that `dlfh build` takes by default, with parameters that a user sets.

    Examples
    --------
    >>> recommended_model(random_state=0)
    DLFH(n_bits=128, random_state=0)
    """
    from dlfh.methods import DLFH

    return DLFH(**{"n_bits": N_BITS, **parameters})


def featurizers_for(
    items: Items, *, image: str = "auto", text: str = "auto", verbose: bool = False
) -> dict[str, list[Featurizer]]:
    """Return the featurisers of each modality of the items, by what its values are: those that an encoder chooses from.

    Parameters
    ----------
    items : Items
    image : str
        What describes images: ``gist``, ``hog``, ``thumbnail``, ``combined`` (the three together), ``cnn`` (a network,
        which needs ``dlfh[cnn]``), or ``clip:FOLDER`` for a CLIP model. By default, ``auto``, a choice of several.
    text : str
        What describes texts: ``tfidf``, ``count`` or ``binary`` bags of words, ``pieces`` (of words, beside them), or
        ``clip:FOLDER``. By default, ``auto``, a choice of several.
    verbose : bool
        Show progress bars.

    Examples
    --------
    >>> from dlfh.datasets import Items
    >>> featurizers_for(Items.of({"text": ["a cat", "a dog"]}, labels=[["cat"], ["dog"]]))
    {'text': [BagOfWords(), BagOfWords(analyzer='word+char', min_df=2)]}
    """
    from dlfh.features import Vectors

    featurizers: dict[str, list[Featurizer]] = {}
    for name, values in items.modalities.items():
        if not isinstance(values, list):
            featurizers[name] = [Vectors()]
        elif name == LABEL_WORDS and text == "auto":
            featurizers[name] = _featurizers(name, "tfidf", "text", verbose)
        elif all(value is None or isinstance(value, str) for value in values):
            featurizers[name] = _featurizers(name, text, "text", verbose)
        else:
            featurizers[name] = _featurizers(name, image, "image", verbose)
    return featurizers


def _featurizers(name: str, choice: str, takes: Takes, verbose: bool) -> list[Featurizer]:
    if choice != "auto":
        return [_featurizer(name, choice, takes, verbose)]
    network = ["cnn"] if takes == "image" and all(map(is_installed, ("torch", "efficientnet_lite_pytorch"))) else []
    return [_featurizer(name, each, takes, verbose) for each in (*_TRIED[takes], *network)]


def _featurizer(name: str, choice: str, takes: Takes, verbose: bool) -> Featurizer:
    from dlfh import features  # each is imported when it is asked for: a search needs but its own

    kind, _, folder = choice.partition(":")
    if kind == "clip" and folder:
        return features.Clip(folder, tower=takes, verbose=verbose)
    if takes == "image" and choice in IMAGE_FEATURES:
        featurizer: Featurizer = getattr(features, IMAGE_FEATURES[choice])(verbose=verbose)
        return featurizer
    if takes == "text" and choice in TEXT_FEATURES:
        return features.BagOfWords(**TEXT_FEATURES[choice], verbose=verbose)  # type: ignore[arg-type]
    known = ", ".join(("auto", *(IMAGE_FEATURES if takes == "image" else TEXT_FEATURES)))
    raise InputError(f"the features of {name!r} must be {known} or clip:FOLDER, got {choice!r}")
