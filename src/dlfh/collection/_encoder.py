"""From raw texts and images to codes: a featuriser for each modality, and a hashing method over them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt

from dlfh._parameters import Parameterized
from dlfh._validation import Features
from dlfh.codes import Codes, n_bytes, unpack
from dlfh.datasets._items import Items
from dlfh.datasets._tables import Problem
from dlfh.errors import InputError, ModelError, NotFittedError
from dlfh.features import (
    BagOfWords,
    Clip,
    CombinedImage,
    Featurizer,
    Gist,
    Hog,
    ImageFeaturizer,
    Thumbnail,
    Vectors,
    featurizer_from_parts,
)
from dlfh.methods import CrossModalHasher, hasher_from_parts
from dlfh.persistence._model_folder import read_model, write_model

__all__ = ["Coded", "Described", "Encoder", "choose_features", "from_parts", "load"]

Rows = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Described:
    """The vectors of some items, by modality, and which items they are of.

    Attributes
    ----------
    n_items : int
    features : dict of str to ndarray or CSR matrix
        A row for each item that has the modality, and has it in a form that can be read.
    rows : dict of str to ndarray of int64
        The items of these rows, ascending.
    problems : list of Problem
        What could not be read, and why.
    """

    n_items: int
    features: dict[str, Features]
    rows: dict[str, Rows]
    problems: list[Problem]

    def present(self, modality: str) -> Mask:
        """Return which items have a vector in a modality."""
        mask = np.zeros(self.n_items, bool)
        mask[self.rows[modality]] = True
        return mask

    def take(self, modality: str, rows: Rows) -> Features:
        """Return the vectors of some items, all of which have the modality."""
        return self.features[modality][np.searchsorted(self.rows[modality], rows)]


@dataclass(frozen=True)
class Coded:
    """The codes of some items, by modality.

    Attributes
    ----------
    codes : dict of str to ndarray of uint8 (items, bytes)
        Zeros for an item that has no code there.
    present, learned : dict of str to ndarray of bool (items,)
        Whether an item has a code, and whether training learned it; if not, the hash function made it.
    """

    codes: dict[str, Codes]
    present: dict[str, Mask]
    learned: dict[str, Mask]


class Encoder(Parameterized):
    """A hashing method that takes raw texts and images.

    Parameters
    ----------
    features : dict of str to Featurizer
        What turns each modality's raw values into vectors.
    model : CrossModalHasher
        What learns codes from the vectors.

    Examples
    --------
    >>> from dlfh import DLFH, Encoder
    >>> from dlfh.features import BagOfWords
    >>> english = ["a red car", "a blue car", "a small dog", "a big dog"] * 5
    >>> german = ["ein rotes Auto", "ein blaues Auto", "ein kleiner Hund", "ein grosser Hund"] * 5
    >>> encoder = Encoder({"english": BagOfWords(), "german": BagOfWords()}, DLFH(n_bits=16, random_state=0))
    >>> encoder = encoder.fit({"english": english, "german": german}, ["car", "car", "dog", "dog"] * 5)
    >>> encoder.encode("german", ["Auto", "Hund"]).shape
    (2, 2)
    """

    def __init__(self, features: Mapping[str, Featurizer], model: CrossModalHasher) -> None:
        self.features = features
        self.model = model

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self.model, "modalities_")

    @property
    def n_bits(self) -> int:
        return self.model.n_bits

    @property
    def modalities_(self) -> tuple[str, ...]:
        return self.model.modalities_

    @property
    def codes_(self) -> dict[str, Codes]:
        return self.model.codes_

    def fit(self, modalities: Mapping[str, Sequence[Any]], labels: Any = None) -> Self:
        """Learn features, codes and hash functions from complete items.

        Parameters
        ----------
        modalities : dict of str to sequence
            By modality, a raw value per item: texts, images (see `dlfh.features.read_image`) or vectors.
        labels : array-like, optional
            As for `CrossModalHasher.fit`.
        """
        if not isinstance(modalities, Mapping) or set(modalities) != set(self.features):
            got = sorted(modalities) if isinstance(modalities, Mapping) else type(modalities).__name__
            raise InputError(f"this encoder takes a dict of {sorted(self.features)}, got {got}")
        self.model.fit({name: self.features[name].fit_transform(modalities[name]) for name in self.features}, labels)
        return self

    def fit_items(self, items: Items) -> tuple[Described, Rows]:
        """Learn from items as they come: with missing texts, images that cannot be read, and some without labels.

        Features are learned from all values that there are; codes and hash functions from the items that have every
        modality and, if the method learns from labels, labels.

        Returns
        -------
        described : Described
        trained : ndarray of int64
            The items whose codes were learned, ascending.
        """
        self._check_learnable(items)
        described = self.describe(items, fit=True)
        complete = np.logical_and.reduce([described.present(name) for name in self.features])
        supervised = self.model.info.supervised
        trained = np.flatnonzero(complete & items.labelled() if supervised else complete)
        if len(trained) < 2:
            needs = " and ".join([*self.features, *(["labels"] if supervised else [])])
            number = {0: "no item has", 1: "only one item has"}[len(trained)]
            why = f" ({described.problems[0]})" if described.problems else ""
            raise InputError(f"there is nothing to learn from: {number} {needs}{why}")
        labels = items.take(trained).labels if supervised else None
        self.model.fit({name: described.take(name, trained) for name in self.features}, labels)
        return described, trained

    def _check_learnable(self, items: Items) -> None:
        """Say what is wrong before anything is read that takes long."""
        method, info = type(self.model).__name__, self.model.info
        self.model.check_parameters()
        least, most = info.n_modalities
        n = len(self.features)
        if n < least or n > (most or n):
            raise InputError(
                f"{method} takes {'exactly' if least == most else 'at least'} {least} modalities, and the items have "
                f"{n}: {', '.join(self.features)}"
            )
        if info.supervised and items.labels is None:
            raise InputError(
                f"{method} learns from labels and the items have none: name a column of labels, or choose a method "
                "that learns from pairs, such as CCAITQ"
            )

    def describe(self, items: Items, *, fit: bool = False) -> Described:
        """Return the vectors of what can be read of the items, in the modalities that this encoder knows."""
        unknown = sorted({*items.modalities} - {*self.features})
        if unknown:
            raise InputError(f"unknown modality {unknown[0]!r}: this model knows {', '.join(map(repr, self.features))}")
        if fit and set(items.modalities) != set(self.features):
            missing = sorted({*self.features} - {*items.modalities})[0]
            raise InputError(f"the items do not have the modality {missing!r}")
        features, found_rows, problems = {}, {}, []
        for name, values in items.modalities.items():
            rows = np.flatnonzero(items.present(name))
            given = [values[row] for row in rows] if isinstance(values, list) else values
            if fit and not len(rows):
                example = f": {items.problems[0]}" if items.problems else ""
                raise InputError(f"no item has the modality {name!r}{example}")
            featurizer = self.features[name]
            readable = featurizer.fit_transform_readable(given) if fit else featurizer.transform_readable(given)
            features[name], found_rows[name] = readable.features, rows[readable.rows]
            problems += [Problem(items.places[rows[row]], name, why) for row, why in sorted(readable.problems.items())]
        return Described(len(items), features, found_rows, problems)

    def code(self, described: Described, trained: Rows | None = None) -> Coded:
        """Return the items' codes: learned ones for the training items ``trained``, hashed ones for the rest."""
        codes, present, learned = {}, {}, {}
        for name in described.features:
            rows = described.rows[name]
            codes[name] = np.zeros((described.n_items, n_bytes(self.n_bits)), np.uint8)
            learned[name] = np.zeros(described.n_items, bool)
            if trained is not None and "learned" in self.model.info.protocols:
                codes[name][trained] = self.model.codes_[name]
                learned[name][trained] = True
                rows = np.setdiff1d(rows, trained, assume_unique=True)
            if len(rows):
                codes[name][rows] = self.model.encode(name, described.take(name, rows))
            present[name] = described.present(name)
        return Coded(codes, present, learned)

    def encode(self, modality: str, values: Any) -> Codes:
        """Return the packed codes of raw values of one modality.

        Parameters
        ----------
        modality : str
        values : sequence
            Texts, images or vectors, as the modality's featuriser takes them.

        Returns
        -------
        ndarray of uint8, shape (n, ceil(n_bits / 8))
        """
        return self.model.encode(modality, self.vectors(modality, values))

    def project(self, modality: str, values: Any) -> npt.NDArray[np.float32]:
        """Return the real values whose signs are the codes of raw values, for asymmetric ranking.

        Parameters
        ----------
        modality : str
        values : sequence

        Returns
        -------
        ndarray of float32, shape (n, n_bits)
        """
        return self.model.project(modality, self.vectors(modality, values))

    def image_modalities(self) -> tuple[str, ...]:
        """Return the modalities whose raw values are images."""
        return tuple(name for name, featurizer in self.features.items() if featurizer.takes == "images")

    def average(self, modality: str) -> npt.NDArray[np.float32]:
        """Return the mean code of the training items: what a projection less this says is special to its item.

        Parameters
        ----------
        modality : str

        Returns
        -------
        ndarray of float32, shape (n_bits,)
        """
        return unpack(self.codes_[modality], self.n_bits).mean(axis=0, dtype=np.float32)

    def vectors(self, modality: str, values: Any) -> Features:
        """Return the vectors of raw values of one modality, as its featuriser makes them."""
        if not hasattr(self.model, "modalities_"):
            raise NotFittedError("this Encoder is not fitted yet: call fit first")
        if modality not in self.features:
            known = ", ".join(map(repr, self.features))
            raise InputError(f"unknown modality {modality!r}: this model knows {known}")
        return self.features[modality].transform(values)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Save featurisers and model as one folder of safetensors and JSON, atomically."""
        config, arrays = self.model.to_parts()
        config["features"] = {}
        for name, featurizer in self.features.items():
            config["features"][name], own = featurizer.to_parts()
            arrays |= {f"features/{name}/{key}": array for key, array in own.items()}
        write_model(folder, config, arrays)


def load(folder: str | os.PathLike[str]) -> Any:
    """Load a model that was saved by ``model.save(folder)``.

    Parameters
    ----------
    folder : path
        Nothing in it is trusted: no code runs, and its checksum must match.

    Returns
    -------
    CrossModalHasher or Encoder
        What was saved; it encodes bit for bit the same.
    """
    return from_parts(folder, *read_model(folder))


def from_parts(folder: str | os.PathLike[str], config: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Any:
    """Return the model or encoder that was read from a folder."""
    try:
        model = hasher_from_parts(config, arrays)
        if "features" not in config:
            return model
        features = {}
        for name in model.modalities_:
            prefix = f"features/{name}/"
            own = {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}
            features[name] = featurizer_from_parts(config["features"][name], own)
            if features[name].n_features_ != model.n_features_[name]:
                raise ValueError(f"the features of {name!r} do not fit its hash function")
        return Encoder(features, model)
    except ModelError as error:
        raise ModelError(f"model {folder} cannot be loaded: {error}") from None
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"model {folder} is damaged: {error}") from None


def choose_features(
    items: Items, *, image: str = "gist", text: str = "tfidf", verbose: bool = False
) -> dict[str, Featurizer]:
    """Return a featuriser for each modality of the items, by what its values are.

    Parameters
    ----------
    items : Items
    image : str
        What describes images: ``gist``, ``hog``, ``thumbnail``, ``combined`` (the three together), or
        ``clip:FOLDER`` for a CLIP model.
    text : str
        What describes texts: ``tfidf``, ``count`` or ``binary`` bags of words, or ``clip:FOLDER``.
    verbose : bool
        Show progress bars.
    """
    features: dict[str, Featurizer] = {}
    for name, values in items.modalities.items():
        if not isinstance(values, list):
            features[name] = Vectors()
        elif all(value is None or isinstance(value, str) for value in values):
            features[name] = _chosen(name, text, "text", verbose)
        else:
            features[name] = _chosen(name, image, "image", verbose)
    return features


#: Image featurisers by the names that choose them.
_IMAGES: dict[str, Callable[..., ImageFeaturizer]] = {
    "gist": Gist,
    "hog": Hog,
    "thumbnail": Thumbnail,
    "combined": CombinedImage,
}


def _chosen(name: str, choice: str, tower: Literal["image", "text"], verbose: bool) -> Featurizer:
    kind, _, folder = choice.partition(":")
    if kind == "clip" and folder:
        return Clip(folder, tower=tower, verbose=verbose)
    if tower == "image" and choice in _IMAGES:
        return _IMAGES[choice](verbose=verbose)
    if tower == "text" and choice in ("tfidf", "count", "binary"):
        return BagOfWords(choice, verbose=verbose)  # type: ignore[arg-type]
    known = ", ".join(_IMAGES) if tower == "image" else "tfidf, count, binary"
    raise InputError(f"the features of {name!r} must be {known} or clip:FOLDER, got {choice!r}")
